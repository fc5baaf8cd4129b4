package browser

import "github.com/handrail-dev/handrail/capabilities"

// isolation: two agents on one node never meet.
func isolation() []*behaviour {
	p := html(`<title>mine</title><button id=x onclick="document.title='pressed'">B</button>`)
	other := func(steps ...step) step { return in("other", steps...) }
	return []*behaviour{
		b("isolation.tabs", "two agents with a page each", "neither lists the other's", p, page{"two", `<title>theirs</title>`},
			other(open("two"), call("tabs", nil), field("tabs.length", 1), notAmong("tabs", "mine"), holds(`document.title`, "theirs")),
			call("tabs", nil), field("tabs.length", 1), notAmong("tabs", "theirs"), holds(`document.title`, "mine")),
		b("isolation.cookies", "a cookie set for one agent", "the other's requests do not carry it", p,
			holds(`document.cookie='who=one', document.cookie`, "who=one"), other(
				open("?b"), holds(`document.cookie`, ""),
				call("evaluate", with("expression", "fetch('echo').then(r=>r.json()).then(j=>document.title='['+j.cookie+']')")),
				becomes(`document.title`, "[]")), holds(`document.cookie`, "who=one")),
		b("isolation.http-only", "a cookie that scripts do not see", "it reaches the server for one agent only", p,
			call("navigate", with("url", "{A}cookie?name=s&value=secret&http=1")), open("?mine"), header("", "Cookie", "s=secret"),
			other(open("?theirs"), func(r *run) {
				found, _ := r.visits.matching("")
				if got := found[len(found)-1].Header.Get("Cookie"); got != "" {
					r.Fail("the other agent's request had the cookie %q", got)
				}
			})),
		b("isolation.storage", "what a page stores for one agent", "the other's page does not find it", p,
			holds(`localStorage.k='v', sessionStorage.k='v', localStorage.k`, "v"),
			other(open(""), holds(`[localStorage.k, sessionStorage.k].join()`, ","))),
		b("isolation.databases", "a database of one agent's page", "the other's page does not find it", p,
			holds(`new Promise(f=>{const r=indexedDB.open('mine',1);r.onsuccess=()=>f(1);r.onerror=()=>f(0)})`, 1),
			other(open(""), holds(`indexedDB.databases().then(l=>l.length)`, 0)), holds(`indexedDB.databases().then(l=>l.length)`, 1)),
		b("isolation.refs", "a ref of one agent", "it acts on nothing of the other's", p, keep("x", "B"), other(open(""), func(r *run) {
			if c := r.Call("click", with("ref", r.refs["x"])); c.Code == capabilities.CodeStaleRef {
				r.compare(`document.title`, r.eval(`document.title`), "mine")
			}
		}), holds(`document.title`, "mine")),
		b("isolation.broadcast", "a page that calls out to others of its origin", "the other agent's page does not hear it", p,
			other(open(""), holds(`heard=[], new BroadcastChannel('c').onmessage=e=>heard.push(e.data), 1`, 1)),
			holds(`new BroadcastChannel('c').postMessage('hi'), 1`, 1), holds(`new Promise(f=>setTimeout(f,150,1))`, 1),
			other(holds(`heard.length`, 0))),
		b("isolation.emulation", "one agent's window and clock", "the other's are as they were", p,
			call("resize", with("width", 444, "height", 555, "timezone", "Asia/Tokyo")), holds(`innerWidth`, 444),
			other(open(""), holds(`innerWidth != 444 && Intl.DateTimeFormat().resolvedOptions().timeZone != 'Asia/Tokyo'`, true))),
		b("isolation.offline", "one agent without network", "the other has it", p,
			call("resize", with("width", 800, "height", 600, "offline", true)),
			other(open("?online"), holds(`navigator.onLine`, true), served("", "online"))),
		b("isolation.dialog", "a dialog of one agent's page", "the other's calls go on",
			html(`<button id=x onclick="document.title=confirm('Sure?')">B</button>`), call("click", with("selector", "#x")),
			other(open("?free"), call("snapshot", nil), holds(`document.title`, "Test page")), call("handle-dialog", with("accept", true)),
			becomes(`document.title`, "true")),
		b("isolation.hang", "one agent's page whose script never ends", "the other's calls go on",
			html(`<button id=x onclick="document.title='spinning';const t=Date.now();while(Date.now()-t<3000);">B</button>`),
			meanwhile(either("click", with("selector", "#x")), other(open("?free"), holds(`document.title`, "Test page"))),
			becomes(`document.title`, "spinning")),
		b("isolation.close", "one agent closes its browser", "the other's page stays", p, other(open(""), call("close", nil)),
			call("click", with("selector", "#x")), holds(`document.title`, "pressed")),
		b("isolation.console", "messages and requests of one agent's page", "the other does not read them", p,
			holds(`console.log('private words'), fetch('seen?private').then(()=>1)`, 1),
			other(open(""), call("console-messages", nil), notAmong("messages", "private words"), call("network-requests", nil),
				notAmong("requests", "seen?private")),
			served("seen", "private")),
		b("isolation.side-by-side", "two agents working at once", "each does its own work on its own page",
			html(`<button id=x onclick="document.title=+document.title+1||1">B</button>`), func(r *run) {
				work := func(r *run) {
					for range 8 {
						call("click", with("selector", "#x"))(r)
					}
					holds(`document.title`, "8")(r)
				}
				o := r.other("other")
				open("?other")(o)
				meanwhile(func(*run) { work(o) }, work)(r)
			}, holds(`document.title`, "8")),
		b("isolation.fresh", "a closed browser, and the next page", "nothing of before is left", p,
			holds(`document.cookie='old=1', localStorage.k='v'`, "v"), call("close", nil), open("?again"),
			holds(`[document.cookie, localStorage.k ?? ''].join()`, ",")),
		b("isolation.cache", "what the browser of one agent has in its cache", "the other's asks the server itself", html(`<p>x`),
			holds(`fetch('seen?cache').then(()=>1)`, 1), other(open("?o"), holds(`fetch('seen?cache').then(()=>1)`, 1)), times("seen", 2)),
	}
}
