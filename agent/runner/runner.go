package runner

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/agent/spool"
	"github.com/handrail-dev/handrail/agent/withhold"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// Guard is the device's last word; agent/guard implements it.
type Guard interface {
	// Check says why a ticket must not run, or nil. It may wait for a person.
	Check(ctx context.Context, t *wire.Ticket, ready capabilities.Readiness) *capabilities.Error
}

// Journal is the node's durable memory of calls; agent/journal implements it.
type Journal interface {
	// Started records the call durably before it returns. CodeTicketReplayed if the
	// journal knows the call already.
	Started(ctx context.Context, t *wire.Ticket) error
	// Held records a ticket that may run later durably before it returns; Started then
	// waits for nothing. It may leave out the record where too many came and never ran;
	// Started is then as for any other. Withdrawn records that it never will run.
	Held(ctx context.Context, t *wire.Ticket) error
	Withdrawn(call capabilities.CallID) error
	// Finished records the end, before the answer leaves. It does not wait for the
	// disk: a lost "finished" is an unknown outcome, never a second run.
	Finished(call capabilities.CallID, answer *wire.Answer) error
	// States tells what became of calls, as far as the journal knows.
	States(ctx context.Context, calls []capabilities.CallID) []wire.JournalState
}

// Sink takes what a call gives while it runs and at its end; agent/link
// implements it over the call's stream.
type Sink interface {
	Progress(p wire.Progress)
	// Go waits for the word that a held ticket may run, at most ten seconds; with an
	// error it never may, and the answer says why if anybody still hears it. Before
	// anything else.
	Go(ctx context.Context) error
	// Accept says that the call will be carried out and gives what the gateway then
	// sealed to the key. At most once, before Progress and Answer.
	Accept(ctx context.Context, a wire.Accept) (*wire.Sealed, error)
	// Step asks the gateway for a step of a call whose ticket says Steps, and waits for
	// its order; it numbers the steps. StepEnded says how one that was ordered ended.
	Step(ctx context.Context, m wire.Step) (*wire.StepOrder, error)
	StepEnded(m wire.StepEnd)
	// Answer sends the end. blobs are the bytes that the answer's Blobs announce.
	Answer(a wire.Answer, blobs [][]byte)
}

// Options of New; every field is required unless it says otherwise.
type Options struct {
	Handlers []capabilities.Handler
	Catalog  *catalog.Catalog
	Guard    Guard
	Journal  Journal
	// Spool keeps artifacts until the gateway has them; default: the node keeps none.
	Spool *spool.Spool
	// Deliveries are those that were open when the node ended last, and KeepDeliveries makes
	// durable which are. Default: none are known, and none are kept.
	Deliveries     []withhold.Open
	KeepDeliveries func([]withhold.Open) error
	// Refused is told what the guard did not let run; default: nobody.
	Refused func(t *wire.Ticket, e *capabilities.Error)
	Log     *slog.Logger // default: discards
}

// Runner dispatches tickets to handlers. All methods are safe for concurrent use.
type Runner struct {
	opts     Options
	handlers map[capabilities.CapabilityID]capabilities.Handler
	readyFor readiness
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
		handlers: make(map[capabilities.CapabilityID]capabilities.Handler),
		running:  make(map[capabilities.CallID]context.CancelCauseFunc),
		disowned: make(map[capabilities.CallID]time.Time),
	}
	r.withhold.Restore(o.Deliveries, o.KeepDeliveries)
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

// Serve carries out one ticket and answers through sink exactly once. ctx ends
// when the gateway gives the call up.
func (r *Runner) Serve(ctx context.Context, t *wire.Ticket, sink Sink) {
	began := time.Now()
	answer, blobs := r.serve(ctx, t, &began, sink)
	answer.DurationUS = uint64(time.Since(began).Microseconds())
	answer.Clip()
	if answer.Code == capabilities.CodeResultTooLarge {
		blobs = nil
	}
	sink.Answer(answer, blobs)
}

// serve moves began on to when a held ticket may run: how long it lay is not the call's.
func (r *Runner) serve(ctx context.Context, t *wire.Ticket, began *time.Time, sink Sink) (wire.Answer, [][]byte) {
	arrived := *began
	// Made where something is to be said: most calls say nothing that is kept.
	log := func() *slog.Logger { return r.opts.Log.With("call", t.Call, "tool", t.Tool, "lane", t.Lane) }
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// From here on the call counts as running, so that the gateway, asking over a
	// new connection, is never told "never started" about a call on its way in.
	if !r.enter(t.Call, cancel) {
		return refusal(&capabilities.Error{Code: capabilities.CodeTicketReplayed}), nil
	}
	defer r.leave(t.Call)
	if t.Parent != "" {
		return refusal(capabilities.Errorf(capabilities.CodeTicketInvalid, "no call of this node asked for that step")), nil
	}
	if t.Held {
		if err := r.opts.Journal.Held(ctx, t); err != nil {
			log().Warn("call.unheld", "hop", "journal", "err", err) // Started says what it means
		}
		// Of what has started this says nothing.
		defer func() {
			if err := r.opts.Journal.Withdrawn(t.Call); err != nil {
				log().Error("call.journal", "err", err)
			}
		}()
		if err := sink.Go(ctx); err != nil {
			log().Info("call.withdrawn", "hop", "link", "err", err)
			answer, _ := conclude(ctx, capabilities.Output{}, err)
			return answer, nil
		}
		*began = time.Now()
	}
	run, no := r.admit(ctx, t, arrived, log, cancel)
	if no != nil {
		return refusal(no), nil
	}
	defer run.leave()
	inv := run.invocation(sink)
	if run.tool.Delivery != nil {
		if err := r.receive(run.ctx, t, run.tool, run.seen, sink, &inv); err != nil {
			log().Warn("call.refused", "hop", "secret", "code", err.Code, "err", err)
			answer, _ := conclude(run.ctx, capabilities.Output{}, err)
			r.finished(log, t.Call, &answer)
			return answer, nil
		}
	}
	var left *spool.Call
	if r.opts.Spool != nil {
		left = r.opts.Spool.For(t.Call, run.tool.Limits.MaxArtifactBytes)
		inv.Spool = left
	}
	if t.Steps {
		inv.Step, inv.StepTools = r.stepsOf(run, sink, &inv).take, r.stepTools(run.tool)
	}
	output, answer, blobs := run.carryOut(run.handler.Handle, inv)
	if !run.fits(&answer) {
		blobs = nil
	}
	if e := settle(left, &answer, output.Artifacts); e != nil {
		log().Error("call.artifacts", "err", e)
		answer, blobs = refusal(e), nil
		answer.Effect, answer.Isolation = output.Effect, run.ready.Isolation
	}
	r.finished(log, t.Call, &answer)
	if r.opts.Log.Enabled(ctx, slog.LevelInfo) {
		log().Info("call.finished", "hop", "runner", "status", answer.Status, "code", answer.Code, "effect", answer.Effect)
	}
	return answer, blobs
}

// finished records the end of a started call, as it will leave.
func (r *Runner) finished(log func() *slog.Logger, call capabilities.CallID, answer *wire.Answer) {
	answer.Clip()
	if err := r.opts.Journal.Finished(call, answer); err != nil {
		log().Error("call.journal", "err", err)
	}
}

// conclude makes the answer of what a handler gave. Why its context ended wins
// over the error that ending caused inside it.
func conclude(ctx context.Context, out capabilities.Output, err error) (wire.Answer, [][]byte) {
	if err == nil {
		return success(out)
	}
	failure := capabilities.AsError(err)
	if ctx.Err() != nil {
		var cause *capabilities.Error
		if !errors.As(context.Cause(ctx), &cause) {
			// The gateway gives a reason with what it ends: this is the node's own end.
			cause = capabilities.Errorf(capabilities.CodeCancelled, "the node was shut down while the call ran").
				WithHint("Look at the device's state; call again when the node is back.")
		}
		// What the handler says about its deadline is more telling than ours.
		if failure.Code != cause.Code {
			failure = cause
		}
	} else if failure.Code == capabilities.CodeInternal && !errors.Is(err, &capabilities.Error{Code: capabilities.CodeInternal}) {
		failure = capabilities.Wrap(capabilities.CodeExecutionFailed, err, "")
	}
	answer := refusal(failure)
	if out.Effect != "" {
		answer.Effect, answer.Evidence = out.Effect, out.Evidence
	}
	return answer, nil
}

func success(out capabilities.Output) (wire.Answer, [][]byte) {
	body := []byte("{}")
	if out.Result != nil {
		var err error
		if body, err = encode(out.Result); err != nil {
			return refusal(capabilities.Wrap(capabilities.CodeInternal, err, "The tool's result cannot be encoded.")), nil
		}
	}
	a := wire.Answer{
		Status: capabilities.StatusOK, Output: body, Effect: out.Effect, Evidence: out.Evidence, Untrusted: out.Untrusted,
	}
	if did := out.Did; did != nil && *did != (capabilities.Did{}) {
		a.Did = &wire.Did{Typed: uint32(max(did.Typed, 0)), App: did.App}
	}
	blobs := make([][]byte, 0, len(out.Blobs))
	for _, b := range out.Blobs {
		a.Blobs = append(a.Blobs, wire.BlobHead{Field: b.Field, MIME: b.MIME, Size: uint32(len(b.Bytes)), SHA256: sha256.Sum256(b.Bytes)})
		blobs = append(blobs, b.Bytes)
	}
	return a, blobs
}

// encode gives the JSON of a result as a model will read it: a "<" stays one
// character and does not become six.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// refusal is the answer that carries an error.
func refusal(e *capabilities.Error) wire.Answer {
	a := wire.Answer{Status: statusOf(e.Code), Code: e.Code, Message: e.PublicMessage(), Hint: e.PublicHint()}
	if e.Details != nil {
		if d, err := canonical.Marshal(e.Details); err == nil {
			a.Details = d
		}
	}
	return a
}

func statusOf(c capabilities.Code) capabilities.Status {
	switch c {
	case capabilities.CodeDeniedByNode, capabilities.CodeStopped, capabilities.CodeConsentUnavailable,
		capabilities.CodeConsentDenied, capabilities.CodeIsolationUnavailable, capabilities.CodeURLBlocked, capabilities.CodeSecretHeld:
		return capabilities.StatusDenied
	case capabilities.CodeApprovalPending:
		return capabilities.StatusPending
	}
	return capabilities.StatusError
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
func (r *Runner) States(ctx context.Context, calls []capabilities.CallID) []wire.JournalState {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Asked under the lock: a call that began and ended between the two looks would
	// be told "never started".
	states := r.opts.Journal.States(ctx, calls)
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

// CloseLane frees what a lane holds in every handler.
func (r *Runner) CloseLane(lane capabilities.LaneID) {
	for _, h := range r.opts.Handlers {
		h.CloseLane(lane)
	}
	r.withhold.CloseLane(lane)
}

// SecretsDone takes a person's word that nothing of what a lane pasted is to be seen.
func (r *Runner) SecretsDone(lane capabilities.LaneID) { r.withhold.Done(lane) }

// Readiness gives the present truth of every capability, for the gateway and for
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
