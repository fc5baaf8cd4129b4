//go:build unix

package firstrun

import (
	"os/exec"
	"syscall"
)

// apart has a program live on when this one's terminal ends this one.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
