package suite

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// Pick follows a path through decoded JSON: names of fields, places in lists, and
// "length" of a list, as in "tabs.0.url". The empty path is the value itself; where
// there is nothing, it returns nil.
func Pick(v any, path string) any {
	if path == "" {
		return v
	}
	for name := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[name]
		case []any:
			if name == "length" {
				v = float64(len(x))
				break
			}
			var i int
			if _, err := fmt.Sscan(name, &i); err != nil || i < 0 || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

// Number reads a number from decoded JSON, 0 if there is none.
func Number(v any, path string) float64 {
	n, _ := Pick(v, path).(float64)
	return n
}

// Brief is a value as JSON, of at most 400 bytes.
func Brief(v any) string { return capabilities.Brief(JSON(v), 400) }

// Plain undoes the escapes that json.Marshal adds for HTML.
func Plain(text []byte) string {
	return strings.NewReplacer(`\u0026`, "&", `\u003c`, "<", `\u003e`, ">").Replace(string(text))
}

// HoldsAll says whether text holds each of the words.
func HoldsAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// JSON is a value as JSON, without the escapes for HTML.
func JSON(v any) string {
	text, _ := json.Marshal(v)
	return Plain(text)
}
