package api

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spate-io/spate/internal/testdata"
	"github.com/spate-io/spate/internal/zone"
)

// decode reads JSON with numbers kept as they are.
func decode(t testing.TB, s string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %.200s", err, s)
	}
	return v
}

// kind names a JSON type; integers are told from other numbers.
func kind(v any) string {
	switch v := v.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	case json.Number:
		if _, err := v.Int64(); err == nil {
			return "integer"
		}
		return "number"
	default:
		return "null"
	}
}

// open are the objects whose keys are data.
var open = []string{
	"content_type", "country", "http_status", "ip_class", "ssl_protocol", "ssl_protocols", "type", "search_engine", "search_engines",
}

// like checks that got has every key of want with the same type, at any depth.
func like(t *testing.T, path string, want, got any) {
	t.Helper()
	if kind(want) != kind(got) {
		t.Errorf("%s is %s, in the original %s", path, kind(got), kind(want))
		return
	}
	switch want := want.(type) {
	case map[string]any:
		if slices.Contains(open, path[strings.LastIndexByte(path, '.')+1:]) {
			return
		}
		for k, v := range want {
			other, ok := got.(map[string]any)[k]
			if !ok {
				t.Errorf("%s.%s is missing", path, k)
				continue
			}
			like(t, path+"."+k, v, other)
		}
	case []any:
		for i, v := range got.([]any) {
			if len(want) > 0 {
				like(t, fmt.Sprintf("%s[%d]", path, i), want[0], v)
			}
		}
	}
}

func TestDashboard_HasTheShapeOfTheOriginal(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(testdata.Dir(t), "golden", "cf_zone_analytics_dashboard.json"))
	if err != nil {
		t.Skip("no golden answer: ", err)
	}
	s := serve(t, DefaultConfig(), Deps{})
	a := get(t, s, "/client/v4/zones/"+zone.ID("one.com")+"/analytics/dashboard?since=-30")
	like(t, "", decode(t, string(raw)), decode(t, a.body))
	if strings.Contains(a.body, "null") {
		t.Error("an empty answer has null in it")
	}
}

func TestDashboard_FitsThePublishedDescription(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(testdata.Dir(t), "openapi", "analytics_dashboard.json"))
	if err != nil {
		t.Skip("no description: ", err)
	}
	op := decode(t, string(raw)).(map[string]any)
	s := serve(t, DefaultConfig(), Deps{})
	base := "/client/v4/zones/" + zone.ID("one.com") + "/analytics/dashboard"
	good := get(t, s, base+"?since=-90")
	valid(t, "200", schemaOf(op, "200"), decode(t, good.body))
	bad := get(t, s, base+"?since=-900000")
	if e := bad.env.Errors; bad.env.Success || len(e) != 1 || e[0].Code < 1000 || e[0].Message == "" {
		t.Errorf("failure %s", bad.body) // the description demands success and a result also of failures, which no real answer has
	}
}

func schemaOf(op map[string]any, status string) map[string]any {
	r := op["responses"].(map[string]any)[status].(map[string]any)
	return r["content"].(map[string]any)["application/json"].(map[string]any)["schema"].(map[string]any)
}

// valid checks a value against an OpenAPI schema with its references resolved, and that every property the schema names is there.
func valid(t *testing.T, path string, schema map[string]any, v any) {
	t.Helper()
	if err := violation(path, schema, v); err != nil {
		t.Error(err)
	}
}

func violation(path string, schema map[string]any, v any) error {
	for _, part := range list(schema["allOf"]) {
		if err := violation(path, part.(map[string]any), v); err != nil {
			return err
		}
	}
	if alternatives := list(schema["anyOf"]); len(alternatives) > 0 {
		var err error
		for _, alternative := range alternatives {
			if err = violation(path, alternative.(map[string]any), v); err == nil {
				break
			}
		}
		if err != nil {
			return err
		}
	}
	if v == nil {
		if schema["nullable"] == true || schema["type"] == nil {
			return nil
		}
		return fmt.Errorf("%s is null", path)
	}
	if want, _ := schema["type"].(string); want != "" && want != kind(v) && !(want == "number" && kind(v) == "integer") {
		return fmt.Errorf("%s is %s, described as %s", path, kind(v), want)
	}
	if values := list(schema["enum"]); len(values) > 0 && !slices.Contains(values, v) {
		return fmt.Errorf("%s is %v, described as one of %v", path, v, values)
	}
	switch v := v.(type) {
	case map[string]any:
		return propertyViolation(path, schema, v)
	case []any:
		items, _ := schema["items"].(map[string]any)
		for i, e := range v {
			if err := violation(fmt.Sprintf("%s[%d]", path, i), items, e); err != nil {
				return err
			}
		}
	}
	return nil
}

func propertyViolation(path string, schema, v map[string]any) error {
	for _, name := range list(schema["required"]) {
		if _, ok := v[name.(string)]; !ok {
			return fmt.Errorf("%s.%s is missing", path, name)
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, p := range properties {
		e, ok := v[name]
		switch {
		case ok:
			if err := violation(path+"."+name, p.(map[string]any), e); err != nil {
				return err
			}
		case schema["required"] == nil && !strings.HasSuffix(path, "ssl_protocols"): // a description without the word means all
			return fmt.Errorf("%s.%s is missing", path, name)
		}
	}
	if extra, ok := schema["additionalProperties"].(map[string]any); ok {
		for name, e := range v {
			if err := violation(path+"."+name, extra, e); err != nil {
				return err
			}
		}
	}
	return nil
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

// resolve replaces references by what they point to.
func resolve(doc map[string]any, v any) any {
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			at := any(doc)
			for key := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
				at = at.(map[string]any)[key]
			}
			out := resolve(doc, at).(map[string]any)
			if v["nullable"] == true {
				out["nullable"] = true
			}
			return out
		}
		out := map[string]any{}
		for k, e := range v {
			out[k] = resolve(doc, e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = resolve(doc, e)
		}
		return out
	default:
		return v
	}
}

func TestOpenAPI_DescribesWhatIsAnswered(t *testing.T) {
	s := serve(t, DefaultConfig(), Deps{Status: func() any { return map[string]any{"version": "x"} }})
	doc := decode(t, get(t, s, "/api/openapi.json").body).(map[string]any)
	paths := doc["paths"].(map[string]any)
	if len(paths) != len((&API{}).routes()) {
		t.Errorf("%d paths", len(paths))
	}
	for path, item := range paths {
		op := resolve(doc, item.(map[string]any)["get"]).(map[string]any)
		if op["operationId"] == "live" {
			continue // TestLive checks its ticks
		}
		url := strings.Replace(path, "{zone}", zone.ID("one.com"), 1)
		if op["operationId"] == "top" {
			url += "?dimension=path"
		}
		a := get(t, s, url)
		if a.status != 200 {
			t.Errorf("%s: %s", url, a.body)
			continue
		}
		valid(t, url, schemaOf(op, "200"), decode(t, a.body))
		bad := get(t, s, url, "Host: evil.example")
		valid(t, url, schemaOf(op, "default"), decode(t, bad.body))
	}
}
