package browser

import "github.com/handrail-dev/handrail/capabilities"

// evaluation: expressions in the page; values are compared with what the page
// tells the server.
func evaluation() []*behaviour {
	eval := func(expression string) step { return call("evaluate", with("expression", expression)) }
	tells := func(v string) step { return eval(`fetch('seen?' + (` + v + `)).then(() => 1)`) }
	p := html(`<p id=p>text</p><script>var n=41</script>`)
	return []*behaviour{
		b("evaluate.value", "an expression of the page's own state", "it is what the page tells the server", p, eval(`++n`), field("result", 42),
			tells(`'n=' + n`), served("seen", "n=42")),
		b("evaluate.json", "an object", "it comes as it is", p, eval(`({a:[1,{b:'ü'}],c:null,d:true})`), field("result.a.1.b", "ü"),
			field("result.d", true), tells(`1`), served("seen")),
		b("evaluate.function", "a function", "it is called", p, eval(`() => document.title = 'called'`), tells(`document.title`),
			served("seen", "called")),
		b("evaluate.promise", "a promise", "it is awaited", p, eval(`new Promise(f => setTimeout(() => { n = 7; f(n) }, 100))`),
			field("result", 7), tells(`n`), served("seen", "7")),
		b("evaluate.await", "await at the top", "it works", p, eval(`const r = await fetch('echo'); (await r.json()).method`),
			field("result", "GET"), served("echo")),
		b("evaluate.ref", "a function of an element by ref", "it gets that element", html(`<button>A</button><button id=z>B</button>`),
			call("evaluate", with("ref", at{`"B"`}, "expression", "el => el.id = 'found'")), field("result", "found"),
			tells(`document.querySelectorAll('#found').length`), served("seen", "1")),
		b("evaluate.undefined", "no value", "it is null", p, eval(`undefined`), field("result", nil), tells(`1`), served("seen")),
		b("evaluate.throws", "an expression that fails", "the error is told; the page lives", p,
			refused(capabilities.CodeScriptFailed, "evaluate", with("expression", "nope.x"), "nope is not defined"), tells(`'alive'`),
			served("seen", "alive")),
		b("evaluate.syntax", "an expression that is none", "the error is told", p,
			refused(capabilities.CodeScriptFailed, "evaluate", with("expression", "let let")), tells(`1`), served("seen")),
		b("evaluate.rejects", "a promise that fails", "its reason is told", p,
			refused(capabilities.CodeScriptFailed, "evaluate", with("expression", "Promise.reject(new Error('no luck'))"), "no luck"), tells(`1`),
			served("seen")),
		b("evaluate.never", "a promise that never resolves", "it ends at its deadline and says which; the page lives", p,
			refused(capabilities.CodeDeadlineExceeded, "evaluate", with("expression", "new Promise(() => {})", "timeout_ms", 700), "promise"),
			tells(`'alive'`), served("seen", "alive")),
		b("evaluate.loop", "a loop without end", "it is stopped at its deadline; the page lives", p,
			refused(capabilities.CodeDeadlineExceeded, "evaluate", with("expression", "for(;;);", "timeout_ms", 900)), tells(`'alive'`),
			served("seen", "alive")),
		b("evaluate.beside-never", "other calls while a promise waits", "they are served", p,
			meanwhile(either("evaluate", with("expression", "new Promise(() => {})", "timeout_ms", 2500)), call("snapshot", nil), tells(`'beside'`)),
			served("seen", "beside")),
		b("evaluate.cyclic", "a value that holds itself", "refused with what to do", p,
			refused(capabilities.CodeScriptFailed, "evaluate", with("expression", "let o={};o.o=o;o")), tells(`1`), served("seen")),
		b("evaluate.too-large", "a value of two megabytes", "refused as too large", p,
			refused(capabilities.CodeResultTooLarge, "evaluate", with("expression", "'x'.repeat(2e6)")), tells(`1`), served("seen")),
		b("evaluate.navigates", "an expression that leaves the page", "it does not hang, and the next call meets the new page", p,
			page{"next", `<title>next</title>`}, either("evaluate", with("expression", "location='next'; new Promise(()=>{})", "timeout_ms", 6000)),
			becomes(`document.title`, "next"), served("next")),
		b("evaluate.page-world", "what the page defined", "it is seen, and nothing of ours", p,
			eval(`[typeof n, Object.keys(window).filter(k => /handrail|cdc_|playwright/i.test(k)).length]`), field("result.0", "number"),
			field("result.1", 0), tells(`1`), served("seen")),
		b("evaluate.blocked-eval", "a page that forbids eval by policy", "expressions work all the same",
			html(`<meta http-equiv=Content-Security-Policy content="script-src 'none'"><p id=p>x`), eval(`document.querySelector('p').textContent`),
			field("result", "x"), served("")),
		b("evaluate.prototype-tricks", "a page that replaced built-ins", "outline and clicks still work", file("evaluate.prototype-tricks.html"),
			call("click", with("ref", at{`button "Real name"`})), line(`button "Real name"`), call("snapshot", nil), call("tabs", nil),
			field("tabs.0.title", "pressed"), served("")),
	}
}
