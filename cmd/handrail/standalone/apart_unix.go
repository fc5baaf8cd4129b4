//go:build !windows

package standalone

import (
	"os/exec"
	"syscall"
)

// apart has a command run in a session of its own: what ends the conversation that starts it, a key
// or a signal to its group, ends no other.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
