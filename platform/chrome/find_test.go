package chrome

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/handrail-dev/handrail/platform"
)

// fakeHost is a machine with exactly these files (path to first bytes).
func fakeHost(goos string, root bool, files map[string]string, inPath map[string]string) *Host {
	return &Host{
		GOOS: goos, Root: root,
		Getenv: func(k string) string {
			return map[string]string{"ProgramFiles": `C:\Program Files`, "HOME": "/Users/u"}[k]
		},
		LookPath: func(n string) (string, error) {
			if p, ok := inPath[n]; ok {
				return p, nil
			}
			return "", exec.ErrNotFound
		},
		Executable: func(p string) bool { _, ok := files[p]; return ok },
		Head:       func(p string) []byte { return []byte(files[p]) },
		Resolve: func(p string) string {
			if p == "/usr/bin/google-chrome" {
				return "/opt/google/chrome/google-chrome"
			}
			return p
		},
		Version:    func(context.Context, string) string { return "156.0.1.2" },
		Account:    func(platform.User) bool { return true },
		Namespaces: func(*platform.User, string) (string, string) { return "", "" },
	}
}

// The version costs the browser a start: it is asked once, by those who need it.
func TestVersionIsAskedOnce(t *testing.T) {
	files := map[string]string{"/x/chrome": "\x7fELF"}
	host := fakeHost("linux", false, files, nil)
	var asked atomic.Int32
	host.Version = func(context.Context, string) string { asked.Add(1); return "156.0.1.2" }
	f := New(Options{Path: "/x/chrome", Host: host})
	if b, err := f.Locate(t.Context()); err != nil || b.Path != "/x/chrome" || asked.Load() != 0 {
		t.Errorf("located %+v, %v, asked %d times", b, err, asked.Load())
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if b, err := f.Find(t.Context()); err != nil || b.Version != "156.0.1.2" {
				t.Errorf("found %+v, %v", b, err)
			}
		})
	}
	all.Wait()
	if b, err := f.Locate(t.Context()); err != nil || b.Version != "156.0.1.2" || asked.Load() != 1 {
		t.Errorf("located %+v, %v, asked %d times", b, err, asked.Load())
	}
	delete(files, "/x/chrome")
	if _, err := f.Find(t.Context()); err == nil {
		t.Error("a browser that is gone was found")
	}
}

func TestFind(t *testing.T) {
	debian := map[string]string{"/usr/bin/chromium": "#!/bin/sh\n# Chromium launcher", "/usr/lib/chromium/chromium": "\x7fELF"}
	google := map[string]string{"/opt/google/chrome/google-chrome": "#!/bin/bash", "/usr/bin/google-chrome": "#!/bin/bash", "/opt/google/chrome/chrome": "\x7fELF"}
	stub := map[string]string{"/usr/bin/chromium-browser": "#!/bin/sh\nexec /snap/bin/chromium \"$@\""}
	for _, tc := range []struct {
		name, goos, explicit string
		root                 bool
		files, inPath        map[string]string
		path, product, fail  string
	}{
		{name: "debian wrapper", goos: "linux", files: debian, inPath: map[string]string{"chromium": "/usr/bin/chromium"}, path: "/usr/lib/chromium/chromium", product: "chromium"},
		{name: "debian as root", goos: "linux", root: true, files: debian, inPath: map[string]string{"chromium": "/usr/bin/chromium"}, path: "/usr/lib/chromium/chromium", product: "chromium"},
		{name: "not in PATH", goos: "linux", files: debian, path: "/usr/lib/chromium/chromium", product: "chromium"},
		{name: "google wrapper", goos: "linux", files: google, inPath: map[string]string{"google-chrome": "/usr/bin/google-chrome"}, path: "/opt/google/chrome/chrome", product: "chrome"},
		{name: "snap stub", goos: "linux", files: stub, inPath: map[string]string{"chromium-browser": "/usr/bin/chromium-browser"}, fail: "snap wrapper"},
		{name: "snap stub beside a real one", goos: "linux", files: map[string]string{"/usr/bin/chromium-browser": stub["/usr/bin/chromium-browser"], "/opt/google/chrome/chrome": "\x7fELF"},
			inPath: map[string]string{"chromium-browser": "/usr/bin/chromium-browser"}, path: "/opt/google/chrome/chrome", product: "chrome"},
		{name: "snap link", goos: "linux", files: map[string]string{"/snap/bin/chromium": "\x7fELF"}, fail: "snap wrapper"},
		{name: "explicit", goos: "linux", explicit: "/x/chrome", files: map[string]string{"/x/chrome": "\x7fELF"}, path: "/x/chrome", product: "chrome"},
		{name: "explicit missing", goos: "linux", explicit: "/x/chrome", files: debian, fail: "no program at /x/chrome"},
		{name: "nothing", goos: "linux", fail: "apt-get install chromium"},
		{name: "windows", goos: "windows", files: map[string]string{`C:\Program Files\Google\Chrome\Application\chrome.exe`: "MZ"}, path: `C:\Program Files\Google\Chrome\Application\chrome.exe`, product: "chrome"},
		{name: "windows nothing", goos: "windows", fail: "winget"},
		{name: "darwin", goos: "darwin", root: true, files: map[string]string{"/Applications/Chromium.app/Contents/MacOS/Chromium": "x"}, path: "/Applications/Chromium.app/Contents/MacOS/Chromium", product: "chromium"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, err := New(Options{Path: tc.explicit, Host: fakeHost(tc.goos, tc.root, tc.files, tc.inPath)}).Find(t.Context())
			if tc.fail != "" {
				var missing *platform.MissingError
				if !errors.As(err, &missing) || !strings.Contains(err.Error(), tc.fail) || missing.Fix == "" {
					t.Fatalf("error %v, want a MissingError with %q and a fix", err, tc.fail)
				}
				return
			}
			if err != nil || b.Path != tc.path || b.Product != tc.product || b.Version != "156.0.1.2" {
				t.Fatalf("got %+v, %v; want %s (%s)", b, err, tc.path, tc.product)
			}
			if wantUser := tc.root && tc.goos == "linux"; (b.RunAs != nil) != wantUser {
				t.Fatalf("RunAs %v, want one: %v", b.RunAs, wantUser)
			}
		})
	}
}

// Root alone in its container cannot run Chrome sandboxed, and is not changed to
// an account that is not there.
func TestFindRootAlone(t *testing.T) {
	host := fakeHost("linux", true, map[string]string{"/x/chrome": "\x7fELF"}, nil)
	host.Account = func(platform.User) bool { return false }
	b, err := New(Options{Path: "/x/chrome", Host: host}).Find(t.Context())
	if err != nil || b.RunAs != nil || b.NoSandbox == "" || b.SandboxFix == "" {
		t.Fatalf("%+v, %v", b, err)
	}
}

// A found browser is remembered, a removed one is searched again.
func TestFindAgain(t *testing.T) {
	files := map[string]string{"/x/chrome": "\x7fELF"}
	host := fakeHost("linux", false, files, nil)
	asked := 0
	host.Version = func(context.Context, string) string { asked++; return "1.2.3.4" }
	f := New(Options{Path: "/x/chrome", Host: host})
	for range 3 {
		if _, err := f.Find(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if asked != 1 {
		t.Fatalf("asked for the version %d times, want once", asked)
	}
	delete(files, "/x/chrome")
	if _, err := f.Find(t.Context()); err == nil {
		t.Fatal("found a browser that is gone")
	}
}

// The machine the tests run on: its namespaces must agree with what the kernel
// lets an ordinary process do.
func TestLocalNamespaces(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("Linux only")
	}
	user := (*platform.User)(nil)
	if Local().Root {
		user = &unprivileged
	}
	why, fix := localNamespaces(user, "/usr/lib/chromium/chromium")
	if (why == "") != (fix == "") {
		t.Fatalf("a reason needs a fix: %q, %q", why, fix)
	}
	t.Logf("namespaces: %q", why)
}
