package worker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/handrail-dev/handrail/agent/worker/gate"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/turn"
)

// Record is the gateway's record of turns: this worker's claims, beside the calls that the gateway
// saw itself.
type Record interface {
	// ClaimTurn records a turn that has ended.
	ClaimTurn(ctx context.Context, c turn.Claim) error
	// TellTurn says where a turn is that runs, and returns how soon the next word is due; 0: any time.
	// CodeInvalidRequest: the gateway is one of before, which knows no turns that run.
	TellTurn(ctx context.Context, c turn.Claim) (lease time.Duration, err error)
}

// newTurnID returns an ID for a turn that is recorded; "" where none is.
func (e *Engine) newTurnID() string {
	if e.opts.Record == nil {
		return ""
	}
	var id [8]byte
	rand.Read(id[:]) // never fails
	return "turn_" + hex.EncodeToString(id[:])
}

// said is the source of what the turn keeps: who said it, in which turn of which conversation.
func (e *Engine) said(proposed bool) string {
	who := "the person"
	if proposed {
		who += ", as the answer proposed"
	}
	if e.turnID != "" {
		who += ", in " + e.turnID
	}
	return who + ", in session " + e.opts.Session
}

// maxRecording bounds how long a turn waits for its record.
const maxRecording = 10 * time.Second

// record sends what the stages of a turn did, without a word of what was said (S2-42, S2-43).
func (e *Engine) record(ctx context.Context, began time.Time) error {
	if e.opts.Record == nil {
		return nil
	}
	e.hush()
	// A turn that was cancelled is recorded, too.
	ctx, over := context.WithTimeout(context.WithoutCancel(ctx), maxRecording)
	defer over()
	c := e.claim(began)
	c.Ended = e.opts.Now()
	return e.opts.Record.ClaimTurn(ctx, c)
}

func (e *Engine) claim(began time.Time) turn.Claim {
	return turn.Claim{Turn: e.turnID, Session: e.opts.Session, Started: began, Stages: e.stages[:len(e.stages):len(e.stages)]}
}

// announces has the gateway know the turn from now on.
func (e *Engine) announces(ctx context.Context, began time.Time) {
	if e.opts.Record == nil || e.deaf {
		return
	}
	e.began, e.telling = began, tells(ctx, e.opts.Record)
}

// announce says where the turn is, once it is known.
func (e *Engine) announce() {
	if e.telling == nil || len(e.stages) > turn.MaxStages {
		return
	}
	c := e.claim(e.began)
	c.State = turn.Running
	e.telling.say(c)
}

// hush ends what announces began.
func (e *Engine) hush() {
	if e.telling == nil {
		return
	}
	e.deaf = !e.telling.end()
	e.telling = nil
}

// stageOf is what may be recorded of an event.
func stageOf(e Event) turn.Stage {
	s := turn.Stage{Stage: turn.Name(e.Stage), At: e.At}
	switch b := e.Body.(type) {
	case Routed:
		s.Router = &turn.Routed{Intent: string(b.Intent), Confidence: b.Confidence, By: b.By, Asked: b.Ask != ""}
	case Decided:
		s.Policy = &turn.Decided{Allowed: b.Allowed, Offered: b.Offered, Required: namesOf(b.Required), Remembered: b.Remembered}
	case Checked:
		s.Permission = &turn.Checked{
			Tool: bounded(b.Tool), Capability: string(b.Capability), By: capabilities.Clip(capabilities.Escape(b.By), 100),
		}
	case Called:
		s.Call = &turn.Called{Tool: bounded(b.Tool), CallID: b.Call, Status: b.Status, Code: b.Code, DurationMS: b.DurationMS}
	case Responded:
		s.Response = &turn.Responded{RoundTrips: b.RoundTrips, Tokens: b.Tokens, Stopped: b.Stopped}
	case []Noted:
		s.Memory = make([]turn.Noted, 0, len(b))
		for _, n := range b[:min(len(b), turn.MaxTools)] {
			s.Memory = append(s.Memory, turn.Noted{Status: n.Status, Fact: n.Fact})
		}
	case Cleaned:
		s.Cleanup = &turn.Cleaned{Revoked: b.PermissionsRevoked}
	case Pipeline:
		p := b.Pipeline
		sum := turn.Summarised{
			Intent: string(p.Router.Intent), Confidence: p.Router.Confidence, Allowed: p.Policy.Allowed, Required: namesOf(p.Policy.Permissions),
			Calls: []capabilities.CallID{}, RoundTrips: p.Executor.RoundTrips, MemoryWrites: p.PostHooks.MemoryWrites,
			Revoked: p.PostHooks.PermissionsRevoked,
		}
		for _, c := range p.Executor.ToolCalls {
			if c.Call != "" {
				sum.Calls = append(sum.Calls, c.Call)
			}
		}
		s.Pipeline = &sum
	}
	return s
}

// bounded is a tool's name as it may be recorded: a model can name anything.
func bounded(tool capabilities.ToolID) capabilities.ToolID {
	return capabilities.ToolID(capabilities.Clip(capabilities.Escape(string(tool)), 100))
}

func namesOf(list []gate.Capability) []string {
	names := make([]string, 0, len(list))
	for _, c := range list {
		names = append(names, string(c))
	}
	return names
}
