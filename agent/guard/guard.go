package guard

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"slices"
	"strings"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// Options of New; every field is required unless it says otherwise.
type Options struct {
	Node  func() policy.Node                   // this node as the owner's rules see it
	Owner func(policy.Request) policy.Decision // the owner's rules in force
	Stop  *StopSwitch
	// Desk asks the person at the device; default: nobody can be asked.
	Desk Desk
	// InSession reports whether a tool's descriptor lets its calls live in a person's session;
	// default: no tool's does.
	InSession func(capabilities.ToolID) bool
	// Shown returns the arguments that a person may see; default: none.
	Shown func(capabilities.ToolID, []byte) map[string]any
}

// Guard checks tickets. All methods are safe for concurrent use.
type Guard struct {
	opts Options

	mu   sync.Mutex
	seen window // sequences of the present connection
}

// New makes a Guard.
func New(o Options) *Guard { return &Guard{opts: o} }

// Connected starts a new connection: its tickets have sequences above floor. A ticket that an older
// connection sent cannot arrive on it; TLS sees to that.
func (g *Guard) Connected(floor uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = window{top: floor}
}

// Check says why a ticket must not run here, or nil. ready is what this node
// says about the capability now. It waits, within the call's deadline, where the
// owner wants to be asked.
func (g *Guard) Check(ctx context.Context, t *wire.Ticket, ready capabilities.Readiness) *capabilities.Error {
	if err := g.stopped(t); err != nil {
		return err
	}
	self := g.opts.Node()
	if t.Node != self.ID {
		return capabilities.Errorf(capabilities.CodeTicketInvalid, "the ticket is for another node")
	}
	sum := sha256.Sum256(t.Args)
	if subtle.ConstantTimeCompare(sum[:], t.ArgsDigest[:]) != 1 {
		return capabilities.Errorf(capabilities.CodeTicketInvalid, "the arguments are not the ones that were decided on")
	}
	envelope, err := policy.OpenEnvelope(t.Envelope)
	if err != nil {
		return capabilities.AsError(err)
	}
	// The lane too: the owner's rules see the envelope's, the handler the ticket's.
	if envelope.Tool != t.Tool || envelope.Selected != self.ID || envelope.Lane != t.Lane {
		return capabilities.Errorf(capabilities.CodeTicketInvalid, "the envelope is for another call")
	}
	if !covered(t.Grants, envelope.Grants) {
		return capabilities.Errorf(capabilities.CodeTicketInvalid, "the ticket grants more than its envelope")
	}
	if !g.accept(t.Sequence) {
		return &capabilities.Error{Code: capabilities.CodeTicketReplayed}
	}
	if !ready.Ready() {
		return capabilities.Errorf(capabilities.CodeNodeNotReady, "%s", ready.Reason).WithHint(ready.Fix)
	}
	// S1-37, S1-63: a class that this host does not have is a denial, unless the order says in so
	// many words that policy accepts it.
	if short := ready.Degraded != "" || !ready.Isolation.Meets(envelope.Isolation,
		g.opts.InSession != nil && g.opts.InSession(t.Tool)); short && !slices.Contains(t.Grants, policy.AcceptDegraded) {
		return capabilities.Errorf(capabilities.CodeIsolationUnavailable, "this node gives %s where the call needs %s", ready.Isolation,
			envelope.Isolation)
	}
	return g.owner(ctx, t, envelope, self, ready)
}

// Still says why a ticket that Check let must not run any more, or nil: it waited since, and both
// stop switches and the owner's rules may say something else. A person who was asked is asked once.
func (g *Guard) Still(t *wire.Ticket, ready capabilities.Readiness) *capabilities.Error {
	if err := g.stopped(t); err != nil {
		return err
	}
	envelope, err := policy.OpenEnvelope(t.Envelope)
	if err != nil {
		return capabilities.AsError(err)
	}
	if d := g.opts.Owner(ruled(t, envelope, g.opts.Node(), ready)); d.Effect == policy.Deny {
		return refused(d)
	}
	return nil
}

// Reaches says why nobody is asked whether a ticket's call may connect to a target that it was not
// granted, or nil: a stop switch, or the owner, by a rule about what a call wants or by the
// domains of their file. A host about which they want to be asked themselves is none: nobody asks
// them here.
func (g *Guard) Reaches(t *wire.Ticket, ready capabilities.Readiness, target string) *capabilities.Error {
	if err := g.stopped(t); err != nil {
		return err
	}
	envelope, err := policy.OpenEnvelope(t.Envelope)
	if err != nil {
		return capabilities.AsError(err)
	}
	request := ruled(t, envelope, g.opts.Node(), ready)
	before := g.opts.Owner(request)
	request.Wants = target
	if now := g.opts.Owner(request); now.Effect == policy.Deny || now.Effect == policy.Ask && before.Effect == policy.Allow ||
		slices.Contains(now.Withheld, capabilities.KeyEgress) {
		return capabilities.Errorf(capabilities.CodeConsentDenied, "the device's owner lets nobody be asked about it")
	}
	return nil
}

// stopped refuses what either stop switch refuses. A ticket from a later epoch of the
// site's says that the gateway has resumed: its own word may still be on its way.
func (g *Guard) stopped(t *wire.Ticket) *capabilities.Error {
	stop := g.opts.Stop
	stop.Look()
	if epoch, on := stop.State(); on || t.StopEpoch < epoch {
		return capabilities.Errorf(capabilities.CodeStopped, "the device's stop switch is on").
			WithAction(capabilities.Action{Key: capabilities.ActionResumeNode}, "A person has to resume the device.")
	}
	if epoch, _ := stop.Site(); t.SiteEpoch > epoch {
		if err := stop.SetSite(t.SiteEpoch, false); err != nil {
			return capabilities.Wrap(capabilities.CodeStopped, err, "the end of the stop could not be written down")
		}
	}
	if epoch, on := stop.Site(); on || t.SiteEpoch < epoch {
		return capabilities.Errorf(capabilities.CodeStopped, "the gateway's stop switch is on").
			WithAction(capabilities.Action{Key: capabilities.ActionResumeSite}, "A person has to resume the gateway.")
	}
	return nil
}

func (g *Guard) accept(seq uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen.accept(seq)
}

// covered reports whether every grant of the ticket is one of the envelope's, or
// the acceptance of a degraded isolation.
func covered(ticket, envelope []string) bool {
	for _, k := range ticket {
		if k != policy.AcceptDegraded && !isGrant(k) && !slices.Contains(envelope, k) {
			return false
		}
	}
	return true
}

// isGrant tells the ID of a person's grant from the capability keys beside it.
func isGrant(k string) bool { return strings.HasPrefix(k, policy.GrantPrefix) }
