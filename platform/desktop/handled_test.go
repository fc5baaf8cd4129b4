//go:build linux

package desktop_test

import (
	"os"
	"path/filepath"
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
	if err := syscall.Kill(registry, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	wakes := time.AfterFunc(time.Second, func() { _ = syscall.Kill(registry, syscall.SIGCONT) })
	defer wakes.Stop()
	const text = "all of it"
	if _, err := it.Input.Type(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"Control", "s"} {
		if err := it.Input.Key(t.Context(), key, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := it.Input.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	saved := file + ".new" // the editor writes here, then renames
	desk.Await(t, "the file to be saved", func() bool {
		_, err := os.Stat(saved)
		data, read := os.ReadFile(file)
		return os.IsNotExist(err) && read == nil && len(data) > 0
	})
	if data, err := os.ReadFile(file); err != nil || string(data) != text {
		t.Errorf("saved %q: %v", data, err)
	}
}

func lastWord(s string) string {
	words := strings.Fields(s)
	return words[len(words)-1]
}
