package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
)

// typedSecrets are the passwords and codes that calls put into a lane's pages.
// Pages show them, send them on, and some log them: every answer goes through a
// hider, which leaves them out in every usual spelling.
type typedSecrets struct {
	mu    sync.Mutex
	texts []string
	hider *hider
}

// Bounds: what is shorter would be found everywhere.
const (
	minTyped = 4
	maxTyped = 64
)

// unescaped are the signs that stay as they are in what makes an address: of forms, of
// encodeURIComponent, of encodeURI, of other languages' two ways, of a browser's queries
// and paths.
var unescaped = []string{"*-._", "-_.!~*'()", "-_.!~*'();/?:@&=+$,#", "-_.~", "-_.~$&+=:@", "!$%&()*+,-./:;=?@[\\]^_`{|}~", "!$%&'()*+,-./:;=@[]_~"}

// percent escapes all but letters, digits and keep.
func percent(text, keep string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte(keep, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// asHTML spells a text as innerHTML does, asAttribute as it does in attributes, asName as
// Chrome does in the name of a file.
var (
	asHTML      = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	asAttribute = strings.NewReplacer("&", "&amp;", `"`, "&quot;")
	asName      = strings.NewReplacer(`"`, "_", "*", "_", "/", "_", ":", "_", "<", "_", ">", "_", "?", "_", `\`, "_", "|", "_")
)

// noteTyped remembers a secret for the life of the lane, in memory only.
func (l *lane) noteTyped(text string) {
	s := &l.typed
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(text) < minTyped || slices.Contains(s.texts, text) {
		return
	}
	if len(s.texts) >= maxTyped {
		s.texts = s.texts[1:]
	}
	s.texts = append(s.texts, text)
	h := &hider{}
	for _, t := range s.texts {
		for _, keep := range unescaped {
			form := percent(t, keep)
			h.spellings = append(h.spellings, form, strings.ReplaceAll(form, "%20", "+"))
		}
		quoted, _ := json.Marshal(t)
		plain := quote(t)
		h.spellings = append(h.spellings, t, string(quoted[1:len(quoted)-1]), string(plain[1:len(plain)-1]), asHTML.Replace(t), asAttribute.Replace(t), asName.Replace(t))
	}
	// The longest first: one may begin as another does.
	slices.SortFunc(h.spellings, func(a, b string) int {
		if d := len(b) - len(a); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	h.spellings = slices.Compact(h.spellings)
	pairs := make([]string, 0, 2*len(h.spellings))
	for _, spelling := range h.spellings {
		pairs = append(pairs, spelling, hidden)
	}
	h.all = strings.NewReplacer(pairs...)
	s.hider = h
}

// quote gives text as JSON as pages write it: "<" stays one character.
func quote(text string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.Encode(text)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// hider takes what was typed in secret out of answers; nil leaves all as it is.
type hider struct {
	spellings []string
	all       *strings.Replacer
}

// hider gives what hides all that was typed in secret so far.
func (l *lane) hider() *hider {
	s := &l.typed
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hider
}

// ours are words of ours that a secret may be found in: refs and other names that
// calls take, and what the catalog lists for a field.
var ours = regexp.MustCompile(`^(([a-z]\d+)+|image/[a-z]+|chromium)$`)

// text gives a text without the secrets. Refs in an outline stay what they are.
func (h *hider) text(s string) string {
	if h == nil {
		return s
	}
	if strings.Contains(s, cutMark) {
		s = h.cut(s)
	}
	if !slices.ContainsFunc(h.spellings, func(spelling string) bool { return strings.Contains(s, spelling) }) || ours.MatchString(s) {
		return s
	}
	const mark = "[ref="
	var out strings.Builder
	for {
		at := strings.Index(s, mark)
		if at < 0 {
			break
		}
		end := at + len(mark)
		if ref, _, ok := strings.Cut(s[end:], "]"); ok && refPattern.MatchString(ref) {
			out.WriteString(h.all.Replace(s[:at]) + s[at:end+len(ref)])
			end += len(ref)
		} else {
			out.WriteString(h.all.Replace(s[:end]))
		}
		s = s[end:]
	}
	return out.String() + h.all.Replace(s)
}

// cutMark stands where a text was cut: by us, by the page's script, by Chrome.
const cutMark = "…"

// minPiece is the shortest piece of a secret that is hidden beside such a mark: what is
// shorter ends or begins many a text by chance.
const minPiece = 2

// cut hides what a cut left of a secret: its beginning before the mark, its end behind.
func (h *hider) cut(s string) string {
	parts := strings.Split(s, cutMark)
	for i, part := range parts {
		if i > 0 {
			for n := 1; n > 0; part = part[n:] {
				n = h.longest(func(spelling string, n int) bool { return strings.HasPrefix(part, spelling[len(spelling)-n:]) })
			}
			if len(part) < len(parts[i]) {
				part = hidden + part
			}
		}
		whole := len(part)
		if i < len(parts)-1 {
			for n := 1; n > 0; part = part[:len(part)-n] {
				n = h.longest(func(spelling string, n int) bool { return strings.HasSuffix(part, spelling[:n]) })
			}
			if len(part) < whole {
				part += hidden
			}
		}
		parts[i] = part
	}
	return strings.Join(parts, cutMark)
}

// longest gives the length of the longest piece of a spelling that is there, 0 for none.
func (h *hider) longest(there func(spelling string, n int) bool) (most int) {
	for _, spelling := range h.spellings {
		for n := len(spelling); n > most && n >= minPiece; n-- {
			if there(spelling, n) {
				most = n
			}
		}
	}
	return most
}

// output hides in what a call gives.
func (h *hider) output(out *capabilities.Output) {
	if h != nil {
		h.in(reflect.ValueOf(&out.Result).Elem())
		out.Evidence = h.text(out.Evidence)
	}
}

// refusal hides in what a call is refused with.
func (h *hider) refusal(e *capabilities.Error) *capabilities.Error {
	if h == nil {
		return e
	}
	e = e.WithHint(h.text(e.Hint))
	e.Message = h.text(e.Message)
	h.in(reflect.ValueOf(&e.Details).Elem())
	return e
}

// in hides in every text of v. What v points to may be a record's own: it is
// copied, not written to. Bytes stay as they are, and so do the names of fields.
func (h *hider) in(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(h.text(v.String()))
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return
		}
		to := reflect.New(v.Elem().Type())
		to.Elem().Set(v.Elem())
		h.in(to.Elem())
		if v.Kind() == reflect.Interface {
			to = to.Elem()
		}
		v.Set(to)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() || f.Kind() == reflect.Struct { // an embedded one has fields to set
				h.in(f)
			}
		}
	case reflect.Slice:
		if raw, ok := v.Interface().(json.RawMessage); ok {
			v.SetBytes(h.json(raw))
		} else if v.Type().Elem().Kind() != reflect.Uint8 {
			to := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(to, v)
			for i := range v.Len() {
				h.in(to.Index(i))
			}
			v.Set(to)
		}
	case reflect.Map:
		to := reflect.MakeMap(v.Type())
		for key, value := range v.Seq2() {
			element := reflect.New(v.Type().Elem()).Elem()
			element.Set(value)
			h.in(element)
			to.SetMapIndex(key, element)
		}
		v.Set(to)
	}
}

// json hides in the strings and names of a JSON text, as they mean.
func (h *hider) json(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		end := i + 1
		if raw[i] == '"' {
			for ; end < len(raw) && raw[end] != '"'; end++ {
				if raw[end] == '\\' {
					end++
				}
			}
			end = min(end+1, len(raw))
			var text string
			if json.Unmarshal(raw[i:end], &text) == nil {
				if shown := h.text(text); shown != text {
					out = append(out, quote(shown)...)
					i = end
					continue
				}
			}
		}
		out = append(out, raw[i:end]...)
		i = end
	}
	return out
}
