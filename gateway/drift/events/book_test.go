package events

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/drift"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
)

// house is a Book over a real store and ledger, with a clock of the test's.
type house struct {
	*Book
	t      testing.TB
	store  *store.Store
	ledger *ledger.Ledger
	now    time.Time
	hashes map[capabilities.ToolID]string
}

func newHouse(t testing.TB, dir string) *house {
	t.Helper()
	h := &house{t: t, now: time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC), hashes: map[capabilities.ToolID]string{"tool.a.x": "sha256:1", "tool.a.y": "sha256:2"}}
	var err error
	h.store, err = store.Open(context.Background(), store.Options{Path: filepath.Join(dir, "store.db"), ReserveBytes: -1, Migrations: slices.Concat(ledger.Migrations, Migrations())})
	must(t, err)
	h.ledger, err = ledger.Open(context.Background(), ledger.Options{Store: h.store, Chain: "gateway", Key: ed25519.NewKeyFromSeed(make([]byte, 32)), Now: func() time.Time { return h.now }})
	must(t, err)
	h.begin()
	return h
}

// begin is a Book as the next process loads it.
func (h *house) begin() {
	h.t.Helper()
	h.Book = New(Options{Store: h.store, Ledger: h.ledger, Now: func() time.Time { return h.now }, Manifest: func(id capabilities.ToolID) string { return h.hashes[id] }})
	must(h.t, h.Load(context.Background()))
}

var runner = drift.Runner{Host: "n1", Class: capabilities.ClassT1, Program: "sha256:p"}

func event(s drift.Severity) packet.Drift {
	return packet.Drift{ID: NewID(), Key: "network.egress.https", Signal: drift.Network, Severity: s, Evidence: "evil.example", Count: 1}
}

// end ends a call of a tool on a node, with events.
func (h *house) end(tool capabilities.ToolID, on drift.Runner, list ...packet.Drift) []packet.Drift {
	h.t.Helper()
	must(h.t, h.store.Write(context.Background(), func(tx *store.Tx) error {
		last, err := h.ledger.AppendIn(tx, ledger.Draft{Kind: ledger.KindCallResult, Call: "call_1", Tool: tool, Principal: "agent", Lane: "main", Node: on.Host})
		if err != nil {
			return err
		}
		return h.EndIn(tx, &Ended{Call: "call_1", Tool: tool, Principal: "agent", Lane: "main", Node: on.Host, Runner: on, Manifest: h.hashes[tool], Events: list}, &last[0])
	}))
	return list
}

func (h *house) refusal(tool capabilities.ToolID, on drift.Runner) capabilities.Code {
	e := h.Refuses(tool, func() drift.Runner { return on })
	if e == nil {
		return ""
	}
	if e.PublicHint() == "" || e.PublicAction().IsZero() {
		h.t.Errorf("%s has no fix", e.Code)
	}
	return e.Code
}

// An attempt of one of several calls is the provider's, whose runner it counts for: it is no
// call's, and raises no tool's risk (S1-05, S1-49, S1-52).
func TestAnEventOfSeveralCalls(t *testing.T) {
	h := newHouse(t, t.TempDir())
	one := event(drift.Violation)
	one.Among = []capabilities.CallID{"call_1", "call_2"}
	for range 3 {
		one.ID = NewID()
		h.end("tool.a.x", runner, one)
	}
	list, _, err := h.List(context.Background(), Filter{})
	must(t, err)
	if len(list) != 3 || list[0].Call != "" || list[0].Raises != 0 || h.Raised("tool.a.x", "n1") != 0 {
		t.Errorf("%+v", list)
	}
	if got := h.refusal("tool.a.x", runner); got != capabilities.CodeRunnerQuarantined {
		t.Errorf("after three: %q", got)
	}
}

// The third violation of one runner within an hour quarantines it, until a person lifts that with
// a reason; a restart changes nothing of it (S1-52).
func TestTheThirdViolationQuarantines(t *testing.T) {
	h := newHouse(t, t.TempDir())
	h.end("tool.a.x", runner, event(drift.Violation))
	h.now = h.now.Add(61 * time.Minute) // too long ago to count
	h.end("tool.a.x", runner, event(drift.Violation))
	h.end("tool.a.y", runner, event(drift.Violation), event(drift.Warning))
	other := runner
	other.Program = "sha256:q"
	h.end("tool.a.x", other, event(drift.Violation))
	if got := h.refusal("tool.a.x", runner); got != "" {
		t.Fatalf("two violations: %s", got)
	}
	h.end("tool.a.x", runner, event(drift.Violation))
	h.end("tool.a.x", runner, event(drift.Violation)) // that ran beside it
	h.begin()
	if got := h.refusal("tool.a.y", runner); got != capabilities.CodeRunnerQuarantined {
		t.Errorf("after the third: %q", got)
	}
	if got := h.refusal("tool.a.x", other); got != "" {
		t.Errorf("another program: %s", got)
	}
	list, _, err := h.List(context.Background(), Filter{})
	must(t, err)
	if got := fmt.Sprint(list[0].Response, list[1].Response, list[2].Response); got != "recordedquarantinedrecorded" {
		t.Errorf("responses %s", got)
	}
	if err := h.Lift(context.Background(), "ada", runner.Fingerprint(), " "); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
		t.Errorf("without a reason: %v", err)
	}
	must(t, h.Lift(context.Background(), "ada", runner.Fingerprint(), "a test of ours"))
	if err := h.Lift(context.Background(), "ada", runner.Fingerprint(), "again"); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Errorf("twice: %v", err)
	}
	h.now = h.now.Add(time.Second)
	h.end("tool.a.x", runner, event(drift.Violation)) // counts from none
	if got := h.refusal("tool.a.x", runner); got != "" {
		t.Errorf("one after it was lifted: %s", got)
	}
	h.end("tool.a.x", runner, event(drift.Violation), event(drift.Violation))
	h.begin()
	if got := h.refusal("tool.a.x", runner); got != capabilities.CodeRunnerQuarantined {
		t.Errorf("three more: %q", got)
	}
}

// Critical drift restricts the tool, wherever it runs, until a person has reviewed its manifest as
// it is now, with a reason (S1-53, S1-54).
func TestCriticalDriftRestricts(t *testing.T) {
	h := newHouse(t, t.TempDir())
	ctx := context.Background()
	h.end("tool.a.x", runner, event(drift.Critical), event(drift.Critical))
	h.begin()
	if got := h.refusal("tool.a.x", drift.Runner{Host: "n2"}); got != capabilities.CodeToolRestricted {
		t.Fatalf("elsewhere: %q", got)
	}
	if got := h.refusal("tool.a.y", runner); got != "" {
		t.Errorf("another tool: %s", got)
	}
	h.hashes["tool.a.x"] = "sha256:3"
	for _, c := range []struct {
		tool         capabilities.ToolID
		hash, reason string
		want         capabilities.Code
	}{
		{"tool.a.x", "sha256:1", "looked", capabilities.CodeConflict}, {"tool.a.x", "sha256:3", "", capabilities.CodeInvalidRequest},
		{"tool.a.x", "sha256:3", strings.Repeat("x", 501), capabilities.CodeInvalidRequest}, {"tool.a.y", "sha256:2", "looked", capabilities.CodeNotFound},
	} {
		if err := h.Review(ctx, "ada", c.tool, c.hash, c.reason); capabilities.CodeOf(err) != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if got := h.refusal("tool.a.x", runner); got != capabilities.CodeToolRestricted {
		t.Errorf("after refused reviews: %q", got)
	}
	must(t, h.Review(ctx, "ada", "tool.a.x", "sha256:3", "looked"))
	if got := h.refusal("tool.a.x", runner); got != "" {
		t.Errorf("after the review: %s", got)
	}
}

// A violation raises the risk of its tool on its node by one level and a critical event by two,
// until a person resolves them or 1,000 calls showed nothing (S1-05).
func TestEventsRaiseRisk(t *testing.T) {
	h := newHouse(t, t.TempDir())
	ctx := context.Background()
	raised := func() int { return h.Raised("tool.a.x", "n1") }
	h.end("tool.a.x", runner, event(drift.Warning))
	if raised() != 0 {
		t.Error("a warning raises")
	}
	first := h.end("tool.a.x", runner, event(drift.Violation))
	second := h.end("tool.a.x", runner, event(drift.Critical))
	h.end("tool.a.x", runner, event(drift.Critical))
	if raised() != MaxRaise || h.Raised("tool.a.x", "n2") != 0 || h.Raised("tool.a.y", "n1") != 0 {
		t.Errorf("raised %d", raised())
	}
	for i, id := range []string{first[0].ID, second[0].ID} {
		list, err := h.Resolve(ctx, "ada", "a test of ours", id)
		must(t, err)
		if e := list[0]; e.Resolved.IsZero() || e.By != "ada" || raised() != []int{3, 2}[i] {
			t.Errorf("%+v, raised %d", e, raised())
		}
		if _, err := h.Resolve(ctx, "ada", "again", id); capabilities.CodeOf(err) != capabilities.CodeConflict {
			t.Errorf("twice: %v", err)
		}
	}
	if _, err := h.Resolve(ctx, "ada", "x", "drift_none"); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Errorf("none: %v", err)
	}
	for range clean - 1 {
		h.end("tool.a.x", runner)
	}
	h.begin()
	h.end("tool.a.x", runner, event(drift.Violation)) // and they count anew
	for range clean - 1 {
		h.end("tool.a.x", runner)
	}
	if raised() != 3 {
		t.Errorf("before the thousandth: %d", raised())
	}
	h.end("tool.a.x", runner)
	h.begin()
	if raised() != 0 {
		t.Errorf("after 1,000 clean calls: %d", raised())
	}
	if list, _, err := h.List(ctx, Filter{Open: true}); err != nil || len(list) != 3 {
		t.Errorf("%d are open, %v: only a person resolves events", len(list), err)
	}
}

// Several events end by one reason, all or none, each with a packet of its own (S1-54).
func TestSeveralAreResolvedTogether(t *testing.T) {
	h := newHouse(t, t.TempDir())
	ctx := context.Background()
	var ids []string
	for range 3 {
		ids = append(ids, h.end("tool.a.x", runner, event(drift.Violation))[0].ID)
	}
	packets := func() int {
		list, err := h.ledger.Packets(ctx, ledger.Query{Kind: ledger.KindDriftResolved})
		must(t, err)
		return len(list)
	}
	many := make([]string, MaxResolved+1)
	for _, c := range []struct {
		ids    []string
		reason string
		want   capabilities.Code
	}{
		{append(slices.Clone(ids), "drift_none"), "looked", capabilities.CodeNotFound}, {append(slices.Clone(ids), ids[0]), "looked", capabilities.CodeConflict},
		{ids, " ", capabilities.CodeInvalidRequest}, {nil, "looked", capabilities.CodeInvalidRequest}, {many, "looked", capabilities.CodeInvalidRequest},
	} {
		if _, err := h.Resolve(ctx, "ada", c.reason, c.ids...); capabilities.CodeOf(err) != c.want {
			t.Errorf("%d events: %v, want %s", len(c.ids), err, c.want)
		}
		if open, _, err := h.List(ctx, Filter{Open: true}); err != nil || len(open) != 3 || packets() != 0 || h.Raised("tool.a.x", "n1") != 3 {
			t.Fatalf("after a refusal %d are open, %d packets, %v", len(open), packets(), err)
		}
	}
	list, err := h.Resolve(ctx, "ada", "looked", ids...)
	must(t, err)
	for i, e := range list {
		if e.ID != ids[i] || e.Resolved.IsZero() || e.By != "ada" || e.Reason != "looked" {
			t.Errorf("%+v", e)
		}
	}
	if len(list) != 3 || packets() != 3 || h.Raised("tool.a.x", "n1") != 0 {
		t.Errorf("%d events, %d packets, raised %d", len(list), packets(), h.Raised("tool.a.x", "n1"))
	}
}

// A list is narrowed by tool, node, call, signal and severity, and by several at once.
func TestListsAreNarrowed(t *testing.T) {
	h := newHouse(t, t.TempDir())
	ctx := context.Background()
	other := drift.Runner{Host: "n2", Class: capabilities.ClassT2}
	h.end("tool.a.x", runner, event(drift.Warning), event(drift.Violation))
	write := event(drift.Violation)
	write.Signal, write.Key = drift.Write, "data.write.workspace"
	h.end("tool.a.y", other, write)
	unnamed := event(drift.Critical)
	unnamed.Signal = 0
	h.end("tool.a.y", runner, unnamed)
	for _, c := range []struct {
		f    Filter
		want int
	}{
		{Filter{}, 4}, {Filter{Tool: "tool.a.x"}, 2}, {Filter{Node: "n2"}, 1}, {Filter{Call: "call_1"}, 4}, {Filter{Call: "call_2"}, 0}, {Filter{Signal: "network"}, 2},
		{Filter{Signal: "write"}, 1}, {Filter{Signal: "other"}, 1}, {Filter{Severity: drift.Violation}, 2}, {Filter{Severity: drift.Violation, Tool: "tool.a.x", Node: "n1", Signal: "network", Open: true}, 1},
		{Filter{Severity: drift.Critical, Signal: "network"}, 0},
	} {
		if list, _, err := h.List(ctx, c.f); err != nil || len(list) != c.want {
			t.Errorf("%+v: %d events, %v", c.f, len(list), err)
		}
	}
	for _, f := range []Filter{{Signal: "loud"}, {Severity: "bad"}} {
		if _, _, err := h.List(ctx, f); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

// Lists come newest first, in parts that lose nothing.
func TestListsContinue(t *testing.T) {
	h := newHouse(t, t.TempDir())
	var want []string
	for i := range 7 {
		e := h.end("tool.a.x", runner, event(drift.Warning), event(drift.Warning))
		want = append(want, e[0].ID, e[1].ID)
		if i == 3 {
			signals := []packet.Signal{{ID: NewID(), Severity: drift.Warning, Control: "POST /v1/gone"}, {ID: NewID(), Severity: drift.Critical, Call: "call_2", Key: "privileged.secret.read"}, {Severity: drift.Warning}}
			must(t, h.Record(context.Background(), ledger.Draft{Kind: ledger.KindDriftSurfaced, Principal: "ada", Body: packet.Surfaced{Surface: "console", Page: "/console", Signals: signals}}))
			want = append(want, signals[0].ID, signals[1].ID)
		}
	}
	slices.Reverse(want)
	var got []string
	for before := uint64(0); ; {
		list, more, err := h.List(context.Background(), Filter{Limit: 3, Before: before})
		must(t, err)
		for _, e := range list {
			got = append(got, e.ID)
		}
		if before = more; before == 0 {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("\n got %v\nwant %v", got, want)
	}
}

// Folding packets as they come and folding them from nothing are the same.
func TestRebuildIsTheSame(t *testing.T) {
	tools := []capabilities.ToolID{"tool.a.x", "tool.a.y"}
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		h := newHouse(t, t.TempDir())
		ctx := context.Background()
		var ids []string
		for range 30 {
			h.now = h.now.Add(time.Duration(r.IntN(40)) * time.Minute)
			on, tool := runner, tools[r.IntN(2)]
			on.Program = []string{"p", "q"}[r.IntN(2)]
			switch r.IntN(6) {
			case 0:
				h.end(tool, on)
			case 1, 2:
				for _, e := range h.end(tool, on, event([]drift.Severity{drift.Warning, drift.Violation, drift.Critical}[r.IntN(3)]), event(drift.Violation)) {
					ids = append(ids, e.ID)
				}
			case 3:
				if len(ids) > 0 {
					_, _ = h.Resolve(ctx, "ada", "seen", ids[r.IntN(len(ids))])
				}
			case 4:
				_ = h.Lift(ctx, "ada", on.Fingerprint(), "seen")
			case 5:
				_ = h.Review(ctx, "ada", tool, h.hashes[tool], "seen")
			}
		}
		live := h.all(ctx)
		h.begin()
		if loaded := h.all(ctx); loaded != live {
			t.Fatalf("seed %d: loaded\n%s\nlive\n%s", seed, loaded, live)
		}
		must(t, h.Rebuild(ctx))
		if rebuilt := h.all(ctx); rebuilt != live {
			t.Fatalf("seed %d: rebuilt\n%s\nlive\n%s", seed, rebuilt, live)
		}
		must(t, h.store.Close())
	}
}

// all is everything that a Book says.
func (h *house) all(ctx context.Context) string {
	h.t.Helper()
	list, before, err := h.List(ctx, Filter{Limit: 500})
	must(h.t, err)
	q, r, raises, err := h.Holding(ctx)
	must(h.t, err)
	return fmt.Sprintf("%+v\n%d\n%+v\n%+v\n%+v", list, before, q, r, raises)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
