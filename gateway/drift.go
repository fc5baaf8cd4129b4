package gateway

import (
	"context"

	"github.com/handrail-dev/handrail/gateway/drift"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// drifts writes drift down, so that none is without its trace (S1-65).
type drifts struct{ g *Gateway }

// maxDriftEach is how many signals one packet holds: its body is bounded.
const maxDriftEach = 20

// Surfaced records what a page showed without a grant.
func (d drifts) Surfaced(ctx context.Context, who principal.Identity, report drift.Surfaced, signals []drift.Signal) error {
	var drafts []ledger.Draft
	for len(signals) > 0 {
		n := min(len(signals), maxDriftEach)
		told := make([]packet.Signal, n)
		for i, s := range signals[:n] {
			told[i] = packet.Signal(s)
		}
		drafts = append(drafts, ledger.Draft{Kind: "gateway.drift.surfaced", Principal: who.Principal, Body: packet.Surfaced{
			Surface: report.Surface, Page: report.Page, TokenID: who.TokenID, Role: who.Role.String(), Signals: told,
		}})
		signals = signals[n:]
	}
	return d.g.Ledger.Append(ctx, drafts...)
}
