package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/admission"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/execution"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/frames"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/recent"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/refusal"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/reserve"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/taint"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/opencalls"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/gateway/registry"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Options of New; required unless a default is named.
type Options struct {
	Registry  *registry.Registry
	Policy    func() *policy.Engine // the active engine
	Nodes     Nodes
	Lanes     Lanes
	Store     *store.Store
	Ledger    *ledger.Ledger
	Outcomes  *outcome.Store
	Artifacts Artifacts                      // default: calls leave none here
	Fetcher   Fetcher                        // where artifacts come from; default: nowhere
	Secrets   Secrets                        // default: there are none
	Stop      func() (epoch uint64, on bool) // the site's stop switch; default: never on
	Consent   Consent                        // default: nobody is asked, and nothing is granted
	Deferred  Deferred                       // default: a call that nobody answers is not kept
	Selector  Selector                       // default: nobody searches for tools
	Drift     Drift                          // default: drift is recorded, and nothing is done about it
	// Program is what a provider's tools are carried out by, as an address of its content.
	// Default: the provider's name.
	Program func(provider string) string
	// Through says to a person who is asked what carries a provider's tool out and what that may
	// reach, in short lines. Default: nothing is said.
	Through func(provider string, tool capabilities.ToolID) []string
	Working Working // default: what a search finds is not kept
	// Withheld says why a tool that is not registered cannot be called though a provider has it;
	// nil: none has. Only callers who may see providers are told. Default: none has any.
	Withheld func(capabilities.ToolID) *capabilities.Error
	Traces   Traces       // default: nobody is told
	Metrics  *Metrics     // default: not registered anywhere
	Log      *slog.Logger // default: discards
	// ReserveWait is how long a call waits for a node that a person keeps to
	// themselves. Default: 45 s, which clients bear.
	ReserveWait time.Duration
	// AwaitNodes has calls of the first seconds wait a second for nodes that are away:
	// those that a restart cut off come back.
	AwaitNodes bool
	// MaxRunning bounds the calls that run at once; default 4,096, of which one principal
	// may have a quarter. One more is refused with CodeOverloaded.
	MaxRunning int
}

// Dispatcher is the pipeline. All methods are safe for concurrent use.
type Dispatcher struct {
	opts       Options
	refusals   refusal.Book
	places     *admission.Places // of the calls that run
	executions *execution.Table  // that a retry can join
	recent     recent.Calls      // whose results may be used again
	running    execution.Running // executions, for the stop switch to end
	taints     *taint.Book
	reserved   *reserve.Nodes
	frames     frames.Frames
	open       *opencalls.Book
	late       late
	possibles  possibles
	notes      notes
	quota      quota
	fetching   chan struct{} // one per artifact on its way
	served     time.Time     // when Recover was called: calls come from then on
	//lint:ignore containedctx the life of the pipeline
	serving context.Context // until Run ends
	// admitting ends with it or before, when Drain begins: nothing waits for a person any more.
	//lint:ignore containedctx the life of what waits for a person
	admitting context.Context
	refuseNew context.CancelFunc
	close     func() // ends it

	mu         sync.Mutex
	draining   bool                          // the gateway is about to end: no caller's call begins
	ending     bool                          // Run waits for background: nothing new begins
	recovered  map[capabilities.CallID]Await // what Recover took up, until it is taken
	background sync.WaitGroup                // executions; they outlive their callers
}

// New makes a Dispatcher; it starts nothing. Run settles what an earlier process left open.
func New(o Options) *Dispatcher {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	if o.Stop == nil {
		o.Stop = func() (uint64, bool) { return 0, false }
	}
	if o.Working == nil {
		o.Working = noWorking{}
	}
	if o.Drift == nil {
		o.Drift = unanswered{o.Ledger}
	}
	if o.Program == nil {
		o.Program = func(provider string) string { return provider }
	}
	if o.MaxRunning == 0 {
		o.MaxRunning = 4096
	}
	if o.ReserveWait == 0 {
		o.ReserveWait = defaultReserveWait
	}
	d := &Dispatcher{
		opts: o, places: admission.New(o.MaxRunning), executions: execution.NewTable(),
		taints: taint.New(), reserved: reserve.New(), late: newLate(), fetching: make(chan struct{}, maxFetching),
	}
	d.serving, d.close = context.WithCancel(context.Background())
	d.admitting, d.refuseNew = context.WithCancel(d.serving)
	d.open = opencalls.New(opencalls.Options{
		Store: o.Store, Ledger: o.Ledger, Outcomes: o.Outcomes, Nodes: o.Nodes, Reconcile: d.reconcile, Log: o.Log,
	})
	if err := o.Registry.Provide("tool.node.list", nodeList{d}); err != nil {
		o.Log.Error("tools.provide", "err", err)
	}
	if o.Selector != nil {
		if err := o.Registry.Provide("tool.catalog.search", toolSearch{d}); err != nil {
			o.Log.Error("tools.provide", "err", err)
		}
	}
	return d
}

// Call carries one call through the hops and always returns a result. If ctx ends first, the
// result is CodeCancelled, or why it was ended on purpose, and the execution goes on only for
// others who joined it. Hop 1 was the surface's, and the rest of the hops from 6 on is execute's.
func (d *Dispatcher) Call(ctx context.Context, r Request) capabilities.Result {
	t := newTrail(&r, time.Now())
	if err := d.turnedAway(r.Principal, r.Tool, t.began); err != nil {
		return t.failure(err) // it does not enter: it is counted, not recorded by itself
	}
	d.enters(t)
	named := r.Tool
	if named.Validate() != nil {
		named = "" // what is no tool's ID may be anything, a secret too
	}
	d.opts.Log.Info("tools.dispatch.started", "hop", capabilities.HopFront, "surface", r.Surface,
		"call", t.id, "tool", named, "principal", r.Principal, "lane", r.Lane)

	q, err := d.resolve(ctx, t, r) // hop 2: the tool, its arguments, their digest
	if err != nil {
		return d.refuse(ctx, t, err)
	}
	n, err := d.place(ctx, q) // hop 3: the node, policy seeing the real arguments
	if err != nil {
		return d.refuse(ctx, t, err)
	}
	v, err := d.decide(n) // hop 4: envelope and decision
	if err != nil {
		return d.refuse(ctx, t, err)
	}
	if err := d.checked(v); err != nil {
		return t.failure(err)
	}
	sofar := *t                             // the execution goes on with t, also without this caller
	x, waiter, err := d.deduplicate(ctx, v) // hop 5: start, join or replay
	if err != nil {
		return d.refuse(ctx, t, err)
	}

	if r.Gone != nil {
		over := make(chan struct{})
		defer close(over)
		go func() {
			select {
			case <-r.Gone:
				x.Away(waiter)
			case <-over:
			}
		}()
	}
	result, ok := x.Wait(ctx, waiter) // hop 12
	if !ok {
		return left(ctx, &sofar, x)
	}
	if result.Call != t.id {
		result.Deduplicated = true
		d.traces(&sofar, &result, result.Call)
	}
	return result
}

// execute is the second half of a call. It belongs to the execution, not to a caller.
func (d *Dispatcher) execute(ctx context.Context, v *decided, x *execution.Execution) (r capabilities.Result) {
	defer d.runSafely(v.trail, func(err *capabilities.Error) { r = d.refuse(ctx, v.trail, err) })
	v.passed(capabilities.HopDedupe)
	if err := d.halted(); err != nil { // again: StopAll may have missed it before
		return d.refuse(ctx, v.trail, err)
	}
	waits, stop := d.whileServing(ctx)
	defer stop()
	if r, err := d.earlierTask(waits, v); err != nil {
		return d.refuse(ctx, v.trail, because(waits, err))
	} else if r != nil {
		d.repeated(ctx, v, r.Call, repeatDeferred)
		return *r
	}

	var held holds
	defer held.release()
	p, err := d.permit(waits, v, x, nil, &held) // hop 6: a person's word, and a free node
	if err != nil {
		return d.refuse(ctx, v.trail, because(waits, err))
	}
	c, err := d.commit(ctx, p, nil) // hop 7: durable, or nothing executes
	if err != nil {
		if errors.Is(err, opencalls.ErrTaken) {
			if r := d.takenElsewhere(ctx, v); r != nil {
				return *r
			}
		}
		return d.refuse(ctx, v.trail, err)
	}
	return d.carryOut(ctx, c, x)
}

// carryOut is what follows the commit.
func (d *Dispatcher) carryOut(ctx context.Context, c *committed, x *execution.Execution) (r capabilities.Result) {
	open := d.openOf(c)
	defer d.runSafely(open.trail, func(err *capabilities.Error) {
		r = open.failure(err)
		if open.row.Node != "" {
			d.open.Watch(open.row) // its node's journal settles it
		}
	})
	if o := c.Of(); o.desc.Exclusive && o.node != nil {
		handBack, err := d.keepNode(ctx, o, x)
		if err != nil {
			return d.record(ctx, open, opencalls.End{Err: err})
		}
		defer func() { handBack(r) }()
	}
	end := d.send(ctx, c, x.Report) // hops 8 to 10: the transport, the node, its answer
	d.collect(ctx, open, &end, x.Report)
	return d.record(ctx, open, end) // hop 11
}

// KeptArgs returns the arguments of a recorded call, as its caller sent them, where they are still
// kept: for an hour, of calls with a request ID or whose result may be used again, which leave
// nothing behind. CodeResultExpired otherwise.
func (d *Dispatcher) KeptArgs(ctx context.Context, call capabilities.CallID) (json.RawMessage, error) {
	return d.open.KeptArgs(ctx, call)
}

// begin counts one more execution in, unless the gateway is ending. The caller
// calls background.Done.
func (d *Dispatcher) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ending {
		return false
	}
	d.background.Add(1)
	return true
}

// enter is begin for a caller's call.
func (d *Dispatcher) enter() bool {
	d.mu.Lock()
	draining := d.draining
	d.mu.Unlock()
	return !draining && d.begin()
}

// Drain lets no caller's call begin any more, ends calls that wait for a person, and waits for what
// runs, with its steps and artifacts, until ctx ends. For before Run ends: what is left then is
// cut off. It returns how many executions that are.
func (d *Dispatcher) Drain(ctx context.Context) (left int) {
	d.mu.Lock()
	d.draining = true
	d.mu.Unlock()
	d.refuseNew()
	return d.running.Await(ctx)
}

// Admit lets callers' calls begin, or none. Those that run, or wait for a person, go on.
func (d *Dispatcher) Admit(calls bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.draining = !calls
}

// Underway returns how many calls run, or wait for a person.
func (d *Dispatcher) Underway() int { return d.running.Count() }

// awaitEnd lets nothing new begin and waits for what runs.
func (d *Dispatcher) awaitEnd() {
	d.mu.Lock()
	d.ending = true
	d.mu.Unlock()
	d.background.Wait()
}
