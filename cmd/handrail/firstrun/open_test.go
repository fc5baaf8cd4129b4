package firstrun

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// The browser is opened where a person sits before it, and nowhere else.
func TestOpener(t *testing.T) {
	display := map[string]string{"DISPLAY": ":0"}
	for name, one := range map[string]struct {
		goos    string
		user    int
		env     map[string]string
		missing bool
		want    []string
	}{
		"X":                {"linux", 1000, display, false, []string{"/bin/xdg-open"}},
		"Wayland":          {"linux", 1000, map[string]string{"WAYLAND_DISPLAY": "wayland-0"}, false, []string{"/bin/xdg-open"}},
		"no display":       {"linux", 1000, nil, false, nil},
		"no opener":        {"linux", 1000, display, true, nil},
		"CI":               {"linux", 1000, map[string]string{"DISPLAY": ":0", "CI": "true"}, false, nil},
		"from elsewhere":   {"linux", 1000, map[string]string{"DISPLAY": "localhost:10", "SSH_CONNECTION": "a"}, false, nil},
		"root":             {"linux", 0, display, false, nil},
		"root by sudo":     {"linux", 0, map[string]string{"DISPLAY": ":0", "XDG_SESSION_ID": "2", "SUDO_UID": "1000"}, false, nil},
		"root's session":   {"linux", 0, map[string]string{"DISPLAY": ":0", "XDG_SESSION_ID": "2"}, false, []string{"/bin/xdg-open"}},
		"macOS":            {"darwin", 501, nil, false, []string{"/usr/bin/open"}},
		"macOS, elsewhere": {"darwin", 501, map[string]string{"SSH_TTY": "/dev/ttys1"}, false, nil},
		"Windows": {"windows", -1, map[string]string{"SystemRoot": "C", "SESSIONNAME": "Console"}, false,
			[]string{filepath.Join("C", "System32", "rundll32.exe"), "url.dll,FileProtocolHandler"}},
		"a service": {"windows", -1, map[string]string{"SystemRoot": "C"}, false, nil},
	} {
		s := Session{one.goos, one.user, func(name string) string { return one.env[name] }, func(program string) (string, error) {
			if one.missing {
				return "", exec.ErrNotFound
			}
			return "/bin/" + program, nil
		}}
		if got, ok := s.Opener(); !slices.Equal(got, one.want) || ok != (one.want != nil) {
			t.Errorf("%s: %q %v", name, got, ok)
		}
	}
}

// An address that every user of the machine can read carries no secret, and leads nowhere else.
func TestOpenTakesPlainAddressesAlone(t *testing.T) {
	run := filepath.Join(t.TempDir(), "ran")
	opener := filepath.Join(t.TempDir(), "opener")
	if err := os.WriteFile(opener, []byte("#!/bin/sh\necho >"+run+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := Session{"linux", 1000, func(string) string { return ":0" }, func(string) (string, error) { return opener, nil }}
	for _, page := range []string{
		"http://localhost:7480/console/login#hrl_x", "http://localhost:7480/console/login?code=1", "http://u@localhost:7480/",
		"https://handrail.example/console/", "http://127.0.0.1.evil.example/", "file:///etc/passwd", "--version", "",
	} {
		if err := s.Open(page); err == nil {
			t.Errorf("%q was opened", page)
		}
	}
	if _, err := os.Stat(run); err == nil {
		t.Error("the opener ran")
	}
}
