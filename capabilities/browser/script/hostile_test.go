//go:build unix

package script

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform/procguard"
)

// A script that works on its own engine ends alone, with a reason, and the host sees the
// steps that it really took.
func TestHostileScripts(t *testing.T) {
	for _, tc := range []struct {
		name, code string
		want       capabilities.Code // "": the value is what comes back
		message    string
		steps      string // the steps' arguments, as the host saw them
	}{
		{"deep recursion of functions", "(function f() { f() })()", capabilities.CodeScriptFailed, "InternalError: stack overflow (line 1)", ""},
		{"deep recursion that is caught", "let n = 0; const f = () => { try { f() } finally { n++ } }; try { f() } catch { return n > 100 }", "", "true", ""},
		{"deep recursion of getters", "const o = {get x() { return this.x }}; return o.x", capabilities.CodeScriptFailed, "InternalError: stack overflow (line 1)", ""},
		{"deep recursion of a text", "const o = {toString() { return '' + o }}; return '' + o", capabilities.CodeScriptFailed, "InternalError: stack overflow (line 1)", ""},
		{"deep recursion of a result", "let o = []; for (let i = 0; i < 1e5; i++) o = [o]; return o", capabilities.CodeScriptFailed, "InternalError: stack overflow", ""},
		{"deep recursion of arguments", "let o = {}; for (let i = 0; i < 1e5; i++) o = {o}; page.navigate(o)", capabilities.CodeScriptFailed, "InternalError: stack overflow (line 1)", ""},
		{"deep source", "return eval('['.repeat(1e5))", capabilities.CodeScriptFailed, "SyntaxError: stack overflow", ""},
		{"deep JSON", "return JSON.parse('['.repeat(1e5))", capabilities.CodeScriptFailed, "SyntaxError: stack overflow", ""},
		{"deep regular expression", "return new RegExp('(?:'.repeat(1e5) + ')'.repeat(1e5))", capabilities.CodeScriptFailed, "stack overflow", ""},
		{"a chain of proxies", "let p = {}; for (let i = 0; i < 1e4; i++) p = new Proxy(p, {}); return p.x", capabilities.CodeScriptFailed, "InternalError: stack overflow (line 1)", ""},
		{"a giant text", "let s = 'x'; for (;;) s += s", capabilities.CodeScriptFailed, "InternalError: string too long (line 1)", ""},
		{"a giant flat text", "return 'x'.repeat(1 << 28)", capabilities.CodeScriptFailed, "than 24 MiB of memory", ""},
		{"a giant array", "return new Array(1e9).fill(1)", capabilities.CodeScriptFailed, "than 24 MiB of memory", ""},
		{"a giant buffer", "return new ArrayBuffer(1e12)", capabilities.CodeScriptFailed, "", ""},
		{"a giant hole", "const a = []; a[4294967294] = 1; return a.length", "", "4294967295", ""},
		{"giant arguments", "page.navigate('x'.repeat(6 << 20))", capabilities.CodeScriptFailed, "TypeError: The arguments of page.navigate are too large. (line 1)", ""},
		{"memory, caught and caught again", "const a = []; for (let i = 0; i < 50; i++) try { for (;;) a.push('x'.repeat(1e5) + a.length) } catch (e) { if (i === 49) throw e }", capabilities.CodeScriptFailed, "than 24 MiB of memory", ""},
		{"a generator bomb", "function* g() { yield* g() } return g().next()", capabilities.CodeScriptFailed, "InternalError: stack overflow (line 1)", ""},
		{"generators without end", "const all = []; function* g() { for (;;) yield all.push(g()) } for (const x of g());", capabilities.CodeScriptFailed, "memory", ""},
		{"a spread without end", "function* g() { for (;;) yield 1 } return [...g()]", capabilities.CodeScriptFailed, "memory", ""},
		{"promises without end", "const all = []; for (;;) all.push(new Promise(f => f(1)).then(() => {}))", capabilities.CodeScriptFailed, "memory", ""},
		{"a promise of itself", "let f; const p = new Promise(r => f = r); f(p); return p", capabilities.CodeScriptFailed, "TypeError", ""},
		{"timers without end", "for (;;) setTimeout(() => {}, 1e9)", capabilities.CodeScriptFailed, "TypeError: too many timers (line 1)", ""},
		{"a proxy of the page", "const p = new Proxy(page, {get: (t, k) => k === 'navigate' ? a => t.navigate(a + '2') : t[k]}); p.navigate('u'); return p.launch()", capabilities.CodeScriptFailed, "p.launch is not a function (line 1)", `{"url":"u2"}`},
		{"a proxy as arguments", "let n = 0; page.navigate(new Proxy({}, {ownKeys: () => ['a', 'b'], getOwnPropertyDescriptor: () => ({enumerable: true, configurable: true}), get: () => ++n}))", "", "null", `{"a":2,"b":3}`},
		{"arguments that throw", "page.navigate({get url() { throw new Error('mine') }})", capabilities.CodeScriptFailed, "Error: mine (line 1)", ""},
		{"arguments that act", "page.navigate({toJSON() { page.navigate('first'); return {url: 'second'} }})", "", "null", `{"url":"first"}{"url":"second"}`},
		{"arguments that are a text by toJSON", "page.navigate({toJSON: () => 'u'})", capabilities.CodeScriptFailed, "page.navigate takes one object", ""},
		{"arguments with everything", `page.navigate({url: "\u0000\ud800\n", n: [NaN, -0, 1e300, undefined]})`, "", "null", `{"url":"\u0000\ud800\n","n":[null,0,1e+300,null]}`},
		{"prototypes changed", `
			Object.prototype.failure = Object.prototype.value = Object.prototype.enumerable = 7;
			for (const o of [Array, String, Function, Promise, Error, RegExp, Map]) for (const k of Object.getOwnPropertyNames(o.prototype)) try { if (k !== 'constructor') o.prototype[k] = () => { throw 2 } } catch {}
			for (const k of ['JSON', 'Reflect', 'Object', 'Array', 'String', 'Promise', 'Error', 'TypeError', 'Date', 'Math', 'ArrayBuffer', 'eval']) globalThis[k] = undefined;
			const r = page.navigate('u');
			console.log('x', r);
			try { page.click('#x') } catch (e) { return [r.args.url, e.code] }`, "", `["u","element_not_found"]`, `{"url":"u"}{"selector":"#x"}`},
		{"a setter in all arrays", "Object.defineProperty(Object.prototype, '0', {set() { throw 1 }}); page.navigate({url: 'u'})", capabilities.CodeScriptFailed, "thrown: 1", ""},
		{"the page changed", "page.navigate = null; globalThis.page = null; console.log = null; page.navigate('u')", capabilities.CodeScriptFailed, "page.navigate is not a function (line 1)", ""},
		{"a prototype of the page", "Object.setPrototypeOf(page, new Proxy({}, {get() { throw new Error('mine') }})); page.navigate('u'); page.x", capabilities.CodeScriptFailed, "Error: mine (line 1)", `{"url":"u"}`},
		{"a promise of another kind", "Promise.prototype.then = undefined; return (await page.navigate('u')).args.url", "", `"u"`, `{"url":"u"}`},
		{"a text that acts when it is thrown", "throw {toString() { page.navigate('late'); return 'mine' }}", capabilities.CodeScriptFailed, "mine", `{"url":"late"}`},
		{"a text that throws when it is logged", "console.log({toJSON() { throw 1 }, toString() { throw new Error('mine') }})", capabilities.CodeScriptFailed, "Error: mine (line 1)", ""},
		{"a call that lies", "throw Object.assign(new Error('mine'), {call: 1, code: 'x', stack: 'at (<eval>:99999999999999999999:1)'})", capabilities.CodeScriptFailed, "Error: mine", ""},
		{"modules", "await import('std')", capabilities.CodeScriptFailed, "could not load module 'std'", ""},
		{"a module that is a file", "await import('/proc/self/environ')", capabilities.CodeScriptFailed, "could not load module", ""},
		{"the host's own functions", "return [typeof handrailStep, typeof handrailLog, typeof handrailSleep, typeof handrailTell, Object.keys(globalThis).length].join()", "", `"undefined,undefined,undefined,undefined,0"`, ""},
		{"out of its function, where nothing else is", "}); page.navigate('u'); (function() {", "", "null", `{"url":"u"}`},
		{"a lock", "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)", capabilities.CodeScriptFailed, "TypeError: cannot block in this thread (line 1)", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var steps strings.Builder
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			r, err := Run(ctx, Options{
				Launcher: procguard.New(procguard.Options{}), Code: tc.code, Tools: tools, Memory: 24 << 20,
				Do: func(ctx context.Context, c Call) (json.RawMessage, error) {
					steps.Write(c.Args)
					return do(ctx, c)
				},
			})
			switch {
			case tc.want == "":
				if err != nil || string(r.Value) != tc.message {
					t.Errorf("%s, %v; want %s", r.Value, err, tc.message)
				}
			case err == nil:
				t.Errorf("it gave %s", r.Value)
			default:
				e := capabilities.AsError(err)
				if e.Code != tc.want || !strings.Contains(e.PublicMessage(), tc.message) || e.PublicHint() == "" || len(e.PublicMessage()) > 700 {
					t.Errorf("%v (%v); want %s with %q", e, errors.Unwrap(e), tc.want, tc.message)
				}
			}
			if steps.String() != tc.steps {
				t.Errorf("steps %s; want %s", &steps, tc.steps)
			}
		})
	}
}

// A script that never ends by itself ends with its call.
func TestEndlessScripts(t *testing.T) {
	for name, code := range map[string]string{
		"a regular expression":      "console.log('up'); /^(a+)+$/.test('a'.repeat(40) + '!')",
		"promises":                  "console.log('up'); const f = () => Promise.resolve().then(f); await f()",
		"awaits":                    "console.log('up'); for (;;) await 1",
		"timers":                    "console.log('up'); const f = () => setTimeout(f, 0); f(); await new Promise(() => {})",
		"a text of what is thrown":  "console.log('up'); throw {toString() { for (;;); }}",
		"a text of what is logged":  "console.log('up'); console.log({toJSON() { for (;;); }})",
		"a result":                  "console.log('up'); return {toJSON() { for (;;); }}",
		"a generator":               "console.log('up'); for (const x of (function*() { for (;;) yield 1 })());",
		"sort":                      "console.log('up'); [1, 2].sort(() => { for (;;); })",
		"memory that always is new": "console.log('up'); for (;;) 'x'.repeat(1e6)",
		"errors that are caught":    "console.log('up'); for (;;) try { (function f() { f() })() } catch {}",
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(200*time.Millisecond, cancel) // any moment of the guest's life will do
			r, err := Run(ctx, Options{Launcher: procguard.New(procguard.Options{}), Code: code, Tools: tools, Memory: 24 << 20, Do: do})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s, %v", r.Value, err)
			}
		})
	}
}
