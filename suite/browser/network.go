package browser

import (
	"strings"

	"github.com/handrail-dev/handrail/suite"
)

// network: what a page asked for and what it got.
func network() []*behaviour {
	read := func(args obj) step { return call("network-requests", args) }
	detail := func(filter string, args obj) step {
		return func(r *run) {
			c := r.Call("network-requests", with("filter", filter))
			list, _ := c.Result["requests"].([]any)
			if len(list) == 0 {
				r.Fail("no request has %q in its address: %s", filter, c.End())
			}
			all := with("id", suite.Pick(list[len(list)-1], "id"))
			for k, v := range args {
				all[k] = v
			}
			if r.Made(r.Call("network-requests", all)).Code != "" {
				r.Fail("%s", r.Last().End())
			}
		}
	}
	api := file("network.api.html")
	done := becomes(`n`, 2)
	return []*behaviour{
		b("network.list", "a page with a picture and two requests", "all are there with method and status", api, done, read(nil),
			among("requests", "POST", "echo?one", "200"), among("requests", "status/404", "404"), among("requests", "image.svg"),
			served("echo", "POST", "hello body")),
		b("network.filter", "a part of the address", "others are left out", api, done, read(with("filter", "echo")),
			among("requests", "echo?one"), notAmong("requests", "image.svg"), served("image.svg")),
		b("network.types", "only requests of scripts", "documents and pictures are left out", api, done,
			read(with("types", []any{"fetch", "xhr"})), among("requests", "echo?one"), notAmong("requests", "image.svg"), served("image.svg")),
		b("network.detail", "one request in detail", "its headers are those that were sent", api, done, detail("echo?one", nil),
			check(func(_ *run, c *suite.Call) string {
				if !suite.HoldsAll(strings.ToLower(suite.JSON(suite.Pick(c.Result, "detail.request_headers"))), []string{"x-test", "yes"}) {
					return "X-Test is not among the headers: " + suite.Brief(c.Result)
				}
				return ""
			}), header("echo", "X-Test", "yes"), served("echo", "POST")),
		b("network.request-body", "the body of a request", "it is what was sent", api, done, detail("echo?one", with("body", true)),
			field("detail.request_body", "hello body"), served("echo", "POST", "hello body")),
		b("network.response-body", "the body of an answer", "it is what the page got", api, done, detail("echo?one", with("body", true)),
			field("detail.body", "hello body"), holds(`got.includes('hello body')`, true)),
		b("network.secrets", "a request with a cookie and a key", "neither is told; the server got both", file("network.secrets.html"),
			becomes(`n`, 1), detail("echo?s", with("body", false)), without("topsecret42"), without("verysecret43"),
			header("echo", "Authorization", "verysecret43"), header("echo", "Cookie", "topsecret42")),
		b("network.failed", "a request that is broken off", "its failure is told",
			html(`<script>var n=0;fetch('broken').catch(()=>n=1)</script>`), becomes(`n`, 1), read(with("filter", "broken")),
			among("requests", "broken", "failure")),
		b("network.since", "only what is new", "what was read before is left out", html(`<script>fetch('seen?first')</script>`),
			served("seen", "first"), func(r *run) {
				c := r.Call("network-requests", nil)
				r.eval(`fetch('seen?second').then(() => 1)`)
				r.Made(r.Call("network-requests", with("since", suite.Pick(c.Result, "last"))))
			}, among("requests", "seen?second"), notAmong("requests", "seen?first")),
		b("network.limit", "no more than three", "three are given and the rest is counted",
			html(`<script>var n=0;for(let i=0;i<9;i++)fetch('seen?i='+i).then(()=>n++)</script>`), becomes(`n`, 9),
			read(with("filter", "seen", "limit", 3)), field("requests.length", 3), field("omitted", 6)),
		b("network.document", "the document itself", "it is the first request", html(`<p>x`), read(with("types", []any{"document"})),
			field("requests.0.url", "{A}"), field("requests.0.status", 200), served("", "GET")),
		b("network.frame", "requests of a frame of another origin", "they are there", html(`<iframe src="{B}in"></iframe>`),
			page{"in", `<script>fetch('seen?inframe')</script>`}, served("seen", "B", "inframe"), read(nil), among("requests", "inframe")),
		b("network.redirect", "a request that is redirected", "where it went is there",
			html(`<script>var n=0;fetch('redirect?to=seen%3Fend').then(()=>n=1)</script>`), becomes(`n`, 1), read(nil),
			among("requests", "seen?end", "204"), served("seen", "end")),
		b("network.socket", "a web socket", "it is there",
			html(`<script>var got='';const w=new WebSocket('{A}socket'.replace('http','ws'));w.onmessage=e=>got=e.data</script>`),
			becomes(`got`, "hello"), read(with("types", []any{"websocket"})), among("requests", "socket")),
		b("network.worker", "a request of a worker", "the server gets it through the node",
			html(`<script>new Worker(URL.createObjectURL(new Blob(["fetch('{A}seen?worker')"])))</script>`), served("seen", "worker")),
		b("network.beacon", "a beacon sent when the page is left", "the server gets it",
			html(`<script>addEventListener('pagehide',()=>navigator.sendBeacon('seen?beacon','b'))</script>`), page{"next", `<title>next</title>`},
			open("next"), served("seen", "beacon"), holds(`document.title`, "next")),
	}
}
