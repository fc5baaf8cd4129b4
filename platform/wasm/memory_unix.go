//go:build unix

package wasm

import "golang.org/x/sys/unix"

// reserve takes the memory of a run from the system.
func reserve() (*memory, error) {
	region, err := unix.Mmap(-1, 0, memoryPages*pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, errNoMemory
	}
	return &memory{region: region}, nil
}

// commit does nothing: the system lends a page when it is written to.
func (m *memory) commit(uint64) error { return nil }

// release hands the memory back to the system. Nothing may look at it any more.
func (m *memory) release() { _ = unix.Munmap(m.region) }
