package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/handrail-dev/handrail/platform/procguard"
	"github.com/handrail-dev/handrail/platform/sandbox"
)

// TestMain is also the program that the tests start: it tries one thing and says how it went.
func TestMain(m *testing.M) {
	procguard.Main()
	sandbox.Main()
	if len(os.Args) > 2 && os.Args[1] == "try" {
		fmt.Println(try(os.Args[2], os.Args[3:]))
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func try(what string, args []string) error {
	pid := func() int { n, _ := strconv.Atoi(args[0]); return n }
	switch what {
	case "read":
		_, err := os.ReadFile(args[0])
		return err
	case "write":
		return os.WriteFile(args[0], []byte("x"), 0o600)
	case "chmod":
		return os.Chmod(args[0], 0o666)
	case "chown":
		return os.Chown(args[0], os.Getuid(), os.Getgid())
	case "xattr":
		return unix.Setxattr(args[0], "user.x", []byte("y"), 0)
	case "truncate":
		return os.Truncate(args[0], 0)
	case "kill":
		return syscall.Kill(pid(), 0)
	case "limit":
		return unix.Prlimit(pid(), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: 64}, nil)
	case "priority":
		return unix.Setpriority(unix.PRIO_PROCESS, pid(), 19)
	case "affinity":
		var set unix.CPUSet
		return unix.SchedGetaffinity(0, &set)
	case "datagrams":
		_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		return err
	case "streams":
		_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		return err
	case "socket":
		_, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		return err
	case "queue":
		_, _, errno := unix.Syscall6(unix.SYS_MSGRCV, 0, 0, 0, 0, unix.IPC_NOWAIT, 0)
		if errno == 0 {
			return nil
		}
		return errno
	case "report": // to the process that started us, in its runner's name
		for fd := 3; fd < 64; fd++ {
			if _, err := unix.Write(fd, []byte("\x05\x00\x00\x00\x04haha\x04\x00\x00\x00\x00")); err == nil {
				return nil
			}
		}
		return errors.New("there is no descriptor")
	case "environment":
		_, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", os.Getppid()))
		return err
	}
	return errors.New("what?")
}

func box(t *testing.T) *sandbox.Sandbox {
	t.Helper()
	s := sandbox.New(procguard.New(procguard.Options{}))
	if _, err := s.Class(); err != nil {
		t.Skip(err)
	}
	return s
}

// tried starts this program behind walls and returns what it says.
func tried(t *testing.T, p sandbox.Program) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p.Argv = append([]string{self, "try"}, p.Argv...)
	child, err := box(t).Start(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	_ = child.Stdin().Close()
	out, err := io.ReadAll(child.Stdout())
	if err != nil {
		t.Fatal(err)
	}
	if code, err := child.Wait(); err != nil || code != 0 {
		t.Fatalf("it ended with %d, %v: %s", code, err, child.Stderr())
	}
	return strings.TrimSpace(string(out))
}

func TestWalls(t *testing.T) {
	inside, outside := t.TempDir(), t.TempDir()
	file := filepath.Join(outside, "a")
	if err := os.WriteFile(file, []byte("seen"), 0o600); err != nil {
		t.Fatal(err)
	}
	own := strconv.Itoa(os.Getpid())
	for name, c := range map[string]struct {
		argv []string
		ok   bool
	}{
		"reads outside":             {[]string{"read", file}, false},
		"writes outside":            {[]string{"write", filepath.Join(outside, "b")}, false},
		"empties a file outside":    {[]string{"truncate", file}, false},
		"changes a mode outside":    {[]string{"chmod", file}, false},
		"changes an owner outside":  {[]string{"chown", file}, false},
		"sets an attribute outside": {[]string{"xattr", file}, false},
		"writes inside":             {[]string{"write", filepath.Join(inside, "b")}, true},
		"signals us":                {[]string{"kill", own}, false},
		"bounds us":                 {[]string{"limit", own}, false},
		"slows us":                  {[]string{"priority", own}, false},
		"asks about itself":         {[]string{"affinity"}, true},
		"datagrams":                 {[]string{"datagrams"}, false},
		"a pair of streams":         {[]string{"streams"}, true},
		"a socket":                  {[]string{"socket"}, false},
		"a queue of others":         {[]string{"queue"}, false},
		"its runner's environment":  {[]string{"environment"}, false},
	} {
		said := tried(t, sandbox.Program{Argv: c.argv, Write: []string{inside}})
		if (said == "<nil>") != c.ok {
			t.Errorf("%s: %s", name, said)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 || info.Size() != 4 {
		t.Errorf("the file outside is %v", info)
	}
}

// A program has no way to speak in its runner's name.
func TestAProgramCannotReport(t *testing.T) {
	if said := tried(t, sandbox.Program{Argv: []string{"report"}}); said == "<nil>" {
		t.Error("it wrote to a descriptor of its runner's")
	}
}

func TestAProgramEndsWithItsCall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p, err := box(t).Start(ctx, sandbox.Program{Argv: []string{"bash", "-c", "sleep 300 & echo began; sleep 300"}})
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 6)
	if _, err := io.ReadFull(p.Stdout(), buf); err != nil {
		t.Fatal(err)
	}
	cancel()
	over := make(chan struct{})
	go func() {
		_, _ = p.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(30 * time.Second):
		t.Fatal("it goes on")
	}
}

// A command may be long, and nobody reads it on a command line.
func TestALongCommand(t *testing.T) {
	long := strings.Repeat("x", 120_000)
	p, err := box(t).Start(t.Context(), sandbox.Program{Argv: []string{"bash", "-c", "echo ${#1}", "bash", long}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(p.Stdout())
	if err != nil || strings.TrimSpace(string(out)) != "120000" {
		t.Errorf("%s %v", out, err)
	}
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
}
