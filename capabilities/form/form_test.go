package form

import (
	"reflect"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

const everything = `{"type":"object","properties":{
 "name":{"type":"string","title":"Na\u202eme","description":"Your name","minLength":2,"maxLength":5},
 "mail":{"type":"string","format":"email"},
 "site":{"type":"string","format":"uri"},
 "day":{"type":"string","format":"date"},
 "count":{"type":"integer","minimum":1,"maximum":100,"default":42},
 "share":{"type":"number","minimum":0},
 "yes":{"type":"boolean","default":true},
 "hero":{"type":"string","oneOf":[{"const":"h1","title":"One"},{"const":"h2","title":"Two"}],"default":"h9"},
 "old":{"type":"string","enum":["a","b"],"enumNames":["A","B"]},
 "fish":{"type":"array","minItems":1,"maxItems":2,"items":{"anyOf":[{"const":"f1","title":"Tuna"},{"const":"f2","title":"Trout"},{"const":"f3","title":"Cod"}]}}
},"required":["name","fish"]}`

func read(t *testing.T, schema string) *Form {
	t.Helper()
	f, err := Read("Who\u200b?", []byte(schema), capabilities.Printable)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestReadAndFill(t *testing.T) {
	f := read(t, everything)
	if f.Message != "Who?" || len(f.Fields) != 10 || f.Fields[0].Name != "fish" || f.Fields[1].Title != "Name" || f.Fields[4].Name != "hero" || f.Fields[4].Default != nil {
		t.Fatalf("%+v", f)
	}
	data, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Decode(data); err != nil || !reflect.DeepEqual(f, again) {
		t.Fatalf("%v, %+v", err, again)
	}
	for values, want := range map[*map[string]any]string{
		{"name": "Ann", "fish": []any{"f1", "f2"}, "count": "7", "yes": "false", "mail": "", "hero": "h2"}:                        `{"count":7,"fish":["f1","f2"],"hero":"h2","name":"Ann","yes":false}`,
		{"name": "Äöüßx", "fish": "f3", "share": 0.5, "day": "2026-11-27", "mail": "a@example.com", "site": "https://x.example/"}: `{"day":"2026-11-27","fish":["f3"],"mail":"a@example.com","name":"Äöüßx","share":0.5,"site":"https://x.example/"}`,
	} {
		got, err := f.Fill(*values)
		if err != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
}

func TestWhatDoesNotFit(t *testing.T) {
	f := read(t, everything)
	for key, v := range map[string]any{
		"name": "toolong", "fish": []any{"f1", "f1"}, "mail": "Ann <a@example.com>", "site": "x", "day": "27.11.", "count": 1.5, "share": "-1", "yes": "perhaps", "hero": "h3", "old": 1.0, "none": "x",
	} {
		values := map[string]any{"name": "Ann", "fish": "f1"}
		values[key] = v
		got, err := f.Fill(values)
		if capabilities.CodeOf(err) != capabilities.CodeInvalidArguments || got != nil {
			t.Errorf("%s = %v: %s, %v", key, v, got, err)
		}
	}
	if _, err := f.Fill(map[string]any{}); err == nil || !strings.Contains(err.Error(), "Name: it has to be filled in") || !strings.Contains(err.Error(), "fish: ") {
		t.Error(err)
	}
}

func TestFormsThatNobodyCanBeShown(t *testing.T) {
	for name, schema := range map[string]string{
		"nested":     `{"type":"object","properties":{"x":{"type":"object"}}}`,
		"no object":  `{"type":"array"}`,
		"no choices": `{"type":"object","properties":{"x":{"type":"array","items":{"type":"string"}}}}`,
		"numbers":    `{"type":"object","properties":{"x":{"type":"string","enum":[1]}}}`,
		"twice":      `{"type":"object","properties":{"x":{"type":"string","enum":["a","a"]}}}`,
		"hidden":     `{"type":"object","properties":{"x\u200b":{"type":"string"}}}`,
		"bounds":     `{"type":"object","properties":{"x":{"type":"integer","minimum":2,"maximum":1}}}`,
		"long":       `{"type":"object","properties":{"x":{"type":"string","enum":["` + strings.Repeat("a", 300) + `"]}}}`,
		"no JSON":    `{`,
	} {
		if f, err := Read("", []byte(schema), capabilities.Printable); capabilities.CodeOf(err) != capabilities.CodeNotSupported || f != nil && err == nil {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}

// FuzzDecode: what decodes encodes to what decodes to the same; whatever is filled in fits it.
func FuzzDecode(f *testing.F) {
	one, err := Read("Who?", []byte(everything), capabilities.Printable)
	if err != nil {
		f.Fatal(err)
	}
	data, err := one.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data, "x")
	f.Add([]byte(`{"message":"","fields":[]}`), "")
	f.Fuzz(func(t *testing.T, data []byte, value string) {
		one, err := Decode(data)
		if err != nil {
			if one != nil {
				t.Fatalf("a value came with %v", err)
			}
			return
		}
		again, err := one.Encode()
		if err != nil {
			t.Fatal(err)
		}
		two, err := Decode(again)
		if err != nil {
			t.Fatal(err)
		}
		last, err := two.Encode()
		if err != nil || string(last) != string(again) {
			t.Fatalf("%s became %s, %v", again, last, err)
		}
		values := map[string]any{}
		for i := range one.Fields {
			values[one.Fields[i].Name] = value
		}
		if got, err := one.Fill(values); err != nil && got != nil {
			t.Fatalf("a value came with %v", err)
		}
	})
}

// FuzzRead: a server's schema becomes a form that the other side reads, or none.
func FuzzRead(f *testing.F) {
	f.Add("Who?", []byte(everything))
	f.Fuzz(func(t *testing.T, message string, schema []byte) {
		one, err := Read(message, schema, capabilities.Printable)
		if err != nil {
			return
		}
		data, err := one.Encode()
		if err != nil {
			return // too long for the wire
		}
		if _, err := Decode(data); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
	})
}
