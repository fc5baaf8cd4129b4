package clipboard

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/handrail-dev/handrail/platform/x11/wire"
)

// server owns the clipboard and sends its text to those who ask. It has a connection of its own, so
// that a reader is served whatever else goes on.
type server struct {
	conn  *wire.Conn
	atoms clipboardAtoms
	piece int // bytes of text that are given at once

	mu      sync.Mutex // above what follows
	holding *holding   // nil: the clipboard is not ours
	sending map[transfer]*sending
	ended   context.CancelFunc
	done    chan struct{}
}

// holding is the clipboard while it is ours.
type holding struct {
	window    xproto.Window
	since     xproto.Timestamp
	text      string
	concealed bool
}

// transfer is a text on its way to a reader in pieces.
type transfer struct {
	to       xproto.Window
	property xproto.Atom
}

type sending struct {
	kind  xproto.Atom
	rest  []byte
	last  bool // the empty piece is there
	until time.Time
}

// Bounds of giving text: how long a reader may take for a piece, how many read at
// once, and the largest piece.
const (
	readerStep = 10 * time.Second
	maxReaders = 32
	maxPiece   = 64 << 10
)

func newServer(ctx context.Context, o wire.Options, atoms clipboardAtoms) (*server, error) {
	c, err := wire.Dial(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &server{conn: c, atoms: atoms, sending: map[transfer]*sending{}, done: make(chan struct{})}
	s.piece = min(maxPiece, 4*int(c.Setup.MaximumRequestLength)-64)
	const propertyNotify, selectionClear, selectionRequest, destroyNotify = 28, 29, 30, 17
	over, cancel := context.WithCancel(context.Background())
	s.ended = cancel
	events := c.Subscribe(over, func(e wire.Event) bool {
		return e.Code == selectionClear || e.Code == selectionRequest || e.Code == destroyNotify || e.Code == propertyNotify && e.Data[16] == 1
	})
	go func() {
		defer close(s.done)
		sweep := time.NewTicker(readerStep / 2)
		defer sweep.Stop()
		for {
			select {
			case e, ok := <-events:
				if !ok {
					return
				}
				switch e.Code {
				case selectionClear:
					s.lose(xproto.SelectionClearEventNew(e.Data).(xproto.SelectionClearEvent))
				case selectionRequest:
					s.give(xproto.SelectionRequestEventNew(e.Data).(xproto.SelectionRequestEvent))
				case propertyNotify: // deleted: the reader has it
					p := xproto.PropertyNotifyEventNew(e.Data).(xproto.PropertyNotifyEvent)
					s.next(transfer{p.Window, p.Atom})
				case destroyNotify:
					s.gone(xproto.DestroyNotifyEventNew(e.Data).(xproto.DestroyNotifyEvent).Window)
				}
			case <-sweep.C:
				s.sweep(time.Now())
			}
		}
	}()
	return s, nil
}

// own takes the clipboard with a new window, which no earlier event can mean.
func (s *server) own(ctx context.Context, text string, concealed bool) (*holding, error) {
	c := s.conn
	w, err := c.NewWindow(ctx)
	if err != nil {
		return nil, err
	}
	since, err := s.now(ctx, w)
	if err != nil {
		return nil, err
	}
	h := &holding{window: w, since: since, text: text, concealed: concealed}
	s.mu.Lock()
	before := s.holding
	s.holding = h
	s.mu.Unlock()
	owner, err := wire.Ask(ctx, c, func() (*xproto.GetSelectionOwnerReply, error) {
		xproto.SetSelectionOwner(c.X, w, s.atoms.clipboard, since)
		if before != nil {
			xproto.DestroyWindow(c.X, before.window)
		}
		return xproto.GetSelectionOwner(c.X, s.atoms.clipboard).Reply()
	})
	if err == nil && owner.Owner != w {
		err = errNotOurs
	}
	if err != nil {
		_, _ = s.disown(context.WithoutCancel(ctx), h)
		return nil, err
	}
	return h, nil
}

const errNotOurs = clipboardError("x11: another program took the clipboard")

type clipboardError string

func (e clipboardError) Error() string { return string(e) }

// now asks the server for its time, by a change of a property: what was copied
// later has a later one.
func (s *server) now(ctx context.Context, w xproto.Window) (xproto.Timestamp, error) {
	const propertyNotify = 28
	over, cancel := context.WithCancel(ctx)
	defer cancel()
	events := s.conn.Subscribe(over, func(e wire.Event) bool {
		return e.Code == propertyNotify && binary.LittleEndian.Uint32(e.Data[4:]) == uint32(w)
	})
	if err := s.conn.Do(ctx, func() error {
		return xproto.ChangePropertyChecked(s.conn.X, xproto.PropModeAppend, w, s.atoms.property, xproto.AtomString, 8, 0, nil).Check()
	}); err != nil {
		return 0, err
	}
	select {
	case e, ok := <-events:
		if ok {
			return xproto.Timestamp(binary.LittleEndian.Uint32(e.Data[12:])), nil
		}
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	return 0, s.conn.Sync(ctx)
}

// held returns what the clipboard holds while it is ours; nil: it is not.
func (s *server) held() *holding {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holding
}

// disown returns the clipboard up if it is ours with h, and tells whether it was. The
// time is that of the taking: the server ignores it if somebody took it since.
func (s *server) disown(ctx context.Context, h *holding) (bool, error) {
	s.mu.Lock()
	if h == nil || s.holding != h {
		s.mu.Unlock()
		return false, nil
	}
	s.holding = nil
	for t := range s.sending {
		s.dropLocked(t)
	}
	s.mu.Unlock()
	c := s.conn
	before, err := wire.Ask(ctx, c, func() (*xproto.GetSelectionOwnerReply, error) {
		owner := xproto.GetSelectionOwner(c.X, s.atoms.clipboard)
		xproto.SetSelectionOwner(c.X, 0, s.atoms.clipboard, h.since)
		xproto.DestroyWindow(c.X, h.window)
		return owner.Reply()
	})
	if err != nil {
		return false, err
	}
	return before.Owner == h.window, c.Sync(ctx)
}

// lose forgets the text when another program took the clipboard.
func (s *server) lose(e xproto.SelectionClearEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holding != nil && s.holding.window == e.Owner && e.Selection == s.atoms.clipboard {
		xproto.DestroyWindow(s.conn.X, s.holding.window)
		s.holding = nil
	}
}

// give answers one reader.
func (s *server) give(e xproto.SelectionRequestEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	property := e.Property
	if property == 0 {
		property = e.Target // of clients from before there were properties for it
	}
	h := s.holding
	if h == nil || h.window != e.Owner || e.Selection != s.atoms.clipboard || !s.convertLocked(h, e.Requestor, e.Target, property) {
		property = 0
	}
	answer := xproto.SelectionNotifyEvent{Time: e.Time, Requestor: e.Requestor, Selection: e.Selection, Target: e.Target, Property: property}
	xproto.SendEvent(s.conn.X, false, e.Requestor, 0, string(answer.Bytes()))
}

// convertLocked puts one form of the text into the reader's property.
func (s *server) convertLocked(h *holding, to xproto.Window, target, property xproto.Atom) bool {
	c, a := s.conn, &s.atoms
	words := func(kind xproto.Atom, values ...uint32) {
		var b []byte
		for _, v := range values {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
		xproto.ChangeProperty(c.X, xproto.PropModeReplace, to, property, kind, 32, uint32(len(values)), b)
	}
	latin, isLatin := latin1(h.text)
	switch target {
	case a.targets:
		all := []uint32{
			uint32(a.targets), uint32(a.timestamp), uint32(a.multiple), uint32(a.utf8), uint32(a.plainUTF8), uint32(a.plain), uint32(a.text),
		}
		if isLatin {
			all = append(all, uint32(xproto.AtomString))
		}
		if h.concealed {
			all = append(all, uint32(a.hint))
		}
		words(xproto.AtomAtom, all...)
	case a.timestamp:
		words(xproto.AtomInteger, uint32(h.since))
	case a.utf8, a.text:
		s.putLocked(to, property, a.utf8, []byte(h.text))
	case a.plainUTF8, a.plain:
		s.putLocked(to, property, target, []byte(h.text))
	case xproto.AtomString:
		if !isLatin {
			return false
		}
		s.putLocked(to, property, target, latin)
	case a.hint:
		if !h.concealed {
			return false
		}
		s.putLocked(to, property, target, []byte("secret"))
	case a.multiple:
		return s.multipleLocked(h, to, property)
	default:
		return false
	}
	return true
}

// multipleLocked converts pairs of target and property, and marks those that fail.
func (s *server) multipleLocked(h *holding, to xproto.Window, property xproto.Atom) bool {
	c := s.conn
	ctx, cancel := context.WithTimeout(context.Background(), clipboardStep)
	defer cancel()
	r, err := wire.Ask(ctx, c, func() (*xproto.GetPropertyReply, error) {
		return xproto.GetProperty(c.X, false, to, property, xproto.GetPropertyTypeAny, 0, 64).Reply()
	})
	if err != nil || r.Format != 32 {
		return false
	}
	b := r.Value
	for at := 0; at+8 <= len(b); at += 8 {
		target, into := xproto.Atom(binary.LittleEndian.Uint32(b[at:])), xproto.Atom(binary.LittleEndian.Uint32(b[at+4:]))
		if into == 0 || target == s.atoms.multiple || !s.convertLocked(h, to, target, into) {
			binary.LittleEndian.PutUint32(b[at+4:], 0)
		}
	}
	xproto.ChangeProperty(c.X, xproto.PropModeReplace, to, property, s.atoms.pair, 32, uint32(len(b)/4), b)
	return true
}

// putLocked returns text, in pieces if it is large.
func (s *server) putLocked(to xproto.Window, property, kind xproto.Atom, b []byte) {
	c := s.conn
	if len(b) <= s.piece {
		xproto.ChangeProperty(c.X, xproto.PropModeReplace, to, property, kind, 8, uint32(len(b)), b)
		return
	}
	if len(s.sending) >= maxReaders {
		oldest := transfer{}
		for t, one := range s.sending {
			if oldest == (transfer{}) || one.until.Before(s.sending[oldest].until) {
				oldest = t
			}
		}
		s.dropLocked(oldest)
	}
	s.sending[transfer{to, property}] = &sending{kind: kind, rest: b, until: time.Now().Add(readerStep)}
	xproto.ChangeWindowAttributes(c.X, to, xproto.CwEventMask, []uint32{xproto.EventMaskPropertyChange | xproto.EventMaskStructureNotify})
	size := binary.LittleEndian.AppendUint32(nil, uint32(len(b)))
	xproto.ChangeProperty(c.X, xproto.PropModeReplace, to, property, s.atoms.incr, 32, 1, size)
}

// next returns a reader its next piece.
func (s *server) next(t transfer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.sending[t]
	if one == nil {
		return
	}
	if one.last {
		s.dropLocked(t)
		return
	}
	n := min(len(one.rest), s.piece)
	xproto.ChangeProperty(s.conn.X, xproto.PropModeReplace, t.to, t.property, one.kind, 8, uint32(n), one.rest[:n])
	one.rest, one.last, one.until = one.rest[n:], n == 0, time.Now().Add(readerStep)
}

// dropLocked forgets a reader, and wants no more of its window's events.
func (s *server) dropLocked(t transfer) {
	delete(s.sending, t)
	for other := range s.sending {
		if other.to == t.to {
			return
		}
	}
	xproto.ChangeWindowAttributes(s.conn.X, t.to, xproto.CwEventMask, []uint32{0})
}

// sweep forgets readers that stopped reading.
func (s *server) sweep(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t, one := range s.sending {
		if now.After(one.until) {
			s.dropLocked(t)
		}
	}
}

func (s *server) gone(w xproto.Window) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t := range s.sending {
		if t.to == w {
			delete(s.sending, t)
		}
	}
}

func (s *server) close() {
	s.ended()
	_ = s.conn.Close()
	<-s.done
}

// latin1 returns text in Latin-1, if that has all of it.
func latin1(text string) (b []byte, ok bool) {
	for _, r := range text {
		if r > 0xff {
			return nil, false
		}
		b = append(b, byte(r))
	}
	return b, true
}
