package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"

	"github.com/handrail-dev/handrail/platform"
)

const xiGetProperty = 59 // a request of XInput 2, which xgb does not have

// IsXTest tells whether a device is one of XTEST's.
func (c *Conn) IsXTest(ctx context.Context, major byte, number uint16) (bool, error) {
	mark, err := c.DeviceProperty(ctx, major, number, "XTEST Device")
	return len(mark) > 0 && mark[0] != 0, err
}

// DeviceProperty reads a property of a device, at most 256 bytes of it; none, or a device that is
// gone, is nothing.
func (c *Conn) DeviceProperty(ctx context.Context, major byte, number uint16, name string) ([]byte, error) {
	atom, err := c.Atom(ctx, name)
	if err != nil {
		return nil, err
	}
	// device:2, delete, …, property:4, type:4, offset:4, length:4
	b := NewRequest(major, xiGetProperty, 5)
	binary.LittleEndian.PutUint16(b[4:], number)
	binary.LittleEndian.PutUint32(b[8:], uint32(atom))
	binary.LittleEndian.PutUint32(b[20:], 64)
	r, err := c.Reply(ctx, b, 32) // …, 8: type:4, bytes after:4, items:4, format, …, 32: items
	if ctx.Err() != nil || errors.Is(err, platform.ErrLost) {
		return nil, err
	}
	if err != nil || len(r) <= 32 {
		return nil, nil
	}
	size := int64(binary.LittleEndian.Uint32(r[16:])) * int64(r[20]) / 8
	return bytes.TrimRight(r[32:32+min(size, int64(len(r)-32))], "\x00"), nil
}
