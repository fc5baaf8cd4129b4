package yaml

import (
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
)

func TestJSON(t *testing.T) {
	for in, want := range map[string]string{
		"a: 1\nb: [x, 'y', \"z\"]\n":       `{"a":1,"b":["x","y","z"]}`,
		"# a remark\nyes: yes\nno: true":   `{"no":true,"yes":"yes"}`,
		"at: 2026-11-26\nnone:\nhex: 0x10": `{"at":"2026-11-26","hex":16,"none":null}`,
		"text: |\n  one\n  two\n":          `{"text":"one\ntwo\n"}`,
		`{"json": [1.5, null, false]}`:     `{"json":[1.5,null,false]}`,
	} {
		if got, err := JSON([]byte(in)); err != nil || string(got) != want {
			t.Errorf("%q: %s %v, want %s", in, got, err, want)
		}
	}
}

// A document is refused that a reader could take for something else than its writer, or that
// grows when it is read.
func TestRefused(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'l'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+",", 9) + "]\n"
	}
	for name, in := range map[string]string{
		"a bomb":             bomb,
		"an anchor":          "a: &x 1",
		"an alias alone":     "a: *x",
		"a merge key":        "a: {b: 1}\nc: {<<: {d: 1}}",
		"a tag":              "a: !!binary aGk=",
		"a tag of its own":   "a: !run x",
		"a name twice":       "a: 1\na: 2",
		"names by case":      "a: 1\nA: 2",
		"a name that is 1":   "1: x",
		"a list as a name":   "? [a]\n: 1",
		"two documents":      "a: 1\n---\nb: 2",
		"nothing":            "",
		"no number":          "a: .nan",
		"too large a number": "a: 9007199254740993",
		"deep":               strings.Repeat("[", 40) + strings.Repeat("]", 40),
		"very deep":          strings.Repeat("[", 20000),
		"many":               "[" + strings.Repeat("1,", 20000) + "1]",
		"long":               "a: " + strings.Repeat("x", MaxBytes),
		"no YAML":            "a: [1",
		"control":            "a: \x00",
	} {
		if got, err := JSON([]byte(in)); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("%s: %.60s %v", name, got, err)
		}
	}
}

// All that comes out is canonical JSON, which is YAML that means the same; an error comes alone.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{"a: 1", "a: &x [*x]", "- {b: !!str 1}", "? a\n: b", "a: |\n  x", "{\"a\":[1,2]}", "<<: {a: 1}", "a: 1e400", "\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		out, err := JSON(in)
		if err != nil {
			if out != nil {
				t.Fatalf("%s with %v", out, err)
			}
			return
		}
		again, err := canonical.Parse(out, canonical.Limits{})
		if err != nil || string(again) != string(out) {
			t.Fatalf("%s is not canonical: %s %v", out, again, err)
		}
	})
}
