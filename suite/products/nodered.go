package products

import (
	"fmt"

	"github.com/handrail-dev/handrail/suite"
	"github.com/handrail-dev/handrail/suite/browser"
)

// nodeRED is an editor of flows, which its server carries out once they are deployed.
func nodeRED() *product {
	p := &product{name: "node-red", pkg: "node-red", server: server{
		program: "node-red/red.js",
		args: func(p place) []string {
			return []string{"--userDir", p.dir, "--settings", "settings.js", "--port", p.port}
		},
		files: map[string]string{"settings.js": `module.exports = {
	uiHost: '127.0.0.1', flowFile: 'flows.json', credentialSecret: false, telemetry: {enabled: false, updateNotification: false},
	editorTheme: {tours: false, codeEditor: {lib: 'monaco'}},
	logging: {console: {level: 'warn', metrics: false, audit: false}},
}
`},
		ready: "/settings",
	}}
	start := open("{node-red}/")
	code := `msg.payload = "Hello " + msg.req.query.name
return msg`
	p.does("flow", "drags three nodes into a flow, wires them, sets what they do and deploys", "the flow answers over HTTP",
		start, comes("http in"),
		placed("http in", 60, 100), placed("function", 260, 100), placed("http response", 480, 100), wired(0, 0), wired(1, 1),
		edited(0, "Edit http in node"), filledOn("/tea", "#node-input-url"), done(),
		edited(1, "Edit function node"), filledOn(code, "#node-input-func-editor .monaco-editor"), done(),
		click(`link "Deploy"`), answers("{node-red}/tea?name=Ada", nil, holds("Hello Ada")))
	p.does("import", "imports a flow by its text and deploys", "the server has it and carries it out", start, comes("http in"),
		key("Control+i"), comes("Paste flow json"), filled(imported, "textbox", "[multiline]"), click(`button "Import"`),
		click(`link "Deploy"`), answers("{node-red}/coffee", nil, holds("black")))
	return p
}

// placed drags a node from the palette to a point of the workspace.
func placed(kind string, x, y float64) step {
	return browser.By(func(c browser.Case) {
		from := pointOf(c, fmt.Sprintf(`.red-ui-palette-node[data-palette-type=%q]`, kind), 0)
		ground := cornerOf(c, "#red-ui-workspace-chart")
		to := suite.With("x", ground["x"].(float64)+x, "y", ground["y"].(float64)+y)
		must(c, "drag", suite.With("path", []any{from, suite.With("x", 400, "y", 200), to}))
	})
}

// imported is a flow as it is copied from one place to another.
const imported = `[{"id":"a1","type":"tab","label":"Coffee"},` +
	`{"id":"b1","type":"http in","z":"a1","name":"","url":"/coffee","method":"get","x":120,"y":80,"wires":[["c1"]]},` +
	`{"id":"c1","type":"template","z":"a1","name":"","field":"payload","fieldType":"msg","format":"handlebars","syntax":"mustache",` +
	`"template":"black","output":"str","x":280,"y":80,"wires":[["d1"]]},` +
	`{"id":"d1","type":"http response","z":"a1","name":"","x":430,"y":80,"wires":[]}]`

// edited opens the n-th node of the flow, whose dialog has a title.
func edited(n int, title string) step {
	return browser.By(func(c browser.Case) {
		at := pointOf(c, ".red-ui-flow-node-group", n)
		must(c, "click", suite.With("x", at["x"], "y", at["y"], "count", 2))
		awaited(c, suite.With("text", title))
	})
}

// done closes the open dialog and keeps what it has.
func done() step {
	return browser.By(func(c browser.Case) {
		must(c, "click", suite.With("selector", "#node-dialog-ok"))
		awaited(c, suite.With("selector", ".red-ui-tray", "state", "hidden"))
	})
}

// wired drags a wire from the n-th output to the m-th input of the flow.
func wired(output, input int) step {
	return browser.By(func(c browser.Case) {
		must(c, "drag", suite.With("path", []any{
			pointOf(c, ".red-ui-flow-node-group .red-ui-flow-port-output", output),
			pointOf(c, ".red-ui-flow-node-group .red-ui-flow-port-input", input),
		}))
	})
}

// pointOf returns the middle of the n-th element that matches, in the viewport.
func pointOf(c browser.Case, selector string, n int) map[string]any {
	return boxOf(c, selector, n, `({x: b.x + b.width / 2, y: b.y + b.height / 2})`)
}

func cornerOf(c browser.Case, selector string) map[string]any {
	return boxOf(c, selector, 0, `({x: b.x, y: b.y})`)
}

func boxOf(c browser.Case, selector string, n int, of string) map[string]any {
	made := must(c, "evaluate", suite.With("expression", fmt.Sprintf(
		`(() => { const e = document.querySelectorAll(%q)[%d]; if (!e) return null; e.scrollIntoView?.({block: 'nearest'});
		const b = e.getBoundingClientRect(); return %s })()`, selector, n, of)))
	point, _ := made.Result["result"].(map[string]any)
	if point == nil {
		c.Fail("the page has no element %d of %s", n, selector)
	}
	return point
}
