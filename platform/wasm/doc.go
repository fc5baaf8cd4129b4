// Package wasm runs WebAssembly modules as programs of class t0, inside this process and alike on
// every system: a module reads its arguments and standard input, writes standard output, and has
// no other way to anything.
//
// The story in the order of reading: engine.go (modules that are compiled, and those that run),
// module.go (what a module may be), process.go (one that runs), memory.go (what it has for memory).
//
// Promises: a module imports nothing of the host but WASI's preview 1, in which no folder and no
// socket is open, the clock stands still between two looks at it and random numbers are the same in
// each run; its memory, tables, time and the number that run at once are bounded; one that loops
// ends with its time or its call; a fault of a module, or of what runs it, ends that run alone.
//
// It must never import anything of this module but capabilities, nor read a file: it is handed
// bytes.
package wasm
