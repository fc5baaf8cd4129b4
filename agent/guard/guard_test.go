package guard

import (
	"crypto/sha256"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

const tool = capabilities.ToolID("tool.browser.evaluate")

// loader is made once: what rules can speak about is dear to work out.
var loader = sync.OnceValues(func() (*policy.Loader, error) {
	cat, err := catalog.Embedded()
	if err != nil {
		return nil, err
	}
	return policy.NewLoader(cat)
})

func mustEngine(t *testing.T, cedar string) *policy.Engine {
	t.Helper()
	l, err := loader()
	if err != nil {
		t.Fatal(err)
	}
	e, err := l.Load([]policy.Source{{Name: "owner.cedar", Data: []byte(cedar)}})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

const permitAll = `permit(principal, action, resource);`

type fixture struct {
	guard *Guard
	stop  *StopSwitch
	ready capabilities.Readiness
}

func newFixture(t *testing.T, owner string) *fixture {
	t.Helper()
	stop, err := OpenStopSwitch(filepath.Join(t.TempDir(), "stop.json"), "site", nil)
	if err != nil {
		t.Fatal(err)
	}
	engine := mustEngine(t, owner)
	return &fixture{
		stop: stop,
		guard: New(Options{
			Node:  func() policy.Node { return policy.Node{ID: "n1"} },
			Owner: engine.Decide, Stop: stop,
			InSession: func(id capabilities.ToolID) bool { return engine.Profile(id).InSession },
		}),
		ready: capabilities.Readiness{Capability: "tyrum.browser.evaluate", Isolation: capabilities.ClassT2},
	}
}

func (f *fixture) ticket(t *testing.T, seq uint64) *wire.Ticket {
	t.Helper()
	engine := mustEngine(t, permitAll)
	profile := engine.Profile(tool)
	now := time.Now()
	sealed, err := policy.BuildEnvelope(policy.EnvelopeInput{
		Profile: profile, Principal: "agent-1", Lane: "main", Selected: "n1", Mode: capabilities.SelectSole,
		Node: policy.Node{ID: "n1"}, ArgsDigest: make([]byte, 32), Policy: engine.SnapshotID(), Created: now, Expires: now.Add(time.Minute),
	})
	if err != nil {
		t.Fatal(err)
	}
	args := []byte(`{"expression":"1"}`)
	return &wire.Ticket{
		Call: "c1", Tool: tool, Capability: "tyrum.browser.evaluate", Lane: "main", Node: "n1", Args: args, ArgsDigest: sha256.Sum256(args),
		Envelope: sealed.Bytes, Grants: sealed.Grants, Sequence: seq, LifetimeMS: 1000, DeadlineMS: 1000,
	}
}

func TestTicketsThatMustNotRun(t *testing.T) {
	tests := []struct {
		name  string
		owner string
		alter func(f *fixture, tk *wire.Ticket)
		want  capabilities.Code
	}{
		{"as it should be", permitAll, func(*fixture, *wire.Ticket) {}, ""},
		{"other arguments", permitAll, func(_ *fixture, tk *wire.Ticket) { tk.Args = []byte(`{"expression":"2"}`) }, capabilities.CodeTicketInvalid},
		{"another node", permitAll, func(_ *fixture, tk *wire.Ticket) { tk.Node = "n2" }, capabilities.CodeTicketInvalid},
		{"another tool under the envelope", permitAll, func(_ *fixture, tk *wire.Ticket) { tk.Tool = "tool.browser.click" }, capabilities.CodeTicketInvalid},
		{"another lane than the envelope's", permitAll, func(_ *fixture, tk *wire.Ticket) { tk.Lane = "other" }, capabilities.CodeTicketInvalid},
		{"no envelope", permitAll, func(_ *fixture, tk *wire.Ticket) { tk.Envelope = nil }, capabilities.CodeTicketInvalid},
		{"a flipped byte in the envelope", permitAll, func(_ *fixture, tk *wire.Ticket) { tk.Envelope[20] ^= 1 }, capabilities.CodeTicketInvalid},
		{"a grant beyond the envelope", permitAll, func(_ *fixture, tk *wire.Ticket) {
			tk.Grants = append(append([]string(nil), tk.Grants...), "privileged.input.inject")
		}, capabilities.CodeTicketInvalid},
		{"sequence zero", permitAll, func(_ *fixture, tk *wire.Ticket) { tk.Sequence = 0 }, capabilities.CodeTicketReplayed},
		{"below the floor", permitAll, func(f *fixture, tk *wire.Ticket) { f.guard.Connected(50_000); tk.Sequence = 3 }, capabilities.CodeTicketReplayed},
		{"stopped", permitAll, func(f *fixture, _ *wire.Ticket) { _ = f.stop.Set(1, true) }, capabilities.CodeStopped},
		{"from before the last stop", permitAll, func(f *fixture, _ *wire.Ticket) { _ = f.stop.Set(1, true); _ = f.stop.Set(2, false) }, capabilities.CodeStopped},
		{"not ready", permitAll, func(f *fixture, _ *wire.Ticket) { f.ready.Reason = capabilities.ReasonBackendMissing }, capabilities.CodeNodeNotReady},
		{"a weaker class", permitAll, func(f *fixture, _ *wire.Ticket) { f.ready.Isolation = capabilities.ClassT1 }, capabilities.CodeIsolationUnavailable},
		{"a session that the tool does not name", permitAll, func(f *fixture, _ *wire.Ticket) {
			f.ready.Isolation, f.guard.opts.InSession = capabilities.ClassSession, nil
		}, capabilities.CodeIsolationUnavailable},
		{"a session that it names", permitAll, func(f *fixture, _ *wire.Ticket) { f.ready.Isolation = capabilities.ClassSession }, ""},
		{"degraded", permitAll, func(f *fixture, _ *wire.Ticket) { f.ready.Degraded = "chrome_sandbox" }, capabilities.CodeIsolationUnavailable},
		{"the owner has no rule", "", func(*fixture, *wire.Ticket) {}, capabilities.CodeDeniedByNode},
		{"the owner forbids", permitAll + `forbid(principal, action == Action::"tool.browser.evaluate", resource);`, func(*fixture, *wire.Ticket) {}, capabilities.CodeDeniedByNode},
		{"the owner wants to be asked", `permit(principal, action, resource) when { context.consent };`, func(*fixture, *wire.Ticket) {}, capabilities.CodeConsentUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, tt.owner)
			tk := f.ticket(t, 7)
			tt.alter(f, tk)
			err := f.guard.Check(t.Context(), tk, f.ready)
			switch {
			case tt.want == "" && err != nil:
				t.Fatalf("refused: %v", err)
			case tt.want != "" && (err == nil || err.Code != tt.want):
				t.Fatalf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestTicketRunsOnce(t *testing.T) {
	f := newFixture(t, permitAll)
	if err := f.guard.Check(t.Context(), f.ticket(t, 5), f.ready); err != nil {
		t.Fatal(err)
	}
	if err := f.guard.Check(t.Context(), f.ticket(t, 5), f.ready); err == nil || err.Code != capabilities.CodeTicketReplayed {
		t.Fatalf("a repeated ticket gave %v", err)
	}
	if err := f.guard.Check(t.Context(), f.ticket(t, 4), f.ready); err != nil {
		t.Fatalf("streams may overtake each other: %v", err)
	}
}

// A sequence is taken at most once, whatever the order.
func TestWindowNeverTakesTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		floor := rapid.Uint64Range(0, 5000).Draw(t, "floor")
		w := window{top: floor}
		taken := map[uint64]bool{}
		for _, seq := range rapid.SliceOfN(rapid.Uint64Range(0, 8000), 1, 300).Draw(t, "sequences") {
			ok := w.accept(seq)
			if ok && (taken[seq] || seq == 0) {
				t.Fatalf("sequence %d was taken twice", seq)
			}
			if !ok && seq > w.top {
				t.Fatalf("new sequence %d was refused", seq)
			}
			taken[seq] = taken[seq] || ok
		}
	})
}
