package sandbox

import (
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
)

// The effective keys of a call decide what its program gets: how much of the processor and of
// memory, whether it starts others, which interpreter it may be, and which folders (S1-13, S1-17).

// callRows are the limits of a program that one call starts, until its keys raise them.
var callRows = map[capabilities.IsolationClass]Limits{
	capabilities.ClassT0: {CPU: 1, Memory: 128 << 20, File: 16 << 20, Processes: 1, Processors: 1},
	capabilities.ClassT1: {CPU: 30, Memory: 512 << 20, File: 1 << 30, Processes: 512, Processors: 4},
	capabilities.ClassT2: {CPU: 60, Memory: 512 << 20, File: 1 << 30, Processes: 512, Processors: 4},
	capabilities.ClassT3: {CPU: 60, Memory: 512 << 20, File: 1 << 30, Processes: 512, Processors: 4},
}

// extendedCPU is the processor time with KeyExtended, in seconds; highMemory the bytes with
// KeyMemory.
const (
	extendedCPU = 600
	highMemory  = 4 << 30
)

// granted returns p with what its keys leave of its folders, and the row of limits that they
// select. CodeForbidden for an interpreter whose key is none of them.
func (p Program) granted() (Program, Limits, error) {
	if !p.Call {
		return p, rows[p.Class], nil
	}
	has := func(key string) bool { return slices.Contains(p.Keys, key) }
	if key := capabilities.LanguageKey(p.Argv[0]); key != "" && !has(key) {
		return p, Limits{}, capabilities.Errorf(capabilities.CodeForbidden, "the call was not granted %s, which %.128q takes", key, p.Argv[0])
	}
	switch {
	case !has(capabilities.KeyRead) && !has(capabilities.KeyWrite):
		p.Read, p.Write = nil, nil
	case !has(capabilities.KeyWrite):
		p.Read, p.Write = append(slices.Clone(p.Read), p.Write...), nil
	}
	p.Write = append(slices.Clone(p.Own), p.Write...)
	row := callRows[p.Class]
	if !has(capabilities.KeySpawn) {
		row.Processes = 1
	}
	if has(capabilities.KeyMemory) {
		row.Memory = highMemory
	}
	if has(capabilities.KeyExtended) {
		row.CPU = extendedCPU
	}
	if has(capabilities.KeyBurst) {
		row.CPU, row.Processors = 0, 0
	}
	return p, row, nil
}
