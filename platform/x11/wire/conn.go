package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/handrail-dev/handrail/platform"
)

// Options say which server to connect to.
type Options struct {
	// Display is as in $DISPLAY. Default: that.
	Display string
	// Authority is the file with the cookie. Default: $XAUTHORITY, or .Xauthority
	// in the home folder.
	Authority string
}

// Conn is a connection to an X server, shared by the parts of a desktop. Its
// methods are safe for concurrent use.
//
// Requests are made with xgb's functions on X; wait for their replies through Ask,
// so that a server that hangs costs the call and not the node. Extensions are
// made known with Extension, never with the Init of xgb's packages.
type Conn struct {
	X      *xgb.Conn
	Screen xproto.ScreenInfo // the screen of the display, such as its root window
	Setup  *xproto.SetupInfo
	Name   string // the display, such as ":0"

	stream *stream
	hooks  atomic.Pointer[[]*hook]
	ext    map[string]Extension // not changed after Dial
	lost   chan struct{}
	close  sync.Once

	mu    sync.Mutex // above what follows
	atoms map[string]xproto.Atom
	names map[xproto.Atom]string
	mask  uint32 // of events of the root window
}

type hook struct{ f func(Event) }

// Event is one event of the server, undecoded: use the decoder that fits, such
// as xproto.PropertyNotifyEventNew(e.Data).
type Event struct {
	// Code is the number of its kind, without the bit of sent ones. For kinds of
	// extensions compare with Extension.FirstEvent; generic events (XInput 2) have
	// code 35 and the extension's major opcode in Data[1].
	Code byte
	Sent bool // made by a client with SendEvent
	Data []byte
}

// Window is the window that a core structure event is about:
//
//	code, detail, sequence:2, event:4, window:4, …
func (e Event) Window() xproto.Window {
	return xproto.Window(binary.LittleEndian.Uint32(e.Data[8:]))
}

// Extension is where the server put an extension.
type Extension struct {
	Present    bool
	Major      byte
	FirstEvent byte
}

// Dial connects. An error is a *platform.MissingError that says what to do, or
// that of ctx.
func Dial(ctx context.Context, o Options) (*Conn, error) {
	name := o.Display
	if name == "" {
		name = os.Getenv("DISPLAY")
	}
	if name == "" {
		return nil, &platform.MissingError{What: "No X display is set (DISPLAY is empty).",
			Fix: "Start the node within the desktop session, or set DISPLAY, such as DISPLAY=:0, for it."}
	}
	a, err := parseDisplay(name)
	if err != nil {
		return nil, &platform.MissingError{What: fmt.Sprintf("DISPLAY is %q, which is %v.", name, err),
			Fix: "Set DISPLAY to the session's display, such as DISPLAY=:0."}
	}
	authority := authorityFile(o.Authority)
	raw, err := a.dial(ctx, authority)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if _, foreign := errors.AsType[*foreignError](err); foreign {
			return nil, &platform.MissingError{What: fmt.Sprintf("The X server of DISPLAY=%s is not this session's: %v.", name, err),
				Fix: "Start the node as the session's user, or set XAUTHORITY to the file of the account that the X server runs as.", Permission: true}
		}
		return nil, &platform.MissingError{What: fmt.Sprintf("The X server of DISPLAY=%s does not answer: %v.", name, err),
			Fix: "Start the session, or set DISPLAY to the display that it has."}
	}
	c := &Conn{Name: name, lost: make(chan struct{}),
		ext: map[string]Extension{}, atoms: map[string]xproto.Atom{}, names: map[xproto.Atom]string{}}
	c.hooks.Store(&[]*hook{})
	c.stream = newStream(raw, setupRequest(a.authority(authority)), c.dispatch)

	// A server that accepts and says nothing (stopped, or full) must not hold us.
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	xgb.Logger.SetOutput(io.Discard) // every line there is also an error here
	c.X, err = xgb.NewConnNet(c.stream)
	if !stop() && ctx.Err() != nil {
		if err == nil {
			c.X.Close()
		}
		_ = raw.Close()
		return nil, ctx.Err()
	}
	if err != nil {
		_ = raw.Close()
		return nil, &platform.MissingError{What: fmt.Sprintf("The X server of DISPLAY=%s refused this program: %v.", name, err),
			Fix: "Start the node as the session's user, or set XAUTHORITY to the session's file for it.", Permission: true}
	}
	c.X.DefaultScreen = a.screen
	c.Setup = xproto.Setup(c.X)
	if a.screen >= len(c.Setup.Roots) {
		c.X.Close()
		_ = raw.Close()
		return nil, &platform.MissingError{What: fmt.Sprintf("DISPLAY=%s names a screen that the X server does not have.", name),
			Fix: fmt.Sprintf("Set DISPLAY=:%d.", a.number)}
	}
	c.Screen = c.Setup.Roots[a.screen]
	go c.drain()
	if err := c.learnExtensions(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// drain takes errors of requests that nobody waits for, and ends when the
// connection does.
func (c *Conn) drain() {
	for {
		if e, err := c.X.WaitForEvent(); e == nil && err == nil {
			close(c.lost)
			return
		}
	}
}

// Root returns the root window.
func (c *Conn) Root() xproto.Window { return c.Screen.Root }

// Lost is closed when the connection has ended.
func (c *Conn) Lost() <-chan struct{} { return c.lost }

// Close ends the connection. Idempotent.
func (c *Conn) Close() error {
	c.close.Do(func() {
		_ = c.stream.Conn.Close() // xgb's own way asks the server first, which may hang
		<-c.lost
	})
	return nil
}

// Listen adds kinds of events of the root window, such as
// xproto.EventMaskPropertyChange, to those that come. There is one mask for a
// connection and window: set the root's here only, or parts lose each other's.
func (c *Conn) Listen(ctx context.Context, mask uint32) error {
	c.mu.Lock()
	c.mask |= mask
	xproto.ChangeWindowAttributes(c.X, c.Root(), xproto.CwEventMask, []uint32{c.mask})
	c.mu.Unlock()
	return c.Sync(ctx)
}

// Hook has f called with every event, in order, until the returned function is
// called. f runs where the connection is read: it must be quick and must not make
// requests. Most want Subscribe.
func (c *Conn) Hook(f func(Event)) (remove func()) {
	h := &hook{f}
	c.change(func(all []*hook) []*hook { return append(all, h) })
	return func() {
		c.change(func(all []*hook) []*hook { return slices.DeleteFunc(all, func(x *hook) bool { return x == h }) })
	}
}

func (c *Conn) change(f func([]*hook) []*hook) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := f(slices.Clone(*c.hooks.Load()))
	c.hooks.Store(&all)
}

func (c *Conn) dispatch(e Event) {
	for _, h := range *c.hooks.Load() {
		h.f(e)
	}
}

// Subscribe delivers the events that want accepts, in order, until ctx or the
// connection ends, which closes the channel. want runs where the connection is
// read. Events wait for a slow receiver without bound: want little.
func (c *Conn) Subscribe(ctx context.Context, want func(Event) bool) <-chan Event {
	var (
		mu    sync.Mutex
		queue []Event
		wake  = make(chan struct{}, 1)
		out   = make(chan Event)
	)
	remove := c.Hook(func(e Event) {
		if !want(e) {
			return
		}
		mu.Lock()
		queue = append(queue, e)
		mu.Unlock()
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	go func() {
		defer close(out)
		defer remove()
		for {
			mu.Lock()
			batch := queue
			queue = nil
			mu.Unlock()
			for _, e := range batch {
				select {
				case out <- e:
				case <-ctx.Done():
					return
				case <-c.lost:
					return
				}
			}
			if len(batch) > 0 {
				continue
			}
			select {
			case <-wake:
			case <-ctx.Done():
				return
			case <-c.lost:
				return
			}
		}
	}()
	return out
}

// Ask makes a request and waits for what it returns, no longer than ctx allows:
//
//	geo, err := wire.Ask(ctx, c, func() (*xproto.GetGeometryReply, error) { return xproto.GetGeometry(c.X, d).Reply() })
//
// A connection that ended is platform.ErrLost. Errors of the server come as xgb's.
func Ask[R any](ctx context.Context, c *Conn, request func() (R, error)) (R, error) {
	type answer struct {
		r   R
		err error
	}
	var none R
	if err := ctx.Err(); err != nil {
		return none, err
	}
	ch := make(chan answer, 1)
	go func() {
		r, err := request()
		ch <- answer{r, err}
	}()
	select {
	case a := <-ch:
		return a.r, c.Fault(a.err)
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// Do is Ask for requests without a reply: it returns when the server has done
// what f asked, f being one or more requests.
//
//	err := c.Do(ctx, func() error { return xproto.MapWindowChecked(c.X, w).Check() })
func (c *Conn) Do(ctx context.Context, f func() error) error {
	_, err := Ask(ctx, c, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// Sync waits until the server has handled every request made so far.
func (c *Conn) Sync(ctx context.Context) error {
	_, err := Ask(ctx, c, func() (*xproto.GetInputFocusReply, error) { return xproto.GetInputFocus(c.X).Reply() })
	return err
}

// Fault turns the ends of a connection into platform.ErrLost.
func (c *Conn) Fault(err error) error {
	var answered xgb.Error
	if err == nil || errors.As(err, &answered) || errors.Is(err, platform.ErrLost) {
		return err
	}
	if errors.Is(err, io.EOF) {
		return platform.ErrLost
	}
	select {
	case <-c.lost:
		return platform.ErrLost
	default:
		return err
	}
}

// extensions are those that some part here uses. All are asked for at the start:
// xgb's functions take its lock twice, so that writing to its table beside them
// can stop both for good.
var extensions = [...]string{
	"DAMAGE", "MIT-SHM", "RANDR", "RECORD", "X-Resource", "XFIXES", "XInputExtension", "XKEYBOARD", "XTEST", "XWAYLAND",
}

func (c *Conn) learnExtensions(ctx context.Context) error {
	return c.Do(ctx, func() error {
		var cookies [len(extensions)]xproto.QueryExtensionCookie
		for i, name := range extensions {
			cookies[i] = xproto.QueryExtension(c.X, uint16(len(name)), name)
		}
		for i, name := range extensions {
			r, err := cookies[i].Reply()
			if err != nil {
				return err
			}
			c.ext[name] = Extension{Present: r.Present, Major: r.MajorOpcode, FirstEvent: r.FirstEvent}
			if r.Present {
				c.X.ExtLock.Lock()
				c.X.Extensions[name] = r.MajorOpcode
				c.X.ExtLock.Unlock()
			}
		}
		return nil
	})
}

// Extension tells where an extension is, such as "DAMAGE", which xgb's functions
// know then, too. Whether its version suffices the caller asks itself.
func (c *Conn) Extension(_ context.Context, name string) (Extension, error) {
	e, asked := c.ext[name]
	if !asked {
		return Extension{}, fmt.Errorf("x11: the extension %s is not among those that Dial asks for", name)
	}
	return e, nil
}

// Atom returns the number of a name.
func (c *Conn) Atom(ctx context.Context, name string) (xproto.Atom, error) {
	c.mu.Lock()
	a, ok := c.atoms[name]
	c.mu.Unlock()
	if ok {
		return a, nil
	}
	r, err := Ask(ctx, c, func() (*xproto.InternAtomReply, error) {
		return xproto.InternAtom(c.X, false, uint16(len(name)), name).Reply()
	})
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.atoms[name] = r.Atom
	c.names[r.Atom] = name
	return r.Atom, nil
}

// maxAtoms bounds the names that are remembered: any client can make more.
const maxAtoms = 4096

// AtomName returns the name of a number.
func (c *Conn) AtomName(ctx context.Context, a xproto.Atom) (string, error) {
	c.mu.Lock()
	name, ok := c.names[a]
	c.mu.Unlock()
	if ok {
		return name, nil
	}
	r, err := Ask(ctx, c, func() (*xproto.GetAtomNameReply, error) { return xproto.GetAtomName(c.X, a).Reply() })
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.names) < maxAtoms {
		c.names[a] = r.Name
	}
	return r.Name, nil
}
