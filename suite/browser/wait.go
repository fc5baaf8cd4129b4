package browser

import "github.com/handrail-dev/handrail/capabilities"

// waiting: for what is about to happen, no longer than needed, and never for ever.
func waiting() []*behaviour {
	wait := func(args obj) step {
		if args["timeout_ms"] == nil {
			args["timeout_ms"] = 8000
		}
		return call("wait-for", args)
	}
	matched, not := field("matched", true), field("matched", false)
	later := func(what string) page {
		return html(`<p id=p hidden>Here I am</p><p id=g>Loading</p><script>setTimeout(()=>{` + what + `},300)</script>`)
	}
	return []*behaviour{
		b("wait.text", "a text that comes", "it is there when the call ends", later(`p.hidden=false`), wait(with("text", "Here I am")), matched,
			holds(`p.hidden`, false)),
		b("wait.text-there", "a text that is there", "the call ends at once", html(`<p>Here`), wait(with("text", "Here")), matched,
			holds(`document.body.innerText`, "Here")),
		b("wait.text-hidden", "a text that is there but not shown", "it does not count", html(`<p hidden>Here I am`),
			wait(with("text", "Here I am", "timeout_ms", 400)), not, holds(`document.querySelector('p').textContent`, "Here I am")),
		b("wait.text-gone", "a text that goes", "it is gone when the call ends", later(`g.remove()`), wait(with("text_gone", "Loading")), matched,
			holds(`document.querySelector('#g')`, nil)),
		b("wait.selector", "an element that appears", "it is visible when the call ends", later(`p.hidden=false`), wait(with("selector", "#p")),
			matched, holds(`p.hidden`, false)),
		b("wait.attached", "an element that is added unseen", "being there is enough",
			later(`document.body.insertAdjacentHTML('beforeend','<i id=n hidden></i>')`), wait(with("selector", "#n", "state", "attached")), matched,
			holds(`n.hidden`, true)),
		b("wait.hidden", "an element that vanishes", "it is hidden when the call ends", later(`g.style.display='none'`),
			wait(with("selector", "#g", "state", "hidden")), matched, holds(`g.style.display`, "none")),
		b("wait.url", "an address that comes by script", "it is there when the call ends", later(`history.pushState(0,'','done/7')`),
			wait(with("url", "/done/")), matched, holds(`location.pathname.endsWith('/done/7')`, true)),
		b("wait.url-glob", "an address by pattern", "it is there when the call ends", later(`location='next?id=42'`),
			page{"next", `<title>next</title>`}, wait(with("url", "*/next?id=*")), matched, becomes(`document.title`, "next")),
		b("wait.function", "an expression of the page", "it is true when the call ends",
			html(`<script>var state='busy';setTimeout(()=>state='ready',300)</script>`), wait(with("function", "state === 'ready'")), matched,
			holds(`state`, "ready")),
		b("wait.function-no-effects", "an expression that would change the page", "it does not",
			html(`<p>x<script>var n=0;function bump(){n++;return true}</script>`), either("wait-for", with("function", "bump()", "timeout_ms", 500)),
			holds(`n`, 0)),
		b("wait.load", "a page that is still loading", "it is complete when the call ends",
			page{"p", `<img src="slow?ms=400&type=image/svg%2bxml&body=<svg/>">`},
			call("navigate", with("url", "{A}p", "wait_until", "domcontentloaded")), wait(with("load_state", "load")), matched,
			holds(`document.readyState`, "complete")),
		b("wait.network-quiet", "requests that follow each other", "all are done when the call ends", file("wait.network-quiet.html"),
			call("click", with("selector", "#x")), wait(with("load_state", "network_quiet")), matched, holds(`n`, 4)),
		b("wait.all-of-them", "a text and an element", "both are there when the call ends", file("wait.all-of-them.html"),
			wait(with("text", "Alpha", "selector", "#z")), matched, holds(`[a.hidden, z.hidden]`, []bool{false, false})),
		b("wait.timeout", "what never comes", "the call ends in time and says so without failing", html(`<p>x`),
			wait(with("text", "never", "timeout_ms", 300)), not, holds(`document.body.innerText`, "x")),
		b("wait.through-navigation", "a text on the page that comes next", "the wait outlives the document", later(`location='next'`),
			page{"next", `<p>Welcome back`}, wait(with("text", "Welcome back")), matched, holds(`location.pathname.endsWith('/next')`, true)),
		b("wait.frame", "a text in a frame of another origin", "it is seen", html(`<iframe src="{B}in"></iframe>`),
			page{"in", `<p id=p></p><script>setTimeout(()=>{p.textContent='Framed';fetch('seen?framed')},200)</script>`},
			wait(with("text", "Framed")), matched, served("seen", "framed")),
		b("wait.shadow", "a text in an open shadow root", "it is seen", file("wait.shadow.html"), wait(with("text", "In the shade")), matched,
			holds(`s.textContent`, "In the shade")),
		b("wait.dialog", "a dialog that opens meanwhile", "the call ends and says so", html(`<script>setTimeout(()=>alert('Stop'),200)</script>`),
			func(r *run) {
				c := r.Call("wait-for", with("text", "never", "timeout_ms", 6000))
				if c.Code != capabilities.CodeDialogOpen && c.Result["matched"] != false {
					r.Fail("%s", c.End())
				}
			}, either("handle-dialog", with("accept", true)), becomes(`1`, 1)),
		b("wait.beside", "another call while one waits", "it is served meanwhile, or right after, and both end", html(`<p id=p hidden>Here`),
			meanwhile(wait(with("text", "Here")), func(r *run) { r.eval(`setTimeout(()=>p.hidden=false,200)`) }), holds(`p.hidden`, false)),
	}
}
