package catalog

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// resolve reads a listed schema as others do.
func resolve(t *testing.T, name string, text []byte) *jsonschema.Resolved {
	t.Helper()
	var parsed jsonschema.Schema
	if err := json.Unmarshal(text, &parsed); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	resolved, err := parsed.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		t.Fatalf("what is listed as %s is no schema to others: %v", name, err)
	}
	return resolved
}

// The schema that clients check answers against takes every failure, too; and examples pass where a
// client checks arguments by the list.
func TestListedSchemasAreTrue(t *testing.T) {
	failure := map[string]any{"error": map[string]any{"code": "stopped", "retryable": false, "details": []any{1.0}}}
	for _, d := range embeddedCatalog(t).All() {
		if err := resolve(t, string(d.Tool)+" result", d.ModelResult()).Validate(failure); err != nil {
			t.Errorf("%s: a failure does not fit: %v", d.Tool, err)
		}
		input := resolve(t, string(d.Tool)+" input", d.ModelInput(false))
		for _, e := range d.Examples {
			var args any
			if err := json.Unmarshal(e.Args, &args); err != nil || input.Validate(args) != nil {
				t.Errorf("%s: the example %q does not fit what is listed", d.Tool, e.Title)
			}
		}
	}
}

// Some clients refuse a property whose type they are not told.
func TestListedPropertiesHaveTypes(t *testing.T) {
	var walk func(at string, node any)
	walk = func(at string, node any) {
		schema, _ := node.(map[string]any)
		if schema["type"] == nil && schema["anyOf"] == nil && schema["oneOf"] == nil {
			t.Errorf("%s has no type", at)
		}
		properties, _ := schema["properties"].(map[string]any)
		for name, p := range properties {
			walk(at+"/"+name, p)
		}
		for _, key := range []string{"anyOf", "oneOf"} {
			branches, _ := schema[key].([]any)
			for _, b := range branches {
				walk(at+"/"+key, b)
			}
		}
		if items := schema["items"]; items != nil {
			walk(at+"/items", items)
		}
	}
	for _, d := range embeddedCatalog(t).All() {
		var doc any
		if err := json.Unmarshal(d.ModelInput(false), &doc); err != nil {
			t.Fatal(err)
		}
		walk(string(d.Tool), doc)
	}
}

// The list names every field there is, but for the captured bytes.
func TestListedSchemasNameEveryField(t *testing.T) {
	for _, d := range embeddedCatalog(t).All() {
		for _, pair := range [][2]json.RawMessage{{d.FullInput(false), d.ModelInput(false)}, {d.Result, d.ModelResult()}} {
			var full, listed struct{ Properties map[string]any }
			if json.Unmarshal(pair[0], &full) != nil || json.Unmarshal(pair[1], &listed) != nil {
				t.Fatal(d.Tool)
			}
			for name := range full.Properties {
				if _, ok := listed.Properties[name]; ok == strings.HasPrefix(name, bytesField) {
					t.Errorf("%s: %s is listed: %v", d.Tool, name, ok)
				}
			}
			for _, word := range []string{"maxLength", "maxItems", "pattern", "minItems", "$ref"} {
				_, field := full.Properties[word] // of that name
				if !field && strings.Contains(string(pair[1]), `"`+word+`":`) {
					t.Errorf("%s: %s is listed", d.Tool, word)
				}
			}
		}
	}
}
