package governance

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/drift"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
)

// house is a ledger whose clock a test moves, and the numbers over it.
type house struct {
	*Model
	ledger *ledger.Ledger
	now    time.Time
}

func newHouse(t testing.TB) *house {
	t.Helper()
	h := &house{now: time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)}
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "store.db"), ReserveBytes: -1, Migrations: append(Migrations(), ledger.Migrations...)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- db.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ran; db.Close() })
	h.ledger, err = ledger.Open(t.Context(), ledger.Options{Store: db, Chain: "gateway", Key: ed25519.NewKeyFromSeed(make([]byte, 32)), Now: func() time.Time { return h.now }})
	if err != nil {
		t.Fatal(err)
	}
	h.Model = New(Options{Store: db, Ledger: h.ledger, Now: func() time.Time { return h.now }})
	return h
}

func (h *house) put(t testing.TB, drafts ...ledger.Draft) {
	t.Helper()
	if err := h.ledger.Append(context.Background(), drafts...); err != nil {
		t.Fatal(err)
	}
}

// called is what the packets of one call say.
type called struct {
	tool      capabilities.ToolID
	principal capabilities.PrincipalID
	node      capabilities.NodeID
	effect    policy.Effect
	code      capabilities.Code
	rule      string
	declared  policy.ByCategory
	grants    []string
	withheld  []string
	class     capabilities.IsolationClass
	observed  []packet.Observed
	person    bool
	degraded  string
	masked    *int64
	artifacts []packet.Artifact
}

// drafts are the packets that the dispatcher writes for such a call.
func (c called) drafts() []ledger.Draft {
	envelope, _ := json.Marshal(map[string]any{
		"capabilities": c.declared, "capability_profile_id": "profile-" + string(c.tool), "isolation_class": c.class, "effective_grants": c.grants, "tool_id": c.tool,
	})
	d := &packet.Decision{Effect: c.effect, Code: c.code, Snapshot: "snapshot-1", Withheld: c.withheld, Degraded: c.degraded, Envelope: envelope}
	if c.rule != "" {
		d.Policies = []string{c.rule}
	}
	if c.person {
		d.Grant = "grant-1"
	}
	draft := func(kind ledger.Kind, body any) ledger.Draft {
		return ledger.Draft{Kind: kind, Call: "call-1", Tool: c.tool, Principal: c.principal, Lane: "lane-1", Node: c.node, Body: body}
	}
	all := []ledger.Draft{draft(ledger.KindCallRequest, &packet.Request{Surface: "mcp"}), draft(ledger.KindCallDecision, d)}
	if c.effect != policy.Allow {
		return append(all, draft(ledger.KindCallFailed, &packet.End{Status: capabilities.StatusDenied, Code: c.code}))
	}
	return append(all,
		draft(ledger.KindCallDispatch, &packet.Dispatch{Target: "node", Grants: c.grants, Isolation: c.class, Given: capabilities.ClassT3}),
		draft(ledger.KindCallResult, &packet.End{Status: capabilities.StatusOK, Observed: c.observed, Masked: c.masked, Artifacts: c.artifacts}))
}

// cells reads all numbers.
func (h *house) cells(t testing.TB) map[string]int64 {
	t.Helper()
	if err := h.loadSeries(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := map[string]int64{}
	rows, err := h.opts.Store.Read().Query("SELECT grain, start, numbers FROM governance_time")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var grain, start int64
		var text []byte
		if err := rows.Scan(&grain, &start, &text); err != nil {
			t.Fatal(err)
		}
		list, err := parse(text)
		if err != nil {
			t.Fatal(err)
		}
		for i, series := range list.series {
			all[fmt.Sprintf("%d|%d|%v", grain, start, h.Model.cells[series])] += list.n[i]
		}
	}
	return all
}

// random returns the packets of one random call or event.
func random(r *rand.Rand) []ledger.Draft {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	tool := capabilities.ToolID(pick("tool.browser.click", "tool.fs.read", "tool.voice.tts", "tool.sensor.audio", "tool.made.up"))
	switch r.IntN(40) {
	case 4:
		return []ledger.Draft{{Kind: ledger.KindDriftUncounted, Tool: tool, Body: packet.DriftUncounted{Events: 1 + r.Uint32N(9), Severity: drift.Violation}}}
	case 0:
		return []ledger.Draft{{Kind: ledger.KindDrift, Tool: tool, Node: "node-1", Body: packet.Drift{
			ID: "d", Key: pick("network.egress.https", "data.write.workspace"), Signal: drift.Number(1 + r.IntN(5)), Severity: drift.Severity(pick("warning", "violation", "critical")), Declared: r.IntN(2) == 0, Response: drift.Recorded,
		}}}
	case 1:
		return []ledger.Draft{{Kind: ledger.KindDriftResolved, Tool: tool, Body: packet.DriftResolved{ID: "d", Severity: drift.Violation, OpenedUS: int64(r.IntN(1 << 50)), Reason: "seen"}}}
	case 2:
		return []ledger.Draft{{Kind: "gateway.policy.activated", Body: packet.Activated{Snapshot: pick("s1", "s2")}}}
	case 3:
		return []ledger.Draft{{Kind: "node.joined", Body: json.RawMessage(`{"effect":[]}`)}, {Kind: ledger.KindCallDecision, Tool: tool, Body: json.RawMessage(`{"effect":[]}`)}}
	}
	c := called{
		tool: tool, principal: capabilities.PrincipalID(pick("ann", "bob", "agent-1")), node: capabilities.NodeID(pick("node-1", "node-2", "")), effect: policy.Effect(r.IntN(3)), rule: pick("", "rule-1", "rule-2"),
		declared: policy.ByCategory{Data: []string{"read.workspace"}, Network: []string{"egress.https"}, Privileged: []string{"secret.read"}},
		grants:   []string{"data.read.workspace", "network.egress.https", "network.egress.domain_allowlist:example.com"}, class: capabilities.IsolationClass(pick("t0", "t1", "t2", "t3")), person: r.IntN(3) == 0,
	}
	if c.person {
		c.grants = append(c.grants, policy.GrantPrefix+"grant_1")
	}
	if r.IntN(3) == 0 {
		c.grants = append(c.grants, "privileged.secret.read")
	} else {
		c.withheld = []string{"privileged.secret.read"}
	}
	if c.effect == policy.Deny {
		c.code = capabilities.Code(pick("denied_by_policy", "unknown_tool", "isolation_unavailable"))
	}
	if r.IntN(2) == 0 {
		c.observed = []packet.Observed{{Key: "network.egress.https", Detail: "a", Count: 3}, {Key: "network.egress.https", Detail: "b", Count: 1}}
	}
	if r.IntN(4) == 0 {
		n := int64(r.IntN(3))
		c.masked, c.artifacts = &n, []packet.Artifact{{ID: "a", Retention: pick("", "extended")}}
	}
	return c.drafts()
}

// The numbers folded as packets came are those folded from nothing (S1-55, S1-59).
func TestFromNothingIsTheSame(t *testing.T) { fromNothing(t, 20_000) }

// fromNothing folds a random ledger of so many packets as it comes, and again from nothing.
func fromNothing(t *testing.T, size int) {
	t.Helper()
	h, r := newHouse(t), rand.New(rand.NewPCG(1, 2))
	var packets uint64
	for packets < uint64(size) {
		var drafts []ledger.Draft
		for len(drafts) < 40+r.IntN(400) {
			drafts = append(drafts, random(r)...)
		}
		h.put(t, drafts...)
		h.now = h.now.Add(time.Duration(r.Int64N(int64(480*time.Hour) * 240 / int64(size)))) // days in all, whatever the size
		packets, _ = h.ledger.Tip()
		if r.IntN(5) == 0 {
			if through, err := h.CatchUp(t.Context()); err != nil || through != packets {
				t.Fatalf("counted through %d of %d, %v", through, packets, err)
			}
		}
		if r.IntN(50) == 0 { // the program ends and comes back
			h.Model = New(h.opts)
		}
	}
	if _, err := h.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	live := h.cells(t)
	began := time.Now()
	if _, err := h.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d packets folded from nothing in %v: %.0f a second, %d numbers", packets, time.Since(began), float64(packets)/time.Since(began).Seconds(), len(live))
	if len(live) < 500 {
		t.Fatalf("only %d numbers", len(live))
	}
	if again := h.cells(t); !maps.Equal(live, again) {
		t.Errorf("%d numbers as they came, %d from nothing", len(live), len(again))
	}
	// The same events counted by hand.
	want := map[fact]int64{}
	if err := h.ledger.Since(t.Context(), 0, func(p *ledger.Packet) error {
		switch p.Kind {
		case ledger.KindCallDispatch:
			want[executions]++
		case ledger.KindCallFailed, ledger.KindCallResult:
			want[outcomes]++
		case ledger.KindDrift:
			want[drifts]++
		case ledger.KindDriftUncounted:
			var more packet.DriftUncounted
			if err := json.Unmarshal(p.Body, &more); err != nil {
				return err
			}
			want[drifts] += int64(more.Events)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for f, n := range want {
		all, err := h.sums(t.Context(), span{to: h.now.AddDate(1, 0, 0), grain: Month}, f)
		if err != nil || len(all) != 1 || all[0].n != n {
			t.Errorf("%s: %+v, not %d, %v", f, all, n, err)
		}
	}
}

// The views say what the packets say (S1-56).
func TestViews(t *testing.T) {
	h := newHouse(t)
	click := called{
		tool: "tool.browser.click", principal: "ann", node: "node-1", effect: policy.Allow, rule: "may-click", class: "t2",
		declared: policy.ByCategory{Network: []string{"browser.session"}, UI: []string{"output.download"}}, grants: []string{"network.browser.session"}, withheld: []string{"ui.output.download"},
		observed: []packet.Observed{{Key: "network.browser.session", Detail: "example.com", Count: 9}},
	}
	listen := called{
		tool: "tool.sensor.audio", principal: "bob", node: "node-2", effect: policy.Allow, class: "t3", person: true,
		declared: policy.ByCategory{Data: []string{"capture.audio"}, Privileged: []string{"secret.read"}, Network: []string{"browser.session"}}, grants: []string{"data.capture.audio", "network.browser.session", "privileged.secret.read"},
	}
	// A person's own work needs nobody's word; nothing tells what a program reads.
	add := called{tool: "tool.admin.user-add", principal: "ann", effect: policy.Allow, class: "t1", person: true, declared: policy.ByCategory{Data: []string{"write.temp"}}}
	list := called{
		tool: "tool.fs.list", principal: "ann", effect: policy.Allow, class: "t1", declared: policy.ByCategory{Data: []string{"read.workspace"}}, grants: []string{"data.read.workspace"},
		observed: []packet.Observed{{Key: "data.read.workspace", Count: 1}},
	}
	program := called{
		tool: "tool.fs.bash", principal: "ann", effect: policy.Allow, class: "t1", declared: policy.ByCategory{Execution: []string{"proc.spawn"}, Data: []string{"read.workspace"}},
		grants: []string{"data.read.workspace", "execution.proc.spawn"}, observed: []packet.Observed{{Key: "execution.proc.spawn", Count: 1}},
	}
	h.opts.Own = func(id capabilities.ToolID) bool { return id == "tool.admin.user-add" }
	denied := called{tool: "tool.fs.bash", principal: "ann", effect: policy.Deny, code: capabilities.CodeDeniedByPolicy, class: "t1", declared: policy.ByCategory{Execution: []string{"proc.spawn"}}}
	for range 3 {
		h.put(t, click.drafts()...)
	}
	h.put(t, listen.drafts()...)
	h.put(t, denied.drafts()...)
	h.put(t, denied.drafts()...)
	h.now = h.now.Add(time.Hour)
	h.put(t, ledger.Draft{Kind: ledger.KindDrift, Call: "call-9", Tool: "tool.fs.read", Body: packet.Drift{ID: "d-1", Key: "data.write.workspace", Signal: drift.Write, Severity: drift.Violation, Response: drift.Recorded}})
	opened := h.now
	h.now = h.now.Add(90 * time.Second)
	h.put(t, ledger.Draft{Kind: ledger.KindDriftResolved, Tool: "tool.fs.read", Body: packet.DriftResolved{ID: "d-1", Severity: drift.Violation, OpenedUS: opened.UnixMicro(), Reason: "a test of ours"}})

	coverage, err := h.Coverage(t.Context(), Span{})
	if err != nil || len(coverage.Rows) != 6 {
		t.Fatalf("%+v, %v", coverage, err)
	}
	for _, r := range coverage.Rows {
		switch r.Key {
		case "ui.output.download":
			if r.Declared != 3 || r.Effective != 0 || r.Withheld != 3 || r.Executions != 0 || r.Unused || r.Slug != "browser" && r.Slug != "tool.browser" {
				t.Errorf("%+v", r)
			}
		case "network.browser.session": // the clicks used it, and no recording did
			if r.Unused != (r.Tool == "tool.sensor.audio") || r.Category != "network" {
				t.Errorf("%+v", r)
			}
		}
	}
	isolation, err := h.Isolation(t.Context(), Span{})
	if err != nil || len(isolation.Rows) != 2 || isolation.Rows[0].Executions+isolation.Rows[1].Executions != 4 {
		t.Errorf("%+v, %v", isolation, err)
	}
	privilege, err := h.Privilege(t.Context(), Span{})
	if err != nil || len(privilege.Rows) != 1 || privilege.Rows[0].Principal != "bob" || privilege.Rows[0].Key != "privileged.secret.read" || privilege.Rows[0].Node != "node-2" {
		t.Errorf("%+v, %v", privilege, err)
	}
	if who, err := h.Privilege(t.Context(), Span{Key: "data.capture.audio"}); err != nil || len(who.Rows) != 1 || who.Rows[0].Principal != "bob" {
		t.Errorf("%+v, %v", who, err)
	}
	friction, err := h.Friction(t.Context(), Span{})
	if err != nil || friction.Decisions != 6 || len(friction.Rows) != 3 {
		t.Fatalf("%+v, %v", friction, err)
	}
	if r := friction.Rows[0]; r.Effect != "reduced" || r.Calls != 3 || r.Rule != "may-click" {
		t.Errorf("%+v", r)
	}
	if r := friction.Rows[1]; r.Effect != "deny" || r.Tool != "tool.fs.bash" || r.Calls != 2 || r.Rule != noRule {
		t.Errorf("%+v", r)
	}
	seen, err := h.Drift(t.Context(), Span{})
	if err != nil || len(seen.Rows) != 1 || seen.Rows[0].Signal != "write" || seen.Rows[0].Severity != "violation" {
		t.Errorf("%+v, %v", seen, err)
	}
	if one, err := h.Drift(t.Context(), Span{Tool: "tool.browser.click"}); err != nil || len(one.Rows) != 0 {
		t.Errorf("%+v, %v", one, err)
	}

	for _, one := range []called{add, list, program} {
		h.put(t, one.drafts()...)
	}
	if again, err := h.Friction(t.Context(), Span{}); err != nil || again.Decisions != 9 || !reflect.DeepEqual(again.Rows, friction.Rows) || !reflect.DeepEqual(again.Categories, friction.Categories) {
		t.Errorf("what an admin does is friction: %+v, %v", again, err)
	}
	for _, in := range []Span{{}, {Tool: "tool.fs.bash"}, {Tool: "tool.sensor.audio"}} {
		all, err := h.Coverage(t.Context(), in)
		if err != nil || len(all.Rows) == 0 {
			t.Errorf("%+v, %v", all, err)
		}
		for _, r := range all.Rows {
			if r.Unused != (r.Tool == "tool.sensor.audio" && r.Key == "network.browser.session") {
				t.Errorf("%+v: %+v", in, r)
			}
		}
	}
}

// The six KPIs are what their definitions say (S1-57).
func TestKPIs(t *testing.T) {
	h := newHouse(t)
	ran := called{tool: "tool.a.b", principal: "ann", effect: policy.Allow, class: "t3", declared: policy.ByCategory{Privileged: []string{"secret.read"}, Data: []string{"read.workspace"}}, grants: []string{"data.read.workspace"}}
	for range 3 {
		h.put(t, ran.drafts()...)
	}
	ran.grants = append(ran.grants, "privileged.secret.read")
	h.put(t, ran.drafts()...)
	missing := called{tool: "tool.a.c", effect: policy.Deny, code: capabilities.CodeIsolationUnavailable, class: "t2"}
	h.put(t, missing.drafts()...)
	h.put(t, ledger.Draft{Kind: ledger.KindDrift, Tool: "tool.a.b", Body: packet.Drift{ID: "d", Key: "network.egress.https", Signal: drift.Network, Severity: drift.Violation}},
		ledger.Draft{Kind: ledger.KindDriftResolved, Tool: "tool.a.b", Body: packet.DriftResolved{ID: "d", Severity: drift.Violation, OpenedUS: h.now.Add(-time.Minute).UnixMicro()}})
	k, err := h.KPIs(t.Context(), Span{})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{0.75, 3.0 / 8, 250, 0.25, 1, 60} {
		got := k.All()[i]
		if !got.Known || math.Abs(got.Value-want) > 1e-9 || got.Met != (want == 60) || got.Definition == "" || len(got.Trend) == 0 {
			t.Errorf("%+v, not %v", got, want)
		}
	}
	if k.DriftPer1000.BeforeKnown || k.DriftPer1000.Trend[len(k.DriftPer1000.Trend)-1] != 250 {
		t.Errorf("%+v", k.DriftPer1000)
	}
	h.now = h.now.Add(8 * 24 * time.Hour)
	if k, err = h.KPIs(t.Context(), Span{}); err != nil || !k.DriftPer1000.BeforeKnown {
		t.Errorf("a week later: %+v, %v", k.DriftPer1000, err)
	}
}

// A span is counted in whole times, and says which.
func TestSpans(t *testing.T) {
	h := newHouse(t)
	for _, c := range []struct {
		back  time.Duration
		grain string
		times int
	}{{3 * time.Hour, "hour", 4}, {3 * 24 * time.Hour, "hour", 73}, {7 * 24 * time.Hour, "day", 8}, {400 * 24 * time.Hour, "month", 14}} {
		k, err := h.KPIs(t.Context(), Span{From: h.now.Add(-c.back)})
		if err != nil || k.Grain != c.grain || len(k.IsolationMismatches.Trend) != c.times {
			t.Errorf("%v: by the %s, %d times, %v", c.back, k.Grain, len(k.IsolationMismatches.Trend), err)
		}
	}
	if _, err := h.KPIs(t.Context(), Span{From: h.now, To: h.now}); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
		t.Error(err)
	}
}
