//go:build linux

package browser

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/ready"
)

// longestGap has a page note the longest time, in milliseconds, in which it got no new element.
const longestGap = `<script>let gap = 0, last = performance.now();
new MutationObserver(all => { if (!all.some(r => [...r.addedNodes].some(x => x.nodeType === 1))) return; const now = performance.now(); gap = Math.max(gap, now - last); last = now; }).observe(document, {childList: true, subtree: true})</script>`

// slowSite serves pages with parts that never come, or come late.
func slowSite(t testing.TB, pages map[string]string) *site {
	s := newSite(t, pages)
	rest := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		say := func(text string) {
			_, _ = w.Write([]byte(text))
			w.(http.Flusher).Flush()
		}
		pause := func(d time.Duration) bool {
			select {
			case <-time.After(d):
				return true
			case <-r.Context().Done():
				return false
			}
		}
		switch r.URL.Path {
		case "/slow": // an answer after a while
			pause(200 * time.Millisecond)
			say("slow")
		case "/slow.js":
			w.Header().Set("Content-Type", "text/javascript")
			pause(600 * time.Millisecond)
			say("document.title='script'")
		case "/slow.css":
			w.Header().Set("Content-Type", "text/css")
			pause(600 * time.Millisecond)
			say("p{color:red}")
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			for say("data: 1\n\n"); pause(100 * time.Millisecond); {
				say("data: 1\n\n")
			}
		case "/json", "/mute", "/head": // one that never ends and shows nothing
			kind, begin, more := "text/html", "<!doctype html><script>1</script>", "<!-- -->"
			switch r.URL.Path {
			case "/json":
				kind, begin, more = "application/json", "[1,"+strings.Repeat("2,", 2000), "3,"
			case "/head":
				begin, more = "<!doctype html><head><title>x</title>", "<meta name=x>"
			}
			w.Header().Set("Content-Type", kind)
			w.Header().Set("X-Content-Type-Options", "nosniff")
			for say(begin); pause(100 * time.Millisecond); {
				say(more)
			}
		case "/stream", "/elements": // a document that never ends
			w.Header().Set("Content-Type", "text/html")
			say("<!doctype html><title>T</title><p>here</p><button onclick=\"document.title='pressed'\">Press</button>" + longestGap + strings.Repeat("<i></i>", 200))
			for pause(50 * time.Millisecond) {
				if say("."); r.URL.Path == "/elements" {
					say("<b>more</b>")
				}
			}
		default:
			rest.ServeHTTP(w, r)
		}
	})
	return s
}

// A request that never ends does not hold a page, and the result says what it was. A call
// waits for what makes the page. The test goes by the clock, so that no other test runs
// beside it.
func TestPagesAreReadyWhenTheyCanBeWorkedWith(t *testing.T) {
	pagesAreReady(t, true)
}

func TestPagesAreReadyWhenTheyCanBeWorkedWithAtLength(t *testing.T) { pagesAreReady(t, false) }

// pagesAreReady is the test of the few pages and ways to open one that say most, or of the others.
func pagesAreReady(t *testing.T, few bool) {
	most := []string{"/both", "/held", "/stream", "/mute", "/quiet", "click", "reload"}
	const fetches = `<p id=p>before</p><script>fetch('/slow').then(r=>r.text()).then(x=>{p.textContent=x})</script>`
	s := slowSite(t, map[string]string{
		"/image":    html(`<p>here</p><img src=/hang>`),
		"/never":    html(`<p>here</p><script>fetch('/hang')</script>`),
		"/both":     html(`<p>here</p><img src=/hang><script>fetch('/hang')</script>`),
		"/sse":      html(`<p>here</p><img src=/hang><script>new EventSource('/events')</script>`),
		"/fetch":    html(fetches),
		"/held":     html(fetches + `<img src=/hang>`),
		"/scripts":  html(`<p>here</p><img src=/hang><script>const s=document.createElement('script');s.src='/slow.js';document.body.append(s)</script>`),
		"/styles":   html(`<p id=p>here</p><img src=/hang><link rel=stylesheet href=/slow.css>`),
		"/frame":    html(`<img src=/hang><iframe src=/slow></iframe>`),
		"/font":     html(`<style>@font-face{font-family:f;src:url(/hang)}p{font-family:f}</style><p>here</p>`),
		"/start":    html(`<a id=held href=/held>H</a><a id=image href=/image>I</a><a id=tab target=_blank href=/held>T</a>`),
		"/quiet":    html(`<p>here</p>`),
		"/nothing":  html(``),
		"/chunks":   html(`<p>here</p>`),
		"/redirect": "",
	})
	n := newNode(t, s.URL)
	for path, tc := range map[string]struct {
		shows string // an expression that is true
		open  string // what the evidence says
	}{
		"/image":    {"document.readyState == 'interactive'", "1 image"},
		"/never":    {"document.readyState == 'complete'", "1 fetch"},
		"/both":     {"document.readyState == 'interactive'", "1 fetch, 1 image"},
		"/sse":      {"document.readyState == 'interactive'", "1 image"},
		"/fetch":    {"p.textContent == 'slow'", ""},
		"/held":     {"p.textContent == 'slow'", "1 image"},
		"/scripts":  {"document.title == 'script'", "1 image"},
		"/styles":   {"getComputedStyle(p).color == 'rgb(255, 0, 0)'", "1 image"},
		"/frame":    {"frames[0].document.body.textContent == 'slow'", "1 image"},
		"/font":     {"true", "1 font"},
		"/stream":   {"document.readyState == 'loading'", "1 document"},
		"/elements": {"document.readyState == 'loading'", "1 document"},
		"/json":     {"document.readyState == 'loading'", "1 document"},
		"/mute":     {"document.readyState == 'loading'", "1 document"},
		"/head":     {"document.title == 'x'", "1 document"},
		"/quiet":    {"true", ""},
		"/nothing":  {"true", ""},
	} {
		if few != slices.Contains(most, path) {
			continue
		}
		t.Run(path[1:], func(t *testing.T) {
			n := n.on("lane-1")
			if path == "/json" || path == "/mute" || path == "/head" { // they are waited for, and nothing else happens
				t.Parallel()
				n = n.on(capabilities.LaneID(path[1:]))
			}
			n.t = t
			began := time.Now()
			a := n.goTo(s.URL + path)
			// A machine may be too busy to send a page the elements in time that keep it from
			// being ready.
			for end := began.Add(patience); path == "/elements" && a.Effect == capabilities.EffectConfirmed && time.Now().Before(end); {
				gap := n.eval("Math.max(gap, performance.now() - last)").(float64)
				if gap < float64(ready.Still.Milliseconds())/2 {
					break
				}
				t.Logf("it got no element for %v ms", gap)
				began = time.Now()
				a = n.goTo(s.URL + path)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
			effect, said := capabilities.EffectConfirmed, "the document was opened"
			if path == "/elements" {
				effect, said = capabilities.EffectPartial, said+", but was still not ready 5 s after it could be read"
			}
			if path == "/json" || path == "/mute" || path == "/head" {
				effect, said = capabilities.EffectPartial, said+", but showed nothing for 5 s"
			}
			if tc.open != "" {
				said += "; still open: " + tc.open
			}
			if a.Effect != effect || a.Evidence != said || strings.Contains(a.json, "still_open") != (tc.open != "") {
				t.Errorf("%s (%s) %s; want %s", a.Effect, a.Evidence, a.json, said)
			}
			if n.eval(tc.shows) != true {
				t.Errorf("not yet: %s", tc.shows)
			}
		})
	}
	for name, open := range map[string]func(n *node) answer{
		"click":   func(n *node) answer { n.goTo(s.URL + "/start"); return n.must("click", obj{"selector": "#held"}) },
		"new tab": func(n *node) answer { return n.must("tabs", obj{"action": "new", "url": s.URL + "/held"}) },
		"back": func(n *node) answer {
			n.goTo(s.URL + "/held")
			n.goTo(s.URL + "/start")
			return n.must("navigate-back", obj{})
		},
		"reload": func(n *node) answer {
			n.goTo(s.URL + "/held")
			return n.must("navigate-back", obj{"direction": "reload"})
		},
		"a link's tab": func(n *node) answer {
			n.goTo(s.URL + "/start")
			a := n.must("click", obj{"selector": "#tab"})
			n.must("tabs", obj{"action": "select", "index": 1})
			return a
		},
	} {
		if few != slices.Contains(most, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			n := n.on(capabilities.LaneID(name))
			n.t = t
			a := open(n)
			if shows := n.eval("p.textContent"); shows != "slow" || a.Effect != capabilities.EffectConfirmed {
				t.Errorf("%s (%s) %s; shows %v", a.Effect, a.Evidence, a.json, shows)
			}
			if (name == "click" || name == "reload" || name == "new tab") && (!strings.HasSuffix(a.Evidence, "; still open: 1 image") || a.m["still_open"] == nil) {
				t.Error(a.Evidence, a.json)
			}
			n.must("close", obj{})
		})
	}
}

// A page that goes on is worked with at once, and not waited for by the calls that follow.
func TestPagesThatStreamCanBeWorkedWith(t *testing.T) {
	t.Parallel()
	s := slowSite(t, nil)
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/stream")
	ctx, cancel := context.WithTimeout(t.Context(), settleWait-time.Second)
	defer cancel()
	if a, err := n.within(ctx, "click", obj{"selector": "button"}); err != nil || n.eval("document.title") != "pressed" {
		t.Errorf("%v %s (%s)", err, a.Effect, a.Evidence)
	}
}
