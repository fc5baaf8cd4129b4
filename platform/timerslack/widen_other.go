//go:build !linux

package timerslack

import "os/exec"

// Widen does nothing here: this system has no such setting.
func Widen() {}

// Start is cmd.Start.
func Start(cmd *exec.Cmd) error { return cmd.Start() }
