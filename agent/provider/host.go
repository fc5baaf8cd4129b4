package provider

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/capabilities/egress"
	"github.com/handrail-dev/handrail/capabilities/folder"
)

// Options of New; required unless a default is named.
type Options struct {
	Dir     string           // where records are kept
	Catalog *catalog.Catalog // what is compiled in: its names are taken
	Start   Starter
	Modules Modules // default: WebAssembly modules are refused
	// Allowed says that the device's owner lets the gateway's admin have programs run here.
	// Default: they do not, and every request to host is refused.
	Allowed bool
	// Forbidden are folders that no provider reads or writes, whatever its record says: with all
	// that holds them and all that lies in them; default: none.
	Forbidden []string
	// Check is what the owner's file says about a whole folder, now; nil is nothing. It is asked
	// with every call. Default: nothing.
	Check   func(folder string) *capabilities.Error
	Changed func()       // told that tools or readiness changed; default: nobody
	Log     *slog.Logger // default: discards
}

// Host hosts providers. It is a capabilities.Handler, whose capabilities besides those of
// managing are its providers' tools. All methods are safe for concurrent use.
type Host struct {
	opts Options
	keep keeper
	// paused says that the node is stopped.
	paused atomic.Bool

	mu        sync.Mutex
	providers map[string]*hosted
	version   uint64
	tools     map[capabilities.ToolID]offered
	sorted    []*catalog.Descriptor
	closed    bool
}

var _ capabilities.Pauser = (*Host)(nil)

// hosted is one provider on this node.
type hosted struct {
	record  tools.Provider
	backend backend
	// credentials are those of the record, as far as they came.
	credentials *credentials
	seen        *tools.ToolManifest // what it said last
	// approved is the hash of each tool, by the provider's own name, that a person approved.
	approved map[string]string
	// real is where each of its folders led when it was added.
	real  map[string]string
	calls *calls
}

// offered is one approved tool.
type offered struct {
	tools.Described
	of      *hosted
	changed bool // what the provider says of it now is not what was approved
}

// New reads the records in o.Dir. Nothing is started before the first call.
func New(o Options) (*Host, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.Check == nil {
		o.Check = func(string) *capabilities.Error { return nil }
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(o.Dir)
	if err != nil {
		return nil, err
	}
	h := &Host{opts: o, keep: keeper{root}, providers: map[string]*hosted{}, tools: map[capabilities.ToolID]offered{}}
	kept, broken, err := h.keep.all()
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	for _, err := range broken {
		o.Log.Error("provider.kept", "err", err)
	}
	for _, k := range kept {
		err := h.apart(&k.Record)
		var b backend
		secrets := newCredentials(&k.Record)
		if err == nil {
			b, err = h.open(&k.Record, secrets)
		}
		if err != nil { // a kind that this program does not know, say
			o.Log.Error("provider.kept", "provider", k.Record.Name, "err", err)
			continue
		}
		h.providers[k.Record.Name] = &hosted{
			calls: &calls{}, record: k.Record, backend: b, credentials: secrets, seen: k.Manifest, approved: k.Approved,
			real: realOf(&k.Record, k.Real),
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.settleLocked()
	return h, nil
}

// backend makes what carries out the calls of a provider, unless it would reach what it may not.
func (h *Host) backend(p *tools.Provider, secrets *credentials) (backend, error) {
	if err := h.reach(p); err != nil {
		return nil, err
	}
	return h.open(p, secrets)
}

// reach refuses a provider that reads or writes what it may not, as folders and the owner's file
// are now.
func (h *Host) reach(p *tools.Provider) error {
	if err := h.apart(p); err != nil {
		return err
	}
	for _, dir := range slices.Concat(p.Read, p.Write) {
		if err := h.opts.Check(dir); err != nil {
			return err
		}
	}
	return nil
}

// reaches is reach of one that is hosted: its folders lead where they led when it was added, too.
func (h *Host) reaches(one *hosted) error {
	if err := h.reach(&one.record); err != nil {
		return err
	}
	return moved(&one.record, one.real)
}

// apart is the part of reach that no file of the owner's changes.
func (h *Host) apart(p *tools.Provider) error {
	if err := nested(p, p); err != nil {
		return err
	}
	for _, dir := range slices.Concat(p.Read, p.Write) {
		for _, kept := range h.opts.Forbidden {
			if folder.Meet(dir, kept) {
				return capabilities.Errorf(capabilities.CodeForbidden, "no provider reads or writes %.200q: Handrail keeps its own data there", dir).
					WithHint("Name a folder that neither holds the data directory nor lies in it.")
			}
		}
	}
	return nil
}

// open makes the backend of one kind.
func (h *Host) open(p *tools.Provider, secrets *credentials) (backend, error) {
	way, err := wayOf(p)
	if err != nil {
		return nil, err
	}
	way.Hold(h.paused.Load())
	switch p.Kind {
	case tools.KindCommand:
		c, err := newCommand(p, h.opts.Start, way, secrets)
		if err != nil {
			return nil, err
		}
		c.modules, c.changed = h.opts.Modules, func(m *tools.ToolManifest) { h.noticed(c, p.Name, m) }
		return c, nil
	case tools.KindMCP:
		return newServer(p, h.opts.Start, way, secrets, func(s *server, m *tools.ToolManifest) { h.noticed(s, p.Name, m) }), nil
	case tools.KindOpenAPI:
		return newAPI(p, way, secrets), nil
	}
	return nil, capabilities.Errorf(capabilities.CodeNotSupported, "this node hosts no providers of the kind %q", p.Kind)
}

// wayOf is where a provider may connect: the hosts of its record, and those of its URL and server.
// Requests to an HTTP API go besides where its document says, on the internet: a person approved
// each with its address.
func wayOf(p *tools.Provider) (*egress.Way, error) {
	hosts := slices.Clone(p.Net)
	for _, place := range []string{p.URL, p.Server} {
		if place == "" {
			continue
		}
		at, err := url.Parse(place)
		if err != nil {
			return nil, capabilities.Wrap(capabilities.CodeInvalidRequest, err, "")
		}
		hosts = append(hosts, egress.HostOf(at))
	}
	if p.Kind == tools.KindOpenAPI {
		return egress.NewPublicWay(hosts, "--net")
	}
	return egress.NewWay(hosts, "--net")
}

// Pause holds back what providers send, or lets it go on; what is open is ended.
func (h *Host) Pause(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.paused.Store(on)
	for _, p := range h.providers {
		p.backend.hold(on)
	}
}

// noticed takes over that a provider offers other things than it did. Tools whose words changed
// are called no more, from now on.
func (h *Host) noticed(by backend, name string, m *tools.ToolManifest) {
	h.mu.Lock()
	p := h.providers[name]
	// A provider that is hosted no more says nothing about the one in its place.
	if p == nil || p.backend != by || p.seen != nil && p.seen.Hash() == m.Hash() {
		h.mu.Unlock()
		return
	}
	next := *p
	next.seen = m
	err := h.takeLocked(&next)
	h.mu.Unlock()
	if err != nil {
		h.opts.Log.Error("provider.changed", "provider", name, "err", err)
		return
	}
	h.opts.Log.Warn("provider.changed", "provider", name, "manifest", m.Hash())
	h.opts.Changed()
}

// settleLocked works out which tools there are now.
func (h *Host) settleLocked() {
	clear(h.tools)
	h.sorted = nil
	for _, p := range h.providers {
		if p.seen == nil {
			continue
		}
		list, _ := tools.Describe(&p.record, p.seen)
		for _, d := range list {
			hash, approved := p.approved[d.Upstream]
			_, taken := h.opts.Catalog.Get(d.Tool)
			if !approved || taken {
				continue
			}
			h.tools[d.Tool] = offered{Described: d, of: p, changed: hash != d.Hash}
			h.sorted = append(h.sorted, d.Descriptor)
		}
	}
	slices.SortFunc(h.sorted, func(a, b *catalog.Descriptor) int { return strings.Compare(string(a.Tool), string(b.Tool)) })
	h.version++
}

// Tool finds an approved tool by its ID.
func (h *Host) Tool(id capabilities.ToolID) (*catalog.Descriptor, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, ok := h.tools[id]
	return t.Descriptor, ok
}

// Tools returns all approved tools, sorted by ID, and a number that moves when they change.
// The slice is shared.
func (h *Host) Tools() ([]*catalog.Descriptor, uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sorted, h.version
}

// Readiness says of each tool whether its provider can be called.
func (h *Host) Readiness(context.Context) []capabilities.Readiness {
	all, hosted := h.readiness()
	for i, t := range hosted { // it may look at files and start a runner, which nobody waits for
		if r := &all[len(all)-len(hosted)+i]; r.Ready() {
			h.runs(r, t)
		}
	}
	return all
}

// notAllowed is what to do where the device may host nothing.
const notAllowed = "The device's owner has to let it host providers."

// readiness is that of managing and, after it, of the tools.
func (h *Host) readiness() (all []capabilities.Readiness, hosted []offered) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range managing {
		r := capabilities.Readiness{Capability: c, Isolation: capabilities.ClassSession}
		if !h.opts.Allowed && c != capDrop {
			r.Reason, r.Fix, r.Action = capabilities.ReasonOwnerDisabled, notAllowed, capabilities.Action{Key: capabilities.ActionHostProviders}
		}
		all = append(all, r)
	}
	reach := map[string]error{} // by provider: the same for all tools of one
	for _, d := range h.sorted {
		t := h.tools[d.Tool]
		name := t.of.record.Name
		if _, known := reach[name]; !known {
			reach[name] = h.reaches(t.of)
		}
		all, hosted = append(all, h.readyLocked(t, reach[name])), append(hosted, t)
	}
	return all, hosted
}

func (h *Host) readyLocked(t offered, reach error) capabilities.Readiness {
	p := t.of
	r := capabilities.Readiness{Capability: t.Capability, Backend: string(p.record.Kind)}
	class, degraded, err := h.class(&p.record, t.Descriptor)
	r.Isolation, r.Degraded = class, degraded
	switch {
	case !h.opts.Allowed:
		r.Reason, r.Fix, r.Action = capabilities.ReasonOwnerDisabled, notAllowed, capabilities.Action{Key: capabilities.ActionHostProviders}
	case reach != nil:
		e := capabilities.AsError(reach)
		r.Reason, r.Fix, r.Action = capabilities.ReasonOwnerDisabled, e.PublicHint(), e.PublicAction()
	case t.changed:
		r.Reason, r.Fix = capabilities.ReasonManifestChanged, "An admin has to look at the change."
		r.Action = capabilities.Action{Key: capabilities.ActionReviewTool, Tool: t.Tool}
	case err != nil:
		e := capabilities.AsError(err)
		r.Reason, r.Fix, r.Action = capabilities.ReasonIsolationMissing, e.PublicHint(), e.PublicAction()
	default:
		if e := p.credentials.missing(); e != nil {
			r.Reason = capabilities.ReasonCredentialMissing
			if p.credentials.signedOut() {
				r.Reason = capabilities.ReasonNeedsSignIn
			}
			r.Fix = capabilities.Clip(e.PublicMessage()+". "+e.PublicHint(), 300)
		} else if e := p.backend.health(); e != nil && e.Code == capabilities.CodeSecretUnavailable {
			r.Reason, r.Fix, r.Action = capabilities.ReasonNeedsSignIn, capabilities.Clip(e.PublicHint(), 300), e.PublicAction()
		} else if e != nil {
			fix, then := e.Hint, e.Action
			if fix == "" {
				fix, then = lookHint(&p.record)
			}
			r.Reason, r.Fix, r.Action = capabilities.ReasonBackendFailing, capabilities.Clip(e.PublicMessage()+" "+fix, 300), then
		}
	}
	return r
}

// class is what a tool of a provider gets here. Nothing runs of an API, or of a server at a
// URL: our own client goes there. A module is of class t0 on every system. A command starts anew
// for each call, in the class that its tool needs; a server serves all of its tools in one.
func (h *Host) class(p *tools.Provider, d *catalog.Descriptor) (capabilities.IsolationClass, string, error) {
	if p.Kind == tools.KindOpenAPI || p.URL != "" && p.Kind == tools.KindMCP {
		return capabilities.ClassT2, "", nil
	}
	if p.Module() != "" {
		if h.opts.Modules == nil {
			return capabilities.ClassNone, "", capabilities.Errorf(capabilities.CodeIsolationUnavailable, "WebAssembly modules are not run here")
		}
		return capabilities.ClassT0, "", nil
	}
	way, err := wayOf(p)
	if err != nil {
		return capabilities.ClassNone, "", err
	}
	program := Program{Read: p.Read, Write: p.Write, Net: way}
	if p.Kind == tools.KindCommand {
		program.Class = d.Defaults.Isolation
	}
	return h.opts.Start.Class(program)
}

// runs says in r what the program of a tool runs in, where it is one that stands behind walls.
func (h *Host) runs(r *capabilities.Readiness, t offered) {
	p := Program{Argv: t.of.record.Command, Read: t.of.record.Read, Write: t.of.record.Write}
	if c, ok := t.of.backend.(*command); ok && c.templates[t.Upstream] != nil {
		p.Argv = c.templates[t.Upstream].Argv
	}
	if len(p.Argv) > 0 && t.of.record.Module() == "" {
		r.Deeper, r.Program = h.opts.Start.Runs(p)
	}
}

// Handle carries out one call: of a provider's tool, or of managing.
func (h *Host) Handle(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	if run := h.manages(inv.Capability); run != nil {
		return run(ctx, inv)
	}
	h.mu.Lock()
	t, ok := h.tools[inv.Capability.Tool()]
	h.mu.Unlock()
	switch {
	case !ok:
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeCapabilityNotAdvertised, "this node does not host %s",
			inv.Capability.Tool())
	// Readiness says these, too; the look at it and the call are not one moment.
	case !h.opts.Allowed:
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeNodeNotReady, "the device's owner lets nobody have providers run here")
	case t.changed:
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeNodeNotReady, "the provider changed what it says of %s", t.Tool)
	}
	if err := h.reaches(t.of); err != nil {
		return capabilities.Output{}, err
	}
	if err := t.of.credentials.missing(); err != nil {
		return capabilities.Output{}, err
	}
	before := t.of.backend.denied()
	t.of.begin(&inv)
	defer t.of.end(&inv)
	secrets := t.of.credentials
	progress := func(p capabilities.Progress) {
		p.Message = secrets.withheld().Text(p.Message)
		inv.Progress(p)
	}
	out, err := t.of.backend.call(ctx, call{
		id: inv.Call, upstream: t.Upstream, hash: t.Hash, request: t.Request, args: inv.Args, class: t.Defaults.Isolation, progress: progress,
		reads: t.Annotations.ReadOnly, spawns: t.Manifest.Has(capabilities.KeySpawn), inv: inv,
	})
	kept := secrets.withheld() // after the call: another value may have come while it ran
	if err == nil {
		out, err = kept.Output(out)
	}
	out.Untrusted = true // whoever wrote the provider wrote what it says
	if err != nil {
		return out, kept.Error(t.of.withDenied(before, err))
	}
	if t.Annotations.ReadOnly && out.Effect == capabilities.EffectUnverifiable {
		out.Effect = capabilities.EffectConfirmed // as for every kind: its answer is all that it does
	}
	return out, nil
}

// withDenied adds to the error of a call which file its program was kept from changing meanwhile,
// and the flag that allows it, where the error says nothing of what to do.
func (p *hosted) withDenied(before map[string]int, err error) error {
	e := *capabilities.AsError(err)
	if e.Code != capabilities.CodeExecutionFailed || e.Hint != "" {
		return err
	}
	after := p.backend.denied()
	for _, path := range slices.Sorted(maps.Keys(after)) {
		if t := deniedWrite(path); after[path] > before[path] && t.Flag != "" {
			return e.WithHint("It wanted " + t.Target + ", which its provider may not write: an admin allows that with " + t.Flag + ".")
		}
	}
	return err
}

// CloseLane frees nothing: providers know no lanes.
func (h *Host) CloseLane(capabilities.LaneID) {}

// Close ends every provider. Idempotent.
func (h *Host) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	all := h.providers
	h.providers, h.tools, h.sorted = map[string]*hosted{}, map[capabilities.ToolID]offered{}, nil
	h.mu.Unlock()
	var ending sync.WaitGroup
	for _, p := range all {
		ending.Go(p.backend.close)
	}
	ending.Wait()
	var err error
	if h.opts.Modules != nil {
		err = h.opts.Modules.Close()
	}
	return errors.Join(err, h.keep.root.Close())
}
