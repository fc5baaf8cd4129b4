package atspi

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// Options of New.
type Options struct {
	// Windows are the desktop's windows: elements get their Window from them, and
	// those of GTK 4, which knows places in its windows only, their bounds. Nil:
	// neither.
	Windows platform.Windows
	// InWindows says that every application knows places in its windows only, as
	// under Wayland.
	InWindows bool
	// SessionBus is the address of the session bus. Default: this process's own,
	// as DBUS_SESSION_BUS_ADDRESS or XDG_RUNTIME_DIR say.
	SessionBus string
	// Idle is how long applications are followed after the last question. Default:
	// 2 minutes.
	Idle time.Duration
	// Log gets what a person who looks after a device should know. Required.
	Log *slog.Logger
}

// Accessibility implements platform.Accessibility. Its methods are safe for
// concurrent use.
type Accessibility struct {
	options Options

	mu      sync.Mutex // guards what follows
	session *session
	closed  bool

	opening chan struct{} // holds a token while a session is opened
}

var _ platform.Accessibility = (*Accessibility)(nil)

// New makes an Accessibility; it connects to nothing yet.
func New(o Options) *Accessibility {
	if o.Idle <= 0 {
		o.Idle = 2 * time.Minute
	}
	return &Accessibility{options: o, opening: make(chan struct{}, 1)}
}

// Check tells, as a *platform.MissingError, why there are no elements to read
// here. It connects, but neither enables accessibility nor asks an application.
func (a *Accessibility) Check(ctx context.Context) error {
	_, err := a.open(ctx)
	return err
}

// Close ends the connection; calls under way fail with ErrLost.
func (a *Accessibility) Close() error {
	a.mu.Lock()
	s := a.session
	a.session, a.closed = nil, true
	a.mu.Unlock()
	if s != nil {
		s.close()
	}
	return nil
}

// open returns the running session, or connects.
func (a *Accessibility) open(ctx context.Context) (*session, error) {
	select {
	case a.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-a.opening }()
	a.mu.Lock()
	s, closed := a.session, a.closed
	a.mu.Unlock()
	if closed {
		return nil, platform.ErrLost
	}
	if s != nil && s.bus.Connected() {
		return s, nil
	}
	if s != nil {
		s.close()
	}
	s, err := connect(ctx, a.options)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		s.close()
		return nil, platform.ErrLost
	}
	a.session = s
	return s, nil
}

// session is one connection to the accessibility bus, and what is known of the
// applications on it.
type session struct {
	options Options
	bus     *dbus.Conn
	id      string // of the bus: names such as ":1.5" mean something on one bus only
	self    string // our name on it
	few     int    // fewNodes, which tests change
	own     int    // this process, whose elements are left out
	//lint:ignore containedctx the life of the session
	ctx    context.Context
	cancel context.CancelFunc

	mu        sync.Mutex // guards what follows; taken before an app's
	apps      map[string]*app
	guests    map[string]*app         // names on the bus whose elements belong to another application
	lines     map[string][]*dbus.Conn // to applications themselves, the one used longest ago first
	listeners map[*listener]struct{}
	used      time.Time
	idle      *time.Timer

	following chan struct{} // holds a token while events are being asked for
	followed  bool          // guarded by that token
	enabled   bool          // guarded by that token
}

const fixPackage = "Debian and Ubuntu: apt-get install at-spi2-core dbus; then log in to the desktop again."

func connect(ctx context.Context, o Options) (*session, error) {
	address := o.SessionBus
	if address == "" {
		address = os.Getenv("DBUS_SESSION_BUS_ADDRESS")
	}
	if address == "" {
		if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
			address = "unix:path=" + dir + "/bus"
		}
	}
	if address == "" {
		return nil, &platform.MissingError{What: "There is no session bus, through which applications publish their elements.",
			Fix: "Start the node in the desktop's session, or set DBUS_SESSION_BUS_ADDRESS to it."}
	}
	o.SessionBus = address
	front, err := dial(ctx, address, nil)
	if err != nil {
		return nil, &platform.MissingError{What: "The session bus does not answer (" + plain(err) + ").",
			Fix: "Start the node in the desktop's session, or set DBUS_SESSION_BUS_ADDRESS to it."}
	}
	defer front.Close()
	q := call(place{"org.a11y.Bus", "/org/a11y/bus"}, "org.a11y.Bus.GetAddress")
	// Not by ask: this one may start the service.
	reply := front.Object("org.a11y.Bus", "/org/a11y/bus").CallWithContext(ctx, q.method, 0)
	q.body, q.err = reply.Body, reply.Err
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case q.err != nil:
		return nil, &platform.MissingError{What: "The desktop has no accessibility bus (" + plain(q.err) + ").", Fix: fixPackage}
	case q.text() == "":
		return nil, &platform.MissingError{What: "The accessibility bus of this desktop did not start.", Fix: fixPackage}
	}
	s := &session{
		options: o, few: fewNodes, own: os.Getpid(), apps: map[string]*app{}, guests: map[string]*app{}, lines: map[string][]*dbus.Conn{},
		listeners: map[*listener]struct{}{}, following: make(chan struct{}, 1),
	}
	if s.bus, err = dial(ctx, q.text(), s); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &platform.MissingError{What: "The accessibility bus does not answer (" + plain(err) + ").", Fix: fixPackage}
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if names := s.bus.Names(); len(names) > 0 {
		s.self = names[0]
	}
	id := call(place{ifBus, pathBus}, ifBus+".GetId")
	if err := ask(ctx, s.bus, nil, id); err != nil {
		s.close()
		return nil, err
	}
	s.id = "bus"
	if guid := id.text(); len(guid) >= 6 {
		s.id = guid[:6]
	}
	return s, nil
}

// plain returns an error's text in a form that fits into a sentence.
func plain(err error) string {
	return capabilities.Clip(strings.TrimSuffix(strings.ReplaceAll(err.Error(), "\n", " "), "."), 200)
}

// dial connects and says hello. Signals go to s, if there is one.
func dial(ctx context.Context, address string, s *session) (*dbus.Conn, error) {
	raw, err := dialBus(address, func(path string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	})
	if err != nil {
		return nil, err
	}
	// The handshake knows no context.
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	options := []dbus.ConnOption{dbus.WithHandler(mute{})}
	if s != nil {
		options = append(options, dbus.WithSignalHandler(s))
	} else {
		options = append(options, dbus.WithSignalHandler(mute{}))
	}
	c, err := dbus.NewConn(newGuard(raw), options...)
	if err != nil {
		raw.Close()
		return nil, err
	}
	if err := c.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))}); err != nil {
		c.Close()
		return nil, err
	}
	if err := c.Hello(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// mute has no objects and hears no signals.
type mute struct{}

func (mute) LookupObject(dbus.ObjectPath) (dbus.ServerObject, bool) { return nil, false }
func (mute) DeliverSignal(string, string, *dbus.Signal)             {}

func (s *session) close() {
	s.cancel()
	s.bus.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, lines := range s.lines {
		for _, c := range lines {
			c.Close()
		}
	}
	clear(s.lines)
	for _, p := range s.apps {
		p.hangUp()
	}
	if s.idle != nil {
		s.idle.Stop()
	}
	for l := range s.listeners {
		l.end()
	}
	clear(s.listeners)
}

// wanted are the events that keep the mirrors true. Places of the pointer and of
// every element that moves are not among them: bounds are read when they are
// asked for.
var wanted = []string{
	"object:children-changed", "object:state-changed", "object:property-change:accessible-name",
	"object:property-change:accessible-description", "object:property-change:accessible-role",
	"object:property-change:accessible-value", "object:text-changed", "document:load-complete", "window:",
}

// matches are the rules for the signals of those events.
var matches = []string{
	"type='signal',interface='org.a11y.atspi.Event.Object',member='ChildrenChanged'",
	"type='signal',interface='org.a11y.atspi.Event.Object',member='StateChanged'",
	"type='signal',interface='org.a11y.atspi.Event.Object',member='PropertyChange'",
	"type='signal',interface='org.a11y.atspi.Event.Object',member='TextChanged'",
	"type='signal',interface='org.a11y.atspi.Event.Window'",
	"type='signal',interface='org.a11y.atspi.Event.Document'",
	"type='signal',sender='org.freedesktop.DBus',interface='org.freedesktop.DBus',member='NameOwnerChanged',arg2=''",
}

// follow makes applications publish their elements and tell of changes. It is
// what the first question that needs elements does.
func (s *session) follow(ctx context.Context) error {
	select {
	case s.following <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ctx.Done():
		return platform.ErrLost
	}
	defer func() { <-s.following }()
	s.mu.Lock()
	s.used = time.Now()
	s.mu.Unlock()
	if s.followed {
		return nil
	}
	enabled := make(chan error, 1)
	if s.enabled {
		enabled <- nil
	} else {
		go func() { enabled <- s.enable(ctx) }() // beside the rest, which takes as long
	}
	var questions []*question
	for _, m := range matches {
		questions = append(questions, call(place{ifBus, pathBus}, ifBus+".AddMatch", m))
	}
	for _, event := range wanted {
		questions = append(questions, call(place{ifRegistry, pathRegistry}, ifRegistry+".RegisterEvent", event, []string{}, ""))
	}
	// The registry is a service that the bus starts when it is asked.
	if err := s.bus.BusObject().CallWithContext(ctx, ifBus+".StartServiceByName", 0, ifRegistry, uint32(0)).Err; err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, dbus.ErrClosed) {
			return platform.ErrLost
		}
		return &platform.MissingError{What: "The registry of accessible applications does not start (" + plain(err) + ").", Fix: fixPackage}
	}
	if err := ask(ctx, s.bus, nil, questions...); err != nil {
		return err
	}
	for _, q := range questions {
		if q.err != nil && q.method == ifRegistry+".RegisterEvent" && lacks(q.err) {
			// Registries before 2.36 take the name alone.
			q = call(q.at, q.method, q.args[0])
			if err := ask(ctx, s.bus, nil, q); err != nil {
				return err
			}
		}
		if q.err != nil {
			return &platform.MissingError{What: "The registry of accessible applications refuses (" + plain(q.err) + ").", Fix: fixPackage}
		}
	}
	if err := <-enabled; err != nil {
		return err
	}
	s.enabled, s.followed = true, true
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle == nil {
		s.idle = time.AfterFunc(s.options.Idle, s.rest)
	}
	return nil
}

// enable sets org.a11y.Status IsEnabled if it is not set.
func (s *session) enable(ctx context.Context) error {
	front, err := dial(ctx, s.options.SessionBus, nil)
	if err != nil {
		return platform.ErrLost
	}
	defer front.Close()
	status := place{"org.a11y.Bus", "/org/a11y/bus"}
	is := property(status, "org.a11y.Status", "IsEnabled")
	if err := ask(ctx, front, nil, is); err != nil {
		return err
	}
	if is.yes() {
		return nil
	}
	set := call(status, ifProperties+".Set", "org.a11y.Status", "IsEnabled", dbus.MakeVariant(true))
	if err := ask(ctx, front, nil, set); err != nil {
		return err
	}
	if set.err != nil {
		s.options.Log.Warn("accessibility could not be enabled; some applications may show no elements", "error", plain(set.err))
		return nil
	}
	s.options.Log.Info("accessibility was enabled for this desktop session")
	return nil
}

// rest ends the following of applications that nobody asked about for a while:
// an event costs the application that sends it, too.
func (s *session) rest() {
	select {
	case s.following <- struct{}{}:
	case <-s.ctx.Done():
		return
	}
	defer func() { <-s.following }()
	s.mu.Lock()
	left := s.options.Idle - time.Since(s.used)
	if len(s.listeners) > 0 {
		left = max(left, s.options.Idle)
	}
	if left > 0 {
		s.idle.Reset(left)
		s.mu.Unlock()
		return
	}
	s.idle = nil
	for _, p := range s.apps {
		p.hangUp()
	}
	clear(s.apps)
	clear(s.guests)
	s.mu.Unlock()
	s.followed = false
	var questions []*question
	for _, event := range wanted {
		questions = append(questions, call(place{ifRegistry, pathRegistry}, ifRegistry+".DeregisterEvent", event))
	}
	for _, m := range matches {
		questions = append(questions, call(place{ifBus, pathBus}, ifBus+".RemoveMatch", m))
	}
	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
	defer cancel()
	if err := ask(ctx, s.bus, nil, questions...); err != nil {
		s.options.Log.Debug("the registry did not answer when events were ended", "error", err)
	}
}
