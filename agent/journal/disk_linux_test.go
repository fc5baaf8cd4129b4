package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

func init() {
	children["failed-sync"] = func(dir string) { failedSync(inRun(dir, "one")) }
	children["failed-sync-awaited"] = func(dir string) { failedSync(inRun(dir, "")) }
}

// failedSync makes every fsync and fdatasync of this process fail with EIO, by
// a seccomp filter, so that the kernel itself says no.
func failedSync(o Options) {
	ctx := context.Background()
	j, err := Open(o)
	if err != nil {
		panic(err)
	}
	run := make(chan error, 1)
	go func() { run <- j.Run(ctx) }()
	fmt.Println("before", code(j.Started(ctx, ticket("before"))))
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // seccomp_data.nr
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: unix.SYS_FSYNC},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_FDATASYNC},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x00050000 | uint32(unix.EIO)},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff0000}, // allow
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		fmt.Println("skip", err)
		return
	}
	const setModeFilter, allThreads = 1, 1
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, setModeFilter, allThreads, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		fmt.Println("skip", errno)
		return
	}
	fmt.Println("during", code(j.Started(ctx, ticket("during"))))
	fmt.Println("run", code(<-run))
	fmt.Println("later", code(j.Started(ctx, ticket("later"))))
	fmt.Println("finished", code(j.Finished("before", answer("x"))))
	fmt.Println("known", state(j, "before").State)
	fmt.Println("closed", j.Close())
}

func code(err error) string { return string(capabilities.CodeOf(err)) + "." }

// A failed sync ends all recording, within a second where calls do not wait for it; and what the
// disk may not have is lost for the next process, though the system goes on.
func TestFailedSyncPoisons(t *testing.T) {
	for name, want := range map[string]struct {
		run, during string // what the call that could not be put on disk was told
	}{
		"failed-sync": {"one", ""}, "failed-sync-awaited": {"", "ledger_unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cmd := child(name, dir)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if strings.Contains(string(out), "skip") {
				t.Skipf("this machine allows no seccomp filter to make a sync fail: %s", out)
			}
			said := "before .\nduring " + want.during + ".\nrun ledger_unavailable.\nlater ledger_unavailable.\n" +
				"finished ledger_unavailable.\nknown finished\nclosed <nil>\n"
			if string(out) != said {
				t.Errorf("saw\n%swant\n%s", out, said)
			}
			j := openWith(t, inRun(dir, want.run))
			wantState(t, j, "before", wire.StateUnknown)
			wantState(t, j, "during", wire.StateUnknown)
			wantState(t, j, "later", wire.StateUnknown) // the kernel may have forgotten what it could not write
			if got := stateOver(j, "later", j.Recall()); got != wire.StateNeverStarted {
				t.Errorf("a ticket of this process's connections is %q", got)
			}
		})
	}
}

func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a disk to fill up needs root with the right to mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	j := openWith(t, options(filepath.Join(dir, "journal")))
	hog := filepath.Join(dir, "hog")
	f, err := os.Create(hog)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	var running []string
	for i := 0; ; i++ {
		id := fmt.Sprint("call-", i)
		if err := j.Started(t.Context(), ticket(id)); err != nil {
			if capabilities.CodeOf(err) != capabilities.CodeLedgerUnavailable {
				t.Fatal(err)
			}
			break
		}
		running = append(running, id)
	}
	// Running calls may end, though nothing may start.
	ends := running[len(running)-100:]
	for _, id := range ends {
		finish(t, j, id)
	}
	if err := os.Remove(hog); err != nil {
		t.Fatal(err)
	}
	start(t, j, "again")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = openWith(t, j.opts)
	for _, id := range ends {
		wantState(t, j, id, wire.StateFinished)
	}
	wantState(t, j, "again", wire.StateUnknown)
}
