package main

import (
	"errors"
	"os"
	"os/exec"

	"github.com/handrail-dev/handrail/platform"
)

// Chrome's pipe needs inherited descriptors 3 and 4, which os/exec passes on Unix only; the floor
// is measured there.
func runAs(*exec.Cmd, *platform.User, string) error {
	return errors.New("the floor is measured on Unix only")
}

func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

func endProfile(*os.Process) {} // there is no such signal
