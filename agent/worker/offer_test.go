package worker

import (
	"fmt"
	"slices"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// Of many imported tools those are offered whose words the message has; built-in ones stay, and the
// order, too.
func TestNearest(t *testing.T) {
	tools := []Tool{{ID: "tool.fs.read"}}
	for i := range 3 * maxImported {
		tools = append(tools, Tool{ID: capabilities.ToolID(fmt.Sprintf("tool.p.t%d", i)), From: "p", Description: "Does a thing."})
	}
	tools = append(tools, Tool{ID: "tool.p.invoices", From: "p", Description: "Lists the invoices of a month."},
		Tool{ID: "tool.macro.m", From: "m", Uses: []capabilities.ToolID{"tool.fs.read"}})
	got := nearest("list the invoices of May", tools)
	has := func(id capabilities.ToolID) bool {
		return slices.ContainsFunc(got, func(t Tool) bool { return t.ID == id })
	}
	if len(got) != maxImported+2 || got[0].ID != "tool.fs.read" || !has("tool.p.invoices") || !has("tool.macro.m") ||
		!has("tool.p.t0") || has("tool.p.t95") {
		t.Errorf("%d: %v", len(got), got)
	}
	if few := tools[:3]; len(nearest("x", few)) != 3 {
		t.Error("a few are not all offered")
	}
}
