//go:build linux

package browser

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// sight is what a page sees of device, place and network, in its own words.
const sight = `async () => {
	const place = () => new Promise(done => navigator.geolocation.getCurrentPosition(p => done([p.coords.latitude, p.coords.longitude, p.coords.accuracy].join()), e => done('no ' + e.code), {timeout: 2000}));
	const zone = Intl.DateTimeFormat().resolvedOptions();
	return [innerWidth, innerHeight, devicePixelRatio, matchMedia('(prefers-color-scheme: dark)').matches, matchMedia('(prefers-reduced-motion: reduce)').matches,
		zone.locale, navigator.language, (1234.5).toLocaleString(), zone.timeZone, new Date(0).getHours(), await place(), navigator.onLine, navigator.userAgent, navigator.maxTouchPoints > 0].join(' | ');
}`

func (n *node) sees(want string) {
	n.t.Helper()
	if got := fmt.Sprint(n.eval(sight)); got != want {
		n.t.Errorf("the page sees\n%s\nwant\n%s", got, want)
	}
}

func TestResize(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<p>x</p><iframe src="/f"></iframe>`), "/f": html("f")})
	n := newNodeAlone(t, s.URL)
	n.goTo(s.URL + "/")
	a := n.must("resize", obj{"width": 700, "height": 500})
	if a.m["width"] != 700.0 || a.m["height"] != 500.0 || a.Effect != "confirmed" || n.eval("innerWidth+'x'+innerHeight") != "700x500" {
		t.Errorf("%s %s %s: %v", a.json, a.Effect, a.Evidence, n.eval("innerWidth+'x'+innerHeight"))
	}
	all := obj{
		"width": 800, "height": 600, "device_scale_factor": 2, "color_scheme": "dark", "reduced_motion": true, "locale": "de-DE", "timezone": "Asia/Tokyo",
		"geolocation": obj{"latitude": 47.5, "longitude": 8.25, "accuracy": 5}, "user_agent": "Tester/1.0",
	}
	if a := n.must("resize", all); a.Effect != "confirmed" {
		t.Errorf("%s: %s", a.Effect, a.Evidence)
	}
	const want = "800 | 600 | 2 | true | true | de-DE | de-DE | 1.234,5 | Asia/Tokyo | 9 | 47.5,8.25,5 | true | Tester/1.0 | false"
	n.sees(want)
	// In another tab, one opened before and one that the page opens.
	n.must("tabs", obj{"action": "new", "url": s.URL + "/"})
	n.sees(want)
	n.must("tabs", obj{"action": "close", "index": 0})
	n.sees(want)
	// The server sees it.
	n.eval(`fetch('/f').then(r => 1)`)
	_, d := n.requests(obj{"id": lastRequest(n)})
	if !strings.Contains(d.json, `"Tester/1.0"`) || !strings.Contains(d.json, "de-DE") {
		t.Errorf("headers: %s", d.json)
	}
	// Another lane sees nothing of it.
	other := n.on("lane-2")
	other.goTo(s.URL + "/")
	if got := fmt.Sprint(other.eval(sight)); strings.Contains(got, "Tokyo") || strings.Contains(got, "Tester") || !strings.Contains(got, "no 1") {
		t.Errorf("another lane sees %s", got)
	}
	// It outlives Chrome.
	n.h.mu.Lock()
	c := n.h.chromes[true]
	n.h.mu.Unlock()
	c.Program.Close()
	n.try("tabs", obj{})
	n.goTo(s.URL + "/")
	n.sees(want)
	// A setting that is not given stays.
	n.must("resize", obj{"width": 640, "height": 480, "color_scheme": "light"})
	if got := fmt.Sprint(n.eval(sight)); !strings.HasPrefix(got, "640 | 480 | 2 | false | true | de-DE") {
		t.Errorf("after a second resize: %s", got)
	}
}

func lastRequest(n *node) any {
	list, _ := n.requests(obj{"filter": "/f"})
	return list[len(list)-1]["id"]
}

func TestResizeMobileAndOffline(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": `<!doctype html><meta name=viewport content="width=device-width"><title>M</title><p>x</p>`})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	if a := n.must("resize", obj{"width": 390, "height": 844, "mobile": true, "device_scale_factor": 3}); a.Effect != "confirmed" {
		t.Errorf("%s: %s", a.Effect, a.Evidence)
	}
	if got := n.eval("[innerWidth, innerHeight, devicePixelRatio, navigator.maxTouchPoints, screen.width].join()"); got != "390,844,3,5,390" {
		t.Errorf("mobile: %v", got)
	}
	if a := n.must("resize", obj{"width": 390, "height": 844, "offline": true}); a.Effect != "confirmed" {
		t.Errorf("%s: %s", a.Effect, a.Evidence)
	}
	before := s.count("/")
	if got := n.eval(`fetch('/').then(() => 'reached', () => 'offline ' + navigator.onLine)`); got != "offline false" || s.count("/") != before {
		t.Errorf("offline: %v", got)
	}
	n.must("tabs", obj{"action": "new"})
	n.refused(capabilities.CodeNavigationFailed, "navigate", obj{"url": s.URL + "/"})
	n.must("resize", obj{"width": 390, "height": 844, "offline": false})
	n.goTo(s.URL + "/")
	if got := n.eval(`navigator.onLine`); got != true {
		t.Errorf("online again: %v", got)
	}
	for _, bad := range []obj{
		{"width": 0, "height": 10}, {"width": 10, "height": 20000}, {"width": 100, "height": 100, "timezone": "Mars/Base"}, {"width": 100, "height": 100, "locale": "xx-not-a-locale-at-all"},
		{"width": 100, "height": 100, "locale": "de,en"},
	} {
		n.refused(capabilities.CodeInvalidArguments, "resize", bad)
	}
	if got := n.eval("screen.width"); got != 390.0 {
		t.Errorf("a refused resize changed the width to %v", got)
	}
}

// Offline is offline for a page's service worker, too.
func TestOfflineServiceWorker(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{
		"/":  html(`<script>ready=navigator.serviceWorker.register('/sw.js').then(()=>navigator.serviceWorker.ready).then(()=>navigator.serviceWorker.controller||new Promise(r=>{navigator.serviceWorker.oncontrollerchange=r})).then(()=>'ready')</script>`),
		"/2": html(`two`),
	})
	n := newNode(t, s.URL)
	site := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/sw.js" {
			site.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/javascript")
		fmt.Fprint(w, `onactivate=e=>e.waitUntil(clients.claim());onfetch=e=>e.respondWith(fetch(e.request.url).catch(()=>new Response('<p>from the worker', {headers: {'content-type': 'text/html'}})))`)
	})
	n.goTo(s.URL + "/")
	n.eval("ready")
	for _, offline := range []bool{true, false} {
		n.must("resize", obj{"width": 800, "height": 600, "offline": offline})
		before := s.count("/2")
		shown := n.must("navigate", obj{"url": s.URL + "/2", "snapshot": "full"}).json
		if strings.Contains(shown, "from the worker") != offline || s.count("/2") > before == offline {
			t.Errorf("offline %v: %s, %d requests", offline, shown, s.count("/2")-before)
		}
	}
}

// A foreign frame, which runs in another process, sees the same.
func TestEmulationInForeignFrame(t *testing.T) {
	t.Parallel()
	report := `<script>parent.postMessage([Intl.DateTimeFormat().resolvedOptions().timeZone, matchMedia('(prefers-color-scheme: dark)').matches, navigator.userAgent].join(), '*')</script>`
	other := newSite(t, map[string]string{"/": html(report)})
	foreign := strings.Replace(other.URL, "127.0.0.1", "localhost", 1)
	s := newSite(t, map[string]string{"/": html(`<script>heard=new Promise(r=>{onmessage=e=>r(e.data)})</script><iframe src="` + foreign + `/"></iframe>`)})
	n := newNode(t, s.URL, other.URL, foreign)
	n.must("resize", obj{"width": 800, "height": 600, "timezone": "Asia/Tokyo", "color_scheme": "dark", "user_agent": "Tester/1.0"})
	n.goTo(s.URL + "/")
	if got := n.eval("heard"); got != "Asia/Tokyo,true,Tester/1.0" {
		t.Errorf("the frame sees %v", got)
	}
	// Its requests and messages are recorded with the tab's.
	if list, _ := n.requests(obj{"filter": foreign}); len(list) == 0 {
		t.Error("the frame's document is not among the requests")
	}
}

// Emulation needs no size, and without one leaves the size as it is.
func TestEmulationNeedsNoSize(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<p>x`)})
	n := newNodeAlone(t, s.URL)
	n.goTo(s.URL + "/")
	size := fmt.Sprint(n.eval("innerWidth+'x'+innerHeight"))
	a := n.must("resize", obj{"offline": true, "color_scheme": "dark"})
	if got := fmt.Sprint(n.eval("[navigator.onLine, matchMedia('(prefers-color-scheme: dark)').matches, innerWidth+'x'+innerHeight].join()")); got != "false,true,"+size || a.Effect != "confirmed" {
		t.Errorf("%s, %s %s", got, a.Effect, a.Evidence)
	}
	if fmt.Sprintf("%vx%v", a.m["width"], a.m["height"]) != size {
		t.Errorf("the result says %s of %s", a.json, size)
	}
	n.must("resize", obj{"offline": false, "width": 640, "height": 480})
	if a := n.must("resize", obj{"timezone": "Asia/Tokyo"}); a.m["width"] != 640.0 || a.m["height"] != 480.0 || a.Effect != "confirmed" {
		t.Errorf("%s %s %s", a.json, a.Effect, a.Evidence)
	}
	if a := n.must("resize", obj{"device_scale_factor": 2}); a.Effect != "confirmed" || n.eval("devicePixelRatio+' '+innerWidth") != "2 640" {
		t.Errorf("%s %s: %v", a.Effect, a.Evidence, n.eval("devicePixelRatio+' '+innerWidth"))
	}
	for _, bad := range []obj{{}, {"width": 500}, {"height": 500}} {
		n.refused(capabilities.CodeInvalidArguments, "resize", bad)
	}
	// A phone has a size, whether one was given or not.
	other := n.on("lane-2")
	other.goTo(s.URL + "/")
	if a := other.must("resize", obj{"mobile": true}); a.Effect != "confirmed" || other.eval("navigator.maxTouchPoints > 0") != true {
		t.Errorf("%s %s", a.Effect, a.Evidence)
	}
}
