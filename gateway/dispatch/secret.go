package dispatch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/sealed"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/secret"
)

// delivers reports whether a caller may have anything delivered with a tool; one for
// which it may have nothing is not there for it.
func (d *Dispatcher) delivers(p capabilities.PrincipalID, desc *catalog.Descriptor) bool {
	return desc.Delivery == nil || d.opts.Secrets != nil && len(d.opts.Secrets.Usable(p, desc.Tool)) > 0
}

// name resolves the selector of a delivery to a reference of the caller's, and no
// further (S0-39, S0-40). The arguments then name that reference: the alias may mean
// another secret by the time somebody has answered.
func (d *Dispatcher) name(q *resolved) *capabilities.Error {
	if q.desc.Delivery == nil {
		return nil
	}
	id, alias := q.desc.Delivery.Selector(q.args.Canonical)
	ref, err := d.opts.Secrets.Find(q.principal, q.desc.Tool, id, alias)
	if err != nil {
		return capabilities.AsError(err)
	}
	q.secret, q.args.Canonical = ref, q.desc.Delivery.Named(q.args.Canonical, ref.ID)
	return nil
}

// shown returns what a person may see of a delivery beside the evidence arguments
// (S0-33).
func (q *resolved) shown(evidence map[string]any) map[string]any {
	if q.secret.ID == "" {
		return evidence
	}
	out := map[string]any{}
	for k, v := range evidence {
		out[k] = v
	}
	if q.secret.Alias != "" {
		out[q.desc.Delivery.Alias] = q.secret.Alias
	}
	if q.secret.Display != "" {
		out["display_name"] = q.secret.Display
	}
	return out
}

// deliver orders a call that needs a secret. The node's guard accepts it first; only
// then is the reference looked up again, the fact recorded, the value resolved,
// sealed to the node's key of this call, and forgotten here.
func (d *Dispatcher) deliver(ctx context.Context, c *committed,
	progress func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
	o, t := c.Of(), d.ticket(c)
	answer, blobs, err := d.opts.Nodes.Deliver(ctx, o.node.ID, t, progress, func(key []byte) ([]byte, error) {
		// It may have been taken back while somebody was asked.
		ref, err := d.opts.Secrets.Find(o.principal, o.desc.Tool, o.secret.ID, "")
		if err != nil {
			return nil, err
		}
		if no := o.brokers(ref.ID); no != nil {
			return nil, no
		}
		err = d.opts.Ledger.Append(ctx, o.draft(ledger.KindSecretResolved, &packet.Resolved{
			Reference: ref.ID, Alias: ref.Alias, Envelope: o.sealed.HashHex(), Grant: o.permit.Grant,
		}))
		if err != nil {
			return nil, capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "")
		}
		value, err := d.opts.Secrets.Resolve(ctx, ref)
		if err != nil {
			return nil, err
		}
		defer value.Wipe()
		return sealed.Seal(key, sealed.Binding{Node: t.Node, Call: t.Call, Tool: t.Tool, Envelope: t.Envelope, Grants: t.Grants}, value)
	})
	answer.Observed = o.alsoBrokered(answer.Observed)
	return answer, blobs, err
}

// brokers notes that a node asked for a secret, and refuses one that the envelope does not grant:
// what the broker sees is compared like what nodes see (S1-46).
func (t *trail) brokers(reference string) *capabilities.Error {
	seen := wire.Observation{
		Key: capabilities.KeySecret, Detail: reference, Count: 1, Refused: !slices.Contains(t.sealed.Grants, capabilities.KeySecret),
	}
	t.brokered = append(t.brokered, seen)
	if !seen.Refused {
		return nil
	}
	return capabilities.Errorf(capabilities.CodeDriftCritical,
		"The node asked for a secret that the call was never granted, and did not get it.")
}

// alsoBrokered adds what the broker saw to what a node says, unless it says so itself.
func (t *trail) alsoBrokered(list []wire.Observation) []wire.Observation {
	for _, seen := range t.brokered {
		if !slices.ContainsFunc(list, func(o wire.Observation) bool {
			return o.Key == seen.Key && o.Detail == seen.Detail && o.Refused == seen.Refused
		}) {
			list = append(list, seen)
		}
	}
	return list
}

// acknowledge says of a delivery what the gateway knows, whatever the node says
// beyond "done" (S0-42). Of a call of an earlier process only the node still knows
// the reference.
func (c *openCall) acknowledge(output []byte) []byte {
	if c.secret.ID == "" {
		return output
	}
	out := map[string]string{"status": "ok", c.desc.Delivery.Reference: c.secret.ID}
	if c.secret.Alias != "" {
		out[c.desc.Delivery.Alias] = c.secret.Alias
	}
	if c.secret.Display != "" {
		out["display_name"] = c.secret.Display
	}
	if c.routing != nil {
		out["selected_node_id"], out["selection_mode"] = string(c.routing.Selected), string(c.routing.Mode)
	}
	text, err := canonical.Marshal(out)
	if err != nil {
		return output
	}
	return text
}

// notes keeps the descriptors that tell a caller which secrets it may use, so that
// the same caller is shown the same one as long as nothing changes.
type notes struct {
	mu   sync.Mutex
	made map[noteKey]*catalog.Descriptor
}

type noteKey struct {
	base *catalog.Descriptor
	note string
}

// listed returns a list of tools with, on each that delivers, the references the
// caller may use; a tool with none is not in it. The list is used up.
func (d *Dispatcher) listed(caller Caller, list []*catalog.Descriptor) []*catalog.Descriptor {
	out := list[:0]
	for _, desc := range list {
		switch {
		case desc.Delivery == nil:
			out = append(out, desc)
		case d.delivers(caller.Principal, desc):
			out = append(out, d.notes.of(desc, note(d.opts.Secrets.Usable(caller.Principal, desc.Tool))))
		}
	}
	return out
}

func note(refs []secret.Reference) string {
	var b strings.Builder
	b.WriteString("You may use:")
	for i, r := range refs {
		if i > 0 {
			b.WriteByte(';')
		}
		if r.Alias != "" {
			fmt.Fprintf(&b, " secret_alias %s", r.Alias)
		} else {
			fmt.Fprintf(&b, " secret_ref_id %s", r.ID)
		}
		if r.Display != "" {
			fmt.Fprintf(&b, " (%s)", r.Display)
		}
	}
	b.WriteByte('.')
	return b.String()
}

// maxNotes bounds the cache.
const maxNotes = 1024

func (n *notes) of(base *catalog.Descriptor, note string) *catalog.Descriptor {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := noteKey{base, note}
	if d := n.made[key]; d != nil {
		return d
	}
	if n.made == nil || len(n.made) >= maxNotes {
		n.made = map[noteKey]*catalog.Descriptor{}
	}
	n.made[key] = base.WithNote(note)
	return n.made[key]
}
