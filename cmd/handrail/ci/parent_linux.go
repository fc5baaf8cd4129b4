package ci

import (
	"os/exec"
	"syscall"
)

// endWithParent has the kernel end the command when this process is killed in a
// way that it cannot pass on. The kernel watches the thread that starts it.
func endWithParent(child *exec.Cmd) {
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
