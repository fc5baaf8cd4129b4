package browser

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/dom"
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
	Unsure     []string  `json:"to_be_looked_at"`  // rules that only a person can judge here
	Frames     int       `json:"frames,omitempty"` // that were audited with the page
	LeftOut    int       `json:"frames_left_out,omitempty"`
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
	Frame    string `json:"frame,omitempty"` // the selectors of the frames around it, the outermost first
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
	encoded, err := jsonv2.Marshal(args)
	if err != nil {
		return capabilities.Output{}, err
	}
	a := &auditor{c: c, source: source, args: string(encoded)}
	found, err := a.page()
	if err != nil {
		return capabilities.Output{}, err
	}
	var r audited
	if err := jsonv2.Unmarshal(found, &r, jsonv2.AllowInvalidUTF8(true)); err != nil || r.Engine == "" {
		return capabilities.Output{}, errNoAudit
	}
	r.Frames, r.LeftOut = a.frames, a.leftOut
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
			at := &v.Places[j]
			at.Frame, at.Selector, at.What = cut(at.Frame, 300), cut(at.Selector, 300), cut(at.What, 400)
		}
	}
	for i := range r.Unsure {
		r.Unsure[i] = clipText(r.Unsure[i], 60)
	}
	r.Engine = clipText(r.Engine, 40)
}

var errNoAudit = capabilities.Errorf(capabilities.CodeExecutionFailed,
	"The node's file for auditing is no axe-core that runs in this page.").
	WithHint("Its owner names axe.min.js of axe-core 4.3 or later; a page of another program than the web's, such as a PDF, " +
		"cannot be audited.")

// auditor audits the page of a call, document by document: axe-core runs in each, and the first
// one's joins what all of them found. They exchange nothing through the page.
type auditor struct {
	c               *call
	source, args    string
	frames, leftOut int
}

// Bounds of what is audited below a page's own document.
const (
	maxAuditedFrames = 32
	maxPartial       = 4 << 20 // of what was found in one frame, in bytes
	auditFrameWait   = 8 * time.Second
)

// auditedDocument is one document as its frames have to know it.
type auditedDocument struct {
	s     *devtools.Session
	world runtime.ExecutionContextID
}

// page audits the document of the tab with the frames below it, and returns what came of it.
func (a *auditor) page() ([]byte, error) {
	t := a.c.tab
	top, begun, err := a.begin(a.c.ctx, t.s, cdp.FrameID(t.id), "null")
	if err != nil {
		return nil, err
	}
	var no refusal
	if jsonv2.Unmarshal(begun, &no) == nil && no.Error != "" {
		return nil, asRefusal(no)
	}
	partials := a.below(top, begun)
	found, err := a.evaluate(a.c.ctx, top, "("+finishAudit+")("+a.args+",["+strings.Join(partials, ",")+"])")
	if err != nil {
		return nil, err
	}
	return found, nil
}

// begin runs axe-core in one document. around is the part of it that its parent asks for, as JSON;
// null for the page's own. The answer names the frames in it.
func (a *auditor) begin(ctx context.Context, s *devtools.Session, id cdp.FrameID, around string) (d auditedDocument, begun []byte,
	err error,
) {
	made, err := devtools.Do(ctx, s, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: id, WorldName: "handrail-audit"})
	if err != nil {
		return d, nil, err
	}
	d = auditedDocument{s, made.ExecutionContextID}
	if _, err := a.evaluate(ctx, d, a.source+"\n;0"); err != nil {
		return d, nil, err
	}
	begun, err = a.evaluate(ctx, d, "("+beginAudit+")("+a.args+","+around+")")
	return d, begun, err
}

// below audits the frames of a document, and returns what was found in each of them and below
// it, in the order of the document, as axe-core joins it: null for one that could not be audited.
func (a *auditor) below(d auditedDocument, begun []byte) (partials []string) {
	var answer struct {
		Frames []json.RawMessage `json:"frames"`
	}
	if jsonv2.Unmarshal(begun, &answer, jsonv2.AllowInvalidUTF8(true)) != nil {
		return nil
	}
	for i, around := range answer.Frames {
		found := a.frame(d, i, string(around))
		if found == nil {
			a.leftOut++
			found = []string{"null"}
		}
		partials = append(partials, found...)
	}
	return partials
}

// frame audits the frame of that number in a document, with those below it; nil: it cannot be.
func (a *auditor) frame(d auditedDocument, number int, around string) []string {
	if a.frames >= maxAuditedFrames {
		return nil
	}
	ctx, cancel := context.WithTimeout(a.c.ctx, auditFrameWait)
	defer cancel()
	element, err := devtools.Do(ctx, d.s, runtime.Evaluate, runtime.EvaluateParams{
		Expression: fmt.Sprintf("handrailAudit.frame(%d)", number), ContextID: d.world, ObjectGroup: "handrail-audit", Silent: ptr(true),
	})
	if err != nil || element.Result == nil || element.Result.ObjectID == "" {
		return nil
	}
	defer devtools.Start(a.c.ctx, d.s, runtime.ReleaseObjectGroup, runtime.ReleaseObjectGroupParams{ObjectGroup: "handrail-audit"})
	node, err := devtools.Do(ctx, d.s, dom.DescribeNode, dom.DescribeNodeParams{ObjectID: element.Result.ObjectID})
	if err != nil || node.Node == nil || node.Node.FrameID == "" {
		return nil
	}
	s := a.c.tab.sessionOf(node.Node.FrameID, d.s)
	if s == nil {
		return nil
	}
	in, begun, err := a.begin(ctx, s, node.Node.FrameID, around)
	if err != nil {
		return nil
	}
	partial, err := a.evaluate(ctx, in, "handrailAudit.partial")
	if err != nil || len(partial) > maxPartial {
		return nil
	}
	a.frames++
	return append([]string{string(partial)}, a.below(in, begun)...)
}

// evaluate evaluates an expression in the auditor's world of a document.
func (a *auditor) evaluate(ctx context.Context, d auditedDocument, expression string) ([]byte, error) {
	res, err := devtools.Do(ctx, d.s, runtime.Evaluate, runtime.EvaluateParams{
		Expression: expression, ContextID: d.world, ReturnByValue: ptr(true), AwaitPromise: ptr(true), Silent: ptr(true),
	})
	switch {
	case err != nil:
		return nil, err
	case res.ExceptionDetails != nil || res.Result == nil:
		return nil, errNoAudit
	}
	return res.Result.Value, nil
}

// beginAudit runs axe-core on one document, or on the part of it that is asked for, and keeps what
// it found there; it returns the frames, with what axe-core has to know in each.
const beginAudit = `async (o, around) => {
	let part = around || document;
	if (!around && o.selector) {
		try { part = document.querySelector(o.selector) } catch {
			return {error: 'invalid_arguments', message: 'The selector is not valid CSS.'}
		}
		if (!part) return {error: 'element_not_found', message: 'No element matches the selector.'}
	}
	const options = {elementRef: false};
	if (o.tags?.length) options.runOnly = {type: 'tag', values: o.tags};
	try {
		const frames = axe.utils.getFrameContexts(part, options);
		globalThis.handrailAudit = {
			options, partial: await axe.runPartial(part, options), frame: i => axe.utils.shadowSelect(frames[i].frameSelector),
		};
		return {frames: frames.map(f => f.frameContext)};
	} catch (e) {
		return {error: 'invalid_arguments', message: 'axe-core: ' + String(e?.message || e).slice(0, 300)};
	}
}`

// finishAudit joins what was found in all documents, in the page's own one.
const finishAudit = `async (o, below) => {
	const r = await axe.finishRun([handrailAudit.partial, ...below], {...handrailAudit.options, resultTypes: ['violations', 'incomplete']});
	const words = t => [].concat(t).join(' >>> ');
	return {
		engine: r.testEngine.name + ' ' + r.testEngine.version, rules_passed: r.passes.length,
		to_be_looked_at: r.incomplete.map(x => x.id).slice(0, 60),
		violations: r.violations.map(v => ({
			rule: v.id, impact: v.impact || '', help: v.help, count: v.nodes.length,
			tags: v.tags.filter(t => /^(wcag|best|section|EN)/.test(t)).slice(0, 12),
			places: v.nodes.slice(0, o.max_places).map(n => ({
				frame: n.target.slice(0, -1).map(words).join(' | '), selector: words(n.target.at(-1)),
				what: (n.failureSummary || '').replace(/\s+/g, ' ').trim(),
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
