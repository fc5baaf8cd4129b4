package withhold

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// Mark stands where a value was.
const Mark = "[secret]"

// forms is the ways a value is written, the longest first.
type forms [][]byte

// formsOf gives the value itself and the common encodings of the whole of it.
func formsOf(s capabilities.Secret) forms {
	v := s.Reveal()
	text := string(v)
	lower := []byte(hex.EncodeToString(v))
	f := forms{
		bytes.Clone(v), lower, bytes.ToUpper(lower),
		base64.RawStdEncoding.AppendEncode(nil, v), base64.RawURLEncoding.AppendEncode(nil, v),
		[]byte(url.QueryEscape(text)), []byte(url.PathEscape(text)),
	}
	if quoted := quote(text); len(quoted) > 2 {
		f = append(f, quoted[1:len(quoted)-1]) // JSON inside of a text
	}
	// A browser cuts the blanks at the ends of what it shows.
	if cut := bytes.TrimSpace(v); len(cut) > 0 {
		f = append(f, bytes.Clone(cut))
	}
	slices.SortFunc(f, func(a, b []byte) int {
		if d := len(b) - len(a); d != 0 {
			return d
		}
		return bytes.Compare(a, b)
	})
	return slices.CompactFunc(f, bytes.Equal)
}

func (f forms) wipe() {
	for _, form := range f {
		clear(form)
	}
}

// replace gives data with every form replaced; data itself if none is in it.
func (f forms) replace(data []byte) []byte {
	for _, form := range f {
		if len(form) > 0 && bytes.Contains(data, form) {
			data = bytes.ReplaceAll(data, form, []byte(Mark))
		}
	}
	return data
}

// replaceJSON does so in a JSON text: in strings and keys as they mean, in numbers
// as a whole. What is no JSON is replaced as bytes.
func (f forms) replaceJSON(data []byte) []byte {
	out := make([]byte, 0, len(data))
	for i := 0; i < len(data); {
		switch ch := data[i]; {
		case ch == '"':
			end := stringEnd(data, i)
			token := data[i:end]
			var text string
			if json.Unmarshal(token, &text) != nil {
				out = append(out, f.replace(token)...)
			} else if clean := f.replace([]byte(text)); string(clean) != text {
				out = append(out, quote(string(clean))...)
			} else {
				out = append(out, token...)
			}
			i = end
		case ch == '-' || ch >= '0' && ch <= '9':
			end := i + 1
			for end < len(data) && strings.IndexByte("0123456789+-.eE", data[end]) >= 0 {
				end++
			}
			if token := data[i:end]; slices.ContainsFunc(f, func(form []byte) bool { return bytes.Equal(form, token) }) {
				out = append(out, `"`+Mark+`"`...)
			} else {
				out = append(out, token...)
			}
			i = end
		default:
			out = append(out, ch)
			i++
		}
	}
	return out
}

// stringEnd gives the index behind the JSON string that begins at i.
func stringEnd(data []byte, i int) int {
	for j := i + 1; j < len(data); j++ {
		switch data[j] {
		case '\\':
			j++
		case '"':
			return j + 1
		}
	}
	return len(data)
}

// quote gives text as a JSON string in which "<" stays one character.
func quote(text string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a string always encodes
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
