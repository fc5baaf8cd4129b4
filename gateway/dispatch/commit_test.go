package dispatch

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// Each value of a phase has its makers, by the source: a committed comes from the one call of
// durable.Commit, and a transport is only reached with one.
func TestEachPhaseHasItsMaker(t *testing.T) {
	makers := map[string][]string{
		"durable.Commit": {"commit.go"}, "&resolved{": {"resolve.go"}, "&routed{": {"place.go", "step.go"}, "&decided{": {"decide.go", "permit.go"},
		"&permitted{": {"permit.go", "reserve.go"}, "&order{": {"commit.go"},
		"Nodes.Dispatch(": {"send.go"}, "Nodes.Deliver(": {"secret.go"}, "Nodes.Conduct(": {"step.go"}, "wire.Ticket{": {"send.go"},
	}
	files, err := filepath.Glob("*.go")
	must(t, err)
	for text, want := range makers {
		var found []string
		for _, name := range files {
			source, err := os.ReadFile(name)
			must(t, err)
			if !strings.HasSuffix(name, "_test.go") && strings.Contains(string(source), text) {
				found = append(found, name)
			}
		}
		if !slices.Equal(found, want) {
			t.Errorf("%s stands in %q, want %q", text, found, want)
		}
	}
}
