package canonical

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzParse: what is accepted means what encoding/json reads, is stable, and what is refused is
// nothing; what plain passes is as it should be.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"a":1,"b":[true,false,null],"c":{"d":"e"}}`, `{"a":1,"A":2}`, `"\ud83d\ude00\u0000"`, `[1e21,-0,0.000001,1E-7]`,
		`9007199254740993`, `{"\ufb33":1,"\ud83d\ude00":2}`, `[[[[[[]]]]]]`, "{\"k\":1,\"\u212a\":2}", ` 1 `, `{"A":[{},[],-10,0,"x y"],"a":{"b":123456789012345}}`, `"\`,
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, foreign bool) {
		limits := Limits{Foreign: foreign}
		out, err := Parse(data, limits)
		if foreign && plain(data) && !bytes.Equal(out, data) {
			t.Fatalf("%q was called canonical and became %q, %v", data, out, err)
		}
		if err != nil {
			if out != nil {
				t.Fatalf("bytes beside an error: %q", out)
			}
			return
		}
		again, err := Parse(out, limits)
		if err != nil || !bytes.Equal(out, again) {
			t.Fatalf("%q became %q, then %q, %v", data, out, again, err)
		}
		var before, after any
		if err := json.Unmarshal(data, &before); err != nil {
			t.Fatalf("%q was accepted: %v", data, err)
		}
		if err := json.Unmarshal(out, &after); err != nil || !reflect.DeepEqual(before, after) {
			t.Fatalf("%q became %q: %v", data, out, err)
		}
	})
}
