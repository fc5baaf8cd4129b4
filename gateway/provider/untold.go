package provider

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/gateway/store"
)

// untold is a provider about which a host has to hear what was decided last, and by whom. The
// words are worked out when it is told: the record is true by then, whatever happened between.
type untold struct {
	telling
	who   dispatch.Caller // the maker of the decision
	tried bool            // since the host is connected
}

// telling is which provider of which host somebody has to speak about.
type telling struct {
	provider string
	host     capabilities.NodeID
}

// owe writes down that a host has to be told about a provider, before what it has to be told is
// decided: a gateway that ends between tells it when it is back. A macro has
// no host, and a satellite holds nothing: nil.
func (b *Book) owe(ctx context.Context, who dispatch.Caller, provider string, host capabilities.NodeID) (*untold, error) {
	if host == "" || b.asked(host) {
		return nil, nil
	}
	err := b.opts.Store.Write(ctx, func(tx *store.Tx) error {
		_, err := tx.Exec(`INSERT INTO provider_untold (provider, host, principal, role, lane, at) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (provider, host) DO UPDATE SET principal = excluded.principal, role = excluded.role, lane = excluded.lane, at = excluded.at`,
			provider, string(host), string(who.Principal), who.Role, string(who.Lane), b.opts.Now().UnixMilli())
		return err
	})
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "")
	}
	u := &untold{telling: telling{provider, host}, who: who}
	b.late[u.telling] = u
	return u, nil
}

// told forgets that a host has to hear about a provider.
func (b *Book) told(ctx context.Context, at telling) error {
	if b.late[at] == nil {
		return nil
	}
	err := b.opts.Store.Write(ctx, func(tx *store.Tx) error {
		_, err := tx.Exec(`DELETE FROM provider_untold WHERE provider = $1 AND host = $2`, at.provider, string(at.host))
		return err
	})
	if err == nil {
		delete(b.late, at)
	}
	return err
}

// owed reads whom the gateway had to tell when it ended.
func (b *Book) owed(ctx context.Context) error {
	rows, err := b.opts.Store.Read().QueryContext(ctx, `SELECT provider, host, principal, role, lane FROM provider_untold`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var u untold
		if err := rows.Scan(&u.provider, &u.host, &u.who.Principal, &u.who.Role, &u.who.Lane); err != nil {
			return err
		}
		b.late[u.telling] = &u
	}
	return rows.Err()
}

// approved is the hash of each tool that is called, by the provider's own name.
func (p *Provider) approved() map[string]any {
	all := map[string]any{}
	for i := range p.Tools {
		if t := &p.Tools[i]; t.Callable() {
			all[t.Upstream] = t.Approved
		}
	}
	return all
}

// order is what a host has to hear about a provider as it is now, and by which tool.
func (b *Book) order(at telling) (capabilities.ToolID, map[string]any) {
	p, err := b.Get(at.provider)
	if err != nil || p.Host != at.host {
		return toolDrop, map[string]any{"provider": at.provider}
	}
	return toolOffer, map[string]any{"provider": at.provider, "approved": p.approved()}
}

// hears reports whether a host can be told now.
func (b *Book) hears(n *route.Node, u *untold) bool {
	tool, _ := b.order(u.telling)
	d, ok := b.opts.Registry.Get(tool)
	return ok && route.Check(n, d.Capability, nil).Eligible()
}

// tell has a host hear what was decided. A host that is away hears it when it connects: the
// decision stays that of its maker, whenever it arrives, unless they are gone by then.
func (b *Book) tell(ctx context.Context, u *untold) error {
	if u == nil {
		return nil // nobody hosts it
	}
	u.tried = true
	tool, args := b.order(u.telling)
	_, err := b.call(ctx, u.who, tool, u.host, args)
	if err == nil {
		if err := b.told(ctx, u.telling); err != nil { // it is told once more, which changes nothing
			b.opts.Log.Error("provider.told", "provider", u.provider, "node", u.host, "err", err)
		}
		return nil
	}
	u.who.Self = "" // told later, it is no more by anybody's own hands
	e := capabilities.AsError(err)
	if e.Code == capabilities.CodeUnknownOutcome { // its connection was lost: the next one is another
		u.tried = false
	}
	b.opts.Log.Warn("provider.untold", "provider", u.provider, "node", u.host, "err", err)
	hint, then := "It is told when it connects.", capabilities.Action{Key: capabilities.ActionCheckProvider, Name: u.provider}
	if tool == toolDrop {
		hint, then = "It is told when it connects. Nothing of it can be called until then either.", capabilities.Action{}
	}
	return (&capabilities.Error{
		Code: e.Code, Details: e.Details,
		Message: "The gateway holds to it already, but the host of " + u.provider + " could not be told: " + e.PublicMessage(),
	}).WithAction(then, hint)
}
