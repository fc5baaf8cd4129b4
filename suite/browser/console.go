package browser

import (
	"strings"

	"github.com/handrail-dev/handrail/suite"
)

// console: what a page says, and what goes wrong in it.
func console() []*behaviour {
	read := func(args obj) step { return call("console-messages", args) }
	// comes reads until the page has said it: some things it says in its own time.
	comes := func(args obj, words ...string) step {
		return func(r *run) {
			r.until(strings.Join(words, " "), func() bool {
				r.Made(r.Call("console-messages", args))
				_, ok := suite.Entry(r, "messages", words...)
				return ok
			})
		}
	}
	levels := file("console.levels.html")
	return []*behaviour{
		b("console.all", "a page that says something of every kind", "all of it is there, with its kind", levels, holds(`said`, 5), read(nil),
			among("messages", "plain"), among("messages", `"warning"`, "careful"), among("messages", `"error"`, "broken"),
			among("messages", "detail")),
		b("console.objects", "objects and several arguments", "they can be read",
			html(`<script>console.log('order',{id:7,lines:[1,2]},'end');var said=1</script>`), holds(`said`, 1), read(nil),
			among("messages", "order", "id", "7", "end")),
		b("console.level", "only what is at least a warning", "less is left out", levels, holds(`said`, 5), read(with("level", "warning")),
			among("messages", "careful"), among("messages", "broken"), notAmong("messages", "plain"), notAmong("messages", "detail")),
		b("console.level-error", "only errors", "warnings are left out", levels, holds(`said`, 5), read(with("level", "error")),
			among("messages", "broken"), notAmong("messages", "careful")),
		b("console.since", "only what is new", "what was read before is left out", html(`<script>console.log('first')</script>`), read(nil),
			among("messages", "first"), func(r *run) {
				last := suite.Pick(r.Last().Result, "last")
				r.eval(`console.log('second'), 1`)
				r.Made(r.Call("console-messages", with("since", last)))
			}, among("messages", "second"), notAmong("messages", "first")),
		b("console.this-page", "another page was there before", "what that said is left out unless asked for",
			html(`<script>console.log('of the first')</script>`), page{"two", `<script>console.log('of the second')</script>`}, open("two"),
			read(nil), among("messages", "of the second"), notAmong("messages", "of the first"), read(with("since", 0)),
			among("messages", "of the first"), served("two")),
		b("console.clear", "forgotten after reading", "the next reading has none of it", html(`<script>console.log('once')</script>`),
			read(with("clear", true)), among("messages", "once"), read(nil), notAmong("messages", "once"), holds(`typeof console.log`, "function")),
		b("console.limit", "no more than two", "two are given and the rest is counted",
			html(`<script>for(let i=0;i<10;i++)console.log('m'+i);var n=10</script>`), holds(`n`, 10), read(with("limit", 2)),
			field("messages.length", 2), field("omitted", 8), among("messages", "m9")),
		b("console.exception", "an error that nothing catches", "it is among the errors, with its place",
			html(`<button id=x onclick="document.title='ran';nope.x()">B</button>`), call("click", with("selector", "#x")),
			holds(`document.title`, "ran"), read(with("level", "error")), among("messages", "nope is not defined")),
		b("console.rejection", "a promise whose failure nothing catches", "it is among the errors",
			html(`<script>Promise.reject(new Error('left alone'));var ran=1</script>`), becomes(`ran`, 1),
			comes(with("level", "error"), "left alone")),
		b("console.load-failure", "a picture that is missing", "the browser's own message is there", html(`<img src=missing.png>`),
			comes(with("level", "error"), "404"), served("missing.png")),
		b("console.frame", "a frame of another origin that says something", "it is there", html(`<iframe src="{B}in"></iframe>`),
			page{"in", `<script>console.log('from the frame')</script>`}, comes(nil, "from the frame"), served("in", "B")),
		b("console.long", "a message of a million characters", "it is cut, and the call does not fail",
			html(`<script>console.log('start'+'x'.repeat(1e6));var n=1</script>`), holds(`n`, 1), read(nil), among("messages", "start"),
			check(func(_ *run, c *suite.Call) string {
				if len(suite.JSON(c.Result)) > 200_000 {
					return "the answer is too long"
				}
				return ""
			})),
		b("console.flood", "ten thousand messages", "the newest are there and the rest is counted",
			html(`<script>for(let i=0;i<10000;i++)console.log('n'+i);var n=1</script>`), holds(`n`, 1), read(with("limit", 5)),
			among("messages", "n9999"), check(func(_ *run, c *suite.Call) string {
				if omitted, _ := c.Result["omitted"].(float64); omitted < 500 {
					return "it does not say how many it left out: " + suite.Brief(c.Result["omitted"])
				}
				return ""
			})),
		b("console.tab", "two tabs", "each has its own messages", html(`<script>console.log('tab one')</script>`),
			page{"two", `<script>console.log('tab two')</script>`}, call("tabs", with("action", "new", "url", "{A}two")), read(nil),
			among("messages", "tab two"), notAmong("messages", "tab one"), served("two")),
	}
}
