package input

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jezek/xgb/xproto"
	"github.com/jezek/xgb/xtest"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/x11/wire"
)

// Pointer returns the pointer's place.
func (in *Input) Pointer(ctx context.Context) (platform.Point, error) {
	r, err := in.query(ctx)
	if err != nil {
		return platform.Point{}, err
	}
	return platform.Point{X: int(r.RootX), Y: int(r.RootY)}, nil
}

// Move moves the pointer. A place beyond the desktop becomes the nearest on it; a
// program that holds the pointer elsewhere is an error.
func (in *Input) Move(ctx context.Context, to platform.Point) error {
	_, err := in.MoveTo(ctx, to)
	return err
}

// MoveTo is Move, and returns where the server then has the pointer.
func (in *Input) MoveTo(ctx context.Context, to platform.Point) (at platform.Point, err error) {
	wide, high := int(in.conn.Screen.WidthInPixels), int(in.conn.Screen.HeightInPixels)
	const most = 1<<15 - 1
	x, y := int16(min(max(to.X, 0), most)), int16(min(max(to.Y, 0), most))
	var seen atomic.Pointer[xproto.QueryPointerReply] // do may leave what it runs behind
	err = in.do(ctx, func(ctx context.Context) error {
		// Not by Ask: do leaves a server that hangs behind, and this is what is done most.
		xtest.FakeInput(in.conn.X, fakeMotion, 0, 0, in.conn.Root(), x, y, 0)
		r, err := xproto.QueryPointer(in.conn.X, in.conn.Root()).Reply()
		if err != nil {
			return err
		}
		// The screen may have grown since the connection was made: then a place beyond
		// the old size that was reached is right, too.
		seen.Store(r)
		near := func(is int16, want, size int) bool { return int(is) == want || want < 0 || want >= size }
		there := func(r *xproto.QueryPointerReply) bool { return near(r.RootX, to.X, wide) && near(r.RootY, to.Y, high) }
		if there(r) {
			return nil
		}
		// A window manager that looks at a press first stops the pointer for the while;
		// what moves it then waits in the server and is carried out when it goes on.
		if r, err = in.until(ctx, r, there); r != nil {
			seen.Store(r)
		}
		return err
	})
	if r := seen.Load(); err == nil && r != nil {
		at = platform.Point{X: int(r.RootX), Y: int(r.RootY)}
	}
	return at, err
}

// until asks for the pointer, which was r a moment ago, until it is so, or thaw is over.
func (in *Input) until(ctx context.Context, r *xproto.QueryPointerReply,
	so func(*xproto.QueryPointerReply) bool) (*xproto.QueryPointerReply, error) {
	frozen := time.NewTimer(in.thaw)
	defer frozen.Stop()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return r, ctx.Err()
		case <-frozen.C:
			return r, fmt.Errorf("x11: something holds the pointer at %d,%d", r.RootX, r.RootY)
		case <-look.C:
		}
		now, err := in.query(ctx)
		if err != nil || so(now) {
			return now, err
		}
		r = now
	}
}

func (in *Input) query(ctx context.Context) (*xproto.QueryPointerReply, error) {
	return wire.Ask(ctx, in.conn, func() (*xproto.QueryPointerReply, error) {
		return xproto.QueryPointer(in.conn.X, in.conn.Root()).Reply()
	})
}

// shows waits until the screen's pointer has a button down, or up. That may be later
// than XTEST's own device: while a window manager looks at a press, the pointer stands
// still, and what follows waits. The server drops a release that it comes by while
// the button is down again on the device, and then the press that follows, which finds
// the button down: of two clicks one would be left, and nobody told.
func (in *Input) shows(ctx context.Context, number byte, down bool) error {
	if number > 5 {
		return nil // the protocol tells of no more
	}
	so := func(r *xproto.QueryPointerReply) bool { return (r.Mask>>(7+number)&1 == 1) == down }
	r, err := in.query(ctx)
	if err == nil && !so(r) {
		_, err = in.until(ctx, r, so)
	}
	return err
}

// Behind waits for the program under the pointer, as platform.Follower says.
func (in *Input) Behind(ctx context.Context) (took time.Duration, err error) {
	err = in.do(ctx, func(ctx context.Context) error {
		w, err := in.under(ctx)
		if err != nil || w == in.conn.Root() {
			return err
		}
		p, err := in.settle.of(ctx, w)
		if err != nil || p.top == 0 || p.mute && time.Since(p.muted) < askedAgain {
			return err
		}
		p.mute = false // it may only have been busy, and what is lost of a gesture is lost for good
		began := time.Now()
		err = in.settle.pace(ctx, p)
		took = time.Since(began)
		return err
	})
	return took, err
}

// under returns the innermost window under the pointer; the root if there is none.
func (in *Input) under(ctx context.Context) (xproto.Window, error) {
	w := in.conn.Root()
	for range 32 {
		r, err := wire.Ask(ctx, in.conn, func() (*xproto.QueryPointerReply, error) { return xproto.QueryPointer(in.conn.X, w).Reply() })
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

// heldButton is a button that is down: what it does, and its number in XTEST.
type heldButton struct{ number, code byte }

// logical are X's numbers of buttons by what they do.
var logical = map[platform.Button]byte{
	platform.ButtonLeft: 1, platform.ButtonMiddle: 2, platform.ButtonRight: 3, platform.ButtonBack: 8, platform.ButtonForward: 9,
}

// physical returns the button that does what number stands for: they differ where a
// person swapped them. The server is asked each time: it tells of a swap, too, but
// nobody knows when that is read.
func (in *Input) physical(ctx context.Context, number byte) (byte, error) {
	r, err := wire.Ask(ctx, in.conn, func() (*xproto.GetPointerMappingReply, error) { return xproto.GetPointerMapping(in.conn.X).Reply() })
	if err != nil {
		return 0, err
	}
	i := slices.Index(r.Map, number)
	if i < 0 {
		return 0, fmt.Errorf("x11: the mouse has no button %d", number)
	}
	return byte(i + 1), nil
}

// Button presses or releases a button. Releasing what is not held does nothing. A
// press waits until the one before it was let go, and is read back; see shows.
func (in *Input) Button(ctx context.Context, b platform.Button, down bool) error {
	number, ok := logical[b]
	if !ok {
		return fmt.Errorf("x11: no button is named %.20q", string(b))
	}
	return in.do(ctx, func(ctx context.Context) error {
		if down {
			if err := in.caughtUp(ctx); err != nil {
				return err
			}
		}
		// A button that went down comes up, whoever swapped the buttons meanwhile.
		i := slices.IndexFunc(in.buttons, func(held heldButton) bool { return held.number == number })
		var code byte
		if i >= 0 {
			code = in.buttons[i].code
			in.buttons = slices.Delete(in.buttons, i, i+1)
		} else {
			var err error
			if code, err = in.physical(ctx, number); err != nil {
				return err
			}
			if down {
				err = in.shows(ctx, number, false)
			}
			if err != nil {
				return err
			}
		}
		kind := byte(fakeButtonRelease)
		if down {
			kind = fakeButtonPress
			in.buttons = append(in.buttons, heldButton{number, code})
		}
		err := in.conn.Do(context.WithoutCancel(ctx), func() error {
			return xtest.FakeInputChecked(in.conn.X, kind, code, 0, 0, 0, 0, 0).Check()
		})
		if err == nil && down {
			err = in.shows(ctx, number, true)
		}
		return err
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
					err = in.shows(ctx, number, false)
				}
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
