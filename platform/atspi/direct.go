package atspi

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/handrail-dev/handrail/platform"
)

// Why actions of GTK 3 go to the application directly. Its toolkit does an action while it reads
// the message that asks for it, and an action that opens a dialog may end only when that is
// closed. Meanwhile, with each key, GTK reads anew from all its connections, and waits for good
// for the one that the action came by as soon as there is anything more on it, were it that it was
// closed: the program stands still with all that was not saved. On the accessibility bus there
// always is. So each action comes by a line of its own to the socket that the application itself
// listens at, and nothing else does. Lines stay open while both live; the oldest is used again
// when there are many, whose action was done long ago.
const maxLines = 32

// answersAfter is how long an action has before the application is asked whether it
// goes on meanwhile.
const answersAfter = 20 * time.Millisecond

// direct returns a line to the application; nil if it offers none.
func (p *app) direct(ctx context.Context) *dbus.Conn {
	p.mu.Lock()
	kind := p.kind
	p.mu.Unlock()
	if kind != gtk3 {
		return nil
	}
	s, bus := p.s, p.root.bus
	s.mu.Lock()
	lines := slices.DeleteFunc(s.lines[bus], func(c *dbus.Conn) bool { return !c.Connected() })
	if len(lines) >= maxLines {
		lines = append(lines[1:], lines[0])
	}
	s.lines[bus] = lines
	s.mu.Unlock()
	if len(lines) >= maxLines {
		return lines[len(lines)-1]
	}
	c := p.dial(ctx)
	if c == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		c.Close()
		return nil
	}
	s.lines[bus] = append(s.lines[bus], c)
	return c
}

// dial opens a line; nil if what listens there is another process.
func (p *app) dial(ctx context.Context) *dbus.Conn {
	where := call(p.root, ifApplication+".GetApplicationBusAddress")
	if err := p.ask(ctx, where); err != nil || where.text() == "" {
		return nil
	}
	raw, err := dialBus(where.text(), func(path string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	})
	if err != nil {
		return nil
	}
	if u, ok := raw.(*net.UnixConn); !ok || peer(u) != p.processID() {
		raw.Close()
		return nil
	}
	// The handshake knows no context.
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	c, err := dbus.NewConn(newGuard(raw), dbus.WithHandler(mute{}), dbus.WithSignalHandler(mute{}))
	if err != nil {
		raw.Close()
		return nil
	}
	if err := c.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))}); err != nil {
		c.Close()
		return nil
	}
	return c
}

// startDirectly has the element begin something. If there is no answer but the
// application reads other messages, it has come by this one.
func (t target) startDirectly(ctx context.Context, c *dbus.Conn, q *question) error {
	done := make(chan *dbus.Call, 1)
	c.Object(t.at.bus, t.at.path).GoWithContext(t.s.ctx, q.method, dbus.FlagNoAutoStart, done, q.args...)
	wait := time.NewTimer(answersAfter)
	defer wait.Stop()
	asked := 0
	others := make(chan error, 1)
	for {
		select {
		case r := <-done:
			switch q.body, q.err = r.Body, r.Err; {
			case !errors.Is(q.err, dbus.ErrClosed):
				return t.ended(ctx, q)
			case t.s.bus.Connected():
				return nil // "Quit" ends the application before it answers
			}
			return platform.ErrLost
		case <-wait.C:
			if asked == 2 {
				return nil
			}
			role := call(place{t.at.bus, pathRoot}, ifAccessible+".GetRole")
			go func() { others <- ask(ctx, t.s.bus, nil, role) }()
		case err := <-others:
			if err != nil {
				return err
			}
			// One answer may have been on its way before the action was read, two and a
			// moment were not.
			asked++
			wait.Reset(answersAfter)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ended returns what came of an action that was answered or given up.
func (t target) ended(ctx context.Context, q *question) error {
	switch {
	case q.err == nil:
		if done, told := q.first().(bool); told && !done {
			return platform.ErrCannot
		}
		return nil
	case isReply(q.err):
		if noPeer(q.err) {
			return nil // "Quit" ends the application before it answers
		}
		return t.refused(ctx, q.err)
	}
	return q.err
}

// readDirectly has the reading go by a line of its own as soon as there is one: the bus passes each
// question and each answer on, which takes as long as the application takes to answer. A reading
// call leaves nothing on the line that an action of it could wait for. The channel that it returns
// is closed when it is known whether there is one; nil: it is known.
func (p *app) readDirectly() (tried chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kind != gtk3 && p.kind != web {
		return nil
	}
	p.byLine = true
	if p.dialed {
		return nil
	}
	p.dialed = true
	tried = make(chan struct{})
	go func() {
		defer close(tried)
		ctx, cancel := context.WithTimeout(p.s.ctx, perElement)
		defer cancel()
		c := p.dial(ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.dialed = c != nil || ctx.Err() == nil // one that is busy is tried again
		if c != nil && p.lineless {
			c.Close()
			return
		}
		p.line = c
	}()
	return tried
}

// lineAfter is how long a reading that has its cache waits for the line at most, which
// comes within a millisecond of that; then it goes on by the bus.
const lineAfter = 20 * time.Millisecond

// awaitLine waits for a line that is being tried.
func awaitLine(ctx context.Context, tried <-chan struct{}) {
	if tried == nil {
		return
	}
	limit := time.NewTimer(lineAfter)
	defer limit.Stop()
	select {
	case <-tried:
	case <-limit.C:
	case <-ctx.Done():
	}
}

func (p *app) readIndirectly() {
	p.mu.Lock()
	p.byLine = false
	p.mu.Unlock()
}

// hangUp ends the line; readings go by the bus from then on.
func (p *app) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lineless = true
	if p.line != nil {
		go p.line.Close() // who calls may be what the connection waits for
		p.line = nil
	}
}

// meetEvents waits for the events that the application sent before its last answer
// by a line: they come by the bus, and later readings need what they tell.
func (p *app) meetEvents(ctx context.Context) error {
	p.mu.Lock()
	direct := p.byLine && p.line != nil
	p.mu.Unlock()
	if !direct {
		return nil
	}
	return ask(ctx, p.s.bus, p.heardFrom, call(p.root, ifAccessible+".GetRole"))
}
