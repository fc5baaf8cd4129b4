package portal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/handrail-dev/handrail/platform"
)

// The names on the bus.
const (
	busName    = "org.freedesktop.portal.Desktop"
	busPath    = dbus.ObjectPath("/org/freedesktop/portal/desktop")
	screenshot = "org.freedesktop.portal.Screenshot"
	remote     = "org.freedesktop.portal.RemoteDesktop"
	cast       = "org.freedesktop.portal.ScreenCast"
	request    = "org.freedesktop.portal.Request"
	session    = "org.freedesktop.portal.Session"
)

// Portal is a connection to the session's portal. Its methods are safe for
// concurrent use.
type Portal struct {
	conn *dbus.Conn
	lost chan struct{}

	mu      sync.Mutex // above what follows
	answers map[dbus.ObjectPath]chan []any
	ended   map[dbus.ObjectPath]func() // sessions, and what is to be done when one ends
}

// Dial connects to the portal of the bus at that address. An error is a
// *platform.MissingError, or that of ctx.
func Dial(ctx context.Context, address string) (*Portal, error) {
	if address == "" {
		return nil, none("there is no session bus (DBUS_SESSION_BUS_ADDRESS is not set)")
	}
	// The connection outlives ctx; only its making does not.
	type made struct {
		conn *dbus.Conn
		err  error
	}
	done := make(chan made, 1)
	go func() {
		c, err := dbus.Connect(address)
		done <- made{c, err}
	}()
	var m made
	select {
	case m = <-done:
	case <-ctx.Done():
		go func() {
			if m := <-done; m.err == nil {
				_ = m.conn.Close()
			}
		}()
		return nil, ctx.Err()
	}
	if m.err != nil {
		return nil, none("the session bus does not answer")
	}
	p := &Portal{conn: m.conn, lost: make(chan struct{}), answers: map[dbus.ObjectPath]chan []any{}, ended: map[dbus.ObjectPath]func(){}}
	signals := make(chan *dbus.Signal, 64)
	p.conn.Signal(signals)
	go p.hear(signals)
	var err error
	for _, match := range [][2]string{{request, "Response"}, {session, "Closed"}} {
		err = errors.Join(err,
			p.conn.AddMatchSignalContext(ctx, dbus.WithMatchInterface(match[0]), dbus.WithMatchMember(match[1]), dbus.WithMatchSender(busName)))
	}
	if err == nil {
		// The bus starts the service that is to answer, if it is installed.
		soon, cancel := context.WithTimeout(ctx, startWithin)
		defer cancel()
		err = p.conn.Object(busName, busPath).CallWithContext(soon, "org.freedesktop.DBus.Peer.Ping", 0).Err
	}
	if err != nil {
		_ = p.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, none("nobody answers for " + busName + " on the session bus")
	}
	return p, nil
}

// startWithin bounds how long the bus may take to start the portal.
const startWithin = 10 * time.Second

func none(why string) *platform.MissingError {
	return &platform.MissingError{
		What: "There is no desktop portal: " + why + ".",
		Fix:  "Install xdg-desktop-portal with the part for your desktop (xdg-desktop-portal-gnome, -kde).",
	}
}

// Lost is closed when the bus has ended.
func (p *Portal) Lost() <-chan struct{} { return p.lost }

// Close ends the connection, and with it every session. Idempotent.
func (p *Portal) Close() error {
	err := p.conn.Close()
	<-p.lost
	return err
}

// hear hands out the signals, and ends with the connection.
func (p *Portal) hear(signals <-chan *dbus.Signal) {
	defer close(p.lost)
	for s := range signals {
		p.mu.Lock()
		switch s.Name {
		case request + ".Response":
			if to := p.answers[s.Path]; to != nil {
				delete(p.answers, s.Path)
				to <- s.Body // has room for the one answer
			}
		case session + ".Closed":
			if then := p.ended[s.Path]; then != nil {
				delete(p.ended, s.Path)
				then()
			}
		}
		p.mu.Unlock()
	}
}

// has tells whether the portal has an interface, by one of its properties that is a number, and
// returns that.
func (p *Portal) has(ctx context.Context, iface, property string) (uint32, error) {
	var v dbus.Variant
	err := p.conn.Object(busName, busPath).CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0, iface, property).Store(&v)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	n, ok := v.Value().(uint32)
	if err != nil || !ok {
		return 0, &platform.MissingError{What: "The desktop portal does not offer " + iface + ".",
			Fix: "Install the part of xdg-desktop-portal for your desktop, or log in to an X11 session: choose one \"on Xorg\" where you log in."}
	}
	return n, nil
}

// errRefused says that the person said no.
var errRefused = errors.New("portal: the person refused")

type options = map[string]dbus.Variant

// ask makes a request: a call whose answer comes as a signal, maybe after the person
// was asked. The options are the last argument. When ctx ends, so does the question.
func (p *Portal) ask(ctx context.Context, method string, o options, args ...any) (options, error) {
	token := "handrail" + rand.Text()
	o["handle_token"] = dbus.MakeVariant(token)
	path := p.child("request", token)
	answer := make(chan []any, 1)
	p.mu.Lock()
	p.answers[path] = answer
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.answers, path)
		p.mu.Unlock()
	}()
	if err := p.call(ctx, method, append(args, o)...); err != nil {
		return nil, err
	}
	var body []any
	select {
	case body = <-answer:
	case <-ctx.Done():
		select {
		case body = <-answer: // a no comes with the end of its session, and before it
		default:
			_ = p.conn.Object(busName, path).Call(request+".Close", dbus.FlagNoReplyExpected).Err
			return nil, ctx.Err()
		}
	case <-p.lost:
		return nil, platform.ErrLost
	}
	var code uint32
	var results options
	if err := dbus.Store(body, &code, &results); err != nil {
		return nil, fmt.Errorf("portal: the answer to %s is malformed", method)
	}
	switch code {
	case 0:
		return results, nil
	case 1:
		return nil, errRefused
	}
	return nil, fmt.Errorf("portal: the desktop did not do %s", method)
}

// call calls a method whose answer is not used.
func (p *Portal) call(ctx context.Context, method string, args ...any) error {
	err := p.conn.Object(busName, busPath).CallWithContext(ctx, method, 0, args...).Err
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case !p.conn.Connected():
		return platform.ErrLost
	}
	return fmt.Errorf("portal: %s: %w", method, err)
}

// begin makes a session's handle out of a request for it; then is called, quickly,
// when the desktop or the person ends it, which may be before begin returns.
func (p *Portal) begin(ctx context.Context, method string, then func(dbus.ObjectPath)) (dbus.ObjectPath, error) {
	token := "handrail" + rand.Text()
	listen := func(handle dbus.ObjectPath) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ended[handle] = func() { then(handle) }
	}
	// Its name is known beforehand; who is asked may choose another one all the same.
	expected := p.child("session", token)
	listen(expected)
	forget := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.ended, expected)
	}
	results, err := p.ask(ctx, method, options{"session_handle_token": dbus.MakeVariant(token)})
	if err != nil {
		forget()
		return "", err
	}
	var handle dbus.ObjectPath
	switch v := results["session_handle"].Value().(type) { // a string, by an old mistake of the interface
	case string:
		handle = dbus.ObjectPath(v)
	case dbus.ObjectPath:
		handle = v
	}
	if handle != expected {
		forget()
		if !handle.IsValid() {
			return "", fmt.Errorf("portal: %s returned no session", method)
		}
		listen(handle)
	}
	return handle, nil
}

// child returns the path of an object that the portal makes for this program.
func (p *Portal) child(kind, token string) dbus.ObjectPath {
	me := strings.ReplaceAll(strings.TrimPrefix(p.conn.Names()[0], ":"), ".", "_")
	return dbus.ObjectPath(string(busPath) + "/" + kind + "/" + me + "/" + token)
}

// end ends a session.
func (p *Portal) end(handle dbus.ObjectPath) {
	p.mu.Lock()
	delete(p.ended, handle)
	p.mu.Unlock()
	_ = p.conn.Object(busName, handle).Call(session+".Close", dbus.FlagNoReplyExpected).Err
}
