package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/test/site"
)

func init() {
	onSignal = func() {
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGUSR1)
		go func() {
			<-c
			if err := breakSync(); err != nil {
				fmt.Fprintln(os.Stderr, "seccomp:", err)
			}
		}()
	}
}

// breakSync makes every fsync and fdatasync of this process fail with EIO from now
// on: the kernel itself says no.
func breakSync() error {
	const (
		load     = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		jeq      = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ret      = unix.BPF_RET | unix.BPF_K
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

// limitFiles ends the disk for a process: no file of it grows past that size.
func limitFiles(t *testing.T, c *child, size uint64) {
	t.Helper()
	limit := unix.Rlimit{Cur: size, Max: unix.RLIM_INFINITY}
	must(t, unix.Prlimit(c.cmd.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil))
}

// atWork is a gateway with a call that runs while its disk fails.
func atWork(t *testing.T, dir string) (*station, *site.Handler, <-chan capabilities.Result) {
	t.Helper()
	s, handler := startStation(t, dir), site.NewHandler()
	node, id := s.join()
	run(t, node, s.o.QUIC, handler)
	s.awaitNode(id)
	want(t, s.result(site.ToolEcho, "before", ""), capabilities.StatusOK, "")
	running := make(chan capabilities.Result, 1)
	go func() { // its deadline is far off: a disk takes long to fill on a busy machine
		r, err := s.call(ctx(), site.ToolSlow, `{"text":"slow","timeout_ms":300000}`, "slow")
		if err != nil {
			t.Errorf("slow: %v", err)
		}
		running <- r
	}()
	started(t, handler, "slow")
	return s, handler, running
}

// result makes a call that the gateway must answer.
func (s *station) result(tool capabilities.ToolID, name, id string) capabilities.Result {
	r, err := s.call(ctx(), tool, text(name), id)
	if err != nil {
		s.t.Errorf("%s: %v", name, err)
	}
	return r
}

// nothingExecutes wants every new call refused because it cannot be recorded.
func (s *station) nothingExecutes(handler *site.Handler) {
	s.t.Helper()
	for i := range 10 {
		name := fmt.Sprint("refused-", i)
		if r := s.result(site.ToolEcho, name, name); r.Code != capabilities.CodeLedgerUnavailable || r.Status != capabilities.StatusError {
			s.t.Errorf("%+v", r)
		}
		if handler.Runs(name) != 0 {
			s.t.Errorf("grave: %s ran and is not recorded", name)
		}
	}
}

// readOnly wants the gateway to say that its disk is full.
func (s *station) readOnly() {
	s.t.Helper()
	var now struct {
		ReadOnly bool `json:"read_only"`
	}
	if s.admin.ok(http.MethodGet, "/v1/status", "", &now); !now.ReadOnly {
		s.t.Error("the gateway does not say that its disk is full")
	}
}

// useUp makes calls until one is refused: room inside the files that SQLite has already
// may last for a few.
func (s *station) useUp(handler *site.Handler) {
	s.t.Helper()
	for i := 0; ; i++ {
		name := fmt.Sprint("filling-", i)
		before := handler.Runs(name)
		r := s.result(site.ToolEcho, name, "")
		if r.Code == capabilities.CodeLedgerUnavailable {
			if handler.Runs(name) != before {
				s.t.Errorf("grave: %s ran and is not recorded", name)
			}
			return
		}
		if want(s.t, r, capabilities.StatusOK, ""); i > 20000 {
			s.t.Fatal("the disk never filled up")
		}
	}
}

// awaitService waits until calls are taken again.
func (s *station) awaitService() {
	s.t.Helper()
	for i := 0; ; i++ {
		r := s.result(site.ToolEcho, fmt.Sprint("again-", i), "")
		if r.Status == capabilities.StatusOK {
			return
		}
		if r.Code != capabilities.CodeLedgerUnavailable || i > 1000 {
			s.t.Fatalf("%+v", r)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// The ledger cannot grow any more. A running call goes on and its caller is told; a new one does
// not run; and when there is room again nothing is missing.
func TestLedgerCanNotBeWritten(t *testing.T) {
	t.Parallel()
	s, handler, running := atWork(t, t.TempDir())
	limitFiles(t, s.child, 4096)
	s.nothingExecutes(handler)
	if r := s.result("tool.fixture.nothing", "x", ""); r.Code != capabilities.CodeUnknownTool {
		t.Errorf("a refusal that needs no record: %+v", r)
	}
	handler.Finish("slow")
	done := await(t, "the call that ran", running)
	want(t, done, capabilities.StatusOK, "")
	// A retry is not carried out again; memory has what became of it.
	if r := s.result(site.ToolSlow, "slow", "slow"); r.Status != capabilities.StatusOK || r.Call != done.Call || !r.Deduplicated {
		t.Errorf("%+v", r)
	}
	limitFiles(t, s.child, unix.RLIM_INFINITY)
	s.awaitService()
	end := s.check()[done.Call]
	if end == nil || !end.has("result") {
		t.Fatalf("the call that ran has no end: %+v", end)
	}
	again := s.result(site.ToolSlow, "slow", "slow")
	if again.Status != capabilities.StatusOK || again.Call != done.Call || handler.Runs("slow") != 1 {
		t.Errorf("grave: %+v, ran %d times", again, handler.Runs("slow"))
	}
	// A call that was refused unheard may be asked again, and then runs once.
	want(t, s.result(site.ToolEcho, "refused-1", "refused-1"), capabilities.StatusOK, "")
	if handler.Runs("refused-1") != 1 || handler.Runs("x") != 0 {
		t.Errorf("grave: ran %d times", handler.Runs("refused-1"))
	}
}

// smallDisk mounts a file system of its own.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=24m"); err != nil {
		t.Skipf("a disk to fill up needs the right to mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
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
	must(t, err)
	for _, block := range []int{64 << 10, 4 << 10, 1} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, block))
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
	}
	must(t, f.Close())
	return hog
}

// A gateway that starts on a full disk carries nothing out, and says so; stop, answers
// and what takes rights away work, and outlive the next start.
func TestAStartOnAFullDisk(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t)
	s, handler := startStationWith(t, childOptions{Dir: dir, Wait: 100 * time.Millisecond}), site.NewHandler()
	node, id := s.join()
	run(t, node, s.o.QUIC, handler)
	s.awaitNode(id)
	want(t, s.result(site.ToolEcho, "before", ""), capabilities.StatusOK, "")
	if r := s.result(site.ToolPress, "asked", ""); r.Code != capabilities.CodeApprovalPending {
		t.Fatalf("%+v", r)
	}
	var open struct {
		Approvals []struct {
			ID string `json:"approval"`
		} `json:"approvals"`
	}
	s.admin.ok(http.MethodGet, "/v1/approvals", "", &open)
	if len(open.Approvals) != 1 {
		t.Fatalf("%+v", open)
	}
	hog := fillUp(t, dir)
	s.useUp(handler)
	s.readOnly()
	s.admin.ok(http.MethodPost, "/v1/approvals/"+open.Approvals[0].ID, `{"answer":"allow","acknowledged":true}`, nil)

	start := func() {
		s.kill()
		fillUp(t, dir) // whatever the end left
		s.restart()
		s.readOnly()
	}
	start()
	s.awaitNode(id)
	s.nothingExecutes(handler)
	s.admin.ok(http.MethodGet, "/v1/approvals", "", nil)
	s.admin.ok(http.MethodPost, "/v1/stop", `{"reason":"full"}`, nil)
	var stop struct {
		Stopped bool `json:"stopped"`
	}
	start()
	if s.admin.ok(http.MethodGet, "/v1/stop", "", &stop); !stop.Stopped {
		t.Error("a stop was forgotten")
	}
	must(t, os.Remove(hog))
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if status, _ := s.admin.do(http.MethodPost, "/v1/resume", "{}"); status == http.StatusOK {
			break
		} else if time.Now().After(end) {
			t.Fatal("no resume with room again")
		}
	}
	s.awaitNode(id)
	s.awaitService()
	s.read() // the chain is whole
}

// The disk is full. The end of what runs is recorded all the same, in the room
// that is kept for it.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t)
	s, handler, running := atWork(t, dir)
	hog := fillUp(t, dir)
	s.useUp(handler)
	s.nothingExecutes(handler)
	handler.Finish("slow")
	done := await(t, "the call that ran", running)
	want(t, done, capabilities.StatusOK, "")
	if end := s.read()[done.Call]; end == nil || !end.has("result") {
		t.Errorf("its end is not recorded: %+v", end)
	}
	// Packets may use the reserve, results may not: memory has what it gave, until there
	// is room.
	for _, when := range []string{"full", "with room again"} {
		if again := s.result(site.ToolSlow, "slow", "slow"); again.Status != capabilities.StatusOK && when == "full" || again.Call != done.Call || handler.Runs("slow") != 1 {
			t.Errorf("grave: %s: %+v, ran %d times", when, again, handler.Runs("slow"))
		}
		if when == "full" {
			must(t, os.Remove(hog))
			s.awaitService()
		}
	}
	s.check()
}

// seccompLines are those of a process's status that change with a filter.
var seccompLines = regexp.MustCompile(`(?m)^Seccomp:.*(\nSeccomp_filters:.*)?$`)

// A sync fails: nobody can know any more what the disk holds. Nothing new runs and
// the gateway ends, saying so; the next one finds out what became of the call.
func TestFailedSync(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, handler, running := atWork(t, dir)
	// The kernel says when the filter is there: one that came in the middle of a call
	// would fail the sync of its end, not that of its intent.
	filters := func() []byte {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid)) // gone: it synced and ended
		return seccompLines.Find(status)
	}
	before := filters()
	must(t, s.cmd.Process.Signal(syscall.SIGUSR1))
	for end := time.Now().Add(30 * time.Second); bytes.Equal(filters(), before); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Skip("this machine allows no seccomp filter to make a sync fail")
		}
	}
	const refused = "late"
	if r, err := s.call(ctx(), site.ToolEcho, text(refused), refused); err == nil && r.Status == capabilities.StatusOK {
		t.Errorf("%+v, though nothing can be synced", r)
	}
	if said := s.died(); strings.Contains(said, "seccomp") {
		t.Skip(said)
	} else if !strings.Contains(said, "ledger_unavailable") {
		t.Errorf("it ended with %s", said)
	}
	<-drain(running)
	if handler.Runs(refused) != 0 {
		t.Errorf("grave: %s ran and is not recorded", refused)
	}
	handler.Finish("slow")
	s.restart()
	r := s.retry(site.ToolSlow, "slow", "slow")
	if want(t, r, capabilities.StatusOK, ""); handler.Runs("slow") != 1 {
		t.Errorf("grave: ran %d times", handler.Runs("slow"))
	}
	s.check()
}

// drain takes a result that may as well be an error by now.
func drain(c <-chan capabilities.Result) <-chan struct{} {
	done := make(chan struct{})
	go func() { <-c; close(done) }()
	return done
}

// retry repeats a call until the gateway answers.
func (s *station) retry(tool capabilities.ToolID, name, id string) capabilities.Result {
	s.t.Helper()
	for deadline := time.Now().Add(2 * site.Within); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if r, err := s.call(ctx(), tool, text(name), id); err == nil {
			return r
		}
	}
	s.t.Fatalf("%s: no answer any more", name)
	return capabilities.Result{}
}
