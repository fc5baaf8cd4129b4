package provider

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// The capabilities by which the gateway manages what a node hosts. They are calls like any
// other: policy decides about them, a person confirms them, both ledgers have them.
const (
	capHost  capabilities.CapabilityID = "tyrum.provider.host"
	capOffer capabilities.CapabilityID = "tyrum.provider.offer"
	capDrop  capabilities.CapabilityID = "tyrum.provider.drop"
	// capCredential comes with a secret, sealed to this node; capWithdraw takes all of one back.
	capCredential capabilities.CapabilityID = "tyrum.provider.credential"
	capWithdraw   capabilities.CapabilityID = "tyrum.provider.withdraw"
)

var managing = []capabilities.CapabilityID{capHost, capOffer, capDrop, capCredential, capWithdraw}

// Managing lists the capabilities by which a node is told what it hosts, for a device that is
// about to join.
func Managing() []capabilities.CapabilityID { return slices.Clone(managing) }

// Capabilities lists those of managing; a provider's tools come and go.
func (h *Host) Capabilities() []capabilities.CapabilityID { return managing }

func (h *Host) manages(c capabilities.CapabilityID) func(context.Context, capabilities.Invocation) (capabilities.Output, error) {
	switch c {
	case capHost:
		return h.host
	case capOffer:
		return h.offer
	case capDrop:
		return h.drop
	case capCredential:
		return h.credential
	case capWithdraw:
		return h.withdraw
	}
	return nil
}

// host takes a provider up, or asks one that is hosted what it offers now. A tool
// stays approved where the provider still says the same of it.
func (h *Host) host(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	if !h.opts.Allowed { // readiness says so; this is the wall
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeNodeNotReady, "the device's owner lets nobody have providers run here")
	}
	var args struct {
		Provider string          `json:"provider"`
		Record   json.RawMessage `json:"record"`
		Manifest string          `json:"manifest"`
	}
	var p tools.Provider
	if err := json.Unmarshal(inv.Args, &args); err != nil {
		return capabilities.Output{}, capabilities.Wrap(capabilities.CodeInvalidArguments, err, "")
	}
	if err := json.Unmarshal(args.Record, &p); err != nil {
		return capabilities.Output{}, capabilities.Wrap(capabilities.CodeInvalidArguments, err, "The record cannot be read.")
	}
	if args.Manifest != "" {
		p.Manifest = json.RawMessage(args.Manifest)
	}
	if err := p.Validate(); err != nil {
		return capabilities.Output{}, err
	}
	if p.Name != args.Provider {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeInvalidArguments, "the record is of another provider")
	}
	secrets := newCredentials(&p)
	h.mu.Lock()
	real, err := h.placesLocked(&p)
	// The same provider, asked again, keeps what it was given; another one gets nothing of it.
	was := h.providers[p.Name]
	again := was != nil && tools.OriginOf(&was.record, nil) == tools.OriginOf(&p, nil)
	if again {
		secrets = was.credentials
	}
	h.mu.Unlock()
	if err != nil {
		return capabilities.Output{}, err
	}
	b, err := h.backend(&p, secrets)
	if err != nil {
		return capabilities.Output{}, err
	}
	inv.Observe("execution.proc.spawn", p.Name)
	w, _ := b.(watched)
	if again && w != nil { // somebody wants to know what it lacks
		w.tellReads()
	}
	m, err := b.manifest(ctx)
	if capabilities.CodeOf(err) == capabilities.CodeSecretUnavailable && secrets.missing() != nil {
		// It says nothing of its tools before somebody approved it with its credential.
		m, err = &tools.ToolManifest{Provider: p.Name}, nil
	}
	if err != nil {
		b.close()
		if e := capabilities.AsError(err); e.Hint == "" && e.Code == capabilities.CodeExecutionFailed {
			if !again {
				w = h.watched(ctx, &p, secrets)
			}
			if hint := missedHint(w); hint != "" {
				err = e.WithHint(hint)
			} else {
				hint, then := lookHint(&p)
				err = e.WithAction(then, hint)
			}
		}
		return capabilities.Output{}, secrets.withheld().Error(err)
	}
	_, refused := tools.Describe(&p, m)
	one := &hosted{calls: &calls{}, record: p, backend: b, credentials: secrets, seen: m, approved: map[string]string{}}
	h.mu.Lock()
	before := h.providers[p.Name]
	if before != nil {
		one.approved = maps.Clone(before.approved)
	}
	one.real = real
	if _, err = h.placesLocked(&p); err == nil { // others may have come meanwhile
		err = moved(&p, real)
	}
	if err == nil {
		err = h.takeLocked(one)
	}
	h.mu.Unlock()
	if err != nil {
		b.close()
		return capabilities.Output{}, err
	}
	if before != nil {
		before.backend.close()
	}
	h.opts.Changed()
	text, err := json.Marshal(m)
	if err != nil {
		return capabilities.Output{}, capabilities.AsError(err)
	}
	return capabilities.Output{Effect: capabilities.EffectConfirmed, Untrusted: true, Result: map[string]any{
		"manifest": string(text), "manifest_hash": m.Hash(),
		"refused": append([]tools.Refused{}, refused...), "tried": tried(one, before),
	}}, nil
}

// watched is a backend whose programs can be watched for what they want to read and are not shown.
// They are not as a rule: each look at a file then waits for the node. Its methods are safe for
// concurrent use.
type watched interface {
	// tellReads has those watched that it starts from now on, for a while.
	tellReads()
	// missed is what they wanted to read since then, with how often; nil: it watches none.
	missed() map[string]int
}

var (
	_ watched = (*server)(nil)
	_ watched = (*command)(nil)
)

// watched starts the program of an MCP server once more, for as long as it takes to say what it
// offers, and watches it; nil: there is none to start.
func (h *Host) watched(ctx context.Context, p *tools.Provider, secrets *credentials) watched {
	if p.Kind != tools.KindMCP || p.URL != "" {
		return nil
	}
	b, err := h.backend(p, secrets)
	if err != nil {
		return nil // the caller hears it from its own
	}
	defer b.close()
	w, ok := b.(watched)
	if !ok {
		return nil
	}
	w.tellReads()
	_, _ = b.manifest(ctx) // the caller's own says how that ended
	return w
}

// missedHint names the first of the paths that a program was not shown, and the flag that shows it.
func missedHint(w watched) string {
	if w == nil {
		return ""
	}
	for _, path := range slices.Sorted(maps.Keys(w.missed())) {
		if t := deniedRead(path); t.Flag != "" {
			return "It wanted " + t.Target + "; allow it with " + t.Flag + "."
		}
	}
	return ""
}

// lookHint says how to find out why a provider does not answer, where nothing that it was kept from
// explains it.
func lookHint(p *tools.Provider) (string, capabilities.Action) {
	if p.URL != "" {
		return "See on that device whether its address answers, and whether it is the address of such a server.", capabilities.Action{}
	}
	return "Start its command on that device by hand, to see whether it serves there. Behind its walls it has the system's programs alone: " +
		"folders, hosts and variables are named when it is added.", capabilities.Action{Key: capabilities.ActionAddProvider, Name: p.Name}
}

// deniedRead words that a program was not shown a path. The flag has it, or its folder, read.
func deniedRead(path string) tools.Tried {
	t := tools.Tried{Target: "to read " + path, Why: "it lies in no folder that the provider may read", Count: 1}
	dir := path
	if st, err := os.Stat(path); err != nil || !st.IsDir() {
		dir = filepath.Dir(path)
	}
	if filepath.IsAbs(path) && dir != "/" && len(dir) < maxFlag {
		t.Flag = "--read " + dir
	}
	t.Target = capabilities.Clip(t.Target, maxFlag)
	return t
}

// tried is where a provider wanted to connect, and which files it wanted to change or to read, and
// was not let: since it was taken up, and before that as long as it was the same one. A program can
// put a value into the name of a host or a file.
func tried(now, before *hosted) []tools.Tried {
	list := []tools.Tried{}
	for _, p := range []*hosted{now, before} {
		if p == nil {
			continue
		}
		kept := p.credentials.withheld()
		add := func(t tools.Tried) {
			t.Target, t.Why, t.Flag = kept.Text(t.Target), kept.Text(t.Why), kept.Text(t.Flag)
			if !slices.ContainsFunc(list, func(o tools.Tried) bool { return o.Target == t.Target }) && len(list) < tools.MaxTried {
				list = append(list, t)
			}
		}
		for _, r := range p.backend.refused() {
			add(tools.Tried{Target: r.Target, Why: r.Why, Flag: r.Flag, Count: r.Count})
		}
		denied := p.backend.denied()
		for _, path := range slices.Sorted(maps.Keys(denied)) {
			t := deniedWrite(path)
			t.Count = denied[path]
			add(t)
		}
		if w, ok := p.backend.(watched); ok {
			for _, path := range slices.Sorted(maps.Keys(w.missed())) {
				add(deniedRead(path))
			}
		}
	}
	return list
}

// deniedWrite words that a program was kept from changing a path. The flag has its folder written.
func deniedWrite(path string) tools.Tried {
	t := tools.Tried{Target: "to change " + path, Why: "it lies in no folder that the provider may write"}
	if dir := filepath.Dir(path); filepath.IsAbs(path) && len(dir) < maxFlag {
		t.Flag = "--write " + dir
	}
	t.Target = capabilities.Clip(t.Target, maxFlag)
	return t
}

// maxFlag is how long a target or flag in a list of what was tried is, in bytes.
const maxFlag = 280

// takeLocked makes a provider durable and has its tools offered.
func (h *Host) takeLocked(one *hosted) error {
	if h.closed {
		return &capabilities.Error{Code: capabilities.CodeCancelled}
	}
	if err := h.keep.put(kept{Record: one.record, Manifest: one.seen, Approved: one.approved, Real: one.real}); err != nil {
		return capabilities.Wrap(capabilities.CodeExecutionFailed, err, "The node could not write the provider's record down.")
	}
	h.providers[one.record.Name] = one
	h.settleLocked()
	return nil
}

// offer has the tools of a provider called that a person approved, by the hashes of what they
// looked at. All others of the provider are called no more.
func (h *Host) offer(_ context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	var args struct {
		Provider string            `json:"provider"`
		Approved map[string]string `json:"approved"`
	}
	if err := json.Unmarshal(inv.Args, &args); err != nil {
		return capabilities.Output{}, capabilities.Wrap(capabilities.CodeInvalidArguments, err, "")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.providers[args.Provider]
	if p == nil {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeNotFound, "this node does not host the provider %q", args.Provider)
	}
	if n := len(h.tools) - h.countLocked(args.Provider) + len(args.Approved); n > maxOffered {
		return capabilities.Output{},
			capabilities.Errorf(capabilities.CodeConflict, "this node would offer %d tools of providers, and offers at most %d", n, maxOffered).
				WithAction(capabilities.Action{Key: capabilities.ActionAddProvider, Name: args.Provider},
					"Have another node host one of them, or add it anew with fewer tools.")
	}
	next := *p
	next.approved = args.Approved
	if err := h.takeLocked(&next); err != nil {
		return capabilities.Output{}, err
	}
	h.opts.Changed()
	return capabilities.Output{Effect: capabilities.EffectConfirmed, Result: map[string]any{"tools": h.countLocked(args.Provider)}}, nil
}

// maxOffered leaves room for what the device itself can do, in the one frame that names all.
const maxOffered = wire.MaxCapabilities - 256

func (h *Host) countLocked(provider string) (n int) {
	for _, t := range h.tools {
		if t.of.record.Name == provider {
			n++
		}
	}
	return n
}

// drop ends a provider. One that is not hosted is dropped already.
func (h *Host) drop(_ context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	var args struct {
		Provider string `json:"provider"`
	}
	if err := json.Unmarshal(inv.Args, &args); err != nil {
		return capabilities.Output{}, capabilities.Wrap(capabilities.CodeInvalidArguments, err, "")
	}
	h.mu.Lock()
	p := h.providers[args.Provider]
	if err := h.keep.drop(args.Provider); err != nil {
		h.mu.Unlock()
		return capabilities.Output{}, capabilities.Wrap(capabilities.CodeExecutionFailed, err, "The node could not forget the provider.")
	}
	delete(h.providers, args.Provider)
	h.settleLocked()
	h.mu.Unlock()
	if p != nil {
		p.backend.close()
		p.credentials.clear()
	}
	h.opts.Changed()
	return capabilities.Output{Effect: capabilities.EffectConfirmed, Result: map[string]any{"dropped": p != nil}}, nil
}
