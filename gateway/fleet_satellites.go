package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/bus"
	"github.com/handrail-dev/handrail/gateway/nodes"
)

// A satellite is connected to one of several gateways. The others have that one make its calls.

// The words that gateways ask each other by.
const (
	wordSatellites = "satellite.presence" // how those are that are connected to the one that says it
	wordCall       = "satellite.call"
	wordCancel     = "satellite.cancel"
	wordProgress   = "satellite.progress"
	wordAsk        = "satellite.ask"
	wordManifest   = "satellite.manifest"
)

// busPeers are the other gateways as the bus uses them, and what it answers them.
type busPeers struct {
	g *Gateway

	mu      sync.Mutex
	running map[capabilities.CallID]context.CancelCauseFunc     // made here for others
	told    map[capabilities.CallID]func(capabilities.Progress) // made elsewhere for this one
}

var _ bus.Peers = (*busPeers)(nil)

func newBusPeers(g *Gateway) *busPeers {
	return &busPeers{
		g: g, running: map[capabilities.CallID]context.CancelCauseFunc{}, told: map[capabilities.CallID]func(capabilities.Progress){},
	}
}

// words are what it answers.
func (p *busPeers) words() map[string]nodes.Word {
	return map[string]nodes.Word{
		wordSatellites: p.heard, wordCall: p.called, wordCancel: p.cancelled, wordProgress: p.progressed, wordAsk: p.asked, wordManifest: p.said,
	}
}

func misread(err error) error { return capabilities.Wrap(capabilities.CodeInvalidRequest, err, "") }

// unheard is the error of a word about a call: the other gateway may have heard it.
func unheard(err error) error {
	if errors.Is(err, nodes.ErrUnheard) {
		return capabilities.Wrap(capabilities.CodeUnknownOutcome, err, "The gateway that the satellite is connected to does not answer.")
	}
	return err
}

type presences struct {
	Member string         `json:"member"`
	Here   []bus.Presence `json:"here"`
}

// Tell has the others know how the satellites are that are connected here.
func (p *busPeers) Tell(here []bus.Presence) {
	ctx, cancel := context.WithTimeout(context.Background(), heedWithin)
	defer cancel()
	p.g.Nodes.TellMembers(ctx, wordSatellites, presences{p.g.Store.Member(), here})
}

func (p *busPeers) heard(_ context.Context, body []byte) (any, error) {
	var in presences
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, misread(err)
	}
	p.g.Bus.Hear(in.Member, in.Here)
	return struct{}{}, nil
}

type satelliteCall struct {
	From       string                    `json:"from"`
	ID         capabilities.NodeID       `json:"id"`
	Call       capabilities.CallID       `json:"call"`
	Tool       capabilities.ToolID       `json:"tool"`
	Capability capabilities.CapabilityID `json:"capability"`
	Args       []byte                    `json:"args"`
	DeadlineMS uint32                    `json:"deadline_ms"`
}

type satelliteAnswer struct {
	Answer wire.Answer `json:"answer"`
	Blobs  []blob      `json:"blobs,omitempty"`
}

type blob struct {
	Field string `json:"field"`
	MIME  string `json:"mime"`
	Bytes []byte `json:"bytes"`
}

// Call has another gateway make a call, and tells it when nobody waits for it any more.
func (p *busPeers) Call(ctx context.Context, member string, id capabilities.NodeID, t *wire.Ticket,
	progress func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
	var order sync.Mutex // progress is told by one at a time, and no more once this returns
	over := false
	p.mu.Lock()
	p.told[t.Call] = func(now capabilities.Progress) {
		order.Lock()
		defer order.Unlock()
		if !over && progress != nil {
			progress(now)
		}
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.told, t.Call)
		p.mu.Unlock()
		order.Lock()
		defer order.Unlock()
		over = true
	}()
	stop := context.AfterFunc(ctx, func() {
		telling, cancel := context.WithTimeout(context.WithoutCancel(ctx), heedWithin)
		defer cancel()
		if err := p.g.Nodes.AskMember(telling, member, wordCancel, t.Call, nil); err != nil {
			p.g.log.Warn("peer.word", "word", wordCancel, "call", t.Call, "err", err) // it has a deadline of its own
		}
	})
	defer stop()
	var out satelliteAnswer
	err := p.g.Nodes.AskMember(ctx, member, wordCall, satelliteCall{
		From: p.g.Store.Member(), ID: id, Call: t.Call, Tool: t.Tool, Capability: t.Capability, Args: t.Args, DeadlineMS: t.DeadlineMS,
	}, &out)
	if err != nil {
		return wire.Answer{}, nil, unheard(err)
	}
	var blobs []capabilities.Blob
	for _, b := range out.Blobs {
		blobs = append(blobs, capabilities.Blob(b))
	}
	return out.Answer, blobs, nil
}

// called makes a call for another gateway.
func (p *busPeers) called(ctx context.Context, body []byte) (any, error) {
	var in satelliteCall
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, misread(err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(in.DeadlineMS)*time.Millisecond+heedWithin, context.DeadlineExceeded)
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	p.mu.Lock()
	p.running[in.Call] = end
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.running, in.Call)
		p.mu.Unlock()
	}()
	var busy atomic.Bool // one word of progress at a time; the next says more
	a, blobs, err := p.g.Bus.DispatchHere(ctx, in.ID, &wire.Ticket{
		Call: in.Call, Tool: in.Tool, Capability: in.Capability, Args: in.Args, DeadlineMS: in.DeadlineMS,
	}, func(now capabilities.Progress) {
		if busy.Swap(true) {
			return
		}
		go func() {
			defer busy.Store(false)
			telling, cancel := context.WithTimeout(ctx, heedWithin)
			defer cancel()
			_ = p.g.Nodes.AskMember(telling, in.From, wordProgress, satelliteProgress{in.Call, now}, nil) // the next one may be heard
		}()
	})
	if err != nil {
		return nil, err
	}
	out := satelliteAnswer{Answer: a}
	for _, b := range blobs {
		out.Blobs = append(out.Blobs, blob(b))
	}
	return out, nil
}

func (p *busPeers) cancelled(_ context.Context, body []byte) (any, error) {
	var call capabilities.CallID
	if err := json.Unmarshal(body, &call); err != nil {
		return nil, misread(err)
	}
	p.mu.Lock()
	end := p.running[call]
	p.mu.Unlock()
	if end != nil {
		end(capabilities.Errorf(capabilities.CodeCancelled, "The caller cancelled the call."))
	}
	return struct{}{}, nil
}

type satelliteProgress struct {
	Call     capabilities.CallID   `json:"call"`
	Progress capabilities.Progress `json:"progress"`
}

func (p *busPeers) progressed(_ context.Context, body []byte) (any, error) {
	var in satelliteProgress
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, misread(err)
	}
	p.mu.Lock()
	tell := p.told[in.Call]
	p.mu.Unlock()
	if tell != nil {
		tell(in.Progress)
	}
	return struct{}{}, nil
}

type satelliteAsk struct {
	ID    capabilities.NodeID   `json:"id"`
	Calls []capabilities.CallID `json:"calls,omitempty"`
}

// Ask asks by another gateway what became of calls.
func (p *busPeers) Ask(ctx context.Context, member string, id capabilities.NodeID,
	calls []capabilities.CallID) (states []wire.JournalState, err error) {
	err = p.g.Nodes.AskMember(ctx, member, wordAsk, satelliteAsk{id, calls}, &states)
	return states, err
}

func (p *busPeers) asked(ctx context.Context, body []byte) (any, error) {
	var in satelliteAsk
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, misread(err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return p.g.Bus.AskHere(ctx, in.ID, in.Calls)
}

// Manifest asks by another gateway what a satellite says of its tools.
func (p *busPeers) Manifest(ctx context.Context, member string, id capabilities.NodeID) (m tools.ToolManifest, err error) {
	var text []byte // as it is, so that its hash is the same
	if err := p.g.Nodes.AskMember(ctx, member, wordManifest, satelliteAsk{ID: id}, &text); err != nil {
		return m, err
	}
	err = json.Unmarshal(text, &m)
	return m, err
}

func (p *busPeers) said(ctx context.Context, body []byte) (any, error) {
	var in satelliteAsk
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, misread(err)
	}
	m, err := p.g.Bus.ManifestHere(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return json.Marshal(m)
}
