package admission

import (
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
)

// share is the part of all places that one principal may take: 1/share.
const share = 4

// Places are the running calls. All methods are safe for concurrent use.
type Places struct {
	most int

	mu   sync.Mutex
	all  int
	each map[capabilities.PrincipalID]int
}

// New makes Places for at most most calls at once.
func New(most int) *Places {
	return &Places{most: most, each: make(map[capabilities.PrincipalID]int)}
}

// Enter counts a call of p in; leave, which must be called once, counts it out. The error
// is CodeOverloaded.
func (p *Places) Enter(who capabilities.PrincipalID) (leave func(), refused *capabilities.Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.each[who] >= max(1, p.most/share) {
		return nil, capabilities.Errorf(capabilities.CodeOverloaded, "this principal has too many calls running at once")
	}
	if p.all >= p.most {
		return nil, &capabilities.Error{Code: capabilities.CodeOverloaded}
	}
	p.all++
	p.each[who]++
	return func() { p.leave(who) }, nil
}

func (p *Places) leave(who capabilities.PrincipalID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	if p.each[who]--; p.each[who] <= 0 {
		delete(p.each, who)
	}
}

// Taken returns how many calls are in.
func (p *Places) Taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all
}
