//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"

	"github.com/handrail-dev/handrail/platform"
)

// runAs makes cmd run under that account, with a folder it owns.
func runAs(cmd *exec.Cmd, user *platform.User, dir string) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if user == nil {
		return nil
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: user.UID, Gid: user.GID, NoSetGroups: true}
	return os.Chown(dir, int(user.UID), int(user.GID))
}

// killGroup ends cmd with everything below it.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// endProfile makes a process of ours write its CPU profile.
func endProfile(p *os.Process) { _ = p.Signal(syscall.SIGUSR1) }
