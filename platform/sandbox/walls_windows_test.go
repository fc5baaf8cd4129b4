package sandbox

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform/procguard"
)

// The limits of an order are those of its job, each in the job's own unit.
func TestJobLimits(t *testing.T) {
	l := jobLimits(rows[capabilities.ClassT0])
	b := l.BasicLimitInformation
	if b.ActiveProcessLimit != 1 || l.ProcessMemoryLimit != 128<<20 || l.JobMemoryLimit != 128<<20 || b.PerProcessUserTimeLimit != 10_000_000 {
		t.Errorf("%+v", l)
	}
	want := uint32(windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | windows.JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION | windows.JOB_OBJECT_LIMIT_ACTIVE_PROCESS |
		windows.JOB_OBJECT_LIMIT_PROCESS_MEMORY | windows.JOB_OBJECT_LIMIT_JOB_MEMORY | windows.JOB_OBJECT_LIMIT_PROCESS_TIME)
	if b.LimitFlags != want {
		t.Errorf("%#x, want %#x", b.LimitFlags, want)
	}
	if free := jobLimits(Limits{}).BasicLimitInformation.LimitFlags; free != want&^(windows.JOB_OBJECT_LIMIT_ACTIVE_PROCESS|windows.JOB_OBJECT_LIMIT_PROCESS_MEMORY|windows.JOB_OBJECT_LIMIT_JOB_MEMORY|windows.JOB_OBJECT_LIMIT_PROCESS_TIME) {
		t.Errorf("without limits: %#x", free)
	}
}

func TestEnvironmentBlock(t *testing.T) {
	block := environmentBlock([]string{"Path=a", "=C:=x", "broken", "PATH=b", "ä=ü"})
	n := 0
	for ; ; n++ {
		if text := unsafe.Slice(block, n+2); text[n] == 0 && text[n+1] == 0 {
			break
		}
	}
	if got := windows.UTF16ToString(append(unsafe.Slice(block, 6), 0)); got != "PATH=b" {
		t.Errorf("%q", got)
	}
	if n != len("PATH=b")+1+3 {
		t.Errorf("%d letters", n)
	}
	if empty := unsafe.Slice(environmentBlock(nil), 2); empty[0] != 0 || empty[1] != 0 {
		t.Errorf("%v", empty)
	}
}

// A program in a job, with its streams, as a runner starts it; the AppContainer apart.
func TestJob(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		limits Limits
		want   int
	}{
		{"nothing", Limits{Processes: 1}, 0},
		{"memory", Limits{}, trialGot},
		{"start", Limits{}, trialGot},
	} {
		if code, err := runTrial(nil, c.limits, self, trialWord, c.name); err != nil || code != c.want {
			t.Errorf("%s: %d %v, want %d", c.name, code, err, c.want)
		}
	}
	f := trials()
	t.Logf("TRIALS inside: %v; network: %v; door: %v; limits: %v; processes: %v", f.inside, f.network, f.door, f.limits, f.processes)
}

// All that is in a job ends with its last handle.
func TestJobEndsWithItsHandle(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	j, err := newJob(Limits{})
	if err != nil {
		t.Fatal(err)
	}
	its, mine, err := streams()
	if err != nil {
		t.Fatal(err)
	}
	p, err := launch(&order{Path: self, Argv: []string{self, trialWord, "spin"}, Env: system(os.TempDir()), Dir: os.TempDir()}, its[:], nil, j)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range its {
		_ = f.Close()
	}
	began := time.Now()
	j.close()
	if state, err := p.Wait(); err != nil || state.ExitCode() == trialGot || time.Since(began) > trialTime/2 {
		t.Errorf("%v %v", state, err)
	}
	if text, err := io.ReadAll(mine[1]); err != nil || len(text) > 0 {
		t.Errorf("%q %v", text, err)
	}
}

// A relay of its own process carries connections through its inherited pipe to the door.
func TestRelayProcess(t *testing.T) {
	door, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer door.Close()
	go func() {
		for {
			c, err := door.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.WriteString(c, "heard ")
				_, _ = io.CopyN(c, c, 5)
			}()
		}
	}()
	announced := make(chan uint16, 1)
	at, err := startRelay(nil, door.Addr().(*net.TCPAddr).AddrPort(), func(from uint16, _ netip.AddrPort) error { announced <- from; return nil })
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp4", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "words"); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(c); err != nil || string(text) != "heard words" || <-announced == 0 {
		t.Errorf("%q %v", text, err)
	}
}

// A file that grows beyond its limit is seen.
func TestFilesAreMeasured(t *testing.T) {
	dir, err := os.MkdirTemp("", "measured-") // Wine does not remove what is open
	if err != nil {
		t.Fatal(err)
	}
	k := &keeper{beyond: make(chan string, 1)}
	if err := k.measures(dir, 100); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{100, 101} {
		if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if said := k.watch(); !strings.Contains(said, "101 bytes and may have 100") {
		t.Error(said)
	}
}

// A class whose walls do not all stand is refused, with what is missing and the fix; a runner
// refuses, too, when nobody made its program an AppContainer.
func TestRefused(t *testing.T) {
	box := New(procguard.New(procguard.Options{}))
	missing := map[capabilities.IsolationClass]bool{}
	for _, w := range box.Walls(t.Context()) {
		if w.Err != nil && !w.Deeper {
			missing[w.Class] = true
			if w.Fix == "" {
				t.Errorf("%s, %s: no fix", w.Class, w.Wall)
			}
		}
	}
	for _, class := range Classes {
		_, err := box.Start(t.Context(), Program{Argv: []string{os.Args[0]}, Class: class})
		e := capabilities.AsError(err)
		t.Logf("CLASS %s: %v", class, err)
		if missing[class] != (err != nil) || err != nil && (e.Code != capabilities.CodeIsolationUnavailable || e.Hint == "") {
			t.Errorf("%s: %v", class, err)
		}
	}
	child, err := box.runner(t.Context(), capabilities.ClassT1, false)
	if err != nil {
		t.Fatal(err)
	}
	p := newProcess(t.Context(), child, &Program{}, func() {}, func() {})
	if err := p.tell(order{Path: os.Args[0], Argv: os.Args[:1], Dir: child.Scratch(), Class: capabilities.ClassT1, Write: []string{child.Scratch()}}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); capabilities.AsError(err).Code != capabilities.CodeIsolationUnavailable || !strings.Contains(err.Error(), errNotInside.Error()) {
		t.Error(err)
	}
	if _, err := launch(&order{Path: `C:\x.cmd`, Argv: []string{"x"}}, nil, nil, nil); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
