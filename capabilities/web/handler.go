package web

import (
	"context"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/egress"
)

// Options of New.
type Options struct {
	// Origins are what the owner named besides the internet, such as "http://127.0.0.1:8080".
	Origins []string
	// Allow and Block are the owner's domains: "example.com", or "*.example.com" for it and all
	// below it. An empty Allow is every host.
	Allow, Block []string
	// Search is where the web is searched: the address of a SearXNG server, or a file with an index;
	// "": nowhere.
	Search string
}

// Handler carries out the web family. Safe for concurrent use.
type Handler struct {
	way     *egress.Way
	backend backend // nil: none
	// slots bounds how many pages are made text at once: that cannot be stopped half-way.
	slots chan struct{}
}

// maxPages is how many pages are made text at once.
const maxPages = 2

// New reads the owner's words; an entry that cannot be read is an error that names it.
func New(o Options) (*Handler, error) {
	way, err := egress.NewPublicWay(nil, "")
	if err == nil {
		err = way.Name(o.Origins)
	}
	if err == nil {
		err = way.Narrow(o.Allow, o.Block)
	}
	if err != nil {
		return nil, err
	}
	h := &Handler{way: way, slots: make(chan struct{}, maxPages)}
	switch {
	case o.Search == "":
	case strings.Contains(o.Search, "://"):
		h.backend, err = newSearXNG(o.Search, o.Block)
	default:
		h.backend, err = readIndex(o.Search)
	}
	if err != nil {
		return nil, err
	}
	return h, nil
}

type run = func(*Handler, context.Context, capabilities.Invocation) (capabilities.Output, error)

// family is what the handler implements.
var family = capabilities.Tools[run]{
	{Capability: "tyrum.web.fetch", Run: (*Handler).fetch}, {Capability: "tyrum.web.search", Run: (*Handler).search},
}

// Capabilities lists the family.
func (h *Handler) Capabilities() []capabilities.CapabilityID { return family.Capabilities() }

// Readiness is always ready for fetching (S3-12), and for searching where the owner said with what.
// Nothing runs of a page: this program's own client goes there, by the rules of the egress, which
// is what t2 asks for.
func (h *Handler) Readiness(context.Context) []capabilities.Readiness {
	fetch := capabilities.Readiness{Capability: "tyrum.web.fetch", Isolation: capabilities.ClassT2}
	search := capabilities.Readiness{Capability: "tyrum.web.search", Isolation: capabilities.ClassT2}
	if h.backend == nil {
		search.Reason = capabilities.ReasonOwnerDisabled
		search.Fix, search.Action = "The device's owner has to name a SearXNG server.", capabilities.Action{Key: capabilities.ActionNameSearch}
	}
	return []capabilities.Readiness{fetch, search}
}

// Handle carries out one call.
func (h *Handler) Handle(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	do, err := family.Find(inv.Capability)
	if err != nil {
		return capabilities.Output{}, err
	}
	ctx, inv, cancel := capabilities.Prepare(ctx, inv)
	defer cancel(nil)
	out, err := do(h, ctx, inv)
	out.Untrusted = true
	if err != nil && ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	return out, err
}

var _ capabilities.Pauser = (*Handler)(nil)

// Pause holds back what goes out, and ends what is open.
func (h *Handler) Pause(on bool) {
	h.way.Hold(on)
	if s, ok := h.backend.(*searXNG); ok {
		s.way.Hold(on)
	}
}

// CloseLane frees nothing: no call leaves anything to the next.
func (h *Handler) CloseLane(capabilities.LaneID) {}

// Close frees nothing. Idempotent.
func (h *Handler) Close() error { return nil }

// has reports whether a call's grants hold a key; without any they are not known.
func has(grants []string, key string) bool {
	return len(grants) == 0 || slices.Contains(grants, key)
}
