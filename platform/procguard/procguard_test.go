//go:build unix

package procguard

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/platform"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("PROCGUARD_TEST_PARENT") != "" {
		parentThatGetsKilled()
	}
	goleak.VerifyTestMain(m)
}

// tree is a child that daemonises a grandchild (own session, so outside every
// process group) before it echoes what it reads on 3 to 4.
const tree = `
if command -v setsid >/dev/null; then setsid sleep 1000 & else sleep 1000 & fi
echo ready >&4
touch "$SCRATCH/file"
cat <&3 >&4
`

func command(base string) platform.Command {
	return platform.Command{
		Path: "/bin/sh", Name: "test", ScratchBase: base,
		Build: func(scratch string) ([]string, []string) {
			return []string{"-c", tree, platform.PipeHandles}, []string{"PATH=/usr/bin:/bin", "SCRATCH=" + scratch}
		},
	}
}

// alive reports whether any process has scratch in its environment.
func alive(t *testing.T, scratch string) []string {
	t.Helper()
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var found []string
	for _, d := range dirs {
		env, err := os.ReadFile(d + "/environ")
		if err == nil && strings.Contains(string(env), "SCRATCH="+scratch) {
			found = append(found, filepath.Base(d))
		}
	}
	return found
}

// awaitTree waits until child and grandchild can be seen: while one becomes another program it has
// no environment for a moment.
func awaitTree(t *testing.T, scratch string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); len(alive(t, scratch)) < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("processes %v", alive(t, scratch))
		}
	}
}

func awaitGone(t *testing.T, scratch string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		_, err := os.Lstat(scratch)
		if left := alive(t, scratch); len(left) == 0 && errors.Is(err, os.ErrNotExist) {
			return
		} else if time.Now().After(deadline) {
			t.Fatalf("left over: processes %v, folder %v", left, err == nil)
		}
		time.Sleep(5 * time.Millisecond) // polling for another process's end
	}
}

func start(t *testing.T) platform.Process {
	t.Helper()
	p, err := New(Options{}).Start(t.Context(), command(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	r := bufio.NewReader(p.Out())
	if line, err := r.ReadString('\n'); line != "ready\n" {
		t.Fatalf("child said %q, %v", line, err)
	}
	io.WriteString(p.In(), "ping\n")
	if line, err := r.ReadString('\n'); line != "ping\n" {
		t.Fatalf("echo was %q, %v", line, err)
	}
	return p
}

func TestCloseKillsTreeAndDeletesScratch(t *testing.T) {
	p := start(t)
	if p.PID() == 0 {
		t.Fatal("it has no process")
	}
	if hasProc() {
		awaitTree(t, p.Scratch())
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal("second Close:", err)
	}
	awaitGone(t, p.Scratch())
}

func TestChildEndIsNoticed(t *testing.T) {
	p := start(t)
	syscall.Kill(p.PID(), syscall.SIGKILL)
	<-p.Done()
	awaitGone(t, p.Scratch())
}

func TestGuardKilled(t *testing.T) {
	p := start(t)
	p.(*process).cmd.Process.Kill()
	<-p.Done()
	awaitGone(t, p.Scratch())
}

func TestStartFails(t *testing.T) {
	base := t.TempDir()
	c := command(base)
	c.Path = "/does/not/exist"
	if _, err := New(Options{}).Start(t.Context(), c); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Fatalf("error %v, want one that names the cause", err)
	}
	if left, _ := os.ReadDir(base); len(left) != 0 {
		t.Fatalf("scratch left over: %v", left)
	}
}

// A start that fails because the child's account cannot enter the temporary folder says which.
func TestAFolderThatIsClosedToTheUserIsNamed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	closed, err := os.MkdirTemp("", "procguard")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(closed)
	base := filepath.Join(closed, "below")
	if err := os.Mkdir(base, 0o755); err != nil {
		t.Fatal(err)
	}
	c := command(base)
	c.User = &platform.User{UID: 65534, GID: 65534}
	var missing *platform.MissingError
	if p, err := New(Options{}).Start(t.Context(), c); err == nil {
		p.Close()
		t.Error("it started")
	} else if !errors.As(err, &missing) || !strings.Contains(missing.What, closed+" is closed") || !strings.Contains(missing.Fix, "TMPDIR=") {
		t.Errorf("%v", err)
	}
	if left, _ := os.ReadDir(base); len(left) != 0 {
		t.Errorf("scratch left over: %v", left)
	}
}

func TestRunsAsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	base, err := os.MkdirTemp("", "procguard")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	os.Chmod(base, 0o755)
	c := command(base)
	c.User = &platform.User{UID: 65534, GID: 65534}
	c.Build = func(scratch string) ([]string, []string) {
		return []string{"-c", "id -u >&4; id -G >&4; touch mine; cat <&3"}, []string{"PATH=/usr/bin:/bin", "SCRATCH=" + scratch}
	}
	p, err := New(Options{}).Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	r := bufio.NewReader(p.Out())
	for range 2 {
		if line, err := r.ReadString('\n'); line != "65534\n" {
			t.Fatalf("account %q (%v), want 65534 and no other group", line, err)
		}
	}
}

// A parent ended by SIGKILL leaves nothing.
func TestParentSIGKILL(t *testing.T) {
	if !hasProc() {
		t.Skip("needs /proc")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PROCGUARD_TEST_PARENT="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	scratch, err := bufio.NewReader(out).ReadString('\n')
	scratch = strings.TrimSpace(scratch)
	if err != nil {
		t.Fatalf("parent said %q, %v", scratch, err)
	}
	awaitTree(t, scratch)
	cmd.Process.Kill()
	cmd.Wait()
	awaitGone(t, scratch)
}

func parentThatGetsKilled() {
	p, err := New(Options{}).Start(context.Background(), command(os.Getenv("PROCGUARD_TEST_PARENT")))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	bufio.NewReader(p.Out()).ReadString('\n')
	fmt.Println(p.Scratch())
	for {
		time.Sleep(time.Hour)
		runtime.KeepAlive(p) // collected, its pipes would end and the guard with them
	}
}

func TestSweep(t *testing.T) {
	base := t.TempDir()
	old := time.Now().Add(-time.Hour)
	age := func(dir string) { os.Chtimes(dir, old, old) }
	dead, lock, err := newScratch(base, "handrail-test-", nil)
	if err != nil {
		t.Fatal(err)
	}
	lock.Close()
	age(dead)
	held, lock, err := newScratch(base, "handrail-test-", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	age(held)
	other := filepath.Join(base, "handrail-other-1")
	os.Mkdir(other, 0o700)
	age(other)
	if n := sweepScratch(base, "handrail-test-"); n != 1 {
		t.Fatalf("swept %d, want 1", n)
	}
	for dir, want := range map[string]bool{dead: false, held: true, other: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", dir, err == nil, want)
		}
	}
}

func TestPlaceHandles(t *testing.T) {
	in := []string{"--a", "--io=" + platform.PipeHandles}
	if got := placeHandles(in, [2]uintptr{}); len(got) != 1 {
		t.Errorf("without handles: %v", got)
	}
	if got := placeHandles(in, [2]uintptr{12, 34}); got[1] != "--io=12,34" {
		t.Errorf("with handles: %v", got)
	}
}

func hasProc() bool {
	_, err := os.Stat("/proc/self/environ")
	return err == nil
}

// A child's last words are read whole, however late their reader comes: also where they were more
// than a reader takes at once, and where the child was killed.
func TestLastWordsAreRead(t *testing.T) {
	for name, script := range map[string]string{
		"a line":         "printf '%s\\n' done >&4",
		"a full pipe":    "head -c 60000 /dev/zero | tr '\\0' x >&4; printf '%s\\n' done >&4",
		"a killed child": "printf '%s\\n' done >&4; kill -9 $$",
	} {
		t.Run(name, func(t *testing.T) {
			c := command(t.TempDir())
			c.Build = func(string) ([]string, []string) {
				return []string{"-c", script, platform.PipeHandles}, []string{"PATH=/usr/bin:/bin"}
			}
			p, err := New(Options{}).Start(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			<-p.Done()
			p.(*process).out.f.SetReadDeadline(time.Unix(1, 0)) // as if it came a minute later
			said, err := io.ReadAll(p.Out())
			if err != nil || !strings.HasSuffix(string(said), "done\n") {
				t.Errorf("%.20q…, %v", said, err)
			}
			if _, err := p.Out().Read(make([]byte, 1)); err == nil {
				t.Error("there is more after the end")
			}
		})
	}
}

// A reader that waits when the child ends is let go, also where a process that slipped
// away holds the pipe.
func TestAReaderIsLetGo(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close() // it stays open
	o := &output{f: r}
	got := make(chan error, 1)
	go func() { _, err := o.Read(make([]byte, 1)); got <- err }()
	o.end()
	select {
	case err := <-got:
		if err != io.EOF {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it waits on")
	}
}
