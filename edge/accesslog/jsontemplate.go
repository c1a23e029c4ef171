package accesslog

import (
	"fmt"
	"strings"
)

// compileJSON makes a format from a format string that writes JSON, like nginx's
// log_format j escape=json '{"ts":"$time_iso8601","status":$status}'. A value that is more than one variable is skipped.
func compileJSON(src string) (Format, error) {
	t := jsonTable{keys: map[string]field{}}
	rest, err := templateObject(strings.TrimSpace(src), "", &t)
	if err == nil && strings.TrimSpace(rest) != "" {
		err = fmt.Errorf("text after the object: %q", rest)
	}
	if err != nil {
		return Format{}, fmt.Errorf("JSON format string: %w", err)
	}
	p := program{}
	for _, f := range t.keys {
		p.steps = append(p.steps, step{field: f})
	}
	if err := p.check(); err != nil {
		return Format{}, fmt.Errorf("JSON format string: %w", err)
	}
	return Format{Name: "custom-json", Doc: "compiled from a JSON format string", Source: src, make: t.parser}, nil
}

// templateObject reads an object of the template and gives what follows it.
func templateObject(s, path string, t *jsonTable) (string, error) {
	s = strings.TrimSpace(s[1:])
	for {
		if s == "" {
			return "", fmt.Errorf("object is not closed")
		}
		if s[0] == '}' {
			return s[1:], nil
		}
		key, rest, ok := templateString(s)
		if !ok {
			return "", fmt.Errorf("no key at %q", s)
		}
		s = strings.TrimSpace(rest)
		if s == "" || s[0] != ':' {
			return "", fmt.Errorf("no colon after key %q", key)
		}
		s = strings.TrimSpace(s[1:])
		var err error
		if s, err = templateValue(s, path+key, t); err != nil {
			return "", err
		}
		s = strings.TrimSpace(s)
		if s != "" && s[0] == ',' {
			s = strings.TrimSpace(s[1:])
		}
	}
}

// templateValue reads one value and notes its field.
func templateValue(s, path string, t *jsonTable) (string, error) {
	if s == "" {
		return "", fmt.Errorf("no value for key %q", path)
	}
	if s[0] == '{' && !strings.HasPrefix(s, "{$") {
		return templateObject(s, path+">", t)
	}
	var value string
	if s[0] == '"' {
		v, rest, ok := templateString(s)
		if !ok {
			return "", fmt.Errorf("string of key %q is not closed", path)
		}
		value, s = v, rest
	} else {
		end := strings.IndexAny(s, ",}\n\t ")
		if i := strings.IndexByte(s, '%'); i == 0 { // Apache's and Envoy's braces
			if m := envoyValue.FindString(s); m != "" && strings.HasPrefix(s, m) {
				end = len(m)
			} else if b := strings.IndexByte(s, '}'); strings.HasPrefix(s, "%{") && b > 0 {
				end = min(b+2, len(s))
			}
		}
		if strings.HasPrefix(s, "${") {
			if b := strings.IndexByte(s, '}'); b > 0 {
				end = b + 1
			}
		}
		if end < 0 {
			return "", fmt.Errorf("object is not closed after key %q", path)
		}
		value, s = s[:end], s[end:]
	}
	if toks, err := lex(value); err == nil {
		if toks = merge(toks); len(toks) == 1 && toks[0].value() {
			t.keys[path] = toks[0].field
		} else if len(toks) == 3 && toks[1].value() && toks[0].lit == "[" && toks[2].lit == "]" { // Apache's %t
			t.keys[path] = toks[1].field
		}
	}
	return s, nil
}

// templateString reads a string and gives what follows it. Keys with escapes are left as written.
func templateString(s string) (v, rest string, ok bool) {
	if s == "" || s[0] != '"' {
		return "", "", false
	}
	end := stringEnd([]byte(s), 1)
	if end < 0 {
		return "", "", false
	}
	return s[1:end], s[end+1:], true
}
