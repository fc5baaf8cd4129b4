package input

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/jezek/xgb/xproto"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/x11/keyboard"
	"github.com/handrail-dev/handrail/platform/x11/wire"
)

// How text is typed. A character that the keyboard makes, with Shift or AltGr, is pressed as a
// person presses it. Other characters are lent to spare keys (spare.go), as many as there are, and
// typed up to the first one that finds no key; then the program that gets the keys is settled
// (settle.go), and the keys are lent anew. CapsLock and other locks are undone for as long as it
// takes.

// burst is how many characters are typed before the program is asked to keep up:
// so few that what is still to come when the person interferes is over at once.
const burst = 48

// heldWait is how long typing waits for keys that the person holds.
const heldWait = 1500 * time.Millisecond

// undoLocks are the locked modifiers that change what is typed.
const undoLocks = keyboard.ModShift | keyboard.ModLock | keyboard.ModControl | keyboard.ModAlt | keyboard.ModSuper

// Type types text. It fails before the first key for text that cannot be typed.
func (in *Input) Type(ctx context.Context, text string) (int, error) {
	if !utf8.ValidString(text) {
		return 0, fmt.Errorf("the text is not valid UTF-8: %w", platform.ErrUntypable)
	}
	var syms []uint32
	for i, r := range []rune(text) {
		sym, ok := keyboard.SymOfRune(r)
		if !ok {
			return 0, fmt.Errorf("character %d of the text is a control character: %w", i+1, platform.ErrUntypable)
		}
		syms = append(syms, sym)
	}
	if len(syms) == 0 {
		return 0, nil
	}
	var done atomic.Int64
	err := in.do(ctx, func(ctx context.Context) error { return in.typeSyms(ctx, syms, &done) })
	return int(done.Load()), err
}

func (in *Input) typeSyms(ctx context.Context, syms []uint32, done *atomic.Int64) (err error) {
	state, err := in.ready(ctx)
	if err != nil {
		return err
	}
	if err := in.learn(ctx); err != nil {
		return err
	}
	strokes := in.keys.Strokes(state.Group, state.Locked&^undoLocks)
	lacking := func(sym uint32) bool { _, ok := strokes[sym]; return !ok }
	target, err := in.target(ctx)
	if err != nil {
		return err
	}
	lends := slices.ContainsFunc(syms, lacking)
	if lends {
		if err := in.passOver(ctx, target); err != nil {
			return err
		}
	}
	keep := in.keep()
	if lends && in.spare.room(keep) == 0 {
		if len(in.stuck) > 0 {
			return fmt.Errorf("x11: all spare keys are lent to a program that stands still: %w", platform.ErrHung)
		}
		return fmt.Errorf("the keyboard lacks a character of the text and has no key to spare: %w", platform.ErrUntypable)
	}
	if locked := state.Locked & undoLocks; locked != 0 || state.Latched != 0 {
		in.xkb.Lock(locked, 0)
		defer func() {
			if locked != 0 {
				in.xkb.Lock(locked, locked)
			}
		}()
	}
	defer in.restoreLater()
	in.typed = true
	known := in.known // what changed since the map was read counts, however early
	for len(syms) > 0 {
		// As much as the spare keys allow, and no more than a burst.
		var lend []uint32
		n := 0
		for n < len(syms) && n < burst {
			if sym := syms[n]; lacking(sym) && !slices.Contains(lend, sym) {
				if len(lend) == in.spare.room(keep) {
					break
				}
				lend = append(lend, sym)
			}
			n++
		}
		if len(lend) > 0 {
			if err := in.lend(ctx, target, lend); err != nil {
				return err
			}
		}
		target, err = in.press(ctx, target, syms[:n], strokes, len(lend) > 0, done)
		if err != nil {
			return err
		}
		syms = syms[n:]
		if len(syms) > 0 {
			p, err := in.settle.of(ctx, target)
			if err == nil {
				err = in.settle.pace(ctx, p)
			}
			if err != nil {
				return err
			}
		}
		ok, err := in.spare.still(ctx)
		if err != nil {
			return err
		}
		if ok && in.foreign.Load() != known {
			// Another keyboard's turn changes nothing.
			known = in.foreign.Load()
			ok, err = in.unchanged(ctx)
			if err != nil {
				return err
			}
		}
		if !ok {
			return errors.New("x11: the keyboard's layout was changed while text was typed: what arrived is not known")
		}
	}
	return nil
}

// unchanged tells whether the keyboard still is as it was learnt, but for keys of
// ours.
func (in *Input) unchanged(ctx context.Context) (bool, error) {
	now, err := in.spare.read(ctx)
	if err != nil {
		return false, err
	}
	for code := range now.Keys {
		if !in.spare.ours[code].Load() && !slices.Equal(now.Keys[code].Syms, in.keys.Keys[code].Syms) {
			return false, nil
		}
	}
	return true, nil
}

// ready waits until no modifier is held, and returns the keyboard's state. A person may rest on a
// key; what is typed then would be other things.
func (in *Input) ready(ctx context.Context) (keyboard.State, error) {
	// The release of a key that is not down does nothing but make XTEST's keyboard
	// the current one, whose map may differ from that of the person's.
	if in.spare.mark != 0 {
		fakeKey(in.conn, in.spare.mark, false)
	}
	begun := time.Now()
	for {
		state, err := in.xkb.State(ctx)
		if err != nil || state.Held == 0 {
			return state, err
		}
		if time.Since(begun) > heldWait {
			return state, fmt.Errorf("a modifier key such as Shift or Control is held down: %w", platform.ErrUntypable)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return state, ctx.Err()
		}
	}
}

// target returns the window that gets the keys.
func (in *Input) target(ctx context.Context) (xproto.Window, error) {
	r, err := wire.Ask(ctx, in.conn, func() (*xproto.GetInputFocusReply, error) { return xproto.GetInputFocus(in.conn.X).Reply() })
	if err != nil {
		return 0, err
	}
	return in.focus(ctx, r.Focus)
}

// focus finds the window behind the server's answer: 0 is none, 1 is whatever is
// under the pointer.
func (in *Input) focus(ctx context.Context, w xproto.Window) (xproto.Window, error) {
	switch w {
	case 0:
		return 0, fmt.Errorf("no window has the keyboard's focus: %w", platform.ErrUntypable)
	case 1:
		var err error
		if w, err = in.under(ctx); err != nil {
			return 0, err
		}
		if w == in.conn.Root() {
			return 0, fmt.Errorf("no window has the keyboard's focus, and none is under the pointer: %w", platform.ErrUntypable)
		}
	}
	return w, nil
}

// lend returns spare keys to what the keyboard lacks, and returns when the program
// of target knows.
func (in *Input) lend(ctx context.Context, target xproto.Window, syms []uint32) error {
	missing := slices.ContainsFunc(syms, func(sym uint32) bool { _, ok := in.spare.find(sym); return !ok })
	p, err := in.settle.of(ctx, target)
	if err != nil || !missing {
		return err
	}
	if !in.spare.fresh(syms) {
		if err := in.settled(ctx); err != nil {
			return err
		}
	}
	if err := in.spare.bind(ctx, syms, in.keep()); err != nil {
		return err
	}
	// The change is before the presses in every queue. But Chromium also asks GTK,
	// which has a queue of its own: one answer later both were read.
	if p.top != 0 && !p.mute {
		return in.settle.pace(ctx, p)
	}
	return nil
}

// passOver asks the programs that keys were typed into before, but target's,
// whether they are done. One that is not holds up nobody: its keys are left as
// they are.
func (in *Input) passOver(ctx context.Context, target xproto.Window) error {
	now, err := in.settle.of(ctx, target)
	if err != nil {
		return err
	}
	delete(in.stuck, now)
	for p := range in.used {
		if p == now {
			continue
		}
		soon, cancel := context.WithTimeout(ctx, askedAfter)
		err := in.settle.settle(soon, p)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if in.stuck[p] = err != nil; err == nil {
			delete(in.used, p)
			delete(in.stuck, p)
		}
	}
	return nil
}

// settled returns when no program but the stuck ones has presses of spare keys in
// its queue.
func (in *Input) settled(ctx context.Context) error {
	for p := range in.used {
		if in.stuck[p] {
			continue
		}
		if err := in.settle.settle(ctx, p); err != nil {
			return err
		}
		delete(in.used, p)
	}
	return nil
}

// press presses the keys of syms, and returns the window that has the focus then.
func (in *Input) press(ctx context.Context, target xproto.Window, syms []uint32, strokes map[uint32]keyboard.Stroke, spare bool,
	done *atomic.Int64) (xproto.Window, error) {
	use := func(w xproto.Window) error {
		if !spare {
			return nil
		}
		p, err := in.settle.of(ctx, w)
		if err != nil {
			return err
		}
		if in.used[p] == nil {
			in.used[p] = map[byte]bool{}
		}
		for code := range in.spare.bound {
			in.used[p][code] = true
		}
		return nil
	}
	if err := use(target); err != nil {
		return target, err
	}
	// A character that was begun is ended: the next one would come between.
	r, err := wire.Ask(context.WithoutCancel(ctx), in.conn, func() (*xproto.GetInputFocusReply, error) {
		var mods []byte
		hold := func(want []byte) {
			if slices.Equal(mods, want) {
				return
			}
			for _, code := range slices.Backward(mods) {
				fakeKey(in.conn, code, false)
			}
			for _, code := range want {
				fakeKey(in.conn, code, true)
			}
			mods = want
		}
		for _, sym := range syms {
			if ctx.Err() != nil {
				break
			}
			s, ok := strokes[sym]
			if !ok {
				s.Code, _ = in.spare.find(sym)
			}
			hold(s.Mods)
			fakeKey(in.conn, s.Code, true)
			fakeKey(in.conn, s.Code, false)
			done.Add(1)
		}
		hold(nil)
		return xproto.GetInputFocus(in.conn.X).Reply()
	})
	if err != nil {
		return target, err
	}
	if err := ctx.Err(); err != nil {
		return target, err
	}
	// Keys may have moved the focus.
	if r.Focus == target {
		return target, nil
	}
	now, err := in.focus(ctx, r.Focus)
	if err != nil {
		return target, nil // the last of them closed the window
	}
	return now, use(now)
}

// keep lists the spare keys that Key holds, or that a stuck program has to come by.
func (in *Input) keep() map[byte]bool {
	keep := map[byte]bool{}
	for p := range in.stuck {
		maps.Copy(keep, in.used[p])
	}
	for _, h := range in.held {
		for _, code := range h.codes {
			keep[code] = true
		}
	}
	return keep
}

// restoreLater has the spare keys restored when nothing was typed for a while.
func (in *Input) restoreLater() {
	if len(in.spare.bound) == 0 {
		return
	}
	if in.idle != nil {
		in.idle.Stop()
	}
	in.rest = restoreAfter
	in.restoreIn(in.rest)
}

// restoreIn tries after d, and less and less often where a program stands still or
// the hands are busy. Nobody who types waits for it long.
func (in *Input) restoreIn(d time.Duration) {
	var self *time.Timer // read by whose turn it is, as it is set
	self = time.AfterFunc(d, func() {
		ctx, cancel := context.WithTimeout(in.over, askedAfter)
		defer cancel()
		if err := in.do(ctx, in.giveBack); err != nil && in.over.Err() == nil {
			_ = in.do(in.over, func(context.Context) error {
				// Nothing was tried if it was somebody else's turn all the while; who typed
				// then has set another one.
				if (in.idle == nil || in.idle == self) && len(in.spare.bound) > 0 {
					in.rest = min(2*in.rest, time.Minute)
					in.restoreIn(in.rest)
				}
				return nil
			})
		}
	})
	in.idle = self
}

// giveBack restores the spare keys, when every program has read its presses of
// them.
func (in *Input) giveBack(ctx context.Context) error {
	if in.idle != nil {
		in.idle.Stop()
		in.idle = nil
	}
	if len(in.spare.bound) == 0 {
		return nil
	}
	clear(in.stuck)
	if err := in.settled(ctx); err != nil && in.over.Err() == nil {
		return err // tried again later
	}
	clear(in.used)
	return in.spare.restore(context.WithoutCancel(ctx), in.keep())
}
