package wasm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/handrail-dev/handrail/capabilities"
)

// MaxModule bounds the bytes of a module.
const MaxModule = 16 << 20

// Bounds of a run. Beside its memory a run has a stack of its own, of at most about 100 MiB.
const (
	memoryPages = 128 << 20 / pageSize // the row of class t0 (S1-35)
	pageSize    = 64 << 10
	maxTable    = 1 << 20 // entries; a table does not grow
	// usualTime is of the clock: the processor time of a module is not told from its host's.
	usualTime    = 5 * time.Second
	extendedTime = 600 * time.Second
)

// timeOf is how long a run may take, by its call's effective keys; 0: as long as its call (S1-13).
func timeOf(keys []string) time.Duration {
	switch {
	case slices.Contains(keys, capabilities.KeyBurst):
		return 0
	case slices.Contains(keys, capabilities.KeyExtended):
		return extendedTime
	}
	return usualTime
}

// header is how a module begins: its magic number and version 1 of the format.
var header = []byte("\x00asm\x01\x00\x00\x00")

// check refuses bytes that are no module, and tables that would take more memory than a module
// has. All else that a module says of itself is read by the compiler, after this.
func check(code []byte) error {
	switch {
	case len(code) > MaxModule:
		return fmt.Errorf("it has more than %d bytes", MaxModule)
	case !bytes.HasPrefix(code, header):
		return errors.New("it is no WebAssembly module of version 1")
	}
	for rest := code[len(header):]; len(rest) > 0; {
		kind := rest[0]
		size, n := binary.Uvarint(rest[1:])
		if n <= 0 || size > uint64(len(rest)-1-n) {
			return errors.New("a section of it is cut off")
		}
		section := rest[1+n : 1+n+int(size)]
		// The compiler takes room for as many as a section says it has, before it reads the first.
		if kind >= sectionType && kind <= sectionData && kind != sectionStart {
			if count, n := binary.Uvarint(section); n <= 0 || count > uint64(len(section)-n) {
				return errors.New("a section of it says that it has more than it can have")
			}
		}
		if kind == sectionTable {
			if err := checkTables(section); err != nil {
				return err
			}
		}
		rest = rest[1+n+int(size):]
	}
	return nil
}

// The section of tables, each a type and its limits:
//
//	+----------------+------+-------+----------------+------------------+
//	| count uvarint  | type | flags | least uvarint  | most uvarint, if |
//	|                | u8   | u8    |                | flags has bit 0  |
//	+----------------+------+-------+----------------+------------------+
const (
	sectionType  = 1
	sectionTable = 4
	sectionStart = 8
	sectionData  = 11
)

func checkTables(section []byte) error {
	bad := errors.New("its section of tables cannot be read")
	count, n := binary.Uvarint(section)
	if n <= 0 {
		return bad
	}
	if count > 1 {
		return errors.New("it has more than one table")
	}
	for section = section[n:]; count > 0; count-- {
		if len(section) < 2 || section[0] != funcref {
			return bad
		}
		least, n := binary.Uvarint(section[2:])
		if n <= 0 {
			return bad
		}
		if least > maxTable {
			return fmt.Errorf("its table has more than %d entries", maxTable)
		}
	}
	return nil
}

const funcref = 0x70

// compiled is a module that can run.
type compiled struct {
	ready  chan struct{} // closed when what follows is known
	module wazero.CompiledModule
	err    error

	// Owned by the engine's mutex.
	users int
	used  uint64 // when it was used last, by the engine's count
}

// fits refuses a module that imports what the host does not have, or that does not begin.
func (e *Engine) fits(m wazero.CompiledModule) error {
	for _, f := range m.ImportedFunctions() {
		from, name, _ := f.Import()
		if from != wasi_snapshot_preview1.ModuleName || !e.offers[name] {
			return fmt.Errorf("it imports %.64q of %.64q, and a module has nothing of its host but WASI preview 1", name, from)
		}
	}
	for _, f := range m.ImportedMemories() {
		from, name, _ := f.Import()
		return fmt.Errorf("it imports the memory %.64q of %.64q", name, from)
	}
	begin, ok := m.ExportedFunctions()[begins]
	if !ok || len(begin.ParamTypes())+len(begin.ResultTypes()) > 0 {
		return errors.New("it is no command: it exports no function _start without parameters")
	}
	return nil
}

// begins is the function that a command's run is (WASI).
const begins = "_start"

// compile makes a module ready. The compiler cannot be stopped; it is shown MaxModule bytes at
// most, and one module at a time.
func (e *Engine) compile(code []byte) (m wazero.CompiledModule, err error) {
	defer func() {
		if r := recover(); r != nil {
			m, err = nil, fmt.Errorf("the compiler failed: %v", r)
		}
	}()
	if err := check(code); err != nil {
		return nil, err
	}
	if m, err = e.runtime.CompileModule(context.Background(), code); err != nil {
		return nil, err
	}
	if err := e.fits(m); err != nil {
		return nil, errors.Join(err, m.Close(context.Background()))
	}
	return m, nil
}
