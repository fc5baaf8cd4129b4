package dispatch

import (
	"context"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/store"
)

// failing is people whose grant cannot be spent any more when the call is committed.
type failing struct {
	yes
	err error
}

func (f failing) SpendIn(*store.Tx, consent.Permit) error { return f.err }

// A commit that fails sends nothing, and the refusal is recorded.
func TestFailedCommitSendsNothing(t *testing.T) {
	nodes := newFakeNodes("n1")
	nodes.dispatch = func(context.Context, *wire.Ticket, func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
		t.Error("a ticket left")
		return wire.Answer{}, nil, nil
	}
	for _, code := range []capabilities.Code{capabilities.CodeConsentDenied, capabilities.CodeLedgerUnavailable} {
		h := newHouse(t, nodes, func(o *Options) { o.Consent = failing{err: &capabilities.Error{Code: code}} })
		h.rules(`permit(principal, action, resource) when { context.consent };`)
		r := h.evaluate("r1")
		if r.Code != code {
			t.Errorf("%+v", r)
		}
		h.wantKinds(r.Call, "request", "decision", "failed")
	}
}
