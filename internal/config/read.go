package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"
)

// EnvPrefix begins the name of every environment variable that overrides a key: edge.batch.max_events is
// SPATE_EDGE_BATCH_MAX_EVENTS.
const EnvPrefix = "SPATE_"

// Validator is what the root configuration implements.
type Validator interface{ Validate(p *Problems) }

// Read fills into, which holds the defaults, from the YAML in r and then from environ (as os.Environ gives it), and
// validates the result. r may be nil. All problems come back together: unknown keys and values of a wrong type with
// path and line, then broken rules with path and value.
func Read(r io.Reader, environ []string, into Validator) error {
	var p Problems
	if r != nil {
		var doc yaml.Node
		if err := yaml.NewDecoder(r).Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("parse yaml: %w", err)
		}
		if len(doc.Content) == 1 {
			fill(doc.Content[0], reflect.ValueOf(into).Elem(), "", &p)
		}
	}
	override(environ, reflect.ValueOf(into).Elem(), "", &p)
	if err := p.Err(); err != nil {
		return err
	}
	into.Validate(&p)
	return p.Err()
}

// fill decodes node into v, going down into structs itself so that every problem gets its path.
func fill(node *yaml.Node, v reflect.Value, path string, p *Problems) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if v.Kind() != reflect.Struct || isLeaf(v) {
		fillLeaf(node, v, path, p)
		return
	}
	if node.Kind == yaml.ScalarNode && node.Tag == "!!null" {
		return // a section with all its keys commented out
	}
	if node.Kind != yaml.MappingNode {
		p.Add(path, node.Value, fmt.Sprintf("must be a mapping of keys (line %d)", node.Line))
		return
	}
	fields := fieldsByKey(v)
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		field, known := fields[key.Value]
		switch at := join(path, key.Value); {
		case !known:
			p.Add(at, nil, fmt.Sprintf("is not a known key (line %d); known here: %s", key.Line, keys(fields)))
		case seen[key.Value]:
			p.Add(at, nil, fmt.Sprintf("is set twice (line %d)", key.Line))
		default:
			seen[key.Value] = true
			fill(value, field, at, p)
		}
	}
}

func fillLeaf(node *yaml.Node, v reflect.Value, path string, p *Problems) {
	if v.Kind() == reflect.Slice && node.Kind == yaml.SequenceNode {
		list := reflect.MakeSlice(v.Type(), len(node.Content), len(node.Content))
		for i, item := range node.Content {
			if d, ok := list.Index(i).Addr().Interface().(interface{ SetDefaults() }); ok {
				d.SetDefaults()
			}
			fill(item, list.Index(i), fmt.Sprintf("%s[%d]", path, i), p)
		}
		v.Set(list)
		return
	}
	if err := node.Decode(v.Addr().Interface()); err != nil {
		p.Add(path, describe(node), fmt.Sprintf("%s (line %d)", reason(err, v.Type()), node.Line))
	}
}

// override applies environment variables to every leaf below v.
func override(environ []string, v reflect.Value, path string, p *Problems) {
	env := map[string]string{}
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok && strings.HasPrefix(name, EnvPrefix) {
			env[name] = value
		}
	}
	if len(env) > 0 {
		overrideFrom(env, v, path, p)
	}
}

func overrideFrom(env map[string]string, v reflect.Value, path string, p *Problems) {
	if v.Kind() == reflect.Struct && !isLeaf(v) {
		for key, field := range fieldsByKey(v) {
			overrideFrom(env, field, join(path, key), p)
		}
		return
	}
	name := EnvName(path)
	value, ok := env[name]
	if !ok {
		return
	}
	node := yaml.Node{Kind: yaml.ScalarNode, Value: value}
	if k := v.Kind(); k == reflect.Slice || k == reflect.Map {
		var doc yaml.Node // a list is given in YAML's flow form: [a, b]
		if err := yaml.Unmarshal([]byte(value), &doc); err != nil || len(doc.Content) != 1 {
			p.Add(path, value, "from "+name+" must be YAML such as [a, b]")
			return
		}
		node = *doc.Content[0]
	}
	if v.Kind() == reflect.String {
		node.Tag = "!!str"
	}
	if err := node.Decode(v.Addr().Interface()); err != nil {
		p.Add(path, value, "from "+name+": "+reason(err, v.Type()))
	}
}

// EnvName returns the environment variable that overrides the key at path.
func EnvName(path string) string {
	return EnvPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(path))
}

// Print writes the configuration as YAML. Secrets are masked.
func Print(w io.Writer, cfg any) error {
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(cfg); err != nil {
		return fmt.Errorf("print configuration: %w", err)
	}
	return enc.Close()
}

// ReadFile is Read on the file at path with this process' environment. An empty path reads the environment alone.
func ReadFile(path string, into Validator) error {
	if path == "" {
		return Read(nil, os.Environ(), into)
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open configuration: %w", err)
	}
	defer f.Close()
	if err := Read(f, os.Environ(), into); err != nil {
		return fmt.Errorf("configuration %s:\n%w", path, err)
	}
	return nil
}

// fieldsByKey maps the YAML keys of the struct v to its fields; inline structs are flattened.
func fieldsByKey(v reflect.Value) map[string]reflect.Value {
	fields := map[string]reflect.Value{}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() {
			continue
		}
		name, opts, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case strings.Contains(opts, "inline"):
			for k, sub := range fieldsByKey(v.Field(i)) {
				fields[k] = sub
			}
		case name == "-":
		case name == "":
			fields[strings.ToLower(f.Name)] = v.Field(i)
		default:
			fields[name] = v.Field(i)
		}
	}
	return fields
}

// isLeaf says that a struct decodes itself.
func isLeaf(v reflect.Value) bool {
	switch v.Addr().Interface().(type) {
	case yaml.Unmarshaler, interface{ UnmarshalText([]byte) error }:
		return true
	}
	return false
}

func keys(fields map[string]reflect.Value) string {
	names := make([]string, 0, len(fields))
	for k := range fields {
		names = append(names, k)
	}
	sort.Strings(names)
	return strings.Join(names, ", ")
}

func join(path, key string) string { return strings.Trim(path+"."+key, ".") }

func describe(node *yaml.Node) any {
	if node.Kind == yaml.ScalarNode {
		return fmt.Sprintf("%q", node.Value)
	}
	return "a " + map[yaml.Kind]string{yaml.SequenceNode: "list", yaml.MappingNode: "mapping"}[node.Kind]
}

// reason turns a decoding error into a rule. The YAML library speaks of Go types and of its own tags; a person should not
// have to.
func reason(err error, t reflect.Type) string {
	var typeErr *yaml.TypeError
	if !errors.As(err, &typeErr) {
		return "must be valid: " + err.Error()
	}
	switch t.Kind() {
	case reflect.Bool:
		return "must be true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "must be a whole number in range"
	case reflect.Float32, reflect.Float64:
		return "must be a number"
	case reflect.Slice:
		return "must be a list"
	case reflect.Map:
		return "must be a mapping"
	}
	return "must be a " + t.Kind().String()
}
