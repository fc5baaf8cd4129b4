package browser

import (
	"fmt"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/suite"
)

// snapshots: what the outline has to show, and what not. Its lines are acted on, so that the page
// itself says whether the line is about the right element.
func snapshots() []*behaviour {
	press := func(words ...string) step { return call("click", with("ref", at(words))) }
	said := func(want string) step { return holds(`document.title`, want) }
	// say is a handler that tells the title which element it was.
	const say = `onclick="document.title=this.id"`
	var many strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&many, `<button id=m%d onclick="document.title=this.id">Item number %d</button>`, i, i)
	}
	size := func(least, most int) step {
		return check(func(_ *run, c *suite.Call) string {
			text, _ := c.Result["snapshot"].(string)
			if len(text) < least || len(text) > most {
				return fmt.Sprintf("the outline has %d bytes, want %d to %d", len(text), least, most)
			}
			return ""
		})
	}
	return []*behaviour{
		b("snapshot.button", "a button", "its line's ref presses it", html(`<button id=x `+say+`>Save it</button>`), press(`button "Save it"`),
			said("x")),
		b("snapshot.link", "a link", "its target is shown and its ref follows it", html(`<a href=docs>Docs</a>`),
			page{"docs", `<title>docs</title>`}, line(`link "Docs"`, "-> ", "docs"), press(`link "Docs"`), said("docs")),
		b("snapshot.label-for", "a field with a label", "it has the label's name", html(`<label for=f>Your name</label><input id=f>`),
			call("type", with("ref", at{`textbox "Your name"`}, "text", "Ada")), holds(`f.value`, "Ada")),
		b("snapshot.label-around", "a field inside its label", "it has the label's name", html(`<label>City <input id=f></label>`),
			call("type", with("ref", at{`textbox "City"`}, "text", "Rome")), holds(`f.value`, "Rome")),
		b("snapshot.labelledby", "a name from another element", "aria-labelledby is followed",
			html(`<span id=n>The name</span><button id=x aria-labelledby=n `+say+`>no</button>`), press(`button "The name"`), said("x")),
		b("snapshot.aria-label", "a name by aria-label", "it wins over the content", html(`<button id=x aria-label=Close `+say+`>×</button>`),
			press(`button "Close"`), said("x")),
		b("snapshot.placeholder", "a field named by its placeholder only", "the placeholder is its name",
			html(`<input id=f placeholder="Search here">`), call("type", with("ref", at{"Search here"}, "text", "q")), holds(`f.value`, "q")),
		b("snapshot.role-attribute", "roles given by attribute", "they are shown as such",
			html(`<div id=x role=menuitem tabindex=0 `+say+`>Cut</div><div role=switch aria-checked=true tabindex=0>Wifi</div>`),
			line(`switch "Wifi"`, "[checked]"), press(`menuitem "Cut"`), said("x")),
		b("snapshot.clickable-div", "a div with a handler", "marked as clickable, with a ref that presses it",
			html(`<div id=x `+say+`>Open menu</div>`), press("clickable", "Open menu"), said("x")),
		b("snapshot.clickable-pointer", "a div with a listener and a hand as pointer", "marked as clickable",
			html(`<div id=x style="cursor:pointer">Open</div><script>x.addEventListener('click',()=>document.title='x')</script>`),
			press("clickable", "Open"), said("x")),
		b("snapshot.clickable-inline", "a clickable word within a sentence", "it has a ref of its own",
			html(`<p>Read the <span id=x style="cursor:pointer" `+say+`>fine print</span> first.</p>`), press("clickable", "fine print"), said("x")),
		b("snapshot.clickable-rows", "rows of a table that can be clicked", "each has a ref of its own",
			html(`<table><tr id=r1 `+say+`><td>One<td>1<tr id=r2 `+say+`><td>Two<td>2</table>`), press("Two"), said("r2")),
		b("snapshot.icon-button", "a button with nothing but an icon", "a hint tells it apart and its ref presses it",
			html(`<svg width=0 height=0><symbol id=trash></symbol></svg><button id=a `+say+
				`><svg width=9 height=9><use href="#pen"/></svg></button><button id=x `+say+
				`><svg width=9 height=9><use href="#trash"/></svg></button>`),
			holds(`document.querySelector('#x').textContent`, ""), press("button", "hint=trash"), said("x")),
		b("snapshot.icon-image", "a clickable picture without a name", "its file's name tells it apart",
			html(`<img id=x src="image.svg" style="cursor:pointer" `+say+`>`), press("img", "image.svg"), said("x")),
		b("snapshot.unicode", "names in many scripts", "they come as they are", html(`<button id=x `+say+`>Grüße 🙂 日本 עברית</button>`),
			press("Grüße 🙂 日本 עברית"), said("x")),
		b("snapshot.values", "fields with values", "the values are shown",
			html(`<input id=f aria-label=Name value="Ada L."><textarea aria-label=Note>two
lines</textarea>`), line(`textbox "Name"`, `"Ada L."`), line(`textbox "Note"`, "two"), holds(`f.value='Bob'`, "Bob"),
			line(`textbox "Name"`, `"Bob"`)),
		b("snapshot.states", "controls in several states", "each state is shown, and the change of one", file("snapshot.states.html"),
			line(`checkbox "C"`, "[checked]"), line(`button "D"`, "[disabled]"), line(`"R"`, "[required]"), line(`"I"`, "[invalid]"),
			line(`"O"`, "[readonly]"), line(`heading "H"`, "level=3"), line(`button "E"`, "[collapsed]"), line(`button "P"`, "[pressed]"),
			call("click", with("selector", "#c")), holds(`c.checked`, false), noLine(`checkbox "C"`, "[checked]")),
		b("snapshot.fieldset-disabled", "a field in a disabled group", "shown as disabled",
			html(`<fieldset disabled><input aria-label=F id=f></fieldset>`), line(`"F"`, "[disabled]"), holds(`f.matches(':disabled')`, true)),
		b("snapshot.focused", "the focused field", "is marked, and only it", html(`<input id=a aria-label=A><input id=z aria-label=Z>`),
			call("click", with("selector", "#z")), line(`"Z"`, "[focused]"), noLine(`"A"`, "[focused]"), holds(`document.activeElement.id`, "z")),
		b("snapshot.hidden", "elements that nobody sees", "none of them is in the outline, though all are in the page",
			file("snapshot.hidden.html"),
			line(`button "Yes"`), noLine("N1"), noLine("N2"), noLine("N3"), noLine("N4"), noLine("N5"),
			holds(`document.querySelectorAll('button').length`, 6)),
		b("snapshot.details", "a closed part that opens", "its content appears when it is open",
			html(`<details id=d><summary>More</summary><button id=x `+say+`>Inside</button></details>`), noLine("Inside"), press("More"),
			holds(`d.open`, true), press(`button "Inside"`), said("x")),
		b("snapshot.offscreen", "a button far below", "it is shown and can be pressed",
			html(`<div style="height:5000px"></div><button id=x `+say+`>Far</button>`), press(`button "Far"`), said("x")),
		b("snapshot.sr-only", "text for screen readers only", "it is shown",
			html(`<button id=x `+say+
				`><span style="position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)">Secret name</span><b>!</b></button>`),
			press("button", "Secret name"), said("x")),
		b("snapshot.select", "a choice", "the chosen and the other options are shown",
			html(`<select id=s aria-label=Size><option>S<option selected>M<option>L</select>`), line(`combobox "Size"`, `"M"`, `"S"`, `"L"`),
			holds(`s.value='L'`, "L"), line(`combobox "Size"`, `"L" of`)),
		b("snapshot.multi-select", "a choice of several", "all chosen are shown",
			html(`<select id=s multiple aria-label=Tags><option selected>red<option>green<option selected>blue</select>`),
			line(`listbox "Tags"`, "red, blue"), holds(`s.selectedOptions.length`, 2)),
		b("snapshot.multiline", "a field of one line and one of several", "they are told apart",
			html(`<input aria-label=One><textarea aria-label=Many></textarea>`), line(`"Many"`, "[multiline]"), noLine(`"One"`, "[multiline]")),
		b("snapshot.contenteditable", "rich text", "is a textbox with its text",
			html(`<div id=e contenteditable aria-label=Body>Some text</div>`), line(`textbox "Body"`, "Some text"),
			call("type", with("ref", at{`textbox "Body"`}, "text", "!")), holds(`e.textContent`, "Some text!")),
		b("snapshot.ranges", "a slider, a progress bar and a meter", "their values are shown", file("snapshot.ranges.html"),
			line("slider", "7", "0 to 10"), line("progressbar", "3 of 4"), line("meter", "2 of 5"), holds(`r.value`, "7")),
		b("snapshot.table", "a table", "cells of a row stand together", html(`<table><tr><th>Name<th>City<tr><td>Ada<td>Paris</table>`),
			line("Name", "City"), line("Ada", "Paris"), holds(`document.querySelector('tr:last-child').cells.length`, 2)),
		b("snapshot.image-map", "an image with areas", "an area is a link that can be followed", file("snapshot.image-map.html"),
			page{"there", `<title>there</title>`}, press(`link "The map"`), said("there")),
		b("snapshot.portal", "a menu that is attached to the end of the body", "it is shown once open, and works", file("snapshot.portal.html"),
			press(`button "Menu"`), press(`menuitem "Export"`), said("x")),
		b("snapshot.modal", "a modal dialog", "it is shown with its content",
			html(`<button onclick="d.showModal()">Ask</button><dialog id=d><p>Really?</p><button id=x `+say+`>Yes</button></dialog>`),
			noLine("Really?"), press(`button "Ask"`), line("dialog"), line("Really?"), press(`button "Yes"`), said("x")),
		b("snapshot.popover", "a popover", "it is shown once open",
			html(`<button popovertarget=p>Tip</button><div id=p popover><button id=x `+say+`>Got it</button></div>`), noLine("Got it"),
			press(`button "Tip"`), press(`button "Got it"`), said("x")),
		b("snapshot.svg", "a shape with a handler in a drawing", "it has a ref that presses it",
			html(`<svg width=100 height=50><g id=x `+say+` aria-label="Bar 3" role=button><rect width=50 height=50 fill=red /></g></svg>`),
			press(`button "Bar 3"`), said("x")),
		b("snapshot.display-contents", "an element without a box of its own", "its content is shown",
			html(`<div style="display:contents"><button id=x `+say+`>Boxless</button></div>`), press("Boxless"), said("x")),
		b("snapshot.content-visibility", "content that is only laid out when near", "it is shown and can be pressed",
			html(`<div style="height:3000px"></div><div style="content-visibility:auto;contain-intrinsic-size:100px"><button id=x `+say+
				`>Lazy</button></div>`),
			press(`button "Lazy"`), said("x")),
		b("snapshot.subtree-selector", "one part, by selector", "only that part is shown",
			html(`<nav><button>Outside</button></nav><main><button id=x `+say+`>Inside</button></main>`), lineOf(with("selector", "main"), "Inside"),
			noLineOf(with("selector", "main"), "Outside"), press("Inside"), said("x")),
		b("snapshot.subtree-ref", "one part, by ref", "only that part is shown",
			html(`<button>Outside</button><div role=dialog aria-label=Box><button id=x `+say+`>Inside</button></div>`),
			lineOf(with("ref", at{`dialog "Box"`}), "Inside"), noLineOf(with("ref", at{`dialog "Box"`}), "Outside"), press("Inside"), said("x")),
		b("snapshot.interactive-only", "only what can be acted on", "texts are left out, controls are not",
			html(`<p>Long story</p><button id=x `+say+`>Do</button>`), noLineOf(with("interactive_only", true), "Long story"),
			lineOf(with("interactive_only", true), `button "Do"`), press("Do"), said("x")),
		b("snapshot.depth", "a deep page read shallowly", "what is deeper is left out",
			html(`<nav aria-label=N><ul aria-label=L><li><button id=x `+say+`>Deep</button></li></ul></nav>`), noLineOf(with("depth", 1), "Deep"),
			lineOf(with("depth", 1), "navigation"), lineOf(nil, "Deep"), press("Deep"), said("x")),
		b("snapshot.search", "a text looked for", "lines with it and what they are in are shown, others not",
			html(`<nav aria-label=Top><a href=1>Needle one</a><a href=2>Hay</a></nav><p>More hay</p>`),
			lineOf(with("search", "needle"), "Needle one"), lineOf(with("search", "needle"), "navigation"), noLineOf(with("search", "needle"), "ay"),
			holds(`document.body.innerText.includes('More hay')`, true)),
		b("snapshot.pattern", "a pattern looked for", "lines that match it are shown with those beside them, others not",
			html(`<p>Order 4711<p>Paid<p>Nothing else<p>Order none`),
			lineOf(with("search", `Order \d+`, "regex", true, "context_lines", 1), "Order 4711"),
			lineOf(with("search", `Order \d+`, "regex", true, "context_lines", 1), "Paid"),
			noLineOf(with("search", `Order \d+`, "regex", true, "context_lines", 1), "none"),
			refused("invalid_arguments", "snapshot", with("search", "(", "regex", true)), holds(`document.querySelectorAll('p').length`, 4)),
		b("snapshot.long-value", "a field with a long text", "it is cut with a count, and read whole by itself",
			html(`<textarea id=x aria-label=Notes></textarea><script>x.value='word '.repeat(500)+'end'</script>`), line("more characters"),
			lineOf(with("selector", "#x"), "end"), holds(`x.value.length`, 2503)),
		b("snapshot.boxes", "boxes asked for", "they are those of the layout", file("snapshot.boxes.html"),
			lineOf(with("boxes", true), "[box=10,20,100,30]"),
			holds(`(r=>[r.x,r.y,r.width,r.height].join())(x.getBoundingClientRect())`, "10,20,100,30")),
		b("snapshot.cap", "a page of 3,000 buttons", "the outline is capped, says so, and a part can still be read and used", html(many.String()),
			call("snapshot", nil), size(8000, 18000), field("truncated", true), holds(`document.querySelectorAll('button').length`, 3000),
			lineOf(with("selector", "#m2999"), "2999"), call("click", with("selector", "#m2999")), said("m2999")),
		b("snapshot.max-chars", "a cap of the caller's own", "it is kept", html(many.String()), call("snapshot", with("max_chars", 1000)),
			size(300, 1600), field("truncated", true), holds(`document.querySelectorAll('button').length`, 3000)),
		b("snapshot.cap-raised", "the whole of a large page asked for", "nothing is left out", html(many.String()),
			call("snapshot", with("max_chars", 200000)), field("snapshot", "Item number 2999"), check(func(_ *run, c *suite.Call) string {
				if n := strings.Count(c.Result["snapshot"].(string), "Item number"); n != 3000 {
					return fmt.Sprint(n, " of 3000 items")
				}
				return ""
			}), holds(`document.querySelectorAll('button').length`, 3000)),
		b("snapshot.delta", "a change since the last outline", "only what changed is shown",
			html(`<ul id=l><li>Old one<li>Old two</ul>`+strings.Repeat("<p>Same</p>", 40)), call("snapshot", nil),
			holds(`l.insertAdjacentHTML('beforeend','<li>Brand new'), l.children.length`, 3), call("snapshot", with("since", "last")),
			field("delta", true), field("snapshot", "Brand new"), without("Same")),
		b("snapshot.delta-nothing", "no change since the last outline", "that is all that is said",
			html(`<button>One</button><button>Two</button>`), call("snapshot", nil), call("snapshot", with("since", "last")),
			without(`button "One"`), without(`button "Two"`), holds(`document.querySelectorAll('button').length`, 2)),
		b("snapshot.delta-removed", "something gone since the last outline", "that is shown",
			html(`<button id=g>Gone</button>`+strings.Repeat("<button>Stays</button>", 40)), call("snapshot", nil), holds(`g.remove(), 1`, 1),
			call("snapshot", with("since", "last")), field("snapshot", "Gone"), without("Stays")),
		b("snapshot.refs-stable", "a page that grows before the button", "the button keeps its ref", html(`<button id=x `+say+`>Keep</button>`),
			keep("k", "Keep"), holds(`document.body.insertAdjacentHTML('afterbegin','<button>New</button>'), 1`, 1), sameRef("k", "Keep"),
			call("click", with("ref", known("k"))), said("x")),
		b("snapshot.ref-heals", "a button that was rendered anew", "its ref finds the new one by role and name",
			html(`<div id=d><button `+say+` id=old>Pay</button></div>`), keep("k", "Pay"),
			holds(`d.innerHTML='<button id=new onclick="document.title=this.id">Pay</button>', 1`, 1), call("click", with("ref", known("k"))),
			said("new")),
		b("snapshot.ref-dead", "a button that is gone", "its ref says so and what to do; nothing is pressed",
			html(`<div id=d><button>Pay</button></div>`), keep("k", "Pay"),
			holds(`d.innerHTML='<button onclick="document.title=1">Cancel</button>', 1`, 1),
			refused(capabilities.CodeStaleRef, "click", with("ref", known("k")), "napshot"), said("Test page")),
		b("snapshot.ref-ambiguous", "a button that was replaced by two of its name", "its ref does not guess",
			html(`<div id=d><button>Pay</button></div>`), keep("k", "Pay"),
			holds(`d.innerHTML='<button onclick="document.title=1">Pay</button><button onclick="document.title=2">Pay</button>', 1`, 1),
			refused(capabilities.CodeStaleRef, "click", with("ref", known("k"))), said("Test page")),
		b("snapshot.ref-moved", "a button that moved in the page", "its ref follows it", html(`<button id=x `+say+`>Move</button><p id=p>end`),
			keep("k", "Move"), holds(`p.append(x), 1`, 1), call("click", with("ref", known("k"))), said("x")),
		b("snapshot.ref-renamed", "a button whose text changes", "its ref is still the button's", html(`<button id=x `+say+`>Start</button>`),
			keep("k", "Start"), holds(`x.textContent='Stop'`, "Stop"), sameRef("k", "Stop"), call("click", with("ref", known("k"))), said("x")),
		b("snapshot.password", "a filled password field", "its value is nowhere in the outline",
			html(`<input id=p type=password aria-label=P value=hunter2>`), call("snapshot", nil), without("hunter2"), holds(`p.value`, "hunter2")),
		b("snapshot.password-shown", "a password made visible by the page", "it stays hidden from the outline",
			html(`<input id=p type=password aria-label=P>`), call("type", with("selector", "#p", "text", "hunter2")), call("snapshot", nil),
			holds(`p.type='text'`, "text"), call("snapshot", nil), without("hunter2"), holds(`p.value=="hunter2"`, true)),
		b("snapshot.while-loading", "a page that never finishes loading", "the outline of what is there comes",
			page{"p", `<button id=x ` + say + `>Early</button><script src=never></script>`},
			call("navigate", with("url", "{A}p", "wait_until", "none")), call("wait-for", with("selector", "#x", "timeout_ms", 5000)),
			press(`button "Early"`), said("x")),
		b("snapshot.busy-mutations", "a page that changes all the time", "the outline comes and its ref works",
			html(`<button id=x `+say+`>Go</button><p id=t></p><script>setInterval(()=>{t.textContent=performance.now()},1)</script>`),
			press(`button "Go"`), said("x")),
		b("snapshot.placeholder-page", "a page without a body's content", "it is empty and not an error", html(``), call("snapshot", nil),
			field("url", "{A}"), holds(`document.body.children.length`, 0)),
		b("snapshot.same-names", "five buttons of one name", "each has a ref of its own",
			html(`<ul><li><button id=a `+say+`>Delete</button><li><button id=b2 `+say+`>Delete</button></ul>`), func() step {
				return func(r *run) {
					outline := r.outline(nil)
					_, rest, _ := strings.Cut(outline, `button "Delete"`)
					_, second := refOf(rest, []string{`button "Delete"`})
					call("click", with("ref", second))(r)
				}
			}(), said("b2")),
	}
}
