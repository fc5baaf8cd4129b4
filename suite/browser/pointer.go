package browser

import "github.com/handrail-dev/handrail/capabilities"

// pointer: hovering, wheels, dragging, drawing.
func pointer() []*behaviour {
	return []*behaviour{
		b("hover.css", "a menu that opens while the pointer is over it", "it is open",
			html(`<style>#m{display:none}#x:hover #m{display:block}</style><div id=x>Menu<div id=m>Entry</div></div>`),
			call("hover", with("selector", "#x")), holds(`getComputedStyle(m).display`, "block")),
		b("hover.events", "a page that listens to the pointer", "it gets trusted enter and over events", file("hover.events.html"),
			call("hover", with("selector", "#x")), holds(`log.sort().join()`, "mouseentertrue,mouseovertrue,pointerentertrue")),
		b("hover.menu-then-click", "a menu that is open only while hovered", "its entry can be pressed", file("hover.menu-then-click.html"),
			call("hover", with("selector", "#x")), call("click", with("ref", at{`button "Entry"`})), holds(`document.title`, "entry")),
		b("hover.ref", "an element by its ref", "it is hovered", html(`<button id=x onmouseenter="document.title='in'">B</button>`),
			call("hover", with("ref", at{`"B"`})), holds(`document.title`, "in")),
		b("hover.point", "a place of the window", "the pointer is there",
			html(`<style>body{margin:0;height:600px}</style><script>onmousemove=e=>document.title=e.clientX+','+e.clientY</script>`),
			call("hover", with("x", 33, "y", 44)), holds(`document.title`, "33,44")),
		b("hover.leaves", "from one element to another", "the first is left",
			html(`<div id=a>A</div><div id=z>Z</div><script>a.onmouseleave=()=>document.title='left'</script>`),
			call("hover", with("selector", "#a")), call("hover", with("selector", "#z")), holds(`document.title`, "left")),
		b("hover.covered", "an element below an overlay", "refused with the cover's name",
			html(`<div id=x onmouseenter="document.title='in'">B</div><div id=ov style="position:fixed;inset:0"></div>`),
			refused(capabilities.CodeElementObscured, "hover", with("selector", "#x"), "ov"), holds(`document.title`, "Test page")),
		b("hover.wheel", "a turn of the wheel", "the page scrolls by it", html(`<div style="height:5000px"></div>`),
			call("hover", with("x", 50, "y", 50, "wheel_y", 400)), becomes(`scrollY`, 400)),
		b("hover.wheel-inner", "a turn of the wheel over a list", "the list scrolls, not the page", file("hover.wheel-inner.html"),
			call("hover", with("selector", "#l", "wheel_y", 300)), becomes(`[l.scrollTop, scrollY]`, []int{300, 0})),
		b("hover.wheel-canvas", "a turn of the wheel over a canvas", "the canvas gets a trusted wheel event", file("hover.wheel-canvas.html"),
			call("hover", with("selector", "#c", "wheel_y", -120, "wheel_x", 30)), becomes(`document.title`, "true 30 -120")),
		b("hover.tooltip", "a tooltip that comes a little later", "it is in the next outline", file("hover.tooltip.html"),
			call("hover", with("selector", "#x")), becomes(`t.hidden`, false), line("Explains it")),

		b("drag.html5", "a card to another list, by the drag and drop of HTML", "the page gets the drop with its data", file("drag.html5.html"),
			call("drag", with("source_selector", "#s", "target_selector", "#t")), becomes(`document.title`, "true card-7")),
		b("drag.html5-end", "after a drop", "the source is told that it ended", file("drag.html5-end.html"),
			call("drag", with("source_selector", "#s", "target_selector", "#t")), becomes(`document.title.startsWith('ended')`, true)),
		b("drag.mouse", "a list that is sorted by mouse events", "the page sees press, moves and release", file("drag.mouse.html"),
			call("drag", with("source_selector", "#s", "target_selector", "#t")),
			holds(`(r=>[r.left, r.top, moves>1].join())(s.getBoundingClientRect())`, "315,215,true")),
		b("drag.data", "a text of the caller's", "the page gets it by a drop; what takes none is refused", file("drag.data.html"),
			call("drag", with("target_selector", "#t", "data", with("text", "Order 4711"))), holds(`document.title`, "Order 4711"),
			refused("execution_failed", "drag", with("target_selector", "#p", "data", with("uri", "https://example.com/")))),
		b("drag.refs", "by refs", "the drop happens", file("drag.refs.html"),
			call("drag", with("source_ref", at{`"Card"`}, "target_ref", at{`"Bin"`})), becomes(`document.title`, "dropped")),
		b("drag.path", "a line drawn on a canvas", "the canvas gets every point of it", file("drag.path.html"),
			call("drag", with("path", []any{with("x", 10, "y", 10), with("x", 100, "y", 50), with("x", 200, "y", 150)})),
			holds(`[pts[0].join(), pts.some(p=>p.join()=='100,50'), pts.at(-1).join(), document.title]`, []any{"10,10", true, "200,150", "up"})),
		b("drag.slider", "a slider's thumb", "the value follows", file("drag.slider.html"),
			call("drag", with("path", []any{with("x", 8, "y", 8), with("x", 150, "y", 8), with("x", 280, "y", 8)})), holds(`+r.value > 85`, true)),
		b("drag.duration", "a drag that takes its time", "it takes that long", file("drag.duration.html"),
			call("drag", with("path", []any{with("x", 10, "y", 10), with("x", 200, "y", 200)}, "duration_ms", 300)),
			holds(`document.title`, "true")),
		b("drag.card", "a card that its page only marks as draggable", "the outline has a ref of it, and the drop happens",
			file("drag.card.html"), call("drag", with("source_ref", at{`"Card 7"`}, "target_selector", "#t")), becomes(`document.title`, "dropped")),
		b("drag.scrolls", "a target below the window", "the drop reaches it", file("drag.scrolls.html"),
			either("drag", with("source_selector", "#s", "target_selector", "#t")), func(r *run) {
				if r.Last().Code == "" {
					becomes(`document.title`, "dropped")(r)
				} else {
					holds(`document.title`, "Test page")(r)
				}
			}),
		b("drag.select-text", "a drag across a text", "the text is selected",
			html(`<style>body{margin:0;font:20px monospace}</style><p id=p style="margin:0;width:600px">hello wide world</p>`),
			call("drag", with("path", []any{with("x", 1, "y", 10), with("x", 100, "y", 10), with("x", 400, "y", 10)})),
			holds(`getSelection().toString()`, "hello wide world")),
		b("drag.missing", "a target that is not there", "refused before anything is pressed",
			html(`<div id=s style="width:40px;height:40px" onmousedown="document.title='down'">S</div>`),
			refused(capabilities.CodeElementNotFound, "drag", with("source_selector", "#s", "target_selector", "#nope")),
			holds(`document.title`, "Test page")),
		b("drag.released", "after a drag", "no button stays down",
			html(`<style>body{margin:0;height:400px}</style><script>onmousemove=e=>document.title=e.buttons</script>`),
			call("drag", with("path", []any{with("x", 10, "y", 10), with("x", 90, "y", 90)})), call("hover", with("x", 200, "y", 200)),
			holds(`document.title`, "0")),
	}
}
