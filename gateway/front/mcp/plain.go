package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// The plain form of a result: what a model reads where the client does not use structured content.
// The first line says how far the effect was verified, then facts follow, a line each, and texts of
// several lines after them, as they are. The lines below "third-party:" are from a page or a
// screen:
//
//	confirmed: the document was opened
//	third-party:
//	url: http://127.0.0.1:3000/
//	tabs:
//	- index: 0, title: Shop, active: true
//	snapshot:
//	- heading "Shop" [level=1]
//
// A value keeps its type: a string that could be read as something else stands in quotes, as
// JSON writes it. So no field is lost, and no line of a fact can begin another fact. Texts are
// the end of it: what they say about facts is theirs.

// plainOutput returns the plain form of an output, an object; false if it is none.
func plainOutput(raw json.RawMessage) (string, bool) {
	root, err := parse(raw)
	if err != nil || root.kind != objectKind {
		return "", false
	}
	var facts, texts strings.Builder
	for _, f := range root.fields {
		f.write(&facts, &texts)
	}
	return strings.TrimSuffix(facts.String()+texts.String(), "\n"), true
}

// write puts a field among the facts, or after them where it is a text of several lines.
func (f *field) write(facts, texts *strings.Builder) {
	v := f.value
	switch {
	case v.kind == textKind && strings.Contains(v.text, "\n") && isText(v.text):
		texts.WriteString(key(f.name) + ":\n" + v.text + "\n")
	case v.kind == listKind && v.hasObjects():
		facts.WriteString(key(f.name) + ":\n")
		for i := range v.items {
			v.items[i].writeItem(facts, "")
		}
	default:
		facts.WriteString(key(f.name) + ": ")
		if v.kind == textKind {
			facts.WriteString(line(v.text))
		} else {
			v.writeFlow(facts)
		}
		facts.WriteString("\n")
	}
}

// writeItem writes an entry of a list in a line, and the lists of objects within it below, each
// entry in a line of its own again.
func (v *value) writeItem(b *strings.Builder, indent string) {
	var inLine value
	var below []field
	for _, f := range v.fields {
		if f.value.kind == listKind && f.value.hasObjects() {
			below = append(below, f)
		} else {
			inLine.fields = append(inLine.fields, f)
		}
	}
	b.WriteString(indent + "-")
	switch {
	case len(inLine.fields) > 0:
		b.WriteString(" ")
		inLine.writeFields(b)
	case len(below) == 0:
		b.WriteString(" ")
		v.writeFlow(b)
	}
	b.WriteString("\n")
	for _, f := range below {
		b.WriteString(indent + "  " + key(f.name) + ":\n")
		for i := range f.value.items {
			f.value.items[i].writeItem(b, indent+"  ")
		}
	}
}

// isText reports whether a text may stand as it is: whole, without control characters that
// a terminal or a model could take for something else.
func isText(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 && r != '\n' && r != '\t' || r == 0x7f })
}

// kind is what a value is.
type kind int

const (
	scalarKind kind = iota // number, true, false, null
	textKind
	listKind
	objectKind
)

// value is decoded JSON whose fields keep their order.
type value struct {
	kind   kind
	text   string // of a scalar its JSON
	items  []value
	fields []field
}

type field struct {
	name  string
	value value
}

func (v *value) hasObjects() bool {
	for i := range v.items {
		if v.items[i].kind == objectKind {
			return true
		}
	}
	return false
}

// writeFlow writes a value within a line.
func (v *value) writeFlow(b *strings.Builder) {
	switch v.kind {
	case scalarKind:
		b.WriteString(v.text)
	case textKind:
		b.WriteString(word(v.text))
	case listKind:
		b.WriteString("[")
		for i := range v.items {
			if i > 0 {
				b.WriteString(", ")
			}
			v.items[i].writeFlow(b)
		}
		b.WriteString("]")
	case objectKind:
		b.WriteString("{")
		v.writeFields(b)
		b.WriteString("}")
	}
}

func (v *value) writeFields(b *strings.Builder) {
	for i := range v.fields {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(key(v.fields[i].name) + ": ")
		v.fields[i].value.writeFlow(b)
	}
}

// key is a field's name, in quotes unless it is a plain word.
func key(name string) string {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' && r != '.'
	}) {
		return quoted(name)
	}
	return name
}

// line is a string that has the rest of its line, in quotes where it could be read as anything
// else.
func line(s string) string {
	if s == "" || !isText(s) || strings.ContainsAny(s, "\n\t") || s[0] == ' ' || s[len(s)-1] == ' ' ||
		strings.ContainsRune("\"[{", rune(s[0])) || json.Valid([]byte(s)) {
		return quoted(s)
	}
	return s
}

// word is a string with others on its line.
func word(s string) string {
	if strings.ContainsAny(s, "\",[]{}") || strings.Contains(s, ": ") || strings.HasSuffix(s, ":") {
		return quoted(s)
	}
	return line(s)
}

func quoted(s string) string {
	return string(canonical.AppendString(nil, strings.ToValidUTF8(s, "\uFFFD")))
}

// maxPlainDepth bounds the nesting of what is parsed; outputs are checked by their schemas
// before, which is why more is an error and no cut.
const maxPlainDepth = 64

// parse decodes JSON and keeps the order of fields.
func parse(raw json.RawMessage) (value, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := parseNext(d, 0)
	if err != nil {
		return v, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return v, errors.New("mcp: more than one value")
	}
	return v, nil
}

func parseNext(d *json.Decoder, depth int) (v value, err error) {
	if depth > maxPlainDepth {
		return v, errors.New("mcp: nested too deeply")
	}
	token, err := d.Token()
	if err != nil {
		return v, err
	}
	switch t := token.(type) {
	case string:
		return value{kind: textKind, text: t}, nil
	case json.Number:
		return value{text: t.String()}, nil
	case bool:
		return value{text: map[bool]string{true: "true", false: "false"}[t]}, nil
	case nil:
		return value{text: "null"}, nil
	case json.Delim:
		v.kind = listKind
		if t == '{' {
			v.kind = objectKind
		}
		for d.More() {
			var name string
			if v.kind == objectKind {
				token, err := d.Token()
				if err != nil {
					return v, err
				}
				name, _ = token.(string)
			}
			item, err := parseNext(d, depth+1)
			if err != nil {
				return v, err
			}
			if v.kind == objectKind {
				v.fields = append(v.fields, field{name, item})
			} else {
				v.items = append(v.items, item)
			}
		}
		_, err = d.Token()
		return v, err
	}
	return v, errors.New("mcp: no JSON")
}

// plainMark stands above third-party content; instructions say what it means.
const plainMark = "third-party:"

// verified says how far the effect was verified, and how.
func verified(r *capabilities.Result) string {
	if r.Evidence == "" {
		return string(r.Effect)
	}
	return string(r.Effect) + ": " + r.Evidence
}

// plainContent is what a model reads of a call that succeeded.
func plainContent(r *capabilities.Result, output json.RawMessage) []sdk.Content {
	var head []string
	if r.Effect != "" {
		head = append(head, verified(r))
	}
	if r.Untrusted {
		head = append(head, plainMark)
	}
	body, ok := plainOutput(output)
	if !ok {
		body = string(output)
	}
	if body != "" {
		head = append(head, body)
	}
	content := make([]sdk.Content, 0, 1+len(r.Blobs))
	if len(head) > 0 || len(r.Blobs) == 0 {
		if len(head) == 0 {
			head = []string{"done"}
		}
		content = append(content, &sdk.TextContent{Text: strings.Join(head, "\n")})
	}
	for i := range r.Blobs {
		content = append(content, blobContent(r, &r.Blobs[i]))
	}
	return content
}
