package keyboard

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/handrail-dev/handrail/platform/x11/wire"
)

// Requests of the XKEYBOARD extension, which xgb does not have. Each begins
//
//	major, minor, length:2 (in words), device:2
const (
	xkbUse       = 0
	xkbSelect    = 1
	xkbGetState  = 4
	xkbLatchLock = 5
	xkbGetMap    = 8
	xkbSetMap    = 9

	// Core is the keyboard that every program knows.
	Core = 0x100
)

// ErrNoXKB says that the server does not have the extension.
var ErrNoXKB = errors.New("x11: the server does not speak XKEYBOARD")

// XKB is the XKEYBOARD extension on a connection.
type XKB struct {
	c     *wire.Conn
	major byte
	Event byte // the code of its events
}

// Open makes the extension usable on a connection. ErrNoXKB: the server does not have it.
func Open(ctx context.Context, c *wire.Conn) (*XKB, error) {
	e, err := c.Extension(ctx, "XKEYBOARD")
	if err != nil {
		return nil, err
	}
	if !e.Present {
		return nil, ErrNoXKB
	}
	b := wire.NewRequest(e.Major, xkbUse, 1)
	binary.LittleEndian.PutUint16(b[4:], 1) // version 1.0
	r, err := c.Reply(ctx, b, 32)
	if err == nil && r[1] == 0 {
		err = ErrNoXKB
	}
	if err != nil {
		return nil, err
	}
	return &XKB{c: c, major: e.Major, Event: e.FirstEvent}, nil
}

// Listen asks for the events of new keyboards and of changed maps.
//
//	device:2, kinds:2, cleared:2, all of:2, parts of maps:2, selected:2
func (x *XKB) Listen() {
	const newKeyboard, mapNotify = 1 << 0, 1 << 1
	b := wire.NewRequest(x.major, xkbSelect, 3)
	for at, v := range map[int]uint16{4: Core, 6: newKeyboard | mapNotify, 10: newKeyboard,
		12: MapTypes | mapSyms | MapMods, 14: MapTypes | mapSyms | MapMods} {
		binary.LittleEndian.PutUint16(b[at:], v)
	}
	x.c.Send(b)
}

// State is what modifies keys now.
type State struct {
	Held    byte // by keys that are down
	Latched byte // for the next key
	Locked  byte
	Group   byte
}

// State reads
//
//	8: modifiers, held, latched, locked, group, …
func (x *XKB) State(ctx context.Context) (State, error) {
	b := wire.NewRequest(x.major, xkbGetState, 1)
	binary.LittleEndian.PutUint16(b[4:], Core)
	r, err := x.c.Reply(ctx, b, 32)
	if err != nil {
		return State{}, err
	}
	return State{Held: r[9], Latched: r[10], Locked: r[11], Group: r[12]}, nil
}

// Lock sets the locked modifiers among affect, and ends all latches.
//
//	device:2, affect, locked, lock group, group, affect latches, latches, …
func (x *XKB) Lock(affect, locked byte) {
	b := wire.NewRequest(x.major, xkbLatchLock, 3)
	binary.LittleEndian.PutUint16(b[4:], Core)
	b[6], b[7], b[10] = affect, locked, 0xff
	x.c.Send(b)
}

// Read returns the whole keyboard of a device, which may be Core.
func (x *XKB) Read(ctx context.Context, device uint16) (*Map, error) {
	b := wire.NewRequest(x.major, xkbGetMap, 6)
	binary.LittleEndian.PutUint16(b[4:], device)
	binary.LittleEndian.PutUint16(b[6:], MapTypes|mapSyms|MapMods)
	r, err := x.c.Reply(ctx, b, 40)
	if err != nil {
		return nil, err
	}
	return decodeMap(r)
}

// SetKeys has the keys of a device from first to last be those of m, in one step. The
// types, which stay as they are, go with them: Xorg's server (21.1 was tried) takes the
// widths of keys from there only.
//
//	device:2, parts:2, flags:2, first key, last, first type, types, first key with
//	syms, keys, syms:2, …, then types and keys
func (x *XKB) SetKeys(ctx context.Context, device uint16, m *Map, first, last byte) error {
	const resizeTypes = 1
	types, n := m.encodeTypes()
	keys, syms := m.encodeKeys(first, last)
	b := wire.NewRequest(x.major, xkbSetMap, 8+(len(types)+len(keys))/4)
	for at, v := range map[int]uint16{4: device, 6: MapTypes | mapSyms, 8: resizeTypes, 16: uint16(syms)} {
		binary.LittleEndian.PutUint16(b[at:], v)
	}
	b[10], b[11], b[13], b[14], b[15] = m.First, m.Last, byte(n), first, last-first+1
	copy(b[36:], types)
	copy(b[36+len(types):], keys)
	return x.c.SendChecked(ctx, b)
}
