package rest

import (
	"context"
	"encoding/json"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/rules"
)

// Rules are the policy sets, staged, in force and past; the gateway implements it.
type Rules interface {
	Load(ctx context.Context, name string) (*policy.Engine, error)
	Activate(context.Context, rules.Request) (rules.Version, error)
	History(ctx context.Context, limit int) ([]rules.Version, error)
	Stage(context.Context, rules.Edit) (*policy.Engine, error)
	Drafts(context.Context) ([]rules.Draft, error)
	ReplayCall(ctx context.Context, call capabilities.CallID) (rules.CallReplay, error)
	Replay(ctx context.Context, engine, now *policy.Engine, after uint64) (rules.Replay, error)
}

func (s *Server) policySet(c *visit, _ none) (api.PolicySet, error) {
	engine, err := s.opts.Rules.Load(c.r.Context(), c.r.PathValue("set"))
	if err != nil {
		return api.PolicySet{}, err
	}
	return front.ViewPolicy(engine), nil
}

// policyTools are the tools that a policy is loaded over, so that one is checked elsewhere as it is
// here.
func (s *Server) policyTools(*visit, none) (out api.PolicyTools, err error) {
	for _, d := range s.opts.Tools.Now().Known().All() {
		text, err := json.Marshal(d)
		if err != nil {
			return out, err
		}
		out.Tools = append(out.Tools, text)
	}
	return out, nil
}

func (s *Server) policyHistory(c *visit, _ none) (api.PolicyVersionList, error) {
	limit, err := c.number("limit", 100, 1000)
	if err != nil {
		return api.PolicyVersionList{}, err
	}
	list, err := s.opts.Rules.History(c.r.Context(), int(limit))
	return api.PolicyVersionList{Versions: viewAll(list, front.ViewVersion)}, err
}

func (s *Server) policyDrafts(c *visit, _ none) (api.PolicyDraftList, error) {
	list, err := s.opts.Rules.Drafts(c.r.Context())
	return api.PolicyDraftList{Drafts: viewAll(list, front.ViewDraft)}, err
}

// stagePolicy keeps a changed set for an activation; nothing is in force by it.
func (s *Server) stagePolicy(c *visit, in api.StagePolicy) (api.PolicySet, error) {
	e := rules.Edit{By: c.who.Principal, Base: in.Base, Remove: in.Remove}
	for _, f := range in.Files {
		e.Files = append(e.Files, policy.Source{Name: f.Name, Data: []byte(f.Text)})
	}
	engine, err := s.opts.Rules.Stage(c.r.Context(), e)
	if err != nil {
		return api.PolicySet{}, err
	}
	return front.ViewPolicy(engine), nil
}

// activatePolicy puts a set in force. Like an approval that widens what agents may
// do, it comes from elsewhere while an agent holds this device (fromElsewhere).
func (s *Server) activatePolicy(c *visit, in api.ActivatePolicy) (api.PolicyVersion, error) {
	v, err := s.opts.Rules.Activate(c.r.Context(), rules.Request{
		By: c.who.Principal, Role: string(c.who.Role), Lane: c.who.Lane, To: in.To, From: in.From, Reason: in.Reason,
	})
	return front.ViewVersion(&v), err
}

func (s *Server) replayPolicy(c *visit, in api.ReplayPolicy) (api.PolicyReplay, error) {
	if in.Set == "" {
		in.Set = rules.Staged
	}
	engine, err := s.opts.Rules.Load(c.r.Context(), in.Set)
	if err != nil {
		return api.PolicyReplay{}, err
	}
	if in.Days < 0 || in.Days > 3650 || in.Days > 0 && (in.After > 0 || s.opts.Governance == nil) {
		return api.PolicyReplay{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "days is from 1 to 3650, without after")
	}
	if in.Days > 0 {
		if in.After, err = s.opts.Governance.Since(c.r.Context(), time.Now().AddDate(0, 0, -in.Days)); err != nil {
			return api.PolicyReplay{}, err
		}
	}
	now, err := s.opts.Rules.Load(c.r.Context(), rules.Active)
	if err != nil {
		return api.PolicyReplay{}, err
	}
	if now.SnapshotID() == engine.SnapshotID() {
		now = nil // what it decides is what is asked about
	}
	found, err := s.opts.Rules.Replay(c.r.Context(), engine, now, in.After)
	return front.ViewReplay(&found), err
}

// viewAll makes the values of the API of a room's; never nil.
func viewAll[A, B any](list []A, view func(*A) B) []B {
	out := make([]B, 0, len(list))
	for i := range list {
		out = append(out, view(&list[i]))
	}
	return out
}
