package provider

import (
	"context"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// telling is which provider of which host somebody has to speak about.
type telling struct {
	provider string
	host     capabilities.NodeID
}

// line is what one host hears about one provider: one call after another, each made of the record
// as it is when its turn comes. So a host that is slow or silent delays nobody but those who
// want it told, and no call that was made earlier arrives after a later one.
type line struct {
	turn chan struct{} // full while a call is made; taken before Book.changing, never within it

	// Below Book.changing.
	users   int    // who has the turn or waits for it
	serving bool   // Run serves it
	session uint64 // the host's connection that epoch counts
	// epoch counts what the credentials are to be delivered for: an approval, a check, another
	// value, another connection of the host. done is the one that was served last.
	epoch, done uint64
	withdrawn   bool // a credential is gone, and the host has taken that in
	again       retry
}

// retry is when a host is told again of credentials that it could not be given, or that it still
// has: another roster need not come of what stood in the way, such as the stop switch. The zero
// value: nothing failed.
type retry struct {
	at       time.Time
	pause    time.Duration
	withdraw bool // taking back failed; false: a delivery did
}

const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// lineOf finds a line, or makes it; changing is held.
func (b *Book) lineOf(at telling) *line {
	l := b.lines[at]
	if l == nil {
		l = &line{turn: make(chan struct{}, 1)}
		b.lines[at] = l
	}
	return l
}

// turn waits for the turn to call a host about a provider, and returns what ends it.
func (b *Book) turn(ctx context.Context, at telling) (done func(), err error) {
	b.changing.Lock()
	l := b.lineOf(at)
	l.users++
	b.changing.Unlock()
	leave := func() {
		b.changing.Lock()
		defer b.changing.Unlock()
		if l.users--; l.users == 0 && !l.serving && b.untoldAt(at) == nil {
			if p, err := b.Get(at.provider); err != nil || p.Host != at.host {
				delete(b.lines, at)
			}
		}
	}
	select {
	case l.turn <- struct{}{}:
		pass, err := b.opts.Store.Turn(ctx, "provider "+at.provider+" "+string(at.host))
		if err != nil {
			<-l.turn
			leave()
			return nil, err
		}
		return func() { pass(); <-l.turn; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, capabilities.Wrap(capabilities.AsError(ctx.Err()).
			Code, context.Cause(ctx), "The host is still busy with what it was told before.")
	}
}

// renew has a host get the credentials of a provider once more, over the connection that it has
// now; changing is held.
func (b *Book) renew(p *Provider) (epoch uint64) {
	if len(p.Credentials()) == 0 {
		return 0
	}
	l := b.lineOf(telling{p.Name, p.Host})
	if session := b.sessionOf(p.Host); session != 0 {
		l.session = session
	}
	l.epoch++
	l.again = retry{}
	return l.epoch
}

// nudge has Run look anew.
func (b *Book) nudge() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}
