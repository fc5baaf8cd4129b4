package standalone

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// apart has a command run without the console of the conversation that starts it.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.DETACHED_PROCESS}
}
