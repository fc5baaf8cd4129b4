package provider

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/store"
)

// The tools by which a node is told what it hosts.
const (
	toolHost  capabilities.ToolID = "tool.provider.host"
	toolOffer capabilities.ToolID = "tool.provider.offer"
	toolDrop  capabilities.ToolID = "tool.provider.drop"
)

// Kinds of packets beside those of the calls.
const (
	kindAdded    = "gateway.provider.added"
	kindChanged  = "gateway.provider.changed"
	kindApproved = "gateway.provider.approved"
	kindRemoved  = "gateway.provider.removed"
)

const maxProviders = 200

// Add has a node host a new provider. Nothing of it can be called yet: its tools are drafts.
// CodeConflict if the name is taken, CodeInvalidRequest for a bad record, and the codes of the
// call to the node.
func (b *Book) Add(ctx context.Context, who dispatch.Caller, p tools.Provider, host capabilities.NodeID) (Provider, error) {
	if err := p.Validate(); err != nil {
		return Provider{}, err
	}
	if !p.Kind.Hosted() {
		return Provider{}, capabilities.Errorf(capabilities.CodeNotSupported, "providers of the kind %s are not hosted by a node", p.Kind)
	}
	b.changing.Lock()
	defer b.changing.Unlock()
	if _, err := b.Get(p.Name); err == nil {
		return Provider{}, capabilities.Errorf(capabilities.CodeConflict, "there is a provider %s already", p.Name).WithHint("handrail provider remove " + p.Name + " takes it away.")
	}
	switch like := lookAlike(capabilities.ToolID("tool."+p.Name+".x"), b.known()); {
	case len(b.List()) >= maxProviders:
		return Provider{}, capabilities.Errorf(capabilities.CodeConflict, "a gateway has at most %d providers", maxProviders)
	case like != "":
		return Provider{}, capabilities.Errorf(capabilities.CodeConflict, "the name %s could be taken for %s", p.Name, like.Family()).WithHint("Give it a name that does not look like another.")
	}
	added := Provider{Provider: p, Host: host, By: who.Principal, Created: b.opts.Now().UTC()}
	if err := b.ask(ctx, who, &added); err != nil {
		return Provider{}, err
	}
	added.describe(func(string) Tool { return Tool{State: Draft} })
	return added, b.keep(ctx, who.Principal, kindAdded, &added)
}

// known are the tools that a new name may not look like.
func (b *Book) known() []capabilities.ToolID {
	var ids []capabilities.ToolID
	for _, d := range b.opts.Registry.All() {
		ids = append(ids, d.Tool)
	}
	for _, p := range b.List() {
		ids = append(ids, capabilities.ToolID("tool."+p.Name+".x"))
	}
	return ids
}

// Check asks the host what a provider offers now. Tools that changed go into review and are
// callable no more; those that are gone are retired.
func (b *Book) Check(ctx context.Context, who dispatch.Caller, name string) (Provider, error) {
	b.changing.Lock()
	defer b.changing.Unlock()
	p, err := b.Get(name)
	if err != nil {
		return Provider{}, err
	}
	before := p
	if err := b.ask(ctx, who, &p); err != nil {
		return before, err
	}
	p.describe(func(upstream string) Tool {
		for _, t := range before.Tools {
			if t.Upstream == upstream {
				return t
			}
		}
		return Tool{State: Draft}
	})
	for i := range p.Tools {
		if t := &p.Tools[i]; t.Changed() && t.State.Callable() {
			t.State = Review
		}
	}
	if p.Hash == before.Hash {
		return p, b.keep(ctx, who.Principal, "", &p)
	}
	if err := b.keep(ctx, who.Principal, kindChanged, &p); err != nil {
		return before, err
	}
	return p, b.enforce(ctx, who, &p)
}

// ask has the host take the provider up, and takes over what it offers.
func (b *Book) ask(ctx context.Context, who dispatch.Caller, p *Provider) error {
	record := p.Provider
	manifest := string(record.Manifest)
	record.Manifest = nil
	args := map[string]any{"provider": p.Name, "record": record}
	if manifest != "" {
		args["manifest"] = manifest
	}
	out, err := b.call(ctx, who, toolHost, p.Host, args)
	if err != nil {
		return err
	}
	var said struct {
		Manifest string `json:"manifest"`
	}
	if err := json.Unmarshal(out, &said); err != nil {
		return capabilities.AsError(err)
	}
	p.Manifest = tools.ToolManifest{}
	if err := json.Unmarshal([]byte(said.Manifest), &p.Manifest); err != nil {
		return capabilities.Wrap(capabilities.CodeExecutionFailed, err, "The node's manifest cannot be read.")
	}
	p.Checked = b.opts.Now().UTC()
	return nil
}

// call makes one call of managing, which the person who wants it confirms by asking for it.
func (b *Book) call(ctx context.Context, who dispatch.Caller, tool capabilities.ToolID, node capabilities.NodeID, args map[string]any) (json.RawMessage, error) {
	plain, err := canonical.Marshal(args)
	if err != nil {
		return nil, capabilities.AsError(err)
	}
	if err := b.consent.Confirmed(ctx, who.Principal, tool, node, who.Lane, plain); err != nil {
		return nil, err
	}
	args["node_id"] = node
	full, err := canonical.Marshal(args)
	if err != nil {
		return nil, capabilities.AsError(err)
	}
	r := b.calls.Call(ctx, dispatch.Request{Caller: who, Tool: tool, Args: full, Surface: "provider", Inside: true})
	if r.Status != capabilities.StatusOK {
		return nil, &capabilities.Error{Code: r.Code, Message: r.Message, Hint: r.Hint, Action: r.Action, Details: r.Details}
	}
	return r.Output, nil
}

// Choice is what somebody decides about a tool.
type Choice struct {
	State  State  // Active if empty
	Effect string // the proposal if empty
	Canary []capabilities.PrincipalID
}

// Approve has tools of a provider called from now on, as choices say for those that are named
// by their ID, and as proposed for all others that are drafts or in review. hash is the
// manifest that the person looked at: CodeConflict if there is another by now.
func (b *Book) Approve(ctx context.Context, who dispatch.Caller, name, hash string, choices map[capabilities.ToolID]Choice) (Provider, error) {
	b.changing.Lock()
	defer b.changing.Unlock()
	p, err := b.Get(name)
	if err != nil {
		return Provider{}, err
	}
	if p.Hash != hash {
		return p, capabilities.Errorf(capabilities.CodeConflict, "the provider says other things of its tools than you looked at").WithHint("handrail provider show " + name)
	}
	p.Tools = slices.Clone(p.Tools)
	named := 0
	for i := range p.Tools {
		t := &p.Tools[i]
		c, ok := choices[t.Described.Tool]
		if ok {
			named++
		} else if t.State != Draft && t.State != Review {
			continue
		}
		if err := t.choose(c); err != nil {
			return p, err
		}
	}
	if named < len(choices) {
		return p, capabilities.Errorf(capabilities.CodeUnknownTool, "the provider %s has not all of the tools that are named", name)
	}
	if err := b.keep(ctx, who.Principal, kindApproved, &p); err != nil {
		return p, err
	}
	return p, b.enforce(ctx, who, &p)
}

// choose takes a choice over; what the provider says of the tool now is what is approved.
func (t *Tool) choose(c Choice) error {
	if c.State == "" {
		c.State = Active
	}
	if c.Effect == "" {
		c.Effect = t.Proposal()
	}
	switch {
	case !slices.Contains([]string{EffectAllow, EffectAsk, EffectDeny}, c.Effect):
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "effect: allow, ask or deny")
	case !slices.Contains(States(), c.State):
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "%.32q is no state of a tool", c.State)
	case (c.State == Canary) != (len(c.Canary) > 0):
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "a canary names the principals that may call it")
	}
	if err := t.State.become(c.State); err != nil {
		return err
	}
	t.State, t.Effect, t.Canary = c.State, c.Effect, c.Canary
	if c.State.Callable() {
		t.Approved = t.Hash
	}
	return nil
}

// enforce makes what was decided true everywhere: the tools are registered, policy lets agents
// call them, the node offers them. Each part can be done again.
func (b *Book) enforce(ctx context.Context, who dispatch.Caller, p *Provider) error {
	if err := b.rules.Put(ctx, who, RuleFile(p.Name), "", "the tools of the provider "+p.Name+" change"); err != nil {
		return err
	}
	if err := b.register(p); err != nil {
		return err
	}
	approved := map[string]any{}
	for _, t := range p.Tools {
		if t.Callable() {
			approved[t.Upstream] = t.Approved
		}
	}
	if len(approved) > 0 {
		if err := b.opts.Allow(ctx, who.Principal, p.Host, "tyrum."+p.Name+".*"); err != nil {
			return err
		}
	}
	if _, err := b.call(ctx, who, toolOffer, p.Host, map[string]any{"provider": p.Name, "approved": approved}); err != nil {
		return err
	}
	if text := p.Rules(); text != "" {
		return b.rules.Put(ctx, who, RuleFile(p.Name), text, "approved the provider "+p.Name)
	}
	return nil
}

// Remove ends a provider: its tools are gone at once, whether its host can be told or not.
func (b *Book) Remove(ctx context.Context, who dispatch.Caller, name string) error {
	b.changing.Lock()
	defer b.changing.Unlock()
	p, err := b.Get(name)
	if err != nil {
		return err
	}
	if err := b.rules.Put(ctx, who, RuleFile(name), "", "removed the provider "+name); err != nil {
		return err
	}
	if err := b.opts.Registry.Hosted(name, nil); err != nil {
		return err
	}
	err = b.opts.Store.Write(ctx, func(tx *store.Tx) error {
		for _, q := range []string{`DELETE FROM provider WHERE name = $1`, `DELETE FROM provider_tool WHERE provider = $1`} {
			if _, err := tx.Exec(q, name); err != nil {
				return err
			}
		}
		return b.opts.Record(tx, kindRemoved, who.Principal, map[string]any{"provider": name, "host": p.Host})
	})
	if err != nil {
		return err
	}
	b.mu.Lock()
	delete(b.all, name)
	b.mu.Unlock()
	_, err = b.call(ctx, who, toolDrop, p.Host, map[string]any{"provider": name})
	return err
}

// keep makes a provider durable, with its packet, and has everybody see it. kind "": nothing
// happened that the ledger has to know.
func (b *Book) keep(ctx context.Context, by capabilities.PrincipalID, kind string, p *Provider) error {
	record, err := json.Marshal(p.Provider)
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(p.Manifest)
	if err != nil {
		return err
	}
	err = b.opts.Store.Write(ctx, func(tx *store.Tx) error {
		if _, err := tx.Exec(`INSERT INTO manifest (hash, body, at) VALUES ($1, $2, $3) ON CONFLICT (hash) DO NOTHING`, p.Hash, string(manifest), p.Checked.UnixMilli()); err != nil {
			return err
		}
		_, err := tx.Exec(`INSERT INTO provider (name, host, record, manifest, created_by, created_at, checked_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
			ON CONFLICT (name) DO UPDATE SET host = excluded.host, record = excluded.record, manifest = excluded.manifest, checked_at = excluded.checked_at`,
			p.Name, string(p.Host), string(record), p.Hash, string(p.By), p.Created.UnixMilli(), p.Checked.UnixMilli())
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM provider_tool WHERE provider = $1`, p.Name); err != nil {
			return err
		}
		for _, t := range p.Tools {
			canary, err := json.Marshal(append([]capabilities.PrincipalID{}, t.Canary...))
			if err != nil {
				return err
			}
			if _, err := tx.Exec(`INSERT INTO provider_tool (provider, upstream, state, approved, effect, canary) VALUES ($1, $2, $3, $4, $5, $6)`,
				p.Name, t.Upstream, string(t.State), t.Approved, t.Effect, string(canary)); err != nil {
				return err
			}
		}
		if kind == "" {
			return nil
		}
		return b.opts.Record(tx, kind, by, p.packet())
	})
	if err != nil {
		return capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "")
	}
	b.mu.Lock()
	b.all[p.Name] = p
	b.mu.Unlock()
	return nil
}

// packet is what the ledger has of a provider: names, hashes and states, no word of its own.
func (p *Provider) packet() map[string]any {
	list := make([]map[string]any, 0, len(p.Tools))
	for _, t := range p.Tools {
		list = append(list, map[string]any{"tool": t.Described.Tool, "state": t.State, "hash": t.Hash, "approved": t.Approved, "effect": t.Effect})
	}
	return map[string]any{"provider": p.Name, "kind": p.Kind, "host": p.Host, "manifest_hash": p.Hash, "tools": list, "refused": len(p.Refused)}
}
