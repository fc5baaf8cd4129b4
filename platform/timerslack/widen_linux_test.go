package timerslack

import (
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// role makes the test's program another one: "wide" widens and tells what it is then
// and what a child of its is, "child" tells only what it was given.
const role = "TIMERSLACK_TEST_ROLE"

type told struct {
	PID     int             `json:"pid"`
	Args    []string        `json:"args"`
	Threads []time.Duration `json:"threads"`
	Env     bool            `json:"env"` // ours is still set
	Child   *told           `json:"child,omitempty"`
}

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "wide":
		Widen()
		me := tell()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), role+"=child")
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = Start(cmd)
		}
		if err == nil {
			err = json.NewDecoder(out).Decode(&me.Child)
		}
		if err != nil {
			panic(err)
		}
		_ = cmd.Wait()
		me.Threads = append(me.Threads, tell().Threads...) // Start has put it back
		_ = json.NewEncoder(os.Stdout).Encode(me)
	case "child":
		_ = json.NewEncoder(os.Stdout).Encode(tell())
	default:
		os.Exit(m.Run())
	}
}

// tell asks several threads at once.
func tell() told {
	t := told{PID: os.Getpid(), Args: os.Args[1:], Threads: make([]time.Duration, 4)}
	_, t.Env = os.LookupEnv(env)
	var all, here sync.WaitGroup
	here.Add(len(t.Threads))
	for i := range t.Threads {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			here.Done()
			here.Wait() // each goroutine holds a thread of its own
			t.Threads[i], _ = get()
		})
	}
	all.Wait()
	return t
}

func ask(t *testing.T, given time.Duration, extra ...string) (told, int) {
	t.Helper()
	runtime.LockOSThread() // the child begins with this thread's slack
	defer runtime.UnlockOSThread()
	before, err := get()
	if err != nil {
		t.Skipf("the system tells no slack: %v", err)
	}
	if err := set(given); err != nil {
		t.Skipf("the system does not let the slack be changed: %v", err)
	}
	defer func() { _ = set(before) }()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "some", "words")
	cmd.Env = append(append(os.Environ(), role+"=wide"), extra...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said told
	if err := json.NewDecoder(out).Decode(&said); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return said, cmd.Process.Pid
}

func all(threads []time.Duration, want time.Duration) bool {
	return !slices.ContainsFunc(threads, func(d time.Duration) bool { return d != want })
}

// Every thread is wide, in the same process with the same arguments, and a child
// is not.
func TestWiden(t *testing.T) {
	for _, given := range []time.Duration{usual, 70 * time.Microsecond} {
		said, pid := ask(t, given)
		if !all(said.Threads, Wide) {
			t.Errorf("given %v: threads have %v, want %v", given, said.Threads, Wide)
		}
		if said.PID != pid || !slices.Equal(said.Args, []string{"some", "words"}) {
			t.Errorf("given %v: process %d with %q, want %d with [some words]", given, said.PID, said.Args, pid)
		}
		if said.Env || said.Child.Env {
			t.Errorf("given %v: %s is left to others", given, env)
		}
		if !all(said.Child.Threads, given) {
			t.Errorf("given %v: a child has %v", given, said.Child.Threads)
		}
	}
}

// Who sets the slack, or the variable, is obeyed.
func TestWidenLeavesAlone(t *testing.T) {
	for _, c := range []struct {
		name  string
		given time.Duration
		extra []string
	}{
		{"a wider one", 5 * time.Millisecond, nil},
		{"forbidden", usual, []string{env + "=0"}},
	} {
		said, _ := ask(t, c.given, c.extra...)
		if !all(said.Threads, c.given) || !all(said.Child.Threads, c.given) {
			t.Errorf("%s: threads have %v, a child's %v, want %v", c.name, said.Threads, said.Child.Threads, c.given)
		}
	}
}

// A start that fails leaves the thread as it was.
func TestStartFails(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := get()
	if err != nil || set(Wide) != nil {
		t.Skip("the system does not let the slack be changed")
	}
	defer func() { _ = set(before) }()
	if err := Start(exec.Command("/does/not/exist")); err == nil {
		t.Fatal("a program that is not there was started")
	}
	if now, _ := get(); now != Wide {
		t.Errorf("the thread has %v", now)
	}
}
