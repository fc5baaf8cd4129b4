package admin

import (
	"crypto/sha256"
	"encoding/json"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/opencalls"
)

// life is how long an envelope of admin work is good: it is carried out at once.
const life = time.Minute

// Asked is a piece of admin work that somebody asks for.
type Asked struct {
	Tool    capabilities.ToolID // its descriptor
	By      capabilities.PrincipalID
	Role    string
	Lane    capabilities.LaneID
	Surface string
	Via     consent.Via    // default: asked
	Touches map[string]any // what it touches, as the descriptor lets it be recorded
}

// Call is admin work that was decided on; only Decide makes one.
type Call struct {
	Asked
	ID       capabilities.CallID
	Envelope *policy.Sealed
	Decision policy.Decision
	Grant    *consent.Grant // nil: it was denied
	began    time.Time
	digest   []byte // of what was asked
}

// Decide makes the envelope of admin work, and has a policy judge it.
func Decide(engine *policy.Engine, a Asked, now time.Time) (*Call, error) {
	profile := engine.Profile(a.Tool)
	if profile == nil {
		return nil, capabilities.Errorf(capabilities.CodeInternal, "%s has no descriptor", a.Tool)
	}
	if a.Lane == "" {
		a.Lane = capabilities.LaneID(a.By)
	}
	if a.Via == "" {
		a.Via = consent.ViaAsked
	}
	args, err := canonical.Marshal(map[string]any{"tool": a.Tool, "touches": a.Touches})
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(args) // it holds nothing that the packets do not say
	c := &Call{Asked: a, ID: opencalls.NewID(now), began: now, digest: digest[:]}
	c.Envelope, err = policy.BuildEnvelope(policy.EnvelopeInput{
		Profile: profile, Principal: a.By, Role: a.Role, Lane: a.Lane, ArgsDigest: digest[:], Policy: engine.SnapshotID(), Created: now,
		Expires: now.Add(life),
	})
	if err != nil {
		return nil, err
	}
	c.Decision = engine.MayDo(policy.Request{Principal: a.By, User: policy.IsUser(a.Role), Role: a.Role, Lane: a.Lane, Time: now},
		string(a.Tool))
	if c.Decision.Effect == policy.Allow {
		c.Grant = consent.Word(a.By, a.Via, a.Tool, a.Lane, engine.SnapshotID(), profile.ManifestHash, digest[:], now)
	}
	return c, nil
}

// Taken is the work of a start, which asks no policy: whoever starts the gateway over its data
// directory holds all that it keeps. The grant says so.
func Taken(engine *policy.Engine, a Asked, now time.Time) (*Call, error) {
	a.Via = consent.ViaStart
	c, err := Decide(engine, a, now)
	if err != nil {
		return nil, err
	}
	c.Decision.Effect, c.Decision.Code, c.Decision.Reason, c.Decision.Determining = policy.Allow,
		"", "The person who starts the gateway takes it.", []string{}
	if c.Grant == nil {
		c.Grant = consent.Word(a.By, a.Via, a.Tool, c.Lane, engine.SnapshotID(), engine.Profile(a.Tool).ManifestHash, c.digest, now)
	}
	return c, nil
}

// Begun is recorded before it is carried out, or instead of that: the request, the word of its
// sender and the decision.
func (c *Call) Begun() []ledger.Draft {
	e, d := c.Envelope, &c.Decision
	decision := &packet.Decision{
		Effect: d.Effect, Policies: d.Determining, LogOnly: d.LogOnly, Errors: d.Errors, Snapshot: e.Snapshot, EnvelopeHash: e.HashHex(),
		Envelope: e.Bytes, Role: c.Role,
	}
	if d.Code != "" {
		decision.Code, decision.Reason = d.Code, d.Reason
	}
	drafts := []ledger.Draft{c.draft(ledger.KindCallRequest, &packet.Request{Digest: e.ArgsDigest, Evidence: c.Touches, Surface: c.Surface})}
	if c.Grant != nil {
		decision.Grant = c.Grant.ID
		drafts = append(drafts, ledger.Draft{Kind: "gateway.grant.made", Principal: c.Grant.Approver, Body: c.Grant})
	}
	return append(drafts, c.draft(ledger.KindCallDecision, decision))
}

// Intent is recorded with it: what it was granted, from which the numbers of governance say who
// used privileged keys.
func (c *Call) Intent() ledger.Draft {
	return c.draft(ledger.KindCallDispatch, &packet.Dispatch{
		Target: "gateway", Grants: append([]string{policy.GrantPrefix + c.Grant.ID}, c.Envelope.Grants...), Isolation: c.Envelope.Isolation,
		DeadlineMS: life.Milliseconds(),
	})
}

// Refusal is the end of one that policy denied.
func (c *Call) Refusal() ledger.Draft {
	return c.draft(ledger.KindCallFailed, &packet.End{Status: capabilities.StatusDenied, Code: c.Decision.Code, Message: c.Decision.Reason})
}

// Ended is its end, with the error that it ended with.
func (c *Call) Ended(err error, now time.Time) ledger.Draft {
	took := float64(now.Sub(c.began).Microseconds()) / 1000
	if err == nil {
		return c.draft(ledger.KindCallResult, &packet.End{Status: capabilities.StatusOK, Effect: capabilities.EffectConfirmed, DurationMS: took})
	}
	code := capabilities.CodeOf(err)
	return c.draft(ledger.KindCallFailed, &packet.End{Status: code.Info().Status, Code: code, DurationMS: took})
}

func (c *Call) draft(kind ledger.Kind, body packet.Body) ledger.Draft {
	return ledger.Draft{Kind: kind, Call: c.ID, Tool: c.Tool, Principal: c.By, Lane: c.Lane, Body: body}
}

// Bounds of what is recorded of a request.
const (
	maxText  = 256 // bytes of each text
	maxTexts = 64  // of a list
)

// Touches returns of the fields of a request what the descriptor lets be recorded.
func Touches(d *catalog.Descriptor, fields map[string]json.RawMessage) map[string]any {
	touches := map[string]any{}
	for _, pointer := range d.Evidence.Args {
		name := pointer[1:]
		var v any
		if json.Unmarshal(fields[name], &v) != nil {
			continue
		}
		switch v := v.(type) {
		case string:
			if v != "" {
				touches[name] = clipped(v)
			}
		case bool, float64:
			touches[name] = v
		case []any:
			list := []any{}
			for _, one := range v[:min(len(v), maxTexts)] {
				if text, ok := one.(string); ok {
					list = append(list, clipped(text))
				}
			}
			touches[name] = list
		}
	}
	return touches
}

func clipped(s string) string { return capabilities.Clip(capabilities.Escape(s), maxText) }
