package darwin

import (
	"strings"
	"testing"
)

// A name from a caller or node.json is read as it was written, or not at all.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"cg:12", "cg:0", "cg:-1", "ctrl+alt+escape", "Cmd+Shift+K", "a", "é", "Control", "", "+", "TextEdit", "/Applications/A.app", "-n", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, ok := windowNumber(s); ok && n <= 0 || !ok && n > 0 && strings.HasPrefix(s, windowPrefix) && windowRef(n) == s && n <= 1<<32-1 {
			t.Errorf("%q is window %d, %v", s, n, ok)
		}
		if flags, _, ok := hotkeyOf(s); ok && flags&^flagAll != 0 {
			t.Errorf("%q holds %x", s, flags)
		}
		if k, ok := keyOf(s); ok && k.char != 0 {
			code, on := ansi[[]rune(strings.ToLower(string(k.char)))[0]]
			if string(k.char) != s || k.anyhow && ansi[k.char] != 0 || !k.anyhow && (!on || code != k.code) {
				t.Errorf("%q is %+v", s, k)
			}
		}
		if args, err := openArguments(s, []string{s}); err == nil && (len(args) != 4 || args[1] != s || strings.HasPrefix(s, "-") || strings.Contains(s, "\x00")) {
			t.Errorf("%q opens %q", s, args)
		}
	})
}
