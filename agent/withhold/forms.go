package withhold

import (
	"bytes"
	"cmp"
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

// forms is the ways a value is written.
type forms struct {
	whole  [][]byte
	pieces []*pieces
}

// Parts of a value count from leastPiece characters on; of its encodings from leastCoded,
// which stand for about as many. Long values have no parts of encodings: they would cost
// more memory than they are worth.
const (
	leastPiece = 4
	leastCoded = 8
	maxCoded   = 1 << 10
)

// formsOf returns the value itself and its common encodings.
func formsOf(s capabilities.Secret) *forms {
	v := s.Reveal()
	text := string(v)
	lower := []byte(hex.EncodeToString(v))
	coded := [][]byte{
		lower, bytes.ToUpper(lower),
		base64.RawStdEncoding.AppendEncode(nil, v), base64.RawURLEncoding.AppendEncode(nil, v),
		[]byte(url.QueryEscape(text)), []byte(url.PathEscape(text)),
	}
	if quoted := quote(text); len(quoted) > 2 {
		coded = append(coded, quoted[1:len(quoted)-1]) // JSON inside of a text
	}
	f := &forms{whole: append([][]byte{bytes.Clone(v)}, coded...), pieces: []*pieces{piecesOf(v, leastPiece)}}
	// A browser cuts the blanks at the ends of what it shows.
	if cut := bytes.TrimSpace(v); len(cut) > 0 {
		f.whole = append(f.whole, bytes.Clone(cut))
	}
	slices.SortFunc(f.whole, bytes.Compare)
	f.whole = slices.CompactFunc(f.whole, bytes.Equal)
	for _, form := range f.whole {
		if len(v) <= maxCoded && !bytes.Equal(form, v) {
			f.pieces = append(f.pieces, piecesOf(form, leastCoded))
		}
	}
	return f
}

func (f *forms) wipe() {
	for _, form := range f.whole {
		clear(form)
	}
	for _, p := range f.pieces {
		p.wipe()
	}
}

// same reports whether both are of one value.
func (f *forms) same(o *forms) bool { return slices.EqualFunc(f.whole, o.whole, bytes.Equal) }

// holds reports whether a whole value is in data.
func (f *forms) holds(data []byte) bool {
	return slices.ContainsFunc(f.whole, func(form []byte) bool { return bytes.Contains(data, form) })
}

// span is a part of a text.
type span struct{ begin, end int }

// replace returns data with every form and every piece of one replaced, but for pieces within
// a word of own; data itself if none is in it.
func (f *forms) replace(data []byte, own map[string]bool) []byte {
	found := f.wholes(data)
	for _, p := range f.pieces {
		p.spans(data, func(begin, end int) {
			if !own[string(word(data, begin, end))] {
				found = append(found, span{begin, end})
			}
		})
	}
	return mark(data, found)
}

// word returns the name that a part of data is in, as fields are named.
func word(data []byte, begin, end int) []byte {
	in := func(i int) bool { return data[i] == '_' || data[i] >= 'a' && data[i] <= 'z' }
	for begin > 0 && in(begin-1) {
		begin--
	}
	for end < len(data) && in(end) {
		end++
	}
	return data[begin:end]
}

// replaceWhole does so with whole forms only.
func (f *forms) replaceWhole(data []byte, _ map[string]bool) []byte {
	return mark(data, f.wholes(data))
}

func (f *forms) wholes(data []byte) (found []span) {
	for _, form := range f.whole {
		for at := 0; len(form) > 0; at += len(form) {
			i := bytes.Index(data[at:], form)
			if i < 0 {
				break
			}
			at += i
			found = append(found, span{at, at + len(form)})
		}
	}
	return found
}

// mark puts Mark in the place of each of the spans, and of those that overlap once.
func mark(data []byte, found []span) []byte {
	if len(found) == 0 {
		return data
	}
	slices.SortFunc(found, func(a, b span) int { return cmp.Or(a.begin-b.begin, b.end-a.end) })
	out := make([]byte, 0, len(data))
	end := 0
	for _, s := range found {
		if s.begin >= end {
			out = append(append(out, data[end:s.begin]...), Mark...)
		}
		end = max(end, s.end)
	}
	return append(out, data[end:]...)
}

// replaceJSON replaces in a JSON text: in strings as they mean, in keys whole forms only, because a
// piece may be the name of a field, and in numbers as a whole. Output that is no JSON is replaced
// as bytes.
func (f *forms) replaceJSON(data []byte, own map[string]bool) []byte {
	out := make([]byte, 0, len(data))
	for i := 0; i < len(data); {
		switch ch := data[i]; {
		case ch == '"':
			end := stringEnd(data, i)
			token, replace := data[i:end], f.replace
			if isKey(data[end:]) {
				replace = f.replaceWhole
			}
			var text string
			if json.Unmarshal(token, &text) != nil {
				out = append(out, replace(token, own)...)
			} else if clean := replace([]byte(text), own); string(clean) != text {
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
			if token := data[i:end]; slices.ContainsFunc(f.whole, func(form []byte) bool { return bytes.Equal(form, token) }) {
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

// isKey reports whether what stands before rest is a key.
func isKey(rest []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(":")) }

// stringEnd returns the index behind the JSON string that begins at i.
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

// quote returns text as a JSON string in which "<" stays one character.
func quote(text string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a string always encodes
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
