package provider

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
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
	if p.Kind.Composed() {
		return b.addComposed(ctx, who, p)
	}
	if p.Kind == tools.KindSatellite {
		return Provider{}, capabilities.Errorf(capabilities.CodeNotSupported, "a satellite comes by itself").
			WithAction(capabilities.Action{Key: capabilities.ActionAddSatellite, Name: p.Name}, "Invite it.")
	}
	if !p.Kind.Hosted() {
		return Provider{}, capabilities.Errorf(capabilities.CodeNotSupported, "providers of the kind %s are not hosted by a node", p.Kind)
	}
	added := Provider{Provider: p, Host: host, By: who.Principal, Created: b.opts.Now().UTC()}
	if err := b.reserve(ctx, &added); err != nil {
		return Provider{}, err
	}
	defer b.unreserve(p.Name)
	done, err := b.turn(ctx, telling{p.Name, host}) // an earlier one of the name may have to be dropped there
	if err != nil {
		return Provider{}, err
	}
	defer done()
	if _, err := b.Get(p.Name); err == nil { // another gateway was first
		return Provider{}, taken(p.Name)
	}
	if err := b.ask(ctx, who, &added); err != nil {
		return Provider{}, err
	}
	over, err := b.decides(ctx)
	if err != nil {
		return Provider{}, err
	}
	defer over()
	if before, err := b.Get(p.Name); err == nil { // a satellite came meanwhile, or another gateway added it
		if before.Host != host {
			err = b.owe(ctx, who, p.Name, host)
			b.nudge()
		}
		return Provider{}, errors.Join(taken(p.Name), err)
	}
	if err := b.told(ctx, b.untoldAt(telling{added.Name, added.Host})); err != nil { // to drop an earlier one of the name
		return Provider{}, err
	}
	added.describe(nil)
	if err := b.register(&added, nil); err != nil { // nothing is callable; rules may name them now
		return Provider{}, err
	}
	if err := b.keep(ctx, who.Principal, kindAdded, &added); err != nil {
		return Provider{}, errors.Join(err, b.opts.Registry.Hosted(added.Name, nil, nil, nil))
	}
	return added, nil
}

// reserve takes a name that nobody has while its host is asked.
func (b *Book) reserve(ctx context.Context, p *Provider) error {
	b.changing.Lock()
	defer b.changing.Unlock()
	if _, err := b.Get(p.Name); err == nil || b.adding[p.Name] {
		return taken(p.Name)
	}
	if err := b.free(p.Name); err != nil {
		return err
	}
	if err := b.known(ctx, p); err != nil {
		return err
	}
	b.adding[p.Name] = true
	return nil
}

func (b *Book) unreserve(name string) {
	b.changing.Lock()
	defer b.changing.Unlock()
	delete(b.adding, name)
}

// taken refuses a name that a provider has.
func taken(name string) error {
	return capabilities.Errorf(capabilities.CodeConflict, "there is a provider %s already", name).
		WithAction(capabilities.Action{Key: capabilities.ActionRemoveProvider, Name: name}, "Choose another name, or remove it first.")
}

// taken are the tools that a new name may not look like.
func (b *Book) taken() []capabilities.ToolID {
	var ids []capabilities.ToolID
	for _, d := range b.opts.Registry.All() {
		ids = append(ids, d.Tool)
	}
	for _, p := range b.List() {
		ids = append(ids, capabilities.ToolID("tool."+p.Name+".x"))
	}
	for name := range b.adding {
		ids = append(ids, capabilities.ToolID("tool."+name+".x"))
	}
	return ids
}

// Check asks the host what a provider offers now, and tells it what was decided. Tools that
// changed go into review and are callable no more; those that are gone are what they were
// should they come back.
func (b *Book) Check(ctx context.Context, who dispatch.Caller, name string) (Provider, error) {
	after, epoch, err := b.checked(ctx, who, name)
	if err != nil {
		return after, err
	}
	return after, b.spread(ctx, &after, epoch)
}

// checked takes over what a host says of a provider. Its turn is held from the question to the
// record, so that an earlier answer never follows a later one.
func (b *Book) checked(ctx context.Context, who dispatch.Caller, name string) (after Provider, epoch uint64, err error) {
	p, err := b.Get(name)
	if err != nil {
		return p, 0, err
	}
	said := p
	if !p.Kind.Composed() {
		done, err := b.turn(ctx, telling{p.Name, p.Host})
		if err != nil {
			return p, 0, err
		}
		defer done()
		if err := b.ask(ctx, who, &said); err != nil {
			return p, 0, err
		}
	}
	over, err := b.decides(ctx)
	if err != nil {
		return p, 0, err
	}
	defer over()
	before, err := b.Get(name)
	if err != nil {
		return before, 0, err
	}
	if before.Host != p.Host || !before.Created.Equal(p.Created) {
		return before, 0, capabilities.Errorf(capabilities.CodeConflict, "the provider %s was removed meanwhile", name).
			WithAction(capabilities.Action{Key: capabilities.ActionShowProvider, Name: name}, "Look at the one that there is now.")
	}
	now := before
	if p.Kind.Composed() {
		if err := b.compose(&now); err != nil {
			return before, 0, err
		}
	} else { // what was decided meanwhile stays
		now.Manifest, now.Tried, now.Checked = said.Manifest, said.Tried, said.Checked
		now.Interchangeable = before.Interchangeable && said.Interchangeable
	}
	return b.changed(ctx, who, &before, &now)
}

// changed has what a provider says now be on record: what is another than was approved waits
// for a look. changing is held.
func (b *Book) changed(ctx context.Context, who dispatch.Caller, before, p *Provider) (Provider, uint64, error) {
	p.describe(before.lives())
	wider := p.widens() && !before.widens() // what it said all along makes no decision another
	for i := range p.Tools {
		if t := &p.Tools[i]; (t.Changed() || wider) && t.State.Callable() {
			t.review()
		}
	}
	kind := kindChanged
	if p.Hash == before.Hash {
		kind = ""
	}
	after, err := b.settle(ctx, who, kind, before, p)
	if err != nil {
		return after, 0, err
	}
	return after, b.renew(&after), nil // a secret may have another value by now
}

// ask has the host take the provider up, and takes over what it offers.
func (b *Book) ask(ctx context.Context, who dispatch.Caller, p *Provider) error {
	if p.Kind == tools.KindSatellite {
		return b.askSatellite(ctx, p)
	}
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
		Manifest string        `json:"manifest"`
		Tried    []tools.Tried `json:"tried"`
	}
	if err := json.Unmarshal(out, &said); err != nil {
		return capabilities.AsError(err)
	}
	p.Tried = said.Tried
	p.Manifest = tools.ToolManifest{}
	if err := json.Unmarshal([]byte(said.Manifest), &p.Manifest); err != nil {
		return capabilities.Wrap(capabilities.CodeExecutionFailed, err, "The node's manifest cannot be read.")
	}
	p.Checked = b.opts.Now().UTC()
	return nil
}

// call makes one call of managing, which the person who wants it confirms by asking for it.
func (b *Book) call(ctx context.Context, who dispatch.Caller, tool capabilities.ToolID, node capabilities.NodeID,
	args map[string]any) (json.RawMessage, error) {
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

// Remove ends a provider: its tools are gone at once, whether its host can be told or not.
func (b *Book) Remove(ctx context.Context, who dispatch.Caller, name string) error {
	host, err := b.remove(ctx, who, name)
	if err != nil || host == "" {
		return err
	}
	return b.tell(ctx, telling{name, host})
}

// remove forgets a provider, and returns which host has to hear of it.
func (b *Book) remove(ctx context.Context, who dispatch.Caller, name string) (capabilities.NodeID, error) {
	done, err := b.decides(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	p, err := b.Get(name)
	if err != nil {
		return "", err
	}
	if err := b.live(&p); err != nil {
		return "", err
	}
	if err := b.owe(ctx, who, name, p.Host); err != nil {
		return "", err
	}
	if err := b.rules.Put(ctx, who, RuleFile(name), "", "removed the provider "+name); err != nil {
		return "", err
	}
	if err := b.opts.Registry.Hosted(name, nil, nil, nil); err != nil {
		return "", err
	}
	if err := b.distrust(ctx, who, &p); err != nil {
		return "", err
	}
	if p.Kind.Hosted() { // no word of it stays for another of that name
		if err := b.opts.Allow(ctx, who.Principal, p.Host, p.pattern(), false); err != nil {
			return "", err
		}
	}
	err = b.opts.Store.Write(ctx, func(tx *store.Tx) error {
		for _, q := range []string{`DELETE FROM provider WHERE name = $1`, `DELETE FROM provider_tool WHERE provider = $1`} {
			if _, err := tx.Exec(q, name); err != nil {
				return err
			}
		}
		return b.opts.Record(tx, kindRemoved, who.Principal, packet.ProviderRemoved{Provider: name, Host: p.Host})
	})
	if err != nil {
		return "", err
	}
	b.mu.Lock()
	delete(b.all, name)
	delete(b.programs, name)
	b.mu.Unlock()
	return p.Host, nil
}

// keep makes a provider durable, with its packets, and has everybody see it. kind "": nothing
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
	approver, err := json.Marshal(p.Approver)
	if err != nil {
		return err
	}
	p.row = p.rowOf(string(record), string(approver), p.lives())
	var packets []*change
	if kind != "" {
		before, _ := b.Get(p.Name)
		packets = p.packets(&before)
	}
	err = b.opts.Store.Write(ctx, func(tx *store.Tx) error {
		if _, err := tx.Exec(`INSERT INTO manifest (hash, body, at) VALUES ($1, $2, $3) ON CONFLICT (hash) DO NOTHING`, p.Hash, string(manifest),
			p.Checked.UnixMilli()); err != nil {
			return err
		}
		_, err := tx.Exec(
			`INSERT INTO provider (name, host, record, manifest, created_by, created_at, checked_at, approver) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
			ON CONFLICT (name) DO UPDATE SET host = excluded.host, record = excluded.record, manifest = excluded.manifest, checked_at = excluded.checked_at, approver = excluded.approver`,
			p.Name, string(p.Host), string(record), p.Hash, string(p.By), p.Created.UnixMilli(), p.Checked.UnixMilli(), string(approver))
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM provider_tool WHERE provider = $1`, p.Name); err != nil {
			return err
		}
		for upstream, t := range p.lives() {
			canary, err := json.Marshal(append([]capabilities.PrincipalID{}, t.Canary...))
			if err != nil {
				return err
			}
			if _, err := tx.Exec(
				`INSERT INTO provider_tool (provider, upstream, state, was, approved, effect, canary) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
				p.Name, upstream, string(t.State), string(t.Was), t.Approved, t.Effect, string(canary)); err != nil {
				return err
			}
		}
		for _, body := range packets {
			if err := b.opts.Record(tx, kind, by, body); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "")
	}
	b.mu.Lock()
	b.all[p.Name] = p
	b.mu.Unlock()
	if b.satellites != nil && p.Kind == tools.KindSatellite {
		b.satellites.Refresh()
	}
	return nil
}
