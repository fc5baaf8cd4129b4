package selector

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// The selector language. In short:
//
//	window:"Text Editor" >> role:button && name:"Save"
//	role:checkbox && right-of:"Wrap lines"
//	role:row && has:(name:"notes.txt") >> role:button && nth:2
//	e12
//	ocr:"Total"
//
//	chain    = "ocr" ":" value | step { ">>" step }           >> is "somewhere below"
//	step     = or
//	or       = and { "||" and }
//	and      = unary { [ "&&" ] unary }
//	unary    = "!" unary | "(" or ")" | term
//	term     = field [ "~" ] ":" [ "~" ] value                 ~ is "a part of it"
//	         | "nth" ":" integer                               of what the step matches; 1 is the first, -1 the last
//	         | relation ":" ( value | "(" chain ")" )          near, right-of, left-of, above, below, has
//	         | quoted text                                     a name
//	         | ref
//	value    = quoted text | word
//
// nth and the relations but has order and narrow what the whole step matched, so
// they stand at its top level only, joined by &&.

// Bounds of a selector.
const (
	maxSelector = 2048 // bytes
	maxTerms    = 64
	maxDepth    = 16
)

// fields are the terms that compare, with how they are told in messages.
var fieldNames = []string{"role", "name", "text", "value", "state", "app", "window", "ref"}

func sides(word string) string {
	switch strings.NewReplacer("-", "", "_", "").Replace(word) {
	case "near":
		return "near"
	case "rightof":
		return "right-of"
	case "leftof":
		return "left-of"
	case "above":
		return "above"
	case "below":
		return "below"
	}
	return ""
}

// Errorf says what is wrong with a selector and where.
func Errorf(at int, format string, args ...any) error {
	return capabilities.Errorf(capabilities.CodeInvalidArguments, "The selector is not well formed at character %d: %s", at+1,
		fmt.Sprintf(format, args...)).
		WithHint(
			`Write it like window:"Text Editor" >> role:button && name:"Save"; the terms are role, name, text, value, state, app, window, nth, near, right-of, left-of, above, below and has.`)
}

// Parse reads a chain.
func Parse(text string) (*Selector, error) {
	if len(text) > maxSelector {
		return nil, Errorf(maxSelector, "it is longer than %d bytes", maxSelector)
	}
	if !utf8.ValidString(text) {
		return nil, Errorf(0, "it is not UTF-8")
	}
	p := &parser{text: text}
	s, err := p.chain(true)
	if err != nil {
		return nil, err
	}
	if p.space(); p.at < len(p.text) {
		return nil, Errorf(p.at, "%q is not expected here", p.rest())
	}
	return s, nil
}

type parser struct {
	text  string
	at    int
	depth int
	terms int
}

func (p *parser) space() {
	for p.at < len(p.text) {
		r, n := utf8.DecodeRuneInString(p.text[p.at:])
		if !unicode.IsSpace(r) {
			return
		}
		p.at += n
	}
}

// rest returns a short piece of what follows, for messages.
func (p *parser) rest() string {
	runes := []rune(p.text[p.at:])
	return string(runes[:min(len(runes), 12)])
}

// accept reads a mark, if it comes next.
func (p *parser) accept(mark string) bool {
	p.space()
	if strings.HasPrefix(p.text[p.at:], mark) {
		p.at += len(mark)
		return true
	}
	return false
}

// ends reports whether an expression ends here.
func (p *parser) ends() bool {
	p.space()
	return p.at == len(p.text) || p.text[p.at] == ')' || strings.HasPrefix(p.text[p.at:], ">>")
}

func (p *parser) chain(outermost bool) (*Selector, error) {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > maxDepth {
		return nil, Errorf(p.at, "it is nested deeper than %d", maxDepth)
	}
	p.space()
	s := &Selector{}
	if outermost {
		if o, err := p.ocr(); o != nil || err != nil {
			s.OCR = o
			return s, err
		}
	}
	for {
		st, err := p.step()
		if err != nil {
			return nil, err
		}
		s.steps = append(s.steps, st)
		if !p.accept(">>") {
			return s, nil
		}
	}
}

// ocr reads ocr:"text", which is a whole selector; nil if there is none.
func (p *parser) ocr() (*OCR, error) {
	if !strings.HasPrefix(p.text[p.at:], "ocr:") {
		return nil, nil
	}
	p.at += len("ocr:")
	value, err := p.value("ocr")
	if err != nil {
		return nil, err
	}
	if !p.ends() || p.at < len(p.text) {
		return nil, Errorf(p.at, "ocr stands alone")
	}
	return &OCR{Text: value, Fold: true}, nil
}

func (p *parser) step() (step, error) {
	var st step
	e, err := p.or(&st)
	st.filter = e
	return st, err
}

// or reads an expression; top is the step whose top level it is, nil below.
func (p *parser) or(top *step) (expr, error) {
	start, before := p.at, 0
	if top != nil {
		before = len(top.relations) + top.nth
	}
	first, err := p.and(top)
	if err != nil {
		return nil, err
	}
	list := either{first}
	for p.accept("||") {
		if top != nil && len(top.relations)+top.nth != before {
			return nil, Errorf(start, "nth, near and the sides cannot stand beside ||; put the rest in parentheses")
		}
		next, err := p.and(nil)
		if err != nil {
			return nil, err
		}
		list = append(list, next)
	}
	if len(list) == 1 {
		return first, nil
	}
	return list, nil
}

func (p *parser) and(top *step) (expr, error) {
	var list both
	for {
		e, err := p.unary(top)
		if err != nil {
			return nil, err
		}
		switch e := e.(type) {
		case nil:
		case both:
			list = append(list, e...)
		default:
			list = append(list, e)
		}
		if p.accept("&&") {
			continue
		}
		if p.ends() || strings.HasPrefix(p.text[p.at:], "||") {
			return list.simple(), nil
		}
	}
}

func (p *parser) unary(top *step) (expr, error) {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > maxDepth {
		return nil, Errorf(p.at, "it is nested deeper than %d", maxDepth)
	}
	if p.accept("!") {
		e, err := p.unary(nil)
		if err != nil {
			return nil, err
		}
		if n, twice := e.(negated); twice {
			return n.of, nil
		}
		return negated{e}, nil
	}
	if p.accept("(") {
		e, err := p.or(nil)
		if err != nil {
			return nil, err
		}
		if !p.accept(")") {
			return nil, Errorf(p.at, `")" is missing`)
		}
		return e, nil
	}
	return p.term(top)
}

// term reads one term. A term that names an order goes into top, and its expr is nil.
func (p *parser) term(top *step) (expr, error) {
	if p.terms++; p.terms > maxTerms {
		return nil, Errorf(p.at, "it has more than %d terms", maxTerms)
	}
	if p.ends() {
		return nil, Errorf(p.at, "a term is missing")
	}
	start := p.at
	if c := p.text[p.at]; c == '"' || c == '\'' {
		text, err := p.quoted()
		return term{field: "name", value: text}, err
	}
	if ref := p.ref(); ref != "" {
		return term{field: "ref", value: ref}, nil
	}
	word := p.word("~:=")
	field := strings.ToLower(word)
	part := p.mark('~')
	if !p.mark(':') && !p.mark('=') {
		if word == "" {
			return nil, Errorf(start, "%q is not expected here", p.rest())
		}
		return nil, Errorf(start, "%q is no term; a name is written name:%q", word, word)
	}
	part = p.mark('~') || part
	if field == "nth" {
		return nil, p.nth(top, start)
	}
	if side := sides(field); side != "" {
		return nil, p.relation(top, side, start)
	}
	if field == "has" {
		of, err := p.anchor("has")
		return holding{of}, err
	}
	if !slices.Contains(fieldNames, field) {
		return nil, unknownWord(start, "term", word, fieldNames)
	}
	at := p.at
	value, err := p.value(field)
	if err != nil {
		return nil, err
	}
	return fixed(at, field, part, value)
}

// fixed makes a term; roles and states are of a fixed set of words.
func fixed(at int, field string, part bool, value string) (expr, error) {
	t := term{field: field, part: part, value: value}
	ok := true
	switch field {
	case "role":
		if t.value, ok = roleWord(value); !ok {
			return nil, unknownWord(at, "role", value, platform.Roles)
		}
		t.part = false
	case "state":
		if t.value, ok = stateWord(value); !ok {
			return nil, unknownWord(at, "state", value, platform.States)
		}
		t.part = false
	case "ref":
		t.part = false
	}
	return t, nil
}

func (p *parser) nth(top *step, start int) error {
	if top == nil {
		return Errorf(start, "nth counts what a whole step matches: it cannot stand in parentheses or under !")
	}
	if top.nth != 0 {
		return Errorf(start, "nth stands twice")
	}
	n, err := strconv.Atoi(p.word(""))
	if err != nil || n == 0 || n < -1_000_000 || n > 1_000_000 {
		return Errorf(start, "nth takes a number: 1 is the first, -1 the last")
	}
	top.nth = n
	return nil
}

func (p *parser) relation(top *step, side string, start int) error {
	if top == nil {
		return Errorf(start, "%s orders what a whole step matches: it cannot stand in parentheses or under !", side)
	}
	anchor, err := p.anchor(side)
	if err != nil {
		return err
	}
	top.relations = append(top.relations, relation{side, anchor})
	return nil
}

// anchor reads what a relation refers to: a name, a ref or a chain in parentheses.
func (p *parser) anchor(side string) (*Selector, error) {
	if p.accept("(") {
		s, err := p.chain(false)
		if err != nil {
			return nil, err
		}
		if !p.accept(")") {
			return nil, Errorf(p.at, `")" is missing`)
		}
		return s, nil
	}
	if ref := p.ref(); ref != "" {
		return &Selector{steps: []step{{filter: term{field: "ref", value: ref}}}}, nil
	}
	name, err := p.value(side)
	if err != nil {
		return nil, err
	}
	return &Selector{steps: []step{{filter: term{field: "name", value: name}}}}, nil
}

// refSchemes begin the refs of platforms.
var refSchemes = []string{"atspi:", "uia:", "ax:", "x11:", "wl:", "hwnd:", "cg:"}

// ref reads a ref, short or a platform's own; "" if none comes.
func (p *parser) ref() string {
	p.space()
	rest := p.text[p.at:]
	end := strings.IndexFunc(rest, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`()"'&|!<>`, r) })
	if end < 0 {
		end = len(rest)
	}
	word := rest[:end]
	if !ShortRef(word) && !slices.ContainsFunc(refSchemes, func(s string) bool { return strings.HasPrefix(word, s) && len(word) > len(s) }) {
		return ""
	}
	p.at += end
	return word
}

// ShortRef reports whether a word has the form of a short ref.
func ShortRef(word string) bool {
	digits, ok := strings.CutPrefix(word, "e")
	return ok && digits != "" && len(digits) < 12 && strings.Trim(digits, "0123456789") == ""
}

func (p *parser) mark(c byte) bool {
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

// word reads up to a space or a mark of the language, or one of stops.
func (p *parser) word(stops string) string {
	rest := p.text[p.at:]
	end := strings.IndexFunc(rest, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune(`()"'&|!<>`, r) || strings.ContainsRune(stops, r)
	})
	if end < 0 {
		end = len(rest)
	}
	p.at += end
	return rest[:end]
}

// value reads a quoted text or a word.
func (p *parser) value(of string) (string, error) {
	if p.at < len(p.text) && (p.text[p.at] == '"' || p.text[p.at] == '\'') {
		return p.quoted()
	}
	at := p.at
	word := p.word("")
	if Simple(word) == "" {
		return "", Errorf(at, `%s needs a value, such as %s:"…"`, of, of)
	}
	return word, nil
}

// quoted reads a text in quotes of either kind; a backslash takes the next
// character as it is.
func (p *parser) quoted() (string, error) {
	start, quote := p.at, p.text[p.at]
	var b strings.Builder
	for i := p.at + 1; i < len(p.text); i++ {
		switch c := p.text[i]; {
		case c == quote:
			p.at = i + 1
			if Simple(b.String()) == "" {
				return "", Errorf(start, "the text in quotes is empty")
			}
			return b.String(), nil
		case c == '\\' && i+1 < len(p.text):
			i++
			b.WriteByte(p.text[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", Errorf(start, "the closing quote is missing")
}
