package oauth

import (
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Kind is which step a client takes on its way in.
type Kind string

// The steps, in their order.
const (
	Challenged   Kind = "challenged" // it called without a token, and was told where to begin
	ReadResource Kind = "resource"   // it read what the resource says of itself
	ReadServer   Kind = "server"     // it read what the authorization server says of itself
	Registered   Kind = "registered" // it registered itself
	Asked        Kind = "asked"      // a person was shown what it asks
	Allowed      Kind = "allowed"    // a person let it in
	Denied       Kind = "denied"     // a person did not
	Fetched      Kind = "fetched"    // it fetched its tokens with the code
	Refreshed    Kind = "refreshed"  // it got new tokens
	Called       Kind = "called"     // its first call since the gateway started
	Refused      Kind = "refused"    // it called with a token that is not good
	Revoked      Kind = "revoked"    // it gave its tokens up
)

// Step is one step of somebody's attempt.
type Step struct {
	At     time.Time
	From   string // the address that it came from
	Client string // in words, once that is known
	What   Kind
	Fault  string // why it failed; empty: it did not
	Times  int    // how often it came, one after the other
}

const (
	maxSteps = 400
	lookBack = 32 // steps in which the same one counts up
)

// recorder keeps the latest steps, in memory: a person reads them who wonders why a client does
// not get in. The ledger has all that counts.
type recorder struct {
	mu    sync.Mutex
	steps []Step
}

func (s *Server) note(r *http.Request, step Step) {
	step.At, step.Times, step.From = s.opts.Now(), 1, r.RemoteAddr
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		step.From = host
	}
	step.Client, step.Fault = capabilities.Clip(step.Client, 200), capabilities.Clip(capabilities.Printable(step.Fault), 300)
	s.recorder.mu.Lock()
	defer s.recorder.mu.Unlock()
	all := s.recorder.steps
	for i := len(all) - 1; i >= 0 && i >= len(all)-lookBack; i-- {
		if o := &all[i]; o.From == step.From && o.Client == step.Client && o.What == step.What && o.Fault == step.Fault {
			o.At, o.Times = step.At, o.Times+1
			return
		}
	}
	if len(all) >= maxSteps {
		all = append(all[:0], all[len(all)-maxSteps+1:]...)
	}
	s.recorder.steps = append(all, step)
}

// Steps are the latest steps, the latest first.
func (s *Server) Steps() []Step {
	s.recorder.mu.Lock()
	defer s.recorder.mu.Unlock()
	list := make([]Step, 0, len(s.recorder.steps))
	for i := len(s.recorder.steps) - 1; i >= 0; i-- {
		list = append(list, s.recorder.steps[i])
	}
	return list
}
