package bridge

import "bytes"

// rpcHead is what the bridge has to know of a message it passes on.
type rpcHead struct {
	id, method, version []byte // as JSON; nil where the message has none
}

// readHead finds a message's id and method without decoding the rest: results
// hold whole pages and images, and decoding them only to look at their number
// costs milliseconds. ok is false for what is not one object on one line, which
// the caller then takes the long way.
func readHead(data []byte) (h rpcHead, ok bool) {
	if len(data) < 2 || data[0] != '{' || bytes.IndexByte(data, '\n') >= 0 || bytes.IndexByte(data, '\r') >= 0 {
		return h, false
	}
	at := 1
	for {
		if at = skipSpace(data, at); at == len(data) {
			return h, false
		}
		if data[at] == '}' {
			return h, skipSpace(data, at+1) == len(data)
		}
		key := at
		if at = skipString(data, at); at < 0 {
			return h, false
		}
		name := data[key+1 : at-1]
		if at = skipSpace(data, at); at == len(data) || data[at] != ':' {
			return h, false
		}
		value := skipSpace(data, at+1)
		if at = skipValue(data, value); at < 0 {
			return h, false
		}
		switch string(name) {
		case "id":
			h.id = bytes.TrimRight(data[value:at], " \t")
		case "method":
			h.method = bytes.TrimRight(data[value:at], " \t")
		case "jsonrpc":
			h.version = bytes.TrimRight(data[value:at], " \t")
		}
		if data[at] == ',' {
			at++
		}
	}
}

func skipSpace(data []byte, at int) int {
	for at < len(data) && (data[at] == ' ' || data[at] == '\t') {
		at++
	}
	return at
}

// skipString returns the place behind the string that begins at, -1 for none.
func skipString(data []byte, at int) int {
	if at >= len(data) || data[at] != '"' {
		return -1
	}
	for from := at + 1; ; {
		n := bytes.IndexByte(data[from:], '"')
		if n < 0 {
			return -1
		}
		end := from + n
		escapes := 0
		for data[end-1-escapes] == '\\' {
			escapes++
		}
		if from = end + 1; escapes%2 == 0 {
			return from
		}
	}
}

// skipValue returns the place of the "," or "}" behind the value that begins at,
// -1 if there is none.
func skipValue(data []byte, at int) int {
	start := at
	for depth := 0; at < len(data); {
		switch c := data[at]; c {
		case '"':
			if at = skipString(data, at); at < 0 {
				return -1
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				if c == ']' || at == start {
					return -1
				}
				return at
			}
			depth--
		case ',':
			if depth == 0 {
				if at == start {
					return -1
				}
				return at
			}
		}
		at++
	}
	return -1
}
