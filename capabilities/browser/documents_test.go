//go:build linux

package browser

import (
	"net/http"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// as serves a site's pages with a header of the test's own.
func as(s *site, name, value string) {
	site := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { site.ServeHTTP(fixed{w, name, value}, r) })
}

type fixed struct {
	http.ResponseWriter
	name, value string
}

func (f fixed) Write(b []byte) (int, error) {
	f.Header().Set(f.name, f.value)
	return f.ResponseWriter.Write(b)
}

const noScripts = `<button>Still</button><input aria-label=Name><input type=checkbox aria-label=Tick><a href=#down>Down</a>
	<p style="margin-top:3000px" id=down>end</p>`

// A page that may run no scripts, as mail is shown in frames, gets no timers: tools come
// to an end all the same.
func TestPagesWithoutScripts(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(noScripts)})
	as(s, "Content-Security-Policy", "sandbox")
	framing := newSite(t, map[string]string{"/": html(`<iframe sandbox style="width:700px;height:500px" src="` + s.URL + `/"></iframe>`)})
	n := newNode(t, s.URL, framing.URL)
	for _, url := range []string{s.URL, framing.URL} {
		n.goTo(url + "/")
		if a := n.must("click", obj{"ref": n.ref("Still")}); a.Effect != capabilities.EffectSuspectNoop {
			t.Errorf("%s: a click on nothing: %s (%s)", url, a.Effect, a.Evidence)
		}
		if a := n.must("type", obj{"ref": n.ref("Name"), "text": "Ada"}); a.Effect != capabilities.EffectConfirmed {
			t.Errorf("%s: type: %s (%s)", url, a.Effect, a.Evidence)
		}
		if a := n.must("press-key", obj{"key": "Shift"}); a.Effect != capabilities.EffectSuspectNoop {
			t.Errorf("%s: a key for nothing: %s (%s)", url, a.Effect, a.Evidence)
		}
		if a := n.must("click", obj{"ref": n.ref("Tick")}); a.Effect != capabilities.EffectConfirmed {
			t.Errorf("%s: click on a checkbox: %s (%s)", url, a.Effect, a.Evidence)
		}
		n.must("hover", obj{"ref": n.ref("Still")})
		if a := n.must("wait-for", obj{"text": "never there", "timeout_ms": 300}); a.m["matched"] != false {
			t.Errorf("%s: %s", url, a.json)
		}
		if a := n.must("wait-for", obj{"text": "end", "timeout_ms": 300}); a.m["matched"] != true {
			t.Errorf("%s: %s", url, a.json)
		}
		n.must("click", obj{"ref": n.ref("Down")})
		if got := n.snap(); !strings.Contains(got, `textbox "Name" [ref=`) || !strings.Contains(got, `"Ada"`) || !strings.Contains(got, "[checked]") {
			t.Errorf("%s:\n%s", url, got)
		}
		n.must("screenshot", obj{})
	}
}

// XHTML and SVG are documents of XML, in which elements are called as they are written.
func TestDocumentsOfXML(t *testing.T) {
	t.Parallel()
	const body = `<h2>Title</h2><form onsubmit="return false"><label>Name <input id="n"/></label><textarea aria-label="Area"></textarea><select aria-label="Of"><option>a</option><option>b</option></select>
		<input type="checkbox" aria-label="Tick"/><button onclick="document.title='pressed'">Go</button></form><p>one<br/>two</p><iframe title="In" srcdoc="&lt;button&gt;Inner&lt;/button&gt;"></iframe>`
	s := newSite(t, map[string]string{
		"/":     html(body),
		"/x":    `<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title>Test page</title></head><body>` + body + `</body></html>`,
		"/s":    `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="600" height="300"><title>Map</title><g role="button" aria-label="Zone" onclick="this.setAttribute('aria-label','pressed')"><rect width="90" height="90"/></g><a href="/"><text y="120">Home</text></a><a xlink:href="/x"><text y="150">Old</text></a><foreignObject y="160" width="300" height="90"><button xmlns="http://www.w3.org/1999/xhtml">Foreign</button></foreignObject></svg>`,
		"/html": html(`<svg width=90 height=90><a href="/x"><text y=20>Inline</text></a></svg>`),
	})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	want := n.snap()
	n.goTo(s.URL + "/html")
	wants(t, n.snap(), `link "Inline" [ref=`, `] -> /x`)
	site := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := map[string]string{"/x": "application/xhtml+xml", "/s": "image/svg+xml", "/": "text/html"}[r.URL.Path]
		site.ServeHTTP(fixed{w, "Content-Type", kind}, r)
	})
	n = n.on("lane-2") // refs begin anew there
	n.goTo(s.URL + "/x")
	if got := n.snap(); got != want {
		t.Errorf("as XHTML:\n%s\nas HTML:\n%s", got, want)
	}
	n.must("fill-form", obj{"fields": []obj{{"ref": n.ref("Name"), "value": "Ada"}, {"ref": n.ref("Area"), "value": "long"}, {"ref": n.ref("Of"), "value": "b"}, {"ref": n.ref("Tick"), "value": "true"}}})
	if got := n.eval("[...document.querySelectorAll('input,textarea,select')].map(x=>x.type=='checkbox'?x.checked:x.value).join()"); got != "Ada,long,b,true" {
		t.Error(got)
	}
	if a := n.must("click", obj{"ref": n.ref("Go")}); a.m["title"] != "pressed" {
		t.Error(a.json)
	}
	n.goTo(s.URL + "/s")
	wants(t, n.snap(), `button "Zone" [ref=`, `link "Home" [ref=`, `] -> /`, `link "Old" [ref=`, `] -> /x`, `button "Foreign" [ref=`)
	if a := n.must("click", obj{"ref": n.ref("Zone")}); a.Effect != capabilities.EffectConfirmed {
		t.Errorf("%s (%s)", a.Effect, a.Evidence)
	}
	if a := n.must("click", obj{"ref": n.ref("Old")}); a.m["url"] != s.URL+"/x" {
		t.Error(a.json)
	}
}

// One Chrome serves all lanes: what a page may ask of it is bounded.
func TestPagesCanNotFloodTheBrowser(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html("<p>page</p>")})
	n.goTo(s.URL + "/")
	if got := n.eval("(()=>{for(let i=0;i<1000;i++)history.pushState(0,'','?'+i);return location.search})()"); got == "?999" {
		t.Error("Chrome's bound on changes of the address is off")
	}
}

// A page that reloads itself before it is read is named as that.
func TestPageThatReplacesItself(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html("<button>Go</button><script>location.reload()</script>")})
	a, err := n.try("navigate", obj{"url": s.URL + "/"})
	if err != nil || a.Effect != capabilities.EffectPartial || !strings.HasSuffix(a.Evidence, "but replaces itself again and again") {
		t.Error(a.json, a.Evidence, err)
	}
	for _, tool := range []string{"snapshot", "click"} {
		if err := n.refused(capabilities.CodeExecutionFailed, tool, obj{"selector": "button"}); err.Message != errRestless.Message {
			t.Error(tool, err)
		}
	}
}

// A page that goes elsewhere all the time is left for the address that was asked for.
func TestLeavingPageThatReplacesItself(t *testing.T) { leavingPageThatReplacesItself(t, 1) }

func TestLeavingPageThatReplacesItselfAtLength(t *testing.T) { leavingPageThatReplacesItself(t, 5) }

func leavingPageThatReplacesItself(t *testing.T, times int) {
	t.Parallel()
	s := newSite(t, map[string]string{
		"/calm":   html("calm"),
		"/script": html(`<script>location = '/script?' + Math.random()</script>`),
		"/timer":  html(`<script>setInterval(() => location = '/timer?' + Math.random(), 30)</script>`),
		"/meta":   html(`<meta http-equiv=refresh content=0>`),
	})
	n := newNode(t, s.URL)
	for _, from := range []string{"/script", "/timer", "/meta"} {
		for range times {
			n.must("navigate", obj{"url": s.URL + from, "wait_until": "none"})
			if a := n.must("navigate", obj{"url": s.URL + "/calm"}); a.m["url"] != s.URL+"/calm" || a.Evidence != "the document was opened" {
				t.Fatal(from, a.json, a.Evidence)
			}
			wants(t, n.snap(), "calm")
		}
	}
}
