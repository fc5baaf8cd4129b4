package browser

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// Barriers that keep people out of a page are found by axe-core. That is not a part of Handrail:
// the owner fetches it, names its file and pins its hash. It runs in an isolated world of its own.

// AuditScript is the owner's axe-core.
type AuditScript struct {
	// Path of axe.min.js. Empty: there is no auditing.
	Path string
	// SHA256 of it, in hexadecimal. A file with another one is not run.
	SHA256 string
}

// maxAuditScript bounds its file; axe-core has less than a megabyte.
const maxAuditScript = 8 << 20

const auditHint = "The node's owner fetches it with npm pack axe-core, and names the file and its SHA-256."

var nameAudit = capabilities.Action{Key: capabilities.ActionNameAudit}

// audited is the result of the tool.
type audited struct {
	URL        string    `json:"url"`
	Title      string    `json:"title,omitempty"`
	Engine     string    `json:"engine"`
	Violations []barrier `json:"violations"`
	More       int       `json:"more_violations,omitempty"`
	Passed     int       `json:"rules_passed"`
	Unsure     []string  `json:"to_be_looked_at"` // rules that only a person can judge here
}

// barrier is one rule that parts of the page break.
type barrier struct {
	Rule   string         `json:"rule"`
	Impact string         `json:"impact,omitempty"`
	Help   string         `json:"help"`
	Tags   []string       `json:"tags"`
	Count  int            `json:"count"`
	Places []barrierPlace `json:"places"`
}

type barrierPlace struct {
	Selector string `json:"selector"`
	What     string `json:"what"`
}

// maxBarriers bounds the rules that an answer has.
const maxBarriers = 60

// audit carries out tyrum.browser.audit.
func audit(c *call) (capabilities.Output, error) {
	args := struct {
		Selector string   `json:"selector"`
		Tags     []string `json:"tags"`
		Places   int      `json:"max_places"`
	}{Places: 3}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	source, err := c.lane.h.o.Audit.read()
	if err != nil {
		return capabilities.Output{}, err
	}
	if err := c.page(); err != nil {
		return capabilities.Output{}, err
	}
	if _, err := c.tab.inWorld(c.ctx); err != nil { // once the document can be asked
		return capabilities.Output{}, err
	}
	made, err := devtools.Do(c.ctx, c.tab.s, page.CreateIsolatedWorld,
		page.CreateIsolatedWorldParams{FrameID: cdp.FrameID(c.tab.id), WorldName: "handrail-audit"})
	if err != nil {
		return capabilities.Output{}, err
	}
	encoded, err := jsonv2.Marshal(args)
	if err != nil {
		return capabilities.Output{}, err
	}
	if _, err := c.inAudit(made.ExecutionContextID, source+"\n;0"); err != nil {
		return capabilities.Output{}, err
	}
	found, err := c.inAudit(made.ExecutionContextID, "("+auditing+")("+string(encoded)+")")
	if err != nil {
		return capabilities.Output{}, err
	}
	var r audited
	var no refusal
	if jsonv2.Unmarshal(found, &no) == nil && no.Error != "" {
		return capabilities.Output{}, asRefusal(no)
	}
	if err := jsonv2.Unmarshal(found, &r, jsonv2.AllowInvalidUTF8(true)); err != nil || r.Engine == "" {
		return capabilities.Output{}, errNoAudit
	}
	r.URL, r.Title, err = c.tab.locationOf(c.ctx, c.tab.askLocation(c.ctx))
	if err != nil {
		return capabilities.Output{}, err
	}
	r.URL, r.Title = c.told(r.URL, r.Title)
	r.bound(c)
	return capabilities.Output{Result: r, Untrusted: true}, nil
}

// bound cuts what the page or the script could make long, freed of what was typed in secret.
func (r *audited) bound(c *call) {
	hides := c.lane.hider()
	cut := func(s string, most int) string {
		shown := hides.text(s)
		if shown != s {
			c.hidIn("violations")
		}
		return clipText(shown, most)
	}
	if more := len(r.Violations) - maxBarriers; more > 0 {
		r.Violations, r.More = r.Violations[:maxBarriers], more
	}
	for i := range r.Violations {
		v := &r.Violations[i]
		v.Rule, v.Impact, v.Help = clipText(v.Rule, 60), clipText(v.Impact, 20), clipText(v.Help, 200)
		for j := range v.Tags {
			v.Tags[j] = clipText(v.Tags[j], 40)
		}
		for j := range v.Places {
			v.Places[j].Selector, v.Places[j].What = cut(v.Places[j].Selector, 300), cut(v.Places[j].What, 400)
		}
	}
	for i := range r.Unsure {
		r.Unsure[i] = clipText(r.Unsure[i], 60)
	}
	r.Engine = clipText(r.Engine, 40)
}

var errNoAudit = capabilities.Errorf(capabilities.CodeExecutionFailed,
	"The node's file for auditing is no axe-core that runs in this page.").
	WithHint("Its owner names axe.min.js of axe-core 4; a page of another program than the web's, such as a PDF, cannot be audited.")

// inAudit evaluates an expression in that world.
func (c *call) inAudit(world runtime.ExecutionContextID, expression string) ([]byte, error) {
	res, err := devtools.Do(c.ctx, c.tab.s, runtime.Evaluate, runtime.EvaluateParams{
		Expression: expression, ContextID: world, ReturnByValue: ptr(true), AwaitPromise: ptr(true), Silent: ptr(true),
	})
	switch {
	case err != nil:
		return nil, err
	case res.ExceptionDetails != nil || res.Result == nil:
		return nil, errNoAudit
	}
	return res.Result.Value, nil
}

// auditing runs axe-core on the page or a part of it. Frames are left out: axe-core would have to
// be in each, and messages between them go through the page.
const auditing = `async o => {
	let part = document;
	if (o.selector) {
		try { part = document.querySelector(o.selector) } catch {
			return {error: 'invalid_arguments', message: 'The selector is not valid CSS.'}
		}
		if (!part) return {error: 'element_not_found', message: 'No element matches the selector.'}
	}
	const options = {iframes: false, resultTypes: ['violations', 'incomplete'], elementRef: false};
	if (o.tags?.length) options.runOnly = {type: 'tag', values: o.tags};
	let r;
	try { r = await axe.run(part, options) } catch (e) {
		return {error: 'invalid_arguments', message: 'axe-core: ' + String(e?.message || e).slice(0, 300)}
	}
	return {
		engine: r.testEngine.name + ' ' + r.testEngine.version, rules_passed: r.passes.length,
		to_be_looked_at: r.incomplete.map(x => x.id).slice(0, 60),
		violations: r.violations.map(v => ({
			rule: v.id, impact: v.impact || '', help: v.help, count: v.nodes.length,
			tags: v.tags.filter(t => /^(wcag|best|section|EN)/.test(t)).slice(0, 12),
			places: v.nodes.slice(0, o.max_places).map(n => ({
				selector: n.target.map(t => [].concat(t).join(' >>> ')).join(' '), what: (n.failureSummary || '').replace(/\s+/g, ' ').trim(),
			})),
		})),
	};
}`

// read returns the owner's script, if it is what they pinned.
func (a AuditScript) read() (string, error) {
	if a.Path == "" {
		return "", capabilities.Errorf(capabilities.CodeNotSupported, "This node has no axe-core to audit pages with.").
			WithAction(nameAudit, auditHint)
	}
	f, err := os.Open(a.Path)
	if err != nil {
		return "", capabilities.Wrap(capabilities.CodeNotSupported, err, "The node's axe-core cannot be read.").WithAction(nameAudit, auditHint)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxAuditScript+1))
	if err != nil || len(text) > maxAuditScript {
		return "", capabilities.Wrap(capabilities.CodeNotSupported, err, "The node's axe-core cannot be read.").WithAction(nameAudit, auditHint)
	}
	if sum := sha256.Sum256(text); !strings.EqualFold(hex.EncodeToString(sum[:]), a.SHA256) {
		return "", capabilities.Errorf(capabilities.CodeDeniedByNode,
			"The node's axe-core is not the one that its owner pinned; it was not run.").
			WithAction(nameAudit, "The owner checks the file, and names its SHA-256.")
	}
	return string(text), nil
}
