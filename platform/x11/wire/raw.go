package wire

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/jezek/xgb/xproto"
)

// Reply makes a request of bytes and waits for its reply.
func (c *Conn) Reply(ctx context.Context, request []byte, least int) ([]byte, error) {
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

// Send makes a request of bytes that has no reply.
func (c *Conn) Send(request []byte) { c.X.NewRequest(request, c.X.NewCookie(false, false)) }

// SendChecked makes a request of bytes that has no reply, and waits until the server has done
// it.
func (c *Conn) SendChecked(ctx context.Context, request []byte) error {
	return c.Do(ctx, func() error {
		cookie := c.X.NewCookie(true, false)
		c.X.NewRequest(request, cookie)
		return cookie.Check()
	})
}

// NewRequest begins a request of an extension, for the words that follow.
func NewRequest(major, minor byte, words int) []byte {
	b := make([]byte, 4+4*words)
	b[0], b[1] = major, minor
	binary.LittleEndian.PutUint16(b[2:], uint16(1+words))
	return b
}

// NewWindow makes a window that never shows, to own things with.
func (c *Conn) NewWindow(ctx context.Context) (xproto.Window, error) {
	return Ask(ctx, c, func() (xproto.Window, error) {
		w, err := xproto.NewWindowId(c.X)
		if err != nil {
			return 0, err
		}
		return w, xproto.CreateWindowChecked(c.X, 0, w, c.Root(), -100, -100, 1, 1, 0, xproto.WindowClassInputOnly, 0,
			xproto.CwOverrideRedirect|xproto.CwEventMask, []uint32{1, xproto.EventMaskPropertyChange}).Check()
	})
}
