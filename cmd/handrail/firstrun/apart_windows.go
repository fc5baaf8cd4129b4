package firstrun

import (
	"os/exec"
	"syscall"
)

// apart has a program live on when this one's terminal ends this one.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
