package wine

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Wine is a prefix of a test's own.
type Wine struct {
	binary, prefix, overrides string
	command                   func(name string, args ...string) *exec.Cmd
}

// find prefers Debian's own place: its wrapper asks for 32-bit Wine.
func find() (string, error) {
	var err error
	for _, name := range []string{"/usr/lib/wine/wine64", "wine64", "/usr/lib/wine/wine", "wine"} {
		var path string
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", err
}

// Need ends the test where there is no Wine, or no time for it.
func Need(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds for Windows and starts Wine; run without -short")
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("Wine runs programs of its own processor only; the test builds for amd64")
	}
	if _, err := find(); err != nil {
		t.Fatal("Wine is missing: install the package wine64")
	}
}

// Start makes a prefix. command makes each of its commands, with the display that it has; nil: they
// have none.
func Start(t testing.TB, command func(name string, args ...string) *exec.Cmd) *Wine {
	t.Helper()
	binary, err := find()
	if err != nil {
		t.Fatal(err)
	}
	if command == nil {
		command = func(name string, args ...string) *exec.Cmd {
			cmd := exec.Command(name, args...)
			cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "DISPLAY=") })
			return cmd
		}
	}
	// no Mono, no browser
	w := &Wine{binary: binary, prefix: filepath.Join(t.TempDir(), "prefix"), overrides: "mscoree,mshtml=", command: command}
	if out, err := w.Command("wineboot", "-i").CombinedOutput(); err != nil {
		t.Fatalf("wineboot: %v\n%s", err, out)
	}
	t.Cleanup(func() { // its server writes the registry down before it ends, into the folder that is to go
		_ = w.Command("wineboot", "-k").Run()
		server := w.command(filepath.Join(filepath.Dir(binary), "wineserver"), "-w")
		server.Env = append(server.Env, "WINEPREFIX="+w.prefix)
		_ = server.Run()
	})
	library := filepath.Join(w.prefix, "drive_c", "windows", "system32", "bcryptprimitives.dll")
	if _, err := os.Stat(library); err != nil { // Wine 8; later ones have it
		if err := os.WriteFile(library, forwarder("bcryptprimitives.dll", "ProcessPrng", "advapi32.SystemFunction036"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.overrides += ";bcryptprimitives=n"
	}
	return w
}

// Command is one of Wine, or of a program for Windows.
func (w *Wine) Command(args ...string) *exec.Cmd {
	cmd := w.command(w.binary, args...)
	// Debian's Wine 10 ends at once where TMPDIR is set.
	cmd.Env = slices.DeleteFunc(cmd.Env, func(e string) bool { return strings.HasPrefix(e, "TMPDIR=") })
	cmd.Env = append(cmd.Env, "WINEPREFIX="+w.prefix, "WINEARCH=win64", "WINEDEBUG=-all", "WINEDLLOVERRIDES="+w.overrides)
	return cmd
}

// Build makes the tests of a package a program for Windows.
func (w *Wine) Build(t testing.TB, pkg string) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "windows.test.exe")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", exe, pkg)
	build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return exe
}

// Path is a path of this machine as programs for Windows know it.
func Path(path string) string { return `Z:` + strings.ReplaceAll(path, "/", `\`) }
