package rules

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// CallReplay is one recorded call, decided again (S4-05). The grants that people gave are left out.
type CallReplay struct {
	Call      capabilities.CallID      `json:"call_id"`
	Tool      capabilities.ToolID      `json:"tool_id"`
	Principal capabilities.PrincipalID `json:"principal"`
	Lane      capabilities.LaneID      `json:"lane"`
	Was       policy.Effect            `json:"was"` // what policy had said
	Rules     []string                 `json:"rules"`
	Now       Verdict                  `json:"now"`
	Then      *Verdict                 `json:"then,omitempty"` // by the policy of that time
	// NoThen says why Then is absent.
	NoThen string `json:"no_then,omitempty"`
}

// Verdict is what one policy says of a recorded call.
type Verdict struct {
	Snapshot string        `json:"snapshot_id"`
	Effect   policy.Effect `json:"effect"`
	Rules    []string      `json:"rules"` // that determine it
	Reason   string        `json:"reason"`
	Differs  bool          `json:"differs"` // from what was recorded
	// Unsure says that the recorded evidence does not tell enough for it.
	Unsure bool `json:"unsure,omitempty"`
}

// Sets loads policies; a Book does.
type Sets interface {
	Load(ctx context.Context, name string) (*policy.Engine, error)
	Past(ctx context.Context, at time.Time, former ...*catalog.Descriptor) (*policy.Engine, error)
}

// Past returns the policy that was in force at a time, for judging again what was judged by it:
// tools that are gone may be in it, and it knows of them what former says. Around an activation it
// is the one that was about to hold. CodeNotFound if it is not kept.
func (b *Book) Past(ctx context.Context, at time.Time, former ...*catalog.Descriptor) (*policy.Engine, error) {
	var snapshot string
	err := b.opts.Store.Read().QueryRowContext(ctx,
		`SELECT snapshot FROM policy_history WHERE at_ms <= $1 ORDER BY at_ms DESC, n DESC LIMIT 1`, at.UnixMilli()).Scan(&snapshot)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, capabilities.Errorf(capabilities.CodeNotFound, "no policy of that time is kept")
	}
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	sources, err := b.sources(ctx, snapshot)
	if err != nil {
		return nil, err
	}
	return b.loader.Load().LoadPast(sources, former...)
}

// ReplayCall decides a recorded call again, under the policy in force and, where that is kept,
// under the one that it was decided by. It changes nothing. A call whose tool is gone is denied
// now, and the policy of then judges it by what was recorded of it. CodeNotFound for a call that is
// not recorded; CodeNotSupported for one that policy did not decide.
func ReplayCall(ctx context.Context, sets Sets, tools Tools, packets Packets, call capabilities.CallID) (CallReplay, error) {
	if err := capabilities.ValidateName("call", string(call), 128); err != nil {
		return CallReplay{}, err
	}
	page, err := packets.Packets(ctx, ledger.Query{Call: call, Kind: "tool.call.", Limit: 100})
	if err != nil {
		return CallReplay{}, err
	}
	var evidence map[string]any
	var decided *ledger.Packet
	for i := range page {
		switch p := &page[i]; {
		case p.Kind == ledger.KindCallRequest:
			var body packet.Request
			if json.Unmarshal(p.Body, &body) == nil {
				evidence = body.Evidence
			}
		case p.Kind == ledger.KindCallDecision && decided == nil: // of an escalated call the first counts
			decided = p
		}
	}
	if decided == nil {
		return CallReplay{}, capabilities.Errorf(capabilities.CodeNotFound, "no decision on a call %s is recorded", call)
	}
	var body packet.Decision
	_ = json.Unmarshal(decided.Body, &body) // again reads it, too, and says no
	var gone []*catalog.Descriptor
	if _, ok := tools.Get(decided.Tool); !ok {
		d := former(decided.Tool, &body)
		gone, tools = append(gone, d), formerTool{d}
	}
	r := CallReplay{Call: call, Tool: decided.Tool, Principal: decided.Principal, Lane: decided.Lane, Rules: notNil(body.Policies)}
	verdict := func(engine *policy.Engine, err error) (*Verdict, error) {
		if err != nil {
			return nil, err
		}
		calls, err := newMade(engine, packets).before(ctx, decided)
		if err != nil {
			return nil, err
		}
		c, ok := again(engine, tools, decided, evidence, calls)
		if !ok {
			return nil, capabilities.Errorf(capabilities.CodeNotSupported, "That call was refused with %s, before policy or by something else.",
				body.Code)
		}
		r.Was = c.Was
		return &Verdict{
			Snapshot: engine.SnapshotID(), Effect: c.Would, Rules: notNil(c.Policies), Reason: c.Reason, Differs: c.Would != c.Was, Unsure: c.Unsure,
		}, nil
	}
	now, err := verdict(sets.Load(ctx, Active))
	if err != nil {
		return CallReplay{}, err
	}
	r.Now = *now
	if len(gone) > 0 { // whatever the policy in force would still permit
		r.Now = Verdict{
			Snapshot: now.Snapshot, Effect: policy.Deny, Rules: []string{}, Reason: "There is no such tool now.", Differs: r.Was != policy.Deny,
		}
	}
	if r.Then, err = verdict(sets.Past(ctx, decided.Time(), gone...)); err != nil {
		r.NoThen = capabilities.AsError(err).PublicMessage()
	} else if len(gone) > 0 && r.Then.Differs { // one policy decides once: the record does not say all
		r.Then.Unsure = true
	}
	return r, nil
}

// former describes a tool that is gone by what was recorded of a call of it: its keys, and whether
// a node carried it out.
func former(tool capabilities.ToolID, body *packet.Decision) *catalog.Descriptor {
	d := &catalog.Descriptor{
		Tool: tool, Provider: tool.Family(), SideEffects: catalog.EffectsExternal, Routing: catalog.Routing{Target: catalog.TargetGateway},
	}
	var e policy.Envelope
	if json.Unmarshal(body.Envelope, &e) == nil {
		c := e.Capabilities
		d.Manifest = catalog.Categories{Network: c.Network, UI: c.UI, Data: c.Data, Privileged: c.Privileged, Execution: c.Execution}
	}
	if body.Routing != nil && body.Routing.Node != nil {
		d.Capability, d.Routing.Target = capabilities.CapabilityID("tyrum"+strings.TrimPrefix(string(tool), "tool")), catalog.TargetNode
	}
	return d
}

// formerTool has one tool, which is gone.
type formerTool struct{ d *catalog.Descriptor }

func (f formerTool) Get(id capabilities.ToolID) (*catalog.Descriptor, bool) {
	return f.d, id == f.d.Tool
}

func notNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
