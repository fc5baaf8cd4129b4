package rules

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// Packets reads the ledger; gateway/ledger implements it.
type Packets interface {
	Packets(context.Context, ledger.Query) ([]ledger.Packet, error)
}

// Tools finds the tools of recorded calls; gateway/registry implements it.
type Tools interface {
	Get(capabilities.ToolID) (*catalog.Descriptor, bool)
}

// Replay is what a policy would have decided on the recorded calls.
type Replay struct {
	Snapshot string
	Calls    int // that were judged again
	Same     int // decided as they were
	Skipped  int // refused before policy, or by something else than policy
	Looser   int
	Stricter int
	// Already counts those of Looser and Stricter that the policy in force decides so, too.
	Already int
	// Unsure counts those of Calls whose recorded evidence does not say enough.
	Unsure  int
	Changes []Change // the newest ones, at most maxChanges
	Through uint64   // the last packet that was read
}

// Change is one call that would be decided otherwise.
type Change struct {
	Call      capabilities.CallID
	At        time.Time
	Tool      capabilities.ToolID
	Principal capabilities.PrincipalID
	Node      capabilities.NodeID
	Was       policy.Effect
	Would     policy.Effect
	Policies  []string
	Reason    string
	Unsure    bool
	Already   bool // the policy in force decides so, too
	went      bool // it went on then
}

const (
	maxChanges = 200
	replayPage = 1000
	maxOpen    = 100_000 // requests whose decision has not come yet
)

// Run judges the recorded calls after a packet again, under engine: as they were
// asked, without the grants that people gave. Calls that would be decided otherwise are judged
// under now as well, the policy in force; nil: they are not. It never changes anything.
func Run(ctx context.Context, engine, now *policy.Engine, tools Tools, packets Packets, after uint64) (Replay, error) {
	r := Replay{Snapshot: engine.SnapshotID(), Changes: []Change{}, Through: after}
	evidence := map[capabilities.CallID]map[string]any{}
	judges := &judges{engine: engine, now: now, tools: tools, would: newMade(engine, packets), is: newMade(now, packets)}
	for {
		page, err := packets.Packets(ctx, ledger.Query{After: r.Through, Limit: replayPage, Kind: "tool.call."})
		if err != nil {
			return r, err
		}
		for i := range page {
			p := &page[i]
			r.Through = p.Seq
			switch p.Kind {
			case ledger.KindCallRequest:
				var body packet.Request
				if len(evidence) < maxOpen && json.Unmarshal(p.Body, &body) == nil {
					evidence[p.Call] = body.Evidence
				}
			case ledger.KindCallDecision:
				args, known := evidence[p.Call]
				delete(evidence, p.Call) // of an escalated call the first decision counts
				if known {
					if err := r.judge(ctx, judges, p, args); err != nil {
						return r, err
					}
				}
			}
		}
		if len(page) < replayPage {
			if len(r.Changes) > maxChanges {
				r.Changes = r.Changes[len(r.Changes)-maxChanges:]
			}
			return r, nil
		}
	}
}

// judges are the policies that recorded calls are judged by, each with the calls that it lets
// through.
type judges struct {
	engine, now *policy.Engine // now may be nil
	tools       Tools
	would, is   *made
}

func (r *Replay) judge(ctx context.Context, j *judges, p *ledger.Packet, evidence map[string]any) error {
	calls, err := j.would.before(ctx, p)
	if err != nil {
		return err
	}
	c, ok := again(j.engine, j.tools, p, evidence, calls)
	if !ok {
		r.Skipped++
		return nil
	}
	j.would.passes(p, c)
	var already Change
	has := false
	if j.is.counts(p.Tool) || j.now != nil && c.Would != c.Was {
		if calls, err = j.is.before(ctx, p); err != nil {
			return err
		}
		if already, has = again(j.now, j.tools, p, evidence, calls); has {
			j.is.passes(p, already)
		}
	}
	r.Calls++
	if c.Unsure {
		r.Unsure++
	}
	switch {
	case c.Would == c.Was:
		r.Same++
		return nil
	case c.Would < c.Was:
		r.Stricter++
	default:
		r.Looser++
	}
	if has && already.Would == c.Would {
		c.Already = true
		r.Already++
	}
	r.Changes = append(r.Changes, c)
	if len(r.Changes) > 2*maxChanges {
		r.Changes = slices.Clone(r.Changes[len(r.Changes)-maxChanges:])
	}
	return nil
}

// again judges a recorded decision once more, under engine, after so many calls. false: policy
// did not decide it, or its tool is not there any more.
func again(engine *policy.Engine, tools Tools, p *ledger.Packet, evidence map[string]any, calls policy.Calls) (Change, bool) {
	var body packet.Decision
	d, ok := tools.Get(p.Tool)
	if !ok || json.Unmarshal(p.Body, &body) != nil {
		return Change{}, false
	}
	was, ok := recordedEffect(&body)
	if !ok {
		return Change{}, false
	}
	args, whole := arguments(d, evidence)
	q := policy.Request{
		Principal: p.Principal, User: policy.IsUser(body.Role), Role: body.Role, Taint: body.Taint, Tool: p.Tool, Lane: p.Lane, Args: args,
		Given: body.Given, Degraded: body.Degraded, Hosts: body.Hosts, Raised: int(body.Raised), Time: p.Time(),
		Calls: calls,
	}
	if d.NodeCapability() != "" {
		q.Node = policy.Node{ID: p.Node, Labels: body.Labels}
		if body.Routing != nil && body.Routing.Node != nil {
			q.Node.Label, q.Node.Platform, q.Node.Trust = body.Routing.Node.Label, body.Routing.Node.Platform, body.Routing.Node.Trust
		}
		if p.Node == "" {
			// It came to no node, so what one gives is not known.
			q.Given, whole = capabilities.ClassT3, false
		}
	}
	if d.Surface != "" { // whoever asks for admin work confirms it
		would := engine.MayDo(q, string(p.Tool))
		return Change{
			Call: p.Call, At: p.Time(), Tool: p.Tool, Principal: p.Principal, Was: was, Would: min(would.Effect, policy.Ask),
			Policies: would.Determining, Reason: would.Reason,
		}, true
	}
	would := engine.Decide(q)
	unsure := !whole && would.Effect != engine.Possible(q).Effect
	return Change{
		Call: p.Call, At: p.Time(), Tool: p.Tool, Principal: p.Principal, Node: p.Node, Was: was, Would: would.Effect,
		Policies: would.Determining, Reason: would.Reason, Unsure: unsure, went: body.Code == "",
	}, true
}

// recordedEffect returns what policy itself had said: what went on with a person's grant was
// asked about, and so was what nobody granted. false: policy did not decide it.
func recordedEffect(d *packet.Decision) (policy.Effect, bool) {
	switch d.Code {
	case "":
		if d.Grant != "" {
			return policy.Ask, true
		}
		return d.Effect, true
	case capabilities.CodeDeniedByPolicy, capabilities.CodeNodeDeniedByPolicy, capabilities.CodeIsolationUnavailable:
		return policy.Deny, true
	case capabilities.CodeOverloaded: // where a rule bounds calls; else nothing determined it
		return policy.Deny, len(d.Policies) > 0
	case capabilities.CodeApprovalPending, capabilities.CodeConsentDenied, capabilities.CodeConsentUnavailable:
		return policy.Ask, true
	}
	// Policy may have left no node, whatever the code of the selection is.
	return policy.Deny, d.Reason == string(capabilities.CodeDeniedByPolicy)
}

// arguments makes arguments of recorded evidence. whole is false where something
// that policy could have seen was not recorded in full.
func arguments(d *catalog.Descriptor, evidence map[string]any) (args []byte, whole bool) {
	root, whole := map[string]any{}, true
	for _, pointer := range d.Evidence.Args {
		path := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
		v, ok := evidence[strings.Join(path, "_")]
		if !ok {
			whole = whole && pointer != "/paths" // lists are not recorded
			continue
		}
		if s, is := v.(string); is && strings.HasSuffix(s, "…") {
			whole = false
		}
		at := root
		for _, step := range path[:len(path)-1] {
			next, ok := at[step].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[step] = next
			}
			at = next
		}
		at[path[len(path)-1]] = v
	}
	args, err := canonical.Marshal(root)
	if err != nil {
		return []byte("{}"), false
	}
	return args, whole
}
