package front

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	failureBurst  = 10              // failures that are let through at once
	failureRefill = 6 * time.Second // one more each
	maxWatched    = 4096            // addresses remembered
)

// failures limits failed authentication per client address. It stands outside
// every branch of the check: whatever a request failed on costs the same. A
// valid token is let in even while its address is limited, because a stranger
// on the same address must not be able to lock its holder out, and 256 bits can
// not be guessed at any rate; what is limited is the load and the log.
type failures struct {
	now func() time.Time

	mu     sync.Mutex
	byAddr map[netip.Prefix]*rate.Limiter
}

// allow takes one failure from addr's allowance and reports whether there was one.
func (f *failures) allow(remote string) bool {
	key, now := clientKey(remote), f.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.byAddr[key]
	if l == nil {
		if len(f.byAddr) >= maxWatched {
			f.makeRoomLocked(now)
		}
		l = rate.NewLimiter(rate.Every(failureRefill), failureBurst)
		f.byAddr[key] = l
	}
	return l.AllowN(now, 1)
}

// makeRoomLocked forgets the addresses that have their full allowance back, or
// one of the others if there is none.
func (f *failures) makeRoomLocked(now time.Time) {
	var any netip.Prefix
	for key, l := range f.byAddr {
		any = key
		if l.TokensAt(now) >= failureBurst {
			delete(f.byAddr, key)
		}
	}
	if len(f.byAddr) >= maxWatched {
		delete(f.byAddr, any)
	}
}

// clientKey is the canonical address: IPv4-mapped IPv6 is IPv4, so that one
// client has one budget, and an IPv6 client is its /64, because it owns that.
func clientKey(remote string) netip.Prefix {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{} // no address to tell apart: all of these share one budget
	}
	addr := ap.Addr().Unmap().WithZone("")
	bits := 32
	if addr.Is6() {
		bits = 64
	}
	p, _ := addr.Prefix(bits)
	return p
}
