package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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

// fillUp leaves no byte of the disk that has dir; the file it makes gives them back.
func fillUp(t *testing.T, dir string) (hog string) {
	t.Helper()
	hog = filepath.Join(dir, "hog")
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
	return hog
}

// A store opens on a disk without a free byte, again and again, whoever takes what a
// close leaves: it reads, and writes what may use the reserve.
func TestOpensOnAFullDisk(t *testing.T) {
	dir := smallDisk(t, "16m")
	path, o := filepath.Join(dir, "store.db"), Options{ReserveBytes: 6 << 20} // more than a log
	s := openAt(t, path, o)
	if err := s.Write(t.Context(), row("first", 100)); err != nil {
		t.Fatal(err)
	}
	hog := ""
	for i := range 3 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		hog = fillUp(t, dir)
		s = openAt(t, path, o)
		if !s.Full() {
			t.Error("the store does not know that its disk is full")
		}
		if err := s.Write(t.Context(), row("refused", 1)); capabilities.CodeOf(err) != capabilities.CodeLedgerUnavailable {
			t.Errorf("ordinary: %v", err)
		}
		if err := s.Tidy(t.Context(), row("put off", 1)); err != nil {
			t.Errorf("what can be put off: %v", err)
		}
		if err := s.WriteTerminal(t.Context(), row(fmt.Sprint("terminal-", i), 400)); err != nil {
			t.Errorf("terminal %d: %v", i, err)
		}
	}
	if err := os.Remove(hog); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	for end := time.Now().Add(time.Minute); s.Full() && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
	}
	stop()
	if err := errors.Join(<-ended, s.Write(t.Context(), row("after", 1))); err != nil {
		t.Fatal(err)
	}
	all := names(t, s)
	for _, want := range []string{"first", "terminal-0", "terminal-1", "terminal-2", "after"} {
		if !all[want] {
			t.Errorf("%s is missing", want)
		}
	}
	if all["refused"] || all["put off"] {
		t.Errorf("rows %v", all)
	}
}

func TestDiskFull(t *testing.T) {
	dir := smallDisk(t, "4m")
	s := openAt(t, filepath.Join(dir, "store.db"), Options{ReserveBytes: 1 << 20})
	if err := s.Write(t.Context(), row("first", 100)); err != nil {
		t.Fatal(err)
	}
	hog := fillUp(t, dir)
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
