package confine

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// self bounds what the kernel here enforces; it ignores RLIMIT_AS.
func self(uint64) error {
	for _, resource := range []int{unix.RLIMIT_CORE, unix.RLIMIT_FSIZE, unix.RLIMIT_NOFILE} {
		if err := unix.Setrlimit(resource, &unix.Rlimit{}); err != nil {
			return fmt.Errorf("limit %d: %w", resource, err)
		}
	}
	return nil
}
