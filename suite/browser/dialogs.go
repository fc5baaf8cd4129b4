package browser

import (
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/suite"
)

// dialogs: whatever opens one, nothing waits for a person who is not there.
func dialogs() []*behaviour {
	answer := func(accept bool) step { return call("handle-dialog", with("accept", accept)) }
	click := call("click", with("selector", "#x"))
	return []*behaviour{
		b("dialog.alert", "a button that opens an alert", "the click reports it and ends; answered, the page goes on",
			html(`<button id=x onclick="alert('Saved!');document.title='after'">A</button>`), click, field("dialog.type", "alert"),
			field("dialog.message", "Saved!"), answer(true), becomes(`document.title`, "after")),
		b("dialog.confirm-accept", "a question", "accepted, the page hears yes",
			html(`<button id=x onclick="document.title=confirm('Sure?')">C</button>`), click, field("dialog.type", "confirm"), answer(true),
			becomes(`document.title`, "true")),
		b("dialog.confirm-dismiss", "a question", "dismissed, the page hears no",
			html(`<button id=x onclick="document.title=confirm('Sure?')">C</button>`), click, answer(false), becomes(`document.title`, "false")),
		b("dialog.prompt", "a question for a text", "the page hears the text",
			html(`<button id=x onclick="document.title=prompt('Name?','Bob')">P</button>`), click, field("dialog.default_value", "Bob"),
			call("handle-dialog", with("accept", true, "prompt_text", "Ada")), becomes(`document.title`, "Ada")),
		b("dialog.prompt-dismiss", "a question for a text, dismissed", "the page hears nothing",
			html(`<button id=x onclick="document.title=prompt('Name?')">P</button>`), click, answer(false), becomes(`document.title`, "null")),
		b("dialog.named", "the answer to a dialog", "it tells which dialog it was",
			html(`<button id=x onclick="document.title=confirm('Really?')">C</button>`), click, answer(true), field("dialog_type", "confirm"),
			field("message", "Really?"), becomes(`document.title`, "true")),
		b("dialog.on-load", "an alert while the page loads", "opening the page reports it and ends",
			page{"p", `<title>p</title><script>alert('Hello');loaded=1</script><p id=q>rest`}, call("navigate", with("url", "{A}p")),
			field("dialog.message", "Hello"), answer(true), becomes(`typeof q`, "object")),
		b("dialog.from-timer", "an alert that comes by itself", "the next call reports it instead of hanging", file("dialog.from-timer.html"),
			served("seen"), func(r *run) {
				c := r.Call("click", with("selector", "#y"))
				if c.Code != capabilities.CodeDialogOpen && suite.Pick(c.Result, "dialog.message") != "Tick" {
					r.Fail("the open dialog was not reported: %s", c.End())
				}
			}, either("handle-dialog", with("accept", true)), becomes(`1`, 1)),
		b("dialog.blocks-say", "a snapshot while a dialog is open", "refused with type and text; a screenshot and the tabs still answer",
			html(`<button id=x onclick="document.title=confirm('Sure?')">C</button>`), click,
			refused(capabilities.CodeDialogOpen, "snapshot", nil, "confirm", "Sure?"), call("tabs", nil), answer(true),
			becomes(`document.title`, "true")),
		b("dialog.evaluate", "an expression that opens an alert", "it does not hang", html(`<p>x`),
			either("evaluate", with("expression", "alert('From script'); 7", "timeout_ms", 8000)), either("handle-dialog", with("accept", true)),
			becomes(`1`, 1)),
		b("dialog.two", "two dialogs one after the other", "each is reported and answered",
			html(`<button id=x onclick="document.title=[confirm('One?'),confirm('Two?')].join()">C</button>`), click,
			field("dialog.message", "One?"), answer(true), func(r *run) {
				// The second may be open already when the first is answered, or a moment later.
				r.until("the second dialog", func() bool { return r.Call("snapshot", nil).Code == capabilities.CodeDialogOpen })
			}, answer(false), becomes(`document.title`, "true,false")),
		b("dialog.armed", "an answer given before there is a dialog", "the next dialog is answered by it",
			html(`<button id=x onclick="document.title=prompt('Name?')">P</button>`),
			call("handle-dialog", with("accept", true, "prompt_text", "early")), click, becomes(`document.title`, "early")),
		b("dialog.beforeunload", "a page that asks before it is left", "opening another reports it; accepted, the other opens",
			html(`<title>editor</title><button id=x>edit</button><script>onbeforeunload=e=>{e.preventDefault();return 'x'}</script>`),
			page{"next", `<title>next</title>`}, click, either("navigate", with("url", "{A}next")), either("handle-dialog", with("accept", true)),
			func(r *run) {
				if r.eval(`document.title`) != "next" {
					becomes(`document.title`, "next")(r)
				}
			}),
		b("dialog.beforeunload-stay", "the same, and the person stays", "dismissed, the page is as it was", file("dialog.beforeunload-stay.html"),
			page{"next", `<title>next</title>`}, click, either("navigate", with("url", "{A}next")), func(r *run) {
				c := r.Last()
				if suite.Pick(c.Result, "dialog.type") != "beforeunload" && c.Code != capabilities.CodeDialogOpen {
					r.Fail("the question was not reported: %s", c.End())
				}
			}, answer(false), becomes(`[document.title, mark]`, []any{"editor", 5})),
		b("dialog.beforeunload-close", "closing a tab whose page asks before it is left", "the tab is gone",
			html(`<button id=x>edit</button><script>onbeforeunload=e=>{e.preventDefault();return 'x'}</script>`), page{"two", `<title>two</title>`},
			click, call("tabs", with("action", "new", "url", "{A}two")), call("tabs", with("action", "close", "index", 0)), call("tabs", nil),
			field("tabs.length", 1), holds(`document.title`, "two")),
		b("dialog.frame", "an alert from a frame of another origin", "reported and answered",
			html(`<iframe src="{B}in"></iframe><script>var heard=[];onmessage=e=>heard.push(e.data)</script>`),
			page{"in", `<button onclick="alert('In frame');top.postMessage('after','*')">Inside</button>`}, call("click", with("ref", at{"Inside"})),
			field("dialog.message", "In frame"), answer(true), becomes(`heard.join()`, "after")),
		b("dialog.other-tab", "a dialog in another tab", "this tab still works", html(`<button id=y onclick="document.title='y'">Y</button>`),
			page{"two", `<button id=x onclick="alert(1)">x</button>`}, call("tabs", with("action", "new", "url", "{A}two")), click,
			call("tabs", with("action", "select", "index", 0)), call("click", with("selector", "#y")), holds(`document.title`, "y")),
		b("dialog.print", "a page that prints", "the call ends and the page works",
			html(`<button id=x onclick="print();document.title='after'">P</button>`), click, becomes(`document.title`, "after")),
	}
}
