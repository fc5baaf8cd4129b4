//go:build linux

package wayland

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/handrail-dev/handrail/platform"
)

// Input makes the events of a mouse and a keyboard: a virtual pointer and a
// virtual keyboard of the seat's. It has a connection of its own, so that pixels
// never delay a click.
type Input struct {
	c        *Conn
	outputs  *Outputs
	person   *Person // nil: nobody tells
	pointer  *object
	keyboard *object
	seat     *object
	focused  func(ctx context.Context) int // set before use; nil: nobody tells
	finder   *finder                       // used by whose turn it is; nil until it is needed
	turn     chan struct{}

	// The fields below are used by the one whose turn it is.
	keys    *keymap
	held    []heldKey
	locked  uint32   // modifiers
	buttons []uint32 // held, as Linux numbers them
	at      platform.Point
	epoch   uint64 // of the layout that at is of; 0: it is not known
	touches uint64 // how often the person did something by then
}

// heldKey is one that Key holds.
type heldKey struct {
	name  string
	code  uint32
	shift bool // it needed Shift
}

var _ platform.Input = (*Input)(nil)
var _ platform.Clicker = (*Input)(nil)

// Buttons as Linux numbers them.
var buttonCodes = map[platform.Button]uint32{
	platform.ButtonLeft: 0x110, platform.ButtonRight: 0x111, platform.ButtonMiddle: 0x112, platform.ButtonBack: 0x113,
	platform.ButtonForward: 0x114,
}

// NewInput prepares making events over c. An error is a *platform.MissingError that names the
// protocols which the compositor lacks, or that of ctx. Person is who is told when this program
// makes events, over the same connection; nil for nobody. When c ends, the compositor lets go of
// what was held.
func NewInput(ctx context.Context, c *Conn, outputs *Outputs, person *Person) (*Input, error) {
	in := &Input{c: c, outputs: outputs, person: person, turn: make(chan struct{}, 1), keys: newKeymap()}
	if err := in.open(ctx); err != nil {
		return nil, err
	}
	in.turn <- struct{}{}
	return in, nil
}

func (in *Input) open(ctx context.Context) error {
	c := in.c
	var lacking []string
	for _, name := range []string{virtualPointerManager.name, virtualKeyboardManager.name, wlSeat.name} {
		if c.Offers(name) == 0 {
			lacking = append(lacking, name)
		}
	}
	if len(lacking) > 0 {
		return missing("takes the events of a mouse and a keyboard", lacking...)
	}
	seat, err := c.bindOne(wlSeat, nil)
	if err != nil {
		return err
	}
	in.seat = seat
	pointers, err := c.bindOne(virtualPointerManager, nil)
	if err != nil {
		return err
	}
	keyboards, err := c.bindOne(virtualKeyboardManager, nil)
	if err != nil {
		return err
	}
	if in.pointer, err = c.createWith(virtualPointer, pointers.version, nil, func(id uint32) (uint32, uint16, []any) {
		return pointers.id, pointersCreate, []any{seat.id, id}
	}); err != nil {
		return err
	}
	if in.keyboard, err = c.createWith(virtualKeyboard, keyboards.version, nil, func(id uint32) (uint32, uint16, []any) {
		return keyboards.id, keyboardsCreate, []any{seat.id, id}
	}); err != nil {
		return err
	}
	if err := in.upload(); err != nil {
		return err
	}
	err = c.Sync(ctx)
	if errors.Is(err, platform.ErrLost) {
		return &platform.MissingError{What: fmt.Sprintf("The compositor does not let this program make input: %v.", err),
			Fix: "Allow virtual keyboards in the compositor's settings.", Permission: true}
	}
	return err
}

// upload sends the keyboard's map.
func (in *Input) upload() error {
	text := in.keys.text()
	mem, err := newMemory("handrail-keymap", len(text)+1)
	if err != nil {
		return err
	}
	copy(mem.mem, text)
	defer mem.close()
	return in.c.send(in.keyboard, virtualKeymap, uint32(keymapXKB), fd(mem.fd), uint32(len(text)+1))
}

// do runs f when it is its turn.
func (in *Input) do(ctx context.Context, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-in.turn:
	case <-ctx.Done():
		return ctx.Err()
	case <-in.c.Lost():
		return platform.ErrLost
	}
	defer func() { in.turn <- struct{}{} }()
	if err := ctx.Err(); err != nil { // both were so: a call that ended gets nothing done
		return err
	}
	return f()
}

// make sends events, and returns when the compositor has taken them.
func (in *Input) make(ctx context.Context, events ...request) error {
	if len(events) == 0 {
		return ctx.Err()
	}
	if err := in.person.breathe(ctx); err != nil {
		return err
	}
	answered := in.person.begin()
	if err := in.c.sendAll(events...); err != nil {
		return err
	}
	return in.c.syncThen(ctx, answered)
}

// now returns the time as events have it: milliseconds of the clock that the
// compositor's own have.
func now() uint32 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return uint32(t.Nano() / 1e6)
}

// Pointer returns the pointer's place: the one that it was sent to, if nobody else
// moved it since, or else the one that locate finds.
func (in *Input) Pointer(ctx context.Context) (p platform.Point, err error) {
	err = in.do(ctx, func() error {
		if err := in.c.Sync(ctx); err != nil { // what the person did is known then
			return err
		}
		touches := in.person.count()
		layout, places := in.outputs.known()
		if in.epoch == layout.Epoch && in.touches == touches && in.person.watched() {
			p = in.at
			return nil
		}
		at, err := in.locate(ctx, places)
		if err != nil {
			return err
		}
		p, in.at, in.epoch, in.touches = at, at, layout.Epoch, touches
		return nil
	})
	return p, err
}

// Move moves the pointer.
func (in *Input) Move(ctx context.Context, to platform.Point) error {
	return in.do(ctx, func() error {
		layout, places := in.outputs.known()
		touches := in.person.count()
		x, y, ok := logical(places, to)
		if !ok {
			return fmt.Errorf("wayland: no display shows the place %d, %d", to.X, to.Y)
		}
		var whole platform.Rect
		for _, p := range places {
			whole = whole.Union(p.logical)
		}
		const fine = 256 // parts of a unit
		part := func(v float64, from int) uint32 { return uint32(math.Round((v - float64(from)) * fine)) }
		// In two steps within the pixel: a pointer that enters a window is told by no
		// motion, which some programs (Chromium's pages) wait for.
		var events []request
		for _, short := range []float64{1. / 8, 0} {
			events = append(events,
				request{
					in.pointer, pointerMotionAbsolute,
					[]any{now(), part(x-short, whole.X), part(y-short, whole.Y), uint32(whole.Width * fine), uint32(whole.Height * fine)},
				},
				request{in.pointer, pointerFrame, nil})
		}
		if err := in.make(ctx, events...); err != nil {
			return err
		}
		in.at, in.epoch, in.touches = to, layout.Epoch, touches
		return nil
	})
}

// Button presses or releases a button.
func (in *Input) Button(ctx context.Context, b platform.Button, down bool) error {
	code, ok := buttonCodes[b]
	if !ok {
		return fmt.Errorf("wayland: %.40q is no button: %w", string(b), platform.ErrUntypable)
	}
	return in.do(ctx, func() error {
		if down == slices.Contains(in.buttons, code) {
			return nil
		}
		// Release lets it go, however the call ends.
		if down {
			in.buttons = append(in.buttons, code)
		}
		if err := in.make(ctx, in.button(now(), code, down)...); err != nil {
			return err
		}
		if !down {
			in.buttons = slices.DeleteFunc(in.buttons, func(c uint32) bool { return c == code })
		}
		return nil
	})
}

// Click makes several clicks in one writing. Each event of its own would wait for the
// compositor's answer: with a slow one two clicks would be too far apart to be a double
// one. Programs go by the times that events have.
func (in *Input) Click(ctx context.Context, b platform.Button, count int, apart time.Duration) error {
	code, ok := buttonCodes[b]
	if !ok {
		return fmt.Errorf("wayland: %.40q is no button: %w", string(b), platform.ErrUntypable)
	}
	return in.do(ctx, func() error {
		if slices.Contains(in.buttons, code) {
			return fmt.Errorf("wayland: the %s button is down already", b)
		}
		// The times have passed when they are sent, and what was sent before is older.
		if err := in.pause(ctx, time.Duration(count)*apart); err != nil {
			return err
		}
		last := now()
		var events []request
		for i := range count {
			at := last - uint32(time.Duration(count-i)*apart/time.Millisecond)
			events = append(append(events, in.button(at, code, true)...), in.button(at+1, code, false)...)
		}
		return in.make(ctx, events...)
	})
}

func (in *Input) button(at, code uint32, down bool) []request {
	return []request{{in.pointer, pointerButton, []any{at, code, bit(down)}}, {in.pointer, pointerFrame, nil}}
}

func bit(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// perClick is how far one click of a wheel scrolls, as compositors give it.
const perClick = 15

// Scroll turns the wheel.
func (in *Input) Scroll(ctx context.Context, right, down int) error {
	return in.do(ctx, func() error {
		for axis, n := range [...]int{axisVertical: down, axisHorizontal: right} {
			step := int32(1)
			if n < 0 {
				step, n = -1, -n
			}
			for range n {
				if err := in.make(ctx,
					request{in.pointer, pointerAxisSource, []any{uint32(axisWheel)}},
					request{in.pointer, pointerAxisDiscrete, []any{now(), uint32(axis), fixed(perClick * step), step}},
					request{in.pointer, pointerFrame, nil}); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// mods returns the modifiers that held keys make.
func (in *Input) mods() uint32 {
	var all uint32
	for _, h := range in.held {
		all |= holds[h.code]
		if h.shift {
			all |= modShift
		}
	}
	return all
}

func (in *Input) key(code uint32, down bool) request {
	return request{in.keyboard, virtualKey, []any{now(), code, bit(down)}}
}

func (in *Input) modifiers(depressed, locked uint32) request {
	return request{in.keyboard, virtualModifiers, []any{depressed, uint32(0), locked, uint32(0)}}
}

// Key presses or releases a key by its name.
func (in *Input) Key(ctx context.Context, name string, down bool) error {
	return in.do(ctx, func() error {
		i := slices.IndexFunc(in.held, func(h heldKey) bool { return h.name == name })
		if !down {
			if i < 0 {
				return nil
			}
			h := in.held[i]
			in.held = slices.Delete(in.held, i, i+1)
			return in.make(ctx, in.up(h)...)
		}
		if i >= 0 {
			return nil
		}
		s, r, err := in.keys.keyOf(name)
		if err != nil {
			return err
		}
		var events []request
		if r != 0 {
			code, changed, ok := in.keys.lendChord(r, in.keep())
			if !ok {
				return fmt.Errorf("wayland: too many keys are held: %w", platform.ErrUntypable)
			}
			if changed {
				if err := in.upload(); err != nil {
					return err
				}
			}
			s = stroke{code: code}
			// Programs forget the modifiers with the map. A compositor tells of them only
			// when they change.
			events = append(events, in.modifiers(0, 0), in.modifiers(in.mods(), in.locked))
		}
		h := heldKey{name, s.code, s.shift && in.mods()&modShift == 0}
		in.held = append(in.held, h)
		if h.shift {
			events = append(events, in.key(keyShift, true))
		}
		in.locked ^= locks[h.code]
		events = append(events, in.modifiers(in.mods(), in.locked), in.key(h.code, true))
		if holds[h.code] != 0 { // a modifier comes into force with its key
			events[len(events)-1], events[len(events)-2] = events[len(events)-2], events[len(events)-1]
		}
		return in.make(ctx, events...)
	})
}

// up releases a key that is in held no more.
func (in *Input) up(h heldKey) []request {
	events := []request{in.key(h.code, false)}
	if h.shift {
		events = append(events, in.key(keyShift, false))
	}
	return append(events, in.modifiers(in.mods(), in.locked))
}

func (in *Input) keep() map[uint32]bool {
	keep := map[uint32]bool{}
	for _, h := range in.held {
		keep[h.code] = true
	}
	return keep
}

// burst is how many characters are typed before the compositor is asked to keep
// up: so few that what is still to come when the person interferes is over at once.
const burst = 48

// Type types text. It fails before the first key for text that cannot be typed.
func (in *Input) Type(ctx context.Context, text string) (int, error) {
	if !utf8.ValidString(text) {
		return 0, fmt.Errorf("the text is not valid UTF-8: %w", platform.ErrUntypable)
	}
	runes := []rune(text)
	for i, r := range runes {
		if !typable(r) {
			return 0, fmt.Errorf("character %d of the text is a control character: %w", i+1, platform.ErrUntypable)
		}
	}
	if err := in.mayTake(ctx, runes); err != nil {
		return 0, err
	}
	var done atomic.Int64
	err := in.do(ctx, func() error { return in.typeRunes(ctx, runes, &done) })
	return int(done.Load()), err
}

func (in *Input) typeRunes(ctx context.Context, runes []rune, done *atomic.Int64) (err error) {
	if in.mods() != 0 {
		return fmt.Errorf("a modifier key such as Shift or Control is held down: %w", platform.ErrUntypable)
	}
	if len(runes) == 0 {
		return nil
	}
	if in.locked != 0 {
		defer func() {
			if back := in.make(context.WithoutCancel(ctx), in.modifiers(0, in.locked)); err == nil {
				err = back
			}
		}()
	}
	ready := 0 // how many of runes have keys
	for len(runes) > 0 {
		if ready == 0 {
			var changed bool
			if ready, changed = in.keys.lend(runes, in.keep()); ready == 0 {
				return fmt.Errorf("wayland: too many keys are held: %w", platform.ErrUntypable)
			}
			if changed {
				if err := in.upload(); err != nil {
					return err
				}
			}
		}
		n := min(ready, burst)
		events := []request{in.modifiers(0, 0)}
		down := uint32(0) // the modifiers
		mods := func(want uint32) {
			for _, k := range [...]struct{ code, mod uint32 }{{keyShift, modShift}, {keyLevel3, modLevel3}} {
				if (down^want)&k.mod != 0 {
					down ^= k.mod
					events = append(events, in.key(k.code, down&k.mod != 0), in.modifiers(down, 0))
				}
			}
		}
		for _, r := range runes[:n] {
			s, _ := in.keys.find(r)
			mods(s.mods())
			events = append(events, in.key(s.code, true), in.key(s.code, false))
		}
		mods(0)
		if err := in.make(ctx, events...); err != nil {
			return err
		}
		done.Add(int64(n))
		runes, ready = runes[n:], ready-n
		if len(runes) > 0 {
			if err := in.pause(ctx, betweenBursts); err != nil {
				return err
			}
		}
	}
	return nil
}

// betweenBursts is how long a program has for a burst. A compositor ends the
// connection of a program that lets its events pile up, about 4000 characters'
// worth, and so the program: what is typed at this pace stays below for seconds.
const betweenBursts = 20 * time.Millisecond

func (in *Input) pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-in.c.Lost():
		return platform.ErrLost
	}
}

// Release lets go of every key and button.
func (in *Input) Release(ctx context.Context) error {
	return in.do(ctx, func() error {
		var events []request
		for len(in.held) > 0 {
			h := in.held[len(in.held)-1]
			in.held = in.held[:len(in.held)-1]
			events = append(events, in.up(h)...)
		}
		for _, code := range slices.Backward(in.buttons) {
			events = append(events, in.button(now(), code, false)...)
		}
		if len(events) == 0 {
			return nil
		}
		if err := in.make(ctx, events...); err != nil {
			return err
		}
		in.buttons = nil
		return nil
	})
}
