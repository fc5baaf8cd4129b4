package procguard

import (
	"math/rand/v2"
	"sync"

	"github.com/handrail-dev/handrail/platform"
)

// The range of accounts that a child may get alone: systemd's for services that
// bring no account of their own, so that no distribution gives these to people.
const (
	firstAccount = 61184
	lastAccount  = 65519
)

// accounts are those of children, one for each.
type accounts struct {
	mu   sync.Mutex
	held map[uint32]bool // chosen, and no process runs under it yet
}

// pick chooses an account that nothing uses; release gives up the claim once the
// child runs, or never will.
func (a *accounts) pick() (user platform.User, ok bool, release func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	used, ok := usedAccounts(firstAccount, lastAccount)
	if !ok {
		return platform.User{}, false, func() {}
	}
	if a.held == nil {
		a.held = map[uint32]bool{}
	}
	const n = lastAccount - firstAccount + 1
	start := rand.Uint32N(n)
	for i := range uint32(n) {
		id := firstAccount + (start+i)%n
		if used[id] || a.held[id] {
			continue
		}
		a.held[id] = true
		return platform.User{UID: id, GID: id}, true, func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			delete(a.held, id)
		}
	}
	return platform.User{}, false, func() {}
}
