package bus

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools/remote"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// exchange is one request and what comes back, on a subject of its own below the satellite's
// inbox, where nobody else may publish.
type exchange struct {
	news chan *nats.Msg
	over chan struct{} // closed once too much came

	mu    sync.Mutex
	bytes int
	full  bool
}

// Bounds of one exchange: as many messages as wait, and bytes in all.
const (
	maxNews      = 256
	maxReplySize = remote.MaxBytes + 4<<20
)

// reply hands a message to whoever waits for it. It never blocks: one that floods ends its own
// call.
func (b *Bus) reply(m *nats.Msg) {
	b.mu.Lock()
	x := b.pending[m.Subject]
	b.mu.Unlock()
	if x == nil {
		return // nobody waits any more
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.bytes += len(m.Data)
	if x.full {
		return
	}
	if x.bytes <= maxReplySize {
		select {
		case x.news <- m:
			return
		default:
		}
	}
	x.full = true
	close(x.over)
}

// send publishes a request to a satellite. The returned function ends the exchange.
func (b *Bus) send(s *satellite, r remote.Request) (*exchange, func(), error) {
	conn := b.link()
	if conn == nil || !conn.IsConnected() {
		return nil, nil, disconnected(nil)
	}
	data, err := remote.Write(r)
	if err != nil {
		return nil, nil, err
	}
	subject := remote.Inbox(string(s.id)) + "." + nuid.Next()
	x := &exchange{news: make(chan *nats.Msg, maxNews), over: make(chan struct{})}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil, nil, disconnected(errClosed)
	}
	b.pending[subject] = x
	b.mu.Unlock()
	end := func() {
		b.mu.Lock()
		delete(b.pending, subject)
		b.mu.Unlock()
	}
	if err := conn.PublishRequest(remote.Own(s.service, string(s.id)), subject, data); err != nil {
		end()
		return nil, nil, disconnected(err)
	}
	return x, end, nil
}

// next returns the next message; nobody there: CodeNodeDisconnected, for nothing was delivered.
func (x *exchange) next(ctx context.Context, lost <-chan struct{}) ([]byte, error) {
	select {
	case m := <-x.news:
		if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
			return nil, disconnected(errors.New("nobody hears the satellite's subject"))
		}
		return m.Data, nil
	case <-x.over:
		return nil, capabilities.Errorf(capabilities.CodeResultTooLarge, "the satellite sent more than a result may have")
	case <-lost:
		// An answer that came before counts.
		select {
		case m := <-x.news:
			return m.Data, nil
		default:
		}
		return nil, capabilities.Wrap(capabilities.CodeUnknownOutcome, errors.New("the satellite is gone or began anew"), "")
	case <-ctx.Done():
		return nil, ending(ctx)
	}
}

// at returns a satellite that is in, and what is closed when its calls are lost.
func (b *Bus) at(id capabilities.NodeID) (*satellite, <-chan struct{}, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.roster[id]
	if s == nil || !s.in() {
		return nil, nil, disconnected(nil)
	}
	return s, s.lost, nil
}

// Dispatch sends a call to a satellite and waits for its answer. progress may be nil; it is called
// on this goroutine.
//
// Errors are those of the node plane: CodeNodeDisconnected only if nothing can have started; the
// code of ctx's cause if that ended first, and the satellite was told; otherwise
// CodeUnknownOutcome.
func (b *Bus) Dispatch(ctx context.Context, id capabilities.NodeID, t *wire.Ticket,
	progress func(capabilities.Progress)) (_ wire.Answer, _ []capabilities.Blob, err error) {
	if member := b.elsewhereAt(id); member != "" {
		return b.dispatchFar(ctx, member, id, t, progress)
	}
	return b.DispatchHere(ctx, id, t, progress)
}

// DispatchHere is Dispatch to a satellite that is connected to this gateway.
func (b *Bus) DispatchHere(ctx context.Context, id capabilities.NodeID, t *wire.Ticket,
	progress func(capabilities.Progress)) (_ wire.Answer, _ []capabilities.Blob, err error) {
	s, lost, err := b.at(id)
	if err != nil {
		return wire.Answer{}, nil, err
	}
	b.mu.Lock()
	var w words
	known := false
	if s.said != nil {
		w, known = s.said.tools[t.Capability]
	}
	b.mu.Unlock()
	switch {
	case !known:
		return wire.Answer{}, nil, capabilities.Errorf(capabilities.CodeCapabilityNotAdvertised, "the satellite does not offer %s", t.Tool)
	case b.otherWords(t.Capability, w.hash): // the look at it and the call are not one moment
		return wire.Answer{}, nil, capabilities.Errorf(capabilities.CodeNodeNotReady, "the satellite changed what it says of %s", t.Tool)
	}
	if len(t.Args) > remote.MaxRequest {
		return wire.Answer{}, nil, capabilities.Errorf(capabilities.CodeBodyTooLarge, "a satellite takes arguments of at most %d bytes",
			remote.MaxRequest)
	}
	began := b.opts.Now()
	x, end, err := b.send(s, remote.Request{
		Op: remote.OpCall, Call: t.Call, Tool: w.upstream, Hash: w.hash, Args: json.RawMessage(t.Args), DeadlineMS: int(t.DeadlineMS),
	})
	if err != nil {
		return wire.Answer{}, nil, err
	}
	defer end()
	b.mu.Lock()
	s.running++
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		s.running--
		s.ended(err, b.opts.Now())
		b.mu.Unlock()
	}()
	for {
		data, err := x.next(ctx, lost)
		if err != nil {
			b.cancel(s, t.Call)
			return wire.Answer{}, nil, err
		}
		r, err := remote.ReadReply(data)
		switch {
		case err != nil, r.Progress == nil && r.Result == nil:
			b.cancel(s, t.Call)
			return wire.Answer{}, nil, capabilities.Wrap(capabilities.CodeExecutionFailed, err,
				"The satellite answered in a way that nobody here understands.")
		case r.Progress != nil:
			if progress != nil {
				progress(capabilities.Progress{Done: r.Progress.Done, Total: r.Progress.Total, Message: r.Progress.Message})
			}
			continue
		}
		a, err := answerOf(r.Result)
		if err != nil {
			return wire.Answer{}, nil, err
		}
		a.DurationUS = uint64(max(b.opts.Now().Sub(began).Microseconds(), 0))
		blobs, err := x.bytes16(ctx, lost, r)
		return a, blobs, err
	}
}

// bytes16 reads the bytes that follow a result, at most 16 MiB.
func (x *exchange) bytes16(ctx context.Context, lost <-chan struct{}, r remote.Reply) ([]capabilities.Blob, error) {
	if r.Bytes == 0 {
		return nil, nil
	}
	all := make([]byte, 0, min(r.Bytes, 1<<20))
	for len(all) < r.Bytes {
		data, err := x.next(ctx, lost)
		if err != nil {
			return nil, err
		}
		if len(data) == 0 || len(all)+len(data) > r.Bytes {
			return nil, capabilities.Errorf(capabilities.CodeExecutionFailed, "the satellite sent other bytes than it announced")
		}
		all = append(all, data...)
	}
	return []capabilities.Blob{{Field: tools.FieldBytes, MIME: r.Result.MIME, Bytes: all}}, nil
}

// answerOf is a satellite's word as a node's answer is.
func answerOf(r *remote.Result) (wire.Answer, error) {
	a := wire.Answer{Status: r.Status, Code: r.Code, Message: r.Message, Effect: r.Effect, Untrusted: true, Isolation: capabilities.ClassT2}
	for _, f := range r.Refused { // its own word, as a node's is
		a.Observed = append(a.Observed, wire.Observation{Key: f.Key, Detail: f.Detail, Count: f.Count, Refused: true, Among: f.Among})
	}
	switch r.Effect {
	case capabilities.EffectConfirmed, capabilities.EffectPartial, capabilities.EffectUnverifiable, capabilities.EffectSuspectNoop:
	default:
		a.Effect = capabilities.EffectUnverifiable
	}
	if r.Status != capabilities.StatusOK {
		return a, nil
	}
	out, err := r.Output()
	if err != nil {
		return wire.Answer{}, capabilities.Wrap(capabilities.CodeExecutionFailed, err, "The satellite's result cannot be read.")
	}
	a.Output = out
	return a, nil
}

// cancel tells a satellite that nobody waits for a call any more.
func (b *Bus) cancel(s *satellite, call capabilities.CallID) {
	conn := b.link()
	if conn == nil {
		return
	}
	if data, err := remote.Write(remote.Request{Op: remote.OpCancel, Call: call}); err == nil {
		_ = conn.Publish(remote.Own(s.service, string(s.id)), data) // it has a deadline of its own
	}
}

// Ask asks a satellite what became of calls: whether each began, runs, or how it ended. It returns
// one state for each, in the order asked.
func (b *Bus) Ask(ctx context.Context, id capabilities.NodeID, calls []capabilities.CallID) ([]wire.JournalState, error) {
	if member := b.elsewhereAt(id); member != "" {
		return b.opts.Peers.Ask(ctx, member, id, calls)
	}
	return b.AskHere(ctx, id, calls)
}

// AskHere is Ask of a satellite that is connected to this gateway.
func (b *Bus) AskHere(ctx context.Context, id capabilities.NodeID, calls []capabilities.CallID) ([]wire.JournalState, error) {
	s, lost, err := b.at(id)
	if err != nil {
		return nil, err
	}
	states := make([]wire.JournalState, 0, len(calls))
	for len(calls) > 0 {
		some := calls[:min(len(calls), remote.MaxAsk)]
		calls = calls[len(some):]
		x, end, err := b.send(s, remote.Request{Op: remote.OpAsk, Calls: some})
		if err != nil {
			return nil, err
		}
		data, err := x.next(ctx, lost)
		end()
		if err != nil {
			return nil, err
		}
		r, err := remote.ReadReply(data)
		if err != nil {
			return nil, err
		}
		if len(r.Fates) != len(some) {
			return nil, capabilities.Errorf(capabilities.CodeExecutionFailed, "the satellite answered about other calls than were asked")
		}
		for i, f := range r.Fates {
			if f.Call != some[i] {
				return nil, capabilities.Errorf(capabilities.CodeExecutionFailed, "the satellite answered about other calls than were asked")
			}
			state, err := stateOf(&f)
			if err != nil {
				return nil, err
			}
			states = append(states, state)
		}
	}
	return states, nil
}

func stateOf(f *remote.Fate) (wire.JournalState, error) {
	st := wire.JournalState{Call: f.Call, State: wire.StateUnknown}
	switch f.State {
	case remote.StateNever:
		st.State = wire.StateNeverStarted
	case remote.StateRunning:
		st.State = wire.StateRunning
	case remote.StateFinished:
		a, err := answerOf(f.Result)
		if err != nil {
			return st, err
		}
		if f.Bytes > 0 { // they do not come again
			a.Blobs = []wire.BlobHead{{Field: tools.FieldBytes, MIME: f.Result.MIME, Size: uint32(f.Bytes)}}
		}
		st.State, st.Answer = wire.StateFinished, &a
	}
	return st, nil
}

// Manifest asks a satellite what it says of its tools now.
func (b *Bus) Manifest(ctx context.Context, id capabilities.NodeID) (tools.ToolManifest, error) {
	if member := b.elsewhereAt(id); member != "" {
		return b.opts.Peers.Manifest(ctx, member, id)
	}
	return b.ManifestHere(ctx, id)
}

// ManifestHere is Manifest of a satellite that is connected to this gateway.
func (b *Bus) ManifestHere(ctx context.Context, id capabilities.NodeID) (tools.ToolManifest, error) {
	s, _, err := b.at(id)
	if err != nil {
		return tools.ToolManifest{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	m, err := b.ask(ctx, s)
	if err != nil {
		return tools.ToolManifest{}, err
	}
	if m.Provider != s.service || len(m.Tools) == 0 || len(m.Tools) > maxTools {
		return tools.ToolManifest{}, capabilities.Errorf(capabilities.CodeInvalidRequest,
			"its manifest is of another service, or has not 1 to %d tools", maxTools)
	}
	one := b.keepManifest(s.service, m)
	b.mu.Lock()
	s.said, s.problem = one, ""
	b.mu.Unlock()
	return *m, nil
}

func (b *Bus) ask(ctx context.Context, s *satellite) (*tools.ToolManifest, error) {
	r, err := b.once(ctx, s, remote.Request{Op: remote.OpManifest})
	if err != nil {
		return nil, err
	}
	if r.Manifest == nil {
		return nil, capabilities.Errorf(capabilities.CodeExecutionFailed, "the satellite sent no manifest")
	}
	return r.Manifest, nil
}

func disconnected(cause error) error {
	return capabilities.Wrap(capabilities.CodeNodeDisconnected, cause, "The satellite is away; nothing was executed.")
}

// ending returns the error for a context that ended.
func ending(ctx context.Context) error {
	cause := context.Cause(ctx)
	var coded *capabilities.Error
	switch {
	case errors.As(cause, &coded):
		return coded
	case errors.Is(cause, context.DeadlineExceeded):
		return capabilities.Wrap(capabilities.CodeDeadlineExceeded, cause, "")
	}
	return capabilities.Wrap(capabilities.CodeCancelled, cause, "")
}
