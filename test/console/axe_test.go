//go:build unix

package console

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// accessible has axe-core look at the page. HANDRAIL_CONSOLE names the folder
// with node_modules in HANDRAIL_CONSOLE; without it this part is left out, and said.
func (b *browser) accessible(name string) {
	b.t.Helper()
	dir := os.Getenv("HANDRAIL_CONSOLE")
	if dir == "" {
		return
	}
	source, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
	must(b.t, err)
	// Given by the debugger, which the page's policy does not bind.
	must(b.t, b.run("window.axe ? 1 : (0, eval)", nil))
	if b.value("typeof window.axe") == "undefined" {
		must(b.t, b.run(string(source), nil))
	}
	var found string
	must(b.t, b.run(`axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then(r => JSON.stringify(r.violations.map(v => ({id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.slice(0, 3).map(n => n.html.slice(0, 200) + " // " + n.failureSummary)}))))`, &found))
	var all []struct {
		ID, Impact, Help string
		Nodes            []string
	}
	must(b.t, json.Unmarshal([]byte(found), &all))
	for _, v := range all {
		if v.Impact == "serious" || v.Impact == "critical" {
			b.t.Errorf("%s: %s (%s): %s\n%q", name, v.ID, v.Impact, v.Help, v.Nodes)
		} else {
			b.t.Logf("%s: %s (%s): %s\n%q", name, v.ID, v.Impact, v.Help, v.Nodes)
		}
	}
}
