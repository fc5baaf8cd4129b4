package desk

import (
	"os"
	"path/filepath"
)

// StartWeston starts a Wayland compositor that offers none of the protocols by
// which other programs see and use a desktop, for the length of the test. Nothing
// else runs on it.
func StartWeston(t TB) *Desk {
	t.Helper()
	Need(t, "weston")
	d := open(t, Options{})
	d.Server = d.Start("weston", "--backend=headless-backend.so", "--socket=weston-of-test", "--width=1024", "--height=600", "--no-config", "--idle-time=0")
	Await(t, "weston", func() bool {
		if d.Server.Ended() {
			t.Fatalf("weston ended: %v: %s", d.Server.Err, tail(d.Server.out.String(), 4000))
		}
		_, err := os.Stat(filepath.Join(d.Runtime, "weston-of-test"))
		return err == nil
	})
	d.Env = setenv(d.Env, "WAYLAND_DISPLAY", "weston-of-test")
	return d
}
