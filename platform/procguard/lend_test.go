//go:build linux

package procguard

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/handrail-dev/handrail/platform"
)

// run starts sh, which runs the script with the lent folder as $LENT, says what
// it printed up to the first line, and is told to go on by a line.
func lendTo(t *testing.T, l *Launcher, home, script string, change func(*platform.Command)) (platform.Process, string, error) {
	t.Helper()
	base := t.TempDir()
	os.Chmod(filepath.Dir(base), 0o755) // another account has to reach it
	os.Chmod(base, 0o755)
	c := platform.Command{
		Path: "/bin/sh", Name: "lend", ScratchBase: base,
		Lend: &platform.Lend{Home: home, Name: "data", Leave: []string{"Cache"}, Note: "held by the test"},
		Build: func(scratch string) ([]string, []string) {
			return []string{"-c", script + "\necho ready >&4; read x <&3", platform.PipeHandles}, []string{"PATH=/usr/bin:/bin", "SCRATCH=" + scratch, "LENT=" + scratch + "/data"}
		},
	}
	if change != nil {
		change(&c)
	}
	p, err := l.Start(t.Context(), c)
	if err != nil {
		return nil, "", err
	}
	t.Cleanup(func() { p.Close() })
	var said strings.Builder
	for r := bufio.NewReader(p.Out()); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("child: %v; %s", err, p.Output())
		}
		if line == "ready\n" {
			return p, said.String(), nil
		}
		said.WriteString(line)
	}
}

func TestLend(t *testing.T) {
	home := filepath.Join(t.TempDir(), "profiles", "work")
	secret := filepath.Join(t.TempDir(), "secret")
	os.WriteFile(secret, []byte("root's"), 0o600)
	l := New(Options{})
	script := `mkdir -p "$LENT/a/Cache"; echo one >"$LENT/a/file"; echo x >"$LENT/a/Cache/big"; ln -s ` + secret + ` "$LENT/link"; ln -s / "$LENT/all"`
	p, _, err := lendTo(t, l, home, script, nil)
	if err != nil {
		t.Fatal(err)
	}
	var lent *platform.LentError
	if _, _, err := lendTo(t, New(Options{}), home, "", nil); !errors.As(err, &lent) || lent.Note != "held by the test" {
		t.Fatalf("a second child got it: %v", err)
	}
	if entries, _ := os.ReadDir(home); len(entries) != 0 {
		t.Error("the home changed while it was lent")
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, p.Scratch())
	if b, err := os.ReadFile(filepath.Join(home, "a", "file")); string(b) != "one\n" {
		t.Fatalf("%q, %v", b, err)
	}
	for _, name := range []string{"a/Cache", "link", "all"} {
		if _, err := os.Lstat(filepath.Join(home, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s was taken home", name)
		}
	}
	if info, _ := os.Stat(home); info.Mode().Perm() != 0o700 {
		t.Error(info.Mode())
	}
	// Again, with what was kept; the child ends by itself.
	p, said, err := lendTo(t, l, home, `cat "$LENT/a/file" >&4; echo two >>"$LENT/a/file"`, nil)
	if err != nil || said != "one\n" {
		t.Fatalf("%q, %v", said, err)
	}
	io.WriteString(p.In(), "\n")
	<-p.Done()
	if b, _ := os.ReadFile(filepath.Join(home, "a", "file")); string(b) != "one\ntwo\n" {
		t.Errorf("%q", b)
	}
	// A guard that is killed leaves the home as it was, and free.
	p, _, err = lendTo(t, l, home, `echo lost >"$LENT/a/file"`, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.(*process).cmd.Process.Kill()
	<-p.Done()
	if b, _ := os.ReadFile(filepath.Join(home, "a", "file")); string(b) != "one\ntwo\n" {
		t.Errorf("%q", b)
	}
	// A holder that died is waited for: its guard is on the way home.
	slow, _, err := lendTo(t, l, home, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile(home+".holder", []byte("2147483646\nthe dead"), 0o600)
	go slow.Close()
	if p, _, err = lendTo(t, New(Options{}), home, "", nil); err != nil {
		t.Fatal("a folder on its way home was refused:", err)
	}
	p.Close()
	// A power cut between the two renames.
	os.Rename(home, home+".old")
	if _, said, err = lendTo(t, l, home, `cat "$LENT/a/file" >&4`, nil); err != nil || said != "one\ntwo\n" {
		t.Errorf("%q, %v", said, err)
	}
}

func TestAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give accounts")
	}
	l := New(Options{})
	seen := map[string]bool{}
	home := filepath.Join(t.TempDir(), "home")
	for range 3 {
		p, said, err := lendTo(t, l, home, `id -u >&4; id -g >&4; echo mine >"$LENT/file"`, func(c *platform.Command) {
			c.User, c.Alone = &platform.User{UID: 65534, GID: 65534}, true
			if len(seen) > 0 {
				c.Lend = nil
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		id, _ := strconv.Atoi(strings.Fields(said)[0])
		if id < firstAccount || id > lastAccount || seen[said] {
			t.Errorf("account %q, seen %v", said, seen)
		}
		seen[said] = true
		if len(seen) == 1 {
			p.Close()
			info, err := os.Stat(filepath.Join(home, "file"))
			if err != nil || info.Sys().(*syscall.Stat_t).Uid != 0 || info.Mode().Perm() != 0o600 {
				t.Errorf("at home: %v, %v", info, err)
			}
		}
	}
}

func TestOwns(t *testing.T) {
	server, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	to := netip.MustParseAddrPort(server.Addr().String())
	for _, alone := range []bool{false, true} {
		if alone && os.Geteuid() != 0 {
			continue
		}
		p, _, err := lendTo(t, New(Options{}), "", `python3 -c 'import socket,time; s=socket.create_connection(("127.0.0.1",`+strconv.Itoa(int(to.Port()))+`)); time.sleep(1000)' &`, func(c *platform.Command) {
			c.Lend = nil
			if alone {
				c.User, c.Alone = &platform.User{UID: 65534, GID: 65534}, true
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := server.Accept()
		if err != nil {
			t.Fatal(err)
		}
		ours, err := net.Dial("tcp4", to.String())
		if err != nil {
			t.Fatal(err)
		}
		queued, err := server.Accept()
		if err != nil {
			t.Fatal(err)
		}
		queued.Close()
		from := netip.MustParseAddrPort(theirs.RemoteAddr().String())
		for range 2 { // the second time from what it remembers
			if ok, err := p.Owns(from, to); !ok || err != nil {
				t.Errorf("alone %v: the child's connection: %v, %v", alone, ok, err)
			}
		}
		if ok, err := p.Owns(netip.MustParseAddrPort(ours.LocalAddr().String()), to); ok || err != nil {
			t.Errorf("alone %v: our own connection: %v, %v", alone, ok, err)
		}
		if ok, _ := p.Owns(netip.MustParseAddrPort("127.0.0.1:1"), to); ok {
			t.Error("a connection that is none")
		}
		theirs.Close()
		ours.Close()
		p.Close()
	}
}

func BenchmarkOwns(b *testing.B) {
	server, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	c, err := net.Dial("tcp4", server.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	from, to := netip.MustParseAddrPort(c.LocalAddr().String()), netip.MustParseAddrPort(server.Addr().String())
	for b.Loop() {
		if _, _, err := findSocket(from, to); err != nil {
			b.Fatal(err)
		}
	}
}

// Both ways of asking give the same answer.
func TestFindSocket(t *testing.T) {
	server, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	c, err := net.Dial("tcp4", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	from, to := netip.MustParseAddrPort(c.LocalAddr().String()), netip.MustParseAddrPort(server.Addr().String())
	uid, inode, err := searchTable(from, to)
	if err != nil || int(uid) != os.Geteuid() || inode == "0" {
		t.Fatal(uid, inode, err)
	}
	uid2, inode2, err := askKernel(from, to)
	if err != nil {
		t.Skip("this kernel does not answer:", err)
	}
	if uid != uid2 || inode != inode2 {
		t.Errorf("%d %s and %d %s", uid, inode, uid2, inode2)
	}
	if _, _, err := askKernel(netip.MustParseAddrPort("127.0.0.1:1"), to); err != errNoSocket {
		t.Error(err)
	}
}
