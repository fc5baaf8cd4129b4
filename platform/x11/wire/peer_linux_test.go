package wire

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/handrail-dev/handrail/platform"
)

const nobody = 65534

// thief listens as another account if it can, or as this one, and tells what it was sent.
func thief(t *testing.T, socket string, as int) (heard <-chan string) {
	t.Helper()
	listening, got := make(chan net.Listener, 1), make(chan string, 16)
	go func() {
		runtime.LockOSThread() // for good: nothing else may run as that account
		if as != os.Geteuid() {
			if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(as), uintptr(as), uintptr(as)); e != 0 {
				t.Error(e)
			}
		}
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Error(err)
			listening <- nil
			return
		}
		listening <- l
	}()
	l := <-listening
	if l == nil {
		t.FailNow()
	}
	ended := make(chan struct{})
	t.Cleanup(func() { _ = l.Close(); <-ended })
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				close(got)
				return
			}
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			b := make([]byte, 4096)
			n, _ := c.Read(b)
			got <- string(b[:n])
			_ = c.Close()
		}
	}()
	return got
}

func cookieFile(t *testing.T, owner int) (file, cookie string) {
	t.Helper()
	file, cookie = filepath.Join(t.TempDir(), "authority"), "0123456789abcdef"
	if err := os.WriteFile(file, entryOf(65535, "", "", magicCookie, cookie), 0o600); err != nil {
		t.Fatal(err)
	}
	if owner != os.Geteuid() {
		if err := os.Chown(file, owner, -1); err != nil {
			t.Fatal(err)
		}
	}
	return file, cookie
}

// A program that takes the abstract name of a server that has only a path is not spoken to.
func TestThePathComesBeforeTheAbstractName(t *testing.T) {
	t.Parallel()
	file, _ := cookieFile(t, os.Geteuid())
	d := bare(t, "", "-nolisten", "local", "-auth", file)
	heard := thief(t, "@/tmp/.X11-unix/X"+strconv.Itoa(d.DisplayNumber()), os.Geteuid())
	c, err := Dial(within(t), Options{Display: d.Display, Authority: file})
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	select {
	case s := <-heard:
		t.Errorf("it was sent %q", s)
	default:
	}
}

// A server of another account gets no cookie, on a path or an abstract name, but for one
// whose account has the cookie's file.
func TestTheCookieStaysFromOtherAccounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be somebody else")
	}
	dir, err := os.MkdirTemp("", "x11")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]struct{ display, socket string }{
		"a path":           {filepath.Join(dir, "x:7"), filepath.Join(dir, "x:7")},
		"an abstract name": {":58123", "@/tmp/.X11-unix/X58123"},
	} {
		t.Run(name, func(t *testing.T) {
			heard := thief(t, at.socket, nobody)
			file, cookie := cookieFile(t, os.Geteuid())
			_, err := Dial(within(t), Options{Display: at.display, Authority: file})
			if missing, ok := errors.AsType[*platform.MissingError](err); !ok || !missing.Permission || !strings.Contains(missing.What, "another account (uid 65534)") {
				t.Errorf("%v", err)
			}
			if s := <-heard; s != "" {
				t.Errorf("it was sent %q", s)
			}
			theirs, _ := cookieFile(t, nobody)
			_, _ = Dial(within(t), Options{Display: at.display, Authority: theirs})
			if s := <-heard; !strings.Contains(s, cookie) {
				t.Errorf("the control: the owner of the file was sent %q", s)
			}
		})
	}
}
