//go:build !windows

package sandbox

import (
	"os"
	"syscall"
)

// pipes returns the two ends that a runner was started with, which no program of its gets.
func pipes([]string) (orders, reports *os.File, err error) {
	for _, fd := range []int{3, 4} {
		syscall.CloseOnExec(fd)
	}
	return os.NewFile(3, "orders"), os.NewFile(4, "reports"), nil
}

// begin starts an order's program.
func begin(o *order, files []*os.File, attributes *syscall.SysProcAttr) (*os.Process, error) {
	return os.StartProcess(o.Path, o.Argv, &os.ProcAttr{Dir: o.Dir, Env: o.Env, Files: files, Sys: attributes})
}

// system are variables that programs of this system need.
func system(string) []string { return nil }

// around makes what this process itself puts around a program of an order.
func (host) around(*order) (over func(), err error) { return func() {}, nil }

// other does not return where this process is of another kind than a runner; this system has none.
func other(string, []string) {}
