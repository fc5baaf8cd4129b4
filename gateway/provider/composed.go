package provider

import (
	"context"
	"errors"
	"fmt"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/macro"
	"github.com/handrail-dev/handrail/gateway/subagent"
)

// A macro or a sub-agent is a provider of one tool without a host: the gateway makes its calls. Its
// words about itself are worked out of its file and of the tools that it uses.

// addComposed takes one up: its tool is a draft. A file for one that there is takes the place of
// the one before, and its tool waits for a look if it says something else.
func (b *Book) addComposed(ctx context.Context, who dispatch.Caller, record tools.Provider) (Provider, error) {
	done, err := b.decides(ctx)
	if err != nil {
		return Provider{}, err
	}
	defer done() // it has no host: nobody is called
	if before, err := b.Get(record.Name); err == nil {
		if before.Kind != record.Kind {
			return Provider{}, capabilities.Errorf(capabilities.CodeConflict, "there is a provider %s already", record.Name).
				WithHint("Give the new one another name.")
		}
		p := before
		p.Provider = record
		if err := b.compose(&p); err != nil {
			return before, err
		}
		after, _, err := b.changed(ctx, who, &before, &p)
		return after, err
	}
	var others []capabilities.ToolID
	for _, p := range b.List() {
		if p.Kind == record.Kind {
			others = append(others, capabilities.ToolID("tool."+p.Name+".x"))
		}
	}
	switch like := lookAlike(capabilities.ToolID("tool."+record.Name+".x"), others); {
	case len(b.List())+len(b.adding) >= maxProviders:
		return Provider{}, capabilities.Errorf(capabilities.CodeConflict, "a gateway has at most %d providers", maxProviders)
	case like != "":
		return Provider{}, capabilities.Errorf(capabilities.CodeConflict, "the name %s could be taken for %s", record.Name, like.Family()).
			WithHint("Give it a name that does not look like another.")
	}
	added := Provider{Provider: record, By: who.Principal, Created: b.opts.Now().UTC()}
	if err := b.compose(&added); err != nil {
		return Provider{}, err
	}
	added.describe(nil)
	if len(added.Refused) > 0 {
		return Provider{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "%s", added.Refused[0].Reason)
	}
	if err := b.register(&added, nil); err != nil {
		return Provider{}, err
	}
	if err := b.keep(ctx, who.Principal, kindAdded, &added); err != nil {
		return Provider{}, errors.Join(err, b.opts.Registry.Hosted(added.Name, nil, nil, nil))
	}
	return added, nil
}

// compose works out what one says of itself, with the tools that there are now.
func (b *Book) compose(p *Provider) error {
	var manifest tools.ToolManifest
	var err error
	if p.Kind == tools.KindSubAgent {
		_, manifest, err = subagent.Offer(&p.Provider, b.opts.Registry.Get)
	} else {
		_, manifest, err = macro.Offer(&p.Provider, b.opts.Registry.Get)
	}
	if err != nil {
		return err
	}
	p.Manifest, p.Checked = manifest, b.opts.Now().UTC()
	return nil
}

// uses are the tools that one may call.
func (p *Provider) uses() []capabilities.ToolID {
	switch p.Kind {
	case tools.KindMacro:
		if m, err := macro.Read(p.Name, p.Provider.Manifest); err == nil {
			return m.Uses()
		}
	case tools.KindSubAgent:
		if a, err := subagent.Read(p.Name, p.Provider.Manifest); err == nil {
			return a.Tools
		}
	}
	return nil
}

// agentUses are the tools of a sub-agent in words, as far as a question has room for them.
func (p *Provider) agentUses() (all []string) {
	for i, id := range p.uses() {
		if i == maxSteps {
			return append(all, fmt.Sprintf("and %d more", len(p.uses())-i))
		}
		all = append(all, "may call "+string(id))
	}
	return all
}

// Lacks returns the tools of a macro or a sub-agent that nobody can call now: their provider is
// gone, say.
func (b *Book) Lacks(p *Provider) (gone []capabilities.ToolID) {
	for _, id := range p.uses() {
		if _, ok := b.opts.Registry.Get(id); !ok {
			gone = append(gone, id)
		}
	}
	return gone
}

// composed registers its tool with what carries it out.
func (b *Book) composed(p *Provider, offered, withheld []*catalog.Descriptor) error {
	if p.Kind == tools.KindSubAgent {
		a, err := subagent.Read(p.Name, p.Provider.Manifest)
		if err != nil {
			return err
		}
		return b.opts.Registry.Composed(p.Name, subagent.Runner{Agent: a, Desk: b.opts.SubAgents}, offered, withheld)
	}
	m, err := macro.Read(p.Name, p.Provider.Manifest)
	if err != nil {
		return err
	}
	return b.opts.Registry.Composed(p.Name, macro.Runner{Macro: m, Tools: b.opts.Registry.Get}, offered, withheld)
}
