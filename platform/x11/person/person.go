package person

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/x11/keyboard"
	"github.com/handrail-dev/handrail/platform/x11/wire"
)

// Person tells when a person uses the mouse or the keyboard: by XInput 2's raw
// events, which name the device they come from. Those of XTEST's devices are
// programs', this one's among them, and count for nothing.
type Person struct {
	conn  *wire.Conn
	major byte // of XInputExtension

	mu       sync.Mutex // above what follows
	watchers []*watcher
	sources  map[uint16]source  // what each device is
	down     map[byte]time.Time // keys that the person holds, and since when
	real     map[byte]time.Time // those of them that are of a keyboard of this device
	keys     *keyboard.Map      // nil: read it anew
	xkb      *keyboard.XKB      // nil: the server does not have it
	ended    context.CancelFunc
	done     chan struct{}

	selected atomic.Bool
}

type watcher struct {
	touched func(time.Time)
	// chords are what is listened for, and pressed is told which.
	chords  []chord
	pressed func(int)
	real    bool // only keys that no program can have made count
}

// chord is keys that are pressed together: of each one, the keysyms of which any will do.
type chord [][]uint32

var (
	_ platform.Person   = (*Person)(nil)
	_ platform.Answerer = (*Person)(nil)
)

// source is what an event's device is.
type source uint8

const (
	sourceProgram source = iota // XTEST's: a program's
	sourceUnsure                // a person's, or a device that a program made (uinput)
	sourceReal                  // a person's
)

// longestHold is how long a key counts as held, should its release never come.
const longestHold = 30 * time.Second

// Requests and events of XInput 2, which xgb does not have.
const (
	xiSelectEvents = 46
	xiQueryVersion = 47
	xiQueryDevice  = 48

	xiHierarchyChanged = 11
	xiRawKeyPress      = 13
	xiRawKeyRelease    = 14
	xiRawTouchEnd      = 24

	xiAllDevices = 0
)

// New connects to the display. An error is a *platform.MissingError if the
// server cannot tell a person's events from a program's, or that of ctx.
func New(ctx context.Context, o wire.Options) (*Person, error) {
	c, err := wire.Dial(ctx, o)
	if err != nil {
		return nil, err
	}
	p := &Person{conn: c, down: map[byte]time.Time{}, real: map[byte]time.Time{}, done: make(chan struct{})}
	if err := p.open(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	over, cancel := context.WithCancel(context.Background())
	p.ended = cancel
	events := c.Subscribe(over, p.wanted)
	go p.run(over, events)
	return p, nil
}

func (p *Person) open(ctx context.Context) error {
	c := p.conn
	missing := &platform.MissingError{
		What: "The X server does not offer XInput 2, which tells a person's mouse and keyboard from a program's.",
		Fix:  "Use an X server with XInput 2.1 or later (any of X.Org's since 2011)."}
	e, err := c.Extension(ctx, "XInputExtension")
	if err != nil {
		return err
	}
	if !e.Present {
		return missing
	}
	p.major = e.Major
	// Since 2.1 raw events come also while another program has grabbed the device.
	b := wire.NewRequest(e.Major, xiQueryVersion, 1)
	binary.LittleEndian.PutUint16(b[4:], 2)
	binary.LittleEndian.PutUint16(b[6:], 2)
	r, err := c.Reply(ctx, b, 32)
	if err != nil {
		return err
	}
	if major, minor := binary.LittleEndian.Uint16(r[8:]), binary.LittleEndian.Uint16(r[10:]); major < 2 || major == 2 && minor < 1 {
		return missing
	}
	if p.xkb, err = keyboard.Open(ctx, c); err == nil {
		p.xkb.Listen()
	} else if !errors.Is(err, keyboard.ErrNoXKB) {
		return err
	}
	return p.devices(ctx)
}

// devices finds XTEST's devices by the property that the server gives them.
//
//	reply of XIQueryDevice: …, 8: devices:2, …, 32: each number:2, use:2, attachment:2,
//	classes:2, name length:2, …:2, name (padded), then classes, each type:2, length:2
//	(in words), …
func (p *Person) devices(ctx context.Context) error {
	c := p.conn
	b := wire.NewRequest(p.major, xiQueryDevice, 1)
	binary.LittleEndian.PutUint16(b[4:], xiAllDevices)
	r, err := c.Reply(ctx, b, 32)
	if err != nil {
		return err
	}
	numbers, err := deviceNumbers(r)
	if err != nil {
		return err
	}
	found := map[uint16]source{}
	for _, number := range numbers {
		program, err := c.IsXTest(ctx, p.major, number)
		if err != nil {
			return err
		}
		if found[number] = sourceProgram; program {
			continue
		}
		node, err := c.DeviceProperty(ctx, p.major, number, "Device Node")
		if err != nil {
			return err
		}
		found[number] = sourceOf(kernelInputs, string(node))
	}
	p.mu.Lock()
	p.sources = found
	p.mu.Unlock()
	return nil
}

// kernelInputs is where Linux lists its input devices.
const kernelInputs = "/sys/class/input"

// sourceOf judges a device by the file that the server reads it from. A device without one is the
// server's own: a nested server's, say, which has its keys from the one around it. A device that
// the kernel lists below devices/virtual/input was made by a program (uinput); a Bluetooth keyboard
// (uhid) stands elsewhere. One that is not found here is not known.
func sourceOf(inputs, node string) source {
	if node == "" {
		return sourceReal
	}
	at, err := filepath.EvalSymlinks(filepath.Join(inputs, filepath.Base(node)))
	if err != nil || strings.Contains(filepath.ToSlash(at), "/devices/virtual/input/") {
		return sourceUnsure
	}
	return sourceReal
}

func deviceNumbers(r []byte) ([]uint16, error) {
	malformed := errors.New("x11: the server's list of devices is malformed")
	word := binary.LittleEndian.Uint16
	n := int(word(r[8:]))
	rest := r[32:]
	var all []uint16
	for range n {
		if len(rest) < 12 {
			return nil, malformed
		}
		all = append(all, word(rest))
		classes := int(word(rest[6:]))
		skip := 12 + (int(word(rest[8:]))+3)&^3
		for range classes {
			if len(rest) < skip+4 {
				return nil, malformed
			}
			skip += 4 * max(1, int(word(rest[skip+2:])))
		}
		if len(rest) < skip {
			return nil, malformed
		}
		rest = rest[skip:]
	}
	return all, nil
}

// choose asks the server for the events, or for none while nobody watches: a mouse
// makes a thousand a second.
//
//	window:4, masks:2, …:2, then each device:2, words:2, mask
func (p *Person) choose(on bool) {
	b := wire.NewRequest(p.major, xiSelectEvents, 4)
	binary.LittleEndian.PutUint32(b[4:], uint32(p.conn.Root()))
	binary.LittleEndian.PutUint16(b[8:], 1)
	binary.LittleEndian.PutUint16(b[12:], xiAllDevices)
	binary.LittleEndian.PutUint16(b[14:], 1)
	if on {
		mask := uint32(1) << xiHierarchyChanged
		for kind := xiRawKeyPress; kind <= xiRawTouchEnd; kind++ {
			if kind <= 17 || kind >= 22 { // keys, buttons, motion; touches
				mask |= 1 << kind
			}
		}
		binary.LittleEndian.PutUint32(b[16:], mask)
	}
	p.conn.Send(b)
	p.selected.Store(on)
}

func (p *Person) wanted(e wire.Event) bool {
	return e.Code == wire.GenericEvent && e.Data[1] == p.major || p.xkb != nil && e.Code == p.xkb.Event
}

// Watch begins at once and ends with ctx.
func (p *Person) Watch(ctx context.Context, hotkey string, touched func(at time.Time), stop func()) error {
	w := &watcher{touched: touched, pressed: func(int) { stop() }}
	if hotkey != "" {
		keys, err := parseHotKey(hotkey)
		if err != nil {
			return err
		}
		w.chords = []chord{keys}
	}
	return p.watch(ctx, w)
}

// Chords begins at once and ends with ctx. *platform.MissingError under Xwayland, whose
// keys may be those of any program of the compositor's.
func (p *Person) Chords(ctx context.Context, chords []string, pressed func(chord int)) error {
	w := &watcher{pressed: pressed, real: true}
	for _, text := range chords {
		keys, err := parseHotKey(text)
		if err != nil {
			return err
		}
		w.chords = append(w.chords, keys)
	}
	if err := tellsKeys(ctx, p.conn); err != nil {
		return err
	}
	return p.watch(ctx, w)
}

// TellsKeys is nil where Chords can tell.
func (p *Person) TellsKeys(ctx context.Context) error { return tellsKeys(ctx, p.conn) }

// tellsKeys says why a key's maker cannot be told.
func tellsKeys(ctx context.Context, c *wire.Conn) error {
	within, err := c.Extension(ctx, "XWAYLAND")
	if err != nil {
		return err
	}
	if within.Present || c.ByHost() {
		return &platform.MissingError{
			What: "This X server (" + c.Name + ") does not show which keyboard of this device a key comes from.",
			Fix:  "Answer from another device, or with a passkey.",
		}
	}
	return nil
}

func (p *Person) watch(ctx context.Context, w *watcher) error {
	select {
	case <-p.conn.Lost():
		return platform.ErrLost
	default:
	}
	p.mu.Lock()
	p.watchers = append(p.watchers, w)
	p.mu.Unlock()
	context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.watchers = slices.DeleteFunc(p.watchers, func(o *watcher) bool { return o == w })
		if len(p.watchers) == 0 && p.selected.Load() {
			p.choose(false)
			clear(p.down)
			clear(p.real)
		}
	})
	return p.conn.Do(ctx, func() error {
		p.mu.Lock()
		if !p.selected.Load() && len(p.watchers) > 0 {
			p.choose(true)
		}
		p.mu.Unlock()
		_, err := xproto.GetInputFocus(p.conn.X).Reply() // from here on nothing is missed
		return err
	})
}

// parseHotKey reads names of keys with a plus between, the last one a plain key.
func parseHotKey(s string) (chord, error) {
	short := map[string]string{
		"ctrl": "Control", "esc": "Escape", "win": "Meta", "super": "Meta", "cmd": "Meta", "return": "Enter", "del": "Delete",
	}
	var keys chord
	for _, name := range strings.Split(s, "+") {
		name = strings.ToLower(strings.TrimSpace(name))
		if long := short[name]; long != "" {
			name = long
		}
		syms, _, err := keyboard.SymsOfName(name)
		if err != nil {
			return nil, fmt.Errorf("the hot key %.60q: %w", s, err)
		}
		keys = append(keys, syms)
	}
	return keys, nil
}

// run handles the events, in order.
func (p *Person) run(ctx context.Context, events <-chan wire.Event) {
	defer close(p.done)
	for e := range events {
		if e.Code != wire.GenericEvent {
			p.mu.Lock()
			p.keys = nil
			p.mu.Unlock()
			continue
		}
		if !e.Sent { // the server refuses to send such ones for a client; an old one may not
			p.event(ctx, e.Data)
		}
	}
}

// event takes one of XInput's:
//
//	35, major, sequence:2, length:4, kind:2, device:2, time:4, detail:4, source:2, …,
//	24: flags:4 (1: a repeated key)
func (p *Person) event(ctx context.Context, b []byte) {
	const repeated = 1
	at := time.Now()
	kind, device := binary.LittleEndian.Uint16(b[8:]), binary.LittleEndian.Uint16(b[10:])
	if kind == xiHierarchyChanged {
		_ = p.devices(ctx) // as they were, if the server ends
		return
	}
	if kind < xiRawKeyPress || kind > xiRawTouchEnd || len(b) < 32 {
		return
	}
	number := binary.LittleEndian.Uint16(b[20:])
	if number != device {
		return // the same once more, as the event of the master that it belongs to
	}
	p.mu.Lock()
	from, known := p.sources[number]
	p.mu.Unlock()
	if !known {
		// A device that came this moment: its event is before the news of it.
		_ = p.devices(ctx)
		p.mu.Lock()
		from = p.sources[number]
		p.mu.Unlock()
	}
	if from == sourceProgram {
		return
	}
	code := byte(binary.LittleEndian.Uint32(b[16:]))
	p.mu.Lock()
	watchers := slices.Clone(p.watchers)
	p.mu.Unlock()
	for _, w := range watchers {
		if w.touched != nil {
			w.touched(at)
		}
	}
	p.mu.Lock()
	switch kind {
	case xiRawKeyPress:
		p.down[code] = at
		if from == sourceReal {
			p.real[code] = at
		}
	case xiRawKeyRelease:
		delete(p.down, code)
		delete(p.real, code)
	}
	p.mu.Unlock()
	if kind != xiRawKeyPress || binary.LittleEndian.Uint32(b[24:])&repeated != 0 {
		return
	}
	for _, w := range watchers {
		if w.real && from != sourceReal {
			continue
		}
		for i, c := range w.chords {
			if p.completes(ctx, c, code, w.real) {
				w.pressed(i)
			}
		}
	}
}

// completes tells whether code, which just went down, completes the chord; real: of keys
// of this device's keyboards alone.
func (p *Person) completes(ctx context.Context, chord chord, code byte, real bool) bool {
	p.mu.Lock()
	keys, down := p.keys, maps.Clone(p.down)
	if real {
		down = maps.Clone(p.real)
	}
	p.mu.Unlock()
	if keys == nil {
		if p.xkb == nil {
			return false
		}
		var err error
		if keys, err = p.xkb.Read(ctx, keyboard.Core); err != nil {
			return false
		}
		p.mu.Lock()
		p.keys = keys
		p.mu.Unlock()
	}
	makes := func(code byte, syms []uint32) bool {
		return slices.ContainsFunc(syms, func(sym uint32) bool { return keys.Plain(code, sym) })
	}
	last := len(chord) - 1
	if !makes(code, chord[last]) {
		return false
	}
	for _, syms := range chord[:last] {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(down)), func(code byte) bool {
			return makes(code, syms) && time.Since(down[code]) < longestHold
		}) {
			return false
		}
	}
	return true
}

// Close ends the watching.
func (p *Person) Close() error {
	p.ended()
	_ = p.conn.Close()
	<-p.done
	return nil
}
