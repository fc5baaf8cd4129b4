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
// Another decision makes another one.
type untold struct {
	telling
	row   untoldRow
	who   dispatch.Caller // the maker of the decision
	tried uint64          // the host's connection over which it was told in vain; 0: none
}

// untoldRow tells one decision from another, as the store has it.
type untoldRow struct {
	principal capabilities.PrincipalID
	role      string
	lane      capabilities.LaneID
	at        int64
}

// untoldAt returns what a host has to hear about a provider; nil: it heard of all.
func (b *Book) untoldAt(at telling) *untold {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.late[at]
}

// owe writes down that a host has to be told about a provider, before what it has to be told is
// decided: a gateway that ends between tells it when it is back. A macro has
// no host, and a satellite holds nothing. changing is held.
func (b *Book) owe(ctx context.Context, who dispatch.Caller, provider string, host capabilities.NodeID) error {
	if host == "" || b.asked(host) {
		return nil
	}
	row := untoldRow{who.Principal, who.Role, who.Lane, b.opts.Now().UnixMilli()}
	err := b.opts.Store.Write(ctx, func(tx *store.Tx) error {
		_, err := tx.Exec(`INSERT INTO provider_untold (provider, host, principal, role, lane, at) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (provider, host) DO UPDATE SET principal = excluded.principal, role = excluded.role, lane = excluded.lane, at = excluded.at`,
			provider, string(host), string(who.Principal), who.Role, string(who.Lane), row.at)
		return err
	})
	if err != nil {
		return capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "")
	}
	u := &untold{telling: telling{provider, host}, row: row, who: who}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.late[u.telling] = u
	return nil
}

// told forgets that a host has to hear of a decision; another one stays. changing is held.
func (b *Book) told(ctx context.Context, u *untold) error {
	if u == nil {
		return nil
	}
	err := b.opts.Store.Write(ctx, func(tx *store.Tx) error {
		_, err := tx.Exec(`DELETE FROM provider_untold WHERE provider = $1 AND host = $2 AND principal = $3 AND at = $4`, u.provider,
			string(u.host), string(u.row.principal), u.row.at)
		return err
	})
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := b.late[u.telling]; now != nil && now.row == u.row {
		delete(b.late, u.telling)
	}
	return nil
}

// owed reads which hosts have to be told. A decision that is known already is the same one.
func (b *Book) owed(ctx context.Context) error {
	rows, err := b.opts.Store.Read().QueryContext(ctx, `SELECT provider, host, principal, role, lane, at FROM provider_untold`)
	if err != nil {
		return err
	}
	defer rows.Close()
	late := map[telling]*untold{}
	for rows.Next() {
		var u untold
		if err := rows.Scan(&u.provider, &u.host, &u.row.principal, &u.row.role, &u.row.lane, &u.row.at); err != nil {
			return err
		}
		u.who = dispatch.Caller{Principal: u.row.principal, Role: u.row.role, Lane: u.row.lane}
		late[u.telling] = &u
	}
	if err := rows.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for at, u := range b.late {
		if now := late[at]; now != nil && now.row == u.row {
			late[at] = u
		}
	}
	b.late = late
	return nil
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

// tell has a host hear what was decided, if it has not by now. A host that is away hears it when
// it connects: the decision stays that of its maker, whenever it arrives, unless they are gone by
// then.
func (b *Book) tell(ctx context.Context, at telling) error {
	done, err := b.turn(ctx, at)
	if err != nil {
		b.nudge()
		return late(at, toolOffer, err)
	}
	defer done()
	over, err := b.decides(ctx) // what another gateway is deciding is told as it ends
	if err != nil {
		b.nudge()
		return late(at, toolOffer, err)
	}
	u := b.untoldAt(at)
	if u == nil { // nobody hosts it, or it heard of all decisions meanwhile
		over()
		return nil
	}
	who, session := u.who, b.sessionOf(at.host)
	u.who.Self = "" // told later, it is no more by anybody's own hands
	tool, args := b.order(at)
	over()

	_, err = b.call(ctx, who, tool, at.host, args)

	b.changing.Lock()
	defer b.changing.Unlock()
	if err == nil {
		if b.untoldAt(at) != u { // there is another decision: whoever made it tells it next
			return nil
		}
		if err := b.told(ctx, u); err != nil { // it is told once more, which changes nothing
			b.opts.Log.Error("provider.told", "provider", at.provider, "node", at.host, "err", err)
		}
		return nil
	}
	u.tried = session // over the next one it is told again
	b.opts.Log.Warn("provider.untold", "provider", at.provider, "node", at.host, "err", err)
	return late(at, tool, err)
}

// late says that a decision holds although its host could not be told.
func late(at telling, tool capabilities.ToolID, err error) error {
	e := capabilities.AsError(err)
	hint, then := "It is told when it connects.", capabilities.Action{Key: capabilities.ActionCheckProvider, Name: at.provider}
	if tool == toolDrop {
		hint, then = "It is told when it connects. Nothing of it can be called until then either.", capabilities.Action{}
	}
	return (&capabilities.Error{
		Code: e.Code, Details: e.Details,
		Message: "The gateway holds to it already, but the host of " + at.provider + " could not be told: " + e.PublicMessage(),
	}).WithAction(then, hint)
}

// sessionOf returns the connection that a host has now; 0 for none.
func (b *Book) sessionOf(host capabilities.NodeID) uint64 {
	for _, n := range b.hosts.Snapshot() {
		if n.ID == host && n.Connected {
			return n.Session
		}
	}
	return 0
}
