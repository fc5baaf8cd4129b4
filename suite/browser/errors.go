package browser

import (
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/suite"
)

// failures: after whatever goes wrong, the next call works.
func failures() []*behaviour {
	fine := func(more ...step) step {
		return func(r *run) {
			open("?after")(r)
			holds(`document.title`, "Test page")(r)
			for _, s := range more {
				s(r)
			}
		}
	}
	p := html(`<button id=x onclick="document.title='pressed'">B</button>`)
	return []*behaviour{
		b("failure.tab-crash", "an address that crashes a tab", "it is refused, and the page stays", p,
			either("navigate", with("url", "chrome://crash")), check(func(_ *run, c *suite.Call) string {
				if c.Code == "" {
					return "was not refused"
				}
				return ""
			}), holds(`document.title`, "Test page")),
		b("failure.hanging-script", "a script that never gives the page back", "a call on it ends at its deadline; the next page opens",
			html(`<button id=x onclick="setTimeout(()=>{for(;;);},0)">B</button>`), either("click", with("selector", "#x", "timeout_ms", 2500)),
			either("click", with("selector", "#x", "timeout_ms", 1500)), func(r *run) {
				open("?after")(r)
				holds(`document.readyState`, "complete")(r)
			}),
		b("failure.unknown-argument", "an argument that does not exist", "refused by name before anything runs", p,
			refused(capabilities.CodeInvalidArguments, "click", with("selector", "#x", "colour", "red")), holds(`document.title`, "Test page")),
		b("failure.wrong-type", "an argument of the wrong type", "refused before anything runs", p,
			refused(capabilities.CodeInvalidArguments, "click", with("selector", "#x", "count", "two")), holds(`document.title`, "Test page")),
		b("failure.no-page-yet", "a click before any page is open", "refused, or nothing found; then a page opens",
			either("click", with("selector", "#x")), page{"p", `<button id=x onclick="document.title='pressed'">B</button>`}, open("p"),
			func(r *run) { holds(`document.title!='pressed'`, true)(r) }),
		b("failure.memory-hog", "a page that fills its memory", "whatever becomes of it, the next page opens", p,
			either("evaluate", with("expression", "a=[];for(let i=0;i<400;i++)a.push(new Float64Array(1e5).fill(i));a.length", "timeout_ms", 15000)),
			fine()),
		b("failure.removed-while-aimed", "an element that is removed as the pointer comes", "the call ends and says what happened",
			html(`<button id=x onpointerover="this.remove()">B</button><p>rest`), either("click", with("selector", "#x")),
			holds(`document.querySelector('#x')`, nil)),
		b("failure.deep-dom", "a document five hundred elements deep", "outline and click work", file("failure.deep-dom.html"),
			call("click", with("ref", at{`"Deep"`})), holds(`document.title`, "1")),
		b("failure.bottomless-dom", "a document twelve hundred elements deep",
			"the outline says that it goes too deep, and a selector still works", file("failure.bottomless-dom.html"), line("too deep"),
			call("click", with("selector", "#x")), holds(`document.title`, "1")),
		b("failure.huge-attribute", "an address of a hundred thousand characters", "the outline stays bounded",
			html(`<a id=x>L</a><script>x.href='#'+'y'.repeat(1e5)</script>`), call("snapshot", nil), check(func(_ *run, c *suite.Call) string {
				if len(suite.JSON(c.Result)) > 30000 {
					return "the answer is too long"
				}
				return ""
			}), holds(`x.href.length > 1e5`, true)),
		b("failure.document-write", "a page that writes itself anew", "its new content is shown and works", file("failure.document-write.html"),
			call("click", with("selector", "#x")), call("click", with("ref", at{`"New"`})), holds(`document.title`, "2")),
		b("failure.xml", "a document that is no HTML", "it can be read",
			call("navigate", with("url", "{A}slow?ms=1&type=text/xml&body=<r><a>leaf</a></r>")), call("snapshot", nil), line("leaf"),
			holds(`document.documentElement.textContent.includes('leaf')`, true)),
		b("failure.plain-text", "a plain text", "it can be read", call("navigate", with("url", "{A}slow?ms=1&type=text/plain&body=just+words")),
			line("just words"), holds(`document.body.innerText`, "just words")),
		b("failure.json", "a JSON answer", "it can be read", call("navigate", with("url", "{A}echo")), line("method"),
			holds(`document.contentType`, "application/json")),
		b("failure.no-javascript-errors", "a page that throws in every handler", "clicks still land", file("failure.no-javascript-errors.html"),
			call("click", with("selector", "#x")), holds(`document.title`, "pressed")),
		b("failure.frozen-page", "a page that stops animation frames", "clicks and outlines do not depend on them",
			html(`<script>window.requestAnimationFrame=()=>0</script><button id=x onclick="document.title='pressed'">B</button>`),
			call("click", with("ref", at{`"B"`})), holds(`document.title`, "pressed")),
		b("failure.cancelled-call", "a caller that gives up", "the lane is free for the next call", p, func(r *run) {
			ctx, cancel := contextWithin(r.ctx, 400)
			defer cancel()
			_, _ = r.lane.Call(ctx, "evaluate", with("expression", "new Promise(()=>{})"))
		}, fine(call("click", with("selector", "#x")), holds(`document.title`, "pressed"))),
	}
}

// storage: logins that outlast a browser, where they are asked to.
func storage() []*behaviour {
	p := html(`<title>in</title>`)
	return []*behaviour{
		b("storage.save-load", "cookies and storage saved under a name", "the next browser has them when it loads them", p,
			holds(`document.cookie='sid=abc', localStorage.k='v', document.cookie`, "sid=abc"),
			call("close", with("save_storage_state", "suite-state")), open("?fresh"), holds(`[document.cookie, localStorage.k ?? ''].join()`, ","),
			call("close", nil), call("launch", with("storage_state", "suite-state")), open("?loaded"),
			holds(`[document.cookie, localStorage.k].join()`, "sid=abc,v"), header("", "Cookie", "sid=abc")),
		b("storage.not-told", "a saved state", "nothing of it is in any answer", p, holds(`document.cookie='sid=veryprivate77', 1`, 1),
			call("close", with("save_storage_state", "suite-private")), without("veryprivate77"),
			call("launch", with("storage_state", "suite-private")), without("veryprivate77"), open("?x"), header("", "Cookie", "veryprivate77")),
		b("storage.unknown", "a state that was never saved", "refused with what to do; a browser still starts", p,
			either("launch", with("storage_state", "no-such-state")), check(func(_ *run, c *suite.Call) string {
				if c.Code == "" {
					return "it was not refused"
				}
				return ""
			}), open("?x"), holds(`document.title`, "in")),
		b("launch.version", "starting the browser", "it says which it is, as the page sees it", p, call("launch", nil), field("headless", true),
			func(r *run) {
				version, _ := r.Last().Result["version"].(string)
				agent, _ := r.eval(`navigator.userAgent`).(string)
				for _, word := range majors(version) {
					if suite.HoldsAll(agent, []string{word}) {
						return
					}
				}
				r.Fail("launch says %q, the page sees %q", version, agent)
			}),
		b("close.ends", "closing the browser", "no tab is left, and the next page opens in a new browser", p, holds(`sessionStorage.k='v'`, "v"),
			call("close", nil), call("tabs", nil), field("tabs.length", 0), open("?new"), holds(`sessionStorage.k ?? ''`, "")),
	}
}
