//go:build linux

package desktop_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/test/desk"
)

// With accessibility in use Qt hands each key to the registry and handles it when
// that has answered; a shortcut it carries out at once. So a shortcut behind text
// waits for both, however slow the registry is.
func TestShortcutComesAfterTheText(t *testing.T) {
	t.Parallel()
	shortcutAfterText(t, func(registry, editor int) (typed func()) {
		signal(t, registry, syscall.SIGSTOP)
		return func() {
			time.AfterFunc(time.Second, func() { _ = syscall.Kill(registry, syscall.SIGCONT) })
		}
	})
}

// Qt hands the keys over in a thread of their own, so it may have read all of them
// while the registry has heard of none and would answer at once.
func TestShortcutComesAfterTheTextThatIsNotHandedOver(t *testing.T) {
	t.Parallel()
	shortcutAfterText(t, func(registry, editor int) (typed func()) {
		stopped, goes := make(chan error), make(chan struct{})
		go func() {
			runtime.LockOSThread() // whom the kernel lets trace
			defer runtime.UnlockOSThread()
			thread, err := threadNamed(editor, "QDBusConnection")
			if err == nil {
				err = syscall.PtraceAttach(thread)
			}
			if err == nil {
				_, err = syscall.Wait4(thread, nil, syscall.WALL, nil)
			}
			stopped <- err
			if err == nil {
				<-goes
				_ = syscall.PtraceDetach(thread)
			}
		}()
		if err := <-stopped; err != nil {
			t.Fatalf("the editor's thread for messages does not stop: %v", err)
		}
		return func() {
			time.AfterFunc(time.Second, func() {
				_ = syscall.Kill(registry, syscall.SIGSTOP) // what is handed over now stays there
				close(goes)
				time.AfterFunc(time.Second, func() { _ = syscall.Kill(registry, syscall.SIGCONT) })
			})
		}
	})
}

// shortcutAfterText types into an editor of Qt and has it save by a shortcut, while slow holds up
// the registry or the editor, whose processes it is given. The function that it returns is called
// when the text is typed, and lets them go on some time later.
func shortcutAfterText(t *testing.T, slow func(registry, editor int) (typed func())) {
	t.Helper()
	d := desk.StartX(t, desk.Options{})
	it, err := open(t, d, nil).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tree := func() {
		t.Helper()
		if _, err := it.Accessibility.Tree(t.Context(), platform.TreeQuery{}); err != nil {
			t.Fatal(err)
		}
	}
	tree() // from now on the node listens
	file := filepath.Join(t.TempDir(), "note.txt")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a := d.App(d.InstallQtEditor(), file)
	d.Activate(a.Window.ID)
	tree() // Qt has met the registry

	bus := lastWord(d.Run("dbus-send", "--session", "--print-reply", "--dest=org.a11y.Bus", "/org/a11y/bus", "org.a11y.Bus.GetAddress"))
	registry, err := strconv.Atoi(lastWord(d.Run("dbus-send", "--bus="+strings.Trim(bus, `"`), "--print-reply", "--dest=org.freedesktop.DBus", "/", "org.freedesktop.DBus.GetConnectionUnixProcessID", "string:org.a11y.atspi.Registry")))
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	typed := slow(registry, a.Window.PID)
	const text = "all of it"
	if _, err := it.Input.Type(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	typed()
	for _, key := range []string{"Control", "s"} {
		if err := it.Input.Key(t.Context(), key, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := it.Input.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	desk.Await(t, "the file to be saved", func() bool { // the editor puts another in its place
		now, err := os.Stat(file)
		return err == nil && !os.SameFile(before, now)
	})
	if data, err := os.ReadFile(file); err != nil || string(data) != text {
		t.Errorf("saved %q: %v", data, err)
	}
}

func signal(t *testing.T, process int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(process, s); err != nil {
		t.Fatal(err)
	}
}

func threadNamed(process int, name string) (int, error) {
	files, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(process), "task/*/comm"))
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(data)) == name {
			return strconv.Atoi(filepath.Base(filepath.Dir(file)))
		}
	}
	return 0, errors.Join(err, os.ErrNotExist)
}

func lastWord(s string) string {
	words := strings.Fields(s)
	return words[len(words)-1]
}
