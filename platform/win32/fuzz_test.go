package win32

import (
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// A ref that a caller hands in is an application's only if it was made by appRef.
func FuzzRefs(f *testing.F) {
	for _, s := range []string{"uia:app:12", "uia:app:012", "uia:app:+1", "uia:12:2a.1", "uia:app:", "", "hwnd:0x1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		pid, ok := appOf(s)
		if ok && (pid <= 0 || !strings.HasPrefix(s, "uia:app:")) || !ok && strings.HasPrefix(s, "uia:app:") && pid > 0 && appRef(pid) == s {
			t.Errorf("%q is application %d, %v", s, pid, ok)
		}
		if c := capabilities.Clip(s, 16); len(c) > 16*3 {
			t.Errorf("%q", c)
		}
	})
}
