package site

import (
	"syscall"
	"time"
)

// ProcessorTime is what this process has taken of processors since it began; 0 where the system
// does not tell.
func ProcessorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
