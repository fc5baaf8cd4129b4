package wasm

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// reserve takes the addresses of a run's memory from the system.
func reserve() (*memory, error) {
	at, err := windows.VirtualAlloc(0, memoryPages*pageSize, windows.MEM_RESERVE, windows.PAGE_READWRITE)
	if err != nil {
		return nil, errNoMemory
	}
	// The collector knows nothing of this region, so a number may become its address.
	return &memory{region: unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&at))), memoryPages*pageSize)}, nil
}

// commit has the system lend the first size bytes. Pages that it has lent stay.
func (m *memory) commit(size uint64) error {
	if size == 0 {
		return nil
	}
	_, err := windows.VirtualAlloc(m.address(), uintptr(size), windows.MEM_COMMIT, windows.PAGE_READWRITE)
	return err
}

// release hands the memory back to the system. Nothing may look at it any more.
func (m *memory) release() { _ = windows.VirtualFree(m.address(), 0, windows.MEM_RELEASE) }

func (m *memory) address() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(m.region))) }
