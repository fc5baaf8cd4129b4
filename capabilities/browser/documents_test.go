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

// One Chrome serves all lanes: what a page may ask of it is bounded.
func TestPagesCanNotFloodTheBrowser(t *testing.T) {
	s := newSite(t, map[string]string{"/": html("<p>page</p>")})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	if got := n.eval("(()=>{for(let i=0;i<1000;i++)history.pushState(0,'','?'+i);return location.search})()"); got == "?999" {
		t.Error("Chrome's bound on changes of the address is off")
	}
}
