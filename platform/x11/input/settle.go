package input

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/x11/wire"
)

// A program translates a key by the map that it last read from the server, and
// reads the newest one whenever it learns of a change. So a key that was pressed
// can still change its meaning in the queue of a busy program, and no key may be
// given another meaning before the program has come by its presses. settler finds
// that out by events, in the order of certainty:
//
//   - _NET_WM_PING, which GTK, Qt, Chromium and most others answer when they come
//     to it in their queue: behind it, everything before is done.
//   - programs of Xaw, such as xterm, answer the editres protocol, by which their
//     resources are looked at: they ask for a selection that the message names. It
//     is ours, and its owner does not answer more than that there is nothing.
//   - for others there is a grace.
type settler struct {
	conn   *wire.Conn
	window xproto.Window // owns the selection
	ping, proto, class,
	editres, command, selection xproto.Atom
	token atomic.Uint32
	hung  time.Duration // hungAfter, which tests change

	mu   sync.Mutex // above waiting
	wait map[uint32]chan []byte

	// programs is what was learnt of each, by its number.
	programs map[uint32]*program
}

type program struct {
	id      uint32
	top     xproto.Window // the one that answers pings, 0 if none does
	shell   xproto.Window // the one that has a class, 0 if none has
	patient bool          // it is known to answer editres
	mute    bool          // it did not answer a ping that asked politely
	muted   time.Time     // when it did not
	heard   bool          // it has answered a ping
	quiet   bool          // it answers nothing
}

// Bounds of waiting for a program: until it is called hung, until one that is only asked to keep
// up is let be, until a gesture asks that one again, until one that never answered is taken for
// one that never will, and the grace that such a one gets. The grace is for programs that
// translate a key when they read it; it cannot be shown to suffice.
const (
	hungAfter  = 10 * time.Second
	askedAfter = 500 * time.Millisecond
	askedAgain = 2 * time.Second
	quietAfter = time.Second
	grace      = 150 * time.Millisecond
)

func newSettler(ctx context.Context, c *wire.Conn, window xproto.Window) (*settler, error) {
	s := &settler{conn: c, window: window, hung: hungAfter, wait: map[uint32]chan []byte{}, programs: map[uint32]*program{}}
	s.token.Store(0x48000000) // far from the numbers that window managers give pings
	for name, atom := range map[string]*xproto.Atom{
		"_NET_WM_PING": &s.ping, "WM_PROTOCOLS": &s.proto, "WM_CLASS": &s.class,
		"Editres": &s.editres, "EditresCommand": &s.command, "_HANDRAIL_SETTLED_" + strconv.FormatUint(uint64(window), 16): &s.selection,
	} {
		var err error
		if *atom, err = c.Atom(ctx, name); err != nil {
			return nil, err
		}
	}
	c.Hook(s.answered)
	// Answers to pings come to who watches what is on the root; those of Qt 5 to who
	// watches the root itself.
	return s, c.Do(ctx, func() error {
		xproto.SetSelectionOwner(c.X, s.window, s.selection, 0)
		return xproto.ChangeWindowAttributesChecked(c.X, c.Root(), xproto.CwEventMask,
			[]uint32{xproto.EventMaskSubstructureNotify | xproto.EventMaskStructureNotify}).Check()
	})
}

// answered takes answers:
//
//	to a ping:    33, 32, sequence:2, root:4, WM_PROTOCOLS:4, _NET_WM_PING:4, token:4, …
//	to editres:   30, …, sequence:2, 4: token, owner:4, requestor:4, selection:4, …
func (s *settler) answered(e wire.Event) {
	const selectionRequest, clientMessage = 30, 33
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(e.Data[at:]) }
	var token uint32
	switch {
	case e.Code == clientMessage && word(4) == uint32(s.conn.Root()) && word(8) == uint32(s.proto) && word(12) == uint32(s.ping):
		token = word(16)
	case e.Code == selectionRequest && word(16) == uint32(s.selection):
		token = word(4)
	default:
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.wait[token]; c != nil {
		c <- e.Data
		delete(s.wait, token)
	}
}

// of returns what is known of the program that w belongs to, and looks for the
// window of it that answers.
func (s *settler) of(ctx context.Context, w xproto.Window) (*program, error) {
	id := uint32(w) &^ s.conn.Setup.ResourceIdMask
	p := s.programs[id]
	if p == nil {
		if len(s.programs) > 256 {
			clear(s.programs)
		}
		p = &program{id: id}
		s.programs[id] = p
	}
	p.top, p.shell = 0, 0
	for range 16 {
		answers, class, up, err := s.look(ctx, w)
		if err != nil {
			return p, err
		}
		if class != "" {
			p.shell, p.patient = w, p.patient || strings.Contains(class, "XTerm")
		}
		if answers {
			p.top = w
		}
		if p.top != 0 || p.shell != 0 || up == 0 || up == s.conn.Root() {
			break
		}
		w = up
	}
	return p, nil
}

// look tells whether a window answers pings, its class, and what it lies in. A
// window that is gone lies in nothing.
func (s *settler) look(ctx context.Context, w xproto.Window) (answers bool, class string, up xproto.Window, err error) {
	type looks struct {
		answers bool
		class   string
		up      xproto.Window
	}
	c := s.conn
	l, err := wire.Ask(ctx, c, func() (l looks, err error) {
		protocols := xproto.GetProperty(c.X, false, w, s.proto, xproto.AtomAtom, 0, 64)
		classes := xproto.GetProperty(c.X, false, w, s.class, xproto.AtomString, 0, 64)
		tree := xproto.QueryTree(c.X, w)
		if p, err := protocols.Reply(); err == nil {
			for b := p.Value; len(b) >= 4; b = b[4:] {
				l.answers = l.answers || binary.LittleEndian.Uint32(b) == uint32(s.ping)
			}
		}
		if p, err := classes.Reply(); err == nil {
			l.class = string(p.Value)
		}
		t, err := tree.Reply()
		if err == nil {
			l.up = t.Parent
		}
		return l, err
	})
	var answered xgb.Error
	if errors.As(err, &answered) {
		return false, "", 0, nil
	}
	return l.answers, l.class, l.up, err
}

// exists tells whether a window is there.
func (s *settler) exists(ctx context.Context, w xproto.Window) bool {
	_, err := wire.Ask(ctx, s.conn, func() (*xproto.GetGeometryReply, error) {
		return xproto.GetGeometry(s.conn.X, xproto.Drawable(w)).Reply()
	})
	var answered xgb.Error
	return !errors.As(err, &answered)
}

// asked sends a message to a window and waits until its program answers, or the
// window is gone.
func (s *settler) asked(ctx context.Context, w xproto.Window, kind xproto.Atom, words func(token uint32) []uint32,
	patience time.Duration) error {
	token := s.token.Add(1)
	answer := make(chan []byte, 1)
	s.mu.Lock()
	s.wait[token] = answer
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.wait, token)
		s.mu.Unlock()
	}()
	message := xproto.ClientMessageEvent{Format: 32, Window: w, Type: kind, Data: xproto.ClientMessageDataUnionData32New(words(token))}
	if err := s.conn.Do(ctx, func() error {
		xproto.SendEvent(s.conn.X, false, w, 0, string(message.Bytes()))
		return nil
	}); err != nil {
		return err
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case b := <-answer:
			return s.refuse(ctx, b)
		case <-look.C:
			if !s.exists(ctx, w) {
				return nil
			}
		case <-late.C:
			return fmt.Errorf("x11: window %#x: %w", uint32(w), platform.ErrHung)
		case <-ctx.Done():
			return ctx.Err()
		case <-s.conn.Lost():
			return platform.ErrLost
		}
	}
}

// refuse tells who asked for the selection that there is nothing in it.
func (s *settler) refuse(ctx context.Context, b []byte) error {
	const selectionRequest, selectionNotify = 30, 31
	if b[0]&0x7f != selectionRequest {
		return nil
	}
	requestor := xproto.Window(binary.LittleEndian.Uint32(b[12:]))
	event := make([]byte, 32)
	event[0] = selectionNotify
	copy(event[4:8], b[4:8])
	copy(event[8:20], b[12:24])
	return s.conn.Do(ctx, func() error {
		xproto.SendEvent(s.conn.X, false, requestor, 0, string(event))
		return nil
	})
}

func (s *settler) pinged(ctx context.Context, p *program, patience time.Duration) error {
	err := s.asked(ctx, p.top, s.proto, func(token uint32) []uint32 {
		return []uint32{uint32(s.ping), token, uint32(p.top), 0, 0}
	}, patience)
	p.heard = p.heard || err == nil
	return err
}

// pace waits a little for a program that answers pings, so that it never has more
// than a moment's keys before it. One that does not answer is let be.
func (s *settler) pace(ctx context.Context, p *program) error {
	if p.top == 0 || p.mute {
		return nil
	}
	err := s.pinged(ctx, p, askedAfter)
	if errors.Is(err, platform.ErrHung) {
		p.mute, p.muted, err = true, time.Now(), nil
	}
	return err
}

// caughtUp returns when p has handled every key pressed so far, which programs
// that queue what they read do after they have read it: they answer a second ping
// only after they handled what came before the first. Only one that never answered
// a ping is let be.
func (s *settler) caughtUp(ctx context.Context, p *program) error {
	for range 2 {
		if !p.heard {
			if err := s.pace(ctx, p); err != nil {
				return err
			}
			continue
		}
		if p.top == 0 {
			return nil
		}
		if err := s.pinged(ctx, p, s.hung); err != nil {
			return err
		}
		p.mute = false
	}
	return nil
}

// settle returns when p has read every key pressed so far.
func (s *settler) settle(ctx context.Context, p *program) error {
	if p.top != 0 {
		err := s.pinged(ctx, p, s.hung)
		p.mute = p.mute && err != nil
		return err
	}
	if p.shell != 0 && !p.quiet {
		const version = 5
		patience := quietAfter
		if p.patient {
			patience = s.hung
		}
		err := s.asked(ctx, p.shell, s.editres, func(token uint32) []uint32 {
			return []uint32{token, uint32(s.selection), 1, version, 0}
		}, patience)
		if err == nil {
			p.patient = true
		}
		if !errors.Is(err, platform.ErrHung) || p.patient {
			return err
		}
		p.quiet = true
	}
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
