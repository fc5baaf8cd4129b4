package front

import (
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// The values of the gateway's rooms, as they stand on the wire.

// ViewEnvelope is the part of an envelope that surfaces show; nil for none.
func ViewEnvelope(s *policy.Summary) *api.Envelope {
	if s == nil {
		return nil
	}
	return &api.Envelope{
		Hash: s.Hash, ToolSlug: s.ToolSlug, Action: s.Action, Capabilities: api.Keys(s.Capabilities), Profile: s.Profile, Risk: string(s.Risk),
		Isolation: s.Isolation, Snapshot: s.Snapshot, Grants: s.Grants,
	}
}

// ViewApproval is a question without what only those are told who may answer.
func ViewApproval(a *consent.Approval) api.Approval {
	v := api.Approval{
		ID: a.ID, State: string(a.State), Principal: a.Principal, Role: a.Role, Tool: a.Tool, Title: a.Title, Node: a.Node, NodeLabel: a.NodeLabel, Lane: a.Lane,
		Arguments: a.Arguments, Hosts: a.Hosts, Paths: a.Paths, Risk: a.Risk, Keys: a.Keys, Escalated: a.Escalated, Envelope: ViewEnvelope(a.Envelope), Why: a.Why,
		Longest: string(a.Longest), Hands: a.Hands, Policies: a.Policies, Snapshot: a.Snapshot, User: a.User, Task: a.Task, Created: a.Created, Expires: a.Expires,
		Waiting: a.Waiting, MayReturn: a.MayReturn, By: a.By, Reason: a.Reason, Closed: string(a.Closed), Answered: a.Answered,
	}
	if a.Choices != nil {
		v.Choices = make([]api.Choice, 0, len(a.Choices))
	}
	for _, c := range a.Choices {
		v.Choices = append(v.Choices, api.Choice{Kind: string(c.Kind), Seconds: c.Seconds, Most: c.Most})
	}
	for _, o := range a.Overrides {
		v.Overrides = append(v.Overrides, api.Override(o))
	}
	return v
}

// ViewTold is what those who may answer are told.
func ViewTold(t *consent.Told) *api.Told {
	v := &api.Told{Does: t.Does, Purpose: t.Purpose, Into: t.Into, TooLong: t.TooLong}
	if w := t.Where; w != nil {
		v.Where = &api.Where{App: w.App, Window: w.Window, Field: w.Field, Role: w.Role, Address: w.Address, Password: w.Password, Terminal: w.Terminal}
	}
	for _, f := range t.Fields {
		v.Fields = append(v.Fields, api.Field(f))
	}
	if f := t.Frame; f != nil {
		v.Frame = &api.Frame{ID: f.ID, Available: f.Mine}
		for _, s := range f.Spots {
			v.Frame.Spots = append(v.Frame.Spots, api.Spot(s))
		}
	}
	return v
}

// ViewToken is a token without its secret.
func ViewToken(t *principal.Token) api.Token {
	return api.Token{
		ID: t.ID, Principal: t.Principal, Role: t.Role.String(), Lane: t.Lane, CreatedAt: t.CreatedAt, CreatedBy: t.CreatedBy, ExpiresAt: t.ExpiresAt, RevokedAt: t.RevokedAt,
		Parent: t.Parent, Opened: t.Opened,
	}
}

// ViewTokens are several.
func ViewTokens(all []principal.Token) []api.Token {
	list := make([]api.Token, 0, len(all))
	for i := range all {
		list = append(list, ViewToken(&all[i]))
	}
	return list
}

// ViewGrant is a grant.
func ViewGrant(g *consent.Grant) api.Grant {
	return api.Grant{
		ID: g.ID, Kind: string(g.Kind), Principal: g.Principal, Tools: g.Tools, Node: g.Node, Lane: g.Lane, Snapshot: g.Snapshot, Manifest: g.Manifest, Scope: api.Scope(g.Scope),
		MaxUses: g.MaxUses, Used: g.Used, ArgsDigest: g.ArgsDigest, Nonce: g.Nonce, Via: g.Via, Known: g.Known, Approver: g.Approver, Reason: g.Reason, Created: g.Created,
		Expires: g.Expires,
	}
}
