package chrome

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/platform"
)

// Options of New. The zero value looks where Chrome usually is.
type Options struct {
	// Path names the program; nothing else is tried then. Default: search.
	Path string
	// Starts has Find start the program, so that a version shows that it does; else what it said
	// once is kept for as long as its file is the same.
	Starts bool
	// Host is the machine to look at. Default: this one, and Starts counts.
	Host *Host
}

// Host is what finding and sandboxing depend on, as values, so that every
// system's rules can be tested on any other.
type Host struct {
	GOOS   string
	Getenv func(string) string
	// LookPath finds a program in PATH.
	LookPath func(string) (string, error)
	// Executable reports whether path is a file that may be executed.
	Executable func(path string) bool
	// Head returns the first bytes of a file, to tell wrappers from programs.
	Head func(path string) []byte
	// Resolve follows symbolic links.
	Resolve func(path string) string
	// Version asks the program for its version, or reads it beside it.
	Version func(ctx context.Context, path string) string
	// Root reports whether this process runs as root.
	Root bool
	// Account reports whether a process may run as that account here: a container
	// may map root only.
	Account func(platform.User) bool
	// Namespaces says why user namespaces are not usable for user (nil: as this
	// process), with a fix; both empty where they are.
	Namespaces func(user *platform.User, path string) (why, fix string)
	// SmallShm is true where /dev/shm is under 256 MiB.
	SmallShm bool
}

// Finder finds the browser and remembers it. Safe for concurrent use.
type Finder struct {
	path string
	host Host

	mu    sync.Mutex // guards what follows, and is held while the host is looked at
	found *platform.Browser
	asked bool // found was asked for its version
	err   error
	tried time.Time

	asking sync.Mutex // held while the browser is asked; taken before mu
}

var _ platform.BrowserFinder = (*Finder)(nil)

// retryAfter is how long a failed search is believed: a person may install the
// browser while the node runs.
const retryAfter = 5 * time.Second

// New makes a Finder; it looks at nothing yet.
func New(o Options) *Finder {
	host := Local()
	if o.Host != nil {
		host = *o.Host
	} else if o.Starts && runtime.GOOS != "windows" {
		host.Version = askVersion
	}
	return &Finder{path: o.Path, host: host}
}

// Find returns the browser: remembered if it is still there, searched otherwise.
// Errors are *platform.MissingError.
func (f *Finder) Find(ctx context.Context) (platform.Browser, error) {
	b, asked, err := f.locate(ctx)
	if err != nil || asked {
		return b, err
	}
	f.asking.Lock()
	defer f.asking.Unlock()
	if b, asked, err = f.locate(ctx); err != nil || asked { // another call has asked meanwhile
		return b, err
	}
	b.Version = f.host.Version(ctx, b.Path)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.found != nil && f.found.Path == b.Path {
		f.found.Version, f.asked = b.Version, true
	}
	return b, nil
}

// Locate is Find for those who need no version: only the browser itself can tell
// that, which takes it tens of milliseconds.
func (f *Finder) Locate(ctx context.Context) (platform.Browser, error) {
	b, _, err := f.locate(ctx)
	return b, err
}

func (f *Finder) locate(ctx context.Context) (b platform.Browser, asked bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.found != nil && f.host.Executable(f.found.Path) {
		return *f.found, f.asked, nil
	}
	if f.err != nil && time.Since(f.tried) < retryAfter {
		return platform.Browser{}, false, f.err
	}
	f.found, f.asked = nil, false
	b, err = f.host.find(f.path)
	f.tried, f.err = time.Now(), err
	if err != nil {
		return platform.Browser{}, false, err
	}
	f.found = &b
	return b, false, nil
}

func (h Host) find(explicit string) (platform.Browser, error) {
	candidates := []string{explicit}
	if explicit == "" {
		candidates = h.candidates()
	}
	var stub string
	for _, path := range candidates {
		if !strings.ContainsRune(path, filepath.Separator) && !strings.Contains(path, `\`) {
			found, err := h.LookPath(path)
			if err != nil {
				continue
			}
			path = found
		}
		if !h.Executable(path) {
			continue
		}
		if h.snapStub(path) {
			stub = path
			continue
		}
		return h.describe(h.unwrap(path)), nil
	}
	return platform.Browser{}, h.missing(explicit, stub)
}

// candidates lists names (for PATH) and known places, best first: what a
// distribution maintains before what a person dropped somewhere.
func (h Host) candidates() []string {
	switch h.GOOS {
	case "windows":
		var list []string
		for _, base := range []string{"ProgramFiles", "ProgramFiles(x86)", "LocalAppData"} {
			if dir := h.Getenv(base); dir != "" {
				list = append(list, dir+`\Google\Chrome\Application\chrome.exe`, dir+`\Chromium\Application\chrome.exe`)
			}
		}
		return append(list, "chrome.exe", "chromium.exe")
	case "darwin":
		return []string{
			"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
			"/Applications/Chromium.app/Contents/MacOS/Chromium",
			h.Getenv("HOME") + "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
			"chromium", "google-chrome",
		}
	}
	return []string{
		"chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome",
		"/usr/lib/chromium/chromium", "/usr/lib/chromium-browser/chromium-browser",
		"/opt/google/chrome/chrome", "/opt/chromium/chrome", "/snap/bin/chromium",
	}
}

// snapStub recognises Ubuntu's "chromium" package, a script that hands over to
// snap, and snap's own links. A snap cannot use our scratch folder and pipe, and
// does not run in containers at all.
func (h Host) snapStub(path string) bool {
	if h.GOOS != "linux" {
		return false
	}
	real := h.Resolve(path)
	if strings.HasPrefix(real, "/snap/") || real == "/usr/bin/snap" || strings.HasPrefix(path, "/snap/") {
		return true
	}
	head := h.Head(path)
	return bytes.HasPrefix(head, []byte("#!")) && bytes.Contains(head, []byte("/snap/bin/"))
}

// unwrap goes past a distribution's launcher script to the program: the script
// costs start time and would add its own switches to ours.
func (h Host) unwrap(path string) string {
	real := h.Resolve(path)
	if h.GOOS != "linux" || !bytes.HasPrefix(h.Head(real), []byte("#!")) {
		return real
	}
	for _, program := range []string{
		filepath.Join(filepath.Dir(real), "chrome"), // /opt/google/chrome/google-chrome
		"/usr/lib/chromium/chromium", "/usr/lib64/chromium-browser/chromium-browser", "/usr/lib/chromium-browser/chromium-browser",
	} {
		if h.Executable(program) && !bytes.HasPrefix(h.Head(program), []byte("#!")) {
			return program
		}
	}
	return real
}

// unprivileged is the account Chrome runs under when we are root: its sandbox
// refuses root, and root could do too much. It owns nothing on any system.
var unprivileged = platform.User{UID: 65534, GID: 65534}

// describe says all of the browser but its version.
func (h Host) describe(path string) platform.Browser {
	b := platform.Browser{Path: path, Product: product(path), SmallShm: h.SmallShm}
	if h.GOOS != "linux" {
		return b
	}
	if h.Root {
		user := unprivileged
		if !h.Account(user) {
			b.NoSandbox = "Chrome's sandbox refuses root, and this container has no other account."
			b.SandboxFix = "Run the node as an ordinary user, or map more accounts into the container."
			return b
		}
		b.RunAs = &user
	}
	b.NoSandbox, b.SandboxFix = h.Namespaces(b.RunAs, path)
	return b
}

func product(path string) string {
	base := strings.ToLower(filepath.ToSlash(path))
	base = base[strings.LastIndexByte(base, '/')+1:]
	if strings.Contains(base, "chromium") || strings.Contains(strings.ToLower(path), "chromium") {
		return "chromium"
	}
	return "chrome"
}

func (h Host) missing(explicit, stub string) error {
	switch {
	case explicit != "" && stub != "":
		return &platform.MissingError{
			What: fmt.Sprintf("%s is Ubuntu's snap wrapper, which cannot be driven from outside.", stub),
			Fix:  "Name a Chrome that is not a snap, such as the .deb of google-chrome-stable.",
		}
	case explicit != "":
		return &platform.MissingError{
			What: fmt.Sprintf("There is no program at %s.", explicit),
			Fix:  "Give the full path of Chrome or Chromium, or leave the setting out to search for it.",
		}
	case stub != "":
		return &platform.MissingError{
			What: fmt.Sprintf(
				"Only Ubuntu's snap wrapper of Chromium (%s) is installed; it does not run in containers and cannot be driven from outside.", stub),
			Fix: "Install Google Chrome's .deb: https://dl.google.com/linux/direct/google-chrome-stable_current_amd64.deb",
		}
	}
	fix := map[string]string{
		"linux":   "Debian: apt-get install chromium. Fedora: dnf install chromium. Ubuntu: install Google Chrome's .deb.",
		"darwin":  "Install Google Chrome, or: brew install --cask chromium.",
		"windows": "Install Google Chrome, or: winget install Google.Chrome.",
	}[h.GOOS]
	if fix == "" {
		fix = "Install Chrome or Chromium and give its path."
	}
	return &platform.MissingError{What: "No Chrome or Chromium was found.", Fix: fix}
}

// Local describes this machine.
func Local() Host {
	return Host{
		GOOS: runtime.GOOS, Getenv: os.Getenv, LookPath: exec.LookPath,
		Executable: func(path string) bool {
			info, err := os.Stat(path)
			return err == nil && info.Mode().IsRegular() && (runtime.GOOS == "windows" || info.Mode()&0o111 != 0)
		},
		Head: func(path string) []byte {
			f, err := os.Open(path)
			if err != nil {
				return nil
			}
			defer f.Close()
			head, _ := io.ReadAll(io.LimitReader(f, 8<<10))
			return head
		},
		Resolve: func(path string) string {
			if real, err := filepath.EvalSymlinks(path); err == nil {
				return real
			}
			return path
		},
		Version:    localVersion,
		Root:       runtime.GOOS != "windows" && os.Geteuid() == 0,
		Account:    localAccount,
		Namespaces: localNamespaces,
		SmallShm:   smallShm(),
	}
}

var versionPattern = regexp.MustCompile(`\d+\.\d+\.\d+\.\d+`)

// localVersion asks the program, which costs a third of a second of a processor: its answer is
// kept in the user's cache, as long as the file is the same. On Windows Chrome prints nothing,
// but keeps its files in a folder named after its version.
func localVersion(ctx context.Context, path string) string {
	if runtime.GOOS == "windows" {
		entries, _ := os.ReadDir(filepath.Dir(path))
		version := ""
		for _, e := range entries {
			if e.IsDir() && versionPattern.MatchString(e.Name()) {
				version = e.Name()
			}
		}
		return version
	}
	cache, _ := os.UserCacheDir() // none: it is asked each time
	return versionKept(cache, path, func() string { return askVersion(ctx, path) })
}

// askVersion returns what the program says of itself, and "" where it does not start.
func askVersion(ctx context.Context, path string) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return versionPattern.FindString(string(out))
}
