package devtools

import (
	"bytes"
	"encoding/json"

	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
)

// Decode reads an event, or a part of an answer, and reports whether that was possible. Bytes that
// are no UTF-8 are taken as Chrome sent them.
func Decode(params []byte, into any) bool {
	return jsonv2.Unmarshal(params, into, jsonv2.AllowInvalidUTF8(true)) == nil
}

// StringOf reads a JSON string; whatever else it is stays as it stands.
func StringOf(raw jsonv2.Value) string {
	if len(raw) < 2 || raw[0] != '"' {
		return string(raw)
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
