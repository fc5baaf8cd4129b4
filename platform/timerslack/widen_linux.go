package timerslack

import (
	"cmp"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Wide is how late timers may fire after Widen.
const Wide = time.Millisecond

// usual is the kernel's own default (prctl(2), PR_SET_TIMERSLACK).
const usual = 50 * time.Microsecond

// env tells the second start what slack the first one had, in nanoseconds; set from
// outside it keeps the process as it is.
const env = "HANDRAIL_TIMER_SLACK"

// given is what this process had before Widen; 0: not known.
var given time.Duration

// Widen gives every thread of this process the slack Wide. A thread gets that of
// the one that makes it, and the runtime makes its monitor before any code of ours
// runs; so the program is executed again in the same process, and Widen returns in
// the second start. It returns in the first one only if nothing is to be done or the
// system does not let it: nothing depends on it, so there is no error.
func Widen() {
	if v, second := os.LookupEnv(env); second {
		os.Unsetenv(env)
		if ns, err := strconv.ParseInt(v, 10, 64); err == nil && ns > 0 {
			given = time.Duration(ns)
		}
		return
	}
	self, err := os.Executable()
	if err != nil {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	now, err := get()
	if err != nil || now <= 0 || now >= Wide || set(Wide) != nil {
		return
	}
	_ = syscall.Exec(self, os.Args, append(os.Environ(), env+"="+strconv.FormatInt(int64(now), 10)))
	_ = set(now)
}

// Start starts the command with the slack that this process was given, for a child
// has that of the thread that starts it. It fails as cmd.Start does.
func Start(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if now, err := get(); err == nil && now == Wide && set(cmp.Or(given, usual)) == nil {
		defer func() { _ = set(Wide) }()
	}
	return cmd.Start()
}

// get and set speak of the calling thread.
func get() (time.Duration, error) {
	ns, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	return time.Duration(ns), err
}

func set(d time.Duration) error {
	return unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(d), 0, 0, 0)
}
