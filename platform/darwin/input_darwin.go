package darwin

import (
	"context"
	"fmt"
	"sync"
	"time"
	"unicode/utf16"

	"github.com/handrail-dev/handrail/platform"
)

const (
	stateHID      = 1 // kCGEventSourceStateHIDSystemState
	tapHID        = 0 // kCGHIDEventTap
	mouseMoved    = 5
	fieldClicks   = 1 // kCGMouseEventClickState
	fieldNumber   = 3 // kCGMouseEventButtonNumber
	unitLines     = 1 // kCGScrollEventUnitLine
	keyReturn     = 36
	keyTabulator  = 48
	scrollLargest = 100 // lines in one event
)

// Input makes events by CoreGraphics. It implements platform.Input.
type Input struct {
	a      *api
	source ref

	mu     sync.Mutex // above what follows
	keys   map[string]key
	held   map[platform.Button]bool
	clicks clicks
}

// NewInput returns an Input that holds nothing. *platform.MissingError without the
// permission.
func NewInput() (*Input, error) {
	a, err := load()
	if err != nil {
		return nil, err
	}
	if a.mayPost != nil && !a.mayPost() || !a.trusted() {
		return nil, lacks(accessibility)
	}
	source := a.sourceMake(stateHID)
	if source == 0 {
		return nil, fmt.Errorf("darwin: CGEventSourceCreate failed")
	}
	return &Input{a: a, source: source, keys: map[string]key{}, held: map[platform.Button]bool{}}, nil
}

// Close lets go of everything.
func (in *Input) Close() error {
	err := in.Release(context.Background())
	in.mu.Lock()
	defer in.mu.Unlock()
	in.a.drop(in.source)
	in.source = 0
	return err
}

// pointer returns where the pointer is, in points.
func (in *Input) pointer() (point, error) {
	event := in.a.eventMake(0)
	if event == 0 {
		return point{}, fmt.Errorf("darwin: CGEventCreate failed")
	}
	defer in.a.release(event)
	return in.a.eventLocation(event), nil
}

// Pointer returns where the pointer is.
func (in *Input) Pointer(context.Context) (platform.Point, error) {
	l, err := in.a.arrangement()
	if err != nil {
		return platform.Point{}, err
	}
	p, err := in.pointer()
	return l.toPixel(p), err
}

// flagsLocked are the flags of the modifiers that are held.
func (in *Input) flagsLocked() uint64 {
	var flags uint64
	for _, k := range in.keys {
		flags |= k.flag
	}
	return flags
}

// postLocked posts an event that was made, with the modifiers that are held: the
// system would add those that a person holds.
func (in *Input) postLocked(event ref) error {
	if event == 0 {
		return fmt.Errorf("darwin: the event could not be made")
	}
	defer in.a.release(event)
	in.a.eventSetFlags(event, in.a.eventFlags(event)&^flagAll|in.flagsLocked())
	in.a.eventPost(tapHID, event)
	return nil
}

// Move moves the pointer; with a button held, it drags.
func (in *Input) Move(_ context.Context, to platform.Point) error {
	l, err := in.a.arrangement()
	if err != nil {
		return err
	}
	p, ok := l.toPoint(to)
	if !ok {
		return fmt.Errorf("darwin: there is no display at %d,%d: %w", to.X, to.Y, platform.ErrCannot)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	kind, number := uint32(mouseMoved), uint32(0)
	for b := range in.held {
		kind, number = buttons[b].dragged, buttons[b].number
	}
	return in.postLocked(in.a.eventMouse(in.source, kind, p, number))
}

// Button presses or releases a button.
func (in *Input) Button(_ context.Context, b platform.Button, down bool) error {
	kinds, ok := buttons[b]
	if !ok {
		return fmt.Errorf("darwin: no such button: %w", platform.ErrCannot)
	}
	p, err := in.pointer()
	if err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	kind, count := kinds.up, in.clicks.n
	if down {
		kind, count = kinds.down, in.clicks.down(b, p, time.Now())
	}
	event := in.a.eventMouse(in.source, kind, p, kinds.number)
	if event != 0 {
		in.a.eventSetField(event, fieldClicks, count)
		in.a.eventSetField(event, fieldNumber, int64(kinds.number))
	}
	if err := in.postLocked(event); err != nil {
		return err
	}
	if down {
		in.held[b] = true
	} else {
		delete(in.held, b)
	}
	return nil
}

// Scroll turns the wheel: for macOS, up and left are positive.
func (in *Input) Scroll(_ context.Context, right, down int) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	for right != 0 || down != 0 {
		x, y := min(max(right, -scrollLargest), scrollLargest), min(max(down, -scrollLargest), scrollLargest)
		right, down = right-x, down-y
		if err := in.postLocked(in.a.eventScroll(in.source, unitLines, 2, int32(-y), int32(-x), 0)); err != nil {
			return err
		}
	}
	return nil
}

// keyLocked makes the event of a key, and notes a modifier before its own press.
func (in *Input) keyLocked(name string, k key, down bool) error {
	event := in.a.eventKey(in.source, k.code, down)
	// In a chord the key itself counts: with Control, "c" is another character.
	if event != 0 && k.char != 0 && (k.anyhow || in.flagsLocked() == 0) {
		units := utf16.AppendRune(nil, k.char)
		in.a.eventText(event, uint(len(units)), &units[0])
	}
	if down {
		in.keys[name] = k
	} else {
		delete(in.keys, name)
	}
	return in.postLocked(event)
}

// Key presses or releases a key.
func (in *Input) Key(_ context.Context, name string, down bool) error {
	k, ok := keyOf(name)
	if !ok {
		return fmt.Errorf("darwin: no such key: %w", platform.ErrUntypable)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.keyLocked(name, k, down)
}

// Type types text as characters, whatever the keyboard's layout.
func (in *Input) Type(ctx context.Context, text string) (int, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	typed := 0
	for _, r := range text {
		if err := ctx.Err(); err != nil {
			return typed, err
		}
		var code uint16
		var units []uint16
		switch r {
		case '\r':
			typed++
			continue
		case '\n':
			code = keyReturn
		case '\t':
			code = keyTabulator
		default:
			units = utf16.AppendRune(nil, r)
		}
		for _, down := range []bool{true, false} {
			event := in.a.eventKey(in.source, code, down)
			if event != 0 && units != nil {
				in.a.eventText(event, uint(len(units)), &units[0])
			}
			if err := in.postLocked(event); err != nil {
				return typed, err
			}
		}
		typed++
	}
	return typed, nil
}

// Release lets go of what is held.
func (in *Input) Release(context.Context) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	var first error
	for name, k := range in.keys {
		if err := in.keyLocked(name, k, false); err != nil && first == nil {
			first = err
		}
	}
	p, err := in.pointer()
	for b := range in.held {
		if err == nil {
			err = in.postLocked(in.a.eventMouse(in.source, buttons[b].up, p, buttons[b].number))
		}
		delete(in.held, b)
	}
	if first == nil {
		first = err
	}
	return first
}
