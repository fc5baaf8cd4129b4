//go:build !windows

package main

import (
	"os"
	"syscall"
)

// follows says that a node may have another program take its place here.
const follows = true

// become runs the program in the place of this one, with the same words and the same process.
func become(program string) error {
	return syscall.Exec(program, append([]string{program}, os.Args[1:]...), os.Environ())
}
