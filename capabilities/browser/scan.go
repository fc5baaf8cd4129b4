package browser

import (
	"bytes"
	"errors"
	"strconv"
)

// message is the envelope of one protocol message; the parts stay raw.
//
//	answer: {"id":1,"result":{…},"sessionId":"…"}  or  {"id":1,"error":{…}}
//	event:  {"method":"Page.loadEventFired","params":{…},"sessionId":"…"}
type message struct {
	id      int64
	method  string
	session string
	result  []byte // of an answer, or the params of an event
	fault   []byte // the error object of an answer
}

var errMessage = errors.New("malformed protocol message")

// scanMessage reads an envelope without looking into its parts: a screenshot is
// megabytes of base64 in one string, which a general decoder would walk several
// times. The parts alias b.
func scanMessage(b []byte) (m message, err error) {
	err = scanObject(b, func(key string, value []byte) error {
		switch key {
		case "id":
			m.id, err = strconv.ParseInt(string(value), 10, 64)
			return err
		case "method":
			m.method, err = plainString(value)
			return err
		case "sessionId":
			m.session, err = plainString(value)
			return err
		case "result", "params":
			m.result = value
		case "error":
			m.fault = value
		}
		return nil
	})
	if err == nil && m.id == 0 && m.method == "" {
		err = errMessage
	}
	if err != nil {
		return message{}, err
	}
	return m, nil
}

// plainString reads a string without escapes; identifiers of the protocol have
// none.
func plainString(value []byte) (string, error) {
	if len(value) < 2 || value[0] != '"' || bytes.IndexByte(value, '\\') >= 0 {
		return "", errMessage
	}
	return string(value[1 : len(value)-1]), nil
}

// scanObject calls f with each key of the JSON object b and its raw value.
func scanObject(b []byte, f func(key string, value []byte) error) error {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '{' {
		return errMessage
	}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == '}' {
		return tail(b, i+1)
	}
	for {
		start := skipSpace(b, i)
		end, err := skipString(b, start)
		if err != nil {
			return err
		}
		key := b[start+1 : end-1]
		if i = skipSpace(b, end); i >= len(b) || b[i] != ':' {
			return errMessage
		}
		start = skipSpace(b, i+1)
		if end, err = skipValue(b, start); err != nil {
			return err
		}
		if err := f(string(key), b[start:end]); err != nil {
			return err
		}
		if i = skipSpace(b, end); i >= len(b) {
			return errMessage
		}
		switch b[i] {
		case ',':
			i++
		case '}':
			return tail(b, i+1)
		default:
			return errMessage
		}
	}
}

func tail(b []byte, i int) error {
	if skipSpace(b, i) != len(b) {
		return errMessage
	}
	return nil
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the index after the string that starts at i.
func skipString(b []byte, i int) (int, error) {
	if i >= len(b) || b[i] != '"' {
		return 0, errMessage
	}
	for i++; ; {
		quote := bytes.IndexByte(b[i:], '"')
		if quote < 0 {
			return 0, errMessage
		}
		escape := bytes.IndexByte(b[i:i+quote], '\\')
		if escape < 0 {
			return i + quote + 1, nil
		}
		if i += escape + 2; i > len(b) {
			return 0, errMessage
		}
	}
}

// skipValue returns the index after the value that starts at i. Brackets are
// counted, not matched: what is inside is decoded, strictly, where it is used.
func skipValue(b []byte, i int) (int, error) {
	if i >= len(b) {
		return 0, errMessage
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		for depth := 0; i < len(b); {
			switch b[i] {
			case '"':
				end, err := skipString(b, i)
				if err != nil {
					return 0, err
				}
				i = end
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			i++
			if depth == 0 {
				return i, nil
			}
		}
		return 0, errMessage
	}
	start := i
	for i < len(b) && bytes.IndexByte([]byte(",}] \t\r\n"), b[i]) < 0 {
		i++
	}
	if i == start {
		return 0, errMessage
	}
	return i, nil
}
