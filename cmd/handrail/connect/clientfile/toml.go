package clientfile

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// statement is one piece of a TOML file: a header, a setting, or what lies
// between them.
type statement struct {
	kind       byte // '[' table, 'a' array of tables, '=' setting, ' ' blank line or comment
	start, end int  // whole lines; end is after the line break
	line       int  // from 1
	key        []string
	value      int // of a setting: where the value begins
	valueEnd   int
	table      int  // index of the header it stands under, or -1
	comment    bool // of ' ': a comment
}

// tomlReader finds the statements. It checks what edits depend on (strings,
// brackets, names) and leaves dates and numbers to the client.
type tomlReader struct {
	text []byte
	at   int
}

func parseTOML(text []byte) ([]statement, error) {
	if !utf8.Valid(text) {
		return nil, syntax(text, invalidAt(text), "this is not UTF-8")
	}
	r := &tomlReader{text: text}
	var all []statement
	table := -1
	for r.at < len(text) {
		s := statement{start: r.at, table: table, line: bytes.Count(text[:r.at], []byte("\n")) + 1}
		r.blanks()
		var err error
		switch {
		case r.done() || r.peek() == '\n' || r.peek() == '\r':
			s.kind = ' '
		case r.peek() == '#':
			s.kind, s.comment = ' ', true
		case bytes.HasPrefix(text[r.at:], []byte("[[")):
			s.kind = 'a'
			r.at += 2
			err = r.header(&s, "]]")
		case r.peek() == '[':
			s.kind = '['
			r.at++
			err = r.header(&s, "]")
		default:
			s.kind = '='
			err = r.setting(&s)
		}
		if err == nil {
			err = r.lineEnd()
		}
		if err != nil {
			return nil, err
		}
		s.end = r.at
		if s.kind == '[' || s.kind == 'a' {
			table = len(all)
			s.table = -1
		}
		all = append(all, s)
	}
	return all, nil
}

func (r *tomlReader) done() bool { return r.at >= len(r.text) }
func (r *tomlReader) peek() byte { return r.text[r.at] }

func (r *tomlReader) fail(at int, format string, args ...any) error {
	return syntax(r.text, at, format, args...)
}

func (r *tomlReader) blanks() {
	for !r.done() && (r.peek() == ' ' || r.peek() == '\t') {
		r.at++
	}
}

// lineEnd passes over blanks, a comment, and the line break.
func (r *tomlReader) lineEnd() error {
	r.blanks()
	if !r.done() && r.peek() == '#' {
		r.comment()
	}
	switch {
	case r.done():
		return nil
	case r.peek() == '\n':
		r.at++
		return nil
	case bytes.HasPrefix(r.text[r.at:], []byte("\r\n")):
		r.at += 2
		return nil
	}
	return r.fail(r.at, "the end of the line is expected")
}

func (r *tomlReader) comment() {
	for !r.done() && r.peek() != '\n' {
		r.at++
	}
	if r.at < len(r.text) && r.text[r.at-1] == '\r' {
		r.at--
	}
}

func (r *tomlReader) header(s *statement, closing string) error {
	open := s.start
	var err error
	r.blanks()
	if s.key, err = r.key(); err != nil {
		return err
	}
	if !bytes.HasPrefix(r.text[r.at:], []byte(closing)) {
		return r.fail(open, "the header has no %s", closing)
	}
	r.at += len(closing)
	return nil
}

func (r *tomlReader) setting(s *statement) (err error) {
	if s.key, err = r.key(); err != nil {
		return err
	}
	if r.done() || r.peek() != '=' {
		return r.fail(r.at, "= is expected after the name %.60q", strings.Join(s.key, "."))
	}
	r.at++
	r.blanks()
	s.value = r.at
	if err := r.value(0); err != nil {
		return err
	}
	s.valueEnd = r.at
	return nil
}

// key reads names with dots between them, and the blanks behind.
func (r *tomlReader) key() ([]string, error) {
	var names []string
	for {
		r.blanks()
		from := r.at
		switch {
		case r.done():
			return nil, r.fail(from, "a name is expected")
		case r.peek() == '"' || r.peek() == '\'':
			if bytes.HasPrefix(r.text[r.at:], []byte(`"""`)) || bytes.HasPrefix(r.text[r.at:], []byte(`'''`)) {
				return nil, r.fail(from, "a name cannot have several lines")
			}
			if err := r.str(); err != nil {
				return nil, err
			}
			name, err := unquote(r.text[from:r.at])
			if err != nil {
				return nil, r.fail(from, "%v", err)
			}
			names = append(names, name)
		default:
			for !r.done() && bareKey(r.peek()) {
				r.at++
			}
			if r.at == from {
				return nil, r.fail(from, "a name is expected, not %.1q", r.text[from:])
			}
			names = append(names, string(r.text[from:r.at]))
		}
		r.blanks()
		if r.done() || r.peek() != '.' {
			return names, nil
		}
		r.at++
	}
}

func bareKey(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

func (r *tomlReader) value(depth int) error {
	if depth > maxDepth {
		return r.fail(r.at, "this is nested too deeply")
	}
	if r.done() {
		return r.fail(r.at, "a value is expected")
	}
	switch r.peek() {
	case '"', '\'':
		return r.str()
	case '[':
		return r.list(depth)
	case '{':
		return r.inline(depth)
	}
	from := r.at
	for !r.done() && (bareKey(r.peek()) || strings.IndexByte("+.: ", r.peek()) >= 0) {
		r.at++
	}
	for r.at > from && r.text[r.at-1] == ' ' {
		r.at--
	}
	if r.at == from {
		return r.fail(from, "a value is expected")
	}
	return nil
}

// str passes over any of the four kinds of strings.
func (r *tomlReader) str() error {
	from, quote := r.at, r.peek()
	if triple := bytes.Repeat([]byte{quote}, 3); bytes.HasPrefix(r.text[r.at:], triple) {
		for r.at += 3; !r.done(); r.at++ {
			if quote == '"' && r.peek() == '\\' {
				r.at++
				continue
			}
			if bytes.HasPrefix(r.text[r.at:], triple) {
				r.at += 3
				for range 2 { // up to two quotes may stand before the closing ones
					if !r.done() && r.peek() == quote {
						r.at++
					}
				}
				return nil
			}
		}
		return r.fail(from, "the string has no end")
	}
	for r.at++; !r.done() && r.peek() != '\n'; r.at++ {
		if quote == '"' && r.peek() == '\\' {
			r.at++
			continue
		}
		if r.peek() == quote {
			r.at++
			return nil
		}
	}
	return r.fail(from, "the string has no end on its line")
}

// gap passes over blanks, line breaks and comments, as a list may have them.
func (r *tomlReader) gap() {
	for !r.done() {
		switch r.peek() {
		case ' ', '\t', '\n', '\r':
			r.at++
		case '#':
			r.comment()
		default:
			return
		}
	}
}

func (r *tomlReader) list(depth int) error {
	open := r.at
	r.at++
	for {
		r.gap()
		if r.done() {
			return r.fail(open, "the list has no end")
		}
		if r.peek() == ']' {
			r.at++
			return nil
		}
		if err := r.value(depth + 1); err != nil {
			return err
		}
		r.gap()
		switch {
		case r.done():
			return r.fail(open, "the list has no end")
		case r.peek() == ',':
			r.at++
		case r.peek() != ']':
			return r.fail(r.at, "a comma or ] is expected")
		}
	}
}

func (r *tomlReader) inline(depth int) error {
	open := r.at
	r.at++
	for first := true; ; first = false {
		r.blanks()
		if r.done() {
			return r.fail(open, "the table has no end")
		}
		if r.peek() == '}' && first {
			r.at++
			return nil
		}
		if _, err := r.key(); err != nil {
			return err
		}
		if r.done() || r.peek() != '=' {
			return r.fail(r.at, "= is expected")
		}
		r.at++
		r.blanks()
		if err := r.value(depth + 1); err != nil {
			return err
		}
		r.blanks()
		switch {
		case r.done():
			return r.fail(open, "the table has no end")
		case r.peek() == '}':
			r.at++
			return nil
		case r.peek() != ',':
			return r.fail(r.at, "a comma or } is expected")
		}
		r.at++
	}
}

// place is where the entry of a path is in a file.
type place struct {
	all   []statement
	table int // index of its own header, or -1
}

// own reports whether a statement belongs to the entry: its header, its settings,
// and the tables below it.
func (p place) own(i int, path []string) bool {
	s := p.all[i]
	switch {
	case s.kind == '[' || s.kind == 'a':
		return below(s.key, path)
	case s.kind == '=' && s.table >= 0:
		return below(p.all[s.table].key, path)
	}
	return false
}

func below(key, path []string) bool {
	return len(key) >= len(path) && slices.Equal(key[:len(path)], path)
}

// locate finds the entry, and refuses the forms in which it cannot be edited.
func locate(text []byte, path []string) (place, error) {
	all, err := parseTOML(text)
	p := place{all: all, table: -1}
	if err != nil {
		return p, err
	}
	for i, s := range all {
		switch s.kind {
		case '[', 'a':
			overlap := min(len(s.key), len(path))
			if s.kind == 'a' && slices.Equal(s.key[:overlap], path[:overlap]) {
				return p, fmt.Errorf("line %d: [[%s]] is a list of tables: %w", s.line, strings.Join(s.key, "."), ErrForm)
			}
			if slices.Equal(s.key, path) {
				if p.table >= 0 {
					return p, fmt.Errorf("line %d: [%s] is there twice: %w", s.line, strings.Join(path, "."), ErrForm)
				}
				p.table = i
			}
		case '=':
			full := s.key
			if s.table >= 0 {
				full = append(slices.Clone(all[s.table].key), s.key...)
				if below(all[s.table].key, path) {
					continue
				}
			}
			overlap := min(len(full), len(path))
			if slices.Equal(full[:overlap], path[:overlap]) {
				return p, fmt.Errorf("line %d: %s is not a table with a header of its own: %w", s.line, strings.Join(full[:overlap], "."), ErrForm)
			}
		}
	}
	return p, nil
}

func getTOML(text []byte, path []string) (map[string]any, bool, error) {
	p, err := locate(text, path)
	if err != nil {
		return nil, false, err
	}
	entry, found := map[string]any{}, p.table >= 0
	for i, s := range p.all {
		if !p.own(i, path) {
			continue
		}
		found = true
		if s.kind != '=' {
			continue
		}
		key := append(slices.Clone(p.all[s.table].key[len(path):]), s.key...)
		into := entry
		for _, name := range key[:len(key)-1] {
			next, ok := into[name].(map[string]any)
			if !ok {
				next = map[string]any{}
				into[name] = next
			}
			into = next
		}
		into[key[len(key)-1]] = decodeTOML(text[s.value:s.valueEnd])
	}
	return entry, found, nil
}

func putTOML(text []byte, path []string, fields []Field, drop []string) ([]byte, error) {
	p, err := locate(text, path)
	if err != nil {
		return nil, err
	}
	eol := newline(text)
	if p.table < 0 {
		// Tables below the entry may stand before it.
		if text, err = removeNames(text, path, names(fields, drop)); err != nil {
			return nil, err
		}
		var b bytes.Buffer
		b.Write(text)
		if len(text) > 0 && text[len(text)-1] != '\n' {
			b.WriteString(eol)
		}
		if len(bytes.TrimSpace(text)) > 0 {
			b.WriteString(eol)
		}
		b.WriteString("[" + encodeKey(path...) + "]" + eol)
		for _, f := range fields {
			b.WriteString(encodeKey(f.Name) + " = " + encodeTOML(f.Value) + eol)
		}
		return checkedTOML(b.Bytes(), path)
	}
	var missing []Field
	for _, f := range fields {
		at := p.setting(f.Name)
		if at < 0 {
			missing = append(missing, f)
			continue
		}
		s := p.all[at]
		if value := encodeTOML(f.Value); string(text[s.value:s.valueEnd]) != value {
			text = splice(text, s.value, s.valueEnd, value)
			if p, err = locate(text, path); err != nil {
				return nil, err
			}
		}
	}
	if text, err = removeNames(text, path, append(names(missing, nil), drop...)); err != nil {
		return nil, err
	}
	if p, err = locate(text, path); err != nil {
		return nil, err
	}
	at := p.all[p.table].end
	for _, s := range p.all {
		if s.kind == '=' && s.table == p.table {
			at = s.end
		}
	}
	var b strings.Builder
	if len(missing) > 0 && text[at-1] != '\n' {
		b.WriteString(eol)
	}
	for _, f := range missing {
		b.WriteString(encodeKey(f.Name) + " = " + encodeTOML(f.Value) + eol)
	}
	return checkedTOML(splice(text, at, at, b.String()), path)
}

// setting returns the index of a plain setting of the entry, or -1.
func (p place) setting(name string) int {
	return slices.IndexFunc(p.all, func(s statement) bool {
		return s.kind == '=' && s.table == p.table && len(s.key) == 1 && s.key[0] == name
	})
}

func names(fields []Field, more []string) []string {
	all := slices.Clone(more)
	for _, f := range fields {
		all = append(all, f.Name)
	}
	return all
}

// removeNames takes settings of the entry out, in whichever form they are there.
func removeNames(text []byte, path, drop []string) ([]byte, error) {
	return cut(text, path, func(below []string) bool { return len(below) > 0 && slices.Contains(drop, below[0]) })
}

func removeTOML(text []byte, path []string) ([]byte, error) {
	return cut(text, path, func([]string) bool { return true })
}

// cut takes out the statements of the entry that match is true for; it is given
// the rest of their names. Comments stay, and one blank line before the entry goes
// with it.
func cut(text []byte, path []string, match func(below []string) bool) ([]byte, error) {
	p, err := locate(text, path)
	if err != nil {
		return nil, err
	}
	drop := make([]bool, len(p.all))
	for i, s := range p.all {
		if !p.own(i, path) {
			continue
		}
		key := s.key
		if s.kind == '=' {
			key = append(slices.Clone(p.all[s.table].key), s.key...)
		}
		drop[i] = match(key[len(path):])
		if drop[i] && s.kind == '[' && i > 0 && p.all[i-1].kind == ' ' && !p.all[i-1].comment {
			drop[i-1] = true
		}
	}
	var b bytes.Buffer
	for i, s := range p.all {
		if !drop[i] {
			b.Write(text[s.start:s.end])
		}
	}
	return checkedTOML(b.Bytes(), path)
}

func checkedTOML(text []byte, path []string) ([]byte, error) {
	if _, err := locate(text, path); err != nil {
		return nil, fmt.Errorf("the edited file would be broken (%w): %w", err, ErrForm)
	}
	return text, nil
}

func encodeKey(names ...string) string {
	out := make([]string, len(names))
	for i, n := range names {
		if out[i] = n; n == "" || strings.IndexFunc(n, func(r rune) bool { return r > 0x7f || !bareKey(byte(r)) }) >= 0 {
			out[i] = basic(n)
		}
	}
	return strings.Join(out, ".")
}

func encodeTOML(v any) string {
	switch v := v.(type) {
	case string:
		return basic(v)
	case []string:
		parts := make([]string, len(v))
		for i, s := range v {
			parts[i] = basic(s)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]string:
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, encodeKey(k)+" = "+basic(v[k]))
		}
		return "{ " + strings.Join(parts, ", ") + " }"
	}
	return `""`
}

// basic writes a basic string. TOML's escapes are JSON's, but for the control
// character DEL, which it wants escaped.
func basic(s string) string {
	return strings.ReplaceAll(render(s), "\x7f", `\u007f`)
}
