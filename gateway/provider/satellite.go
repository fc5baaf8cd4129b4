package provider

import (
	"context"
	"errors"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

// A satellite is a provider with a transport of its own (S3-09, S3-30): it comes by itself once it
// was let in, and its record, manifests, approvals and rules are those of every provider.

// Satellites are the satellites of the gateway; gateway/bus implements it.
type Satellites interface {
	// Of returns those of a service that are let in, by ID.
	Of(service string) []capabilities.NodeID
	// Has reports whether an ID is a satellite's.
	Has(id capabilities.NodeID) bool
	// Manifest asks one what it says of its tools now.
	Manifest(ctx context.Context, id capabilities.NodeID) (tools.ToolManifest, error)
	// Refresh has everybody look anew at what may be called there.
	Refresh()
}

// asked reports whether a host is a satellite: it holds nothing, because each call tells it which
// words of the tool were approved.
func (b *Book) asked(host capabilities.NodeID) bool {
	return b.satellites != nil && b.satellites.Has(host)
}

// ServeSatellites sets where satellites are, and has the calls of each service go to all of its
// own; before the first change.
func (b *Book) ServeSatellites(s Satellites) {
	b.satellites = s
	for _, p := range b.List() {
		if p.Kind == tools.KindSatellite {
			if err := b.register(&p, nil); err != nil {
				b.opts.Log.Error("provider.register", "provider", p.Name, "err", err)
			}
		}
	}
}

// hostsOf returns the hosts of a provider in no order: of a satellite's service all that are in,
// if an approved manifest says that they are interchangeable, and none once the last was revoked.
func (b *Book) hostsOf(p *Provider) []capabilities.NodeID {
	if p.Kind == tools.KindSatellite && b.satellites != nil {
		if all := b.satellites.Of(p.Name); len(all) == 0 || p.Interchangeable {
			return all
		}
	}
	return []capabilities.NodeID{p.Host}
}

// Free refuses a name that a new satellite may not have: CodeConflict.
func (b *Book) Free(name string) error {
	if p, err := b.Get(name); err == nil {
		if p.Kind != tools.KindSatellite {
			return taken(name)
		}
		return nil
	}
	b.changing.Lock()
	defer b.changing.Unlock()
	return b.free(name)
}

// free refuses a new name, with changing held.
func (b *Book) free(name string) error {
	switch like := lookAlike(capabilities.ToolID("tool."+name+".x"), b.taken()); {
	case len(b.List())+len(b.adding) >= maxProviders:
		return capabilities.Errorf(capabilities.CodeConflict, "a gateway has at most %d providers", maxProviders)
	case like != "":
		return capabilities.Errorf(capabilities.CodeConflict, "the name %s could be taken for %s", name, like.Family()).
			WithHint("Give it a name that does not look like another.")
	}
	return nil
}

// Attach takes over what a satellite says of its tools. A service that nobody knew becomes a
// provider whose tools are drafts, whatever its name is (S3-34), and whose calls no other satellite
// serves before a person approved that: by is who let it in. One that is known stays as it was
// approved; what it says otherwise is not called, and a check brings it.
func (b *Book) Attach(ctx context.Context, id capabilities.NodeID, by capabilities.PrincipalID, m *tools.ToolManifest) error {
	done, err := b.decides(ctx)
	if err != nil {
		return err
	}
	defer done()
	before, err := b.Get(m.Provider)
	if err == nil {
		return b.rehost(ctx, &before, id)
	}
	record := tools.Provider{Name: m.Provider, Kind: tools.KindSatellite}
	if err := errors.Join(record.Validate(), b.free(m.Provider)); err != nil {
		return err
	}
	now := b.opts.Now().UTC()
	p := Provider{Provider: record, Host: id, Manifest: *m, By: by, Created: now, Checked: now}
	p.describe(nil)
	if err := b.register(&p, nil); err != nil {
		return err
	}
	if err := b.keep(ctx, by, kindAdded, &p); err != nil {
		return errors.Join(err, b.opts.Registry.Hosted(p.Name, nil, nil, nil))
	}
	return nil
}

// rehost has a provider's calls go to the satellites that are in now.
func (b *Book) rehost(ctx context.Context, before *Provider, id capabilities.NodeID) error {
	if before.Kind != tools.KindSatellite {
		return capabilities.Errorf(capabilities.CodeConflict, "there is a provider %s of another kind", before.Name)
	}
	p := *before
	in := b.satellites.Of(p.Name)
	if len(in) > 0 && !slices.Contains(in, p.Host) { // the one that it was is revoked
		p.Host = id
	}
	b.opts.Registry.Rehosted(p.Name, b.hostsOf(&p))
	if p.Host == before.Host {
		return nil
	}
	return b.keep(ctx, "", kindChanged, &p)
}

// Rehost is told that a satellite of a service was let in or put out.
func (b *Book) Rehost(ctx context.Context, service string) error {
	done, err := b.decides(ctx)
	if err != nil {
		return err
	}
	defer done()
	p, err := b.Get(service)
	if err != nil || p.Kind != tools.KindSatellite {
		return nil // nobody heard of its tools yet
	}
	id := p.Host
	if in := b.satellites.Of(service); len(in) > 0 {
		id = in[0]
	}
	return b.rehost(ctx, &p, id)
}

// Interchangeable reports whether any of several satellites of a service serves its calls: a
// manifest that a person approved says so.
func (b *Book) Interchangeable(service string) bool {
	p, err := b.Get(service)
	return err == nil && p.Kind == tools.KindSatellite && p.Interchangeable
}

// widens reports whether the manifest says that others serve the calls, too, and nobody approved
// it.
func (p *Provider) widens() bool {
	return p.Kind == tools.KindSatellite && p.Manifest.Interchangeable && !p.Interchangeable
}

// askSatellite takes over what the satellite of a provider says of its tools now. That others may
// serve its calls, too, counts once a person approved it; that they may not, at once.
func (b *Book) askSatellite(ctx context.Context, p *Provider) error {
	if b.satellites == nil {
		return capabilities.Errorf(capabilities.CodeNodeNotReady, "this gateway has no satellites")
	}
	m, err := b.satellites.Manifest(ctx, p.Host)
	if err != nil {
		return err
	}
	p.Manifest, p.Interchangeable, p.Checked = m, p.Interchangeable && m.Interchangeable, b.opts.Now().UTC()
	return nil
}

// live refuses to remove a provider whose satellites are in: they would come again.
func (b *Book) live(p *Provider) error {
	if p.Kind != tools.KindSatellite || b.satellites == nil {
		return nil
	}
	if in := b.satellites.Of(p.Name); len(in) > 0 {
		return capabilities.Errorf(capabilities.CodeConflict, "its satellite %s is still let in", in[0]).
			WithAction(capabilities.Action{Key: capabilities.ActionRevokeSatellite, Node: in[0]}, "Put it out first.")
	}
	return nil
}

// ApprovedHash returns the hash of a tool's words that a person approved, by its capability; for
// those who carry its calls out.
func (b *Book) ApprovedHash(c capabilities.CapabilityID) (string, bool) {
	id := c.Tool()
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.all[id.Family()]
	if p == nil {
		return "", false
	}
	for i := range p.Tools {
		if t := &p.Tools[i]; t.Described.Tool == id {
			return t.Approved, t.Approved != ""
		}
	}
	return "", false
}
