package policyschema

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/nodeadmit/nodeadmit/pkg/policy"
)

// Schema returns the JSON Schema (draft 2020-12) of NodePolicy documents.
func Schema() ([]byte, error) {
	s := schemaOf(reflect.TypeFor[NodePolicy](), "")
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["$id"] = "https://nodeadmit.dev/schemas/nodepolicy-v1alpha1.json"
	s["title"] = "nodeadmit NodePolicy"
	data, err := json.MarshalIndent(s, "", "  ")
	return append(data, '\n'), err
}

type object = map[string]any

func schemaOf(t reflect.Type, tag reflect.StructTag) object {
	s := object{}
	if doc := tag.Get("doc"); doc != "" {
		s["description"] = doc
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem(), tag)
	case reflect.Bool:
		s["type"] = "boolean"
	case reflect.Int:
		s["type"] = "integer"
	case reflect.String:
		s["type"] = "string"
		words(s, tag)
		if p := tag.Get("pattern"); p != "" {
			s["pattern"] = p
		}
		if c := tag.Get("const"); c != "" {
			s["const"] = c
		}
	case reflect.Slice:
		s["type"] = "array"
		items := schemaOf(t.Elem(), "")
		if t.Elem().Kind() == reflect.String {
			words(items, tag)
		}
		// Two lists take a plain value for an object.
		switch t.Elem() {
		case reflect.TypeFor[Interval]():
			items = object{"anyOf": []any{object{"type": "integer"}, items}}
		case reflect.TypeFor[Pair]():
			items = object{"anyOf": []any{object{"type": "string"}, items}}
		}
		s["items"] = items
	case reflect.Map:
		s["type"] = "object"
		s["additionalProperties"] = schemaOf(t.Elem(), "")
	case reflect.Struct:
		s["type"] = []any{"object", "null"}
		s["additionalProperties"] = false
		properties, required := object{}, []string{}
		for _, f := range reflect.VisibleFields(t) {
			if f.Anonymous {
				continue
			}
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			properties[name] = schemaOf(f.Type, f.Tag)
			if options != "omitempty" {
				required = append(required, name)
			}
		}
		s["properties"] = properties
		if len(required) > 0 {
			s["type"], s["required"] = "object", required
		}
	}
	return s
}

func words(s object, tag reflect.StructTag) {
	switch enum := tag.Get("enum"); enum {
	case "":
	case "@controls":
		s["enum"] = policy.ControlNames()
	default:
		s["enum"] = strings.Split(enum, ",")
	}
}
