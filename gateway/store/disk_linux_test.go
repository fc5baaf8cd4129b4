package store

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
)

func init() {
	children["failed-sync"] = failedSync
	children["size-limit"] = sizeLimit
}

func childStore(dir string) *Store {
	s, err := Open(context.Background(), Options{Path: filepath.Join(dir, "store.db"), Migrations: testTables, ReserveBytes: 1 << 20})
	if err != nil {
		panic(err)
	}
	return s
}

func row(name string, size int) func(tx *Tx) error {
	return func(tx *Tx) error {
		_, err := tx.Exec("INSERT INTO item (name, data) VALUES ($1, $2)", name, make([]byte, size))
		return err
	}
}

func code(err error) string { return string(capabilities.CodeOf(err)) }

// breakSync makes every fsync and fdatasync of this process fail with EIO from
// now on: a seccomp filter, so that the kernel itself says no.
func breakSync() error {
	const (
		load = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		jeq  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ret  = unix.BPF_RET | unix.BPF_K

		retErrno = 0x00050000
		retAllow = 0x7fff0000
	)
	program := []unix.SockFilter{
		{Code: load, K: 0}, // seccomp_data.nr
		{Code: jeq, Jt: 1, K: unix.SYS_FSYNC},
		{Code: jeq, Jf: 1, K: unix.SYS_FDATASYNC},
		{Code: ret, K: retErrno | uint32(unix.EIO)},
		{Code: ret, K: retAllow},
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	const setModeFilter, allThreads = 1, 1
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, setModeFilter, allThreads, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		return errno
	}
	return nil
}

func failedSync(dir string) map[string]string {
	ctx := context.Background()
	s := childStore(dir)
	saw := map[string]string{"before": code(s.Write(ctx, row("before", 1)))}
	run := make(chan error, 1)
	go func() { run <- s.Run(ctx) }()
	if err := breakSync(); err != nil {
		return map[string]string{"skip": err.Error()}
	}
	err := s.Write(ctx, row("during", 1))
	saw["during"] = code(err)
	saw["later"] = code(s.Write(ctx, row("later", 1)))
	saw["terminal"] = code(s.WriteTerminal(ctx, row("terminal", 1)))
	saw["run"] = code(<-run)
	saw["same"] = fmt.Sprint(errors.Is(err, s.poison.Load()))
	return saw
}

func TestFailedSyncPoisons(t *testing.T) {
	dir := t.TempDir()
	saw := runChild(t, "failed-sync", dir)
	if why := saw["skip"]; why != "" {
		t.Skipf("this machine allows no seccomp filter to make a sync fail: %s", why)
	}
	want := map[string]string{
		"before": "", "during": "ledger_unavailable", "later": "ledger_unavailable",
		"terminal": "ledger_unavailable", "run": "ledger_unavailable", "same": "true",
	}
	for k, v := range want {
		if saw[k] != v {
			t.Errorf("%s: %q, want %q", k, saw[k], v)
		}
	}
	// The next process reads what the disk holds: surely the first row, surely
	// nothing that was refused unheard.
	all := names(t, openAt(t, filepath.Join(dir, "store.db"), Options{ReserveBytes: -1}))
	if !all["before"] || all["later"] || all["terminal"] {
		t.Errorf("rows %v", all)
	}
}

// sizeLimit is a disk that ends for one file: SQLite reports a failed write.
func sizeLimit(dir string) map[string]string {
	ctx := context.Background()
	s := childStore(dir)
	saw := map[string]string{"before": code(s.Write(ctx, row("before", 1)))}
	limit := unix.Rlimit{Cur: 2 << 20, Max: unix.RLIM_INFINITY}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		panic(err)
	}
	saw["too large"] = code(s.Write(ctx, row("large", 8<<20)))
	saw["small"] = code(s.Write(ctx, row("small", 10)))
	limit.Cur = unix.RLIM_INFINITY
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		panic(err)
	}
	saw["after"] = code(s.Write(ctx, row("after", 8<<20)))
	if err := s.Close(); err != nil {
		panic(err)
	}
	return saw
}

func TestSizeLimit(t *testing.T) {
	dir := t.TempDir()
	saw := runChild(t, "size-limit", dir)
	for k, v := range map[string]string{"before": "", "too large": "ledger_unavailable", "small": "", "after": ""} {
		if saw[k] != v {
			t.Errorf("%s: %q, want %q", k, saw[k], v)
		}
	}
	all := names(t, openAt(t, filepath.Join(dir, "store.db"), Options{ReserveBytes: -1}))
	if !all["before"] || !all["small"] || !all["after"] || all["large"] {
		t.Errorf("rows %v", all)
	}
}

// smallDisk mounts a file system of its own.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("a disk to fill up needs root with the right to mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestDiskFull(t *testing.T) {
	dir := smallDisk(t, "4m")
	s := openAt(t, filepath.Join(dir, "store.db"), Options{ReserveBytes: 1 << 20})
	if err := s.Write(t.Context(), row("first", 100)); err != nil {
		t.Fatal(err)
	}
	hog := filepath.Join(dir, "hog")
	fill := func() {
		t.Helper()
		f, err := os.OpenFile(hog, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, block := range []int{64 << 10, 4 << 10, 1} {
			for err == nil {
				_, err = f.Write(make([]byte, block))
			}
			if !errors.Is(err, unix.ENOSPC) {
				t.Fatal(err)
			}
			err = nil
		}
	}
	fill()
	// Ordinary writes fail, coded, and take nobody's room.
	var accepted int
	for i := 0; ; i++ {
		err := s.Write(t.Context(), row(fmt.Sprint("ordinary-", i), 4000))
		if err != nil {
			if capabilities.CodeOf(err) != capabilities.CodeLedgerUnavailable {
				t.Fatalf("err = %v", err)
			}
			break
		}
		accepted++
	}
	if _, err := os.Stat(s.reserve.path); err != nil {
		t.Errorf("an ordinary write took the reserve: %v", err)
	}
	// The ends of calls that run are still recorded, and in groups with others
	// that fail.
	release := hold(t, s)
	ordinary, terminal := make(chan error, 1), make(chan error, 1)
	go func() { ordinary <- s.Write(t.Context(), row("refused", 4000)) }()
	queued(s, 1)
	go func() { terminal <- s.WriteTerminal(t.Context(), row("terminal-0", 4000)) }()
	queued(s, 2)
	release()
	if err := <-ordinary; capabilities.CodeOf(err) != capabilities.CodeLedgerUnavailable {
		t.Errorf("ordinary: %v", err)
	}
	if err := <-terminal; err != nil {
		t.Fatalf("terminal: %v", err)
	}
	for i := 1; i < 40; i++ {
		if err := s.WriteTerminal(t.Context(), func(tx *Tx) error {
			if !tx.Reserved() {
				t.Error("the transaction does not know that it lives on the reserve")
			}
			return row(fmt.Sprint("terminal-", i), 400)(tx)
		}); err != nil {
			t.Fatalf("terminal %d: %v", i, err)
		}
		if err := s.Write(t.Context(), row("refused", 1)); capabilities.CodeOf(err) != capabilities.CodeLedgerUnavailable {
			t.Fatalf("an ordinary write took from the reserve: %v", err)
		}
	}
	// With room again the reserve comes back, and so do ordinary writes.
	if err := os.Remove(hog); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.reserve.tried = s.reserve.tried.Add(-retryReserve) // as if the second had passed
	s.mu.Unlock()
	if err := s.Write(t.Context(), row("again", 4000)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(s.reserve.path); err != nil || info.Size() != 1<<20 {
		t.Errorf("the reserve did not come back: %v", err)
	}
	all := names(t, s)
	var got int
	for name := range all {
		if strings.HasPrefix(name, "ordinary-") {
			got++
		}
	}
	if got != accepted || all["refused"] || !all["first"] || !all["again"] || !all["terminal-0"] || !all["terminal-39"] {
		t.Errorf("%d of %d ordinary rows; %v", got, accepted, all)
	}
}
