package input

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jezek/xgb/xproto"
	"github.com/jezek/xgb/xtest"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/x11/keyboard"
	"github.com/handrail-dev/handrail/platform/x11/wire"
)

// Input makes the events of a mouse and a keyboard by XTEST. It has a connection
// of its own, so that a large reply elsewhere never delays a click.
type Input struct {
	conn *wire.Conn
	turn chan struct{}
	thaw time.Duration // thaw, which tests change; whoever has the turn reads it

	xkb *keyboard.XKB

	// The keyboard's map, and how often somebody else changed it by then.
	keys    *keyboard.Map
	known   uint64
	foreign atomic.Uint64
	spare   *spareKeys
	settle  *settler
	// used are the programs that saw presses of spare keys since they were settled,
	// with the keys; stuck are those of them that do not answer.
	used  map[*program]map[byte]bool
	typed bool                                     // text was typed, and nobody has asked since whether it was handled
	late  func(ctx context.Context, pid int) error // handled of New
	pid   xproto.Atom                              // _NET_WM_PID
	stuck map[*program]bool
	idle  *time.Timer // restores the spare keys
	rest  time.Duration

	held    []heldKey
	buttons []heldButton // in the order of their presses
	//lint:ignore containedctx the life of the input
	over   context.Context // ends with Close
	finish context.CancelFunc
}

// heldKey is one that Key holds, with the modifiers that it needed.
type heldKey struct {
	name  string
	codes []byte
}

var (
	_ platform.Input    = (*Input)(nil)
	_ platform.Follower = (*Input)(nil)
	_ platform.Placer   = (*Input)(nil)
)

// XTEST's kinds of event.
const (
	fakeKeyPress      = 2
	fakeKeyRelease    = 3
	fakeButtonPress   = 4
	fakeButtonRelease = 5
	fakeMotion        = 6
)

// restoreAfter is how long spare keys keep their characters after the last use:
// what is typed in several calls is typed faster.
const restoreAfter = 2 * time.Second

// New connects to the display. An error is a *platform.MissingError, or that of ctx. Keys that
// a killed program left behind are restored. handled waits until the program of that process has
// handled the keys that it read, for programs that hand keys to others first; nil: none does.
func New(ctx context.Context, o wire.Options, handled func(ctx context.Context, pid int) error) (*Input, error) {
	c, err := wire.Dial(ctx, o)
	if err != nil {
		return nil, err
	}
	in := &Input{
		conn: c, thaw: thaw, late: handled, turn: make(chan struct{}, 1), used: map[*program]map[byte]bool{}, stuck: map[*program]bool{},
	}
	if err = in.open(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	in.over, in.finish = context.WithCancel(context.Background())
	in.turn <- struct{}{}
	return in, nil
}

func (in *Input) open(ctx context.Context) error {
	e, err := in.conn.Extension(ctx, "XTEST")
	if err != nil {
		return err
	}
	if in.pid, err = in.conn.Atom(ctx, "_NET_WM_PID"); err != nil {
		return err
	}
	if !e.Present {
		return &platform.MissingError{What: "The X server does not offer XTEST, which makes mouse and keyboard events.",
			Fix: "Start the X server without \"-tst\" and without \"-extension XTEST\"."}
	}
	if in.xkb, err = keyboard.Open(ctx, in.conn); errors.Is(err, keyboard.ErrNoXKB) {
		return &platform.MissingError{What: "The X server does not offer XKEYBOARD, which describes the keyboard.",
			Fix: "Start the X server without \"-extension XKEYBOARD\"."}
	} else if err != nil {
		return err
	}
	if in.spare, err = newSpareKeys(ctx, in.conn, in.xkb); err != nil {
		return err
	}
	in.conn.Hook(in.mapped)
	in.xkb.Listen()
	if in.settle, err = newSettler(ctx, in.conn, in.spare.window); err != nil {
		return err
	}
	return in.learn(ctx)
}

// mapped hears of changes of the keyboard's map by XKB, because who speaks that is
// told no other way.
//
//	XKB map:       first, 1, sequence:2, time:4, device, …, changed:2, 16: first key
//	               with new syms, how many, …
//	XKB keyboard:  first, 0, …
func (in *Input) mapped(e wire.Event) {
	const xkbMapNotify, xkbNewKeyboard = 1, 0
	switch {
	case e.Code != in.xkb.Event:
	case e.Data[1] == xkbMapNotify:
		changed, first, n := binary.LittleEndian.Uint16(e.Data[10:]), e.Data[16], e.Data[17]
		if in.spare.asked.Load() == askedFor(first, n) { // the screen's keyboard tells of it, and XTEST's
			return
		}
		if changed&(keyboard.MapTypes|keyboard.MapMods) != 0 || n != 1 || !in.spare.ours[first].Load() {
			in.foreign.Add(1)
		}
	case e.Data[1] == xkbNewKeyboard:
		in.foreign.Add(1)
	}
}

// learn reads the keyboard anew if somebody changed it.
func (in *Input) learn(ctx context.Context) error {
	now := in.foreign.Load()
	if in.keys != nil && in.known == now {
		return nil
	}
	keys, err := in.spare.read(ctx)
	if err != nil {
		return err
	}
	in.keys, in.known = keys, now
	in.spare.survey(keys)
	in.spare.ours[in.spare.mark].Store(true)
	return nil
}

// do runs f when it is its turn. f ends soon after its ctx does, unless the server
// hangs; then do leaves it behind, and the next one waits for it.
func (in *Input) do(ctx context.Context, f func(ctx context.Context) error) error {
	select {
	case <-in.turn:
	case <-ctx.Done():
		return ctx.Err()
	case <-in.conn.Lost():
		return platform.ErrLost
	}
	if err := ctx.Err(); err != nil { // both were so: a call that ended gets nothing done
		in.turn <- struct{}{}
		return err
	}
	done := make(chan error, 1)
	go func() {
		err := in.conn.Fault(f(ctx))
		in.turn <- struct{}{}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	leave := time.NewTimer(100 * time.Millisecond)
	defer leave.Stop()
	select {
	case err := <-done:
		return err
	case <-leave.C:
		return ctx.Err()
	}
}

// fakeKey presses or releases a key.
func fakeKey(c *wire.Conn, code byte, down bool) {
	kind := byte(fakeKeyRelease)
	if down {
		kind = fakeKeyPress
	}
	xtest.FakeInput(c.X, kind, code, 0, 0, 0, 0, 0)
}

// Key presses or releases a key. A character that needs Shift or AltGr has them
// held with it, unless they are already.
func (in *Input) Key(ctx context.Context, name string, down bool) error {
	syms, char, err := keyboard.SymsOfName(name)
	if err != nil {
		return err
	}
	return in.do(ctx, func(ctx context.Context) error {
		same := func(h heldKey) bool { return strings.EqualFold(h.name, name) && (!char || h.name == name) }
		if i := slices.IndexFunc(in.held, same); i >= 0 {
			if down {
				return nil
			}
			h := in.held[i]
			in.held = slices.Delete(in.held, i, i+1)
			return in.lift(ctx, h.codes)
		}
		if !down {
			return nil
		}
		if err := in.caughtUp(ctx); err != nil {
			return err
		}
		codes, err := in.keyFor(ctx, syms, char)
		if err != nil {
			return err
		}
		in.held = append(in.held, heldKey{name, codes})
		return in.conn.Do(context.WithoutCancel(ctx), func() error {
			for _, code := range codes[:len(codes)-1] {
				fakeKey(in.conn, code, true)
			}
			return xtest.FakeInputChecked(in.conn.X, fakeKeyPress, codes[len(codes)-1], 0, 0, 0, 0, 0).Check()
		})
	})
}

// caughtUp waits until the program with the focus has done what was typed into it:
// Qt carries out shortcuts, and clicks, when it reads them, before text that it has
// read and not handled. Control+S saved a file without the end of its text.
func (in *Input) caughtUp(ctx context.Context) error {
	if !in.typed {
		return nil
	}
	if w, err := in.target(ctx); err == nil {
		p, err := in.settle.of(ctx, w)
		if err == nil {
			err = in.settle.caughtUp(ctx, p)
		}
		if err == nil {
			err = in.handled(ctx, p)
		}
		if err != nil {
			return err
		}
	} else if ctx.Err() != nil {
		return ctx.Err()
	}
	in.typed = false // also when nobody has the focus
	return nil
}

// handled waits for a program that hands the keys it read to others first.
func (in *Input) handled(ctx context.Context, p *program) error {
	w := cmp.Or(p.top, p.shell)
	if in.late == nil || w == 0 {
		return nil
	}
	r, err := wire.Ask(ctx, in.conn, func() (*xproto.GetPropertyReply, error) {
		return xproto.GetProperty(in.conn.X, false, w, in.pid, xproto.AtomCardinal, 0, 1).Reply()
	})
	if err != nil || len(r.Value) < 4 {
		return ctx.Err() // it is gone, or does not say
	}
	limited, cancel := context.WithTimeout(ctx, hungAfter)
	defer cancel()
	return in.late(limited, int(binary.LittleEndian.Uint32(r.Value)))
}

// lift releases keys, the last pressed first.
func (in *Input) lift(ctx context.Context, codes []byte) error {
	ctx = context.WithoutCancel(ctx)
	return in.conn.Do(ctx, func() error {
		for _, code := range slices.Backward(codes) {
			fakeKey(in.conn, code, false)
		}
		return in.conn.Sync(ctx)
	})
}

// keyFor returns the keys to press for one of syms, the last of them its own.
func (in *Input) keyFor(ctx context.Context, syms []uint32, char bool) ([]byte, error) {
	if err := in.learn(ctx); err != nil {
		return nil, err
	}
	state, err := in.xkb.State(ctx)
	if err != nil {
		return nil, err
	}
	if char {
		locked := state.Locked &^ keyboard.ModLock
		if s, ok := in.keys.Strokes(state.Group, locked)[syms[0]]; ok {
			var codes []byte
			for _, mod := range s.Mods {
				if in.keys.Modifies[mod]&state.Held == 0 {
					codes = append(codes, mod)
				}
			}
			return append(codes, s.Code), nil
		}
	}
	for _, sym := range syms {
		for code := int(in.keys.First); code <= int(in.keys.Last); code++ {
			if in.keys.Plain(byte(code), sym) && !in.spare.ours[code].Load() {
				return []byte{byte(code)}, nil
			}
		}
	}
	// The keyboard does not have it.
	target, err := in.target(ctx)
	if err != nil {
		return nil, err
	}
	if err := in.lend(ctx, target, syms[:1]); err != nil {
		return nil, err
	}
	in.restoreLater()
	code, _ := in.spare.find(syms[0])
	return []byte{code}, nil
}

// Release lets go of everything that is held.
func (in *Input) Release(ctx context.Context) error {
	return in.do(ctx, func(ctx context.Context) error {
		held, buttons := in.held, in.buttons
		if len(held)+len(buttons) == 0 {
			return nil // whatever went down came up, and the server has said so
		}
		in.held, in.buttons = nil, nil
		ctx = context.WithoutCancel(ctx)
		err := in.conn.Do(ctx, func() error {
			for _, b := range slices.Backward(buttons) {
				xtest.FakeInput(in.conn.X, fakeButtonRelease, b.code, 0, 0, 0, 0, 0)
			}
			for _, h := range slices.Backward(held) {
				for _, code := range slices.Backward(h.codes) {
					fakeKey(in.conn, code, false)
				}
			}
			return nil
		})
		if err == nil {
			err = in.conn.Sync(ctx)
		}
		if err != nil { // not known to be let go
			in.held, in.buttons = held, buttons
		}
		return err
	})
}

// Close lets go of everything, restores the keyboard and disconnects.
func (in *Input) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	in.finish()
	err := in.Release(ctx)
	if err == nil {
		err = in.do(ctx, in.giveBack)
	}
	_ = in.conn.Close()
	if errors.Is(err, platform.ErrLost) {
		err = nil
	}
	return err
}
