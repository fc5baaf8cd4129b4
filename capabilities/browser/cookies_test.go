//go:build linux

package browser

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// cookieSite sets cookies of several kinds, and says which it gets.
func cookieSite(t *testing.T) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/login" {
			http.SetCookie(w, &http.Cookie{Name: "theme", Value: "dark-as-night", Path: "/"})
			http.SetCookie(w, &http.Cookie{Name: "kept", Value: "hush-1", Path: "/", HttpOnly: true})
			http.SetCookie(w, &http.Cookie{Name: "sessionid", Value: "hush-2", Path: "/"})
		}
		var got []string
		for _, c := range r.Cookies() {
			got = append(got, c.Name)
		}
		fmt.Fprintf(w, "<title>%s</title><script>localStorage.cart = 'three bolts'; localStorage.authToken = 'hush-3'; sessionStorage.step = 'two'</script>",
			strings.Join(got, " "))
	}))
	t.Cleanup(s.Close)
	return s
}

// Cookies of an origin are listed without the values of what signs somebody in, set and deleted,
// and what was done is what the server gets then.
func TestCookies(t *testing.T) {
	t.Parallel()
	s, other := cookieSite(t), cookieSite(t)
	n := newNode(t, s.URL, other.URL)
	n.goTo(s.URL + "/login")
	listed := n.must("cookies", obj{"action": "list"})
	if all := listed.m["cookies"].([]any); len(all) != 3 || listed.m["origin"] != s.URL || !listed.Untrusted || listed.Effect != "" {
		t.Errorf("%s", listed.json)
	}
	if strings.Contains(listed.json, "hush") || !strings.Contains(listed.json, "dark-as-night") || strings.Count(listed.json, `"withheld":true`) != 2 {
		t.Errorf("%s", listed.json)
	}
	set := n.must("cookies", obj{"action": "set", "name": "plan", "value": "b", "http_only": true, "lasts_s": 3600})
	if set.Effect != capabilities.EffectConfirmed || !strings.Contains(set.json, `"expires"`) {
		t.Errorf("%s %s", set.Effect, set.json)
	}
	if title := n.goTo(s.URL + "/").m["title"]; !strings.Contains(fmt.Sprint(title), "plan") {
		t.Errorf("the server gets %v", title)
	}
	if gone := n.must("cookies", obj{"action": "delete", "name": "theme"}); gone.Effect != capabilities.EffectConfirmed {
		t.Errorf("%s %s", gone.Effect, gone.Evidence)
	}
	if none := n.must("cookies", obj{"action": "delete", "name": "theme"}); none.Effect != capabilities.EffectSuspectNoop {
		t.Errorf("%s %s", none.Effect, none.Evidence)
	}
	if all := n.must("cookies", obj{"action": "delete"}); all.Effect != capabilities.EffectConfirmed || len(all.m["cookies"].([]any)) != 0 {
		t.Errorf("%s %s", all.Evidence, all.json)
	}
	if title := n.goTo(s.URL + "/").m["title"]; title != "" && title != nil {
		t.Errorf("the server still gets %v", title)
	}
	n.refused(capabilities.CodeInvalidArguments, "cookies", obj{"action": "set", "value": "x"})
	n.refused(capabilities.CodeInvalidArguments, "cookies", obj{"action": "list", "origin": "file:///etc"})
	// Another lane has none of them.
	if got := n.on("lane-2").must("cookies", obj{"action": "list", "origin": s.URL}); len(got.m["cookies"].([]any)) != 0 {
		t.Errorf("another conversation sees %s", got.json)
	}
}

// An origin's storage is listed, set and deleted, for the page shown and for others.
func TestStorage(t *testing.T) {
	t.Parallel()
	s, other := cookieSite(t), cookieSite(t)
	n := newNode(t, s.URL, other.URL)
	n.goTo(s.URL + "/")
	listed := n.must("storage", obj{"action": "list"})
	if strings.Contains(listed.json, "hush") || !strings.Contains(listed.json, "three bolts") || len(listed.m["entries"].([]any)) != 2 {
		t.Errorf("%s", listed.json)
	}
	if got := n.must("storage", obj{"action": "list", "kind": "session"}); !strings.Contains(got.json, `"two"`) {
		t.Errorf("%s", got.json)
	}
	if set := n.must("storage", obj{"action": "set", "key": "cart", "value": "none"}); set.Effect != capabilities.EffectConfirmed || n.eval("localStorage.cart") != "none" {
		t.Errorf("%s %s", set.Effect, set.json)
	}
	if one := n.must("storage", obj{"action": "delete", "key": "cart"}); one.Effect != capabilities.EffectConfirmed || n.eval("'cart' in localStorage") != false {
		t.Errorf("%s %s", one.Effect, one.json)
	}
	// Of an origin that no tab shows.
	if set := n.must("storage", obj{"action": "set", "origin": other.URL, "key": "plan", "value": "b"}); set.Effect != capabilities.EffectConfirmed {
		t.Errorf("%s %s", set.Effect, set.json)
	}
	if got := n.must("storage", obj{"action": "list", "origin": other.URL}); !strings.Contains(got.json, `"plan"`) {
		t.Errorf("%s", got.json)
	}
	n.goTo(other.URL + "/")
	if got := n.eval("localStorage.plan"); got != "b" {
		t.Errorf("the other origin's page finds %v", got)
	}
	n.refused(capabilities.CodeInvalidArguments, "storage", obj{"action": "list", "kind": "session", "origin": s.URL})
	n.goTo("data:text/html,<p>x")
	n.refused(capabilities.CodeInvalidArguments, "storage", obj{"action": "list"})
}

// The page is printed to a file of its own, and what cannot be printed is refused.
func TestPDF(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/a": "<title>Report</title>" + strings.Repeat("<h1 style='break-before: page'>Chapter</h1>", 3)})
	n.goTo(s.URL + "/a")
	n.refused(capabilities.CodeNotSupported, "pdf", obj{}) // a call without a spool
	spool := &spooled{}
	n.spool = spool
	a := n.must("pdf", obj{"keep_as": "report.pdf"})
	file := spool.data["report.pdf"]
	if len(a.Artifacts) != 1 || a.Artifacts[0].MIME != "application/pdf" || !bytes.HasPrefix(file, []byte("%PDF-")) || a.m["file_bytes"] != float64(len(file)) || a.m["title"] != "Report" {
		t.Fatalf("%s %+v, %d bytes", a.json, a.Artifacts, len(file))
	}
	if part := n.must("pdf", obj{"pages": "1", "keep_as": "one.pdf"}); len(spool.data["one.pdf"]) >= len(file) {
		t.Errorf("one page is as large as all: %s", part.json)
	}
	n.refused(capabilities.CodeExecutionFailed, "pdf", obj{"pages": "900-901"})
	n.refused(capabilities.CodeInvalidArguments, "pdf", obj{"keep_as": "../x.pdf"})
}
