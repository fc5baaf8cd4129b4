package gate

import (
	"path"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// conflicts are calls that one answer of a harness cannot hold together: the later one was chosen
// by what the earlier one changed or was to show, and the harness has not seen that yet. With a
// field, both name the same path in it; refs says that the later one acts on a ref of a
// snapshot.
var conflicts = []struct {
	earlier, later []capabilities.ToolID
	field          string
	refs           bool
	why            string
}{
	{
		[]capabilities.ToolID{"tool.browser.navigate", "tool.browser.tabs"},
		[]capabilities.ToolID{
			"tool.browser.click", "tool.browser.type", "tool.browser.fill-form", "tool.browser.select-option", "tool.browser.press-key",
			"tool.browser.wait-for", "tool.browser.screenshot",
		},
		"", true, "its ref is of the page before",
	},
	{
		[]capabilities.ToolID{"tool.desktop.act"}, []capabilities.ToolID{"tool.desktop.mouse"},
		"", false, "its place is of the screen before",
	},
	{
		[]capabilities.ToolID{"tool.fs.read", "tool.fs.write", "tool.fs.edit"}, []capabilities.ToolID{"tool.fs.write"},
		"path", false, "it would replace the file before anybody has seen what the first call did or found",
	},
}

// Conflict is the executor's conflict table: it returns the reason why a call cannot stand in the
// same answer as one that was made before it, empty if it can.
func Conflict(earlier, later capabilities.ToolID, before, args canonical.Value) (why string) {
	for _, row := range conflicts {
		if !slices.Contains(row.earlier, earlier) || !slices.Contains(row.later, later) {
			continue
		}
		if row.refs && !hasRef(args) {
			continue
		}
		if row.field != "" {
			a, _ := before.Get(row.field)
			b, _ := args.Get(row.field)
			if path.Clean(a.Str) != path.Clean(b.Str) {
				continue
			}
		}
		return row.why
	}
	return ""
}

// hasRef reports whether arguments name an element by its ref, at any depth.
func hasRef(v canonical.Value) bool {
	return slices.ContainsFunc(v.Members, func(m canonical.Member) bool { return m.Key == "ref" || hasRef(m.Value) }) ||
		slices.ContainsFunc(v.Items, hasRef)
}
