package outline

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities/browser/outline/outlinetest"
)

func checkDelta(t *testing.T, old, now []string) {
	t.Helper()
	text := Delta(old, now)
	got, err := outlinetest.Apply(old, text)
	if err != nil || strings.Join(got, "\n") != strings.Join(now, "\n") {
		t.Fatalf("the delta\n%s\nmakes of\n%s\nthis (%v):\n%s\nwant\n%s", text, strings.Join(old, "\n"), err, strings.Join(got, "\n"), strings.Join(now, "\n"))
	}
	if (text == "") != (strings.Join(old, "\n") == strings.Join(now, "\n")) {
		t.Fatalf("%q between\n%q and\n%q", text, old, now)
	}
}

func TestDelta(t *testing.T) {
	old := strings.Split(`- heading "Shop" [level=1]
- navigation "Main"
  - link "Cart (1)" [ref=e1] -> /cart
  - link "Help" [ref=e2]
- list [ref=e9]
  - listitem: one
  - listitem: two
- button "Pay" [ref=e3]`, "\n")
	now := strings.Split(`- heading "Shop" [level=1]
- navigation "Main"
  - link "Cart (2)" [ref=e1] -> /cart
  - link "Help" [ref=e2]
  - link "New" [ref=e4]
- button "Pay" [disabled] [ref=e3]
- text: Thank you`, "\n")
	checkDelta(t, old, now)
	want := `@3 navigation "Main"
~   - link "Cart (2)" [ref=e1] -> /cart
@5 navigation "Main"
+   - link "New" [ref=e4]
-3 - list [ref=e9]
~ - button "Pay" [disabled] [ref=e3]
+ - text: Thank you`
	if got := Delta(old, now); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := Delta(old, old); got != "" {
		t.Errorf("nothing changed, but: %s", got)
	}
}

// The delta leads, whatever happens to an outline, from the old to the new one.
func TestDeltaApplies(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	line := func() string {
		switch r.IntN(3) {
		case 0:
			return strings.Repeat("  ", r.IntN(4)) + "- text: same"
		case 1:
			return strings.Repeat("  ", r.IntN(4)) + fmt.Sprintf("- listitem: %d", r.IntN(5))
		}
		return strings.Repeat("  ", r.IntN(4)) + fmt.Sprintf("- button \"b%d\" [ref=e%d]", r.IntN(9), r.IntN(30))
	}
	for range 3000 {
		old := make([]string, r.IntN(40))
		for i := range old {
			old[i] = line()
		}
		now := append([]string(nil), old...)
		for range r.IntN(12) {
			i := r.IntN(len(now) + 1)
			switch {
			case r.IntN(3) == 0 && i < len(now):
				now = append(now[:i:i], now[i+1:]...)
			case r.IntN(2) == 0 && i < len(now):
				now[i] = line()
			default:
				now = append(now[:i:i], append([]string{line()}, now[i:]...)...)
			}
		}
		checkDelta(t, old, now)
	}
}

func FuzzDelta(f *testing.F) {
	f.Add("- a\n- b\n  - c [ref=e1]", "- a\n  - c [ref=e1]\n- d")
	f.Add("", "- text: x")
	f.Add("- x\n- x\n- x", "- x\n- y\n- x")
	f.Add(`- button "a [ref=e2]" [ref=e1]`, `- button "\" [ref=e1]`)
	f.Fuzz(func(t *testing.T, old, now string) {
		lines := func(text string) (list []string) {
			for line := range strings.SplitSeq(text, "\n") {
				if strings.TrimSpace(line) != "" {
					list = append(list, line)
				}
			}
			return list
		}
		checkDelta(t, lines(old), lines(now))
		for _, line := range lines(old) {
			if r := Read(line); len(line)%2 == 0 {
				r.Parts()
			}
		}
	})
}
