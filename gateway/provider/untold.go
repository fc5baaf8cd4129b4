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
	who   dispatch.Caller // the maker of the decision
	tried uint64          // the host's connection over which it was told in vain; 0: none
}

// owe writes down that a host has to be told about a provider, before what it has to be told is
// decided: a gateway that ends between tells it when it is back. A macro has
// no host, and a satellite holds nothing. changing is held.
func (b *Book) owe(ctx context.Context, who dispatch.Caller, provider string, host capabilities.NodeID) error {
	if host == "" || b.asked(host) {
		return nil
	}
	err := b.opts.Store.Write(ctx, func(tx *store.Tx) error {
		_, err := tx.Exec(`INSERT INTO provider_untold (provider, host, principal, role, lane, at) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (provider, host) DO UPDATE SET principal = excluded.principal, role = excluded.role, lane = excluded.lane, at = excluded.at`,
			provider, string(host), string(who.Principal), who.Role, string(who.Lane), b.opts.Now().UnixMilli())
		return err
	})
	if err != nil {
		return capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "")
	}
	u := &untold{telling: telling{provider, host}, who: who}
	b.late[u.telling] = u
	return nil
}

// told forgets that a host has to hear about a provider; changing is held.
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
	b.changing.Lock()
	u := b.late[at]
	if u == nil { // nobody hosts it, or it heard of all decisions meanwhile
		b.changing.Unlock()
		return nil
	}
	who, session := u.who, b.sessionOf(at.host)
	u.who.Self = "" // told later, it is no more by anybody's own hands
	tool, args := b.order(at)
	b.changing.Unlock()

	_, err = b.call(ctx, who, tool, at.host, args)

	b.changing.Lock()
	defer b.changing.Unlock()
	if err == nil {
		if b.late[at] != u { // there is another decision: whoever made it tells it next
			return nil
		}
		if err := b.told(ctx, at); err != nil { // it is told once more, which changes nothing
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
