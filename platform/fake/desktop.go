package fake

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/platform"
)

// Event is one thing that was done to the desktop through its seam, in order.
type Event struct {
	// Op is the method, such as "input.button" or "accessibility.do".
	Op     string
	At     platform.Point // where the pointer was, then
	Button platform.Button
	Key    string // also the action of accessibility.do
	Down   bool
	Right  int    // of input.scroll
	DownBy int    // of input.scroll
	Text   string // typed, set or written
	Ref    string // the element or window
	Rect   platform.Rect
}

// Desktop is the fake; it is its own platform.DesktopOpener. Make it with New.
type Desktop struct {
	// OnEvent, if set before use, is the script: it is called after each Event took
	// its effect, outside of any lock, and may change the desktop.
	OnEvent func(d *Desktop, e Event)

	mu       sync.Mutex // above what follows
	layout   platform.Layout
	pix      map[platform.Point]uint32 // painted pixels; the rest is background
	ground   uint32
	seq      uint64
	last     map[frameKey]*platform.Frame
	windows  []platform.Window
	elements []element
	pointer  platform.Point
	buttons  map[platform.Button]platform.Point // held, and where it went down
	keys     []string                           // held, in order
	events   []Event
	fails    map[string]error
	hangs    map[string]bool
	missing  map[platform.DesktopPart]*platform.MissingError
	noDesk   *platform.MissingError
	locked   string
	clip     clip
	launched int
	opened   *platform.Desktop
	opens    int
	closed   bool

	screenWatch  watchers[platform.Rect]
	windowWatch  watchers[struct{}]
	elementWatch watchers[platform.ElementEvent]
	people       []*watch
}

// New returns a desktop of one display of 1280 × 800 without windows.
func New() *Desktop {
	d := &Desktop{
		ground: 0x203040, seq: 1,
		pix:     map[platform.Point]uint32{},
		last:    map[frameKey]*platform.Frame{},
		buttons: map[platform.Button]platform.Point{},
		fails:   map[string]error{},
		hangs:   map[string]bool{},
		missing: map[platform.DesktopPart]*platform.MissingError{},
	}
	d.layout = platform.Layout{Epoch: 1, Displays: []platform.Display{{
		ID: "FAKE-1", Name: "Fake 1", Primary: true, Bounds: platform.Rect{Width: 1280, Height: 800}, Scale: 1,
	}}}
	d.pointer = platform.Point{X: 640, Y: 400}
	return d
}

// Open returns the desktop, the same one until Lose.
func (d *Desktop) Open(ctx context.Context) (*platform.Desktop, error) {
	if err := d.begin(ctx, "open"); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.noDesk != nil {
		return nil, d.noDesk
	}
	if d.opened == nil {
		d.opens++
		d.opened = d.makeLocked()
	}
	return d.opened, nil
}

func (d *Desktop) makeLocked() *platform.Desktop {
	desk := &platform.Desktop{
		Name:   "fake",
		Screen: &screen{d}, Input: &input{d}, Person: &person{d}, Windows: &windows{d},
		Accessibility: &accessibility{d}, Clipboard: &clipboard{d},
		Missing: map[platform.DesktopPart]*platform.MissingError{},
	}
	for part, why := range d.missing {
		desk.Missing[part] = why
		switch part {
		case platform.PartScreen:
			desk.Screen = nil
		case platform.PartInput:
			desk.Input = nil
		case platform.PartPerson:
			desk.Person = nil
		case platform.PartWindows:
			desk.Windows = nil
		case platform.PartAccessibility:
			desk.Accessibility = nil
		case platform.PartClipboard:
			desk.Clipboard = nil
		}
	}
	return desk
}

// Locked returns what SetLocked said.
func (d *Desktop) Locked(context.Context) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.locked
}

// Close makes every later Open fail.
func (d *Desktop) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed, d.opened = true, nil
	d.noDesk = &platform.MissingError{What: "The fake desktop was closed.", Fix: "Make a new one."}
	return nil
}

// SetLocked has Locked give reason.
func (d *Desktop) SetLocked(reason string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.locked = reason
}

// SetMissing takes a part away (nil puts it back) from what the next Open after Lose returns; part
// "" stands for the whole desktop.
func (d *Desktop) SetMissing(part platform.DesktopPart, why *platform.MissingError) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case part == "":
		d.noDesk = why
	case why == nil:
		delete(d.missing, part)
	default:
		d.missing[part] = why
	}
	d.opened = nil
}

// Lose ends the open desktop as a display server does that ends: the next Open returns another one.
func (d *Desktop) Lose() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opened = nil
}

// Opens tells how many different desktops Open returned.
func (d *Desktop) Opens() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.opens
}

// Fail has the operation, such as "input.type" or "screen.frame", fail with err
// from now on; nil ends that.
func (d *Desktop) Fail(op string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		delete(d.fails, op)
		return
	}
	d.fails[op] = err
}

// Hang has the operation answer only when its ctx ends.
func (d *Desktop) Hang(op string, on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hangs[op] = on
}

// Events returns what was done so far.
func (d *Desktop) Events() []Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.events)
}

// begin is the start of every operation.
func (d *Desktop) begin(ctx context.Context, op string) error {
	d.mu.Lock()
	err, hang := d.fails[op], d.hangs[op]
	d.mu.Unlock()
	if hang {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// tell records e and runs the script.
func (d *Desktop) tell(e Event) {
	d.mu.Lock()
	d.events = append(d.events, e)
	script := d.OnEvent
	d.mu.Unlock()
	if script != nil {
		script(d, e)
	}
}

// watchers are the receivers of one kind of change.
type watchers[T any] struct{ all []chan T }

// add returns a channel that is closed when ctx ends. It is called with d.mu held.
func add[T any](d *Desktop, w *watchers[T], ctx context.Context, room int) <-chan T {
	c := make(chan T, room)
	w.all = append(w.all, c)
	context.AfterFunc(ctx, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if i := slices.Index(w.all, c); i >= 0 {
			w.all = slices.Delete(w.all, i, i+1)
			close(c)
		}
	})
	return c
}

// send returns v to every receiver; join makes one of what does not fit any more.
func (w *watchers[T]) send(v T, join func(old, v T) T) {
	for _, c := range w.all {
		for {
			select {
			case c <- v:
			default:
				select {
				case old := <-c:
					v = join(old, v)
				default:
				}
				continue
			}
			break
		}
	}
}

func now() time.Time { return time.Now() }
