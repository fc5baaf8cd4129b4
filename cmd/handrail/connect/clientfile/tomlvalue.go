package clientfile

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// decodeTOML returns a string, a list or an inline table as Go values; anything else
// as its text. value was read by parseTOML.
func decodeTOML(value []byte) any {
	r := &tomlReader{text: value}
	return r.decode()
}

func (r *tomlReader) decode() any {
	if r.done() {
		return nil
	}
	from := r.at
	switch r.peek() {
	case '"', '\'':
		if r.str() != nil {
			return nil
		}
		s, err := unquote(r.text[from:r.at])
		if err != nil {
			return nil
		}
		return s
	case '[':
		list := []any{}
		for r.at++; ; {
			r.gap()
			if r.done() {
				return list
			}
			if r.peek() == ']' {
				r.at++
				return list
			}
			before := r.at
			list = append(list, r.decode())
			r.gap()
			if !r.done() && r.peek() == ',' {
				r.at++
			} else if r.at == before {
				return list
			}
		}
	case '{':
		table := map[string]any{}
		for r.at++; ; {
			r.blanks()
			if r.done() {
				return table
			}
			if r.peek() == '}' {
				r.at++
				return table
			}
			key, err := r.key()
			if err != nil || r.done() || r.peek() != '=' {
				return table
			}
			r.at++
			r.blanks()
			table[strings.Join(key, ".")] = r.decode()
			r.blanks()
			if !r.done() && r.peek() == ',' {
				r.at++
			}
		}
	}
	if r.value(0) != nil {
		return nil
	}
	return string(r.text[from:r.at])
}

var errEscape = errors.New("the string has an escape that TOML does not know")

// unquote returns the text of any of the four kinds of strings.
func unquote(s []byte) (string, error) {
	text := string(s)
	multi := len(text) >= 6 && (strings.HasPrefix(text, `"""`) || strings.HasPrefix(text, `'''`))
	basic := text[0] == '"'
	if multi {
		text = text[3 : len(text)-3]
		text = strings.TrimPrefix(strings.TrimPrefix(text, "\r"), "\n")
	} else {
		text = text[1 : len(text)-1]
	}
	if !basic {
		return text, nil
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			b.WriteByte(text[i])
			continue
		}
		i++
		if i == len(text) {
			return "", errEscape
		}
		switch c := text[i]; c {
		case 'b', 't', 'n', 'f', 'r', '"', '\\':
			b.WriteByte("\b\t\n\f\r\"\\"[strings.IndexByte(`btnfr"\`, c)])
		case 'u', 'U':
			digits := 4
			if c == 'U' {
				digits = 8
			}
			if i+digits >= len(text) {
				return "", errEscape
			}
			n, err := strconv.ParseUint(text[i+1:i+1+digits], 16, 32)
			if err != nil || !utf8.ValidRune(rune(n)) {
				return "", errEscape
			}
			b.WriteRune(rune(n))
			i += digits
		default:
			rest := strings.TrimLeft(text[i:], " \t\r")
			if !multi || !strings.HasPrefix(rest, "\n") {
				return "", errEscape
			}
			i = len(text) - len(strings.TrimLeft(rest, " \t\r\n")) - 1
		}
	}
	return b.String(), nil
}
