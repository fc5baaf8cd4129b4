package sandbox_test

import (
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform/sandbox"
)

// said starts a program and returns what it wrote, its code and the walls that stood.
func said(t *testing.T, s *sandbox.Sandbox, p sandbox.Program) (string, int, []sandbox.Wall) {
	t.Helper()
	child, err := s.Start(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	_ = child.Stdin().Close()
	out, err := io.ReadAll(child.Stdout())
	if err != nil {
		t.Fatal(err)
	}
	code, err := child.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return string(out) + child.Stderr(), code, child.Walls()
}

// apart is a sandbox with namespaces, where the system has them.
func apart(t *testing.T) *sandbox.Sandbox {
	t.Helper()
	s := box(t)
	for _, w := range s.Walls(t.Context()) {
		if w.Deeper && w.Err != nil {
			t.Skip(w.Err)
		}
	}
	return s
}

// In namespaces of its own a program sees no other files, no other processes and no network, and
// its folders are where they are for everybody (S1-37).
func TestNamespaces(t *testing.T) {
	with := apart(t)
	inside, readable, outside := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{inside, readable, outside} {
		if err := os.WriteFile(filepath.Join(dir, "a"), []byte("seen"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	linked := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(readable, linked); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		script     string
		with, bare string
	}{
		"its folders":           {"cat a b/a c/a; echo >made; ls made", "seenseenseenmade\n", "seenseenseenmade\n"},
		"a file elsewhere":      {`stat -c %s "$1/a" 2>/dev/null || echo none`, "none\n", "4\n"},
		"a private file":        {`stat -c %n /etc/shadow 2>/dev/null || echo none`, "none\n", "/etc/shadow\n"},
		"its number":            {"[ $PPID -le 1 ] && echo first || echo one of many", "first\n", "one of many\n"},
		"a pipe for a file":     {"cat <(echo piped)", "piped\n", "piped\n"},
		"a name beside it":      {"mv a b-new && mv b-new a && cat a", "seen", "seen"},
		"no file in the root":   {"echo >/made || echo refused", "refused\n", "refused\n"},
		"a device that is none": {"echo x >/dev/null && head -c 2 /dev/zero | wc -c", "2\n", "2\n"},
	} {
		for way, s := range map[string]*sandbox.Sandbox{"with": with, "bare": with.WithoutNamespaces()} {
			want := map[string]string{"with": c.with, "bare": c.bare}[way]
			script := strings.NewReplacer(" b/a", ` "$2/a"`, " c/a", ` "$3/a"`).Replace(c.script)
			out, code, walls := said(t, s, sandbox.Program{
				Argv: []string{"bash", "-c", "exec 2>/dev/null; " + script, "bash", outside, readable, linked}, Dir: inside, Read: []string{readable, linked}, Write: []string{inside},
			})
			if out != want || code != 0 {
				t.Errorf("%s, %s: %q (%d), want %q", name, way, out, code, want)
			}
			if slices.Contains(walls, sandbox.WallNamespaces) != (way == "with") {
				t.Errorf("%s: %v", way, walls)
			}
		}
	}
	if made, err := os.ReadDir(outside); err != nil || len(made) != 1 {
		t.Errorf("%v %v", made, err)
	}
}

// Of a network a program sees nothing at all, of any class.
func TestNoInterface(t *testing.T) {
	s := apart(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, class := range []capabilities.IsolationClass{capabilities.ClassT0, capabilities.ClassT1, capabilities.ClassT3} {
		mine, err := os.Readlink("/proc/self/ns/net")
		if err != nil {
			t.Fatal(err)
		}
		out, _, _ := said(t, s, sandbox.Program{Argv: []string{self, "try", "network", mine}, Class: class})
		if strings.TrimSpace(out) != "<nil>" {
			t.Errorf("%s: %s", class, out)
		}
	}
}

// A program with a folder that is everything sees everything; the other walls stand.
func TestAllFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(file, []byte("seen"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, code, walls := said(t, box(t), sandbox.Program{Argv: []string{"cat", file}, Read: []string{"/"}})
	if code != 0 || out != "seen" || slices.Contains(walls, sandbox.WallNamespaces) {
		t.Errorf("%q %d %v", out, code, walls)
	}
}

// A shell that is killed takes what it started with it, whoever of them holds its output.
func TestAKilledShell(t *testing.T) {
	for way, s := range map[string]*sandbox.Sandbox{"as here": box(t), "without namespaces": box(t).WithoutNamespaces()} {
		out, code, _ := said(t, s, sandbox.Program{Argv: []string{"bash", "-c", "sleep 600 & setsid sleep 600 & echo began; kill -9 $$"}})
		if out != "began\n" || code != -1 {
			t.Errorf("%s: %q %d", way, out, code)
		}
	}
}

// tryNetwork looks for the machine's network in this process' own.
func tryNetwork(mine string) error {
	if own, err := os.Readlink("/proc/self/ns/net"); err == nil && own == mine {
		return os.ErrExist
	}
	if _, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0); err == nil {
		return os.ErrExist
	}
	return nil
}

// A program that takes no proxy, in namespaces of its own, finds the hosts that it may reach by
// their names, connects to the door for them, and finds no others. The machine's own list stays
// behind them.
func TestNamesBehindADoor(t *testing.T) {
	s := apart(t)
	if _, err := s.Class(true); err != nil {
		t.Skip(err)
	}
	named := netip.MustParseAddrPort("198.18.0.1:7")
	for _, c := range []struct{ host, want string }{
		{"listed.example", "hello"}, {"other.example", ""},
	} {
		door := newEcho(t, named)
		door.names = map[string]netip.Addr{"listed.example": named.Addr()}
		p, err := s.Start(t.Context(), sandbox.Program{
			Argv: []string{"bash", "-c", `exec 3<>/dev/tcp/$1/7 && echo hello >&3 && read -r back <&3 && echo "$back"; cat /etc/hosts >&2`, "bash", c.host}, Door: door,
		})
		if err != nil {
			t.Fatal(err)
		}
		out, err := io.ReadAll(p.Stdout())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Wait(); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(string(out)); got != c.want {
			t.Errorf("%s: %q, %s", c.host, got, p.Stderr())
		}
		machines, _ := os.ReadFile("/etc/hosts")
		if said := p.Stderr(); !strings.Contains(said, "198.18.0.1 listed.example\n") || !strings.Contains(said, strings.TrimSpace(string(machines))) {
			t.Errorf("its list of hosts: %s", said)
		}
		door.mu.Lock()
		if to := slices.Collect(maps.Values(door.expected)); c.want != "" && !slices.Equal(to, []netip.AddrPort{named}) {
			t.Errorf("announced: %v", to)
		}
		door.mu.Unlock()
	}
}
