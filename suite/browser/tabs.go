package browser

import (
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/suite"
)

// tabs: many pages in one conversation.
func tabs() []*behaviour {
	one, two := page{
		"one", `<title>one</title><button id=x onclick="document.title+='!'">B</button>`,
	}, page{"two", `<title>two</title><button id=x onclick="document.title+='!'">B</button>`}
	newTab := func(path string) step { return call("tabs", with("action", "new", "url", "{A}"+path)) }
	choose := func(i int) step { return call("tabs", with("action", "select", "index", i)) }
	return []*behaviour{
		b("tabs.list", "two tabs", "both are listed and the newer is active", one, two, open("one"), newTab("two"), call("tabs", nil),
			field("tabs.length", 2), field("tabs.0.title", "one"), field("tabs.1.title", "two"), field("active_index", 1),
			holds(`document.title`, "two")),
		b("tabs.select", "back to the first", "calls go to it", one, two, open("one"), newTab("two"), choose(0),
			call("click", with("selector", "#x")), holds(`document.title`, "one!"), choose(1), holds(`document.title`, "two")),
		b("tabs.switch-to", "the short form", "calls go to it", one, two, open("one"), newTab("two"), call("tabs", with("switch_to", 0)),
			holds(`document.title`, "one")),
		b("tabs.close", "the active one closed", "another is active", one, two, open("one"), newTab("two"), call("tabs", with("action", "close")),
			field("tabs.length", 1), holds(`document.title`, "one")),
		b("tabs.close-other", "one closed that is not active", "the active one stays", one, two, open("one"), newTab("two"),
			call("tabs", with("action", "close", "index", 0)), holds(`document.title`, "two")),
		b("tabs.close-all", "the last one closed", "the next page opens in a new one", one, open("one"), call("tabs", with("action", "close")),
			field("tabs.length", 0), field("active_index", -1), open("one"), holds(`document.title`, "one")),
		b("tabs.new-blank", "a new tab without an address", "it is empty and active", one, open("one"), call("tabs", with("action", "new")),
			field("active_index", 1), holds(`location.href`, "about:blank")),
		b("tabs.no-such", "a tab that does not exist", "refused; the active one stays", one, open("one"),
			refused(capabilities.CodeTabNotFound, "tabs", with("action", "select", "index", 9)), holds(`document.title`, "one")),
		b("tabs.blocks-chrome", "a new tab with a chrome: address", "refused; no tab is opened", one, open("one"),
			blocked("tabs", with("action", "new", "url", "chrome://version/")), call("tabs", nil), field("tabs.length", 1),
			holds(`document.title`, "one")),
		b("tabs.popup", "a window that a page opens", "it is a tab of this conversation",
			html(`<button id=x onclick="window.open('two')">O</button>`), two, call("click", with("selector", "#x")), served("two"),
			call("tabs", nil), field("tabs.length", 2), among("tabs", "/two")),
		b("tabs.popup-opener", "a window that talks to its opener", "both can be worked with",
			html(`<button id=x onclick="w=window.open('child')">O</button><script>onmessage=e=>document.title=e.data</script>`),
			page{"child", `<button id=y onclick="opener.postMessage('from child','*')">C</button>`}, call("click", with("selector", "#x")),
			served("child"), choose(1), call("click", with("selector", "#y")), choose(0), becomes(`document.title`, "from child")),
		b("tabs.self-closing", "a window that closes itself", "it leaves the list",
			html(`<button id=x onclick="w=window.open('bye')">O</button>`), page{"bye", `<script>setTimeout(close,100)</script>`},
			call("click", with("selector", "#x")), served("bye"), func(r *run) {
				r.until("it leaves the list", func() bool { return suite.Number(r.Call("tabs", nil).Result, "tabs.length") == 1 })
			}, choose(0), becomes(`w.closed`, true)),
		b("tabs.refs", "refs of another tab", "they are not taken for those of this one", one, two, open("one"), keep("x", `button "B"`),
			newTab("two"), either("click", with("ref", known("x"))), holds(`document.title`, "two")),
		b("tabs.background-alive", "a tab in the background", "its timers and frames go on",
			html(`<title>bg</title><script>var n=0;(function f(){n++;requestAnimationFrame(f)})()</script>`), two, newTab("two"),
			holds(`new Promise(f=>setTimeout(f,300,1))`, 1), choose(0), becomes(`n > 5`, true)),
		b("tabs.noopener-flood", "a page that opens windows without end", "there is a limit and the page still works",
			html(`<button id=x onclick="for(let i=0;i<60;i++)window.open('two');document.title='flooded'">O</button>`), two,
			call("click", with("selector", "#x")), call("tabs", nil), check(func(_ *run, c *suite.Call) string {
				if suite.Number(c.Result, "tabs.length") > 40 {
					return "the flood was not held back"
				}
				return ""
			}), choose(0), holds(`document.title`, "flooded")),
		b("tabs.shared-session", "two tabs of one conversation", "they share cookies", one,
			call("navigate", with("url", "{A}cookie?name=k&value=v7")), newTab("one"), holds(`document.cookie`, "k=v7")),
	}
}
