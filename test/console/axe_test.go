//go:build unix

package console

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// accessible has axe-core look at the page. Whoever has its package names the folder
// with node_modules in HANDRAIL_CONSOLE; without it this part is left out, and said.
func (d *desk) accessible(name string) {
	d.t.Helper()
	dir := os.Getenv("HANDRAIL_CONSOLE")
	if dir == "" {
		return
	}
	source, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
	must(d.t, err)
	// Given by the debugger, which the page's policy does not bind.
	must(d.t, d.run("window.axe ? 1 : (0, eval)", nil))
	if d.value("typeof window.axe") == "undefined" {
		must(d.t, d.run(string(source), nil))
	}
	var found string
	must(d.t, d.run(`axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then(r => JSON.stringify(r.violations.map(v => ({id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.slice(0, 3).map(n => n.html.slice(0, 200) + " // " + n.failureSummary)}))))`, &found))
	var all []struct {
		ID, Impact, Help string
		Nodes            []string
	}
	must(d.t, json.Unmarshal([]byte(found), &all))
	for _, v := range all {
		if v.Impact == "serious" || v.Impact == "critical" {
			d.t.Errorf("%s: %s (%s): %s\n%q", name, v.ID, v.Impact, v.Help, v.Nodes)
		} else {
			d.t.Logf("%s: %s (%s): %s\n%q", name, v.ID, v.Impact, v.Help, v.Nodes)
		}
	}
}
