package desk

import (
	"net"
	"path/filepath"
)

// StartWeston starts a Wayland compositor that offers none of the protocols by
// which other programs see and use a desktop, for the length of the test. Nothing
// else runs on it.
func StartWeston(t TB) *Desk {
	t.Helper()
	Need(t, "weston")
	d := open(t, Options{})
	d.Server = d.Start("weston", "--backend=headless-backend.so", "--socket=weston-of-test", "--width=1024", "--height=600", "--no-config",
		"--idle-time=0")
	Await(t, "weston", func() bool {
		if d.Server.Ended() {
			t.Fatalf("weston ended: %v: %s", d.Server.Err, tail(d.Server.out.String(), 4000))
		}
		// Its socket is there a moment before anybody listens at it.
		c, err := net.Dial("unix", filepath.Join(d.Runtime, "weston-of-test"))
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	d.Env = setenv(d.Env, "WAYLAND_DISPLAY", "weston-of-test")
	return d
}
