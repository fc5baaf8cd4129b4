package win32

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/test/desk"
)

// findWine prefers Debian's own place: its wrapper asks for 32-bit Wine.
func findWine() (string, error) {
	var err error
	for _, name := range []string{"/usr/lib/wine/wine64", "wine64", "/usr/lib/wine/wine", "wine"} {
		var path string
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", err
}

// The tests for Windows, run by Wine on a desktop of their own, where xdotool
// plays the person: what it does are events of the X server's devices to Wine.
func TestUnderWine(t *testing.T) {
	if testing.Short() {
		t.Skip("builds for Windows and starts Wine; run without -short")
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("Wine runs programs of its own processor only; the test builds for amd64")
	}
	wineBinary, err := findWine()
	if err != nil {
		t.Fatal("Wine is missing: install the package wine64")
	}
	dir := t.TempDir()
	exe := filepath.Join(dir, "win32.test.exe")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", exe, ".")
	build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	d := desk.StartX(t, desk.Options{})
	prefix, ask := filepath.Join(dir, "prefix"), filepath.Join(dir, "person")
	overrides := "mscoree,mshtml=" // no Mono, no browser
	wine := func(args ...string) *exec.Cmd {
		cmd := d.Command(wineBinary, args...)
		// Debian's Wine 10 ends at once where TMPDIR is set.
		cmd.Env = slices.DeleteFunc(cmd.Env, func(e string) bool { return strings.HasPrefix(e, "TMPDIR=") })
		cmd.Env = append(cmd.Env, "WINEPREFIX="+prefix, "WINEARCH=win64", "WINEDEBUG=-all", "WINEDLLOVERRIDES="+overrides, `HANDRAIL_TEST_PERSON=Z:`+strings.ReplaceAll(ask, "/", `\`))
		return cmd
	}
	if out, err := wine("wineboot", "-i").CombinedOutput(); err != nil {
		t.Fatalf("wineboot: %v\n%s", err, out)
	}
	t.Cleanup(func() { wine("wineboot", "-k").Run() })
	library := filepath.Join(prefix, "drive_c", "windows", "system32", "bcryptprimitives.dll")
	if _, err := os.Stat(library); err != nil { // Wine 8; later ones have it
		if err := os.WriteFile(library, forwarder("bcryptprimitives.dll", "ProcessPrng", "advapi32.SystemFunction036"), 0o600); err != nil {
			t.Fatal(err)
		}
		overrides += ";bcryptprimitives=n"
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(20 * time.Millisecond); t.Context().Err() == nil; <-tick.C {
			if _, err := os.Stat(ask); err == nil {
				d.Try("xdotool", "mousemove", "300", "200", "mousemove", "310", "210", "key", "ctrl+alt+k")
			}
		}
	}()
	out, err := wine(exe, "-test.v", "-test.timeout=10m").CombinedOutput()
	passed := func(name string) bool { return strings.Contains(string(out), "--- PASS: "+name) }
	if err != nil || !passed("TestPerson") || !passed("TestGrabAgreesWithAnotherLibrary") || !passed("TestDesktop/typing") || !passed("TestLocate") || !passed("TestOwnLocation") {
		t.Errorf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) { // what Wine lacks, in its words
		if strings.Contains(line, "no UI Automation") || strings.Contains(line, "UI Automation of this Windows is not whole") || strings.Contains(line, "no location service") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// forwarder is a library (PE32+) without code that hands one function's callers on
// to another library's: "library.function". Wine 8 lacks one that Go needs.
func forwarder(name, function, target string) []byte {
	const (
		at      = 0x1000 // where the one section is loaded
		headers = 0x200
		size    = 0x200
	)
	var section [size]byte
	put := func(offset int, v uint32) { binary.LittleEndian.PutUint32(section[offset:], v) }
	text := func(offset int, s string) uint32 { copy(section[offset:], s); return at + uint32(offset) }
	// The export directory; an address within it is the name of a forwarded function.
	put(12, text(0x80, name))
	put(16, 1) // the first ordinal
	put(20, 1) // functions
	put(24, 1) // names
	put(28, at+40)
	put(32, at+44)
	put(36, at+48)
	put(40, text(0x100, target))
	put(44, text(0xC0, function))

	file := make([]byte, headers+size)
	copy(file, "MZ")
	u16 := func(offset int, v uint16) { binary.LittleEndian.PutUint16(file[offset:], v) }
	u32 := func(offset int, v uint32) { binary.LittleEndian.PutUint32(file[offset:], v) }
	const pe, optional = 0x40, 0x40 + 24
	u32(0x3C, pe)
	copy(file[pe:], "PE\x00\x00")
	u16(pe+4, 0x8664)         // x86-64
	u16(pe+6, 1)              // sections
	u16(pe+20, 240)           // size of the optional header
	u16(pe+22, 0x2022)        // executable, large addresses, a library
	u16(optional, 0x20B)      // PE32+
	u32(optional+8, size)     // initialised data
	u32(optional+24, 0x10000) // image base, far from others' by its upper half
	u32(optional+28, 1)
	u32(optional+32, 0x1000) // alignment in memory
	u32(optional+36, 0x200)  // and in the file
	u16(optional+40, 6)      // system version
	u16(optional+48, 6)      // subsystem version
	u32(optional+56, 0x2000) // size of the image
	u32(optional+60, headers)
	u16(optional+68, 3)      // console
	u16(optional+70, 0x0140) // may be moved, no execution of data
	u32(optional+108, 16)    // directories
	u32(optional+112, at)    // exports
	u32(optional+116, 0x180)
	const header = optional + 240
	copy(file[header:], ".edata")
	u32(header+8, size)
	u32(header+12, at)
	u32(header+16, size)
	u32(header+20, headers)
	u32(header+36, 0x40000040) // initialised data, readable
	copy(file[headers:], section[:])
	return file
}
