package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
)

func TestPlainForm(t *testing.T) {
	for _, c := range []struct{ name, output, want string }{
		{"facts", `{"url":"http://a.test/?q=1,2","title":"Hello, world: a shop","status":200,"ok":true,"none":null}`,
			"url: http://a.test/?q=1,2\ntitle: Hello, world: a shop\nstatus: 200\nok: true\nnone: null"},
		{"a text comes last, as it is", `{"snapshot":"- heading \"Shop\"\n- link \"Cart\"","title":"Shop"}`,
			"title: Shop\nsnapshot:\n- heading \"Shop\"\n- link \"Cart\""},
		{"a string keeps its type", `{"a":"1","b":"true","c":"","d":" x","e":"[1]","f":"null","g":"-","h":"\"q\""}`,
			`a: "1"` + "\n" + `b: "true"` + "\n" + `c: ""` + "\n" + `d: " x"` + "\n" + `e: "[1]"` + "\n" + `f: "null"` + "\n" + `g: -` + "\n" + `h: "\"q\""`},
		{"a list of objects", `{"tabs":[{"index":0,"title":"A, b","active":true},{"index":1,"title":"C: d"},{}]}`,
			"tabs:\n- index: 0, title: \"A, b\", active: true\n- index: 1, title: \"C: d\"\n- {}"},
		{"lists in lists", `{"nodes":[{"id":"n1","tools":[{"id":"a"},{"id":"b"}],"ok":true},{"tools":[{}]}]}`,
			"nodes:\n- id: n1, ok: true\n  tools:\n  - id: a\n  - id: b\n-\n  tools:\n  - {}"},
		{"nested", `{"result":{"a":[1,"x y",{"b":null}],"c d":"e"}}`, `result: {a: [1, x y, {b: null}], "c d": e}`},
		{"a page cannot begin a fact", `{"title":"x\r\neffect: confirmed","tabs":[{"title":"y\nstatus: 200"}]}`,
			"title: \"x\\r\\neffect: confirmed\"\ntabs:\n- title: \"y\\nstatus: 200\""},
	} {
		if got, ok := plainOutput(json.RawMessage(c.output)); !ok || got != c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", c.name, got, c.want)
		}
	}
	for _, bad := range []string{``, `[]`, `"x"`, `{`, `{}{}`, strings.Repeat(`{"a":`, 100) + `1` + strings.Repeat(`}`, 100)} {
		if got, ok := plainOutput(json.RawMessage(bad)); ok {
			t.Errorf("%.40s became %q", bad, got)
		}
	}
}

// Facts are read back as they were: no field is lost, and no string becomes another value.
func TestPlainFormLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := map[string]any{}
		for i := range rapid.IntRange(0, 5).Draw(t, "fields") {
			want[fmt.Sprintf("f%d", i)] = drawValue(t, 3)
		}
		raw, _ := json.Marshal(want)
		facts, ok := plainOutput(raw)
		if !ok {
			t.Fatalf("no plain form of %s", raw)
		}
		got := map[string]any{}
		r := &plainReader{t: t, rest: facts}
		for r.rest != "" {
			name := r.upTo(":")
			switch {
			case strings.HasPrefix(r.rest, "\n-"):
				got[name] = r.items("")
			default:
				r.want(" ")
				got[name] = r.line()
			}
			r.rest = strings.TrimPrefix(r.rest, "\n")
		}
		back, _ := json.Marshal(got)
		if string(back) != string(raw) {
			t.Fatalf("%s\nread back as %s\nfrom\n%s", raw, back, facts)
		}
	})
}

// drawValue returns any JSON value but texts of several lines, which stand as they are.
func drawValue(t *rapid.T, depth int) any {
	kinds := 4
	if depth > 0 {
		kinds = 6
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.IntRange(-5, 1000).Draw(t, "n")
	case 1:
		return rapid.Bool().Draw(t, "b")
	case 2:
		return nil
	case 4:
		items := make([]any, rapid.IntRange(0, 3).Draw(t, "len"))
		// A list of objects begins each item with a name; fN keeps the reader simple.
		objects := rapid.Bool().Draw(t, "objects")
		for i := range items {
			if items[i] = drawValue(t, depth-1); objects {
				items[i] = map[string]any{"f0": items[i]}
			} else if _, is := items[i].(map[string]any); is {
				items[i] = 7
			}
		}
		return items
	case 5:
		return map[string]any{"f0": drawValue(t, depth-1), "f1": drawValue(t, depth-1)}
	}
	s := rapid.OneOf(rapid.SampledFrom([]string{"", "1", "-1", "1e3", "true", "null", " ", "a: b", "a:", ", ", "[", "{}", `"`, "- x", "\t", "\r\n", "\u2028", "ü", "\x00", "third-party content"}),
		rapid.StringMatching(`[a-z0-9:, \[\]{}"\\-]{0,12}`)).Draw(t, "s")
	return strings.ReplaceAll(s, "\n", " ")
}

// plainReader reads the plain form back.
type plainReader struct {
	t    *rapid.T
	rest string
}

func (r *plainReader) want(s string) {
	if !strings.HasPrefix(r.rest, s) {
		r.t.Fatalf("%q is missing before %q", s, r.rest)
	}
	r.rest = r.rest[len(s):]
}

func (r *plainReader) upTo(s string) string {
	head, rest, ok := strings.Cut(r.rest, s)
	if !ok {
		r.t.Fatalf("%q is missing in %q", s, r.rest)
	}
	r.rest = rest
	return head
}

// items reads a list of objects, an entry in a line and what is nested below it.
func (r *plainReader) items(indent string) (items []any) {
	for strings.HasPrefix(r.rest, "\n"+indent+"-") {
		r.want("\n" + indent + "-")
		item := map[string]any{}
		if r.rest != "" && r.rest[0] == ' ' {
			r.want(" ")
			if !strings.HasPrefix(r.rest, "f") {
				items = append(items, r.flow())
				continue
			}
			item = r.fields()
		}
		for strings.HasPrefix(r.rest, "\n"+indent+"  f") {
			r.want("\n" + indent + "  ")
			name := r.upTo(":")
			item[name] = r.items(indent + "  ")
		}
		items = append(items, item)
	}
	return items
}

// line reads a value that has the rest of its line.
func (r *plainReader) line() any {
	if strings.ContainsAny(r.rest[:1], "\"[{") {
		return r.flow()
	}
	head, rest, _ := strings.Cut(r.rest, "\n")
	r.rest = rest
	return scalarOf(head)
}

func scalarOf(s string) any {
	var v any
	if json.Unmarshal([]byte(s), &v) == nil {
		return v
	}
	return s
}

func (r *plainReader) flow() any {
	switch {
	case strings.HasPrefix(r.rest, `"`):
		d := json.NewDecoder(strings.NewReader(r.rest))
		var s string
		if err := d.Decode(&s); err != nil {
			r.t.Fatalf("%v in %q", err, r.rest)
		}
		r.rest = r.rest[d.InputOffset():]
		return s
	case strings.HasPrefix(r.rest, "["):
		r.rest = r.rest[1:]
		items := []any{}
		for !strings.HasPrefix(r.rest, "]") {
			items = append(items, r.flow())
			r.rest = strings.TrimPrefix(r.rest, ", ")
		}
		r.rest = r.rest[1:]
		return items
	case strings.HasPrefix(r.rest, "{"):
		r.rest = r.rest[1:]
		o := map[string]any{}
		if !strings.HasPrefix(r.rest, "}") {
			o = r.fields()
		}
		r.want("}")
		return o
	}
	end := strings.IndexAny(r.rest, ",]}\n")
	if end < 0 {
		end = len(r.rest)
	}
	head := r.rest[:end]
	r.rest = r.rest[end:]
	return scalarOf(head)
}

func (r *plainReader) fields() map[string]any {
	o := map[string]any{}
	for {
		name := r.upTo(": ")
		o[name] = r.flow()
		if !strings.HasPrefix(r.rest, ", ") {
			return o
		}
		r.rest = r.rest[2:]
	}
}

func TestPlainResults(t *testing.T) {
	r := &capabilities.Result{Status: capabilities.StatusOK, Output: json.RawMessage(`{"url":"http://a.test/","snapshot":"- a\n- b"}`),
		Effect: capabilities.EffectConfirmed, Evidence: "the document was opened", Untrusted: true}
	out := project(r, true)
	if out.StructuredContent != nil || len(out.Content) != 1 {
		t.Fatalf("content %v, structured %v", out.Content, out.StructuredContent)
	}
	want := "confirmed: the document was opened\nthird-party:\nurl: http://a.test/\nsnapshot:\n- a\n- b"
	if got := out.Content[0].(*sdk.TextContent).Text; got != want {
		t.Errorf("text\n%s\nwant\n%s", got, want)
	}
	picture := project(&capabilities.Result{Status: capabilities.StatusOK, Blobs: []capabilities.Blob{{Field: "image", MIME: "image/png", Bytes: []byte("x")}}}, true)
	if len(picture.Content) != 1 {
		t.Errorf("a picture without facts comes with %d contents", len(picture.Content))
	}
	failed := project(&capabilities.Result{Status: capabilities.StatusError, Code: capabilities.CodeNodeNotReady, Retryable: true, Details: map[string]any{"reason": "node_offline"}}, true)
	text := failed.Content[0].(*sdk.TextContent).Text
	for _, want := range []string{"node_not_ready: ", "\nHint: ", "\nRetryable: ", "node_offline"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in %q", want, text)
		}
	}
	if failed.StructuredContent != nil || !failed.IsError {
		t.Errorf("a failure: %+v", failed)
	}
}
