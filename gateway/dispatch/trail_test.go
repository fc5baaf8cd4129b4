package dispatch

import (
	"testing"

	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// A body that no packet can hold is the commit's to refuse.
func TestBodyTooLarge(t *testing.T) {
	draft := new(trail).draft(ledger.KindCallDecision, &packet.Decision{Policies: []string{string(make([]byte, ledger.MaxBody))}})
	if _, err := ledger.Encode(draft.Body); err == nil {
		t.Fatal("it was taken")
	}
}
