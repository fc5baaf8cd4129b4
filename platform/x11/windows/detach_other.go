//go:build !unix

package windows

import "os/exec"

func detach(*exec.Cmd) {}
