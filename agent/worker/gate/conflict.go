package gate

import (
	"path"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
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
// same answer as one that was made before it, empty if it can. The arguments are decoded JSON.
func Conflict(earlier, later capabilities.ToolID, before, args any) (why string) {
	for _, row := range conflicts {
		if !slices.Contains(row.earlier, earlier) || !slices.Contains(row.later, later) {
			continue
		}
		if row.refs && !hasRef(args) {
			continue
		}
		if row.field != "" {
			if textOf(before, row.field) != textOf(args, row.field) {
				continue
			}
		}
		return row.why
	}
	return ""
}

// textOf returns the path in a field of arguments.
func textOf(args any, field string) string {
	object, _ := args.(map[string]any)
	text, _ := object[field].(string)
	return path.Clean(text)
}

// hasRef reports whether arguments name an element by its ref, at any depth.
func hasRef(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			if key == "ref" || hasRef(inner) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, hasRef)
	}
	return false
}
