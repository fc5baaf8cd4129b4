package refusal

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/handrail-dev/handrail/capabilities"
)

const (
	burst        = 1000 // refusals let through at once
	perSecond    = 20   // and afterwards
	maxAccounts  = 4096
	maxToolsEach = 16 // whose names one account keeps; the others are counted together
)

// Book is the accounts of the principals. The zero value is empty. All methods are safe
// for concurrent use.
type Book struct {
	mu   sync.Mutex
	each map[capabilities.PrincipalID]*account
}

// account is one principal's.
type account struct {
	allowance *rate.Limiter
	away      map[capabilities.ToolID]uint64 // calls turned away since the last Take
}

// TurnAway returns CodeOverloaded for a principal that is over its rate, and counts its
// call. tool is empty for a tool that is not known.
func (b *Book) TurnAway(p capabilities.PrincipalID, tool capabilities.ToolID, now time.Time) *capabilities.Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.each[p]
	if a == nil || a.allowance.TokensAt(now) >= 1 {
		return nil
	}
	if a.away == nil {
		a.away = make(map[capabilities.ToolID]uint64)
	}
	if _, known := a.away[tool]; !known && len(a.away) >= maxToolsEach {
		tool = ""
	}
	a.away[tool]++
	return capabilities.Errorf(capabilities.CodeOverloaded, "too many calls of this principal were refused").
		WithHint("Correct what the refusals said, then try again slowly.")
}

// Count takes a refusal from the principal's allowance.
func (b *Book) Count(p capabilities.PrincipalID, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.each[p]
	if a == nil {
		if b.each == nil || len(b.each) >= maxAccounts {
			b.makeRoomLocked(now)
		}
		a = &account{allowance: rate.NewLimiter(perSecond, burst)}
		b.each[p] = a
	}
	a.allowance.AllowN(now, 1)
}

// makeRoomLocked forgets the accounts that have their whole allowance back; all of them if
// none has.
func (b *Book) makeRoomLocked(now time.Time) {
	kept := make(map[capabilities.PrincipalID]*account)
	for p, a := range b.each {
		if a.allowance.TokensAt(now) < burst || len(a.away) > 0 {
			kept[p] = a
		}
	}
	if len(kept) >= maxAccounts {
		clear(kept)
	}
	b.each = kept
}

// Take takes out how many calls of each principal were turned away, by their tools; nil:
// none were.
func (b *Book) Take() map[capabilities.PrincipalID]map[capabilities.ToolID]uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out map[capabilities.PrincipalID]map[capabilities.ToolID]uint64
	for p, a := range b.each {
		if len(a.away) == 0 {
			continue
		}
		if out == nil {
			out = make(map[capabilities.PrincipalID]map[capabilities.ToolID]uint64)
		}
		out[p], a.away = a.away, nil
	}
	return out
}
