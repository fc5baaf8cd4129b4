package confine

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// overhead is what the Go runtime reserves beyond the live heap: arenas come in
// blocks of 64 MiB, and the collector needs room to work.
const overhead = 512 << 20

func self(memory uint64) error {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return err
	}
	first, _, _ := bytes.Cut(statm, []byte(" "))
	pages, err := strconv.ParseUint(string(first), 10, 64)
	if err != nil {
		return fmt.Errorf("/proc/self/statm: %w", err)
	}
	// The address space is bounded relative to what is mapped: a Go program reserves
	// much more than it uses.
	bound := pages*uint64(os.Getpagesize()) + memory + overhead
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("not dumpable: %w", err)
	}
	if err := limit([]bounded{{unix.RLIMIT_AS, bound}, {unix.RLIMIT_CORE, 0}, {unix.RLIMIT_FSIZE, 0}, {unix.RLIMIT_NOFILE, 0}}); err != nil {
		return err
	}
	return filterCalls()
}

type bounded struct {
	resource int
	max      uint64
}

func limit(all []bounded) error {
	for _, b := range all {
		if err := unix.Setrlimit(b.resource, &unix.Rlimit{Cur: b.max, Max: b.max}); err != nil {
			return fmt.Errorf("limit %d: %w", b.resource, err)
		}
	}
	return nil
}
