package dispatch

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/refusal"
	"github.com/handrail-dev/handrail/gateway/nodes/nodestest"
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
	nodes := nodestest.New("n1")
	nodes.Carry = func(context.Context, *wire.Ticket, func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
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

// stopping are people who stop everything after they said yes.
type stopping struct {
	yes
	on *atomic.Bool
}

func (s stopping) Await(ctx context.Context, a consent.Ask) (consent.Permit, error) {
	s.on.Store(true)
	return s.yes.Await(ctx, a)
}

// A stop that comes after the last look at it, and before the commit, holds: no call is ordered
// behind it in the ledger.
func TestNothingIsCommittedAfterAStop(t *testing.T) {
	nodes := nodestest.New("n1")
	nodes.Carry = func(context.Context, *wire.Ticket, func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
		t.Error("a ticket left")
		return wire.Answer{}, nil, nil
	}
	var on atomic.Bool
	h := newHouse(t, nodes, func(o *Options) {
		o.Consent, o.Stop = stopping{on: &on}, func() (uint64, bool) { return 1, on.Load() }
	})
	h.rules(`permit(principal, action, resource) when { context.consent };`)
	r := h.evaluate("r1")
	want(t, r, capabilities.StatusDenied, capabilities.CodeStopped)
	h.wantKinds(r.Call, "request", "decision", "failed")
}

// A call that the ledger cannot take is not its caller's fault: it does not count as a
// refusal, and the log says once that it is unrecorded. A refusal in the commit is recorded.
func TestFailedCommitIsNotTheCallersFault(t *testing.T) {
	for _, c := range []struct {
		code       capabilities.Code
		counted    bool
		unrecorded int
	}{{capabilities.CodeLedgerUnavailable, false, 1}, {capabilities.CodeConsentDenied, true, 0}} {
		var log bytes.Buffer
		h := newHouse(t, nodestest.New("n1"), func(o *Options) {
			o.Consent = failing{err: &capabilities.Error{Code: c.code}}
			o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
		})
		h.rules(`permit(principal, action, resource) when { context.consent };`)
		if !c.counted {
			must(t, h.store.Write(t.Context(), func(tx *store.Tx) error {
				_, err := tx.Exec(`CREATE TRIGGER full BEFORE INSERT ON packet_store BEGIN SELECT RAISE(ABORT, 'full'); END`)
				return err
			}))
		}
		spend(h, agentCaller.Principal)
		want(t, h.evaluate(""), c.code.Info().Status, c.code)
		if n := strings.Count(log.String(), "tools.dispatch.unrecorded"); n != c.unrecorded {
			t.Errorf("%s: said %d times that it is unrecorded:\n%s", c.code, n, &log)
		}
		if away := h.refusals.TurnAway(agentCaller.Principal, toolEvaluate, time.Time{}) != nil; away != c.counted {
			t.Errorf("%s: counted: %v, want %v", c.code, away, c.counted)
		}
		if !c.counted {
			must(t, h.store.Write(t.Context(), func(tx *store.Tx) error { _, err := tx.Exec(`DROP TRIGGER full`); return err }))
		}
	}
}

// spend takes all but one refusal from a principal's allowance, at a time that gives nothing
// back while the test runs.
func spend(h *house, who capabilities.PrincipalID) {
	at := time.Now().Add(time.Hour)
	var like refusal.Book
	for like.TurnAway(who, "", at) == nil {
		like.Count(who, at)
		if like.TurnAway(who, "", at) == nil {
			h.refusals.Count(who, at)
		}
	}
}

// Each value of a phase has its makers, by the source: a committed comes from the one call of
// durable.Commit, and a transport is only reached with one. So no tool runs, and no effect comes
// about, that was not decided on (S2-26, S4-04, S4-08, S4-13, S4-49).
func TestEachPhaseHasItsMaker(t *testing.T) {
	makers := map[string][]string{
		"durable.Commit": {"commit.go"}, "&resolved{": {"resolve.go"}, "&routed{": {"place.go", "step.go"}, "&decided{": {"decide.go", "permit.go"},
		"&permitted{": {"permit.go", "reserve.go"}, "&order{": {"commit.go"},
		"Nodes.Dispatch(": {"send.go"}, "Nodes.Deliver(": {"secret.go"}, "Nodes.Conduct(": {"step.go"}, "Nodes.Converse(": {"elicit.go"}, "wire.Ticket{": {"send.go"},
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
