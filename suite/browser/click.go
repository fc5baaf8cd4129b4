package browser

import (
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/suite"
)

// clicks: real input at the right place, honest about what came of it.
func clicks() []*behaviour {
	const say = `onclick="document.title=this.id"`
	said := func(want string) step { return holds(`document.title`, want) }
	click := func(selector string) step { return call("click", with("selector", selector)) }
	// log is a page whose button tells each event of the mouse.
	log := file("click.log.html")
	list := []*behaviour{
		b("click.trusted", "a button", "the page gets one trusted click with pointer events before it", file("click.trusted.html"),
			click("#x"), holds(`log.join()`, "pointerovertrue,pointerdowntrue,mousedowntrue,pointeruptrue,mouseuptrue,clicktrue")),
		b("click.ref", "a button by its ref", "that button is pressed", html(`<button id=x `+say+`>A</button><button id=y `+say+`>B</button>`),
			call("click", with("ref", at{`"B"`})), said("y")),
		b("click.right", "the right button", "the page's context menu handler runs", log,
			call("click", with("selector", "#x", "button", "right")),
			holds(`['mousedown2','contextmenu2','mouseup2'].every(t=>log.includes(t)) && !log.includes('click0')`, true)),
		b("click.middle", "the middle button", "it is an auxiliary click", log, call("click", with("selector", "#x", "button", "middle")),
			holds(`log.join()`, "mousedown1,mouseup1,auxclick1")),
		b("click.double", "two clicks", "the page gets a double click", log, call("click", with("selector", "#x", "count", 2)),
			holds(`log.join()`, "mousedown0,mouseup0,click0,mousedown0,mouseup0,click0,dblclick0")),
		b("click.triple", "three clicks on a paragraph", "the paragraph is selected", html(`<p id=x>some words here</p>`),
			call("click", with("selector", "#x", "count", 3)), becomes(`getSelection().toString().trim()`, "some words here")),
		b("click.modifiers", "keys held down", "the event has them", log,
			call("click", with("selector", "#x", "modifiers", []any{"Shift", "Alt"})),
			holds(`[last.shiftKey,last.altKey,last.ctrlKey,last.metaKey].join()`, "true,true,false,false")),
		b("click.position", "a place within the element", "the event is there", log,
			call("click", with("selector", "#x", "position", with("x", 7, "y", 9))),
			holds(`(r=>[last.clientX-Math.round(r.left),last.clientY-Math.round(r.top)].join())(x.getBoundingClientRect())`, "7,9")),
		b("click.coordinates", "a place on a canvas", "the canvas gets the event there", file("click.coordinates.html"),
			call("click", with("x", 120, "y", 80)), said("true 120,80")),
		b("click.hold", "a button held down", "it is down that long", file("click.hold.html"),
			call("click", with("selector", "#x", "hold_ms", 300)), said("true")),
		b("click.down-up", "pressing and letting go as two calls", "the page sees the button down between them", file("click.down-up.html"),
			call("click", with("selector", "#x", "action", "down")), holds(`log.join()`, "down"),
			call("click", with("selector", "#x", "action", "up")), holds(`log.join()`, "down,up,click")),
		b("click.scrolls", "a button far below", "it is scrolled to and pressed",
			html(`<div style="height:4000px"></div><button id=x `+say+`>Far</button>`), click("#x"), said("x"), holds(`scrollY>0`, true)),
		b("click.scrolls-container", "a button in a list that scrolls by itself", "the list is scrolled",
			html(`<div id=l style="height:100px;overflow:auto"><div style="height:900px"></div><button id=x `+say+`>In</button></div>`), click("#x"),
			said("x"), holds(`l.scrollTop>0`, true)),
		b("click.scrolls-sideways", "a button far to the right", "it is scrolled to",
			html(`<div style="width:5000px"></div><button id=x style="position:absolute;left:4800px" `+say+`>R</button>`), click("#x"), said("x"),
			holds(`scrollX>0`, true)),
		b("click.sticky-header", "a button that scrolling puts below a fixed header", "the button is pressed, not the header",
			html(
				`<style>body{margin:0}header{position:fixed;top:0;left:0;right:0;height:120px;background:#ccc}</style><header onclick="document.title='header'">H</header><div style="height:1500px"></div><button id=x `+
					say+`>B</button><div style="height:3000px"></div>`),
			holds(`scrollTo(0,1490), document.querySelector('#x').getBoundingClientRect().top<120`, true), click("#x"), said("x")),
		b("click.covered-names-cover", "a button below an overlay", "refused with the cover's name; neither gets a click",
			html(`<button id=x `+say+
				`>Buy</button><div id=ov class=consent style="position:fixed;inset:0;background:#0008" onclick="document.title='cover'">We use cookies</div>`),
			refused(capabilities.CodeElementObscured, "click", with("selector", "#x"), "#ov", "cookies"), said("Test page")),
		b("click.covered-transparent", "a button below an invisible overlay", "refused as well",
			html(`<button id=x `+say+`>Buy</button><div id=glass style="position:fixed;inset:0"></div>`),
			refused(capabilities.CodeElementObscured, "click", with("selector", "#x"), "glass"), said("Test page")),
		b("click.cover-removed", "the cover is dealt with first", "then the button is pressed",
			html(`<button id=x `+say+
				`>Buy</button><div id=ov style="position:fixed;inset:0;background:#fff"><button id=ok onclick="ov.remove()">Accept</button></div>`),
			refused(capabilities.CodeElementObscured, "click", with("selector", "#x")), call("click", with("ref", at{`button "Accept"`})),
			click("#x"), said("x")),
		b("click.cover-leaves", "a cover that fades away by itself", "the button is pressed once it is free, or refused with the cover's name",
			html(
				`<style>@keyframes f{to{opacity:0;visibility:hidden}}#ov{position:fixed;inset:0;background:#fff;animation:f .2s forwards}</style><button id=x `+
					say+`>Buy</button><div id=ov></div>`),
			becomes(`getComputedStyle(ov).visibility`, "hidden"), click("#x"), said("x")),
		b("click.through", "an overlay that lets the pointer through", "the button below is pressed",
			html(`<button id=x `+say+`>Buy</button><div style="position:fixed;inset:0;pointer-events:none;background:#0003"></div>`), click("#x"),
			said("x")),
		b("click.partly-covered", "a button whose middle is covered",
			"a free part of it is pressed, or the cover is named; never the cover pressed",
			html(`<button id=x style="position:absolute;left:0;top:0;width:300px;height:60px" `+say+
				`>Wide</button><div id=bar style="position:absolute;left:100px;top:0;width:100px;height:60px;background:red" onclick="document.title='bar'"></div>`),
			either("click", with("selector", "#x")), holds(`['x','Test page'].includes(document.title)`, true)),
		b("click.disabled", "a disabled button", "refused as disabled", html(`<button id=x disabled `+say+`>No</button>`),
			refused(capabilities.CodeElementDisabled, "click", with("selector", "#x")), said("Test page")),
		b("click.hidden", "a button that nobody sees", "refused; nothing of it runs",
			html(`<button id=x style="display:none" `+say+`>No</button>`), either("click", with("selector", "#x")),
			check(func(_ *run, c *suite.Call) string {
				if c.Code == "" {
					return "it was not refused"
				}
				return ""
			}), said("Test page")),
		b("click.moving", "a button on its way across the page", "it is hit where it comes to rest",
			html(`<style>@keyframes go{from{left:0}to{left:400px}}#x{position:absolute;animation:go .3s linear forwards}</style><button id=x `+say+
				`>M</button>`),
			click("#x"), said("x")),
		b("click.dodging", "a button that jumps away from the pointer once", "it is hit where it went, not what was behind it",
			html(`<button id=danger style="position:absolute;left:0;top:0;width:200px;height:50px" `+say+
				`>Delete</button><button id=ok style="position:absolute;left:0;top:0;width:200px;height:50px" `+
				say+`>OK</button><script>let k=0;ok.addEventListener('pointerover',()=>{if(!k++)ok.style.top='200px'})</script>`),
			click("#ok"), said("ok")),
		b("click.rerendered", "a button that is rendered anew when pressed down", "what comes of it is told as it is",
			file("click.rerendered.html"), click("#x"), holds(`d.dataset.n`, "1")),
		b("click.label", "the label of a checkbox", "the box is checked", html(`<input type=checkbox id=c><label id=l for=c>Agree</label>`),
			click("#l"), holds(`c.checked`, true)),
		b("click.checkbox", "a checkbox, twice", "checked and unchecked", html(`<input type=checkbox id=c>`), click("#c"),
			holds(`c.checked`, true), click("#c"), holds(`c.checked`, false)),
		b("click.hidden-checkbox", "a checkbox that is hidden behind a styled label", "the label shown in its place works",
			file("click.hidden-checkbox.html"), click("#s"), holds(`c.checked`, true)),
		b("click.radio", "one of several", "it and only it is chosen",
			html(`<input type=radio name=r id=a checked><input type=radio name=r id=z>`), click("#z"),
			holds(`[a.checked,z.checked].join()`, "false,true")),
		b("click.link", "a link", "the new document is open when the call ends", html(`<a id=x href=next>n</a>`),
			page{"next", `<title>next</title><p>here`}, click("#x"), field("url", "{A}next"), said("next")),
		b("click.link-wrapped", "a link that wraps to a second line", "the link is hit, though the middle of its box is empty",
			html(`<div style="width:260px;font:16px monospace">xxxxxxxxxxxxxxxxxxxx <a id=x href=next>aaaaa bb</a> xxxxx</div>`),
			page{"next", `<title>next</title>`}, click("#x"), said("next")),
		b("click.new-tab", "a link that opens a tab", "a tab is open at the address", html(`<a id=x href=next target=_blank>n</a>`),
			page{"next", `<title>next</title>`}, click("#x"), served("next"), call("tabs", nil), among("tabs", "/next")),
		b("click.submit", "a form's button", "the form is sent", html(`<form action=go><input name=q value=7><button id=x>Go</button></form>`),
			page{"go", `<title>went</title>`}, click("#x"), served("go", "q=7"), said("went")),
		b("click.submit-post", "a form sent by POST", "its body arrives",
			html(`<form action=go method=post><input name=q value="a b"><button id=x>Go</button></form>`), page{"go", `<title>went</title>`},
			click("#x"), served("go", "POST", "q=a+b"), said("went")),
		b("click.request", "a button that sends a request", "it is sent when the call ends",
			html(`<button id=x onclick="fetch('seen?v=1',{method:'POST'})">S</button>`), click("#x"), served("seen", "POST", "v=1"),
			effect(capabilities.EffectConfirmed)),
		b("click.late-change", "a button whose effect comes a little later", "the change is noticed",
			html(`<button id=x onclick="setTimeout(()=>document.title='late',30)">L</button>`), click("#x"), becomes(`document.title`, "late")),
		b("click.noop", "a button that does nothing", "the call says that nothing changed", html(`<button id=x>N</button>`), click("#x"),
			effect(capabilities.EffectSuspectNoop), holds(`document.title`, "Test page")),
		b("click.first-then-nothing", "a click that changes something, once", "the second is not called confirmed",
			html(`<button id=x onclick="this.dataset.on=1">N</button>`), click("#x"), effect(capabilities.EffectConfirmed), click("#x"),
			check(func(_ *run, c *suite.Call) string {
				if c.Effect == capabilities.EffectConfirmed {
					return "claims " + c.Evidence
				}
				return ""
			}), holds(`x.dataset.on`, "1")),
		b("click.push-state", "a button that changes the address by script", "the new address is told",
			html(`<button id=x onclick="history.pushState(0,'','pushed')">P</button>`), click("#x"), field("url", "{A}pushed"),
			holds(`location.pathname.endsWith('/pushed')`, true)),
		b("click.svg", "a shape in a drawing", "the shape gets the event",
			html(`<svg width=200 height=200><circle id=x cx=100 cy=100 r=40 onclick="document.title=this.id"/></svg>`), click("#x"), said("x")),
		b("click.svg-ring", "a ring whose middle is empty", "the ring gets the event, or the cover is named", file("click.svg-ring.html"),
			either("click", with("selector", "#x")), holds(`document.title!='svg'`, true)),
		b("click.transformed", "a turned and scaled button", "it is hit",
			html(`<button id=x style="margin:150px;transform:rotate(40deg) scale(1.7)" `+say+`>T</button>`), click("#x"), said("x")),
		b("click.zoomed", "a page that zooms itself", "the button is hit",
			html(`<style>html{zoom:1.5}</style><div style="height:200px"></div><button id=x `+say+`>Z</button>`), click("#x"), said("x")),
		b("click.image-area", "an area of an image map", "the area's link is followed", file("click.image-area.html"),
			page{"next", `<title>next</title>`}, click("#x"), said("next")),
		b("click.option-menu", "a custom drop-down made of divs", "opened and an entry chosen", file("click.option-menu.html"),
			call("click", with("ref", at{"combobox"})), call("click", with("ref", at{`option "Blue"`})), holds(`c.textContent`, "Blue")),
		b("click.not-found", "a selector that nothing matches", "refused as such", html(`<p>x`),
			refused(capabilities.CodeElementNotFound, "click", with("selector", "#nope")), said("Test page")),
		b("click.not-unique", "a selector that two match", "refused; neither is pressed",
			html(`<button class=d `+say+` id=a>A</button><button class=d `+say+` id=z>Z</button>`),
			refused(capabilities.CodeElementNotUnique, "click", with("selector", ".d")), said("Test page")),
		b("click.bad-selector", "a selector that is none", "refused as an argument", html(`<p>x`),
			refused(capabilities.CodeInvalidArguments, "click", with("selector", "[[")), said("Test page")),
		b("click.no-target", "neither ref, selector nor place", "refused before anything runs", html(`<p>x`),
			refused(capabilities.CodeInvalidArguments, "click", obj{}), said("Test page")),
		b("click.unknown-ref", "a ref that was never given", "refused as stale", html(`<p>x`),
			refused(capabilities.CodeStaleRef, "click", with("ref", "e99999")), said("Test page")),
		b("click.closes-tab", "a button that closes its own tab", "it is an effect, and the other tab is there",
			html(`<title>first</title><a id=o href=pop target=_blank>o</a>`),
			page{"pop", `<title>pop</title><button id=x onclick="window.close()">C</button>`}, click("#o"), served("pop"), func(r *run) {
				c := r.Call("tabs", nil)
				if suite.Pick(c.Result, "active_index") != 1.0 {
					r.Call("tabs", with("action", "select", "index", 1))
				}
				if r.eval(`document.title`) != "pop" {
					r.Fail("the new tab cannot be worked with")
				}
				r.Made(r.Call("evaluate", with("expression", "1")))
			}, either("click", with("selector", "#x")), call("tabs", nil), notAmong("tabs", "/pop"),
			call("tabs", with("action", "select", "index", 0)), said("first")),
		b("click.snapshot-delta", "what changed, asked for with the click", "the change comes with the answer",
			html(`<button id=x onclick="o.textContent='Now you see me'">S</button><p id=o></p>`+strings.Repeat("<p>constant</p>", 40)),
			call("snapshot", nil), call("click", with("selector", "#x", "snapshot", "delta")), field("snapshot", "Now you see me"),
			without("constant"), holds(`o.textContent`, "Now you see me")),
		b("click.snapshot-full", "the whole outline asked for with the click", "its refs work on the new page", html(`<a id=x href=next>n</a>`),
			page{"next", `<button id=x ` + say + `>There</button>`}, call("click", with("selector", "#x", "snapshot", "full")),
			keepFrom("snapshot", "t", "There"), call("click", with("ref", known("t"))), said("x")),
		b("click.no-snapshot", "nothing asked for with the click", "no outline is built", html(`<button id=x `+say+`>S</button>`), click("#x"),
			without("button"), said("x")),
		b("click.in-order", "ten clicks one after the other", "each is counted once",
			html(`<button id=x onclick="document.title=this.dataset.n=+(this.dataset.n||0)+1">C</button>`), func(r *run) {
				for range 10 {
					click("#x")(r)
				}
			}, said("10")),
		b("click.busy-page", "a page whose script is busy for a while", "the click is not lost",
			html(`<button id=x `+say+`>B</button><script>setTimeout(()=>{const t=Date.now();while(Date.now()-t<400);},0)</script>`), click("#x"),
			becomes(`document.title`, "x")),
		b("click.drag-handle-text", "text within a button", "inner elements do not count as covers",
			html(`<button id=x `+say+`><span><b>Deep</b> text</span><i>i</i></button>`), click("#x"), said("x")),
		b("click.pseudo", "a link stretched over a card", "it is pressed through its own pseudo-element", file("click.pseudo.html"),
			page{"next", `<title>next</title>`}, click("#x"), said("next")),
		b("click.zero-size", "a link without a size whose content has one", "its content is pressed", file("click.zero-size.html"),
			page{"next", `<title>next</title>`}, click("#x"), said("next")),
		b("click.fixed-small-view", "a button in a dialog taller than the window", "it is scrolled to within the dialog",
			html(`<dialog id=d style="height:300px;overflow:auto"><div style="height:1500px"></div><button id=x `+say+
				`>End</button></dialog><script>d.showModal()</script>`),
			click("#x"), said("x")),
		b("click.behind-modal", "a button behind a modal dialog", "refused; nothing is pressed",
			html(`<button id=x `+say+`>Back</button><dialog id=d>Modal</dialog><script>d.showModal()</script>`),
			refused(capabilities.CodeElementObscured, "click", with("selector", "#x")), said("Test page")),
		b("click.selector-text-node", "a ref of a clickable div among many", "only that one runs", file("click.selector-text-node.html"),
			call("click", with("ref", at{`"Row 37"`})), said("row37")),
	}
	return list
}
