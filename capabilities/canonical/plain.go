package canonical

import "bytes"

// plain reports whether data, which encoding/json wrote, is canonical, as far as one
// look tells: names in order, printable ASCII without escapes, whole numbers of at
// most 15 digits. Of anything else it says no.
func plain(data []byte) bool {
	p := glance{rest: data}
	return p.value(defaultMaxDepth) && len(p.rest) == 0
}

// glance takes one thing after the other from the beginning of rest.
type glance struct{ rest []byte }

// take takes c if it comes next.
func (p *glance) take(c byte) bool {
	if len(p.rest) == 0 || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// value takes a value with at most depth arrays and objects within each other.
func (p *glance) value(depth int) bool {
	switch {
	case len(p.rest) == 0:
		return false
	case p.rest[0] == '"':
		_, ok := p.text()
		return ok
	case p.take('{'):
		var last []byte
		for first := true; depth > 0 && !(first && p.take('}')); first = false {
			name, ok := p.text()
			if !ok || !first && bytes.Compare(last, name) >= 0 || !p.take(':') || !p.value(depth-1) {
				return false
			}
			if last = name; !p.take(',') {
				return p.take('}')
			}
		}
		return depth > 0
	case p.take('['):
		for first := true; depth > 0 && !(first && p.take(']')); first = false {
			if !p.value(depth - 1) {
				return false
			}
			if !p.take(',') {
				return p.take(']')
			}
		}
		return depth > 0
	}
	for _, word := range []string{"true", "false", "null"} {
		if len(p.rest) >= len(word) && string(p.rest[:len(word)]) == word {
			p.rest = p.rest[len(word):]
			return true
		}
	}
	return p.number()
}

// text takes a string and returns what stands between its quotes.
func (p *glance) text() ([]byte, bool) {
	if !p.take('"') {
		return nil, false
	}
	for i, c := range p.rest {
		switch {
		case c == '"':
			s := p.rest[:i]
			p.rest = p.rest[i+1:]
			return s, true
		case c < 0x20 || c > 0x7e || c == '\\':
			return nil, false
		}
	}
	return nil, false
}

func (p *glance) number() bool {
	if p.take('0') {
		return true
	}
	p.take('-')
	digits := 0
	for digits < len(p.rest) && p.rest[digits] >= '0' && p.rest[digits] <= '9' {
		digits++
	}
	if digits == 0 || digits > 15 || p.rest[0] == '0' {
		return false
	}
	p.rest = p.rest[digits:]
	return true
}
