package policy

import (
	"bytes"
	"encoding/json"

	"github.com/handrail-dev/handrail/capabilities"
)

// PrincipalIn finds who calls in the canonical bytes of an envelope, without
// decoding all of it again: for who notes a call after its envelope was opened. "" if
// they name nobody. A quote inside a text of canonical JSON is escaped, so only the
// field itself can match.
func PrincipalIn(envelope []byte) capabilities.PrincipalID {
	const name = `"principal":"`
	i := bytes.Index(envelope, []byte(name))
	if i < 0 {
		return ""
	}
	text := envelope[i+len(name):]
	for n := 0; n < len(text); n++ {
		switch text[n] {
		case '\\': // seldom: the name of a principal is plain
			return unquoted(envelope[i+len(name)-1:])
		case '"':
			return capabilities.PrincipalID(text[:n])
		}
	}
	return ""
}

// unquoted reads the JSON string that b begins with.
func unquoted(b []byte) (id capabilities.PrincipalID) {
	if json.NewDecoder(bytes.NewReader(b)).Decode(&id) != nil {
		return ""
	}
	return id
}

// IsolationIn finds the class that an envelope needs, in the same way.
func IsolationIn(envelope []byte) capabilities.IsolationClass {
	_, rest, ok := bytes.Cut(envelope, []byte(`"isolation_class":"`))
	if text, _, end := bytes.Cut(rest, []byte(`"`)); ok && end {
		return capabilities.IsolationClass(text)
	}
	return ""
}
