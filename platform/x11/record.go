package x11

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/jezek/xgb/xproto"
)

// recorder follows how a program reads the keyboard's map, by the RECORD
// extension. It has a connection of its own: RECORD answers one request with many
// replies, which xgb does not know.
//
// A program of Xt reads the core map when it comes by a change in its queue, unless
// it read it since that change was made, which it tells by serial numbers. Our own
// changes are recorded, too, in one order with the readings; so of each reading is
// known which change caused it, and that everything before that was handled.
type recorder struct {
	control *Conn
	data    net.Conn
	major   byte
	context uint32
	xkb     byte // major opcode
	news    chan struct{}
	ended   chan struct{}

	mu      sync.Mutex // above what follows
	changes []byte     // the key of each change that we made
	handled int        // so many of them were
	covered int        // so many of them were made before the last reading
	fetched bool       // there was a reading
	lookups int        // readings of XKB's map
}

const (
	recordCreate  = 1
	recordEnable  = 5
	recordDisable = 6
	recordFree    = 7

	recordFromClient = 1
	recordStart      = 4

	coreChangeKeyboardMapping = 100
	coreGetKeyboardMapping    = 101
)

var errNoRecord = errors.New("x11: the server does not speak RECORD")

// startRecorder begins with the program that w belongs to; ours is a window of c.
func (c *Conn) startRecorder(ctx context.Context, o Options, w, ours xproto.Window) (*recorder, error) {
	e, err := c.Extension(ctx, "RECORD")
	if err != nil {
		return nil, err
	}
	if !e.Present {
		return nil, errNoRecord
	}
	xkb, err := c.Extension(ctx, "XKEYBOARD")
	if err != nil {
		return nil, err
	}
	id, err := c.X.NewId()
	if err != nil {
		return nil, err
	}
	r := &recorder{control: c, major: e.Major, context: id, xkb: xkb.Major, news: make(chan struct{}, 1), ended: make(chan struct{})}
	if err := r.create(ctx, w, ours); err != nil {
		return nil, err
	}
	if r.data, err = dialPlain(ctx, c.Name, o.Authority); err != nil {
		r.free()
		return nil, err
	}
	b := extRequest(e.Major, recordEnable, 1)
	binary.LittleEndian.PutUint32(b[4:], id)
	if _, err = r.data.Write(b); err != nil {
		_ = r.data.Close()
		r.free()
		return nil, err
	}
	started := make(chan struct{})
	go r.read(started)
	select {
	case <-started:
		return r, nil
	case <-r.ended:
		err = errNoRecord
	case <-ctx.Done():
		err = ctx.Err()
	}
	r.Close()
	return nil, err
}

// create makes the context:
//
//	context, header flags:1 …, clients, ranges, then the clients, then ranges of 24:
//	core requests:2, replies:2, extension's major:2, minor:4, …
func (r *recorder) create(ctx context.Context, w, ours xproto.Window) error {
	b := extRequest(r.major, recordCreate, 4+2+2*6)
	binary.LittleEndian.PutUint32(b[4:], r.context)
	binary.LittleEndian.PutUint32(b[12:], 2)
	binary.LittleEndian.PutUint32(b[16:], 2)
	binary.LittleEndian.PutUint32(b[20:], uint32(w))
	binary.LittleEndian.PutUint32(b[24:], uint32(ours))
	core, xkb := b[28:52], b[52:76]
	core[0], core[1] = coreChangeKeyboardMapping, coreGetKeyboardMapping
	xkb[4], xkb[5] = r.xkb, r.xkb
	binary.LittleEndian.PutUint16(xkb[6:], xkbGetMap)
	binary.LittleEndian.PutUint16(xkb[8:], xkbGetMap)
	c := r.control
	return c.Do(ctx, func() error {
		cookie := c.X.NewCookie(true, false)
		c.X.NewRequest(b, cookie)
		return cookie.Check()
	})
}

// read takes the replies apart:
//
//	1, category, sequence:2, length:4 (in words), header flags, swapped, 12: the
//	client:4, …, 32: its requests, each opcode, minor, length:2 (in words), …
//
// Events such as MappingNotify come to every connection, this one too.
func (r *recorder) read(started chan struct{}) {
	defer close(r.ended)
	var head [32]byte
	for {
		if _, err := io.ReadFull(r.data, head[:]); err != nil || head[0] == 0 {
			return
		}
		if head[0] != 1 {
			continue
		}
		n := binary.LittleEndian.Uint32(head[4:])
		if n > 1<<18 {
			return
		}
		b := make([]byte, 4*n)
		if _, err := io.ReadFull(r.data, b); err != nil {
			return
		}
		switch head[1] {
		case recordStart:
			close(started)
		case recordFromClient:
			order := binary.ByteOrder(binary.LittleEndian)
			if head[9] != 0 {
				order = binary.BigEndian
			}
			ours := binary.LittleEndian.Uint32(head[12:]) == r.control.Setup.ResourceIdBase
			r.requests(b, order, ours)
			select {
			case r.news <- struct{}{}:
			default:
			}
		}
	}
}

func (r *recorder) requests(b []byte, order binary.ByteOrder, ours bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(b) >= 4 {
		size := 4 * int(order.Uint16(b[2:]))
		if size == 0 || size > len(b) {
			return
		}
		switch {
		case ours && b[0] == coreChangeKeyboardMapping && size > 4:
			r.changes = append(r.changes, b[4])
		case ours:
		case b[0] == coreGetKeyboardMapping:
			// The first one may be for another reason: the program's first key, or a
			// change before this began.
			if r.fetched {
				r.handled = min(max(r.handled, r.covered)+1, len(r.changes))
			}
			r.fetched, r.covered = true, len(r.changes)
		case b[0] == r.xkb && b[1] == xkbGetMap:
			r.lookups++
		}
		b = b[size:]
	}
}

func (r *recorder) free() {
	for _, minor := range []byte{recordDisable, recordFree} {
		b := extRequest(r.major, minor, 1)
		binary.LittleEndian.PutUint32(b[4:], r.context)
		r.control.send(b)
	}
}

// Close ends the counting.
func (r *recorder) Close() {
	r.free()
	_ = r.data.Close()
	<-r.ended
}

// dialPlain opens a connection without xgb and reads the setup away.
func dialPlain(ctx context.Context, display, authority string) (net.Conn, error) {
	a, err := parseDisplay(display)
	if err != nil {
		return nil, err
	}
	c, err := a.dial(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var head [8]byte
	_, err = c.Write(setupRequest(a.authority(authority)))
	if err == nil {
		_, err = io.ReadFull(c, head[:])
	}
	if err == nil {
		_, err = io.CopyN(io.Discard, c, 4*int64(binary.LittleEndian.Uint16(head[6:])))
	}
	if err == nil && head[0] != 1 {
		err = errors.New("the server refused it")
	}
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("x11: a second connection: %w", err)
	}
	return c, nil
}
