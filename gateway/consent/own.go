package consent

import (
	"context"
	"encoding/hex"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

// Nobody approves what they asked for themselves, but for one case: a device is theirs, and
// they are there. Then their asking is the word of the one whom the device belongs to, and
// there is nobody else to ask (docs/decisions/124-owners-word.md). Whether they may be an agent
// with a lent mouse is for the surface to find out before it says that they are there.

// ownConsent is the one rule of that: by says yes to what asker asked of a device of owner's;
// known is by what it is known that by is there. CodeForbidden.
func ownConsent(asker capabilities.PrincipalID, role string, owner, by capabilities.PrincipalID, known string) error {
	if role == policy.RoleAgent || known == "" || by == "" || asker != by || owner != by {
		return notOwn()
	}
	return nil
}

func notOwn() error {
	return capabilities.Errorf(capabilities.CodeForbidden, "nobody approves what they asked for themselves").
		WithAction(capabilities.Action{
			Key: capabilities.ActionApproveOwn,
		}, "The owner of the device does, in the console and freshly signed in. Else let another user approve.")
}

// Owns reports whether the device that a question is about belongs to its asker, who is no
// agent: then their own word can be enough.
func (c *Consent) Owns(a Approval) bool {
	return a.Node != "" && ownConsent(a.Principal, a.Role, c.opts.Owner(a.Node), a.Principal, "asked") == nil
}

// ownerOf is whose the device of a question is; empty for none.
func (c *Consent) ownerOf(id string) capabilities.PrincipalID {
	c.mu.Lock()
	node := capabilities.NodeID("")
	if p := c.pending[id]; p != nil {
		node = p.Node
	}
	c.mu.Unlock()
	if node == "" {
		return ""
	}
	return c.opts.Owner(node)
}

// Confirmed keeps a person's word that they want exactly one call, which a surface is about to
// make for them: a grant for one use and these canonical arguments. The surface checks that they
// may have such a call made; nobody is asked what they just asked for.
func (c *Consent) Confirmed(ctx context.Context, by capabilities.PrincipalID, tool capabilities.ToolID, node capabilities.NodeID,
	lane capabilities.LaneID, args []byte) error {
	now := c.opts.Now()
	digest, tools := c.digest(args), []string{string(tool)}
	return c.keep(ctx, &Grant{
		ID: newID("g-"), Nonce: newID(""), Kind: KindCall, Principal: by, Tools: tools, Hosts: c.opts.Hosts(tools, node), Node: node, Lane: lane,
		Snapshot: c.opts.Snapshot(), MaxUses: 1, Approver: by, Via: string(ViaAsked), Created: now, Expires: now.Add(onceLife), args: digest,
		ArgsDigest: hex.EncodeToString(digest),
	}, nil)
}

// ownWord makes the grant of what the owner of a device asks of it while they act in the
// console: for this one call. Others are asked as ever.
func (c *Consent) ownWord(ctx context.Context, a *Ask, args []byte) error {
	if a.Self == "" || a.Node == "" || ownConsent(a.Principal, a.Role, c.opts.Owner(a.Node), a.Principal, a.Self) != nil {
		return nil
	}
	c.mu.Lock()
	covered := c.coverLocked(a, args) != nil
	c.mu.Unlock()
	if covered {
		return nil
	}
	now := c.opts.Now()
	return c.keep(ctx, &Grant{
		ID: newID("g-"), Nonce: newID(""), Kind: KindCall, Principal: a.Principal, Tools: []string{string(a.Tool)}, Hosts: a.Hosts, Node: a.Node,
		Lane: a.Lane, Snapshot: a.Snapshot, MaxUses: 1, Approver: a.Principal, Via: string(ViaOwner), Known: a.Self, Created: now,
		Expires: now.Add(onceLife), args: args, ArgsDigest: hex.EncodeToString(args),
	}, nil)
}
