package canonical

import (
	"math"
	"sort"
	"strconv"
)

// Kind is the JSON type of a Value; the zero value is null.
type Kind uint8

// The kinds.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

var kindNames = [...]string{"null", "boolean", "number", "string", "array", "object"}

// String returns the name JSON Schema uses.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "kind " + strconv.Itoa(int(k))
}

// Value is one decoded JSON value. It is read only: strings may share memory
// with each other.
type Value struct {
	Kind    Kind
	True    bool     // Bool
	Num     float64  // Number; always finite
	Str     string   // String; valid UTF-8
	Items   []Value  // Array
	Members []Member // Object; sorted as RFC 8785 3.2.3 asks, keys unique
}

// Member is one key of an object with its value.
type Member struct {
	Key   string
	Value Value
}

// Get finds a member of an object; false if v is no object or has no such key.
func (v Value) Get(key string) (Value, bool) {
	m := v.Members
	if len(m) <= 16 {
		for i := range m {
			if m[i].Key == key {
				return m[i].Value, true
			}
		}
		return Value{}, false
	}
	i := sort.Search(len(m), func(i int) bool { return !keyLess(m[i].Key, key) })
	if i < len(m) && m[i].Key == key {
		return m[i].Value, true
	}
	return Value{}, false
}

// With returns an object with a member set to a value; the value that is no object counts as an
// empty one. v stays as it is.
func (v Value) With(key string, value Value) Value {
	i := sort.Search(len(v.Members), func(i int) bool { return !keyLess(v.Members[i].Key, key) })
	members := make([]Member, 0, len(v.Members)+1)
	members = append(append(members, v.Members[:i]...), Member{Key: key, Value: value})
	if i < len(v.Members) && v.Members[i].Key == key {
		i++
	}
	return Value{Kind: Object, Members: append(members, v.Members[i:]...)}
}

// Integer reports whether v is a number without a fraction, as JSON Schema
// defines "integer" (1.0 is one).
func (v Value) Integer() bool { return v.Kind == Number && v.Num == math.Trunc(v.Num) }

// Append appends the canonical form of v to dst (RFC 8785).
func (v Value) Append(dst []byte) []byte {
	switch v.Kind {
	case Bool:
		return strconv.AppendBool(dst, v.True)
	case Number:
		return AppendNumber(dst, v.Num)
	case String:
		return AppendString(dst, v.Str)
	case Array:
		dst = append(dst, '[')
		for i := range v.Items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = v.Items[i].Append(dst)
		}
		return append(dst, ']')
	case Object:
		dst = append(dst, '{')
		for i := range v.Members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendString(dst, v.Members[i].Key)
			dst = append(dst, ':')
			dst = v.Members[i].Value.Append(dst)
		}
		return append(dst, '}')
	}
	return append(dst, "null"...)
}

// Interface returns v as encoding/json would decode it: nil, bool, float64,
// string, []any, map[string]any.
func (v Value) Interface() any {
	switch v.Kind {
	case Bool:
		return v.True
	case Number:
		return v.Num
	case String:
		return v.Str
	case Array:
		items := make([]any, len(v.Items))
		for i := range v.Items {
			items[i] = v.Items[i].Interface()
		}
		return items
	case Object:
		members := make(map[string]any, len(v.Members))
		for _, m := range v.Members {
			members[m.Key] = m.Value.Interface()
		}
		return members
	}
	return nil
}

// Equal reports whether a and b are the same JSON value; numbers by value.
func Equal(a, b Value) bool {
	if a.Kind != b.Kind || a.True != b.True || a.Num != b.Num || a.Str != b.Str ||
		len(a.Items) != len(b.Items) || len(a.Members) != len(b.Members) {
		return false
	}
	for i := range a.Items {
		if !Equal(a.Items[i], b.Items[i]) {
			return false
		}
	}
	for i := range a.Members {
		if a.Members[i].Key != b.Members[i].Key || !Equal(a.Members[i].Value, b.Members[i].Value) {
			return false
		}
	}
	return true
}

// AppendNumber appends f as ECMAScript prints it (RFC 8785 3.2.2.3). f must be
// finite.
func AppendNumber(dst []byte, f float64) []byte {
	if f == 0 {
		return append(dst, '0') // -0 too
	}
	abs := math.Abs(f)
	if abs < 1<<53 && f == math.Trunc(f) {
		return strconv.AppendInt(dst, int64(f), 10)
	}
	if abs >= 1e-6 && abs < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	// Go writes at least two exponent digits (1e-07), ECMAScript no leading zero.
	if n := len(dst); n-start >= 4 && dst[n-2] == '0' && (dst[n-3] == '-' || dst[n-3] == '+') {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a quoted string (RFC 8785 3.2.2.2): only what must
// be escaped is, in the short form where there is one.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// keyLess orders keys by UTF-16 code units (RFC 8785 3.2.3). That is byte order
// of UTF-8 but for one case: U+E000…U+FFFF (lead bytes EE, EF) come after the
// supplementary planes (lead bytes F0 and up), whose units are surrogates.
func keyLess(a, b string) bool {
	n := min(len(a), len(b))
	for i := range n {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		if x >= 0xEE && y >= 0xEE && (x >= 0xF0) != (y >= 0xF0) {
			return x >= 0xF0
		}
		return x < y
	}
	return len(a) < len(b)
}
