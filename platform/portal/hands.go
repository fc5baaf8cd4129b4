package portal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/godbus/dbus/v5"

	"github.com/handrail-dev/handrail/platform"
)

// InputOptions of NewInput. All are required.
type InputOptions struct {
	Displays Displays
	// Keycode returns the number that Linux has for a key with a name.
	Keycode func(name string) (uint32, bool)
	// Runes are the characters that the person's keyboard makes: a desktop drops what
	// it has no key for, and says nothing.
	Runes func(ctx context.Context) (map[rune]bool, error)
}

// Input makes events by the RemoteDesktop portal. Its session begins with the first
// event; then the desktop asks the person.
type Input struct {
	p       *Portal
	o       InputOptions
	version uint32
	no      refusal
	turn    chan struct{}

	mu     sync.Mutex // above handle
	handle dbus.ObjectPath

	// The fields below are used by the one whose turn it is.
	shown   []stream
	again   string // the token that a session is restored by
	keys    []held
	buttons []int32
	at      platform.Point
	epoch   uint64 // of the layout that at is of; 0: it is not known
}

// stream is one display as the session shows it.
type stream struct {
	node uint32
	at   *platform.Point // in the compositor's units; nil: it does not tell
}

// held is a key that Key holds, as it was pressed.
type held struct {
	name   string
	method string
	code   int32
}

var _ platform.Input = (*Input)(nil)

// The devices that a session may have.
const (
	keyboard, pointer = 1, 2
	monitors          = 1
	whileRunning      = 1 // persist_mode
)

var buttons = map[platform.Button]int32{
	platform.ButtonLeft: 0x110, platform.ButtonRight: 0x111, platform.ButtonMiddle: 0x112, platform.ButtonBack: 0x113,
	platform.ButtonForward: 0x114,
}

// NewInput prepares it; nobody is asked yet. An error is a *platform.MissingError or
// that of ctx.
func NewInput(ctx context.Context, p *Portal, o InputOptions) (*Input, error) {
	in := &Input{p: p, o: o, turn: make(chan struct{}, 1)}
	types, err := p.has(ctx, remote, "AvailableDeviceTypes")
	if err == nil && types&(keyboard|pointer) != keyboard|pointer {
		err = &platform.MissingError{
			What: "The desktop portal's " + remote + " lends no mouse or no keyboard.", Fix: "Use another desktop's portal, or an X11 session.",
		}
	}
	if err == nil {
		in.version, err = p.has(ctx, remote, "version")
	}
	if err == nil {
		// The pointer's places are those of a stream; without one it could not be sent
		// anywhere.
		_, err = p.has(ctx, cast, "AvailableSourceTypes")
	}
	if err != nil {
		return nil, err
	}
	in.turn <- struct{}{}
	return in, nil
}

func (in *Input) session() dbus.ObjectPath {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.handle
}

// do runs f when it is its turn, in a session.
func (in *Input) do(ctx context.Context, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-in.turn:
	case <-ctx.Done():
		return ctx.Err()
	case <-in.p.Lost():
		return platform.ErrLost
	}
	defer func() { in.turn <- struct{}{} }()
	if err := ctx.Err(); err != nil { // both were so: a call that ended gets nothing done
		return err
	}
	select {
	case <-in.p.Lost():
		return platform.ErrLost
	default:
	}
	if in.session() == "" {
		if err := in.no.still(); err != nil {
			return err
		}
		if err := in.start(ctx); err != nil {
			return in.no.note(err, "use mouse and keyboard")
		}
	}
	return f()
}

// errOver says that a session is no more.
var errOver = errors.New("portal: the person or the desktop ended the session of mouse and keyboard")

// start begins a session.
func (in *Input) start(ctx context.Context) (err error) {
	// Nobody answers what was asked of a session that is over.
	alive, over := context.WithCancelCause(ctx)
	defer over(nil)
	handle, err := in.p.begin(alive, remote+".CreateSession", func(handle dbus.ObjectPath) {
		over(errOver)
		in.mu.Lock()
		defer in.mu.Unlock()
		if in.handle == handle {
			in.handle = ""
		}
	})
	defer func() {
		if err == nil {
			return
		}
		if context.Cause(alive) == errOver && !errors.Is(err, errRefused) {
			err = errOver
		}
		if handle != "" {
			in.p.end(handle)
		}
	}()
	if err != nil {
		return err
	}
	devices := options{"types": dbus.MakeVariant(uint32(keyboard | pointer))}
	if in.version >= 2 {
		devices["persist_mode"] = dbus.MakeVariant(uint32(whileRunning))
		if in.again != "" {
			devices["restore_token"] = dbus.MakeVariant(in.again)
		}
	}
	if _, err := in.p.ask(alive, remote+".SelectDevices", devices, handle); err != nil {
		return err
	}
	if _, err := in.p.ask(alive, cast+".SelectSources",
		options{"types": dbus.MakeVariant(uint32(monitors)), "multiple": dbus.MakeVariant(true)}, handle); err != nil {
		return err
	}
	results, err := in.p.ask(alive, remote+".Start", options{}, handle, "")
	if err != nil {
		return err
	}
	if got, _ := results["devices"].Value().(uint32); got&(keyboard|pointer) != keyboard|pointer {
		return errRefused // the person took one of them out
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if context.Cause(alive) == errOver {
		return errOver
	}
	in.shown = streamsOf(results["streams"])
	if token, ok := results["restore_token"].Value().(string); ok {
		in.again = token
	}
	in.keys, in.buttons, in.epoch = nil, nil, 0 // an old session's are up
	in.handle = handle
	return nil
}

// maxStreams bounds what a session may show.
const maxStreams = 64

// streamsOf reads a(ua{sv}).
func streamsOf(v dbus.Variant) []stream {
	all, _ := v.Value().([][]any)
	var list []stream
	for _, one := range all[:min(len(all), maxStreams)] {
		if len(one) != 2 {
			continue
		}
		node, ok := one[0].(uint32)
		props, is := one[1].(map[string]dbus.Variant)
		if !ok || !is {
			continue
		}
		s := stream{node: node}
		if at, ok := props["position"].Value().([]any); ok && len(at) == 2 {
			x, isX := at[0].(int32)
			y, isY := at[1].(int32)
			if isX && isY {
				s.at = &platform.Point{X: int(x), Y: int(y)}
			}
		}
		list = append(list, s)
	}
	return list
}

// notify makes one event.
func (in *Input) notify(ctx context.Context, method string, args ...any) error {
	handle := in.session()
	if handle == "" {
		return errOver
	}
	err := in.p.call(ctx, remote+"."+method, append([]any{handle, options{}}, args...)...)
	if err != nil && ctx.Err() == nil {
		// A portal that was started anew knows no old session: the next call begins one.
		in.mu.Lock()
		if in.handle == handle {
			in.handle = ""
		}
		in.mu.Unlock()
		in.p.end(handle)
	}
	return err
}

// Pointer returns the place that it was sent to; where the person put it since, nobody
// tells.
func (in *Input) Pointer(ctx context.Context) (at platform.Point, err error) {
	if err := ctx.Err(); err != nil {
		return at, err
	}
	layout, _, err := in.o.Displays(ctx)
	if err != nil {
		return at, err
	}
	select {
	case <-in.turn:
	case <-ctx.Done():
		return at, ctx.Err()
	}
	defer func() { in.turn <- struct{}{} }()
	if in.epoch == 0 || in.epoch != layout.Epoch {
		return at, fmt.Errorf("portal: this desktop tells nobody where the pointer is before it was moved: %w", platform.ErrCannot)
	}
	return in.at, nil
}

// Move moves the pointer to a place of a display that the person shares.
func (in *Input) Move(ctx context.Context, to platform.Point) error {
	layout, places, err := in.o.Displays(ctx)
	if err != nil {
		return err
	}
	return in.do(ctx, func() error {
		i := slices.IndexFunc(places, func(p Place) bool { return p.Physical.Has(to) })
		if i < 0 {
			return fmt.Errorf("portal: no display shows the place %d, %d", to.X, to.Y)
		}
		p := places[i]
		k := slices.IndexFunc(in.shown, func(s stream) bool { return s.at != nil && *s.at == (platform.Point{X: p.Logical.X, Y: p.Logical.Y}) })
		if k < 0 && len(places) == 1 && len(in.shown) == 1 {
			k = 0
		}
		if k < 0 {
			return &platform.MissingError{
				What: fmt.Sprintf("The person did not share the display %.60q, so the pointer cannot go there.", layout.Displays[i].ID),
				Fix:  "Restart the node, and choose all displays when the desktop asks.", Permission: true}
		}
		x := (float64(to.X-p.Physical.X) + 0.5) * float64(p.Logical.Width) / float64(p.Physical.Width)
		y := (float64(to.Y-p.Physical.Y) + 0.5) * float64(p.Logical.Height) / float64(p.Physical.Height)
		if err := in.notify(ctx, "NotifyPointerMotionAbsolute", in.shown[k].node, x, y); err != nil {
			return err
		}
		in.at, in.epoch = to, layout.Epoch
		return nil
	})
}

func state(down bool) uint32 {
	if down {
		return 1
	}
	return 0
}

// Button presses or releases a button.
func (in *Input) Button(ctx context.Context, b platform.Button, down bool) error {
	code, ok := buttons[b]
	if !ok {
		return fmt.Errorf("portal: %.40q is no button: %w", string(b), platform.ErrUntypable)
	}
	return in.do(ctx, func() error {
		if down == slices.Contains(in.buttons, code) {
			return nil
		}
		if down { // whatever becomes of the call, Release lets it go
			in.buttons = append(in.buttons, code)
		}
		if err := in.notify(ctx, "NotifyPointerButton", code, state(down)); err != nil {
			return err
		}
		if !down {
			in.buttons = slices.DeleteFunc(in.buttons, func(c int32) bool { return c == code })
		}
		return nil
	})
}

// Scroll turns the wheel.
func (in *Input) Scroll(ctx context.Context, right, down int) error {
	return in.do(ctx, func() error {
		for axis, n := range [...]int{0: down, 1: right} {
			step := int32(1)
			if n < 0 {
				step, n = -1, -n
			}
			for range n {
				if err := in.notify(ctx, "NotifyPointerAxisDiscrete", uint32(axis), step); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Keys by what they make, in X's numbers.
const (
	symReturn  = 0xff0d
	symTab     = 0xff09
	symUnicode = 0x01000000
)

// symbol returns the number of a character.
func symbol(r rune) int32 {
	switch {
	case r == '\n' || r == '\r':
		return symReturn
	case r == '\t':
		return symTab
	case r < 0x100:
		return r
	}
	return symUnicode | r
}

// typable says whether every character can be typed, and which is the first that
// cannot.
func (in *Input) typable(ctx context.Context, text []rune) error {
	have, err := in.o.Runes(ctx)
	if err != nil {
		return err
	}
	for i, r := range text {
		if !have[r] && r != '\n' && r != '\r' && r != '\t' {
			return fmt.Errorf("the keyboard of this session does not have the character %d, and the portal types no others: %w", i+1,
				platform.ErrUntypable)
		}
	}
	return nil
}

// Key presses or releases a key by its name.
func (in *Input) Key(ctx context.Context, name string, down bool) error {
	h := held{name: strings.ToLower(name)}
	if r, n := utf8.DecodeRuneInString(name); n == len(name) && n > 0 {
		if err := in.typable(ctx, []rune{r}); err != nil {
			return err
		}
		h.method, h.code = "NotifyKeyboardKeysym", symbol(r)
	} else if code, ok := in.o.Keycode(name); ok {
		h.method, h.code = "NotifyKeyboardKeycode", int32(code)
	} else {
		return fmt.Errorf("no key is named %.40q: %w", name, platform.ErrUntypable)
	}
	return in.do(ctx, func() error {
		i := slices.Index(in.keys, h)
		if down == (i >= 0) {
			return nil
		}
		if down {
			in.keys = append(in.keys, h)
		}
		if err := in.notify(ctx, h.method, h.code, state(down)); err != nil {
			return err
		}
		if !down {
			in.keys = slices.Delete(in.keys, i, i+1)
		}
		return nil
	})
}

// Type types text. It fails before the first key for text that cannot be typed.
func (in *Input) Type(ctx context.Context, text string) (n int, err error) {
	if !utf8.ValidString(text) {
		return 0, fmt.Errorf("the text is not valid UTF-8: %w", platform.ErrUntypable)
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := in.typable(ctx, []rune(text)); err != nil {
		return 0, err
	}
	err = in.do(ctx, func() error {
		if len(in.keys) > 0 {
			return fmt.Errorf("a key is held down: %w", platform.ErrUntypable)
		}
		for _, r := range text {
			// Both or none: a key that stays down would repeat.
			whole := context.WithoutCancel(ctx)
			if err := errors.Join(in.notify(whole, "NotifyKeyboardKeysym", symbol(r), state(true)),
				in.notify(whole, "NotifyKeyboardKeysym", symbol(r), state(false))); err != nil {
				return err
			}
			if n++; ctx.Err() != nil {
				return ctx.Err()
			}
		}
		return nil
	})
	return n, err
}

// Release lets go of every key and button.
func (in *Input) Release(ctx context.Context) error {
	if in.session() == "" { // what it held is up
		return ctx.Err()
	}
	return in.do(ctx, func() error {
		for len(in.keys) > 0 {
			h := in.keys[len(in.keys)-1]
			in.keys = in.keys[:len(in.keys)-1]
			if err := in.notify(ctx, h.method, h.code, state(false)); err != nil {
				return err
			}
		}
		for len(in.buttons) > 0 {
			code := in.buttons[len(in.buttons)-1]
			in.buttons = in.buttons[:len(in.buttons)-1]
			if err := in.notify(ctx, "NotifyPointerButton", code, state(false)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Close ends the session; the portal stays.
func (in *Input) Close() error {
	in.mu.Lock()
	handle := in.handle
	in.handle = ""
	in.mu.Unlock()
	if handle != "" {
		in.p.end(handle)
	}
	return nil
}
