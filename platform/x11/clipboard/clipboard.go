package clipboard

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/jezek/xgb/xproto"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/x11/wire"
)

// Clipboard is the selection CLIPBOARD, for text. X keeps no text itself: who
// copies owns the selection and serves who pastes. So a Clipboard has two
// connections, one that serves (serve.go) and one that reads, also to see that
// what it wrote can be read. golang.design/x/clipboard does neither here: it dials what the
// environment names, asks nobody whose the server is, and takes a text in pieces for the
// four bytes that announce it.
type Clipboard struct {
	serve *server
	read  *wire.Conn
	turn  chan struct{} // of reading: the property is one

	window xproto.Window // of read, as long as no answer to it is outstanding; 0: make one
	atoms  clipboardAtoms

	mu    sync.Mutex // above timer
	timer *time.Timer
}

var _ platform.Clipboard = (*Clipboard)(nil)

type clipboardAtoms struct {
	clipboard, targets, multiple, pair, timestamp, text, utf8, plain, plainUTF8, incr, hint, property xproto.Atom
}

func (a *clipboardAtoms) intern(ctx context.Context, c *wire.Conn) error {
	for name, atom := range map[string]*xproto.Atom{
		"CLIPBOARD": &a.clipboard, "TARGETS": &a.targets, "MULTIPLE": &a.multiple, "ATOM_PAIR": &a.pair, "TIMESTAMP": &a.timestamp,
		"TEXT": &a.text, "UTF8_STRING": &a.utf8, "text/plain": &a.plain, "text/plain;charset=utf-8": &a.plainUTF8, "INCR": &a.incr,
		// Clipboard histories leave alone what is offered with it.
		"x-kde-passwordManagerHint": &a.hint, "_HANDRAIL_CLIPBOARD": &a.property,
	} {
		var err error
		if *atom, err = c.Atom(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// Bounds of the clipboard: what is written and read at most, and how long a
// program may take for one step of giving its text.
const (
	maxClipboardChars = 32768
	maxClipboardBytes = 4 << 20
	clipboardStep     = 5 * time.Second
)

// New connects to the display. An error is a *platform.MissingError or
// that of ctx.
func New(ctx context.Context, o wire.Options) (*Clipboard, error) {
	c := &Clipboard{turn: make(chan struct{}, 1)}
	c.turn <- struct{}{}
	var err error
	if c.read, err = wire.Dial(ctx, o); err != nil {
		return nil, err
	}
	if err = c.atoms.intern(ctx, c.read); err == nil {
		c.window, err = c.read.NewWindow(ctx)
	}
	if err == nil {
		c.serve, err = newServer(ctx, o, c.atoms)
	}
	if err != nil {
		_ = c.read.Close()
		return nil, err
	}
	return c, nil
}

// Write puts text there, sees that it can be read, and has it cleared later.
func (c *Clipboard) Write(ctx context.Context, text string, concealed bool, clearAfter time.Duration) error {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return errors.New("x11: the text for the clipboard is not text")
	}
	if n := utf8.RuneCountInString(text); n > maxClipboardChars {
		return fmt.Errorf("x11: %d characters are too many for the clipboard: at most %d", n, maxClipboardChars)
	}
	c.clearAfter(0, nil)
	h, err := c.serve.own(ctx, text, concealed)
	if err != nil {
		return err
	}
	got, err := c.Read(ctx)
	if err != nil || got != text {
		// Nothing of it must stay where nobody was told that it is.
		_, _ = c.serve.disown(context.WithoutCancel(ctx), h)
		if err == nil {
			err = errors.New("x11: the clipboard was taken by another program, or does not give what was written")
		}
		return err
	}
	c.clearAfter(clearAfter, h)
	return nil
}

// clearAfter has the text of h cleared after d; 0 ends what an earlier one arranged.
// A timer that has fired meanwhile clears its own text, never a later one.
func (c *Clipboard) clearAfter(d time.Duration, h *holding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	if d > 0 {
		c.timer = time.AfterFunc(d, func() {
			ctx, cancel := context.WithTimeout(context.Background(), clipboardStep)
			defer cancel()
			_, _ = c.serve.disown(ctx, h) // a server that ended has forgotten it
		})
	}
}

// Clear empties the clipboard if it holds what Write put there.
func (c *Clipboard) Clear(ctx context.Context) (bool, error) {
	c.clearAfter(0, nil)
	return c.serve.disown(ctx, c.serve.held())
}

// Read asks the clipboard's owner for its text. Content that is no text reads as none.
func (c *Clipboard) Read(ctx context.Context) (string, error) {
	select {
	case <-c.turn:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	defer func() { c.turn <- struct{}{} }()
	for _, target := range []xproto.Atom{c.atoms.utf8, c.atoms.plainUTF8, xproto.AtomString} {
		b, kind, err := c.convert(ctx, target)
		if err != nil {
			return "", err
		}
		switch kind {
		case 0: // refused
		case xproto.AtomString: // Latin-1
			var s strings.Builder
			for _, ch := range b {
				s.WriteRune(rune(ch))
			}
			return s.String(), nil
		default:
			return strings.ToValidUTF8(string(b), "\uFFFD"), nil
		}
	}
	return "", nil
}

// convert asks for one form; kind 0 is a refusal. Large text comes in pieces
// (INCR): the owner puts one into the property whenever it was deleted, and an
// empty one at the end.
//
//	SelectionNotify: 31, …, time:4, 8: requestor:4, selection:4, target:4, 20: property:4
//	PropertyNotify:  28, …, 4: window:4, 8: atom:4, time:4, 16: state (0 is new)
func (c *Clipboard) convert(ctx context.Context, target xproto.Atom) (text []byte, kind xproto.Atom, err error) {
	const propertyNotify, selectionNotify = 28, 31
	if c.window == 0 {
		if c.window, err = c.read.NewWindow(ctx); err != nil {
			return nil, 0, err
		}
	}
	window := c.window
	defer func() {
		if err != nil {
			// A late answer is this window's and nobody's. It stays while the connection does: many
			// a program ends by an error that it does not expect.
			c.window = 0
		}
	}()
	over, cancel := context.WithCancel(ctx)
	defer cancel()
	word := func(e wire.Event, at int) xproto.Atom { return xproto.Atom(binary.LittleEndian.Uint32(e.Data[at:])) }
	events := c.read.Subscribe(over, func(e wire.Event) bool {
		return e.Code == selectionNotify && word(e, 8) == xproto.Atom(window) && word(e, 16) == target ||
			e.Code == propertyNotify && word(e, 4) == xproto.Atom(window) && word(e, 8) == c.atoms.property && e.Data[16] == 0
	})
	if err := c.read.Do(ctx, func() error {
		xproto.DeleteProperty(c.read.X, window, c.atoms.property)
		return xproto.ConvertSelectionChecked(c.read.X, window, c.atoms.clipboard, target, c.atoms.property, xproto.TimeCurrentTime).Check()
	}); err != nil {
		return nil, 0, err
	}
	late := time.NewTimer(clipboardStep)
	defer late.Stop()
	next := func(code byte) (wire.Event, error) {
		for {
			late.Reset(clipboardStep)
			select {
			case e, ok := <-events:
				if !ok {
					if ctx.Err() != nil {
						return e, ctx.Err()
					}
					return e, platform.ErrLost
				}
				if e.Code == code {
					return e, nil
				}
			case <-late.C:
				return wire.Event{}, fmt.Errorf("x11: the program that holds the clipboard: %w", platform.ErrHung)
			case <-ctx.Done():
				return wire.Event{}, ctx.Err()
			}
		}
	}
	e, err := next(selectionNotify)
	if err != nil || word(e, 20) == 0 {
		return nil, 0, err
	}
	first, kind, err := c.take(ctx)
	if err != nil || kind != c.atoms.incr {
		return first, kind, err
	}
	for {
		if _, err := next(propertyNotify); err != nil {
			return nil, 0, err
		}
		piece, of, err := c.take(ctx)
		if err != nil {
			return nil, 0, err
		}
		if of == 0 {
			continue // the event of the one that was taken already
		}
		if len(piece) == 0 {
			return text, of, nil
		}
		if text = append(text, piece...); len(text) > maxClipboardBytes {
			return nil, 0, fmt.Errorf("x11: the clipboard holds more than %d bytes of text", maxClipboardBytes)
		}
	}
}

// take reads the property and deletes it.
func (c *Clipboard) take(ctx context.Context) (b []byte, kind xproto.Atom, err error) {
	r, err := wire.Ask(ctx, c.read, func() (*xproto.GetPropertyReply, error) {
		return xproto.GetProperty(c.read.X, true, c.window, c.atoms.property, xproto.GetPropertyTypeAny, 0, maxClipboardBytes/4).Reply()
	})
	if err != nil {
		return nil, 0, err
	}
	if r.BytesAfter > 0 {
		return nil, 0, fmt.Errorf("x11: the clipboard holds more than %d bytes of text", maxClipboardBytes)
	}
	if r.Type != c.atoms.incr && r.Type != 0 && r.Format != 8 {
		return nil, 0, nil
	}
	return r.Value, r.Type, nil
}

// Close ends both connections; what Write put there is gone with them.
func (c *Clipboard) Close() error {
	c.clearAfter(0, nil)
	c.serve.close()
	return c.read.Close()
}
