package egress

import (
	"context"
	"net"
	"net/netip"

	"github.com/handrail-dev/handrail/capabilities"
)

// Ask puts to a person whether a call may connect to "host:port", which nobody named, and waits for
// the answer. until ends with the permission, and what was connected by it ends then, too. The same
// target is asked about as often as connections want it: asking once is the caller's.
// Of the error CodeConsentDenied says that a person, or policy, said no.
type Ask func(ctx context.Context, target string) (until context.Context, err error)

// For is the way as one call goes it: of a target that nobody named ask is asked, where a person
// may permit it at all. nil: nobody is.
func (w *Way) For(ask Ask) *Way {
	if w == nil || ask == nil {
		return w
	}
	return &Way{shared: w.shared, ask: ask, reached: w.reached}
}

// Onward is For where an answer leads a call on, such as a redirect: to hosts that were named, and
// to those that ask permits. A public host is none for that alone: another place was approved.
func (w *Way) Onward(ask Ask) *Way {
	return &Way{shared: w.shared, ask: ask, onward: true, reached: w.reached}
}

// Follows reports whether a call goes on to a target that an answer names, and asks a person where
// nobody named it. The target was the server's choice: a no is no attempt of the call's. A Dial
// may still refuse its address.
func (w *Way) Follows(ctx context.Context, target string) bool {
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return false
	}
	host = plainAddr(host)
	if _, named := w.named(host, port); named {
		return w.rules.narrowed(host, true, nil) == nil
	}
	if !w.askable(host, port) {
		return false
	}
	_, err = w.ask(ctx, net.JoinHostPort(host, port))
	return err == nil
}

// Admits decides on a target by its name and port, for a call whose grants leave those hosts (nil:
// all), and asks a person where nobody named it. A Dial may still refuse its address.
func (w *Way) Admits(ctx context.Context, host, port string, granted Domains) error {
	_, err := w.admit(ctx, host, port, granted)
	return err
}

// admit is Admits; until is set where a person permitted the target.
func (w *Way) admit(ctx context.Context, host, port string, granted Domains) (until context.Context, err error) {
	host = plainAddr(host)
	_, named := w.named(host, port)
	listed := w.rules.narrowed(host, named, granted)
	if listed == nil && (named || w.public && !w.onward) {
		return nil, nil
	}
	why := "nobody named it"
	if w.askable(host, port) {
		until, err := w.ask(ctx, net.JoinHostPort(host, port))
		switch {
		case err == nil:
			return until, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case capabilities.CodeOf(err) == capabilities.CodeConsentDenied:
			why += ", and " + capabilities.AsError(err).Message
		}
	}
	if listed != nil {
		return nil, listed
	}
	return nil, w.refuse(host, port, why)
}

// askable reports whether a person may be asked about a target: a public one that no owner blocks,
// of a way that leads somewhere. A name is resolved after the answer, so that nobody learns by its
// servers that it was asked about; one that leads to a near address is refused then.
func (w *Way) askable(host, port string) bool {
	if w.ask == nil || w.Empty() || inFiles(host) || IsLocalhost(host) || w.rules.block.match(host) {
		return false
	}
	if addr, err := netip.ParseAddr(host); err == nil && w.rules.near([]netip.Addr{addr}) != "" {
		return false
	}
	return FlagHost(host, port) != "" && capabilities.FitsHost(net.JoinHostPort(host, port))
}

// lent is a connection that a person permitted one call.
type lent struct {
	net.Conn
	keep func() bool
}

// lend ends a connection with until.
func lend(conn net.Conn, until context.Context) net.Conn {
	return &lent{conn, context.AfterFunc(until, func() { _ = conn.Close() })}
}

// CloseWrite ends one direction.
func (c *lent) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

func (c *lent) Close() error {
	c.keep()
	return c.Conn.Close()
}
