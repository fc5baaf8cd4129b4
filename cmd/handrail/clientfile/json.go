package clientfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const maxDepth = 200

// object is a JSON object with the places of what is in it.
type object struct {
	open, close int // of the braces
	members     []member
	comma       int // of a trailing comma, or -1
	trivia      int // end of the last comment before the closing brace, or -1
}

type member struct {
	name       string
	key        int // where the key begins
	value, end int
	object     *object // if the value is one
	kind       byte    // the first byte of the value
	comma      int     // of the comma that follows, or -1
}

// find gives the members of that name; more than one is for the caller to refuse.
func (o *object) find(name string) (at, count int) {
	at = -1
	for i := range o.members {
		if o.members[i].name == name {
			at = i
			count++
		}
	}
	return at, count
}

// reader reads JSON, remembering places.
type reader struct {
	text    []byte
	at      int
	relaxed bool // comments and trailing commas
	comment int  // end of the last comment read, or -1
}

// parseJSON gives the outermost object; nil for a file with nothing in it.
func parseJSON(f Format, text []byte) (*object, error) {
	if !utf8.Valid(text) {
		return nil, syntax(text, invalidAt(text), "this is not UTF-8")
	}
	r := &reader{text: text, relaxed: f == JSONC, comment: -1}
	if err := r.skip(); err != nil {
		return nil, err
	}
	if r.at == len(text) {
		return nil, nil
	}
	if text[r.at] != '{' {
		return nil, syntax(text, r.at, "the file does not hold an object")
	}
	_, o, err := r.value(0)
	if err != nil {
		return nil, err
	}
	if err := r.skip(); err != nil {
		return nil, err
	}
	if r.at != len(text) {
		return nil, syntax(text, r.at, "there is something after the end of the object")
	}
	return o, nil
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

// skip passes over blanks and, where they are allowed, comments.
func (r *reader) skip() error {
	for r.at < len(r.text) {
		switch c := r.text[r.at]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			r.at++
		case c == '/' && r.relaxed && bytes.HasPrefix(r.text[r.at:], []byte("//")):
			if end := bytes.IndexByte(r.text[r.at:], '\n'); end >= 0 {
				r.at += end
			} else {
				r.at = len(r.text)
			}
			r.comment = r.at
		case c == '/' && r.relaxed && bytes.HasPrefix(r.text[r.at:], []byte("/*")):
			end := bytes.Index(r.text[r.at+2:], []byte("*/"))
			if end < 0 {
				return syntax(r.text, r.at, "the comment has no end")
			}
			r.at += end + 4
			r.comment = r.at
		case c == '/':
			return syntax(r.text, r.at, "comments are not allowed in this file")
		default:
			return nil
		}
	}
	return nil
}

// value reads one value and gives its first byte, and its places if it is an object.
func (r *reader) value(depth int) (byte, *object, error) {
	if depth > maxDepth {
		return 0, nil, syntax(r.text, r.at, "this is nested too deeply")
	}
	if r.at == len(r.text) {
		return 0, nil, syntax(r.text, r.at, "the file ends where a value is expected")
	}
	kind := r.text[r.at]
	switch kind {
	case '{':
		o, err := r.object(depth)
		return kind, o, err
	case '[':
		return kind, nil, r.array(depth)
	case '"':
		_, err := r.str()
		return kind, nil, err
	}
	from := r.at
	for r.at < len(r.text) && !strings.ContainsRune(" \t\r\n,:]}/\"[{", rune(r.text[r.at])) {
		r.at++
	}
	if word := r.text[from:r.at]; len(word) == 0 || !json.Valid(word) {
		return 0, nil, syntax(r.text, from, "%.40q is not a JSON value", firstOf(r.text[from:], word))
	}
	return kind, nil, nil
}

func firstOf(rest, word []byte) []byte {
	if len(word) > 0 {
		return word
	}
	return rest[:min(1, len(rest))]
}

func (r *reader) str() (string, error) {
	from := r.at
	for r.at++; r.at < len(r.text); r.at++ {
		switch r.text[r.at] {
		case '\\':
			r.at++
		case '"':
			r.at++
			var s string
			if err := json.Unmarshal(r.text[from:r.at], &s); err != nil {
				return "", syntax(r.text, from, "this is not a JSON string")
			}
			return s, nil
		case '\n':
			return "", syntax(r.text, from, "the string has no end on its line")
		}
	}
	r.at = len(r.text)
	return "", syntax(r.text, from, "the string has no end")
}

func (r *reader) array(depth int) error {
	open := r.at
	r.at++
	for first := true; ; first = false {
		if err := r.skip(); err != nil {
			return err
		}
		if r.at == len(r.text) {
			return syntax(r.text, open, "the list has no end")
		}
		if r.text[r.at] == ']' && (first || r.relaxed) {
			r.at++
			return nil
		}
		if _, _, err := r.value(depth + 1); err != nil {
			return err
		}
		if err := r.skip(); err != nil {
			return err
		}
		switch {
		case r.at < len(r.text) && r.text[r.at] == ',':
			r.at++
		case r.at < len(r.text) && r.text[r.at] == ']':
			r.at++
			return nil
		default:
			return syntax(r.text, r.at, "a comma or ] is expected")
		}
	}
}

func (r *reader) object(depth int) (*object, error) {
	o := &object{open: r.at, comma: -1, trivia: -1}
	r.at++
	for {
		r.comment = -1
		if err := r.skip(); err != nil {
			return nil, err
		}
		if r.at == len(r.text) {
			return nil, syntax(r.text, o.open, "the object has no end")
		}
		if r.text[r.at] == '}' && (len(o.members) == 0 || r.relaxed) {
			if n := len(o.members); n > 0 {
				o.comma = o.members[n-1].comma
			}
			return r.closed(o), nil
		}
		if r.text[r.at] != '"' {
			return nil, syntax(r.text, r.at, "a name in double quotes is expected")
		}
		m := member{key: r.at, comma: -1}
		var err error
		if m.name, err = r.str(); err != nil {
			return nil, err
		}
		if err := r.skip(); err != nil {
			return nil, err
		}
		if r.at == len(r.text) || r.text[r.at] != ':' {
			return nil, syntax(r.text, r.at, "a colon is expected after the name %.40q", m.name)
		}
		r.at++
		if err := r.skip(); err != nil {
			return nil, err
		}
		m.value = r.at
		if m.kind, m.object, err = r.value(depth + 1); err != nil {
			return nil, err
		}
		m.end = r.at
		r.comment = -1
		if err := r.skip(); err != nil {
			return nil, err
		}
		if r.at < len(r.text) && r.text[r.at] == ',' {
			m.comma = r.at
			r.at++
			o.members = append(o.members, m)
			continue
		}
		o.members = append(o.members, m)
		if r.at == len(r.text) || r.text[r.at] != '}' {
			return nil, syntax(r.text, r.at, "a comma or } is expected")
		}
		return r.closed(o), nil
	}
}

func (r *reader) closed(o *object) *object {
	o.close, o.trivia = r.at, r.comment
	r.at++
	return o
}

// walk goes down path as far as there are objects.
func walk(text []byte, root *object, path []string) (o *object, rest []string, err error) {
	o = root
	for i, name := range path {
		at, count := o.find(name)
		if count == 0 {
			return o, path[i:], nil
		}
		if count > 1 {
			return nil, nil, fmt.Errorf("%q is there %d times: %w", strings.Join(path[:i+1], "."), count, ErrForm)
		}
		if o.members[at].object == nil {
			return nil, nil, fmt.Errorf("%w: %w", syntax(text, o.members[at].value, "%q is not an object", strings.Join(path[:i+1], ".")), ErrForm)
		}
		o = o.members[at].object
	}
	return o, nil, nil
}

func getJSON(f Format, text []byte, path []string) (map[string]any, bool, error) {
	root, err := parseJSON(f, text)
	if root == nil || err != nil {
		return nil, false, err
	}
	o, rest, err := walk(text, root, path)
	if err != nil || len(rest) > 0 {
		return nil, false, err
	}
	entry := map[string]any{}
	for _, m := range o.members {
		var v any // what is nested and has comments stays nil: nothing of ours has
		_ = json.Unmarshal(text[m.value:m.end], &v)
		entry[m.name] = v
	}
	return entry, true, nil
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
	o, rest, err := walk(text, root, path)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 { // all that is missing at once
		value := "{}"
		for i := len(rest) - 1; i >= 0; i-- {
			if i == len(rest)-1 {
				value = render(ordered(fields))
			} else {
				value = "{" + quote(rest[i+1]) + ":" + value + "}"
			}
		}
		return checked(f, insert(text, root, o, rest[0], value))
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
	return checked(f, text)
}

// checked refuses to give what does not parse: that would be a defect of ours.
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
	o, rest, err := walk(text, root, path)
	if err != nil || len(rest) > 0 {
		return nil, fmt.Errorf("%q is gone: %w", strings.Join(path, "."), ErrForm)
	}
	at, count := o.find(name)
	switch count {
	case 0:
		return insert(text, root, o, name, value), nil
	case 1:
		m := o.members[at]
		if compact(text[m.value:m.end]) == value {
			return text, nil // as it should be, in whatever layout
		}
		return splice(text, m.value, m.end, layout(value, lineIndent(text, m.key), style(text, root), newline(text))), nil
	}
	return nil, fmt.Errorf("%q is there %d times: %w", name, count, ErrForm)
}

func compact(value []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, value) != nil {
		return ""
	}
	return b.String()
}

// insert adds a member at the end of an object, in the file's own layout.
func insert(text []byte, root, o *object, name, value string) []byte {
	unit, eol := style(text, root), newline(text)
	at := o.open + 1
	if n := len(o.members); n > 0 {
		at = max(o.members[n-1].end, o.comma+1)
	}
	at = max(at, o.trivia)
	oneLine := unit == "" || len(o.members) > 0 && !bytes.ContainsRune(text[o.open:o.members[0].key], '\n')
	if oneLine && o.trivia >= 0 && bytes.ContainsRune(text[o.open:o.close], '\n') {
		oneLine = false // a comment to the end of the line would swallow the member
	}
	var b strings.Builder
	if oneLine {
		if len(o.members) > 0 && unit != "" {
			b.WriteString(" ")
		}
		b.WriteString(quote(name) + ":" + layout(value, "", "", eol))
	} else {
		indent := lineIndent(text, o.open) + unit
		if len(o.members) > 0 {
			indent = lineIndent(text, o.members[0].key)
		}
		b.WriteString(eol + indent + quote(name) + ": " + layout(value, indent, unit, eol))
		if !bytes.ContainsRune(text[at:o.close], '\n') {
			b.WriteString(eol + lineIndent(text, o.open))
		}
	}
	text = splice(text, at, at, b.String())
	if n := len(o.members); n > 0 && o.comma < 0 {
		text = splice(text, o.members[n-1].end, o.members[n-1].end, ",")
	}
	return text
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
func style(text []byte, root *object) string {
	if len(root.members) == 0 {
		return "  "
	}
	if between := text[root.open:root.members[0].key]; bytes.ContainsRune(between, '\n') {
		outer := lineIndent(text, root.open)
		if in, ok := strings.CutPrefix(lineIndent(text, root.members[0].key), outer); ok && in != "" {
			return in
		}
		return "  "
	}
	if bytes.ContainsRune(text[root.open:root.close], '\n') {
		return "  "
	}
	return ""
}

// layout writes a compact value over several lines.
func layout(value, indent, unit, eol string) string {
	if unit == "" {
		return value
	}
	var b bytes.Buffer
	if json.Indent(&b, []byte(value), indent, unit) != nil {
		return value
	}
	return strings.ReplaceAll(b.String(), "\n", eol)
}

func quote(s string) string { return render(s) }

// ordered are fields that are written in their order.
type ordered []Field

// render gives compact JSON.
func render(v any) string {
	if fields, ok := v.(ordered); ok {
		parts := make([]string, len(fields))
		for i, f := range fields {
			parts[i] = quote(f.Name) + ":" + render(f.Value)
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
	o, rest, err := walk(text, root, path[:len(path)-1])
	if err != nil || len(rest) > 0 {
		return text, err
	}
	at, count := o.find(path[len(path)-1])
	switch {
	case count == 0:
		return text, nil
	case count > 1:
		return nil, fmt.Errorf("%q is there %d times: %w", strings.Join(path, "."), count, ErrForm)
	}
	return checked(f, cutMember(text, o, at))
}

// cutMember takes one member out with one comma: the one behind it, or, for the
// last, the one before it.
func cutMember(text []byte, o *object, at int) []byte {
	m := o.members[at]
	from, to := m.key, m.end
	behind, before := m.comma, -1
	if behind < 0 && at > 0 {
		before = o.members[at-1].comma
	}
	after := max(to, behind+1)
	start := from
	for start > 0 && (text[start-1] == ' ' || text[start-1] == '\t') {
		start--
	}
	lineEnd := bytes.IndexByte(text[after:], '\n')
	alone := lineEnd >= 0 && blank(text[after:after+lineEnd]) && start > 0 && text[start-1] == '\n'
	switch {
	case alone: // on lines of its own, which go, with the line break before them: what follows stays on its line
		from = start - 1
		if from > 0 && text[from-1] == '\r' {
			from--
		}
	case behind >= 0:
		for after < len(text) && (text[after] == ' ' || text[after] == '\t') {
			after++
		}
	case before >= 0 && blank(text[before+1:from]):
		from = before + 1
	}
	if behind >= 0 {
		text = splice(text, behind, after, "")
	}
	text = splice(text, from, to, "")
	if before >= 0 {
		text = splice(text, before, before+1, "")
	}
	return text
}
