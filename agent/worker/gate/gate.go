package gate

import (
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/agent/worker/intent"
	"github.com/handrail-dev/handrail/capabilities"
)

// Capability is what a tool of a worker needs leave for (S2-25).
type Capability string

// The capabilities.
const (
	BrowserControl Capability = "BrowserControl"
	ScreenRead     Capability = "ScreenRead"
	ScreenControl  Capability = "ScreenControl"
	FileAccess     Capability = "FileAccess"
	SystemExecute  Capability = "SystemExecute"
)

// Decision is the PolicyDecision of rule S2-19. Forbidden has "*" where nothing is allowed.
type Decision struct {
	Allowed   []capabilities.ToolID `json:"allowed_tools"`
	Forbidden []capabilities.ToolID `json:"forbidden_tools"`
	Required  []Capability          `json:"required_permissions"`
}

// Every is the forbidden list of an intent without tools (S2-23).
const Every capabilities.ToolID = "*"

// The tools, by the capability that each needs. The names of rule S2-25 are the canonical IDs
// here: web_search is tool.web.search, screen_capture tool.desktop.screenshot, get_active_window
// tool.desktop.snapshot, file_read tool.fs.read, file_list tool.fs.list, system_execute
// tool.fs.bash.
var byCapability = []struct {
	capability Capability
	tools      []capabilities.ToolID
}{
	{BrowserControl, []capabilities.ToolID{
		"tool.web.search", "tool.web.fetch", "tool.browser.navigate", "tool.browser.snapshot", "tool.browser.click", "tool.browser.type",
		"tool.browser.fill-form", "tool.browser.select-option", "tool.browser.press-key", "tool.browser.wait-for", "tool.browser.tabs",
		"tool.browser.handle-dialog", "tool.browser.screenshot",
	}},
	{ScreenRead, []capabilities.ToolID{"tool.desktop.screenshot", "tool.desktop.snapshot", "tool.desktop.query"}},
	{ScreenControl, []capabilities.ToolID{"tool.desktop.act", "tool.desktop.mouse", "tool.desktop.keyboard", "tool.desktop.wait-for"}},
	{FileAccess, []capabilities.ToolID{
		"tool.fs.read", "tool.fs.list", "tool.fs.glob", "tool.fs.grep", "tool.fs.write", "tool.fs.edit", "tool.fs.apply-patch",
	}},
	{SystemExecute, []capabilities.ToolID{"tool.fs.bash"}},
}

// Of returns the capability that a tool needs; of a tool that the table does not know, false.
func Of(tool capabilities.ToolID) (Capability, bool) {
	for _, row := range byCapability {
		if slices.Contains(row.tools, tool) {
			return row.capability, true
		}
	}
	return "", false
}

// Needs returns what a tool needs leave for: its own capability, or those of the tools that it
// calls.
func Needs(tool capabilities.ToolID, uses []capabilities.ToolID) Capability {
	if c, ok := Of(tool); ok {
		return c
	}
	var all []string
	for _, id := range uses {
		if c, ok := Of(id); ok && !slices.Contains(all, string(c)) {
			all = append(all, string(c))
		}
	}
	return Capability(strings.Join(all, ", "))
}

// The table: the tools of each intent. An intent whose row is empty uses none; memory is read
// before and written after (S2-12, S2-13).
var table = map[intent.Name][]capabilities.ToolID{
	intent.ChatOnly:         {},
	intent.LookupSearch:     {"tool.web.search"},
	intent.BrowseOnce:       {"tool.web.fetch", "tool.browser.navigate", "tool.browser.snapshot"},
	intent.OneShotDiscovery: {"tool.web.search", "tool.web.fetch", "tool.browser.navigate", "tool.browser.snapshot"},
	intent.ScreenObserve:    {"tool.desktop.screenshot", "tool.desktop.snapshot"},
	intent.FileTask: {
		"tool.fs.read", "tool.fs.list", "tool.fs.glob", "tool.fs.grep", "tool.fs.write", "tool.fs.edit", "tool.fs.apply-patch",
	},
	intent.SystemTask:  {"tool.fs.bash"},
	intent.MemoryRead:  {},
	intent.MemoryWrite: {},
	intent.BrowserTask: {
		"tool.browser.navigate", "tool.browser.snapshot", "tool.browser.click", "tool.browser.type", "tool.browser.fill-form",
		"tool.browser.select-option", "tool.browser.press-key", "tool.browser.wait-for", "tool.browser.tabs", "tool.browser.handle-dialog",
		"tool.browser.screenshot",
	},
	intent.DesktopTask: {
		"tool.desktop.screenshot", "tool.desktop.snapshot", "tool.desktop.query", "tool.desktop.act", "tool.desktop.mouse",
		"tool.desktop.keyboard", "tool.desktop.wait-for",
	},
}

// Decide is the gate. An intent that is not in the table may use nothing.
func Decide(r intent.Route) Decision {
	allowed := slices.Clone(table[r.Intent])
	if len(allowed) == 0 {
		return Decision{[]capabilities.ToolID{}, []capabilities.ToolID{Every}, []Capability{}}
	}
	d := Decision{Allowed: allowed, Forbidden: []capabilities.ToolID{}, Required: []Capability{}}
	for _, row := range byCapability {
		needed := false
		for _, tool := range row.tools {
			if slices.Contains(allowed, tool) {
				needed = true
			} else {
				d.Forbidden = append(d.Forbidden, tool)
			}
		}
		if needed {
			d.Required = append(d.Required, row.capability)
		}
	}
	return d
}

// Allows reports whether a tool may be used.
func (d Decision) Allows(tool capabilities.ToolID) bool { return slices.Contains(d.Allowed, tool) }

// With returns the decision with a tool that makes calls of others: it may be used where each of
// those may, so that nothing is reached through it that is forbidden (S3-16).
func (d Decision) With(tool capabilities.ToolID, uses []capabilities.ToolID) Decision {
	if len(uses) == 0 || d.Allows(tool) || slices.ContainsFunc(uses, func(id capabilities.ToolID) bool { return !d.Allows(id) }) {
		return d
	}
	d.Allowed = append(slices.Clone(d.Allowed), tool)
	return d
}

// Only returns the decision without the tools that are not among some.
func (d Decision) Only(tools []capabilities.ToolID) Decision {
	for _, id := range d.Allowed {
		if !slices.Contains(tools, id) {
			d.Forbidden = append(slices.Clone(d.Forbidden), id)
		}
	}
	d.Allowed = slices.DeleteFunc(slices.Clone(d.Allowed), func(id capabilities.ToolID) bool { return !slices.Contains(tools, id) })
	return d
}

// Filter leaves those of a list that may be used, in its order; id names one.
func Filter[T any](d Decision, list []T, id func(T) capabilities.ToolID) []T {
	var left []T
	for _, one := range list {
		if d.Allows(id(one)) {
			left = append(left, one)
		}
	}
	return left
}
