package clientfile

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// MaxSize is how large a file may be, in bytes. Some clients keep histories in
// the file that holds their settings.
const MaxSize = 64 << 20

// Format is how a file is written. The zero value is none.
type Format int

// The formats.
const (
	JSON  Format = iota + 1 // RFC 8259, nothing more
	JSONC                   // JSON with comments and trailing commas
	TOML                    // TOML 1.0
)

// String names the format for people.
func (f Format) String() string {
	switch f {
	case JSON:
		return "JSON"
	case JSONC:
		return "JSON with comments"
	case TOML:
		return "TOML"
	}
	return "no format"
}

// Field is one setting of the entry. Value is a string, a []string or a
// map[string]string.
type Field struct {
	Name  string
	Value any
}

// SyntaxError says where a file is not what its format demands.
type SyntaxError struct {
	Line, Column int // from 1; the column counts bytes
	Problem      string
}

// Error returns place and problem.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Problem)
}

// ErrForm marks an entry, or a place for it, that is written in a form which can
// not be edited without touching what belongs to others.
var ErrForm = errors.New("written in a form that is not edited here")

// syntax makes the error for a place in text.
func syntax(text []byte, at int, format string, args ...any) error {
	at = min(at, len(text))
	line := bytes.Count(text[:at], []byte("\n")) + 1
	column := at - bytes.LastIndexByte(text[:at], '\n')
	return &SyntaxError{Line: line, Column: column, Problem: fmt.Sprintf(format, args...)}
}

var mark = []byte("\xef\xbb\xbf") // a byte order mark, as editors on Windows leave it

// parts takes the byte order mark off.
func parts(text []byte) (bom, rest []byte, err error) {
	if len(text) > MaxSize {
		return nil, nil, fmt.Errorf("the file is larger than %d MiB", MaxSize>>20)
	}
	if bytes.HasPrefix(text, mark) {
		return mark, text[len(mark):], nil
	}
	return nil, text, nil
}

// Get returns the entry at path (object or table names, the entry's own last) as
// decoded values; ok tells whether there is one.
func Get(f Format, text []byte, path ...string) (entry map[string]any, ok bool, err error) {
	_, text, err = parts(text)
	if err != nil {
		return nil, false, err
	}
	if f == TOML {
		return getTOML(text, path)
	}
	return getJSON(f, text, path)
}

// Put returns text with the fields of the entry at path set and those in drop taken
// out; other fields of the entry stay as they are. Empty text is an empty file.
func Put(f Format, text []byte, path []string, fields []Field, drop []string) ([]byte, error) {
	bom, body, err := parts(text)
	if err != nil {
		return nil, err
	}
	var out []byte
	if f == TOML {
		out, err = putTOML(body, path, fields, drop)
	} else {
		out, err = putJSON(f, body, path, fields, drop)
	}
	if err != nil {
		return nil, err
	}
	return append(bytes.Clone(bom), out...), nil
}

// Remove returns text without the entry at path. Without one, text is as it was.
func Remove(f Format, text []byte, path ...string) ([]byte, error) {
	bom, body, err := parts(text)
	if err != nil {
		return nil, err
	}
	var out []byte
	if f == TOML {
		out, err = removeTOML(body, path)
	} else {
		out, err = removeJSON(f, body, path)
	}
	if err != nil {
		return nil, err
	}
	return append(bytes.Clone(bom), out...), nil
}

// newline is how the lines of text end.
func newline(text []byte) string {
	if at := bytes.IndexByte(text, '\n'); at > 0 && text[at-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// splice returns text with what is between from and to replaced.
func splice(text []byte, from, to int, with string) []byte {
	out := make([]byte, 0, len(text)-(to-from)+len(with))
	out = append(out, text[:from]...)
	out = append(out, with...)
	return append(out, text[to:]...)
}

// blank reports whether s is spaces and tabs only.
func blank(s []byte) bool { return strings.Trim(string(s), " \t\r") == "" }
