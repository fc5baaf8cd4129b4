package wasm

import (
	"errors"

	"github.com/tetratelabs/wazero/experimental"
)

// memory is what a run has for its linear memory: all that a module may ever take, reserved from
// the system at once and given back at the end of the run. A system lends pages when they are
// written to, so what grows is not copied, and a small module costs little. It is of one run alone.
type memory struct {
	region []byte // memoryPages, of which the module sees a beginning
}

// Allocate hands the region to the library, which asks once in each run: a module has one memory.
func (m *memory) Allocate(_, _ uint64) experimental.LinearMemory { return m }

// Reallocate returns the first size bytes; nil if a module must not have so many, or the system
// has no more.
func (m *memory) Reallocate(size uint64) []byte {
	if size > uint64(len(m.region)) || m.commit(size) != nil {
		return nil
	}
	return m.region[:size:size]
}

// Free does nothing: the library frees when a call ends, and a module may still run then. The run
// gives the region back itself, after it.
func (m *memory) Free() {}

var errNoMemory = errors.New("the system has no memory for another module")
