package ci

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

// Exit codes of a command that could not be started, as shells have them.
const (
	exitNotExecutable = 126
	exitNotThere      = 127
	exitSignalled     = 128 // and the signal's number
)

// ExitError is how a command ended that did not end well.
type ExitError struct {
	Code    int // for this process to end with
	Started bool
	err     error
}

// Error says how the command ended, or why it did not start.
func (e *ExitError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *ExitError) Unwrap() error { return e.err }

// Signals has the signals that end a process delivered to a channel: from here on a signal is
// the command's, and this process ends when the command does. stop ends that.
func Signals() (signals <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 8)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}

// Run runs the command to its end and passes signals on to it. terminal says that this process
// and the command share a terminal. The error is an ExitError, unless the command ended with 0.
func Run(child *exec.Cmd, signals <-chan os.Signal, terminal bool) error {
	runtime.LockOSThread() // endWithParent is about this thread
	defer runtime.UnlockOSThread()
	endWithParent(child)
	if err := child.Start(); err != nil {
		code := exitNotExecutable
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			code = exitNotThere
		}
		return &ExitError{Code: code, err: fmt.Errorf("the command does not start: %w", err)}
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	for {
		select {
		case s := <-signals:
			// At a terminal ctrl-C has reached the command already.
			if s != os.Interrupt || !terminal {
				_ = child.Process.Signal(s)
			}
		case err := <-ended:
			state := child.ProcessState
			if state == nil {
				return err
			}
			code := state.ExitCode()
			if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
				code = exitSignalled + int(status.Signal())
			}
			if code == 0 {
				return nil
			}
			return &ExitError{Code: code, Started: true, err: fmt.Errorf("the command ended with %d", code)}
		}
	}
}
