package platform

import (
	"context"
	"time"
)

// Point is a place in physical pixels of the whole desktop. The origin is the
// desktop's, so coordinates can be negative where a display lies left of it.
type Point struct{ X, Y int }

// Rect is an area in physical pixels of the whole desktop.
type Rect struct{ X, Y, Width, Height int }

// Empty reports whether r has no pixel.
func (r Rect) Empty() bool { return r.Width <= 0 || r.Height <= 0 }

// Has reports whether p is one of r's pixels.
func (r Rect) Has(p Point) bool {
	return p.X >= r.X && p.X < r.X+r.Width && p.Y >= r.Y && p.Y < r.Y+r.Height
}

// Intersect returns the pixels that r and s share; the zero Rect if there are none.
func (r Rect) Intersect(s Rect) Rect {
	x0, y0 := max(r.X, s.X), max(r.Y, s.Y)
	x1, y1 := min(r.X+r.Width, s.X+s.Width), min(r.Y+r.Height, s.Y+s.Height)
	if x1 <= x0 || y1 <= y0 {
		return Rect{}
	}
	return Rect{x0, y0, x1 - x0, y1 - y0}
}

// Union returns the smallest Rect around both; an empty one counts for nothing.
func (r Rect) Union(s Rect) Rect {
	switch {
	case r.Empty():
		return s
	case s.Empty():
		return r
	}
	x0, y0 := min(r.X, s.X), min(r.Y, s.Y)
	return Rect{x0, y0, max(r.X+r.Width, s.X+s.Width) - x0, max(r.Y+r.Height, s.Y+s.Height) - y0}
}

// Center returns the pixel in the middle of r.
func (r Rect) Center() Point { return Point{r.X + r.Width/2, r.Y + r.Height/2} }

// Display is one screen of the desktop.
type Display struct {
	ID      string // stable while it is connected, such as "HDMI-1"; at most 256 bytes
	Name    string // for people
	Primary bool
	Bounds  Rect
	// Scale is what the desktop enlarges things by (1, 1.5, 2). It is information
	// only: every coordinate of this seam is physical.
	Scale float64
}

// Layout is the arrangement of the displays. Epoch changes whenever any display's
// place, size, scale or rotation does, and never repeats within a process.
type Layout struct {
	Epoch    uint64
	Displays []Display
}

// Whole returns the area that holds every display.
func (l Layout) Whole() Rect {
	var all Rect
	for _, d := range l.Displays {
		all = all.Union(d.Bounds)
	}
	return all
}

// Frame is an image of an area: 4 bytes a pixel (blue, green, red, unused), rows of Stride bytes,
// top first. A receiver reads it only: others see the same pixels. It is one owner's, who calls
// Release when nobody reads Pix for it any more.
type Frame struct {
	Area   Rect
	Epoch  uint64 // of the layout it was taken in
	Seq    uint64 // two frames of one area with the same Seq show the same pixels
	At     time.Time
	Pix    []byte // nil after Release
	Stride int
	// Free is called by Release, once; nil: nothing is to be done. The maker of a Frame sets it.
	Free func()
}

// Release returns the memory of the pixels back; another picture may stand in it from
// then on. A Frame that is never released keeps its memory, and later ones are copied
// because of it. Idempotent, also on nil.
func (f *Frame) Release() {
	if f == nil {
		return
	}
	free := f.Free
	f.Pix, f.Free = nil, nil
	if free != nil {
		free()
	}
}

// Grabber reads the pixels of one desktop. Only the capture bus calls it, from
// one goroutine at a time.
type Grabber interface {
	Layout(ctx context.Context) (Layout, error)
	// Grab copies the pixels of area, which lies in the desktop, into pix, rows of
	// area.Width*4 bytes. With cursor, the pointer's image is drawn in.
	Grab(ctx context.Context, area Rect, cursor bool, pix []byte) error
	// Damage reports what may have changed since it was last received: areas, or an
	// empty Rect for "the layout changed". Nil if this system cannot tell; closed
	// when the connection ended.
	Damage() <-chan Rect
	Close() error
}

// Screen is the capture bus as its users see it: one owner grabs, everybody who
// looks at a display looks at the same frames.
type Screen interface {
	Layout(ctx context.Context) (Layout, error)
	// Frame returns the pixels of area as they are now. The caller releases it.
	Frame(ctx context.Context, area Rect, cursor bool) (*Frame, error)
	// Changes delivers, until ctx ends, areas in which pixels changed, each a part
	// of area. Slow receivers get areas joined, never late ones.
	Changes(ctx context.Context, area Rect) (<-chan Rect, error)
}

// Alerter is a Screen that tells of painting without a look at it, for those who look
// themselves: Changes reads every picture once more to compare it.
type Alerter interface {
	// Alerts delivers, until ctx ends, that area may have been painted since it was last
	// received; often nothing is different. Closed when the connection ended.
	Alerts(ctx context.Context, area Rect) (<-chan struct{}, error)
}

// Button is a button of the mouse.
type Button string

// The buttons.
const (
	ButtonLeft    Button = "left"
	ButtonMiddle  Button = "middle"
	ButtonRight   Button = "right"
	ButtonBack    Button = "back"
	ButtonForward Button = "forward"
)

// Input makes the events of a mouse and a keyboard. Calls are in order; each
// returns when the system has taken the event, not after a fixed time.
type Input interface {
	Pointer(ctx context.Context) (Point, error)
	Move(ctx context.Context, to Point) error
	Button(ctx context.Context, b Button, down bool) error
	// Scroll turns the wheel by whole clicks: right and down are positive.
	Scroll(ctx context.Context, right, down int) error
	// Key presses or releases one key by its name, as KeyNames says.
	Key(ctx context.Context, name string, down bool) error
	// Type types text; every character arrives or it fails. It returns the number of characters
	// (code points) that were typed, also beside an error.
	Type(ctx context.Context, text string) (int, error)
	// Release lets go of every key and button that this Input holds. It works with
	// an ended ctx of a call too: give it a fresh one.
	Release(ctx context.Context) error
}

// Follower is an Input that can tell how far behind its input an application is.
type Follower interface {
	// Behind waits until the application under the pointer came by all that it was sent, but only a
	// moment for one that does not tell, and returns how long it took; 0 for one that does not
	// tell.
	Behind(ctx context.Context) (time.Duration, error)
}

// Clicker is an Input that sends several clicks at once, with times of their own: however
// late it is with them, they are not further apart for the application.
type Clicker interface {
	// Click presses and lets go of a button that is up, count times, the presses apart by
	// the given time.
	Click(ctx context.Context, b Button, count int, apart time.Duration) error
}

// Placer is an Input that sees where the pointer is as it moves it.
type Placer interface {
	// MoveTo is Move, and returns the place that Pointer would return then.
	MoveTo(ctx context.Context, to Point) (at Point, err error)
}

// Person tells when a person uses the device's own mouse or keyboard, which
// events of Input are not.
type Person interface {
	// Watch calls touched for each such event, quickly one after another, and
	// hotkey when the person presses the stop keys ("ctrl+alt+escape", say; empty
	// for none), until ctx ends. It returns at once; an error says that this system
	// cannot tell (*MissingError).
	Watch(ctx context.Context, hotkey string, touched func(at time.Time), stop func()) error
}

// Answerer is a Person that knows who made a key well enough for it to be a person's
// word: nothing that a program makes counts, whichever way it makes it.
type Answerer interface {
	// Chords calls pressed, with its number, for each of the chords ("ctrl+alt+y") that
	// the person presses on a keyboard of this device, until ctx ends. It returns at
	// once; an error says that this system cannot tell (*MissingError).
	Chords(ctx context.Context, chords []string, pressed func(chord int)) error
	// TellsKeys is nil where Chords would be able to tell, else what it would say.
	TellsKeys(ctx context.Context) error
}

// Window is one window of an application, in the order of z (0 is on top).
type Window struct {
	Ref       string // at most 256 bytes, such as "x11:0x1c00007"
	Title     string
	App       string // the application's name, such as "Mousepad"
	PID       int    // 0 if not known
	Bounds    Rect   // with its frame
	Content   Rect   // without
	Focused   bool
	Minimized bool
	Z         int
	// Own marks windows of this program (approval, indicator), which calls must
	// never look into, click or type into.
	Own bool
}

// Windows lists and arranges the windows. Errors for a window that is gone are
// ErrGone; for an application that is not there, ErrNoApp.
type Windows interface {
	List(ctx context.Context) ([]Window, error)
	// Activate brings a window to the front and gives it the focus. ErrCannot, in time, for
	// one that takes no focus; it comes to the front nevertheless.
	Activate(ctx context.Context, ref string) error
	// Place moves and resizes; the window manager may bend it: look again.
	Place(ctx context.Context, ref string, to Rect) error
	Minimize(ctx context.Context, ref string) error
	// Close asks the window to close, as its button does.
	Close(ctx context.Context, ref string) error
	// Launch starts an installed application by its name, desktop file or program name, without a
	// shell, outliving the call. It returns the process, 0 if the system does not tell.
	Launch(ctx context.Context, app string, args []string) (pid int, err error)
	// Changes delivers until ctx ends, joined, that the list or a window changed.
	Changes(ctx context.Context) (<-chan struct{}, error)
}

// Element is one thing in an application's accessible tree.
type Element struct {
	Ref    string // at most 512 bytes; means this element until it is gone
	Parent int    // its parent's index in Tree.Elements; -1 for an application
	// Role is in the words of Roles, such as "button".
	Role, Name  string
	Description string
	Value       string // what a field shows; "" for protected ones
	// States are in the words of States, sorted.
	States []string
	// Bounds are of the whole desktop; empty if it is not on the screen.
	Bounds Rect
	// Actions are the names of what it can do itself, such as "press".
	Actions []string
	App     string
	PID     int
	Window  string // the Window.Ref it belongs to, if that is known
}

// Tree is what one reading returned, parents before children, in the order of the
// screen.
type Tree struct {
	Elements []Element
	// Hung names applications that did not answer in their time.
	Hung []string
	// Truncated tells that MaxElements was reached.
	Truncated bool
}

// TreeQuery bounds a reading.
type TreeQuery struct {
	PID         int    // only this application; 0 for all
	Root        string // only below this element; "" for all
	MaxElements int
	Bounds      bool // with bounds, actions and values: they cost more reading
	// PerApp is how long one application may take; it costs only its own subtree.
	PerApp time.Duration
}

// ElementEvent says what changed in an application.
type ElementEvent struct {
	PID  int
	Ref  string
	Kind string // added, removed, changed, focused, window, text
}

// Accessibility reads and uses the elements that applications publish. Errors
// for an element that is gone are ErrGone, for an application that does not
// answer in time ErrHung, for what an element cannot do ErrCannot.
type Accessibility interface {
	Tree(ctx context.Context, q TreeQuery) (Tree, error)
	// Element reads one element anew.
	Element(ctx context.Context, ref string) (Element, error)
	// Text reads up to max characters of a field's text.
	Text(ctx context.Context, ref string, max int) (string, error)
	// Do has the element do one of its Actions, or Press, the main one.
	Do(ctx context.Context, ref, action string) error
	// SetText replaces the whole text of an editable element.
	SetText(ctx context.Context, ref, text string) error
	// SetNumber sets the value of a slider, spin button and the like.
	SetNumber(ctx context.Context, ref string, value float64) error
	// Number reads such a value with its bounds.
	Number(ctx context.Context, ref string) (value, least, most, step float64, err error)
	Focus(ctx context.Context, ref string) error
	// Select selects this child in its container, alone or beside others.
	Select(ctx context.Context, ref string, add bool) error
	// Reveal scrolls the element into view.
	Reveal(ctx context.Context, ref string) error
	// Events delivers changes until ctx ends. A receiver that does not keep up gets
	// one event of Kind "changed" without a Ref instead of many.
	Events(ctx context.Context) (<-chan ElementEvent, error)
}

// Clipboard is the desktop's clipboard for text.
type Clipboard interface {
	// Write puts text there, with the system's hints against histories if
	// concealed, and has it cleared after clearAfter (0: never) if it still is
	// there. It returns once a reader gets the text. A text that is not UTF-8, or
	// holds a zero, is an error and changes nothing.
	Write(ctx context.Context, text string, concealed bool, clearAfter time.Duration) error
	// Read returns the text there; "" if there is none.
	Read(ctx context.Context) (string, error)
	// Clear empties it if it still holds what this Clipboard wrote; it tells
	// whether it did.
	Clear(ctx context.Context) (bool, error)
}

// SeenText is a word that is seen in pixels.
type SeenText struct {
	Text       string
	Bounds     Rect // of the whole desktop
	Line       int  // words with the same number stand in one line, in their order
	Confidence float64
}

// TextReader finds text in pixels. *MissingError if what it needs is not installed.
type TextReader interface {
	Read(ctx context.Context, f *Frame) ([]SeenText, error)
}

// Desktop is a person's desktop. A part that this system cannot give is nil,
// and Missing says for it what is missing and the fix.
type Desktop struct {
	// Name is what stands behind it, such as "X11 :0, openbox, AT-SPI".
	Name          string
	Screen        Screen
	Input         Input
	Person        Person
	Windows       Windows
	Accessibility Accessibility
	Clipboard     Clipboard
	Missing       map[DesktopPart]*MissingError
	// Instead says of a part that is there what stands in for the usual way, and why.
	Instead map[DesktopPart]string
}

// DesktopPart names a part of a Desktop.
type DesktopPart string

// The parts.
const (
	PartScreen        DesktopPart = "screen"
	PartInput         DesktopPart = "input"
	PartPerson        DesktopPart = "person"
	PartWindows       DesktopPart = "windows"
	PartAccessibility DesktopPart = "accessibility"
	PartClipboard     DesktopPart = "clipboard"
)

// DesktopOpener opens the desktop of the session that this process belongs to.
type DesktopOpener interface {
	// Open returns the one Desktop of this process, opening it if it is not open or
	// was lost (a display server that ended). *MissingError if there is none, or it is
	// not open when ctx's time is over: opening goes on then, for who asks next.
	Open(ctx context.Context) (*Desktop, error)
	// Locked reports that the session is locked or shows a secure desktop, with the
	// reason, "" if it is not. Quick: it may answer from a cache.
	Locked(ctx context.Context) string
	Close() error
}

// DesktopError is one of the conditions that handlers tell apart.
type DesktopError string

// Error returns the text.
func (e DesktopError) Error() string { return string(e) }

// The conditions.
const (
	ErrGone   DesktopError = "the element or window is gone"
	ErrHung   DesktopError = "the application does not answer"
	ErrCannot DesktopError = "the element cannot do that"
	// ErrLost says that the display server or the bus ended; Open again.
	ErrLost DesktopError = "the connection to the desktop was lost"
	// ErrNoApp says that no installed application has that name.
	ErrNoApp DesktopError = "no such application is installed"
	// ErrUntypable says that this system cannot type a character of the text.
	ErrUntypable DesktopError = "a character cannot be typed here"
)

// Press is the name for an element's main action in Accessibility.Do.
const Press = "press"
