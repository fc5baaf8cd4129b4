package gateway

import (
	"context"
	"encoding/hex"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/drift"
	"github.com/handrail-dev/handrail/gateway/drift/events"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// drifts writes drift down, so that none is without its trace (S1-65).
type drifts struct {
	*events.Book
	g *Gateway
}

// ownWork reports whether a tool is people's own work at a surface: no model calls it.
func (g *Gateway) ownWork(id capabilities.ToolID) bool {
	desc, ok := g.Registry.Get(id)
	return ok && !desc.ModelFacing
}

// manifest returns the hash of a tool's manifest, also of one that its provider has and nobody may
// call; "": there is none.
func (g *Gateway) manifest(id capabilities.ToolID) string {
	desc, ok := g.Registry.Get(id)
	if !ok {
		_, t, err := g.Providers.Tool(id)
		if err != nil {
			return ""
		}
		desc = t.Descriptor
	}
	sum := desc.Hash()
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Manifest is manifest, for surfaces.
func (d drifts) Manifest(id capabilities.ToolID) string { return d.g.manifest(id) }

// maxDriftEach is how many signals one packet holds: its body is bounded.
const maxDriftEach = 20

// Uncounted records how many signals of a visitor's pages were too many to be recorded.
func (d drifts) Uncounted(ctx context.Context, who principal.Identity, more packet.DriftUncounted) error {
	return d.Record(ctx, ledger.Draft{Kind: ledger.KindDriftUncounted, Principal: who.Principal, Body: more})
}

// Surfaced records what a page showed without a grant.
func (d drifts) Surfaced(ctx context.Context, who principal.Identity, report drift.Surfaced, signals []drift.Signal) error {
	var drafts []ledger.Draft
	for len(signals) > 0 {
		n := min(len(signals), maxDriftEach)
		told := make([]packet.Signal, n)
		for i, s := range signals[:n] {
			told[i] = packet.Signal{ID: events.NewID(), Severity: s.Severity, Control: s.Control, Call: s.Call, Key: s.Key, Text: s.Text}
		}
		drafts = append(drafts, ledger.Draft{Kind: ledger.KindDriftSurfaced, Principal: who.Principal, Body: packet.Surfaced{
			Surface: report.Surface, Page: report.Page, TokenID: who.TokenID, Role: who.Role.String(), Signals: told,
		}})
		signals = signals[n:]
	}
	return d.Record(ctx, drafts...)
}
