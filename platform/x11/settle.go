package x11

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/handrail-dev/handrail/platform"
)

// A program translates a key by the map that it last read from the server, and
// reads the newest one whenever it learns of a change. So a key that was pressed
// can still change its meaning in the queue of a busy program, and no key may be
// given another meaning before the program has come by its presses. settler finds
// that out by events, in the order of certainty:
//
//   - _NET_WM_PING, which GTK, Qt, Chromium and most others answer when they come
//     to it in their queue: behind it, everything before is done.
//   - programs of Xt, such as xterm, read the core map when they come by a change
//     in their queue. RECORD shows that, see recorder: a change that changes nothing
//     is made behind the presses, and its reading means that they were handled.
//   - any other program of Xlib reads XKB's map at the first key behind a change,
//     which it may do ahead of keys that wait in its own queue: RECORD shows that,
//     and a grace of several times what that took covers the rest.
type settler struct {
	conn    *Conn
	options Options
	ping    xproto.Atom
	proto   xproto.Atom
	token   atomic.Uint32

	mu   sync.Mutex // above waiting
	wait map[uint32]chan struct{}

	// programs is what was learnt of each, by its number; see program.
	programs map[uint32]*program
	recorded *recorder
	subject  *program      // whom recorded is about
	touches  int           // changes that changed nothing, since recorded began
	mark     byte          // a spare key, for changes that change nothing; 0 if there is none
	window   xproto.Window // one of ours
}

type program struct {
	id    uint32
	top   xproto.Window // the one that answers pings, 0 if none does
	mute  bool          // it did not answer a ping that asked politely
	quiet bool          // it is not of Xt
}

// Bounds of waiting for a program: until it is called hung, until one that is
// only asked to keep up is let be, until one that shows no reading of the map is
// taken for one of another kind, and the least grace that such a one gets.
const (
	hungAfter  = 10 * time.Second
	askedAfter = 500 * time.Millisecond
	quietAfter = time.Second
	leastGrace = 30 * time.Millisecond
	mostGrace  = time.Second
)

var errQuiet = errors.New("x11: the program shows nothing")

func newSettler(ctx context.Context, c *Conn, o Options, window xproto.Window) (*settler, error) {
	s := &settler{conn: c, options: o, window: window, wait: map[uint32]chan struct{}{}, programs: map[uint32]*program{}}
	s.token.Store(0x48000000) // far from the numbers that window managers give pings
	var err error
	if s.ping, err = c.Atom(ctx, "_NET_WM_PING"); err != nil {
		return nil, err
	}
	if s.proto, err = c.Atom(ctx, "WM_PROTOCOLS"); err != nil {
		return nil, err
	}
	c.Hook(s.pong)
	return s, c.Do(ctx, func() error {
		return xproto.ChangeWindowAttributesChecked(c.X, c.Root(), xproto.CwEventMask, []uint32{xproto.EventMaskSubstructureNotify | xproto.EventMaskStructureNotify}).Check()
	})
}

// pong takes answers, which programs send to the root window; Qt 5 for those that
// watch the root itself, others for those that watch what is on it:
//
//	33, 32, sequence:2, window:4, WM_PROTOCOLS:4, _NET_WM_PING:4, token:4, …
func (s *settler) pong(e Event) {
	const clientMessage = 33
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(e.Data[at:]) }
	if e.Code != clientMessage || word(4) != uint32(s.conn.Root()) || word(8) != uint32(s.proto) || word(12) != uint32(s.ping) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.wait[word(16)]; c != nil {
		close(c)
		delete(s.wait, word(16))
	}
}

// of gives what is known of the program that w belongs to, and looks for the
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
	p.top = 0
	for range 16 {
		answers, up, err := s.look(ctx, w)
		if err != nil {
			return p, err
		}
		if answers {
			p.top = w
			break
		}
		if up == 0 || up == s.conn.Root() {
			break
		}
		w = up
	}
	return p, nil
}

// look tells whether a window answers pings, and what it lies in. A window that is
// gone lies in nothing.
func (s *settler) look(ctx context.Context, w xproto.Window) (answers bool, up xproto.Window, err error) {
	c := s.conn
	err = c.Do(ctx, func() error {
		protocols := xproto.GetProperty(c.X, false, w, s.proto, xproto.AtomAtom, 0, 64)
		tree := xproto.QueryTree(c.X, w)
		p, err := protocols.Reply()
		if err == nil {
			for b := p.Value; len(b) >= 4; b = b[4:] {
				answers = answers || binary.LittleEndian.Uint32(b) == uint32(s.ping)
			}
		}
		t, failed := tree.Reply()
		if failed == nil {
			up = t.Parent
		} else {
			err = failed
		}
		return err
	})
	var answered xgb.Error
	if errors.As(err, &answered) {
		return false, 0, nil
	}
	return answers, up, err
}

// exists tells whether a window is there.
func (s *settler) exists(ctx context.Context, w xproto.Window) bool {
	_, err := Ask(ctx, s.conn, func() (*xproto.GetGeometryReply, error) {
		return xproto.GetGeometry(s.conn.X, xproto.Drawable(w)).Reply()
	})
	var answered xgb.Error
	return !errors.As(err, &answered)
}

// asked pings a window and waits until its program answers or is gone.
func (s *settler) asked(ctx context.Context, top xproto.Window, patience time.Duration) error {
	token := s.token.Add(1)
	answered := make(chan struct{})
	s.mu.Lock()
	s.wait[token] = answered
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.wait, token)
		s.mu.Unlock()
	}()
	message := xproto.ClientMessageEvent{Format: 32, Window: top, Type: s.proto,
		Data: xproto.ClientMessageDataUnionData32New([]uint32{uint32(s.ping), token, uint32(top), 0, 0})}
	if err := s.conn.Do(ctx, func() error {
		xproto.SendEvent(s.conn.X, false, top, 0, string(message.Bytes()))
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
		case <-answered:
			return nil
		case <-look.C:
			if !s.exists(ctx, top) {
				return nil
			}
		case <-late.C:
			return fmt.Errorf("x11: window %#x: %w", uint32(top), platform.ErrHung)
		case <-ctx.Done():
			return ctx.Err()
		case <-s.conn.Lost():
			return platform.ErrLost
		}
	}
}

// begin is called before keys of ours change and are pressed for w.
func (s *settler) begin(ctx context.Context, w xproto.Window) (*program, error) {
	p, err := s.of(ctx, w)
	if err != nil || p.top != 0 || s.subject == p || s.mark == 0 {
		return p, err
	}
	s.end()
	if s.recorded, err = s.conn.startRecorder(ctx, s.options, w, s.window); err == nil {
		s.subject, s.touches = p, 0
	}
	if ctx.Err() != nil {
		return p, ctx.Err()
	}
	return p, nil // without RECORD there is the grace
}

// end stops what begin started.
func (s *settler) end() {
	if s.recorded != nil {
		s.recorded.Close()
	}
	s.recorded, s.subject = nil, nil
}

// pace waits a little for a program that answers, so that it never has more than
// a moment's keys before it. One that does not answer is let be.
func (s *settler) pace(ctx context.Context, p *program) error {
	if p.top == 0 || p.mute {
		return nil
	}
	err := s.asked(ctx, p.top, askedAfter)
	if errors.Is(err, platform.ErrHung) {
		p.mute, err = true, nil
	}
	return err
}

// settle returns when p has read every key pressed for w so far.
func (s *settler) settle(ctx context.Context, p *program, w xproto.Window) error {
	if p.top != 0 {
		return s.asked(ctx, p.top, hungAfter)
	}
	if s.recorded != nil && s.subject == p && !p.quiet {
		err := s.read(ctx, p, w)
		if !errors.Is(err, errQuiet) {
			return err
		}
		p.quiet = true
	}
	return s.grace(ctx, p)
}

// touch makes a change of the map that changes nothing.
func (s *settler) touch(ctx context.Context) error {
	return s.conn.Do(ctx, func() error {
		return xproto.ChangeKeyboardMappingChecked(s.conn.X, 1, xproto.Keycode(s.mark), 1, []xproto.Keysym{0}).Check()
	})
}

// read settles a program of Xt: it is when a change made from now on is handled.
func (s *settler) read(ctx context.Context, p *program, w xproto.Window) error {
	r := s.recorded
	begun := time.Now()
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	s.touches++
	from := s.touches // this one and those behind it
	if err := s.touch(ctx); err != nil {
		return err
	}
	for {
		r.mu.Lock()
		seen, done, covered := 0, false, false
		for i, code := range r.changes {
			if code != s.mark {
				continue
			}
			if seen++; seen >= from {
				done = done || i < r.handled
				covered = i < r.covered // of the last one
			}
		}
		known, arrived := r.fetched, seen == s.touches
		r.mu.Unlock()
		if done {
			return nil
		}
		// One that was made before the last reading causes none itself.
		if covered && arrived {
			s.touches++
			if err := s.touch(ctx); err != nil {
				return err
			}
		}
		select {
		case <-r.news:
		case <-look.C:
			switch {
			case !known && time.Since(begun) > quietAfter:
				return errQuiet
			case !s.exists(ctx, w):
				return nil
			case time.Since(begun) > hungAfter:
				return fmt.Errorf("x11: window %#x: %w", uint32(w), platform.ErrHung)
			}
		case <-r.ended:
			return nil // the program, or RECORD, is gone
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// grace settles a program of which only its lookups can be seen, if at all.
func (s *settler) grace(ctx context.Context, p *program) error {
	grace := 4 * leastGrace
	if r := s.recorded; r != nil && s.subject == p {
		looked := func() int {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.lookups
		}
		begun, before := time.Now(), looked()
		if err := s.touch(ctx); err != nil {
			return err
		}
		s.touches++
		if err := s.conn.Do(ctx, func() error { // a key that makes nothing
			s.conn.fakeKey(s.mark, true)
			s.conn.fakeKey(s.mark, false)
			return nil
		}); err != nil {
			return err
		}
		late := time.NewTimer(mostGrace)
		defer late.Stop()
		for waiting := true; waiting && looked() == before; {
			select {
			case <-r.news:
			case <-r.ended:
				waiting = false
			case <-late.C:
				waiting = false
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		grace = min(max(4*time.Since(begun), leastGrace), mostGrace)
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
