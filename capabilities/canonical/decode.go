package canonical

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities"
)

// Decode reads one strict JSON document into a Value. An error is
// CodeInvalidRequest and names the JSON pointer of the trouble.
func Decode(data []byte, limits Limits) (Value, error) {
	limits = limits.withDefaults()
	if len(data) > limits.MaxBytes {
		return Value{}, capabilities.Errorf(capabilities.CodeInvalidRequest,
			"JSON of %d bytes is larger than the %d allowed", len(data), limits.MaxBytes)
	}
	if !utf8.Valid(data) {
		return Value{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "JSON is not valid UTF-8")
	}
	p := parser{in: string(data), limits: limits}
	v, err := p.document()
	if err != nil {
		return Value{}, publicError(err)
	}
	return v, nil
}

// pathError grows its pointer while the recursion unwinds, so that a good
// document pays nothing for it.
type pathError struct {
	steps  []string // innermost first
	offset int
	what   string
}

func (e *pathError) Error() string { return e.what }

func publicError(err error) error {
	var pe *pathError
	if !errors.As(err, &pe) {
		return capabilities.AsError(err)
	}
	var path strings.Builder
	for i := len(pe.steps) - 1; i >= 0; i-- {
		path.WriteByte('/')
		path.WriteString(printable(pe.steps[i]))
		if path.Len() > 256 {
			path.WriteString("…")
			break
		}
	}
	at := path.String()
	if at == "" {
		at = "the top level"
	}
	return capabilities.Errorf(capabilities.CodeInvalidRequest, "JSON at %s (byte %d): %s", at, pe.offset, pe.what)
}

// printable makes a key of a stranger's document safe to show: pointer-escaped
// (RFC 6901), short, and without characters a terminal would act on.
func printable(key string) string {
	if len(key) > 64 {
		key = capabilities.Clip(key, 64) + "…"
	}
	key = strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
	return capabilities.Escape(key)
}

type parser struct {
	in     string
	pos    int
	depth  int
	values int
	limits Limits
}

func (p *parser) fail(format string, args ...any) *pathError {
	return &pathError{offset: p.pos, what: fmt.Sprintf(format, args...)}
}

func (p *parser) space() {
	for p.pos < len(p.in) {
		switch p.in[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
}

func (p *parser) document() (Value, error) {
	p.space()
	var v Value
	if err := p.value(&v); err != nil {
		return Value{}, err
	}
	p.space()
	if p.pos < len(p.in) {
		return Value{}, p.fail("something follows the value")
	}
	return v, nil
}

func (p *parser) value(v *Value) *pathError {
	p.values++
	if p.values > p.limits.MaxValues {
		return p.fail("more than %d values", p.limits.MaxValues)
	}
	if p.pos >= len(p.in) {
		return p.fail("the document ends where a value should be")
	}
	switch c := p.in[p.pos]; {
	case c == '{':
		return p.object(v)
	case c == '[':
		return p.array(v)
	case c == '"':
		v.Kind = String
		return p.stringInto(&v.Str)
	case c == '-' || (c >= '0' && c <= '9'):
		return p.number(v)
	case p.literal("true"):
		v.Kind, v.True = Bool, true
	case p.literal("false"):
		v.Kind = Bool
	case p.literal("null"):
		v.Kind = Null
	default:
		return p.fail("a value was expected")
	}
	return nil
}

func (p *parser) literal(word string) bool {
	if strings.HasPrefix(p.in[p.pos:], word) {
		p.pos += len(word)
		return true
	}
	return false
}

func (p *parser) enter() *pathError {
	p.depth++
	if p.depth > p.limits.MaxDepth {
		return p.fail("nested deeper than %d", p.limits.MaxDepth)
	}
	p.pos++
	p.space()
	return nil
}

func (p *parser) array(v *Value) *pathError {
	if err := p.enter(); err != nil {
		return err
	}
	v.Kind = Array
	if p.peek() == ']' {
		p.pos++
		p.depth--
		return nil
	}
	for {
		v.Items = append(v.Items, Value{})
		if err := p.value(&v.Items[len(v.Items)-1]); err != nil {
			err.steps = append(err.steps, strconv.Itoa(len(v.Items)-1))
			return err
		}
		p.space()
		switch p.peek() {
		case ',':
			p.pos++
			p.space()
		case ']':
			p.pos++
			p.depth--
			return nil
		default:
			return p.fail("',' or ']' was expected")
		}
	}
}

func (p *parser) object(v *Value) *pathError {
	if err := p.enter(); err != nil {
		return err
	}
	v.Kind = Object
	if p.peek() == '}' {
		p.pos++
		p.depth--
		return nil
	}
	v.Members = make([]Member, 0, 4)
	for {
		if p.peek() != '"' {
			return p.fail("a key in double quotes was expected")
		}
		v.Members = append(v.Members, Member{})
		m := &v.Members[len(v.Members)-1]
		if err := p.stringInto(&m.Key); err != nil {
			return err
		}
		p.space()
		if p.peek() != ':' {
			return p.fail("':' was expected")
		}
		p.pos++
		p.space()
		if err := p.value(&m.Value); err != nil {
			err.steps = append(err.steps, m.Key)
			return err
		}
		p.space()
		switch p.peek() {
		case ',':
			p.pos++
			p.space()
		case '}':
			p.pos++
			p.depth--
			return p.settleKeys(v.Members)
		default:
			return p.fail("',' or '}' was expected")
		}
	}
}

// settleKeys sorts the members and refuses keys that two readers could take for
// one another: equal ones always, and those equal under simple case folding
// (the folding by which encoding/json and others match field names) unless the
// document is foreign data.
func (p *parser) settleKeys(members []Member) *pathError {
	if len(members) <= 12 { // insertion sort: no allocation, and mostly in order already
		for i := 1; i < len(members); i++ {
			for j := i; j > 0 && keyLess(members[j].Key, members[j-1].Key); j-- {
				members[j], members[j-1] = members[j-1], members[j]
			}
		}
	} else {
		sort.Slice(members, func(i, j int) bool { return keyLess(members[i].Key, members[j].Key) })
	}
	folds := false
	for i := range members {
		if i > 0 && members[i].Key == members[i-1].Key {
			return p.keyError(members[i].Key, "is given twice")
		}
		folds = folds || !foldsToItself(members[i].Key)
	}
	if !folds || p.limits.Foreign {
		return nil
	}
	seen := make(map[string]string, len(members))
	for i := range members {
		folded := strings.Map(foldRune, members[i].Key)
		if other, ok := seen[folded]; ok {
			return p.keyError(members[i].Key, "differs from "+strconv.Quote(printable(other))+" only in letter case")
		}
		seen[folded] = members[i].Key
	}
	return nil
}

func (p *parser) keyError(key, what string) *pathError {
	return &pathError{steps: []string{key}, offset: p.pos, what: "the key " + what}
}

// foldsToItself is true for keys of which no other spelling in other letter
// case could be meant by a key for which it is true as well: ASCII without
// capitals. Anything else takes the slow way.
func foldsToItself(key string) bool {
	for i := range len(key) {
		if c := key[i]; c >= utf8.RuneSelf || (c >= 'A' && c <= 'Z') {
			return false
		}
	}
	return true
}

// foldRune returns the smallest rune of r's folding orbit.
func foldRune(r rune) rune {
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	return least
}

// peek returns the next byte, 0 at the end (no token starts with 0).
func (p *parser) peek() byte {
	if p.pos < len(p.in) {
		return p.in[p.pos]
	}
	return 0
}

const maxSafe = 1 << 53

func (p *parser) number(v *Value) *pathError {
	start := p.pos
	if p.peek() == '-' {
		p.pos++
	}
	digits := p.pos
	p.digits()
	switch {
	case p.pos == digits:
		return p.fail("a digit was expected")
	case p.in[digits] == '0' && p.pos > digits+1:
		return p.fail("a number may not start with 0")
	}
	integer := true
	if p.peek() == '.' {
		integer = false
		p.pos++
		if frac := p.pos; p.digits() == frac {
			return p.fail("a digit was expected after the point")
		}
	}
	if c := p.peek(); c == 'e' || c == 'E' {
		integer = false
		p.pos++
		if c := p.peek(); c == '+' || c == '-' {
			p.pos++
		}
		if exp := p.pos; p.digits() == exp {
			return p.fail("a digit was expected in the exponent")
		}
	}
	v.Kind = Number
	text := p.in[start:p.pos]
	if integer && len(text) <= 15 { // below 10¹⁵: exact, and no float parsing
		n, _ := strconv.ParseInt(text, 10, 64)
		v.Num = float64(n)
		return nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) {
		return p.fail("the number is too large")
	}
	if f == 0 {
		f = 0 // one zero: a tiny negative number must not leave -0 behind
	}
	v.Num = f
	if math.Abs(f) < maxSafe {
		return nil
	}
	// Every double from 2⁵³ on is an integer, however it was written. As an order it is refused; as
	// data it may stay if printing leaves it as it is.
	if p.limits.Foreign {
		if !integer || string(AppendNumber(nil, f)) == text {
			return nil
		}
	} else if text == "9007199254740992" || text == "-9007199254740992" {
		return nil
	}
	return p.fail("the number is beyond ±2^53, where digits get lost; send it as a string")
}

func (p *parser) digits() int {
	for p.pos < len(p.in) && p.in[p.pos] >= '0' && p.in[p.pos] <= '9' {
		p.pos++
	}
	return p.pos
}

// stringInto reads a string. Without escapes it is a slice of the input.
func (p *parser) stringInto(s *string) *pathError {
	p.pos++
	start := p.pos
	for p.pos < len(p.in) {
		switch c := p.in[p.pos]; {
		case c == '"':
			*s = p.in[start:p.pos]
			p.pos++
			return nil
		case c == '\\':
			return p.escaped(start, s)
		case c < 0x20:
			return p.fail("a control character in a string must be escaped")
		default:
			p.pos++
		}
	}
	return p.fail("the string does not end")
}

// escaped goes on with a string from its first backslash.
func (p *parser) escaped(start int, s *string) *pathError {
	out := append(make([]byte, 0, p.pos-start+32), p.in[start:p.pos]...)
	for p.pos < len(p.in) {
		c := p.in[p.pos]
		switch {
		case c == '"':
			*s = string(out)
			p.pos++
			return nil
		case c < 0x20:
			return p.fail("a control character in a string must be escaped")
		case c != '\\':
			out = append(out, c)
			p.pos++
			continue
		}
		p.pos++
		esc := p.peek()
		p.pos++
		switch esc {
		case '"', '\\', '/':
			out = append(out, esc)
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, err := p.unicodeEscape()
			if err != nil {
				return err
			}
			out = utf8.AppendRune(out, r)
		default:
			p.pos--
			return p.fail("unknown escape in a string")
		}
	}
	return p.fail("the string does not end")
}

// unicodeEscape reads the four digits after \u and, for a high surrogate, the
// low one that must follow; half a pair has no UTF-8 form (RFC 8785 3.2.2.2).
func (p *parser) unicodeEscape() (rune, *pathError) {
	r, err := p.hex4()
	if err != nil {
		return 0, err
	}
	switch {
	case r >= 0xDC00 && r <= 0xDFFF:
		return 0, p.fail("half a surrogate pair in a string")
	case r < 0xD800 || r > 0xDBFF:
		return r, nil
	case !p.literal(`\u`):
		return 0, p.fail("half a surrogate pair in a string")
	}
	low, err := p.hex4()
	if err != nil {
		return 0, err
	}
	if low < 0xDC00 || low > 0xDFFF {
		return 0, p.fail("half a surrogate pair in a string")
	}
	return (r-0xD800)<<10 + (low - 0xDC00) + 0x10000, nil
}

func (p *parser) hex4() (rune, *pathError) {
	if p.pos+4 > len(p.in) {
		return 0, p.fail("four hex digits were expected after \\u")
	}
	var r rune
	for range 4 {
		c := p.in[p.pos]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, p.fail("four hex digits were expected after \\u")
		}
		r = r<<4 | rune(c)
		p.pos++
	}
	return r, nil
}
