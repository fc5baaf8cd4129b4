package canonical

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
)

// RFC 8785 appendix B.
func TestNumbersOfTheRFC(t *testing.T) {
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0", 0x8000000000000000: "0",
		0x0000000000000001: "5e-324", 0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308", 0xffefffffffffffff: "-1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992", 0xc340000000000000: "-9007199254740992",
		0x4430000000000000: "295147905179352830000",
		0x44b52d02c7e14af5: "9.999999999999997e+22", 0x44b52d02c7e14af6: "1e+23", 0x44b52d02c7e14af7: "1.0000000000000001e+23",
		0x444b1ae4d6e2ef4e: "999999999999999700000", 0x444b1ae4d6e2ef4f: "999999999999999900000", 0x444b1ae4d6e2ef50: "1e+21",
		0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7", 0x3eb0c6f7a0b5ed8d: "0.000001",
		0x41b3de4355555553: "333333333.3333332", 0x41b3de4355555554: "333333333.33333325",
		0x41b3de4355555555: "333333333.3333333", 0x41b3de4355555556: "333333333.3333334",
		0x41b3de4355555557: "333333333.33333343",
		0xbecbf647612f3696: "-0.0000033333333333333333", 0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		if got := string(AppendNumber(nil, math.Float64frombits(bits))); got != want {
			t.Errorf("%016x: %s, want %s", bits, got, want)
		}
	}
}

// RFC 8785 sections 3.2.2 to 3.2.4.
func TestDocumentsOfTheRFC(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{
			`{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],` +
				`"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`,
			`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],` +
				`"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		},
		{
			`{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}`,
			"{\"\\r\":2,\"1\":4,\"\u0080\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\ufb33\":3}",
		},
	} {
		got, err := Parse([]byte(c.in), Limits{Foreign: true})
		if err != nil || string(got) != c.want {
			t.Errorf("%s\n gives %s, %v\n  want %s", c.in, got, err, c.want)
		}
	}
}

func TestAccepted(t *testing.T) {
	for in, want := range map[string]string{
		` { "b" : 1 , "a" : [ ] } `: `{"a":[],"b":1}`,
		`-0`:                        `0`,
		`-1e-400`:                   `0`,
		`9007199254740992`:          `9007199254740992`,
		`-9007199254740991`:         `-9007199254740991`,
		`1.0`:                       `1`,
		`"\u0000\u001f\u007f"`:      "\"\\u0000\\u001f\u007f\"",
		`"\ud83d\ude00"`:            `"😀"`,
		`{"a":{"A":1},"b":{"a":2}}`: `{"a":{"A":1},"b":{"a":2}}`,
		`{"é":1,"e":2}`:             `{"e":2,"é":1}`,
		`{"` + strings.Repeat("k", 999) + `":"<"}`: `{"` + strings.Repeat("k", 999) + `":"<"}`,
	} {
		got, err := Parse([]byte(in), Limits{})
		if err != nil || string(got) != want {
			t.Errorf("%s gives %s, %v, want %s", in, got, err, want)
		}
	}
}

func TestRefused(t *testing.T) {
	deep := strings.Repeat("[", 65) + strings.Repeat("]", 65)
	for _, c := range []struct{ name, in, says string }{
		{"nothing", ``, "ends where a value"},
		{"two values", `1 2`, "follows"},
		{"byte order mark", "\ufeff1", "a value was expected"},
		{"duplicate", `{"a":1,"b":2,"a":3}`, `/a (byte`},
		{"duplicate by escape", `{"a":1,"\u0061":3}`, "twice"},
		{"folded", `{"node_id":1,"Node_ID":2}`, "letter case"},
		{"folded Kelvin sign", "{\"k\":1,\"\u212a\":2}", "letter case"},
		{"folded long s", "{\"s\":1,\"\u017f\":2}", "letter case"},
		{"folded nested", `[{"x":{"é":1,"É":2}}]`, "/0/x/"},
		{"past 2^53", `{"n":9007199254740993}`, "/n "},
		{"past -2^53", `-9007199254740993`, "2^53"},
		{"past 2^53 with a point", `9007199254740993.0`, "2^53"},
		{"past 2^53 with an exponent", `1e16`, "2^53"},
		{"no double at all", `1e400`, "too large"},
		{"leading zero", `01`, "start with 0"},
		{"plus", `+1`, "expected"},
		{"bare point", `1.`, "after the point"},
		{"bare exponent", `1e`, "exponent"},
		{"hex", `0x1`, "follows"},
		{"NaN", `NaN`, "expected"},
		{"single quotes", `{'a':1}`, "double quotes"},
		{"trailing comma", `[1,]`, "expected"},
		{"trailing comma in an object", `{"a":1,}`, "double quotes"},
		{"comment", `/**/1`, "expected"},
		{"control character", "\"\n\"", "control"},
		{"control character after an escape", "\"\\n\n\"", "control"},
		{"unknown escape", `"\x41"`, "escape"},
		{"half a pair", `"\ud800"`, "surrogate"},
		{"half a pair and text", `"\ud800x"`, "surrogate"},
		{"wrong half", `"\ud800\ud800"`, "surrogate"},
		{"low half", `"\udc00"`, "surrogate"},
		{"short escape", `"\u00"`, "hex"},
		{"open string", `"abc`, "does not end"},
		{"open string after an escape", `"abc\`, "escape"},
		{"invalid UTF-8", "\"\xff\"", "UTF-8"},
		{"surrogate as UTF-8", "\"\xed\xa0\x80\"", "UTF-8"},
		{"too deep", deep, "deeper than 64"},
		{"open array", `[1`, "expected"},
		{"open object", `{"a":1`, "expected"},
	} {
		got, err := Parse([]byte(c.in), Limits{})
		if capabilities.CodeOf(err) != capabilities.CodeInvalidRequest || got != nil {
			t.Errorf("%s: %s, %v", c.name, got, err)
			continue
		}
		if !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %q does not say %q", c.name, err, c.says)
		}
	}
}

func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		in     string
		limits Limits
	}{
		"bytes":  {`"12345"`, Limits{MaxBytes: 6}},
		"depth":  {`[[1]]`, Limits{MaxDepth: 1}},
		"values": {`[1,2,3]`, Limits{MaxValues: 3}},
	} {
		if _, err := Parse([]byte(c.in), c.limits); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := Parse([]byte(`[[1]]`), Limits{MaxBytes: 5, MaxDepth: 2, MaxValues: 3}); err != nil {
		t.Errorf("at the limits: %v", err)
	}
}

// A message about a stranger's document may end in a terminal or a log.
func TestErrorsAreSafeToPrint(t *testing.T) {
	in := "{\"\\u001b[2J\u202e" + strings.Repeat("x", 500) + "\":{\"a/b~c\":01}}"
	_, err := Parse([]byte(in), Limits{})
	if err == nil {
		t.Fatal("no error")
	}
	msg := err.Error()
	if strings.ContainsAny(msg, "\x1b\u202e") || len(msg) > 400 || !strings.Contains(msg, "a~1b~0c") {
		t.Errorf("%q", msg)
	}
}

func TestForeign(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1,"A":2}`:         `{"A":2,"a":1}`,
		`1e300`:                 `1e+300`,
		`100000000000000000000`: `100000000000000000000`,
		`9007199254740994`:      `9007199254740994`,
	} {
		got, err := Parse([]byte(in), Limits{Foreign: true})
		if err != nil || string(got) != want {
			t.Errorf("%s gives %s, %v", in, got, err)
		}
	}
	for _, in := range []string{`{"a":1,"a":2}`, `9007199254740993`, `1e400`} {
		if _, err := Parse([]byte(in), Limits{Foreign: true}); err == nil {
			t.Errorf("%s was accepted", in)
		}
	}
}

func TestMarshal(t *testing.T) {
	type inner struct {
		B string          `json:"b"`
		A json.RawMessage `json:"a,omitempty"`
	}
	for _, c := range []struct {
		in   any
		want string
	}{
		{inner{"<&>\u2028", json.RawMessage(` {"z":1.50, "y":[]}`)}, "{\"a\":{\"y\":[],\"z\":1.5},\"b\":\"<&>\u2028\"}"},
		{map[string]any{"n": int64(1 << 53), "f": 1e21, "s": []string(nil)}, `{"f":1e+21,"n":9007199254740992,"s":null}`},
		{nil, `null`},
	} {
		got, err := Marshal(c.in)
		if err != nil || string(got) != c.want {
			t.Errorf("%v gives %s, %v, want %s", c.in, got, err, c.want)
		}
	}
	for _, bad := range []any{int64(1<<53 + 1), math.NaN(), func() {}, json.RawMessage(`{"a":1,"a":2}`)} {
		if got, err := Marshal(bad); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("%T gives %s, %v", bad, got, err)
		}
	}
	var coded *capabilities.Error
	if _, err := Marshal(make(chan int)); !errors.As(err, &coded) {
		t.Errorf("a bare error: %v", err)
	}
}

func TestGet(t *testing.T) {
	for _, n := range []int{0, 1, 5, 40} {
		members := make([]string, 0, n)
		for i := range n {
			members = append(members, `"`+strings.Repeat("k", i+1)+`":`+string(AppendNumber(nil, float64(i))))
		}
		v, err := Decode([]byte(`{`+strings.Join(members, ",")+`}`), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if got, ok := v.Get(strings.Repeat("k", i+1)); !ok || got.Num != float64(i) {
				t.Errorf("of %d: %d is %v, %v", n, i, got, ok)
			}
		}
		if _, ok := v.Get("z"); ok {
			t.Errorf("of %d: z is there", n)
		}
	}
}

func TestWith(t *testing.T) {
	for _, c := range []struct{ v, key, want string }{
		{`null`, "a", `{"a":0}`}, {`{}`, "a", `{"a":0}`}, {`{"b":1}`, "a", `{"a":0,"b":1}`}, {`{"a":1,"c":2}`, "b", `{"a":1,"b":0,"c":2}`},
		{`{"a":1,"b":2}`, "a", `{"a":0,"b":2}`}, {`{"דּ":1}`, "😀", `{"` + "😀" + `":0,"` + "דּ" + `":1}`},
	} {
		v, err := Decode([]byte(c.v), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		before := string(v.Append(nil))
		if got := string(v.With(c.key, Value{Kind: Number}).Append(nil)); got != c.want || string(v.Append(nil)) != before {
			t.Errorf("%s with %q: %s, want %s; it became %s", c.v, c.key, got, c.want, v.Append(nil))
		}
	}
}

// All that encoding/json can write, canonicalisation keeps in meaning, whatever
// the order and spacing it came in.
func TestMeaningIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := anyJSON(t, 4)
		plain, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		spaced, _ := json.MarshalIndent(v, "\t", "  ")
		want, err := Parse(plain, Limits{Foreign: true})
		if err != nil {
			t.Fatalf("%s: %v", plain, err)
		}
		got, err := Parse(spaced, Limits{Foreign: true})
		if err != nil || string(got) != string(want) {
			t.Fatalf("%s and %s, %v", got, want, err)
		}
		var before, after any
		if json.Unmarshal(plain, &before) != nil || json.Unmarshal(want, &after) != nil {
			t.Fatalf("%s is no JSON", want)
		}
		a, _ := json.Marshal(before)
		b, _ := json.Marshal(after)
		if string(a) != string(b) {
			t.Fatalf("%s became %s", a, b)
		}
		decoded, _ := Decode(plain, Limits{Foreign: true})
		again, _ := Decode(want, Limits{Foreign: true})
		if !Equal(decoded, again) {
			t.Fatal("not Equal to itself")
		}
	})
}

// A value that is written plainly is passed as it is, and nothing else is.
func TestPlain(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for text, want := range map[string]bool{
		`{}`: true, `[]`: true, `0`: true, `-1`: true, `""`: true, `true`: true, `null`: true, `{"A":1,"a":{"b":[1,"<&>/",false]}}`: true, deep(64): true,
		`123456789012345`: true, `1234567890123456`: false, `-0`: false, `01`: false, `1.5`: false, `1e5`: false, `-`: false,
		`{"b":1,"a":2}`: false, `{"a":1,"a":2}`: false, `{"a":1,}`: false, `[1,]`: false, `[,1]`: false, `{"a"}`: false, `{"a":}`: false, `{1:2}`: false,
		` 1`: false, `1 `: false, `[1, 2]`: false, `"\n"`: false, `"é"`: false, "\"\x7f\"": false, `"a`: false, `[`: false, `{`: false, `tru`: false, ``: false, deep(65): false, `1 2`: false,
	} {
		if got := plain([]byte(text)); got != want {
			t.Errorf("%.80s: %v", text, got)
		}
		out, err := Parse([]byte(text), Limits{Foreign: true})
		if want && (err != nil || string(out) != text) {
			t.Errorf("%.80s became %.80s, %v", text, out, err)
		}
	}
}

// Marshal returns the same whether it was plain or not.
func TestMarshalIsParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := anyJSON(t, 4)
		if rapid.Bool().Draw(t, "plainer") {
			v = map[string]any{"a b": v, "n": rapid.IntRange(-1<<40, 1<<40).Draw(t, "n"), "l": []any{true, "x"}}
		}
		text, _ := json.Marshal(v)
		want, werr := Parse(text, Limits{Foreign: true})
		got, err := Marshal(v)
		if (err == nil) != (werr == nil) || string(got) != string(want) {
			t.Fatalf("%s, %v and %s, %v", got, err, want, werr)
		}
	})
}

func anyJSON(t *rapid.T, depth int) any {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64).Draw(t, "number") + 0 // RFC 8785 knows no -0
	case 3:
		return rapid.String().Draw(t, "string")
	case 4:
		items := make([]any, rapid.IntRange(0, 4).Draw(t, "length"))
		for i := range items {
			items[i] = anyJSON(t, depth-1)
		}
		return items
	default:
		members := map[string]any{}
		for range rapid.IntRange(0, 14).Draw(t, "size") {
			members[rapid.String().Draw(t, "key")] = anyJSON(t, depth-1)
		}
		return members
	}
}

func BenchmarkParse(b *testing.B) {
	for name, in := range map[string]string{
		"canonical": `{"button":"left","count":1,"ref":"e12"}`,
		"loose":     `{"ref": "e12", "count": 1, "button": "left", "position": {"y": 2.5, "x": 10}}`,
		"text32KiB": `{"text":"` + strings.Repeat("lorem ipsum ", 2730) + `"}`,
	} {
		b.Run(name, func(b *testing.B) {
			data := []byte(in)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(data, Limits{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
