package dispatch

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger"
)

// Bounds of refused calls. Each refusal is three packets in a durable commit, so a
// caller that does nothing but be refused would fill the disk and hold up everybody
// else's commits.
const (
	refusalBurst = 1000 // let through at once
	refusalRate  = 20   // a second afterwards
	maxRefused   = 4096
)

// refusals bounds each principal's refused calls. A principal whose calls succeed is
// never held up.
type refusals struct {
	mu   sync.Mutex
	each map[capabilities.PrincipalID]*refused
}

// refused is one principal's account.
type refused struct {
	tokens *rate.Limiter
	muted  uint64 // refusals that were not recorded one by one since the last that was
}

// over gives CodeOverloaded for a principal that has used its allowance up, before
// anything of its call is looked at.
func (r *refusals) over(p capabilities.PrincipalID, now time.Time) *capabilities.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.each[p]
	if a == nil || a.tokens.TokensAt(now) >= 1 {
		return nil
	}
	a.muted++
	return capabilities.Errorf(capabilities.CodeOverloaded, "too many calls of this principal were refused").
		WithHint("Correct what the refusals said, then try again slowly.")
}

// count takes a refusal from the principal's allowance.
func (r *refusals) count(p capabilities.PrincipalID, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.each[p]
	if a == nil {
		if r.each == nil || len(r.each) >= maxRefused {
			r.makeRoomLocked(now)
		}
		a = &refused{tokens: rate.NewLimiter(refusalRate, refusalBurst)}
		r.each[p] = a
	}
	a.tokens.AllowN(now, 1)
}

// makeRoomLocked forgets those who have their whole allowance back; all of them if
// nobody has.
func (r *refusals) makeRoomLocked(now time.Time) {
	kept := make(map[capabilities.PrincipalID]*refused)
	for p, a := range r.each {
		if a.tokens.TokensAt(now) < refusalBurst || a.muted > 0 {
			kept[p] = a
		}
	}
	if len(kept) >= maxRefused {
		clear(kept)
	}
	r.each = kept
}

// takeMuted takes out how many refusals of each principal were not recorded one by one.
func (r *refusals) takeMuted() map[capabilities.PrincipalID]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out map[capabilities.PrincipalID]uint64
	for p, a := range r.each {
		if a.muted > 0 {
			if out == nil {
				out = make(map[capabilities.PrincipalID]uint64)
			}
			out[p], a.muted = a.muted, 0
		}
	}
	return out
}

// kindMuted records refusals that were not recorded one by one.
const kindMuted ledger.Kind = "gateway.calls.muted"

// recordMuted writes down, for each principal, how many refusals nobody looked at.
func (d *Dispatcher) recordMuted(ctx context.Context) {
	for p, n := range d.refusals.takeMuted() {
		d.opts.Log.Warn("tools.dispatch.muted", "principal", p, "refusals", n)
		err := d.opts.Ledger.Append(ctx, ledger.Draft{Kind: kindMuted, Principal: p, Body: map[string]any{"refusals": n}})
		if err != nil && ctx.Err() == nil {
			d.opts.Log.Error("tools.dispatch.unrecorded", "principal", p, "refusals", n, "err", err)
		}
	}
}
