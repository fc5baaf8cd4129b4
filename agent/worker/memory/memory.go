package memory

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/fact"
)

// Speaker says whose words a line is. The zero value is invalid.
type Speaker string

// The speakers. Data is what a call returned: a page, a file, an output.
const (
	Person Speaker = "person"
	Agent  Speaker = "agent"
	Data   Speaker = "data"
)

// Line is one message of a conversation.
type Line struct {
	Who  Speaker
	Text string
}

// Wish is what a person asked for.
type Wish struct {
	Text   string // what to remember, in the person's words, or what to forget; "" with Forget: what was kept last
	Forget bool
}

// Asked returns the wishes of a conversation's last line, in order; of another's line than the
// person's, none.
func Asked(lines []Line) []Wish {
	if len(lines) == 0 || lines[len(lines)-1].Who != Person {
		return nil
	}
	before := ""
	for _, l := range slices.Backward(lines[:len(lines)-1]) {
		if l.Who == Person {
			before = l.Text
			break
		}
	}
	return wishes(lines[len(lines)-1].Text, before)
}

// wishes reads one message; before is the person's message before it.
func wishes(message, before string) (list []Wish) {
	if len(message) > 4*fact.MaxText || !utf8.ValidString(message) {
		return nil
	}
	said := sentences(message)
	for i := 0; i < len(said); i++ {
		s := said[i]
		if supposing().MatchString(s.plain) {
			break // and so is what follows
		}
		switch at, lead := lead(s); {
		case withdrawn().MatchString(s.plain):
			if len(list) > 0 {
				list = list[:len(list)-1]
			} else if forgets().MatchString(s.plain) {
				list = append(list, Wish{Forget: true})
			}
		case forget().MatchString(s.plain) && !s.asks:
			if text := tidy(s.from(forget().FindStringSubmatchIndex(s.plain)[2])); text != "" {
				list = append(list, Wish{Text: text, Forget: true})
			}
		case trailing().MatchString(s.plain) && (!lead || len(strings.Fields(tidy(s.from(at)))) < 3):
			earlier := sentences(before)
			if i > 0 {
				earlier = said[:i]
			}
			for len(earlier) > 1 && len(strings.Fields(earlier[len(earlier)-1].text)) < 4 {
				earlier = earlier[:len(earlier)-1]
			}
			if i > 0 || len(earlier) == 1 {
				for _, w := range stated(earlier[len(earlier)-1], s) {
					if !slices.Contains(list, w) {
						list = append(list, w)
					}
				}
			}
		case !lead && ending().MatchString(s.plain):
			end := ending().FindStringSubmatchIndex(s.plain)[3]
			list = append(list, stated(sentence{text: s.text[:end], plain: s.plain[:end]}, s)...)
		case lead && !promise().MatchString(s.plain):
			told := strings.Contains(s.plain[:at], ":")
			if list = append(list, listed(sentence{s.from(at), s.plain[at:], s.asks && !polite().MatchString(s.plain)},
				told)...); tidy(s.from(at)) == "" && i+1 < len(said) {
				i++
				list = append(list, listed(said[i], true)...)
			}
		case promise().MatchString(s.plain):
			n := map[string]int{
				"two": 2, "2": 2, "zwei": 2, "deux": 2, "dos": 2, "three": 3, "3": 3, "drei": 3, "trois": 3, "tres": 3,
			}[promise().FindStringSubmatch(s.plain)[1]]
			for range max(1, n) {
				if i+1 < len(said) {
					i++
					list = append(list, listed(said[i], true)...)
				}
			}
		}
	}
	return list
}

// stated is a sentence that the request after it points at.
func stated(s, request sentence) (list []Wish) {
	if at, ok := lead(s); ok && headed().MatchString(s.plain) {
		s = sentence{s.from(at), s.plain[at:], s.asks}
	} else if ok {
		return nil // it was read by itself
	}
	text := tidy(s.text)
	if !fit(s, text, true) {
		return nil
	}
	if instead().MatchString(request.plain) {
		list = append(list, Wish{Forget: true})
	}
	return append(list, Wish{Text: text})
}

// listed returns the fact of a sentence, or each of those that it numbers; told says that it stands
// after a colon or by itself.
func listed(s sentence, told bool) (list []Wish) {
	starts := item().FindAllStringIndex(s.plain, -1)
	if len(starts) < 2 {
		starts = [][]int{{0, 0}}
	}
	for i, from := range starts {
		end := len(s.text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		part := sentence{s.text[from[1]:end], s.plain[from[1]:end], s.asks}
		if text := tidy(part.text); fit(part, text, told) {
			list = append(list, Wish{Text: text})
		}
	}
	return list
}

// lead returns where the fact begins in a sentence that asks to remember one.
func lead(s sentence) (at int, ok bool) {
	for _, p := range leads {
		if m := p().FindStringIndex(s.plain); m != nil {
			return m[1], true
		}
	}
	if m := headed().FindStringSubmatchIndex(s.plain); m != nil {
		if head := s.plain[m[2]:m[3]]; about().MatchString(head) && !told().MatchString(head) && !refuses(head) {
			return m[1], true
		}
	}
	return 0, false
}

// fit reports whether words are a fact: no question, and, unless they stand by themselves, neither
// a thing to do nor a story, as after "remember to" and "remember when".
func fit(s sentence, text string, told bool) bool {
	if s.asks || text == "" || len(text) > fact.MaxText || len(strings.Fields(text)) < 2 || careless(strings.TrimSpace(s.plain)) {
		return false
	}
	return told || !unfit().MatchString(strings.TrimSpace(s.plain))
}

// tidy returns a fact without the marks and the politeness around it.
func tidy(text string) string {
	text = strings.TrimSpace(text)
	for {
		t := strings.TrimRight(strings.TrimLeft(text, " ,:;–—-"), " .!,;–—-")
		t = strings.TrimSpace(purpose().ReplaceAllString(courtesy().ReplaceAllString(t, ""), ""))
		if t == text {
			return text
		}
		text = t
	}
}

// sentence is a part of a message: as it was written, and for comparing, with the same offsets:
// in lower case, and blank where it quotes.
type sentence struct {
	text, plain string
	asks        bool // it ends with a question mark
}

func (s sentence) from(at int) string { return s.text[at:] }

// sentences takes a message apart at the marks that end sentences, and at lines.
func sentences(message string) (list []sentence) {
	plain := mask(message)
	start := 0
	cut := func(end int, asks bool) {
		if strings.TrimSpace(message[start:end]) != "" {
			list = append(list, sentence{message[start:end], plain[start:end], asks})
		}
		start = end
	}
	for i := 0; i < len(plain); i++ {
		switch c := plain[i]; {
		case c == '\n':
			cut(i+1, false)
		case c == '.' || c == '!' || c == '?':
			end := i + 1
			for end < len(plain) && (plain[end] == '.' || plain[end] == '!' || plain[end] == '?') {
				end++
			}
			if end == len(plain) || plain[end] == '\n' || plain[end] == ' ' && !ordinal().MatchString(plain[max(0, i-3):]) {
				cut(end, strings.Contains(plain[i:end], "?"))
			}
			i = end - 1
		}
	}
	cut(len(plain), false)
	return list
}

var quoted = capabilities.Pattern(
	"```[\\s\\S]*?```|`[^`\\n]*`|\"[^\"\\n]*\"|“[^”\\n]*”|„[^“”\\n]*[“”]|«[^»\\n]*»|‘[^’\\n]*’|<[^<>\\n]*>|https?://\\S+")

// mask returns a text in lower case whose quotations are dots of the same length, so that an offset
// of the one is an offset of the other.
func mask(text string) string {
	out := []byte(text)
	for i := 0; i < len(out); {
		r, n := utf8.DecodeRune(out[i:])
		if low := unicode.ToLower(r); utf8.RuneLen(low) == n {
			utf8.EncodeRune(out[i:], low)
		}
		switch r { // what stands for a mark that is typed keeps its bytes
		case '’':
			copy(out[i:], "'\x00\x00")
		case '👉':
			copy(out[i:], ":   ")
		case '→':
			copy(out[i:], ":  ")
		}
		i += n
	}
	for _, m := range quoted().FindAllStringIndex(text, -1) {
		for i := m[0]; i < m[1]; i++ {
			out[i] = '\x01'
		}
	}
	return string(out)
}
