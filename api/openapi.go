package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"time"
)

// object is a JSON object of the OpenAPI document.
type object = map[string]any

func (a *API) openAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(a.document()) // the client is gone: nobody is left to tell
}

// document gives the OpenAPI description of all routes.
func (a *API) document() object {
	d := describer{schemas: object{}}
	paths := object{}
	for _, r := range a.routes() {
		path, _ := paths[r.path].(object)
		if path == nil {
			path = object{}
			paths[r.path] = path
		}
		path[strings.ToLower(r.method)] = d.operation(r)
	}
	d.schemas["Failure"] = object{
		"type": "object", "required": []string{"success", "errors", "messages", "result"},
		"properties": object{
			"success": object{"type": "boolean", "enum": []bool{false}}, "result": object{"nullable": true, "type": "object"},
			"errors": d.of(reflect.TypeFor[[]apiError]()), "messages": d.of(reflect.TypeFor[[]apiError]()),
		},
	}
	return object{
		"openapi": "3.0.3",
		"info": object{
			"title": "Spate API", "version": "1",
			"description": "Traffic of web sites. Every answer but the live stream is an envelope of success, errors, messages and result.",
			"license":     object{"name": "Apache-2.0"},
		},
		"paths": paths,
		"components": object{
			"schemas": d.schemas,
			"securitySchemes": object{
				"token": object{"type": "http", "scheme": "bearer"},
				"email": object{"type": "apiKey", "in": "header", "name": "X-Auth-Email"},
				"key":   object{"type": "apiKey", "in": "header", "name": "X-Auth-Key"},
			},
		},
		"security": []object{{"token": []string{}}, {"email": []string{}, "key": []string{}}},
	}
}

// describer turns routes and Go types into their description.
type describer struct{ schemas object }

func (d describer) operation(r route) object {
	params := []object{}
	if strings.Contains(r.path, "{zone}") {
		params = append(params, object{
			"name": "zone", "in": "path", "required": true, "description": "Id of the zone.",
			"schema": object{"type": "string", "pattern": "^[0-9a-f]{32}$"},
		})
	}
	for _, p := range r.params {
		params = append(params, p.describe())
	}
	media, schema := "application/json", object{"type": "object", "required": []string{"success", "errors", "messages", "result"}}
	if r.stream != nil {
		media, schema = "text/event-stream", d.of(reflect.TypeOf(r.result))
	} else {
		schema["properties"] = d.envelope(r)
	}
	return object{
		"operationId": r.name, "summary": r.summary, "parameters": params,
		"responses": object{
			"200": object{"description": "The answer.", "content": object{media: object{"schema": schema}}},
			"default": object{"description": "Why there is none.", "content": object{
				"application/json": object{"schema": object{"$ref": "#/components/schemas/Failure"}},
			}},
		},
	}
}

func (d describer) envelope(r route) object {
	fields := object{
		"success": object{"type": "boolean", "enum": []bool{true}}, "result": d.of(reflect.TypeOf(r.result)),
		"errors": d.of(reflect.TypeFor[[]apiError]()), "messages": d.of(reflect.TypeFor[[]apiError]()),
	}
	if r.query {
		fields["query"] = d.of(reflect.TypeFor[queryEcho]())
	}
	if r.paged {
		fields["result_info"] = d.of(reflect.TypeFor[resultInfo]())
	}
	return fields
}

func (p param) describe() object {
	schema := object{"type": p.kind}
	if p.kind == "moment" {
		schema = object{"anyOf": []object{{"type": "string"}, {"type": "integer"}}}
	}
	if p.byDefault != nil {
		schema["default"] = p.byDefault
	}
	if p.oneOf != nil {
		schema["enum"] = p.oneOf
	}
	required := p.oneOf != nil && p.byDefault == nil
	return object{"name": p.name, "in": "query", "required": required, "description": p.about, "schema": schema}
}

// of describes a type as encoding/json writes it. Structs become named schemas.
func (d describer) of(t reflect.Type) object {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Pointer:
		inner := d.of(t.Elem())
		inner["nullable"] = true
		return inner
	}
	switch t.Kind() {
	case reflect.Struct:
		name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
		if _, known := d.schemas[name]; !known {
			d.schemas[name] = object{} // ends recursion
			d.schemas[name] = d.structure(t)
		}
		return object{"$ref": "#/components/schemas/" + name}
	case reflect.Slice:
		return object{"type": "array", "items": d.of(t.Elem())}
	case reflect.Array:
		return object{"type": "array", "items": d.of(t.Elem()), "minItems": t.Len(), "maxItems": t.Len()}
	case reflect.Map:
		if t.Elem().Kind() == reflect.Interface {
			return object{"type": "object"}
		}
		return object{"type": "object", "additionalProperties": d.of(t.Elem())}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.String:
		return object{"type": "string"}
	default:
		return object{"type": "integer", "format": "int64"}
	}
}

func (d describer) structure(t reflect.Type) object {
	fields, required := object{}, []string{}
	for i := range t.NumField() {
		if t.Field(i).Anonymous { // its fields are those of t
			inner := d.structure(t.Field(i).Type)
			maps.Copy(fields, inner["properties"].(object))
			required = append(required, inner["required"].([]string)...)
			continue
		}
		tag, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if tag == "-" || tag == "" {
			continue
		}
		fields[tag] = d.of(t.Field(i).Type)
		if options != "omitempty" {
			required = append(required, tag)
		}
	}
	return object{"type": "object", "properties": fields, "required": required}
}
