package gateway

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/rules"
	"github.com/handrail-dev/handrail/pairing"
)

// allowProvider puts the capabilities of a provider on its host's allowlist, or takes them away.
func (g *Gateway) allowProvider(ctx context.Context, by capabilities.PrincipalID, node capabilities.NodeID, pattern string,
	may bool) error {
	if g.Bus.Has(node) {
		return nil // a satellite may do what is its own, and no more
	}
	v, err := g.Nodes.View(node)
	switch {
	case !may && (err != nil || v.State != pairing.StateApproved):
		return nil // a node that is gone may do nothing
	case err != nil:
		return err
	case may && slices.Contains(v.Allow, "*"), may == slices.Contains(v.Allow, pattern):
		return nil
	}
	list := append(slices.Clone(v.Allow), pattern)
	if !may {
		list = slices.DeleteFunc(list, func(p string) bool { return p == pattern })
	}
	_, err = g.Nodes.Change(ctx, node, nodes.Edit{By: by, Allow: &list})
	return err
}

// teller is who tells a host what somebody decided earlier: them, while a token of theirs or they
// themselves have the role that the decision took; else the site, in nobody's name.
func (g *Gateway) teller(who dispatch.Caller) dispatch.Caller {
	if g.Tokens.Is(who.Principal, principal.Role(who.Role)).May(principal.ActProviders) {
		if u, err := g.Tokens.User(who.Principal); g.known(who.Principal, who.Role) || err == nil && string(u.Role) == who.Role {
			return who
		}
	}
	return dispatch.Caller{
		Principal: principal.Site.Principal, Role: string(principal.Site.Role), Lane: capabilities.LaneID(principal.Site.Principal),
	}
}

// approvals puts the policy of an approved provider in force, as the activation that it is.
type approvals struct{ g *Gateway }

// Put has a file of the policy in force say text; no text takes it away. Where another gateway
// activates a set meanwhile, that one gets the file.
func (a approvals) Put(ctx context.Context, who dispatch.Caller, name, text, reason string) error {
	for i := 0; ; i++ {
		before := a.g.Rulebook.Engine().SnapshotID()
		err := a.put(ctx, who, name, text, reason)
		if capabilities.CodeOf(err) != capabilities.CodeConflict || i == putAgain || a.g.Rulebook.Engine().SnapshotID() == before {
			return err
		}
	}
}

// putAgain is how often a set is made again of one that came into force meanwhile.
const putAgain = 4

func (a approvals) put(ctx context.Context, who dispatch.Caller, name, text, reason string) error {
	book := a.g.Rulebook
	now := book.Engine()
	at := slices.IndexFunc(now.Sources(), func(s policy.Source) bool { return s.Name == name })
	e := rules.Edit{By: who.Principal, Base: rules.Active}
	switch {
	case text == "" && at < 0, at >= 0 && string(now.Sources()[at].Data) == text:
		return nil
	case text == "":
		e.Remove = []string{name}
	default:
		e.Files = []policy.Source{{Name: name, Data: []byte(text)}}
	}
	next, err := book.Stage(ctx, e)
	if err != nil {
		return err
	}
	_, err = book.Activate(ctx, rules.Request{
		By: who.Principal, Role: who.Role, Lane: who.Lane, From: now.SnapshotID(), To: next.SnapshotID(), Reason: reason,
	})
	if err != nil {
		return err
	}
	return a.file(name, text)
}

// file has the policy folder hold the same, so that a set made of the folder has it, too.
func (a approvals) file(name, text string) error {
	path := filepath.Join(a.g.path("policy"), name)
	if text != "" {
		return pairing.SaveFile(path, []byte(text))
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// program addresses what a provider's tools are carried out by: how it is started or reached, with
// what that may touch.
func (g *Gateway) program(provider string) string {
	return g.Providers.Program(provider)
}
