//go:build unix

package folder

import "syscall"

// nonblock keeps the opening of a pipe, put there a moment ago, from waiting.
const nonblock = syscall.O_NONBLOCK
