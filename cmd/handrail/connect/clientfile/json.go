package clientfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

// maxDepth bounds nesting: hujson goes down by recursion.
const maxDepth = 200

// parseJSON returns the outermost object; nil for a file with nothing in it.
func parseJSON(f Format, text []byte) (*hujson.Value, error) {
	if at := invalidAt(text); at < len(text) {
		return nil, syntax(text, at, "this is not UTF-8")
	}
	if at := deepAt(text); at < len(text) {
		return nil, syntax(text, at, "this is nested too deeply")
	}
	padded := append(bytes.Clone(text), '\n') // hujson wants a last comment's line to end
	root, err := hujson.Parse(padded)
	switch {
	case root.Value == nil && errors.Is(err, io.ErrUnexpectedEOF) && root.StartOffset == len(padded) &&
		(f == JSONC || root.BeforeExtra.IsStandard()):
		return nil, nil
	case err != nil:
		return nil, placed(err)
	case root.Value.Kind() != '{':
		return nil, syntax(text, root.StartOffset, "the file does not hold an object")
	case f == JSON && !root.IsStandard():
		var bad *json.SyntaxError
		if err := json.Unmarshal(padded, new(json.RawMessage)); errors.As(err, &bad) {
			return nil, syntax(text, int(bad.Offset)-1, "this file takes no comments and no commas after the last: %v", bad)
		}
		return nil, syntax(text, 0, "this file takes no comments and no commas after the last")
	}
	root.AfterExtra = root.AfterExtra[:len(root.AfterExtra)-1]
	return &root, nil
}

// placed makes hujson's error one of ours: it tells the place in words only.
func placed(err error) error {
	at := &SyntaxError{Problem: err.Error()}
	if n, _ := fmt.Sscanf(err.Error(), "hujson: line %d, column %d:", &at.Line, &at.Column); n == 2 {
		at.Problem = errors.Unwrap(err).Error()
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		at.Problem = "what begins before has no end (" + at.Problem + ")"
	}
	return at
}

func invalidAt(text []byte) int {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(text)
}

// deepAt is where text is nested more than maxDepth deep, or its length.
func deepAt(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '/':
			i += max(commentEnd(text[i:])-1, 0)
		case '{', '[':
			if depth++; depth > maxDepth {
				return i
			}
		case '}', ']':
			depth--
		}
	}
	return len(text)
}

// commentEnd is the length of the comment that text begins with, but for a line's end;
// 0: there is none.
func commentEnd(text []byte) int {
	var end int
	switch {
	case bytes.HasPrefix(text, []byte("//")):
		end = bytes.IndexByte(text, '\n')
		if end > 0 && text[end-1] == '\r' {
			end--
		}
	case bytes.HasPrefix(text, []byte("/*")):
		if end = bytes.Index(text[2:], []byte("*/")); end >= 0 {
			end += len("/**/")
		}
	default:
		return 0
	}
	if end < 0 {
		return len(text)
	}
	return end
}

// comments splits e behind its last comment.
func comments(e hujson.Extra) (with, after hujson.Extra) {
	end := 0
	for i := 0; i < len(e); {
		if n := commentEnd(e[i:]); n > 0 {
			i += n
			end = i
		} else {
			i++
		}
	}
	return e[:end:end], e[end:]
}

// joined is b behind a, which may end in a comment to the end of the line.
func joined(a, b hujson.Extra) hujson.Extra {
	line := a[bytes.LastIndexByte(a, '\n')+1:]
	first, _, ends := bytes.Cut(b, []byte("\n"))
	if bytes.Contains(line, []byte("//")) && !(ends && blank(first)) {
		a = append(a, '\n')
	}
	return append(a, b...)
}

// find returns where the member of that name is; more than one is for the caller to refuse.
func find(o *hujson.Object, name string) (at, count int) {
	at = -1
	for i, m := range o.Members {
		if m.Name.Value.(hujson.Literal).String() == name {
			at = i
			count++
		}
	}
	return at, count
}

// walk goes down path as far as there are objects. Its value holds an object.
func walk(text []byte, root *hujson.Value, path []string) (v *hujson.Value, rest []string, err error) {
	v = root
	for i, name := range path {
		o := v.Value.(*hujson.Object)
		at, count := find(o, name)
		if count == 0 {
			return v, path[i:], nil
		}
		if count > 1 {
			return nil, nil, fmt.Errorf("%q is there %d times: %w", strings.Join(path[:i+1], "."), count, ErrForm)
		}
		v = &o.Members[at].Value
		if v.Value.Kind() != '{' {
			return nil, nil, fmt.Errorf("%w: %w", syntax(text, v.StartOffset, "%q is not an object", strings.Join(path[:i+1], ".")), ErrForm)
		}
	}
	return v, nil, nil
}

func getJSON(f Format, text []byte, path []string) (map[string]any, bool, error) {
	root, err := parseJSON(f, text)
	if root == nil || err != nil {
		return nil, false, err
	}
	at, rest, err := walk(text, root, path)
	if err != nil || len(rest) > 0 {
		return nil, false, err
	}
	at.Standardize()
	entry := map[string]any{}
	err = json.Unmarshal(at.Pack(), &entry)
	return entry, err == nil, err
}

func putJSON(f Format, text []byte, path []string, fields []Field, drop []string) ([]byte, error) {
	root, err := parseJSON(f, text)
	if err != nil {
		return nil, err
	}
	if root == nil { // nothing but blanks and comments
		if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
			text = append(bytes.Clone(text), newline(text)...)
		}
		text = append(bytes.Clone(text), "{}"+newline(text)...)
		if root, err = parseJSON(f, text); err != nil {
			return nil, err
		}
	}
	at, rest, err := walk(text, root, path)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 { // all that is missing at once
		value := render(ordered(fields))
		for _, name := range slices.Backward(rest[1:]) {
			value = "{" + render(name) + ":" + value + "}"
		}
		if err := insert(text, root, at, rest[0], value); err != nil {
			return nil, err
		}
		return checked(f, root.Pack())
	}
	for _, field := range fields {
		if text, err = setMember(f, text, path, field.Name, render(field.Value)); err != nil {
			return nil, err
		}
	}
	for _, name := range drop {
		if text, err = removeJSON(f, text, append(slices.Clone(path), name)); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// checked refuses to return what does not parse: that would be a defect of ours.
func checked(f Format, text []byte) ([]byte, error) {
	if _, err := parseJSON(f, text); err != nil {
		return nil, fmt.Errorf("the edited file would be broken (%w): %w", err, ErrForm)
	}
	return text, nil
}

func setMember(f Format, text []byte, path []string, name, value string) ([]byte, error) {
	root, err := parseJSON(f, text)
	if err != nil {
		return nil, err
	}
	v, rest, err := walk(text, root, path)
	if err != nil || len(rest) > 0 {
		return nil, fmt.Errorf("%q is gone: %w", strings.Join(path, "."), ErrForm)
	}
	o := v.Value.(*hujson.Object)
	at, count := find(o, name)
	switch count {
	case 0:
		err = insert(text, root, v, name, value)
	case 1:
		m := &o.Members[at]
		if compact(text[m.Value.StartOffset:m.Value.EndOffset]) == value {
			return text, nil // as it should be, in whatever layout
		}
		m.Value.Value, err = laid(value, lineIndent(text, m.Name.StartOffset), style(text, root), newline(text))
	default:
		err = fmt.Errorf("%q is there %d times: %w", name, count, ErrForm)
	}
	if err != nil {
		return nil, err
	}
	return checked(f, root.Pack())
}

func compact(value []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, value) != nil {
		return ""
	}
	return b.String()
}

// insert adds a member at the end of the object in v, in the file's own layout.
func insert(text []byte, root, v *hujson.Value, name, value string) error {
	o := v.Value.(*hujson.Object)
	unit, eol := style(text, root), newline(text)
	before, after := comments(o.AfterExtra)
	lines := bytes.ContainsRune(text[v.StartOffset:v.EndOffset], '\n')
	oneLine := unit == "" || len(o.Members) > 0 && !bytes.ContainsRune(text[v.StartOffset:o.Members[0].Name.StartOffset], '\n')
	if len(before) > 0 && lines {
		oneLine = false // a comment to the end of the line would swallow the member
	}
	m := hujson.ObjectMember{Name: hujson.Value{Value: hujson.Literal(render(name))}}
	indent := ""
	switch {
	case !oneLine:
		indent = lineIndent(text, v.StartOffset) + unit
		if len(o.Members) > 0 {
			indent = lineIndent(text, o.Members[0].Name.StartOffset)
		}
		m.Name.BeforeExtra = append(before, eol+indent...)
		m.Value.BeforeExtra = hujson.Extra(" ")
		if !bytes.ContainsRune(after, '\n') {
			after = append(hujson.Extra(eol+lineIndent(text, v.StartOffset)), after...)
		}
	case len(o.Members) > 0 && unit != "":
		unit = ""
		m.Name.BeforeExtra = append(before, ' ')
	default:
		unit = ""
		m.Name.BeforeExtra = before
	}
	var err error
	m.Value.Value, err = laid(value, indent, unit, eol)
	o.Members, o.AfterExtra = append(o.Members, m), after
	return err
}

// lineIndent is the white space that the line of a place begins with.
func lineIndent(text []byte, at int) string {
	start := bytes.LastIndexByte(text[:at], '\n') + 1
	end := start
	for end < len(text) && (text[end] == ' ' || text[end] == '\t') {
		end++
	}
	return string(text[start:end])
}

// style is one step of the file's indentation; "" for a file on one line.
func style(text []byte, root *hujson.Value) string {
	o := root.Value.(*hujson.Object)
	if len(o.Members) == 0 {
		return "  "
	}
	key := o.Members[0].Name.StartOffset
	if bytes.ContainsRune(text[root.StartOffset:key], '\n') {
		if in, ok := strings.CutPrefix(lineIndent(text, key), lineIndent(text, root.StartOffset)); ok && in != "" {
			return in
		}
		return "  "
	}
	if bytes.ContainsRune(text[root.StartOffset:root.EndOffset], '\n') {
		return "  "
	}
	return ""
}

// laid is a compact value over several lines, or, without a unit, on one.
func laid(value, indent, unit, eol string) (hujson.ValueTrimmed, error) {
	var b bytes.Buffer
	if unit != "" && json.Indent(&b, []byte(value), indent, unit) == nil {
		value = strings.ReplaceAll(b.String(), "\n", eol)
	}
	v, err := hujson.Parse([]byte(value))
	return v.Value, err
}

// ordered are fields that are written in their order.
type ordered []Field

// render returns compact JSON.
func render(v any) string {
	if fields, ok := v.(ordered); ok {
		parts := make([]string, len(fields))
		for i, f := range fields {
			parts[i] = render(f.Name) + ":" + render(f.Value)
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return "null"
	}
	return strings.TrimRight(b.String(), "\n")
}

func removeJSON(f Format, text []byte, path []string) ([]byte, error) {
	root, err := parseJSON(f, text)
	if root == nil || err != nil {
		return text, err
	}
	v, rest, err := walk(text, root, path[:len(path)-1])
	if err != nil || len(rest) > 0 {
		return text, err
	}
	o := v.Value.(*hujson.Object)
	at, count := find(o, path[len(path)-1])
	switch {
	case count == 0:
		return text, nil
	case count > 1:
		return nil, fmt.Errorf("%q is there %d times: %w", strings.Join(path, "."), count, ErrForm)
	}
	removeMember(o, at)
	return checked(f, root.Pack())
}

// removeMember takes one member out with one comma: the one behind it, or, for the last, the one
// before it. Comments before it stay, and those behind its comma.
func removeMember(o *hujson.Object, at int) {
	gone := o.Members[at]
	o.Members = slices.Delete(o.Members, at, at+1)
	with, _ := comments(gone.Name.BeforeExtra)
	if at < len(o.Members) {
		next := &o.Members[at].Name
		if bytes.ContainsRune(gone.Name.BeforeExtra, '\n') && blank(next.BeforeExtra) && !bytes.ContainsRune(next.BeforeExtra, '\n') {
			next.BeforeExtra = gone.Name.BeforeExtra // it begins the line now
			return
		}
		next.BeforeExtra = joined(with, next.BeforeExtra)
		return
	}
	o.AfterExtra = joined(with, o.AfterExtra)
	if at == 0 {
		return
	}
	last, trailing := &o.Members[at-1].Value, gone.Value.AfterExtra != nil
	if !trailing {
		o.AfterExtra = joined(last.AfterExtra, o.AfterExtra)
		last.AfterExtra = nil
	} else if last.AfterExtra == nil {
		last.AfterExtra = hujson.Extra{} // a comma behind the last, as there was
	}
}
