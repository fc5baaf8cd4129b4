package x11

import (
	"context"
	"encoding/binary"
	"errors"
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

	xkbCoreKeyboard = 0x100
)

var errNoXkb = errors.New("x11: the server does not speak XKEYBOARD")

// raw makes a request of bytes and waits for its reply.
func (c *Conn) raw(ctx context.Context, request []byte, least int) ([]byte, error) {
	return Ask(ctx, c, func() ([]byte, error) {
		cookie := c.X.NewCookie(true, true)
		c.X.NewRequest(request, cookie)
		b, err := cookie.Reply()
		if err == nil && len(b) < least {
			err = errors.New("x11: the server's reply is too short")
		}
		return b, err
	})
}

// send makes a request of bytes that has no reply.
func (c *Conn) send(request []byte) { c.X.NewRequest(request, c.X.NewCookie(false, false)) }

// extRequest begins a request of an extension, for the words that follow.
func extRequest(major, minor byte, words int) []byte {
	b := make([]byte, 4+4*words)
	b[0], b[1] = major, minor
	binary.LittleEndian.PutUint16(b[2:], uint16(1+words))
	return b
}

// openXkb makes the extension usable on this connection.
func (c *Conn) openXkb(ctx context.Context) (major, event byte, err error) {
	e, err := c.Extension(ctx, "XKEYBOARD")
	if err != nil {
		return 0, 0, err
	}
	if !e.Present {
		return 0, 0, errNoXkb
	}
	b := extRequest(e.Major, xkbUse, 1)
	binary.LittleEndian.PutUint16(b[4:], 1) // version 1.0
	r, err := c.raw(ctx, b, 32)
	if err == nil && r[1] == 0 {
		err = errNoXkb
	}
	return e.Major, e.FirstEvent, err
}

// xkbSelect asks for the events of new keyboards and of changed maps.
//
//	device:2, kinds:2, cleared:2, all of:2, parts of maps:2, selected:2
func (c *Conn) xkbSelect(major byte) {
	const newKeyboard, mapNotify = 1 << 0, 1 << 1
	b := extRequest(major, xkbSelect, 3)
	for at, v := range map[int]uint16{4: xkbCoreKeyboard, 6: newKeyboard | mapNotify, 10: newKeyboard,
		12: mapTypes | mapSyms | mapMods, 14: mapTypes | mapSyms | mapMods} {
		binary.LittleEndian.PutUint16(b[at:], v)
	}
	c.send(b)
}

// keyboardState is what modifies keys now.
type keyboardState struct {
	held    byte // by keys that are down
	latched byte // for the next key
	locked  byte
	group   byte
}

// xkbState reads
//
//	8: modifiers, held, latched, locked, group, …
func (c *Conn) xkbState(ctx context.Context, major byte) (keyboardState, error) {
	b := extRequest(major, xkbGetState, 1)
	binary.LittleEndian.PutUint16(b[4:], xkbCoreKeyboard)
	r, err := c.raw(ctx, b, 32)
	if err != nil {
		return keyboardState{}, err
	}
	return keyboardState{held: r[9], latched: r[10], locked: r[11], group: r[12]}, nil
}

// xkbLock sets the locked modifiers among affect, and ends all latches.
//
//	device:2, affect, locked, lock group, group, affect latches, latches, …
func (c *Conn) xkbLock(major, affect, locked byte) {
	b := extRequest(major, xkbLatchLock, 3)
	binary.LittleEndian.PutUint16(b[4:], xkbCoreKeyboard)
	b[6], b[7], b[10] = affect, locked, 0xff
	c.send(b)
}

// xkbMap reads the whole keyboard of a device, which may be xkbCoreKeyboard.
func (c *Conn) xkbMap(ctx context.Context, major byte, device uint16) (*keymap, error) {
	b := extRequest(major, xkbGetMap, 6)
	binary.LittleEndian.PutUint16(b[4:], device)
	binary.LittleEndian.PutUint16(b[6:], mapTypes|mapSyms|mapMods)
	r, err := c.raw(ctx, b, 40)
	if err != nil {
		return nil, err
	}
	return decodeKeymap(r)
}

// xkbSetKeys has the keys of a device from first to last be those of m, in one step. The
// types, which stay as they are, go with them: Xorg's server (21.1 was tried) takes the
// widths of keys from there only.
//
//	device:2, parts:2, flags:2, first key, last, first type, types, first key with
//	syms, keys, syms:2, …, then types and keys
func (c *Conn) xkbSetKeys(ctx context.Context, major byte, device uint16, m *keymap, first, last byte) error {
	const resizeTypes = 1
	types, n := m.encodeTypes()
	keys, syms := m.encodeKeys(first, last)
	b := extRequest(major, xkbSetMap, 8+(len(types)+len(keys))/4)
	for at, v := range map[int]uint16{4: device, 6: mapTypes | mapSyms, 8: resizeTypes, 16: uint16(syms)} {
		binary.LittleEndian.PutUint16(b[at:], v)
	}
	b[10], b[11], b[13], b[14], b[15] = m.first, m.last, byte(n), first, last-first+1
	copy(b[36:], types)
	copy(b[36+len(types):], keys)
	return c.Do(ctx, func() error {
		cookie := c.X.NewCookie(true, false)
		c.X.NewRequest(b, cookie)
		return cookie.Check()
	})
}
