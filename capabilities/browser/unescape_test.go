package browser

import (
	"encoding/json"
	"testing"
)

func FuzzUnescape(f *testing.F) {
	f.Add("ü\U0001F642\"\\\n日本")
	f.Fuzz(func(t *testing.T, s string) {
		escaped := []byte{'"'}
		for _, r := range s { // as Chrome writes it: everything but ASCII escaped
			q, _ := json.Marshal(string(r))
			if r < 0x80 {
				escaped = append(escaped, q[1:len(q)-1]...)
				continue
			}
			for _, u := range utf16Units(r) {
				escaped = append(escaped, []byte(`\u`+hex4(u))...)
			}
		}
		escaped = append(escaped, '"')
		var want, got string
		if json.Unmarshal(escaped, &want) != nil {
			t.Skip()
		}
		if err := json.Unmarshal(unescape(escaped), &got); err != nil || got != want {
			t.Fatalf("%s became %s (%v)", escaped, unescape(escaped), err)
		}
	})
}

func utf16Units(r rune) []rune {
	if r < 0x10000 {
		return []rune{r}
	}
	r -= 0x10000
	return []rune{0xd800 + r>>10, 0xdc00 + r&0x3ff}
}

func hex4(r rune) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15]})
}

func TestKeyOf(t *testing.T) {
	for r := rune(' '); r < 127; r++ {
		if k, ok := keyOf(r); !ok || k.text != string(r) || k.virtual == 0 || k.code == "" {
			t.Errorf("%q has no key: %+v", r, k)
		}
	}
	if _, ok := keyOf('ü'); ok {
		t.Error("ü is no key of a US keyboard")
	}
}
