package procguard

import (
	"bufio"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/timerslack"
)

// A child's timers are not late because ours may be.
func TestChildHasUsualTimers(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err == nil {
		err = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerslack.Wide), 0, 0, 0)
	}
	if err != nil {
		t.Skipf("the system does not let the slack be changed: %v", err)
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(before), 0, 0, 0) }()
	p, err := New(Options{}).Start(t.Context(), platform.Command{
		Path: "/bin/sh", Name: "test", ScratchBase: t.TempDir(),
		Build: func(string) ([]string, []string) {
			return []string{"-c", "cat /proc/self/timerslack_ns >&4; cat <&3", platform.PipeHandles}, []string{"PATH=/usr/bin:/bin"}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	line, err := bufio.NewReader(p.Out()).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if ns, err := strconv.Atoi(strings.TrimSpace(line)); err != nil || time.Duration(ns) >= timerslack.Wide {
		t.Errorf("the child has %q ns", line)
	}
}
