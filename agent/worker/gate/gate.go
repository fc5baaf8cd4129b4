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
	ImportedTool   Capability = "ImportedTool" // a provider's tool: its record says what it reaches
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
	if len(uses) == 0 {
		return ImportedTool
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

// imports is what a provider's tool may declare at most where an intent opens it: its keys, and
// whether it may do more than read. An intent that has no row opens none.
var imports = map[intent.Name]struct {
	keys  []string
	reads bool
}{
	intent.LookupSearch:     {[]string{"execution.proc.spawn", "network.egress.https"}, true},
	intent.OneShotDiscovery: {[]string{"execution.proc.spawn", "network.egress.https"}, true},
	intent.FileTask:         {ofFiles, false},
	intent.SystemTask:       {ofFiles, false},
	intent.BrowserTask:      {[]string{"data.access.pii_masked", "execution.proc.spawn", "network.egress.https"}, false},
}

// ofFiles are the keys of programs that work with files of the workspace, and reach nothing else.
var ofFiles = []string{
	"data.read.tool_cache", "data.read.workspace", "data.write.temp", "data.write.workspace", "execution.proc.spawn",
}

// Tool is what a gateway offers, as the gate sees it.
type Tool struct {
	ID    capabilities.ToolID
	Uses  []capabilities.ToolID // of a macro or a sub-agent: what it may call
	From  string                // the provider that it is imported from; empty: it is built in
	Keys  []string              // its capability keys
	Reads bool                  // its provider says that it only reads
}

// imported reports whether the gate judges a tool by its keys. A tool that calls others is judged
// by those.
func (t *Tool) imported() bool {
	_, own := Of(t.ID)
	return t.From != "" && !own && len(t.Uses) == 0
}

// Decide is the gate: Cedar's verdict about each tool of the table and each imported one, by the
// rules of the route's intent. An intent that is not in the table may use nothing.
func Decide(r intent.Route, offered ...Tool) Decision {
	none := Decision{[]capabilities.ToolID{}, []capabilities.ToolID{Every}, []Capability{}}
	cedar, ok := judgeOf(r.Intent, offered)
	if !ok {
		return none
	}
	d := Decision{Forbidden: []capabilities.ToolID{}, Required: []Capability{}}
	for _, id := range table[r.Intent] { // in the order of the table
		if cedar.permits[id] {
			d.Allowed = append(d.Allowed, id)
		}
	}
	for _, row := range byCapability {
		needed := false
		for _, id := range row.tools {
			if d.Allows(id) {
				needed = true
			} else {
				d.Forbidden = append(d.Forbidden, id)
			}
		}
		if needed {
			d.Required = append(d.Required, row.capability)
		}
	}
	foreign := false
	for i := range offered {
		t := &offered[i]
		switch {
		case !t.imported():
		case cedar.permits[kindOf(t).id()]:
			d.Allowed, foreign = append(d.Allowed, t.ID), true
		default:
			d.Forbidden = append(d.Forbidden, t.ID)
		}
	}
	if foreign {
		d.Required = append(d.Required, ImportedTool)
	}
	if len(d.Allowed) == 0 {
		return none
	}
	for i := range offered {
		d = d.With(offered[i].ID, offered[i].Uses)
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

// Without returns the decision without some tools, which are forbidden then.
func (d Decision) Without(tools []capabilities.ToolID) Decision {
	if len(tools) == 0 {
		return d
	}
	left := slices.DeleteFunc(slices.Clone(d.Allowed), func(id capabilities.ToolID) bool { return slices.Contains(tools, id) })
	return d.Only(left)
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
