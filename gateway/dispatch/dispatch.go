package dispatch

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/gateway/registry"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/gateway/secret"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Nodes is the transport to devices and the truth about them; gateway/nodes
// implements it.
type Nodes interface {
	// Snapshot gives every node of the roster as it stands now.
	Snapshot() []route.Node
	// Dispatch sends a ticket and waits for its answer. CodeNodeDisconnected means
	// that no handler started; CodeUnknownOutcome that nobody here can tell.
	Dispatch(ctx context.Context, node capabilities.NodeID, t *wire.Ticket, progress func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error)
	// Hold sends a ticket ahead of its commit: the node gets ready, and nothing runs
	// before the word. It never waits. Either of the two follows, once; both are nil
	// where Dispatch has to do it all. word lets the ticket run, once the call is
	// durable, and waits for the answer, with the errors of Dispatch. withdraw takes it
	// back: it never runs.
	Hold(ctx context.Context, node capabilities.NodeID, t *wire.Ticket) (word func(context.Context, func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error), withdraw func())
	// Ask asks a node's journal what became of calls.
	Ask(ctx context.Context, node capabilities.NodeID, calls []capabilities.CallID) ([]wire.JournalState, error)
	// Changed is closed at the next change of the snapshot.
	Changed() <-chan struct{}
}

// Lanes says which nodes are attached to a lane; gateway/lane implements it.
type Lanes interface {
	// Attached gives the attached nodes; the slice is shared.
	Attached(lane capabilities.LaneID) []capabilities.NodeID
}

// Consent is a person's word; gateway/consent implements it.
type Consent interface {
	// Await gives the grant that a call which policy asks about goes on with.
	Await(context.Context, consent.Ask) (consent.Permit, error)
	// Ended says that the call which went on with a grant is over.
	Ended(consent.Permit)
	// Stands reports whether what a call went on with is still granted.
	Stands(consent.Permit) bool
	// Uses is told a call that goes on without a permit; over ends it.
	Uses(tool capabilities.ToolID, node capabilities.NodeID, by capabilities.PrincipalID) (over func())
	// SpendIn takes one use of it in the commit that records the call.
	SpendIn(*store.Tx, consent.Permit) error
	// Withdraw closes a question whose call nobody wants any more.
	Withdraw(approval string)
	// Approval gives a question that waits or was answered lately.
	Approval(id string) (consent.Approval, error)
	// Changed is closed at the next question or answer.
	Changed() <-chan struct{}
}

// Caller is who calls and from where.
type Caller struct {
	Principal capabilities.PrincipalID
	Role      string // from the token's record
	Lane      capabilities.LaneID
	// Self says by what it is known that a person makes this call in the console with their
	// own hands; empty: it is not known. Only a surface for people sets it.
	Self string
}

// Request is one call as a surface hands it in.
type Request struct {
	Caller
	Tool capabilities.ToolID
	Args json.RawMessage // as the caller sent them
	// RequestID makes a retry recognisable; empty means that there is none.
	RequestID capabilities.RequestID
	Surface   string                      // "mcp", "rest": for the ledger
	Token     string                      // the ID of the token it came with; empty: none did
	Progress  func(capabilities.Progress) // nil: not wanted
	// Elicits says that the surface can put a question to the person at the client,
	// and will do so itself when it is told that one waits.
	Elicits bool
	// Inside says that the call is the gateway's own way to do what a person asked a
	// surface for: it may be of a tool that is not model-facing.
	Inside bool
	// Waits says that the surface's goroutine lasts, and has nothing to do before the
	// result: the execution runs on it, and Call returns no sooner than that ends.
	Waits bool

	task string // the deferred call that this carries out
}

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
	Metrics   *Metrics                       // default: not registered anywhere
	// Patience is how long the identical call waits for one that was deferred;
	// default: not at all.
	Patience time.Duration
	// Known says whether a principal still has a token of that role. Default: yes.
	Known func(capabilities.PrincipalID, string) bool
	Log   *slog.Logger // default: discards
	// ReserveWait is how long a call waits for a node that a person keeps to
	// themselves. Default: 45 s, which clients bear.
	ReserveWait time.Duration
	// AwaitNodes has calls of the first seconds wait a second for nodes that are away:
	// those that a restart cut off come back.
	AwaitNodes bool
	// MaxRunning bounds the calls in flight; default 4,096, of which one principal
	// may have a quarter. One more is refused with CodeOverloaded.
	MaxRunning int
}

// Dispatcher is the pipeline. All methods are safe for concurrent use.
type Dispatcher struct {
	opts      Options
	flights   *flights
	settler   *settler
	late      late
	airborne  airborne
	tasks     tasks
	refusals  refusals
	slots     chan struct{} // one per running call
	sharesMu  sync.Mutex
	shares    map[capabilities.PrincipalID]int // running calls of each
	visible   visibleCache
	possibles possibles
	notes     notes
	taints    *taints
	reserved  *reserved
	frames    frames
	crew      *crew         // runs executions
	fetching  chan struct{} // one per artifact on its way
	open      openCalls
	recovered map[capabilities.CallID]*flight // what Recover took up, until Run has looked at it
	served    time.Time                       // when Recover was called: calls come from then on
	serving   context.Context                 // until Run ends
	close     func()                          // ends it

	mu         sync.Mutex
	ending     bool           // Run waits for background: nothing new begins
	background sync.WaitGroup // executions; they outlive their callers
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

// awaitEnd lets nothing new begin and waits for what runs.
func (d *Dispatcher) awaitEnd() {
	d.mu.Lock()
	d.ending = true
	d.mu.Unlock()
	d.background.Wait()
	d.crew.dismiss()
}

// New makes a Dispatcher; it starts nothing. Run settles what an earlier process
// left open.
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
	if o.Known == nil {
		o.Known = func(capabilities.PrincipalID, string) bool { return true }
	}
	if o.MaxRunning == 0 {
		o.MaxRunning = 4096
	}
	if o.ReserveWait == 0 {
		o.ReserveWait = defaultReserveWait
	}
	d := &Dispatcher{
		opts: o, reserved: newReserved(), flights: newFlights(), late: newLate(), slots: make(chan struct{}, o.MaxRunning),
		shares: map[capabilities.PrincipalID]int{}, taints: newTaints(), crew: newCrew(),
		fetching: make(chan struct{}, maxFetching), open: openCalls{rows: map[capabilities.CallID]*row{}},
	}
	d.serving, d.close = context.WithCancel(context.Background())
	d.settler = newSettler(o.Nodes, d.reconcile)
	if err := o.Registry.Provide("tool.node.list", nodeList{d}); err != nil {
		o.Log.Error("tools.provide", "err", err)
	}
	return d
}

// call is one dispatch on its way through the hops. Fields fill in that order.
type call struct {
	req     Request
	id      capabilities.CallID
	began   time.Time
	ctx     context.Context     // the caller's
	life    context.Context     // the execution's; nil before hop 5
	d       *catalog.Descriptor // hop 2
	args    catalog.Args
	key     outcome.DigestKey // of this call alone, sealed and expiring
	argsMAC [32]byte
	digest  string                // argsMAC in hex
	routing *capabilities.Routing // hop 3
	node    *route.Node
	astray  *capabilities.Error    // no node can take it now: it may only meet the earlier call of its request ID
	ready   capabilities.Readiness // of the capability on node
	engine  *policy.Engine         // hop 4
	sealed  *policy.Sealed
	first   *policy.Sealed  // before an escalation
	asked   policy.Decision // the decision on first
	taint   []string
	verdict policy.Decision
	judged  capabilities.NodeID // the node verdict is about
	decided bool                // verdict counts: it is what the call stands or falls by
	denied  bool                // no node is left only because policy denies this call
	secret  secret.Reference    // hop 2, of a delivery
	accepts bool                // policy accepted an isolation below the class by name
	permit  consent.Permit      // hop 6; zero: policy needs none
	waited  time.Duration       // for people
	yielded time.Duration       // of waited: for one who kept the node to themselves
	row     row                 // hop 7
	hops    hopTimes
	// The ticket that went ahead of the commit; nil: none did, or it is done with.
	word     func(context.Context, func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error)
	withdraw func()
	// Of a step alone (step.go).
	parent     capabilities.CallID
	step       uint32
	within     time.Duration            // for a person's answer; 0: as any
	along      func(tx *store.Tx) error // more for hop 7's commit
	over       func()                   // frees what the step holds
	unrecorded bool                     // its refusal has no packets of its own
	here       func()                   // the execution, if the caller's goroutine is to run it
}

// Call carries one call through the hops of DESIGN section 4 and always gives a
// result. If ctx ends first, the result is CodeCancelled and the execution goes
// on only for others who joined it.
func (d *Dispatcher) Call(ctx context.Context, req Request) capabilities.Result {
	now := time.Now()
	c := &call{req: req, id: newCallID(now), began: now, ctx: ctx}
	d.opts.Log.Debug("tools.dispatch.started", "hop", "front", "surface", req.Surface,
		"call", c.id, "tool", req.Tool, "principal", req.Principal, "lane", req.Lane)

	if err := d.refusals.over(req.Principal, now); err != nil {
		return c.failure(err) // not even looked at: its refusals are counted, not told one by one
	}
	for _, hop := range []struct {
		n  int
		do func(*call) *capabilities.Error
	}{
		{2, d.resolve}, // registry: the tool, its arguments, their digest
		{2, d.halted},
		{3, d.place},  // route: the node, policy seeing the real arguments
		{4, d.decide}, // policy: envelope and decision
	} {
		if err := hop.do(c); err != nil {
			return d.refuse(c, err)
		}
		c.ended(hop.n)
	}
	f, id, err := d.enter(c) // 5 deduplication: start, join or replay
	if err != nil {
		return d.refuse(c, err)
	}
	wait := f.wait
	if c.here != nil {
		wait = func(ctx context.Context, id int) (capabilities.Result, bool) { return f.carryOut(ctx, id, c.here) }
	}
	result, ok := wait(ctx, id)
	if !ok {
		return c.failure(&capabilities.Error{Code: capabilities.CodeCancelled})
	}
	if result.Call != c.id {
		result.Deduplicated = true
	}
	return result
}

// execute is the second half of a call, from the commit on. It belongs to the
// flight, not to a caller.
func (d *Dispatcher) execute(ctx context.Context, c *call, f *flight) capabilities.Result {
	c.ended(5)
	if err := d.halted(c); err != nil { // again: StopAll may have missed it before
		return d.refuse(c, err)
	}
	// What has not begun ends with the gateway; what runs goes on at its node, and the
	// next process asks there.
	waits, stop := d.whileServing(ctx)
	defer stop()
	if r, err := d.joinTask(waits, c); err != nil {
		return d.refuse(c, because(waits, err))
	} else if r != nil {
		return *r
	}
	if err := d.yield(waits, c, f); err != nil {
		return d.refuse(c, because(waits, err))
	}
	err := d.consent(waits, c) // 6
	if c.permit.Grant != "" {
		defer d.opts.Consent.Ended(c.permit)
	} else if err == nil && d.opts.Consent != nil && c.node != nil {
		defer d.opts.Consent.Uses(c.d.Tool, c.node.ID, c.req.Principal)()
	}
	if err != nil {
		return d.refuse(c, because(waits, err))
	}
	leave, err := d.occupy(waits, c, f)
	defer leave()
	if err != nil {
		return d.refuse(c, because(waits, err))
	}
	c.ended(6)
	d.hold(ctx, c)
	defer c.takeBack()
	if err := d.commit(ctx, c); err != nil { // 7: durable, or nothing executes
		c.takeBack()
		if err.Code == capabilities.CodeConsentDenied || err.Code == capabilities.CodeNotFound {
			return d.refuse(c, err) // another call used the grant up, or the kept call was dropped
		}
		return c.failure(beforeStart(because(ctx, err)))
	}
	c.ended(7)
	if c.d.Exclusive && c.node != nil {
		return d.exclusive(ctx, c, f)
	}
	end := d.order(ctx, c, f.report) // 8 to 10: the transport, the node, its answer
	d.collect(ctx, c, &end, f.report)
	return d.record(c, end) // 11 and 12
}

// whileServing gives a context that ends with ctx or with the gateway.
func (d *Dispatcher) whileServing(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	forget := context.AfterFunc(d.serving, func() {
		cancel(capabilities.Errorf(capabilities.CodeCancelled, "The gateway is ending."))
	})
	return ctx, func() { forget(); cancel(nil) }
}

// hopTimes are when the hops of a call ended, by their numbers, in µs since it came in;
// 0 for what it did not reach.
type hopTimes [12]int64

// ended notes the end of a hop.
func (c *call) ended(hop int) { c.hops[hop] = max(1, time.Since(c.began).Microseconds()) }

// answered notes the ends of what happened on the node: it was told at hop 8, and says
// itself how long it had the call.
func (c *call) answered(took time.Duration) {
	c.ended(10)
	c.hops[9] = max(c.hops[8], c.hops[10]-took.Microseconds())
}

// list gives them from hop 2 on, up to the last that was reached.
func (h *hopTimes) list() []int64 {
	last := len(h)
	for last > 2 && h[last-1] == 0 {
		last--
	}
	return h[2:last]
}

// exclusive is the same for a call that keeps its node to its caller.
func (d *Dispatcher) exclusive(ctx context.Context, c *call, f *flight) capabilities.Result {
	handBack, err := d.keepNode(ctx, c, f)
	if err != nil {
		return d.record(c, end{err: err})
	}
	r := d.record(c, d.order(ctx, c, f.report))
	handBack(r)
	return r
}

// newCallID is 26 letters of base32, safe anywhere: 48 bits of time, so that calls
// of one moment lie together in every index, and 80 bits that nobody can guess.
func newCallID(now time.Time) capabilities.CallID {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(now.UnixMilli())<<16)
	rand.Read(b[6:]) // never fails (crypto/rand)
	return capabilities.CallID("c" + callIDText.EncodeToString(b[:]))
}

// timeOf is the time in a call's ID, to the millisecond.
func timeOf(id capabilities.CallID) (time.Time, bool) {
	b, err := callIDText.DecodeString(strings.TrimPrefix(string(id), "c"))
	if err != nil || len(b) != 16 {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b) >> 16)), true
}

// callIDText sorts as the bytes do (RFC 4648 section 7), in lower case.
var callIDText = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// result starts a result of this call.
func (c *call) result(status capabilities.Status) capabilities.Result {
	took := time.Since(c.began)
	r := capabilities.Result{
		Call: c.id, Tool: c.req.Tool, Status: status, Routing: c.routing,
		Duration: took, DurationMS: float64(took.Microseconds()) / 1000,
	}
	if c.sealed != nil {
		r.EnvelopeHash = c.sealed.HashHex()
	}
	return r
}

// failure makes the result that carries an error.
func (c *call) failure(e *capabilities.Error) capabilities.Result {
	status := statusOf(e.Code)
	if c.denied {
		status = capabilities.StatusDenied // whatever the code of the selection is
	}
	r := c.result(status)
	r.Code, r.Message, r.Hint = e.Code, e.PublicMessage(), e.PublicHint()
	r.Retryable, r.Details = e.Retryable(), e.Details
	return r
}

// statusOf tells refusals by a rule or a person from failures.
func statusOf(code capabilities.Code) capabilities.Status {
	switch code {
	case capabilities.CodeDeniedByPolicy, capabilities.CodeNodeDeniedByPolicy, capabilities.CodeConsentUnavailable,
		capabilities.CodeConsentDenied, capabilities.CodeIsolationUnavailable, capabilities.CodeStopped,
		capabilities.CodeDeniedByNode, capabilities.CodeCapabilityNotAllowlisted, capabilities.CodeURLBlocked, capabilities.CodeSecretHeld:
		return capabilities.StatusDenied
	case capabilities.CodeApprovalPending:
		return capabilities.StatusPending
	}
	return capabilities.StatusError
}
