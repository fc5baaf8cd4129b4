package front

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/form"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/lane"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/push"
	"github.com/handrail-dev/handrail/gateway/secret"
	"github.com/handrail-dev/handrail/gateway/stop"
	"github.com/handrail-dev/handrail/gateway/task"
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

// RunnersOf returns what the body of a call's end says of the programs that carried it out.
func RunnersOf(body []byte) []api.Ran {
	var end struct {
		Runners []api.Ran `json:"runners"`
	}
	if !bytes.Contains(body, []byte(`"runners":[`)) || json.Unmarshal(body, &end) != nil {
		return nil
	}
	return end.Runners
}

// ViewApproval is a question without what only those are told who may answer.
func ViewApproval(a *consent.Approval) api.Approval {
	v := api.Approval{
		ID: a.ID, State: string(a.State), Principal: a.Principal, Role: a.Role, Tool: a.Tool, Title: a.Title, Node: a.Node,
		NodeLabel: a.NodeLabel, Lane: a.Lane, Arguments: a.Arguments, Hosts: a.Hosts, Paths: a.Paths, Through: a.Through, Risk: a.Risk,
		Keys: a.Keys, Escalated: a.Escalated, Envelope: ViewEnvelope(a.Envelope), Why: a.Why, Longest: string(a.Longest), Hands: a.Hands,
		Policies: a.Policies, Snapshot: a.Snapshot, User: a.User, Wants: a.Wants, Task: a.Task, Created: a.Created, Expires: a.Expires,
		Waiting: a.Waiting, MayReturn: a.MayReturn, By: a.By, Reason: a.Reason, Closed: string(a.Closed), Answered: a.Answered,
	}
	v.Surface = surfaceOf(a)
	if a.Choices != nil {
		v.Choices = make([]api.Choice, 0, len(a.Choices))
	}
	for _, c := range a.Choices {
		v.Choices = append(v.Choices, api.Choice{Kind: string(c.Kind), Seconds: c.Seconds, Most: c.Most})
	}
	if a.Form != nil {
		v.Form = viewForm(a.Provider, a.Form)
	}
	for _, o := range a.Overrides {
		v.Overrides = append(v.Overrides, api.Override(o))
	}
	return v
}

// surfaceOf is what to show of a question, by the keys that a yes gives.
func surfaceOf(a *consent.Approval) api.Surface {
	if a.Wants != "" { // the call runs already: the question is about the host alone
		return Surface(a.Keys, append(slices.Clone(a.Keys), a.Escalated...))
	}
	if a.Envelope == nil {
		return Surface(a.Keys, a.Keys)
	}
	return Surface(a.Envelope.Capabilities.Keys(), append(slices.Clone(a.Envelope.Grants), a.Escalated...))
}

func viewForm(provider string, f *form.Form) *api.Form {
	v := &api.Form{Provider: provider, Message: f.Message, Fields: make([]api.FormField, 0, len(f.Fields))}
	for _, one := range f.Fields {
		field := api.FormField{
			Name: one.Name, Title: one.Title, Note: one.Note, Kind: string(one.Kind), Format: one.Format, Required: one.Required, Least: one.Least,
			Most: one.Most, Default: one.Default,
		}
		for _, o := range one.Choices {
			field.Choices = append(field.Choices, api.FormChoice(o))
		}
		v.Fields = append(v.Fields, field)
	}
	return v
}

// ViewTold is what those who may answer are told.
func ViewTold(t *consent.Told) *api.Told {
	v := &api.Told{Does: t.Does, Purpose: t.Purpose, Into: t.Into, TooLong: t.TooLong}
	if w := t.Where; w != nil {
		v.Where = &api.Where{
			App: w.App, Window: w.Window, Field: w.Field, Role: w.Role, Address: w.Address, Password: w.Password, Terminal: w.Terminal,
		}
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
		ID: t.ID, Principal: t.Principal, Role: t.Role.String(), Lane: t.Lane, CreatedAt: t.CreatedAt, CreatedBy: t.CreatedBy,
		ExpiresAt: t.ExpiresAt, RevokedAt: t.RevokedAt, Parent: t.Parent, Opened: t.Opened, Face: string(t.Face),
		Client: t.Client, Audience: t.Audience, Tools: t.Tools,
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

// ViewUser is a person who signs in.
func ViewUser(u *principal.User) api.User {
	return api.User{
		Principal: u.Principal, Role: u.Role.String(), TokenID: u.TokenID, Password: u.Password, Passkeys: ViewPasskeys(u.Passkeys),
		CreatedAt: u.CreatedAt, Issuer: u.Issuer,
	}
}

// ViewPasskey is a key without what checks its answers.
func ViewPasskey(k *principal.Passkey) api.Passkey {
	return api.Passkey{ID: k.ID, Name: k.Name, Place: k.Place, Sync: k.Sync, CreatedAt: k.CreatedAt, UsedAt: k.UsedAt}
}

// ViewPasskeys are several.
func ViewPasskeys(all []principal.Passkey) []api.Passkey {
	list := make([]api.Passkey, 0, len(all))
	for i := range all {
		list = append(list, ViewPasskey(&all[i]))
	}
	return list
}

// ViewLane is a lane.
func ViewLane(l *lane.Lane) api.Lane {
	return api.Lane{Lane: l.Lane, Principal: l.Principal, Nodes: l.Nodes, CreatedAt: l.CreatedAt, LastUsed: l.LastUsed}
}

// ViewStop is the stop switch.
func ViewStop(s stop.State) api.Stop {
	return api.Stop{Epoch: s.Epoch, Stopped: s.Stopped, By: s.By, Reason: s.Reason, Since: s.Since}
}

// ViewSecret is a secret without its value.
func ViewSecret(e *secret.Entry) api.Secret {
	v := api.Secret{
		Name: e.Name, Source: e.Source, Version: e.Version, Changed: e.Changed, References: make([]api.Reference, 0, len(e.References)),
	}
	for i := range e.References {
		v.References = append(v.References, ViewReference(&e.References[i]))
	}
	return v
}

// ViewReference is by what an agent names a secret.
func ViewReference(r *secret.Reference) api.Reference {
	return api.Reference{ID: r.ID, Alias: r.Alias, Tools: r.Tools, Display: r.Display, Owner: r.Owner}
}

// ViewTool is a tool as the registry defines it (S4-33), with all its bounds; asks says that a
// person is asked about the reader's calls of it.
func ViewTool(d *catalog.Descriptor, risk policy.Risk, asks bool) api.Tool {
	v := api.Tool{
		ID: d.Tool, WireName: d.Tool.WireName(), Title: d.Title, Description: d.Description, Version: d.Version, Tags: d.Tags,
		Provider:    d.Provider,
		SideEffects: string(d.SideEffects), Risk: string(risk), ModelFacing: d.ModelFacing, Input: d.FullInput(asks), Result: d.Result,
		Annotations: api.Annotations(d.Annotations), Manifest: d.Manifest.Keys(), Defaults: api.Defaults(d.Defaults), Consent: string(d.Consent),
		Limits: api.Limits(d.Limits), Uses: []capabilities.ToolID{},
	}
	if d.Composes() {
		for _, id := range d.Steps {
			v.Uses = append(v.Uses, capabilities.ToolID(id))
		}
	}
	if d.Upload != nil {
		v.Upload = &api.Upload{Name: d.Upload.Name, Text: d.Upload.Text}
	}
	for _, e := range d.Examples {
		v.Examples = append(v.Examples, api.Example(e))
	}
	return v
}

// ViewTask is a call that is kept until a person answers.
func ViewTask(t *task.Task) api.Task {
	state := t.State
	if state.Over() { // whether its caller was told is nobody else's matter
		state = task.Ended
	}
	return api.Task{
		ID: t.ID, State: string(state), Principal: t.Principal, Role: t.Role, Lane: t.Lane, Tool: t.Tool, Manifest: t.Manifest,
		RequestID: t.RequestID, Surface: t.Surface, Approval: t.Approval, Call: t.Call, Code: t.Code, Created: t.Created, Expires: t.Expires,
	}
}

// ViewPacket is an entry of the ledger.
func ViewPacket(p *ledger.Packet) api.Packet {
	return api.Packet{
		Seq: p.Seq, TimeUS: p.TimeUS, Kind: string(p.Kind), Call: p.Call, Tool: p.Tool, Principal: p.Principal, Lane: p.Lane, Node: p.Node,
		Body: p.Body, Prev: p.Prev.String(), Hash: p.Hash.String(),
	}
}

// ViewSubscription is a browser that is told when something waits.
func ViewSubscription(s *push.Subscription) api.Subscription {
	return api.Subscription{ID: s.ID, Principal: s.Principal, Name: s.Name, Service: s.Service, CreatedAt: s.CreatedAt}
}

// ViewGrant is a grant.
func ViewGrant(g *consent.Grant) api.Grant {
	return api.Grant{
		ID: g.ID, Kind: string(g.Kind), Principal: g.Principal, Tools: g.Tools, Node: g.Node, Lane: g.Lane, Snapshot: g.Snapshot,
		Manifest: g.Manifest, Scope: api.Scope(g.Scope), MaxUses: g.MaxUses, Used: g.Used, ArgsDigest: g.ArgsDigest, Nonce: g.Nonce, Via: g.Via,
		Known: g.Known, Approver: g.Approver, Reason: g.Reason, Created: g.Created, Expires: g.Expires,
	}
}
