package gate

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/agent/worker/intent"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
)

func ids(s ...string) (list []capabilities.ToolID) {
	for _, one := range s {
		list = append(list, capabilities.ToolID(one))
	}
	return list
}

// TestTable holds each intent to what the rules give and refuse it (S2-05, S2-06, S2-07, S2-08,
// S2-09, S2-10, S2-11, S2-21, S2-22, S2-23), and the decision to its lists (S2-19), the same for
// the same route (S2-18, S2-50).
func TestTable(t *testing.T) {
	for _, c := range []struct {
		intent             intent.Name
		allowed, forbidden []capabilities.ToolID
		required           []Capability
	}{
		{intent.ChatOnly, nil, ids("*"), nil},
		{intent.LookupSearch, ids("tool.web.search"),
			ids("tool.desktop.screenshot", "tool.fs.bash", "tool.fs.read", "tool.fs.write"), []Capability{BrowserControl}},
		{intent.BrowseOnce, ids("tool.browser.navigate"),
			ids("tool.fs.bash", "tool.browser.click", "tool.web.search"), []Capability{BrowserControl}},
		{intent.OneShotDiscovery, ids("tool.web.search", "tool.browser.navigate"),
			ids("tool.fs.bash", "tool.browser.click"), []Capability{BrowserControl}},
		{intent.ScreenObserve, ids("tool.desktop.screenshot", "tool.desktop.snapshot"),
			ids("tool.web.search", "tool.fs.bash", "tool.fs.read", "tool.desktop.mouse"), []Capability{ScreenRead}},
		{intent.FileTask, ids("tool.fs.read", "tool.fs.list"),
			ids("tool.fs.bash", "tool.web.fetch"), []Capability{FileAccess}},
		{intent.SystemTask, ids("tool.fs.bash"),
			ids("tool.fs.read", "tool.web.fetch", "tool.desktop.screenshot"), []Capability{SystemExecute}},
		{intent.MemoryRead, nil, ids("*"), nil},
		{intent.MemoryWrite, nil, ids("*"), nil},
		{intent.BrowserTask, ids("tool.browser.click", "tool.browser.fill-form"),
			ids("tool.fs.bash", "tool.desktop.mouse"), []Capability{BrowserControl}},
		{intent.DesktopTask, ids("tool.desktop.act", "tool.desktop.keyboard"),
			ids("tool.fs.bash", "tool.browser.click"), []Capability{ScreenRead, ScreenControl}},
		{"of nobody", nil, ids("*"), nil},
	} {
		d := Decide(intent.Route{Intent: c.intent})
		if again := Decide(intent.Route{Intent: c.intent, RiskLevel: intent.High, Confidence: 1}); !reflect.DeepEqual(again, d) {
			t.Errorf("%s: %v, and then %v", c.intent, d, again)
		}
		for _, tool := range c.allowed {
			if !d.Allows(tool) {
				t.Errorf("%s may not use %s", c.intent, tool)
			}
		}
		for _, tool := range c.forbidden {
			if !slices.Contains(d.Forbidden, tool) || d.Allows(tool) {
				t.Errorf("%s is not kept from %s: %v", c.intent, tool, d)
			}
		}
		if !slices.Equal(d.Required, c.required) {
			t.Errorf("%s needs %v, not %v", c.intent, d.Required, c.required)
		}
	}
}

// TestEveryIntentHasARow fails for an intent whose row was forgotten.
func TestEveryIntentHasARow(t *testing.T) {
	for _, i := range intent.All() {
		if _, ok := table[i.Name]; !ok {
			t.Errorf("%s has no row", i.Name)
		}
	}
}

// TestToolsAreReal holds the table's tools to the catalog, and each to a capability (S2-24,
// S2-25); tool.web.search is a provider's, and of no capability of its own (S2-51). No tool, of
// the table or of the catalog, keeps facts (S2-39).
func TestToolsAreReal(t *testing.T) {
	known := map[capabilities.ToolID]bool{"tool.web.search": true}
	all, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all.All() {
		known[d.Tool] = true
		if strings.Contains(string(d.Tool), "memory") || strings.Contains(string(d.Tool), "fact") {
			t.Errorf("%s is a tool", d.Tool)
		}
	}
	if web, _ := Of("tool.web.search"); web != BrowserControl {
		t.Errorf("searching needs %s", web)
	}
	for _, row := range byCapability {
		for _, tool := range row.tools {
			if !known[tool] {
				t.Errorf("%s is no tool", tool)
			}
		}
	}
	for name, tools := range table {
		for _, tool := range tools {
			if _, ok := Of(tool); !ok {
				t.Errorf("%s: %s needs no capability", name, tool)
			}
		}
	}
}

// TestFilterHidesWhatIsForbidden: a forbidden tool is in no list, and nothing is added (S2-20).
func TestFilterHidesWhatIsForbidden(t *testing.T) {
	list := ids("tool.fs.bash", "tool.fs.read", "tool.secret.copy", "tool.fs.list")
	same := func(id capabilities.ToolID) capabilities.ToolID { return id }
	if got := Filter(Decide(intent.Route{Intent: intent.FileTask}), list, same); !slices.Equal(got, ids("tool.fs.read", "tool.fs.list")) {
		t.Errorf("%v", got)
	}
	if got := Filter(Decide(intent.Route{Intent: intent.ChatOnly}), list, same); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// TestOnlyNarrows: a tool that calls others is usable where each of those is, and a narrowed
// decision has no tool that the wider one had not (S2-18, S3-16).
func TestOnlyNarrows(t *testing.T) {
	d := Decide(intent.Route{Intent: intent.FileTask})
	for id, ok := range map[string]bool{"tool.fs.read": true, "tool.fs.bash": false} {
		if got := d.With("tool.sub-agent.x", ids("tool.fs.list", id)); got.Allows("tool.sub-agent.x") != ok {
			t.Errorf("one that calls %s: %v", id, got.Allowed)
		}
	}
	if d.With("tool.sub-agent.x", nil).Allows("tool.sub-agent.x") || d.Allows("tool.sub-agent.x") {
		t.Error("a tool that names nothing is allowed")
	}
	n := d.Only(ids("tool.fs.read", "tool.fs.bash"))
	if !slices.Equal(n.Allowed, ids("tool.fs.read")) || !slices.Contains(n.Forbidden, "tool.fs.write") || !d.Allows("tool.fs.write") {
		t.Errorf("%+v", n)
	}
}

// TestImported: a provider's tool is opened by an intent that opens all of its keys, to read where
// the intent only reads; a macro of such tools with them. A tool of the table, and one that
// declares more, is not reached by being imported (S2-18, S3-13).
func TestImported(t *testing.T) {
	tool := func(id string, reads bool, keys ...string) Tool {
		return Tool{ID: capabilities.ToolID(id), From: "p", Reads: reads, Keys: keys}
	}
	const net, files, spawn = "network.egress.https", "data.read.workspace", "execution.proc.spawn"
	offered := []Tool{
		tool("tool.p.find", true, net), tool("tool.p.order", false, net, spawn),
		tool("tool.p.lint", false, spawn, files), tool("tool.p.none", false),
		tool("tool.p.both", true, net, files), tool("tool.p.root", true, "privileged.secret.read"), tool("tool.p.odd", true, "oddity.of.nobody"),
		tool("tool.fs.bash", true), {ID: "tool.clipboard.read"},
		{ID: "tool.macro.m", From: "m", Uses: ids("tool.p.find", "tool.web.search")}, {ID: "tool.macro.n", From: "n", Uses: ids("tool.p.order")},
	}
	for _, c := range []struct {
		intent intent.Name
		opens  []capabilities.ToolID
	}{
		{intent.ChatOnly, nil}, {intent.MemoryWrite, nil}, {intent.ScreenObserve, nil}, {intent.BrowseOnce, nil}, {intent.DesktopTask, nil},
		{intent.LookupSearch, ids("tool.p.find", "tool.macro.m")}, {intent.OneShotDiscovery, ids("tool.p.find", "tool.macro.m")},
		{intent.FileTask, ids("tool.p.lint", "tool.p.none")}, {intent.SystemTask, ids("tool.p.lint", "tool.p.none", "tool.fs.bash")},
		{intent.BrowserTask, ids("tool.p.find", "tool.p.order", "tool.p.none", "tool.macro.n")},
	} {
		d, own := Decide(intent.Route{Intent: c.intent}, offered...), Decide(intent.Route{Intent: c.intent})
		var opened []capabilities.ToolID
		for _, one := range offered {
			if d.Allows(one.ID) {
				opened = append(opened, one.ID)
			} else if one.imported() && d.Forbidden[0] != Every && !slices.Contains(d.Forbidden, one.ID) {
				t.Errorf("%s: %s is neither allowed nor forbidden", c.intent, one.ID)
			}
		}
		if !slices.Equal(opened, c.opens) {
			t.Errorf("%s opens %v, not %v", c.intent, opened, c.opens)
		}
		if d = d.Only(own.Allowed); !slices.Equal(d.Allowed, own.Allowed) {
			t.Errorf("%s: being offered more changes its own tools: %v, and %v", c.intent, d.Allowed, own.Allowed)
		}
	}
	if got := Needs("tool.p.find", nil); got != ImportedTool {
		t.Errorf("an imported tool needs %s", got)
	}
}

// TestOneEvaluator: each row compiles, and Cedar's verdict about each tool is the row's word, no
// more and no less (S2-18).
func TestOneEvaluator(t *testing.T) {
	for name, row := range table {
		e, err := compile(name, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, c := range byCapability {
			for _, id := range c.tools {
				if e.permits[id] != slices.Contains(row, id) {
					t.Errorf("%s: Cedar says %v of %s", name, e.permits[id], id)
				}
			}
		}
		if e.permits["tool.secret.copy"] {
			t.Errorf("%s permits a tool that nobody named", name)
		}
	}
	for name := range imports {
		if len(table[name]) == 0 {
			t.Errorf("%s opens imported tools and none of its own", name)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	offered := make([]Tool, 20) // of two kinds
	for i := range offered {
		offered[i] = Tool{
			ID: capabilities.ToolID(fmt.Sprintf("tool.p.t%d", i)), From: "p", Keys: []string{"network.egress.https"}, Reads: i%2 == 0,
		}
	}
	b.Run("gate", func(b *testing.B) {
		for b.Loop() {
			Decide(intent.Route{Intent: intent.BrowserTask}, offered...)
		}
	})
	b.Run("floor", func(b *testing.B) { // a copy of the row
		for b.Loop() {
			_ = slices.Clone(table[intent.BrowserTask])
		}
	})
}

// TestAnIntentThatIncludesAnother needs leave for nothing else than the two did, and opens no tool
// for the other's sake.
func TestAnIntentThatIncludesAnother(t *testing.T) {
	pairs := 0
	for _, wide := range intent.All() {
		for _, other := range intent.All() {
			if !intent.Includes(wide.Name, other.Name) {
				continue
			}
			pairs++
			have := Decide(intent.To(wide.Name, 1)).Required
			for _, c := range Decide(intent.To(other.Name, 1)).Required {
				if !slices.Contains(have, c) {
					t.Errorf("%s lacks %s of %s", wide.Name, c, other.Name)
				}
			}
			if intent.Includes(other.Name, wide.Name) || wide.Name == other.Name {
				t.Errorf("%s and %s include one another", wide.Name, other.Name)
			}
		}
	}
	if pairs == 0 {
		t.Error("no intent includes another")
	}
}
