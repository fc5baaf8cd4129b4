package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/agent/spool"
	"github.com/handrail-dev/handrail/agent/withhold"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// Guard is the device's last word; agent/guard implements it.
type Guard interface {
	// Check says why a ticket must not run, or nil. It may wait for a person.
	Check(ctx context.Context, t *wire.Ticket, ready capabilities.Readiness) *capabilities.Error
	// Still says why a ticket that Check let must not run any more, or nil. It asks nobody.
	Still(t *wire.Ticket, ready capabilities.Readiness) *capabilities.Error
	// Reaches says why nobody is asked whether a ticket's call may connect to a target that it was
	// not granted, or nil.
	Reaches(t *wire.Ticket, ready capabilities.Readiness, target string) *capabilities.Error
}

// Journal is the node's durable memory of calls; agent/journal implements it.
type Journal interface {
	// Started records the call before it returns, so that nothing but a power cut loses it; of what
	// is lost it is never said that it did not start. CodeTicketReplayed if the journal knows the
	// call already.
	Started(ctx context.Context, t *wire.Ticket) error
	// Finished records the end, before the answer leaves. It does not wait for the
	// disk: a lost "finished" is an unknown outcome, never a second run.
	Finished(call capabilities.CallID, answer *wire.Answer) error
	// States tells what became of calls, as far as the journal knows.
	States(ctx context.Context, ask *wire.JournalAsk) []wire.JournalState
}

// Sink takes what a call returns while it runs and at its end; agent/link
// implements it over the call's stream.
type Sink interface {
	Progress(p wire.Progress)
	// Accept says that the call will be carried out and returns what the gateway then
	// sealed to the key. At most once, before Progress and Answer.
	Accept(ctx context.Context, a wire.Accept) (*wire.Sealed, error)
	// Step asks the gateway for a step of a call whose ticket says Steps, and waits for
	// its order; it numbers the steps. StepEnded says how one that was ordered ended.
	Step(ctx context.Context, m wire.Step) (*wire.StepOrder, error)
	StepEnded(m wire.StepEnd)
	// Elicit puts a form to a person for a call whose ticket says Elicits, and waits for their
	// answer; it numbers them.
	Elicit(ctx context.Context, m wire.Elicit) (*wire.Elicited, error)
	// AskHost asks about a host for a call whose ticket says AsksHosts, and waits for the answer; it
	// numbers them with the forms.
	AskHost(ctx context.Context, m wire.HostAsk) (*wire.HostAnswer, error)
	// Answer sends the end. blobs are the bytes that the answer's Blobs announce.
	Answer(a wire.Answer, blobs [][]byte)
}

// Hosted are the tools of the providers that a node hosts. They change while it runs;
// agent/provider implements it, and is one of the Handlers besides.
type Hosted interface {
	capabilities.Handler
	// Tool finds one of them by its ID.
	Tool(capabilities.ToolID) (*catalog.Descriptor, bool)
}

// Options of New; every field is required unless it says otherwise.
type Options struct {
	Handlers []capabilities.Handler
	Catalog  *catalog.Catalog
	// Hosted are the tools of the providers that this node hosts; default: it hosts none.
	Hosted  Hosted
	Guard   Guard
	Journal Journal
	// Spool keeps artifacts until the gateway has them; default: the node keeps none.
	Spool *spool.Spool
	// Deliveries are those that were open when the node ended last, and KeepDeliveries makes
	// durable which are. Default: none are known, and none are kept.
	Deliveries     []withhold.Open
	KeepDeliveries func([]withhold.Open) error
	// Refused is told what the guard did not let run; default: nobody.
	Refused func(t *wire.Ticket, e *capabilities.Error)
	// Places bound the calls of each class; default: those of this package.
	Places map[capabilities.IsolationClass]Places
	// Ready says how the programs of each class found their runners; default: nothing is said.
	Ready func(capabilities.IsolationClass) (standing uint32, warm, cold uint64)
	Log   *slog.Logger // default: discards
}

// Runner dispatches tickets to handlers. All methods are safe for concurrent use.
type Runner struct {
	opts     Options
	handlers map[capabilities.CapabilityID]capabilities.Handler
	readyFor readiness
	pools    map[capabilities.IsolationClass]*pool
	withhold withhold.Book
	keeping  sync.Mutex // serialises keepClipboard

	mu       sync.Mutex
	running  map[capabilities.CallID]context.CancelCauseFunc
	disowned map[capabilities.CallID]time.Time // told "never started": must stay true
}

// New makes a Runner; it starts nothing. Two handlers for one capability are an
// error, and so is a capability the catalog does not have.
func New(o Options) (*Runner, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	r := &Runner{
		opts:     o,
		pools:    newPools(o.Places),
		handlers: make(map[capabilities.CapabilityID]capabilities.Handler),
		running:  make(map[capabilities.CallID]context.CancelCauseFunc),
		disowned: make(map[capabilities.CallID]time.Time),
	}
	r.withhold.Restore(o.Deliveries, o.KeepDeliveries)
	r.withhold.Names(o.Catalog.FieldNames())
	for _, h := range o.Handlers {
		for _, c := range h.Capabilities() {
			if _, ok := o.Catalog.ByCapability(c); !ok {
				return nil, fmt.Errorf("runner: capability %s is not in the catalog", c)
			}
			if _, taken := r.handlers[c]; taken {
				return nil, fmt.Errorf("runner: two handlers for capability %s", c)
			}
			r.handlers[c] = h
		}
	}
	return r, nil
}

// tool finds a tool that this node has, compiled in or hosted.
func (r *Runner) tool(id capabilities.ToolID) (*catalog.Descriptor, bool) {
	d, ok := r.opts.Catalog.Get(id)
	if !ok && r.opts.Hosted != nil {
		return r.opts.Hosted.Tool(id)
	}
	return d, ok
}

// handler finds what carries a capability out.
func (r *Runner) handler(c capabilities.CapabilityID) (capabilities.Handler, bool) {
	if h, ok := r.handlers[c]; ok {
		return h, true
	}
	if r.opts.Hosted == nil {
		return nil, false
	}
	_, ok := r.opts.Hosted.Tool(c.Tool())
	return r.opts.Hosted, ok
}

// enter marks a call as running. False: it runs already, or the gateway was told
// that it never started.
func (r *Runner) enter(call capabilities.CallID, cancel context.CancelCauseFunc) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, running := r.running[call]; running {
		return false
	}
	if _, disowned := r.disowned[call]; disowned {
		return false
	}
	r.running[call] = cancel
	return true
}

// disownFor is how long "never started" is kept true against a ticket that is
// still on its way; streams of a dead connection do not live that long.
const disownFor = 10 * time.Minute

func (r *Runner) disownLocked(call capabilities.CallID) {
	now := time.Now()
	for id, at := range r.disowned {
		if now.Sub(at) > disownFor {
			delete(r.disowned, id)
		}
	}
	r.disowned[call] = now
}

func (r *Runner) leave(call capabilities.CallID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, call)
}

// Active is how many calls run now.
func (r *Runner) Active() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.running)
}

// States tells what became of calls: what runs here and now is running, whatever
// the journal says; a call the journal saw start but not finish, and that does
// not run, died with an earlier process: unknown.
func (r *Runner) States(ctx context.Context, ask *wire.JournalAsk) []wire.JournalState {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Asked under the lock: a call that began and ended between the two looks would
	// be told "never started".
	states := r.opts.Journal.States(ctx, ask)
	for i := range states {
		_, runs := r.running[states[i].Call]
		switch {
		case runs:
			states[i].State, states[i].Answer = wire.StateRunning, nil
		case states[i].State == wire.StateRunning:
			states[i].State = wire.StateUnknown
		case states[i].State == wire.StateNeverStarted:
			r.disownLocked(states[i].Call)
		}
	}
	return states
}

// StopAll ends every running call; a stop switch calls it.
func (r *Runner) StopAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, cancel := range r.running {
		cancel(&capabilities.Error{Code: capabilities.CodeStopped})
	}
}

// ended returns why a call has ended; nil: it has not. While all are being stopped it waits: a
// place that one of them leaves is for none of the others.
func (r *Runner) ended(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return context.Cause(ctx)
}

// CloseLane frees what a lane holds in every handler.
func (r *Runner) CloseLane(lane capabilities.LaneID) {
	for _, h := range r.opts.Handlers {
		h.CloseLane(lane)
	}
	r.withhold.CloseLane(lane)
}

// SecretsDone takes a person's word that nothing of what a lane pasted is to be seen.
func (r *Runner) SecretsDone(lane capabilities.LaneID) { r.withhold.Done(lane) }

// Readiness returns the present truth of every capability, for the gateway and for
// doctor.
func (r *Runner) Readiness(ctx context.Context) []capabilities.Readiness {
	var all []capabilities.Readiness
	for _, h := range r.opts.Handlers {
		all = append(all, r.readyFor.refresh(ctx, h)...)
	}
	return all
}

// Close closes every handler.
func (r *Runner) Close() error {
	r.StopAll()
	var errs []error
	for _, h := range r.opts.Handlers {
		errs = append(errs, h.Close())
	}
	return errors.Join(errs...)
}
