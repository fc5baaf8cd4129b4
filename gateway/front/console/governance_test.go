package console

import (
	"testing"

	"github.com/handrail-dev/handrail/gateway/api"
)

// A table that shows a part says which, and leads to the rest: first to the view's own page.
func TestPartsOfTables(t *testing.T) {
	const view = "/console/governance/friction?days=7"
	for _, c := range []struct {
		rows, all, offset int
		first, last       int
		part              bool
		before, next      string
	}{
		{rows: 3, all: 3, first: 1, last: 3},
		{rows: firstRows, all: 60, first: 1, last: firstRows, part: true, next: view},
		{rows: paperRows, all: 300, first: 1, last: paperRows, part: true, next: view},
		{rows: viewRows, all: 60, first: 1, last: 25, part: true, next: view + "&offset=25"},
		{rows: viewRows, all: 60, offset: 25, first: 26, last: 50, part: true, before: view + "&offset=0", next: view + "&offset=50"},
		{rows: 10, all: 60, offset: 50, first: 51, last: 60, part: true, before: view + "&offset=25"},
		{rows: 5, all: 8, offset: 3, first: 4, last: 8, part: true, before: view + "&offset=0"},
	} {
		got := table[int]{Rows: make([]int, c.rows), All: c.all, Offset: c.offset, View: view}
		if got.First() != c.first || got.Last() != c.last || got.Part() != c.part || got.Before() != c.before || got.Next() != c.next {
			t.Errorf("%d of %d from %d: %d to %d, %v, %q, %q", c.rows, c.all, c.offset, got.First(), got.Last(), got.Part(), got.Before(), got.Next())
		}
	}
}

// A denial that no rule determined leads to a rule for its tool, and nothing else does: an ID that
// no tool has becomes no text of a rule.
func TestDenialsLeadToARule(t *testing.T) {
	for _, c := range []struct {
		row   api.FrictionRow
		write bool
	}{
		{api.FrictionRow{Effect: "deny", Tool: "tool.web.fetch", Rule: "no rule permits it"}, true}, {api.FrictionRow{Effect: "deny", Tool: "tool.web.fetch", Rule: "mine"}, false},
		{api.FrictionRow{Effect: "deny", Tool: "tool.web.fetch"}, false}, {api.FrictionRow{Effect: "deny", Rule: "no rule permits it"}, false},
		{api.FrictionRow{Effect: "ask", Tool: "tool.web.fetch", Rule: "no rule permits it"}, false}, {api.FrictionRow{Effect: "deny", Tool: "x\"; permit", Rule: "no rule permits it"}, false},
	} {
		if got := (frictionRow{c.row}).Unpermitted(); got != c.write {
			t.Errorf("%+v: %v", c.row, got)
		}
	}
	if got := (frictionRow{api.FrictionRow{Tool: "tool.web.fetch"}}).Write(); got != "permit=tool.web.fetch&rule=ask-web.fetch" {
		t.Error(got)
	}
}
