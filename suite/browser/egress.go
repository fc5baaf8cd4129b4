package browser

// egress: whatever way a page tries, it reaches only what is allowed.
func egress() []*behaviour {
	// The third origin listens on loopback as well, and nobody allowed it.
	nobody := times("seen", 0)
	tries := func(script string) page { return html(`<script>var r='';` + script + `</script>`) }
	return []*behaviour{
		b("egress.navigate", "an origin that nobody allowed", "refused; its server hears nothing", html(`<title>safe</title>`),
			blocked("navigate", with("url", "{none}seen")), nobody, holds(`document.title`, "safe")),
		b("egress.localhost", "the same by name", "refused; its server hears nothing", html(`<title>safe</title>`), func(r *run) {
			port := r.none[len("http://127.0.0.1"):]
			blocked("navigate", with("url", "http://localhost"+port+"seen"))(r)
		}, nobody, holds(`document.title`, "safe")),
		b("egress.fetch", "a script that asks it", "the request fails; its server hears nothing",
			tries(`fetch('{none}seen',{mode:'no-cors'}).then(x=>r='done '+x.type+x.status,()=>r='failed')`), becomes(`r!=''`, true), nobody),
		b("egress.image", "a picture from it", "it does not load; its server hears nothing",
			html(`<img src="{none}seen" onerror="r='failed'"><script>var r=''</script>`), nobody, holds(`document.images[0].naturalWidth`, 0)),
		b("egress.frame", "a frame of it", "its server hears nothing", html(`<iframe src="{none}seen"></iframe>`), nobody,
			holds(`frames.length`, 1)),
		b("egress.script", "a script from it", "its server hears nothing", html(`<script src="{none}seen"></script><p>x`), nobody,
			holds(`document.querySelector('p').textContent`, "x")),
		b("egress.redirect", "an allowed address that leads to it", "its server hears nothing", html(`<title>safe</title>`),
			either("navigate", with("url", "{A}redirect?to={none}seen")), nobody, served("redirect")),
		b("egress.worker", "a worker that asks it", "its server hears nothing",
			tries(
				`const w=new Worker(URL.createObjectURL(new Blob(["fetch('{none}seen',{mode:'no-cors'}).then(()=>postMessage('done'),()=>postMessage('failed'))"])));w.onmessage=e=>r=e.data`),
			becomes(`r!=''`, true), nobody),
		b("egress.socket", "a web socket to it", "it fails; its server hears nothing",
			tries(`const w=new WebSocket('{none}seen'.replace('http','ws'));w.onerror=()=>r='failed';w.onopen=()=>r='open'`), becomes(`r`, "failed"),
			nobody),
		b("egress.beacon", "a beacon to it", "its server hears nothing",
			tries(`navigator.sendBeacon('{none}seen','x');fetch('seen?own').then(()=>r='own')`), becomes(`r`, "own"), func(r *run) {
				found, _ := r.visits.matching("seen")
				for _, v := range found {
					if v.Origin == "none" {
						r.Fail("the beacon arrived")
					}
				}
			}),
		b("egress.form", "a form sent to it", "its server hears nothing",
			html(`<form action="{none}seen" method=post><button id=x>Go</button></form>`), either("click", with("selector", "#x")), nobody,
			served("")),
		b("egress.popup", "a window of it", "its server hears nothing",
			html(`<button id=x onclick="document.title='asked';window.open('{none}seen')">O</button>`), either("click", with("selector", "#x")),
			holds(`document.title`, "asked"), nobody),
		b("egress.event-source", "a stream from it", "its server hears nothing",
			tries(`const s=new EventSource('{none}seen');s.onerror=()=>{r='failed';s.close()}`), becomes(`r`, "failed"), nobody),
		b("egress.file-frame", "a frame of a file", "the page cannot show it", html(`<iframe src="file:///etc/passwd"></iframe><p>x`),
			noLine("root:"), holds(`document.querySelector('p').textContent`, "x")),
		b("egress.web-rtc", "a peer connection", "no address of the node is found by it",
			tries(
				`const c=new RTCPeerConnection();var got=[];c.onicecandidate=e=>{if(e.candidate)got.push(e.candidate.candidate);else r='done'};c.createDataChannel('x');c.createOffer().then(o=>c.setLocalDescription(o));setTimeout(()=>r=r||'done',1500)`),
			becomes(`r`, "done"), holds(`got.filter(c=>/ udp /i.test(c) && /(\d+\.){3}\d+/.test(c)).length`, 0)),
		b("egress.other-origin-allowed", "the second origin, which is allowed", "it is reached", tries(`fetch('{B}seen?b').then(()=>r='ok')`),
			becomes(`r`, "ok"), served("seen", "B", "b")),
		b("egress.metadata", "a cloud's metadata service", "refused", html(`<title>safe</title>`),
			blocked("navigate", with("url", "http://169.254.169.254/latest/meta-data/")), holds(`document.title`, "safe")),
	}
}
