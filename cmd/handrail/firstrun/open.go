package firstrun

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Session is what says whether a person with a browser is there; a value, so that every system can
// be tested on any.
type Session struct {
	GOOS   string
	User   int // -1 where there are none
	Getenv func(string) string
	Find   func(program string) (path string, err error)
}

// Here is the session that this process is in.
func Here() Session { return Session{runtime.GOOS, os.Getuid(), os.Getenv, exec.LookPath} }

// Opener returns the program that opens addresses in the person's browser, with what goes before
// the address. None: nobody is there who would see it, as in a CI job, at a terminal from
// elsewhere, without a display, or for root outside a session of its own.
func (s Session) Opener() (command []string, ok bool) {
	if s.Getenv("CI") != "" || s.Getenv("SSH_CONNECTION") != "" || s.Getenv("SSH_TTY") != "" {
		return nil, false
	}
	if s.User == 0 && (s.Getenv("SUDO_UID") != "" || s.Getenv("XDG_SESSION_ID") == "") {
		return nil, false
	}
	switch s.GOOS {
	case "windows":
		root := s.Getenv("SystemRoot")
		if root == "" || s.Getenv("SESSIONNAME") == "" { // services have none
			return nil, false
		}
		return []string{filepath.Join(root, "System32", "rundll32.exe"), "url.dll,FileProtocolHandler"}, true
	case "darwin":
		return []string{"/usr/bin/open"}, true
	}
	if s.Getenv("DISPLAY") == "" && s.Getenv("WAYLAND_DISPLAY") == "" {
		return nil, false
	}
	path, err := s.Find("xdg-open")
	if err != nil {
		return nil, false
	}
	return []string{path}, true
}

// Open opens a page of this machine in the person's browser. Whether a browser then comes up, no
// system says.
func (s Session) Open(page string) error {
	if err := plain(page); err != nil {
		return err
	}
	command, ok := s.Opener()
	if !ok {
		return exec.ErrNotFound
	}
	cmd := exec.Command(command[0], append(command[1:], page)...)
	apart(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }()
	return nil
}

// plain refuses an address that leads elsewhere, or that carries more than a place.
func plain(page string) error {
	u, err := url.Parse(page)
	if err != nil || u.Scheme != "http" || u.Hostname() != "localhost" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%.200q is no plain address of this machine", page)
	}
	return nil
}
