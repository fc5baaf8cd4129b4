//go:build linux

package browser

import (
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/record"
)

// messages returns "type: text" of each console message.
func (n *node) messages(args obj) (said []string, a answer) {
	n.t.Helper()
	a = n.must("console-messages", args)
	for _, m := range a.m["messages"].([]any) {
		said = append(said, fmt.Sprint(m.(obj)["type"], ": ", m.(obj)["text"]))
	}
	return said, a
}

func TestConsoleMessages(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{
		"/": html(`<script>
console.log('plain', 1, true, null, undefined, 1n, -0);
console.log('%s is %d of %i%%, %o', 'x', 3, 4, {a: 1}, 'rest');
console.warn({a: 1, b: 'two', c: [1, 2], d: {e: {f: 1}}, g() {}}, [1, 'x', {}], new Map([['k', 2]]), new Set([1]));
console.error(new TypeError('went wrong'));
console.debug(document.body, /re/g, Symbol('s'), class A {}, () => 1);
console.info('%cstyled', 'color: red');
console.assert(1 === 2, 'not the same');
console.table([{x: 1}]);
setTimeout(() => { throw new RangeError('uncaught one') });
Promise.reject(new Error('rejected one'));
fetch('/missing');
</script>`),
		"/2": html(`<script>console.log('second page')</script>`),
	})
	n.goTo(s.URL + "/")
	n.eval(`new Promise(r => setTimeout(r, 0)).then(() => fetch('/missing')).then(() => 1)`)
	said, a := n.messages(obj{})
	all := strings.Join(said, "\n")
	t.Log(all)
	for _, want := range []string{
		"log: plain 1 true null undefined 1n -0", "log: x is 3 of 4%, {a: 1} rest", `warning: {a: 1, b: 'two', c: Array(2), d: {…}, g: ƒ} [1, 'x', {…}]`,
		`Map(1) {'k' => 2}`, `Set(1) {1}`, "error: TypeError: went wrong", "debug: body /re/g Symbol(s) ƒ class A", "info: styled",
		"assert: Assertion failed: not the same", "error: Uncaught RangeError: uncaught one", "error: Uncaught (in promise) Error: rejected one", "error: Failed to load resource",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("missing %q", want)
		}
	}
	first := a.m["messages"].([]any)[0].(obj)
	if first["url"] != s.URL+"/" || first["line"] != 2.0 || first["at"] == "" || first["seq"] != 1.0 || !a.Untrusted {
		t.Errorf("first message: %v", first)
	}
	last := a.m["last"].(float64)
	if errors, _ := n.messages(obj{"level": "error"}); len(errors) < 5 || strings.Contains(strings.Join(errors, " "), "warning:") {
		t.Errorf("errors only: %q", errors)
	}
	two, limited := n.messages(obj{"limit": 2})
	if len(two) != 2 || limited.m["omitted"].(float64) != float64(len(said)-2) || two[1] != said[len(said)-1] {
		t.Errorf("limit 2 of %d: %s", len(said), limited.json)
	}
	// Kept across documents, numbers grow, since gives what is new.
	n.goTo(s.URL + "/2")
	fresh, a := n.messages(obj{"since": last, "clear": true})
	if len(fresh) != 1 || fresh[0] != "log: second page" || a.m["last"].(float64) != last+1 {
		t.Errorf("since %v: %s", last, a.json)
	}
	if left, a := n.messages(obj{}); len(left) != 0 || a.m["last"].(float64) != last+1 {
		t.Errorf("after clear: %s", a.json)
	}
	n.refused(capabilities.CodeInvalidArguments, "console-messages", obj{"level": "loud"})
}

// Both lists begin with the page shown, unless more is asked for.
func TestListsBeginWithThisPage(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{
		"/1": html(`<script>console.log('of the first'); fetch('/data?1')</script>`), "/data": "x",
		"/2": html(`<script>console.log('of the second'); history.replaceState(0, '', '/2#in'); setTimeout(() => console.log('and later'), 0)</script>`),
	})
	n.goTo(s.URL + "/1")
	n.goTo(s.URL + "/2")
	n.eval(`new Promise(r => setTimeout(r, 1))`)
	said, a := n.messages(obj{})
	if strings.Join(said, "; ") != "log: of the second; log: and later" || !strings.Contains(a.Evidence, "1 of pages before") || !strings.Contains(a.Evidence, "since 0") {
		t.Errorf("%q %q", said, a.Evidence)
	}
	if said, a := n.messages(obj{"since": 0}); len(said) != 3 || said[0] != "log: of the first" || a.Evidence != "" {
		t.Errorf("all: %q %q", said, a.Evidence)
	}
	_, a = n.requests(obj{})
	if strings.Contains(a.json, "data?1") || !strings.Contains(a.Evidence, "of pages before") {
		t.Errorf("%s %q", a.json, a.Evidence)
	}
	if _, a = n.requests(obj{"since": 0}); !strings.Contains(a.json, "data?1") {
		t.Error(a.json)
	}
	// A page that comes back from the history brings its own messages back.
	n.must("navigate-back", obj{})
	if said, _ := n.messages(obj{}); len(said) == 0 || said[0] != "log: of the first" || strings.Contains(strings.Join(said, "; "), "second") {
		t.Errorf("after going back: %q", said)
	}
}

// A page that logs without end costs neither memory nor time.
func TestConsoleFlood(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<script>for (let i = 0; i < 5000; i++) console.log('line ' + i); console.log('x'.repeat(100000))</script>`)})
	n.goTo(s.URL + "/")
	said, a := n.messages(obj{"limit": 1000})
	if len(said) != 1000 || said[998] != "log: line 4999" || len(said[999]) > record.MaxText+20 || a.m["last"] != 5001.0 || a.m["omitted"] != nil {
		t.Errorf("%d messages, the last two %.60q %.60q, last %v omitted %v", len(said), said[max(0, len(said)-2)], said[len(said)-1], a.m["last"], a.m["omitted"])
	}
}

// The page answers no script while it is busy; its console does.
func TestConsoleWhileBusy(t *testing.T) {
	t.Parallel()
	busy, enough := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/busy" {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, html(`<button onclick="console.log('working');setTimeout(()=>{const r=new XMLHttpRequest;r.open('GET','/busy',false);r.send();document.title='done'})">Go</button>`))
			return
		}
		close(busy) // the page's only thread waits for the answer
		select {
		case <-enough:
		case <-r.Context().Done():
		}
	}))
	defer s.Close()
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	n.eval(`document.querySelector('button').click()`)
	<-busy
	n.until("the console answers", func() bool {
		said, _ := n.messages(obj{})
		return len(said) == 1 && said[0] == "log: working"
	})
	if a := n.must("tabs", obj{}); strings.Contains(a.json, "done") {
		t.Fatal("the page was done already: this test shows nothing")
	}
	close(enough)
	n.until("the page goes on", func() bool { return n.eval("document.title") == "done" })
}

type requests []obj

func (n *node) requests(args obj) (list requests, a answer) {
	n.t.Helper()
	a = n.must("network-requests", args)
	for _, r := range a.m["requests"].([]any) {
		list = append(list, r.(obj))
	}
	return list, a
}

// find returns the only request whose address ends so.
func (r requests) find(t *testing.T, end string) obj {
	t.Helper()
	var found obj
	for _, one := range r {
		if strings.HasSuffix(one["url"].(string), end) {
			if found != nil {
				t.Errorf("two requests end in %s", end)
			}
			found = one
		}
	}
	if found == nil {
		t.Errorf("no request ends in %s: %v", end, r)
		return obj{}
	}
	return found
}

func TestNetworkRequests(t *testing.T) {
	t.Parallel()
	var drawn bytes.Buffer
	if err := png.Encode(&drawn, image.NewGray(image.Rect(0, 0, 3, 3))); err != nil {
		t.Fatal(err)
	}
	pixel := drawn.String()
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			w.Header().Set("Set-Cookie", "session=topsecret1; HttpOnly")
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, html(`<link rel=stylesheet href=/style.css><img src=/pixel.png><script src=/app.js></script>`))
		case "/style.css":
			w.Header().Set("Content-Type", "text/css")
			w.Header().Set("Cache-Control", "max-age=1000")
			fmt.Fprint(w, "body{}")
		case "/app.js":
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, "1")
		case "/pixel.png":
			w.Header().Set("Content-Type", "image/png")
			fmt.Fprint(w, pixel)
		case "/from":
			http.Redirect(w, r, "/to", http.StatusFound)
		case "/to":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"ok": "jä"}`)
		case "/long":
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprint(w, strings.Repeat("0123456789", 40_000))
		case "/cut":
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "short")
		default:
			http.NotFound(w, r)
		}
	})
	n := newNode(t, srv.URL)
	n.goTo(srv.URL + "/")
	n.eval(`async () => {
		await fetch('/from', {method: 'POST', body: 'q=what', headers: {Authorization: 'Bearer topsecret2', 'X-Plain': 'seen'}}).then(r => r.text());
		await fetch('/long').then(r => r.text());
		await fetch('/missing').then(r => r.text());
		await fetch('/cut').then(r => r.text()).catch(() => 0);
		await fetch('http://10.1.2.3/never').catch(() => 0);
		await fetch('/style.css').then(r => r.text());
		return 1;
	}`)
	list, a := n.requests(obj{})
	if !a.Untrusted || a.m["last"].(float64) != float64(len(list)) {
		t.Errorf("%s", a.json)
	}
	doc := list.find(t, srv.URL+"/")
	if doc["type"] != "document" || doc["status"] != 200.0 || doc["content_type"] != "text/html" || doc["method"] != "GET" || doc["bytes"].(float64) < 50 || doc["duration_ms"] == nil {
		t.Errorf("document: %v", doc)
	}
	if r := list.find(t, "/pixel.png"); r["type"] != "image" || r["status"] != 200.0 {
		t.Errorf("image: %v", r)
	}
	from, to := list.find(t, "/from"), list.find(t, "/to")
	if from["status"] != 302.0 || from["method"] != "POST" || to["status"] != 200.0 || to["method"] != "GET" || from["type"] != "fetch" || from["id"] == to["id"] {
		t.Errorf("redirect: %v %v", from, to)
	}
	if r := list.find(t, "/missing"); r["status"] != 404.0 {
		t.Errorf("missing: %v", r)
	}
	if r := list.find(t, "/cut"); r["failure"] == nil {
		t.Errorf("cut: %v", r)
	}
	if r := list.find(t, "/never"); !strings.Contains(fmt.Sprint(r["failure"]), "blocked by the node") {
		t.Errorf("blocked: %v", r)
	}
	cached := 0
	for _, r := range list {
		if strings.HasSuffix(r["url"].(string), "/style.css") && r["from_cache"] == true {
			cached++
		}
	}
	if cached != 1 {
		t.Errorf("%d cache hits: %v", cached, list)
	}

	// Narrowed.
	if some, _ := n.requests(obj{"types": []string{"fetch"}, "filter": "/t"}); len(some) != 1 || some[0]["id"] != to["id"] {
		t.Errorf("filtered: %v", some)
	}
	if one, a := n.requests(obj{"limit": 1}); len(one) != 1 || a.m["omitted"].(float64) != float64(len(list)-1) {
		t.Errorf("limited: %s", a.json)
	}
	if none, _ := n.requests(obj{"since": a.m["last"]}); len(none) != 0 {
		t.Errorf("since: %v", none)
	}

	// One in detail, without secrets.
	_, d := n.requests(obj{"id": from["id"]})
	detail := d.m["detail"].(obj)
	if detail["request_body"] != "q=what" || !strings.Contains(d.json, `"X-Plain":"seen"`) || !strings.Contains(d.json, `"Authorization":"(hidden)"`) || !strings.Contains(d.json, `"Location":"/to"`) {
		t.Errorf("detail: %s", d.json)
	}
	_, d = n.requests(obj{"id": doc["id"], "body": true})
	if body := fmt.Sprint(d.m["detail"].(obj)["body"]); !strings.Contains(body, "<title>Test page</title>") || d.m["detail"].(obj)["body_truncated"] == true {
		t.Errorf("body: %s", d.json)
	}
	for _, secret := range []string{"topsecret1", "topsecret2"} {
		for _, r := range list {
			if _, d := n.requests(obj{"id": r["id"]}); strings.Contains(d.json, secret) {
				t.Errorf("%s is shown: %s", secret, d.json)
			}
		}
	}
	_, d = n.requests(obj{"id": to["id"], "body": true})
	if d.m["detail"].(obj)["body"] != `{"ok": "jä"}` {
		t.Errorf("json: %s", d.json)
	}
	_, d = n.requests(obj{"id": list.find(t, "/long")["id"], "body": true})
	if b := d.m["detail"].(obj); len(b["body"].(string)) != maxBodyText || b["body_truncated"] != true || !strings.HasPrefix(d.Evidence, "the body is cut after 262144 of ") {
		t.Errorf("long body: %d %v %q", len(b["body"].(string)), b["body_truncated"], d.Evidence)
	}
	_, d = n.requests(obj{"id": list.find(t, "/pixel.png")["id"], "body": true})
	if len(d.Blobs) != 1 || string(d.Blobs[0].Bytes) != pixel || d.Blobs[0].MIME != "image/png" || d.Blobs[0].Field != "bytesBase64" {
		t.Errorf("binary body: %s %v", d.json, d.Blobs)
	}
	n.refused(capabilities.CodeNotFound, "network-requests", obj{"id": "r999"})
	n.refused(capabilities.CodeNotFound, "network-requests", obj{"id": "../x"})
}

// A list is of the page that is there now, or, for who asks, of those before it, too.
func TestRequestsOfTheDocument(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<img src=/first.png>`), "/two": html(`<script>fetch('/ofsecond')</script>`)})
	names := func(args obj) string {
		t.Helper()
		list, _ := n.requests(args)
		var names []string
		for _, r := range list {
			if name := strings.TrimPrefix(r["url"].(string), s.URL); name != "/favicon.ico" { // Chrome asks when it likes
				names = append(names, name)
			}
		}
		return strings.Join(names, " ")
	}
	n.goTo(s.URL + "/")
	n.goTo(s.URL + "/redirect?to=/two")
	n.must("wait-for", obj{"load_state": "network_quiet"})
	second := "/redirect?to=/two /two /ofsecond"
	if got := names(obj{}); got != second {
		t.Errorf("the document's: %s", got)
	}
	if got := names(obj{"types": []string{"image"}}); got != "" {
		t.Errorf("its pictures: %s", got)
	}
	if got := names(obj{"since": 0}); got != "/ /first.png "+second {
		t.Errorf("all: %s", got)
	}
	if got := names(obj{"since": 1}); got != "/first.png "+second {
		t.Errorf("after the first: %s", got)
	}
	n.eval(`history.pushState(0, '', '/pushed')`)
	if got := names(obj{}); got != second {
		t.Errorf("the same document elsewhere: %s", got)
	}
	_, _ = n.try("navigate", obj{"url": s.URL + "/redirect?to=http://10.1.2.3/never"})
	if got := names(obj{}); !strings.HasPrefix(got, "/redirect?to=http://10.1.2.3/never http://10.1.2.3/never") {
		t.Errorf("a document that did not come: %s", got)
	}
	n.goTo("about:blank")
	if got := names(obj{}); got != "" {
		t.Errorf("nothing was asked for: %s", got)
	}
}

// A caller that does not say how much gets what a conversation can hold, and the rest in
// parts.
func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<script>for (let i = 0; i < 60; i++) console.log(i + ' ' + 'x'.repeat(2000))</script>`)})
	n.goTo(s.URL + "/")
	got, a := n.messages(obj{})
	if len(a.json) > maxListedSelf+200 || len(got) < 10 || a.m["omitted"] != float64(60-len(got)) {
		t.Errorf("%d messages in %d bytes, omitted %v", len(got), len(a.json), a.m["omitted"])
	}
	for pages := 0; a.m["omitted"] != nil && pages < 60; pages++ {
		var older []string
		older, a = n.messages(obj{"before": a.m["messages"].([]any)[0].(obj)["seq"]})
		got = append(older, got...)
	}
	for i, m := range got {
		if !strings.HasPrefix(m, fmt.Sprintf("log: %d x", i)) {
			t.Fatalf("message %d is %.20q", i, m)
		}
	}
	if len(got) != 60 {
		t.Errorf("%d messages in all", len(got))
	}
	if whole, _ := n.messages(obj{"limit": 60}); len(whole) != 60 {
		t.Errorf("%d messages with a limit of 60", len(whole))
	}
}

// Every request that is kept can be reached, and how many are not is told.
func TestRequestsGoBack(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<p>p</p>`), "/x": "x"})
	n.goTo(s.URL + "/")
	n.eval(`(async () => { for (let i = 0; i < 1100; i += 50) await Promise.all(Array.from({length: 50}, (_, j) => fetch('/x?' + (i + j)).then(r => r.text()))) })()`)
	list, a := n.requests(obj{"filter": "/x", "limit": 10})
	if a.m["omitted"] != 990. || !strings.Contains(a.Evidence, fmt.Sprintf("990 older ones are left out: before %q returns", list[0]["id"])) || !strings.Contains(a.Evidence, "of the earliest are not kept") {
		t.Errorf("%v %s", a.m["omitted"], a.Evidence)
	}
	seen := map[string]bool{}
	for pages := 0; pages < 10; pages++ {
		for _, r := range list {
			seen[r["url"].(string)] = true
		}
		if a.m["omitted"] == nil {
			break
		}
		list, a = n.requests(obj{"filter": "/x", "limit": 400, "before": list[0]["id"]})
	}
	if len(seen) != 1000 {
		t.Errorf("%d requests in all", len(seen))
	}
	n.refused(capabilities.CodeNotFound, "network-requests", obj{"before": "x"})
}

// No record holds what a person typed as a password, however the page sends it.
func TestTypedSecretsStayOut(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<form action=/next><input type=password name=pw aria-label=Password><button>In</button></form>
<script>document.querySelector('input').oninput=e=>console.log('typed '+e.target.value)</script>`), "/next": html("in")})
	n.goTo(s.URL + "/")
	n.must("type", obj{"selector": "input", "text": "sesame & co", "submit": true})
	_, con := n.messages(obj{"since": 0})
	_, net := n.requests(obj{})
	for _, spelling := range []string{"sesame & co", "sesame+%26+co", "sesame%20"} {
		if strings.Contains(con.json+net.json, spelling) {
			t.Errorf("%q in %s %s", spelling, con.json, net.json)
		}
	}
	if !strings.Contains(net.json, "/next?pw=(hidden)") || !strings.Contains(con.json, "typed (hidden)") {
		t.Errorf("%s %s", net.json, con.json)
	}
}

// An expression with a ref is a function of that element, wherever it is.
func TestEvaluateOnRef(t *testing.T) {
	t.Parallel()
	other := newSite(t, map[string]string{"/": html(`<button data-n=3>Foreign</button><script>var mine='foreign world'</script>`)})
	foreign := strings.Replace(other.URL, "127.0.0.1", "localhost", 1)
	s := newSite(t, map[string]string{"/": html(`<button data-n=1>Plain</button><div id=host></div><iframe srcdoc="<button data-n=2>Framed</button><script>var mine='inner world'</script>"></iframe>
<iframe src="` + foreign + `/"></iframe><script>var mine='page world';host.attachShadow({mode:'closed'}).innerHTML='<button data-n=4>Closed</button>'</script>`)})
	n := newNode(t, s.URL, other.URL, foreign)
	n.goTo(s.URL + "/")
	for _, tc := range []struct {
		name, expression string
		want             any
	}{
		{"Plain", "el => el.dataset.n + ' ' + mine", "1 page world"}, {"Plain", "this.dataset.n", "1"}, {"Plain", "element.textContent", "Plain"},
		{"Plain", "function() { return this.tagName }", "BUTTON"}, {"Plain", "async (e) => (await Promise.resolve(e)).dataset.n", "1"},
		{"Framed", "el => el.dataset.n + ' ' + mine", "2 inner world"}, {"Foreign", "el => el.dataset.n + ' ' + mine", "3 foreign world"}, {"Closed", "el => el.dataset.n", "4"},
	} {
		a := n.must("evaluate", obj{"ref": n.ref(tc.name), "expression": tc.expression})
		if a.m["result"] != tc.want {
			t.Errorf("%s of %s: %s, want %v", tc.expression, tc.name, a.json, tc.want)
		}
	}
	ref := n.ref("Plain")
	if err := n.refused(capabilities.CodeScriptFailed, "evaluate", obj{"ref": ref, "expression": "el => el.nothing.such"}); !strings.Contains(err.Message, "TypeError") {
		t.Error(err)
	}
	n.refused(capabilities.CodeScriptFailed, "evaluate", obj{"ref": ref, "expression": "el => el => 1"})
	n.eval("document.querySelector('button').remove()")
	n.refused(capabilities.CodeStaleRef, "evaluate", obj{"ref": ref, "expression": "el => 1"})
	if got := n.eval("(async () => { await 0; return 7 })()"); got != 7.0 {
		t.Errorf("a called async function: %v", got)
	}
	if got := n.eval("const v = await Promise.resolve({a: [1]}); v"); fmt.Sprint(got) != "map[a:[1]]" {
		t.Errorf("await at the top level: %v", got)
	}
}

// Sockets are listed, and never keep the network from being quiet.
func TestNetworkSocket(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ws" {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, html(`<script>opened=new Promise(r=>{new WebSocket(location.href.replace('http','ws')+'ws').onopen=()=>r(1)})</script>`))
			return
		}
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
		fmt.Fprintf(buf, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
		buf.Flush()
		buf.ReadByte() // until the page goes
	}))
	t.Cleanup(srv.Close)
	n := newNode(t, srv.URL)
	n.goTo(srv.URL + "/")
	n.eval("opened")
	n.matched(true, obj{"load_state": "network_quiet"})
	list, _ := n.requests(obj{"types": []string{"websocket"}})
	if r := list.find(t, "/ws"); r["type"] != "websocket" || r["status"] != 101.0 || !strings.HasPrefix(r["url"].(string), "ws://") {
		t.Errorf("socket: %v", r)
	}
}

// Messages and requests of frames in other processes are the tab's.
func TestRecordsOfForeignFrames(t *testing.T) {
	t.Parallel()
	other := newSite(t, map[string]string{"/": html(`<script>console.log('foreign says hello');fetch('/data').then(r=>r.text()).then(()=>parent.postMessage('done','*'))</script>`), "/data": `foreign data`})
	foreign := strings.Replace(other.URL, "127.0.0.1", "localhost", 1)
	s := newSite(t, map[string]string{"/": html(`<script>done=new Promise(r=>{onmessage=()=>r(1)})</script><iframe src="` + foreign + `/"></iframe>`)})
	n := newNode(t, s.URL, other.URL, foreign)
	n.goTo(s.URL + "/")
	n.eval("done")
	if said, _ := n.messages(obj{}); len(said) != 1 || said[0] != "log: foreign says hello" {
		t.Errorf("console: %q", said)
	}
	list, _ := n.requests(obj{"filter": foreign})
	data := list.find(t, "/data")
	if doc := list.find(t, foreign+"/"); doc["type"] != "document" || doc["status"] != 200.0 || data["type"] != "fetch" {
		t.Errorf("requests: %v", list)
	}
	// Its body is asked of the process that has it.
	if _, d := n.requests(obj{"id": data["id"], "body": true}); !strings.Contains(d.json, "foreign data") {
		t.Errorf("body: %s", d.json)
	}
	if _, d := n.requests(obj{"id": list.find(t, foreign+"/")["id"], "body": true}); !strings.Contains(d.json, "foreign says hello") {
		t.Errorf("the frame's document: %s", d.json)
	}
}
