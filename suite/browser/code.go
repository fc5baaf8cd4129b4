package browser

import (
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/suite"
)

// code: scripts of several steps, which can do what calls can and no more.
func code() []*behaviour {
	script := func(source string) step { return call("run-code", with("code", source)) }
	p := html(`<input id=f aria-label=Name><button id=x onclick="document.title='hello '+f.value">Greet</button>`)
	wrong := func(source string, words ...string) step {
		return refused(capabilities.CodeScriptFailed, "run-code", with("code", source), words...)
	}
	works := func(r *run) {
		call("type", with("selector", "#f", "text", "Ada"))(r)
		call("click", with("selector", "#x"))(r)
	}
	said := holds(`document.title`, "hello Ada")
	return []*behaviour{
		b("code.steps", "several steps", "all of them happen in the page, and the value comes back", p,
			script(`page.type({selector: "#f", text: "Ada"}); page.click("#x"); return page.evaluate("document.title")`),
			field("result", "hello Ada"), said),
		b("code.refs", "refs of an outline within the script", "they act on the page", p,
			script(`const s = page.snapshot().snapshot; const ref = n => s.match(new RegExp('"' + n + '" .*?\\[ref=(\\w+)\\]'))[1];
			page.type({ref: ref("Name"), text: "Ada"}); page.click({ref: ref("Greet")}); return 1`), said),
		b("code.refs-across", "a ref of an outline read before the script", "it acts on the page", p, keep("g", "Greet"), func(r *run) {
			r.Made(r.Call("run-code", with("code", `page.type({selector: "#f", text: "Ada"}); page.click({ref: "`+r.refs["g"]+`"}); return 1`)))
		}, said),
		b("code.await", "await and then, as people write it", "they work", p,
			script(
				`await page.type({selector: "#f", text: "Ada"}); await page.click({selector: "#x"}).then(() => 1); return await page.evaluate(() => document.title)`),
			field("result", "hello Ada"), said),
		b("code.navigates", "a step that opens another page", "the steps after it act on that page", p,
			page{"next", `<title>next</title><button id=y onclick="document.title='pressed'">Y</button>`},
			script(`page.navigate("{A}next"); page.click("#y"); return page.evaluate("document.title")`), field("result", "pressed"), served("next"),
			holds(`document.title`, "pressed")),
		b("code.loop", "a loop over what the page has", "each is acted on", file("code.loop.html"),
			script(`for (let i = 0; i < 5; i++) if (i % 2 == 0) page.click("#c" + i); return "done"`),
			holds(`[...document.querySelectorAll('input')].map(c=>+c.checked).join('')`, "10101")),
		b("code.catches", "a step that fails, and is caught", "the script sees code and hint and goes on", p,
			script(`try { page.click("#nope") } catch (e) { page.type({selector: "#f", text: e.code}); return e.hint.length > 0 }`),
			field("result", true), holds(`f.value`, "element_not_found")),
		b("code.fails", "a step that fails, and is not caught", "the call says which, and what was done stays", p,
			either("run-code", with("code", `page.type({selector: "#f", text: "kept"}); page.click("#nope")`)),
			check(func(_ *run, c *suite.Call) string {
				if c.Code == "" {
					return "it was not refused"
				}
				return ""
			}), holds(`f.value`, "kept")),
		b("code.log", "a script that logs", "the lines come back", p,
			script(`console.log("found", {n: 2}); return page.evaluate("document.querySelectorAll('input,button').length")`),
			field("log.0", "found"), field("result", 2), holds(`document.querySelectorAll('input,button').length`, 2)),
		b("code.wait", "a step that waits", "the next one comes after it",
			html(`<p id=p hidden>Here</p><button id=x onclick="setTimeout(()=>p.hidden=false,200)">B</button>`),
			script(`page.click("#x"); return page.waitFor({text: "Here", timeout_ms: 8000}).matched`), field("result", true),
			holds(`p.hidden`, false)),
		b("code.no-way-out", "a script that looks for files, modules and the network", "there are none", p,
			script(`return [typeof require, typeof process, typeof fetch, typeof XMLHttpRequest, typeof Deno, typeof globalThis.window].join()`),
			field("result", "undefined,undefined,undefined,undefined,undefined,undefined"), holds(`typeof fetch`, "function")),
		b("code.blocked-step", "a step to an address that may not be opened", "refused as a call would be; its server hears nothing",
			html(`<title>safe</title>`),
			either("run-code", with("code", `try { page.navigate("{none}seen"); return "opened" } catch (e) { return e.code }`)),
			check(func(_ *run, c *suite.Call) string {
				if c.Result["result"] == "opened" {
					return "it was opened"
				}
				return ""
			}), times("seen", 0), either("run-code", with("code", `page.navigate("file:///etc/passwd")`)), holds(`document.title`, "safe")),
		b("code.endless", "a script that never ends", "it ends at its deadline; the page works", p,
			refused(capabilities.CodeDeadlineExceeded, "run-code", with("code", `for (;;);`, "timeout_ms", 1500)),
			call("type", with("selector", "#f", "text", "Ada")), call("click", with("selector", "#x")), said),
		b("code.memory", "a script that fills its memory", "it is ended; the page works", p,
			either("run-code", with("code", `const a = []; for (;;) a.push(new Array(1e6).fill(7))`, "timeout_ms", 15000)),
			check(func(_ *run, c *suite.Call) string {
				if c.Code == "" {
					return "it was not ended"
				}
				return ""
			}), holds(`document.title`, "Test page")),
		b("code.deep", "recursion without end, in functions, getters and texts", "refused by name and line; the page works", p,
			wrong(`(function f() { f() })()`, "stack overflow (line 1)"),
			wrong("const o = {\nget x() { return this.x }}; o.x", "stack overflow (line 2)"),
			wrong(`let a = []; for (let i = 0; i < 1e5; i++) a = [a]; page.type(a)`, "stack overflow"), works, said),
		b("code.giants", "texts and arrays beyond any memory", "refused by name; the page works", p,
			wrong(`let s = "x"; for (;;) s += s`, "too long"), wrong(`return "x".repeat(2 ** 29)`, "MiB of memory"),
			wrong(`return new Array(1e9).fill(1)`, "MiB of memory"),
			refused(capabilities.CodeResultTooLarge, "run-code", with("code", `return "x".repeat(2e6)`)), works, said),
		b("code.regex", "a regular expression that tries for years", "it ends at its deadline; the page works", p,
			refused(capabilities.CodeDeadlineExceeded, "run-code", with("code", `/^(a+)+$/.test("a".repeat(60) + "!")`, "timeout_ms", 1500)), works,
			said),
		b("code.proxies", "proxies on the page and on arguments", "the steps are those that were asked for, and no other", p, wrong(
			`const q = new Proxy(page, {get: (t, k) => k === "type" ? a => t.type({...a, text: "Ada"}) : t[k]}); q.type({selector: "#f", text: "Eve"}); q.launch()`,
			"q.launch is not a function (line 1)"), holds(`f.value`, "Ada"),
			wrong(`page.type(new Proxy({}, {ownKeys() { throw new Error("mine") }}))`, "mine (line 1)"),
			wrong(`let q = {}; for (let i = 0; i < 1e4; i++) q = new Proxy(q, {}); page.click(q)`, "stack overflow"),
			call("click", with("selector", "#x")), said),
		b("code.promises", "promises that feed themselves", "each ends at its deadline or is refused; the page works", p,
			refused(capabilities.CodeDeadlineExceeded,
				"run-code", with("code", `const f = () => Promise.resolve().then(f); await f()`, "timeout_ms", 1500)),
			wrong(`let f; const q = new Promise(r => f = r); f(q); await q`, "TypeError"), wrong(`await new Promise(() => {})`, "nothing resolves"),
			works, said),
		b("code.prototypes", "a script that changes what every object has",
			"its own steps are as they were; the page and the next script see nothing of it", p,
			script(
				`Object.prototype.failure = Object.prototype.value = 7; for (const o of [Array, String, Function, Error]) for (const k of ["push", "slice", "call", "apply", "toString", "concat"]) o.prototype[k] = () => { throw 1 };
			JSON.parse = JSON.stringify = Promise.resolve = undefined; page.type({selector: "#f", text: "Ada"}); try { page.click("#nope") } catch (e) { return e.code }`),
			field("result", "element_not_found"), holds(`f.value`, "Ada"),
			script(`return [typeof ({}).failure, [1].concat(2).length, typeof JSON.parse].join()`), field("result", "undefined,2,function"),
			holds(`typeof ({}).failure`, "undefined"), call("click", with("selector", "#x")), said),
		b("code.generators", "generators without end", "refused by name; the page works", p,
			wrong(`function* g() { yield* g() } g().next()`, "stack overflow (line 1)"),
			wrong(`function* g() { for (;;) yield 1 } return [...g()]`, "memory"),
			wrong(`for (;;) setTimeout(() => {}, 1e6)`, "too many timers (line 1)"), works, said),
		b("code.texts", "texts that act when they are read", "what they do is a step like any other; what they throw is the script's", p,
			wrong(`throw {toString() { page.type({selector: "#f", text: "Ada"}); return "mine" }}`, "mine"), holds(`f.value`, "Ada"),
			wrong("console.log({toJSON() { throw 1 },\ntoString() { throw new Error('logged') }})", "logged (line 2)"),
			wrong(`page.type({get selector() { throw new Error("read") }})`, "read (line 1)"),
			refused(capabilities.CodeDeadlineExceeded, "run-code", with("code", `throw {toString() { for (;;); }}`, "timeout_ms", 1500)),
			call("click", with("selector", "#x")), said),
		b("code.syntax", "a script that is none", "refused before any step", p,
			refused(capabilities.CodeScriptFailed, "run-code", with("code", `page.click("#x"); let let`)), holds(`document.title`, "Test page")),
		b("code.bad-arguments", "a step with an argument that does not exist", "refused by name; the step does not happen", p,
			either("run-code", with("code", `page.click({selector: "#x", colour: "red"})`)), check(func(_ *run, c *suite.Call) string {
				if c.Code == "" || !suite.HoldsAll(c.Message+c.Hint, []string{"colour"}) {
					return "it does not name the argument: " + c.End()
				}
				return ""
			}), holds(`document.title`, "Test page")),
		b("code.password", "a script that types a password", "it is in the field and in no answer", html(`<input id=p type=password>`),
			script(`const r = page.type({selector: "#p", text: "pa55phrase"}); return r`), without("pa55phrase"),
			holds(`p.value=="pa55phrase"`, true)),
		b("code.not-in-page", "what a script defines", "the page does not see it", p,
			script(`globalThis.mine = 1; var other = 2; return page.evaluate("typeof mine + typeof other")`), field("result", "undefinedundefined"),
			holds(`typeof mine`, "undefined")),
	}
}
