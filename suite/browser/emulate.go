package browser

// emulation: the window and the world that a page believes it is in.
func emulation() []*behaviour {
	set := func(args obj) step { return call("resize", args) }
	size := func(more obj) obj {
		all := with("width", 800, "height", 600)
		for k, v := range more {
			all[k] = v
		}
		return all
	}
	p := html(`<meta name=viewport content="width=device-width"><p>x`)
	return []*behaviour{
		b("resize.viewport", "another size", "the page has it and is told", html(`<script>onresize=()=>document.title='resized'</script>`),
			set(with("width", 500, "height", 400)), holds(`[innerWidth, innerHeight]`, []int{500, 400}), becomes(`document.title`, "resized")),
		b("resize.media-query", "a narrow window", "the page's narrow form is in effect",
			html(`<style>#m{display:none}@media(max-width:500px){#m{display:block}}</style><button id=m>Menu</button>`), noLine("Menu"),
			set(with("width", 400, "height", 600)), line(`button "Menu"`), holds(`getComputedStyle(m).display`, "block")),
		b("resize.stays", "the next page and the next tab", "they have the size, too", p, page{"two", `<p>two`},
			set(with("width", 510, "height", 420)), open("two"), holds(`innerWidth`, 510), call("tabs", with("action", "new", "url", "{A}two")),
			holds(`innerWidth`, 510)),
		b("resize.scale", "a screen with two points for each pixel", "the page sees it", p, set(size(with("device_scale_factor", 2))),
			holds(`devicePixelRatio`, 2)),
		b("resize.mobile", "a telephone", "the page is laid out as for one", html(`<meta name=viewport content="width=device-width"><p>x`),
			set(with("width", 390, "height", 844, "mobile", true, "device_scale_factor", 3)), open(""),
			holds(`[innerWidth, devicePixelRatio]`, []int{390, 3})),
		b("emulate.alone", "no network and a dark scheme, without a size", "the page sees both and keeps its size",
			html(`<script>const w=innerWidth</script>`), set(with("offline", true, "color_scheme", "dark")),
			holds(`[navigator.onLine, matchMedia('(prefers-color-scheme: dark)').matches, innerWidth==w]`, []bool{false, true, true}),
			set(with("offline", false)), holds(`navigator.onLine`, true), refused("invalid_arguments", "resize", with("width", 500))),
		b("emulate.dark", "a dark scheme", "the page sees it", p, set(size(with("color_scheme", "dark"))),
			holds(`matchMedia('(prefers-color-scheme: dark)').matches`, true)),
		b("emulate.light-again", "dark, then light", "the page sees the last", p, set(size(with("color_scheme", "dark"))),
			set(size(with("color_scheme", "light"))), holds(`matchMedia('(prefers-color-scheme: light)').matches`, true)),
		b("emulate.reduced-motion", "less motion", "the page sees it", p, set(size(with("reduced_motion", true))),
			holds(`matchMedia('(prefers-reduced-motion: reduce)').matches`, true)),
		b("emulate.locale", "another language", "dates are in it", p, set(size(with("locale", "de-DE"))),
			holds(`(1234.5).toLocaleString()`, "1.234,5")),
		b("emulate.timezone", "another time zone", "the page is in it", p, set(size(with("timezone", "Asia/Tokyo"))),
			holds(`[Intl.DateTimeFormat().resolvedOptions().timeZone, new Date(0).getHours()]`, []any{"Asia/Tokyo", 9})),
		b("emulate.geolocation", "a place on earth", "the page is told it without asking anybody", file("emulate.geolocation.html"),
			set(size(with("geolocation", with("latitude", 48.25, "longitude", 11.5)))), holds(`ask(), 1`, 1), func(r *run) {
				// A place is for secure origins only; where loopback is none, the refusal is the page's to
				// tell.
				if r.eval(`isSecureContext`) == true {
					becomes(`at`, "48.25,11.5")(r)
				}
			}),
		b("emulate.offline", "no network", "requests fail; back again, they arrive",
			html(`<script>var r='';function ask(q){r='';fetch('seen?'+q).then(()=>r='ok',()=>r='failed')}</script>`),
			set(size(with("offline", true))), holds(`ask('off'), navigator.onLine`, false), becomes(`r`, "failed"),
			set(size(with("offline", false))), holds(`ask('on'), navigator.onLine`, true), becomes(`r`, "ok"), served("seen", "on"),
			times("seen", 1)),
		b("emulate.user-agent", "another name of the browser", "page and server see it", p, set(size(with("user_agent", "Suite/1.0"))),
			open("?again"), holds(`navigator.userAgent`, "Suite/1.0"), header("", "User-Agent", "Suite/1.0")),
		b("emulate.frames", "a frame of another origin", "it is in the same world",
			html(`<iframe src="{B}in"></iframe><script>var heard=[];onmessage=e=>heard.push(e.data)</script>`),
			page{
				"in", `<script>onmessage=()=>{};setInterval(()=>top.postMessage(matchMedia('(prefers-color-scheme: dark)').matches,'*'),50)</script>`,
			},
			set(size(with("color_scheme", "dark"))), becomes(`heard.at(-1)`, true)),
		b("emulate.reset", "a closed and new browser", "it is as at first", p, holds(`window.first = innerWidth, 1`, 1),
			set(with("width", 333, "height", 444)), holds(`innerWidth`, 333), call("close", nil), open(""), holds(`innerWidth != 333`, true)),
	}
}
