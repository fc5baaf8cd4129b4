package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/record"
)

// unescaped are the signs that stay as they are in what makes an address: of forms, of
// encodeURIComponent, of encodeURI, of other languages' two ways, of a browser's queries
// and paths.
var unescaped = []string{
	"*-._", "-_.!~*'()", "-_.!~*'();/?:@&=+$,#", "-_.~", "-_.~$&+=:@", "!$%&()*+,-./:;=?@[\\]^_`{|}~", "!$%&'()*+,-./:;=@[]_~",
}

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

// quote returns text as JSON as pages write it: "<" stays one character.
func quote(text string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.Encode(text)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// hider takes what was typed in secret out of answers; nil leaves all as it is. A value of
// minLong characters and more it hides wherever it is a whole word, in every usual
// spelling. Every value it hides where it stands under the name of its field: in an
// address, a form's body, JSON, an element's attributes.
type hider struct {
	secrets   []known
	spellings []string // of the long ones, the longest first
}

// known is a secret as texts may have it.
type known struct {
	typedSecret
	spellings []string
	pairs     []*regexp.Regexp // of a name of its field and the value
	torn      []*regexp.Regexp // of such a name and the beginning of a short value, before a cut
	tag       *regexp.Regexp   // of the field, and an attribute in it with the value
	attribute *regexp.Regexp
}

func newHider(secrets []typedSecret) *hider {
	h := &hider{}
	for _, s := range secrets {
		k := newKnown(s)
		h.secrets = append(h.secrets, k)
		if s.long() {
			h.spellings = append(h.spellings, k.spellings...)
		}
	}
	h.spellings = longestFirst(h.spellings)
	return h
}

// longestFirst orders spellings: one may begin as another does.
func longestFirst(all []string) []string {
	slices.SortFunc(all, func(a, b string) int {
		if d := len(b) - len(a); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return slices.Compact(all)
}

// spellingsOf returns the ways in which pages write a text.
func spellingsOf(t string) (all []string) {
	for _, keep := range unescaped {
		form := percent(t, keep)
		all = append(all, form, strings.ReplaceAll(form, "%20", "+"))
	}
	quoted, _ := json.Marshal(t)
	plain := quote(t)
	return longestFirst(append(all, t, string(quoted[1:len(quoted)-1]), string(plain[1:len(plain)-1]), asHTML.Replace(t),
		asAttribute.Replace(t), asName.Replace(t)))
}

// The edges of a name or a value in texts, and quotes, which may be escaped themselves.
const (
	edge   = `[^\pL\pN]`
	quotes = `\\*["']`
	lines  = `(?:\r?\n){2}`
)

func newKnown(s typedSecret) known {
	k := known{typedSecret: s, spellings: spellingsOf(s.text)}
	if len(s.names) == 0 {
		return k
	}
	var called []string
	for _, name := range s.names {
		called = append(called, spellingsOf(name)...)
	}
	v, n := anyOf(k.spellings), anyOf(called)
	for _, pair := range []string{
		`((?:^|` + edge + `)` + n + `=)` + v + `($|` + edge + `)`,
		`(` + quotes + n + quotes + `\s*:\s*(?:` + quotes + `)?)` + v + `($|\\*["'\s,}\]])`,
		`((?:^|` + edge + `)` + n + `\s*:\s*["'])` + v + `(["'])`,
		`(name=` + quotes + n + quotes + lines + `)` + v + `($|[\r\n])`,
	} {
		k.pairs = append(k.pairs, regexp.MustCompile(pair))
	}
	if !s.long() {
		var begun []string
		for _, spelling := range k.spellings {
			for n := 1; n < len(spelling); n++ {
				begun = append(begun, spelling[:n])
			}
		}
		for _, pair := range []string{
			`((?:^|` + edge + `)` + n + `=)`, `(` + quotes + n + quotes + `\s*:\s*(?:` + quotes + `)?)`, `((?:^|` + edge + `)` + n + `\s*:\s*["'])`,
		} {
			if len(begun) > 0 {
				k.torn = append(k.torn, regexp.MustCompile(pair+anyOf(longestFirst(begun))+`(`+cutMark+`)`))
			}
		}
	}
	k.tag = regexp.MustCompile(`<[^<>]*\s(?:name|id)=["']?` + n + `["'\s/>][^<>]*>?`)
	k.attribute = regexp.MustCompile(`(=["']?)` + v + `($|["'\s/>])`)
	return k
}

// anyOf is a pattern for each of some texts.
func anyOf(texts []string) string {
	quoted := make([]string, len(texts))
	for i, t := range texts {
		quoted[i] = regexp.QuoteMeta(t)
	}
	return "(?:" + strings.Join(quoted, "|") + ")"
}

// hidden stands in the place of what was typed in secret, as in that of a header.
const hidden = record.Hidden

const inPlace = "${1}" + hidden + "${2}"

// named hides the value under the names of its field.
func (k known) named(s string) string {
	for _, pair := range k.pairs {
		s = pair.ReplaceAllString(pair.ReplaceAllString(s, inPlace), inPlace) // two may share an edge
	}
	if k.tag != nil {
		s = k.tag.ReplaceAllStringFunc(s, func(tag string) string { return k.attribute.ReplaceAllString(tag, inPlace) })
	}
	return s
}

func holdsAny(s string, all []string) bool {
	return slices.ContainsFunc(all, func(x string) bool { return strings.Contains(s, x) })
}

// holdsShort tells whether a short secret is in s at all.
func (h *hider) holdsShort(s string) bool {
	return h != nil && slices.ContainsFunc(h.secrets, func(k known) bool { return !k.long() && holdsAny(s, k.spellings) })
}

// body hides in what a page sent while it showed a document. Scripts of that document may
// name a value otherwise than its field does, so there it is hidden under any name.
func (h *hider) body(s string, from shownDocument) string {
	if h == nil {
		return s
	}
	for _, k := range h.secrets {
		if k.place != from || !holdsAny(s, k.spellings) || k.named(s) != s {
			continue
		}
		v := anyOf(k.spellings)
		under := regexp.MustCompile(`(^|=|[:\[,]\s*"?|\n\r?\n)` + v + `($|["&,}\]\r\n])`)
		s = under.ReplaceAllString(under.ReplaceAllString(s, inPlace), inPlace)
	}
	return h.text(s)
}

// whole hides a text that is a short secret and nothing else.
func (h *hider) whole(s string) string {
	if h != nil && slices.ContainsFunc(h.secrets, func(k known) bool { return !k.long() && strings.TrimSpace(s) == k.text }) {
		return hidden
	}
	return h.text(s)
}

// ours are words of ours that a secret may be found in: refs and other names that
// calls take, and what the catalog lists for a field.
var ours = regexp.MustCompile(`^(([a-z]\d+)+|image/[a-z]+|chromium)$`)

// text returns a text without the secrets. Refs in an outline stay what they are.
func (h *hider) text(s string) string {
	if h == nil {
		return s
	}
	for _, k := range h.secrets {
		if k.tag != nil && holdsAny(s, k.spellings) {
			s = k.named(s)
		}
	}
	if strings.Contains(s, cutMark) {
		s = h.cut(s)
	}
	if !holdsAny(s, h.spellings) || ours.MatchString(s) {
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
			out.WriteString(h.words(s[:at]) + s[at:end+len(ref)])
			end += len(ref)
		} else {
			out.WriteString(h.words(s[:end]))
		}
		s = s[end:]
	}
	return out.String() + h.words(s)
}

// words hides the long secrets where they are whole words.
func (h *hider) words(s string) string {
	for _, spelling := range h.spellings {
		s = hideWords(s, spelling)
	}
	return s
}

// hideWords hides a text where it is a whole word.
func hideWords(s, word string) string {
	var out strings.Builder
	for from := 0; ; {
		at := strings.Index(s[from:], word)
		if at < 0 {
			return out.String() + s
		}
		at += from
		if end := at + len(word); begins(s, at) && stops(s, end) {
			out.WriteString(s[:at] + hidden)
			s, from = s[end:], 0
		} else {
			_, n := utf8.DecodeRuneInString(s[at:])
			from = at + n
		}
	}
}

// escape ends with what is written for one other sign: in addresses and in JSON.
var escape = regexp.MustCompile(`(%[0-9A-Fa-f]{2}|\\[nrtbf]|\\u[0-9A-Fa-f]{4})$`)

// begins tells whether a word can begin at a place in s, stops whether it can end there:
// not between two letters or digits, but for scripts that have no gaps between words.
func begins(s string, at int) bool {
	last, _ := utf8.DecodeLastRuneInString(s[:at])
	first, _ := utf8.DecodeRuneInString(s[at:])
	return at == 0 || !joins(last) || !joins(first) || escape.MatchString(s[max(at-6, 0):at])
}

func stops(s string, at int) bool {
	last, _ := utf8.DecodeLastRuneInString(s[:at])
	next, _ := utf8.DecodeRuneInString(s[at:])
	return at == len(s) || !joins(last) || !joins(next)
}

func joins(r rune) bool {
	return (unicode.IsLetter(r) || unicode.IsDigit(r)) &&
		!unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// cutMark stands where a text was cut: by us, by the page's script, by Chrome.
const cutMark = "…"

// minPiece is the shortest piece of a secret that is hidden beside such a mark: what is
// shorter ends or begins many a text by chance.
const minPiece = 2

// cut hides what a cut left of a long secret: its beginning before the mark, its end behind;
// and of a short one its beginning under the name of its field.
func (h *hider) cut(s string) string {
	for _, k := range h.secrets {
		for _, torn := range k.torn {
			s = torn.ReplaceAllString(s, inPlace)
		}
	}
	parts := strings.Split(s, cutMark)
	for i, part := range parts {
		if i > 0 {
			n := h.longest(func(spelling string, n int) bool {
				return strings.HasPrefix(part, spelling[len(spelling)-n:]) && stops(part, n)
			})
			if n > 0 {
				part = hidden + part[n:]
			}
		}
		if i < len(parts)-1 {
			n := h.longest(func(spelling string, n int) bool {
				return strings.HasSuffix(part, spelling[:n]) && begins(part, len(part)-n)
			})
			if n > 0 {
				part = part[:len(part)-n] + hidden
			}
		}
		parts[i] = part
	}
	return strings.Join(parts, cutMark)
}

// longest returns the length of the longest piece of a spelling that is there, 0 for none.
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

// output hides in what a call returns, and names the parts of it that something was in.
func (h *hider) output(out *capabilities.Output) (parts []string) {
	if h == nil {
		return nil
	}
	parts = h.in(reflect.ValueOf(&out.Result).Elem(), "")
	out.Evidence = h.text(out.Evidence)
	slices.Sort(parts)
	return slices.Compact(parts)
}

// refusal hides in what a call is refused with.
func (h *hider) refusal(e *capabilities.Error) *capabilities.Error {
	if h == nil {
		return e
	}
	message := h.text(e.Message)
	changed := message != e.Message
	e = e.WithAction(e.Action, h.text(e.Hint))
	e.Message = message
	if changed = len(h.in(reflect.ValueOf(&e.Details).Elem(), "details")) > 0 || changed; changed {
		e = e.WithAdvice("This answer hides what was typed in secret.")
	}
	return e
}

// in hides in every text of v, and names the parts that something was in: part, or the
// fields of v where that is empty. A value that v points to may be a record's own: it is
// copied, not written to. Bytes stay as they are, and so do the names of fields.
func (h *hider) in(v reflect.Value, part string) (parts []string) {
	note := func(changed bool) {
		if changed {
			parts = append(parts, part)
		}
	}
	switch v.Kind() {
	case reflect.String:
		was := v.String()
		shown := h.text(was)
		v.SetString(shown)
		note(shown != was)
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		to := reflect.New(v.Elem().Type())
		to.Elem().Set(v.Elem())
		parts = h.in(to.Elem(), part)
		if v.Kind() == reflect.Interface {
			to = to.Elem()
		}
		v.Set(to)
	case reflect.Struct:
		for i := range v.NumField() {
			f, is := v.Field(i), v.Type().Field(i)
			name := part
			if tag, _, _ := strings.Cut(is.Tag.Get("json"), ","); part == "" && tag != "" {
				name = tag
			}
			if f.CanSet() || f.Kind() == reflect.Struct { // an embedded one has fields to set
				parts = append(parts, h.in(f, name)...)
			}
		}
	case reflect.Slice:
		if raw, ok := v.Interface().(json.RawMessage); ok {
			shown := h.json(raw)
			v.SetBytes(shown)
			note(!bytes.Equal(shown, raw))
		} else if v.Type().Elem().Kind() != reflect.Uint8 {
			to := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(to, v)
			for i := range v.Len() {
				parts = append(parts, h.in(to.Index(i), part)...)
			}
			v.Set(to)
		}
	case reflect.Map:
		to := reflect.MakeMap(v.Type())
		for key, value := range v.Seq2() {
			element := reflect.New(v.Type().Elem()).Elem()
			element.Set(value)
			parts = append(parts, h.in(element, part)...)
			to.SetMapIndex(key, element)
		}
		v.Set(to)
	}
	return parts
}

// json hides in the strings and names of a JSON text, as they mean, and in numbers that
// have the name of a field.
func (h *hider) json(raw []byte) []byte {
	return mapJSON(raw, func(name, value string) string {
		for _, k := range h.secrets {
			if value == k.text && slices.Contains(k.names, name) {
				return hidden
			}
		}
		return h.text(value)
	})
}

// numeral begins a number of JSON.
var numeral = regexp.MustCompile(`^-?[0-9.eE+-]+`)

// mapJSON returns a JSON text with what f makes of its strings; of what has a name, also of
// its numbers. f is told that name, and decoded text.
func mapJSON(raw []byte, f func(name, value string) string) []byte {
	out := make([]byte, 0, len(raw))
	name, named := "", false
	for i := 0; i < len(raw); {
		end := i + 1
		text, is := "", false
		switch c := raw[i]; {
		case c == '"':
			for ; end < len(raw) && raw[end] != '"'; end++ {
				if raw[end] == '\\' {
					end++
				}
			}
			end = min(end+1, len(raw))
			is = json.Unmarshal(raw[i:end], &text) == nil
		case named && (c == '-' || c >= '0' && c <= '9'):
			text, is = string(numeral.Find(raw[i:])), true
			end = i + len(text)
		case c == ',' || c == '{' || c == '[':
			name, named = "", false
		}
		if shown := ""; is {
			if shown = f(name, text); shown != text {
				out = append(out, quote(shown)...)
			} else {
				out = append(out, raw[i:end]...)
			}
			if rest := bytes.TrimLeft(raw[end:], " \t\r\n"); !named && len(rest) > 0 && rest[0] == ':' {
				name, named = text, true
			} else {
				name, named = "", false
			}
		} else {
			out = append(out, raw[i:end]...)
		}
		i = end
	}
	return out
}
