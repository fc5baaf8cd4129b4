package x11

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jezek/xgb/xproto"
	"github.com/jezek/xgb/xtest"

	"github.com/handrail-dev/handrail/platform"
)

// Input makes the events of a mouse and a keyboard by XTEST. It has a connection
// of its own, so that a large reply elsewhere never delays a click.
type Input struct {
	conn *Conn
	turn chan struct{}
	thaw time.Duration // thaw, which tests change; whoever has the turn reads it

	xkb      byte // major opcode
	xkbEvent byte

	// The keyboard's map, and how often somebody else changed it by then.
	keys    *keymap
	known   uint64
	foreign atomic.Uint64
	spare   *spareKeys
	settle  *settler
	// used are the programs that saw presses of spare keys since they were settled,
	// with the keys; stuck are those of them that do not answer.
	used  map[*program]map[byte]bool
	typed bool // text was typed, and nobody has asked since whether it was handled
	stuck map[*program]bool
	idle  *time.Timer // restores the spare keys
	rest  time.Duration

	held    []heldKey
	buttons []byte          // held, as XTEST numbers them
	mapping []byte          // of buttons: what each physical one does
	remap   atomic.Bool     // mapping is old
	over    context.Context // ends with Close
	finish  context.CancelFunc
}

// heldKey is one that Key holds, with the modifiers that it needed.
type heldKey struct {
	name  string
	codes []byte
}

var (
	_ platform.Input    = (*Input)(nil)
	_ platform.Follower = (*Input)(nil)
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

// NewInput connects to the display. An error is a *platform.MissingError, or that
// of ctx. What a killed program left of the keyboard is restored.
func NewInput(ctx context.Context, o Options) (*Input, error) {
	c, err := Dial(ctx, o)
	if err != nil {
		return nil, err
	}
	in := &Input{conn: c, thaw: thaw, turn: make(chan struct{}, 1), used: map[*program]map[byte]bool{}, stuck: map[*program]bool{}}
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
	if !e.Present {
		return &platform.MissingError{What: "The X server does not offer XTEST, which makes mouse and keyboard events.",
			Fix: "Start the X server without \"-tst\" and without \"-extension XTEST\"."}
	}
	if in.xkb, in.xkbEvent, err = in.conn.openXkb(ctx); errors.Is(err, errNoXkb) {
		return &platform.MissingError{What: "The X server does not offer XKEYBOARD, which describes the keyboard.",
			Fix: "Start the X server without \"-extension XKEYBOARD\"."}
	} else if err != nil {
		return err
	}
	// Healing comes before there is a window of ours: it may get the number that the
	// window of a killed program had.
	if err = healSpareKeys(ctx, in.conn, in.xkb); err != nil {
		return err
	}
	if in.spare, err = newSpareKeys(ctx, in.conn); err != nil {
		return err
	}
	in.conn.Hook(in.mapped)
	in.conn.xkbSelect(in.xkb)
	if in.settle, err = newSettler(ctx, in.conn, in.spare.window); err != nil {
		return err
	}
	in.remap.Store(true)
	return in.learn(ctx)
}

// mapped hears of changes of the keyboard's or the mouse's map: of the keyboard's
// by XKB, because who speaks that is told no other way.
//
//	core:          34, …, sequence:2, 4: what (2 buttons), …
//	XKB map:       first, 1, sequence:2, time:4, device, …, changed:2, 16: first key
//	               with new syms, how many, …
//	XKB keyboard:  first, 0, …
func (in *Input) mapped(e Event) {
	const mappingNotify, xkbMapNotify, xkbNewKeyboard = 34, 1, 0
	switch {
	case e.Code == mappingNotify && e.Data[4] == 2:
		in.remap.Store(true)
	case e.Code != in.xkbEvent:
	case e.Data[1] == xkbMapNotify:
		changed, first, n := binary.LittleEndian.Uint16(e.Data[10:]), e.Data[16], e.Data[17]
		if changed&(mapTypes|mapMods) != 0 || n != 1 || !in.spare.ours[first].Load() {
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
	keys, err := in.conn.xkbMap(ctx, in.xkb)
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
	done := make(chan error, 1)
	go func() {
		err := in.conn.fault(f(ctx))
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

func (c *Conn) fakeKey(code byte, down bool) {
	kind := byte(fakeKeyRelease)
	if down {
		kind = fakeKeyPress
	}
	xtest.FakeInput(c.X, kind, code, 0, 0, 0, 0, 0)
}

// Pointer gives the pointer's place.
func (in *Input) Pointer(ctx context.Context) (platform.Point, error) {
	r, err := Ask(ctx, in.conn, func() (*xproto.QueryPointerReply, error) {
		return xproto.QueryPointer(in.conn.X, in.conn.Root()).Reply()
	})
	if err != nil {
		return platform.Point{}, err
	}
	return platform.Point{X: int(r.RootX), Y: int(r.RootY)}, nil
}

// Move moves the pointer. A place beyond the desktop becomes the nearest on it; a
// program that holds the pointer elsewhere is an error.
func (in *Input) Move(ctx context.Context, to platform.Point) error {
	wide, high := int(in.conn.Screen.WidthInPixels), int(in.conn.Screen.HeightInPixels)
	const most = 1<<15 - 1
	x, y := int16(min(max(to.X, 0), most)), int16(min(max(to.Y, 0), most))
	return in.do(ctx, func(ctx context.Context) error {
		r, err := Ask(ctx, in.conn, func() (*xproto.QueryPointerReply, error) {
			xtest.FakeInput(in.conn.X, fakeMotion, 0, 0, in.conn.Root(), x, y, 0)
			return xproto.QueryPointer(in.conn.X, in.conn.Root()).Reply()
		})
		if err != nil {
			return err
		}
		// The screen may have grown since the connection was made: then a place beyond
		// the old size that was reached is right, too.
		near := func(is int16, want, size int) bool { return int(is) == want || want < 0 || want >= size }
		there := func() bool { return near(r.RootX, to.X, wide) && near(r.RootY, to.Y, high) }
		if there() {
			return nil
		}
		// A window manager that looks at a press first stops the pointer for the while;
		// what moves it then waits in the server and is carried out when it goes on.
		frozen := time.NewTimer(in.thaw)
		defer frozen.Stop()
		look := time.NewTicker(2 * time.Millisecond)
		defer look.Stop()
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-frozen.C:
				return fmt.Errorf("x11: something holds the pointer at %d,%d", r.RootX, r.RootY)
			case <-look.C:
			}
			r, err = Ask(ctx, in.conn, func() (*xproto.QueryPointerReply, error) {
				return xproto.QueryPointer(in.conn.X, in.conn.Root()).Reply()
			})
			if err != nil || there() {
				return err
			}
		}
	})
}

// Behind waits for the program under the pointer, as platform.Follower says.
func (in *Input) Behind(ctx context.Context) (took time.Duration, err error) {
	err = in.do(ctx, func(ctx context.Context) error {
		w, err := in.under(ctx)
		if err != nil || w == in.conn.Root() {
			return err
		}
		p, err := in.settle.of(ctx, w)
		if err != nil || p.top == 0 || p.mute {
			return err
		}
		began := time.Now()
		err = in.settle.pace(ctx, p)
		took = time.Since(began)
		return err
	})
	return took, err
}

// under gives the innermost window under the pointer; the root if there is none.
func (in *Input) under(ctx context.Context) (xproto.Window, error) {
	w := in.conn.Root()
	for range 32 {
		r, err := Ask(ctx, in.conn, func() (*xproto.QueryPointerReply, error) { return xproto.QueryPointer(in.conn.X, w).Reply() })
		if err != nil {
			return 0, err
		}
		if r.Child == 0 {
			break
		}
		w = r.Child
	}
	return w, nil
}

// thaw is how long a press may be looked at by somebody before the pointer goes on.
// Window managers read the whole keyboard anew for each key that was lent, and look
// at no press before they have done so: on a busy machine that takes seconds.
const thaw = 10 * time.Second

// logical are X's numbers of buttons by what they do.
var logical = map[platform.Button]byte{
	platform.ButtonLeft: 1, platform.ButtonMiddle: 2, platform.ButtonRight: 3, platform.ButtonBack: 8, platform.ButtonForward: 9,
}

// physical gives the button that does what number stands for: they differ where a
// person swapped them.
func (in *Input) physical(ctx context.Context, number byte) (byte, error) {
	if in.remap.Load() {
		in.remap.Store(false)
		r, err := Ask(ctx, in.conn, func() (*xproto.GetPointerMappingReply, error) { return xproto.GetPointerMapping(in.conn.X).Reply() })
		if err != nil {
			in.remap.Store(true)
			return 0, err
		}
		in.mapping = r.Map
	}
	i := slices.Index(in.mapping, number)
	if i < 0 {
		return 0, fmt.Errorf("x11: the mouse has no button %d", number)
	}
	return byte(i + 1), nil
}

// Button presses or releases a button. Releasing what is not held does nothing.
func (in *Input) Button(ctx context.Context, b platform.Button, down bool) error {
	number, ok := logical[b]
	if !ok {
		return fmt.Errorf("x11: no button is named %.20q", string(b))
	}
	return in.do(ctx, func(ctx context.Context) error {
		code, err := in.physical(ctx, number)
		if err != nil {
			return err
		}
		kind := byte(fakeButtonRelease)
		if in.buttons = slices.DeleteFunc(in.buttons, func(held byte) bool { return held == code }); down {
			kind = fakeButtonPress
			in.buttons = append(in.buttons, code)
		}
		return in.conn.Do(context.WithoutCancel(ctx), func() error {
			return xtest.FakeInputChecked(in.conn.X, kind, code, 0, 0, 0, 0, 0).Check()
		})
	})
}

// Scroll turns the wheel, which is buttons 4 to 7.
func (in *Input) Scroll(ctx context.Context, right, down int) error {
	return in.do(ctx, func(ctx context.Context) error {
		for _, axis := range []struct {
			clicks     int
			back, fore byte
		}{{down, 4, 5}, {right, 6, 7}} {
			number := axis.fore
			if axis.clicks < 0 {
				number, axis.clicks = axis.back, -axis.clicks
			}
			if axis.clicks == 0 {
				continue
			}
			code, err := in.physical(ctx, number)
			for range axis.clicks {
				if err == nil {
					err = in.conn.Do(ctx, func() error {
						xtest.FakeInput(in.conn.X, fakeButtonPress, code, 0, 0, 0, 0, 0)
						return xtest.FakeInputChecked(in.conn.X, fakeButtonRelease, code, 0, 0, 0, 0, 0).Check()
					})
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Key presses or releases a key. A character that needs Shift or AltGr has them
// held with it, unless they are already.
func (in *Input) Key(ctx context.Context, name string, down bool) error {
	syms, char, err := symsOfName(name)
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
				in.conn.fakeKey(code, true)
			}
			return xtest.FakeInputChecked(in.conn.X, fakeKeyPress, codes[len(codes)-1], 0, 0, 0, 0, 0).Check()
		})
	})
}

// caughtUp waits until the program with the focus has done what was typed into it. Qt
// carries out shortcuts when it reads them, before the text that it has read and not
// handled: Control+S saved a file without the end of its text. It answers a second
// question only after it has handled what came before the first.
func (in *Input) caughtUp(ctx context.Context) error {
	if !in.typed {
		return nil
	}
	in.typed = false
	w, err := in.target(ctx)
	if err != nil {
		return ctx.Err() // nobody has the focus
	}
	p, err := in.settle.of(ctx, w)
	if err != nil {
		return err
	}
	for range 2 {
		if err := in.settle.pace(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// lift releases keys, the last pressed first.
func (in *Input) lift(ctx context.Context, codes []byte) error {
	ctx = context.WithoutCancel(ctx)
	return in.conn.Do(ctx, func() error {
		for _, code := range slices.Backward(codes) {
			in.conn.fakeKey(code, false)
		}
		return in.conn.Sync(ctx)
	})
}

// keyFor gives the keys to press for one of syms, the last of them its own.
func (in *Input) keyFor(ctx context.Context, syms []uint32, char bool) ([]byte, error) {
	if err := in.learn(ctx); err != nil {
		return nil, err
	}
	state, err := in.conn.xkbState(ctx, in.xkb)
	if err != nil {
		return nil, err
	}
	if char {
		locked := state.locked &^ modLock
		if s, ok := in.keys.strokes(state.group, locked)[syms[0]]; ok {
			var codes []byte
			for _, mod := range s.mods {
				if in.keys.modifies[mod]&state.held == 0 {
					codes = append(codes, mod)
				}
			}
			return append(codes, s.code), nil
		}
	}
	for _, sym := range syms {
		for code := int(in.keys.first); code <= int(in.keys.last); code++ {
			if in.keys.plain(byte(code), sym) && !in.spare.ours[code].Load() {
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
		in.held, in.buttons = nil, nil
		ctx = context.WithoutCancel(ctx)
		err := in.conn.Do(ctx, func() error {
			for _, code := range slices.Backward(buttons) {
				xtest.FakeInput(in.conn.X, fakeButtonRelease, code, 0, 0, 0, 0, 0)
			}
			for _, h := range slices.Backward(held) {
				for _, code := range slices.Backward(h.codes) {
					in.conn.fakeKey(code, false)
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
