package governance

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/drift"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// A view has every row, however many there are, and the newest (S1-59).
func TestNoRowIsCut(t *testing.T) {
	h := newHouse(t)
	const hours, people = 70, 80
	for range hours {
		var drafts []ledger.Draft
		for who := range people {
			drafts = append(drafts, ledger.Draft{Kind: ledger.KindCallDispatch, Call: "call-1", Tool: "tool.a.b", Node: "node-1",
				Principal: capabilities.PrincipalID(fmt.Sprintf("p-%d", who)), Body: &packet.Dispatch{Grants: []string{"privileged.secret.read"}}})
		}
		h.put(t, drafts...)
		h.now = h.now.Add(time.Hour)
	}
	all, err := h.Privilege(t.Context(), Span{From: h.now.Add(-71 * time.Hour)})
	if err != nil || all.Grain != "hour" || len(all.Rows) != hours*people || all.Total != hours*people {
		t.Fatalf("%d of %d rows by the %s, %v", len(all.Rows), all.Total, all.Grain, err)
	}
	if last := all.Rows[len(all.Rows)-1].Start; last.Before(h.now.Add(-2 * time.Hour)) {
		t.Errorf("the last row is of %v", last)
	}
}

// Sums are those of the rows by time, the largest first, and the parts of a view are all of it.
func TestSumsAndParts(t *testing.T) {
	h, r := newHouse(t), rand.New(rand.NewPCG(3, 4))
	for range 60 {
		h.put(t, random(r)...)
		for range r.IntN(3) {
			severity := []drift.Severity{drift.Warning, drift.Violation, drift.Critical}[r.IntN(3)]
			h.put(t, ledger.Draft{Kind: ledger.KindDrift, Tool: "tool.a.b", Body: packet.Drift{ID: "d", Key: fmt.Sprint("data.write.", r.IntN(3)), Signal: drift.Write, Severity: severity}})
		}
		h.now = h.now.Add(time.Hour)
	}
	isolation := func(in Span) (got []counted, of api.GovernanceRows) {
		v, err := h.Isolation(t.Context(), in)
		must(t, err)
		for _, r := range v.Rows {
			got = append(got, counted{fmt.Sprint(r.Class, r.Given, r.Node), r.Start, r.Executions, r.Trend})
		}
		return got, v.GovernanceRows
	}
	drifted := func(in Span) (got []counted, of api.GovernanceRows) {
		v, err := h.Drift(t.Context(), in)
		must(t, err)
		for _, r := range v.Rows {
			got = append(got, counted{fmt.Sprint(r.Tool, r.Severity, r.Signal, r.Key), r.Start, r.Events, r.Trend})
		}
		var events, severities int64
		every, err := h.Drift(t.Context(), Span{From: in.From, Sum: true})
		must(t, err)
		for _, r := range every.Rows {
			events += r.Events
		}
		for _, s := range v.Severities {
			severities += s.Events
		}
		if events == 0 || events != severities {
			t.Errorf("%d events, %d by severity", events, severities)
		}
		worst := []string{"critical", "violation", "warning"}
		if in.Sum && !slices.IsSortedFunc(v.Rows, func(a, b api.DriftRow) int {
			return slices.Index(worst, a.Severity) - slices.Index(worst, b.Severity)
		}) {
			t.Errorf("the worst are not first: %+v", v.Rows)
		}
		return got, v.GovernanceRows
	}
	privilege := func(in Span) (got []counted, of api.GovernanceRows) {
		v, err := h.Privilege(t.Context(), in)
		must(t, err)
		for _, r := range v.Rows {
			got = append(got, counted{fmt.Sprint(r.Tool, r.Key, r.Principal, r.Node), r.Start, r.Executions, r.Trend})
		}
		return got, v.GovernanceRows
	}
	for name, view := range map[string]func(Span) ([]counted, api.GovernanceRows){"isolation": isolation, "drift": drifted, "privilege": privilege} {
		in := Span{From: h.now.Add(-61 * time.Hour)}
		byTime, _ := view(in)
		in.Sum = true
		sums, of := view(in)
		if len(sums) == 0 || of.Total != len(sums) || of.Offset != 0 {
			t.Fatalf("%s: %d sums of %+v", name, len(sums), of)
		}
		want := map[string]int64{}
		for _, one := range byTime {
			want[one.what] += one.n
			if one.trend != nil || one.start.IsZero() {
				t.Errorf("%s: %+v", name, one)
			}
		}
		for _, one := range sums {
			trend := int64(0)
			for _, n := range one.trend {
				trend += n
			}
			if one.n != want[one.what] || one.n != trend || !one.start.IsZero() {
				t.Errorf("%s: %+v, not %d", name, one, want[one.what])
			}
		}
		if name != "drift" && !slices.IsSortedFunc(sums, func(a, b counted) int { return int(b.n - a.n) }) {
			t.Errorf("%s: the largest are not first", name)
		}
		var parts []counted
		for in.Limit = 2; len(parts) < of.Total; in.Offset += 2 {
			part, says := view(in)
			if says.Total != of.Total || says.Offset != in.Offset || len(part) == 0 {
				t.Fatalf("%s: %d rows from %d: %+v", name, len(part), in.Offset, says)
			}
			parts = append(parts, part...)
		}
		if !reflect.DeepEqual(parts, sums) {
			t.Errorf("%s: the parts are not the whole", name)
		}
		if behind, says := view(Span{From: in.From, Sum: true, Offset: 1000}); len(behind) != 0 || says.Total != of.Total {
			t.Errorf("%s: behind the last %+v", name, says)
		}
	}
}

// counted is a row of any view.
type counted struct {
	what  string
	start time.Time
	n     int64
	trend api.Trend
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
