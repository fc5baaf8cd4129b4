package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// searched is what a search by that backend returns.
func searched(t *testing.T, o Options, query string, grants ...string) (hits []hit, out capabilities.Output, err error) {
	t.Helper()
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if r := h.Readiness(t.Context()); !r[1].Ready() {
		t.Fatalf("%+v", r)
	}
	args, _ := json.Marshal(map[string]any{"query": query, "limit": 2})
	out, err = h.Handle(t.Context(), capabilities.Invocation{Capability: "tyrum.web.search", Args: args, Grants: grants})
	if err != nil {
		return nil, out, err
	}
	data, err := json.Marshal(out.Result)
	if err != nil {
		t.Fatal(err)
	}
	all, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	d, _ := all.Get("tool.web.search")
	if bad := d.ValidateResult(data); bad != nil {
		t.Errorf("%s: %v", data, bad)
	}
	var result struct {
		Results []hit `json:"results"`
	}
	if err := json.Unmarshal(data, &result); err != nil {
		t.Fatal(err)
	}
	return result.Results, out, nil
}

// A SearXNG server that the owner named is asked for JSON; what it says is marked as anybody's
// words, on one line each, and leads to the web alone.
func TestASearXNGServerIsAsked(t *testing.T) {
	said := `{"results":[{"title":"One\u202e","url":"https://one.example/a","content":"first\n  text"},{"title":"no","url":"javascript:alert(1)"},{"title":"","url":"http://two.example/","content":""},{"title":"three","url":"https://three.example/"}],"unresponsive_engines":[["x","timeout"]]}`
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/sub/search" || r.URL.Query().Get("format") != "json" || r.URL.Query().Get("q") != "a & b" || r.Header.Get("Cookie") != "" {
			t.Errorf("asked %s %v", r.URL, r.Header)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, said)
	}))
	defer s.Close()
	hits, out, err := searched(t, Options{Search: s.URL + "/sub"}, "a & b")
	if err != nil || len(hits) != 2 || hits[0] != (hit{"One", "https://one.example/a", "first text"}) || hits[1].Title != "http://two.example/" {
		t.Fatalf("%+v, %v", hits, err)
	}
	if !out.Untrusted || out.Effect != capabilities.EffectConfirmed || !strings.Contains(out.Evidence, "1 of its engines did not answer") {
		t.Errorf("%+v", out)
	}
	for code, says := range map[int]string{http.StatusForbidden: "formats", http.StatusTooManyRequests: "429", http.StatusFound: "302"} {
		status = code
		if _, _, err := searched(t, Options{Search: s.URL + "/sub"}, "a & b"); capabilities.CodeOf(err) != capabilities.CodeNavigationFailed || !strings.Contains(err.Error()+capabilities.AsError(err).PublicHint(), says) {
			t.Errorf("%d: %v", code, err)
		}
	}
	status, said = http.StatusOK, "<html>"
	if _, _, err := searched(t, Options{Search: s.URL + "/sub"}, "a & b"); capabilities.CodeOf(err) != capabilities.CodeNavigationFailed {
		t.Error(err)
	}
}

// The rules of the egress hold: the owner's block list, a call's grants, and no place but the one
// that was named.
func TestASearchGoesWhereItMay(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("asked") }))
	defer s.Close()
	if _, _, err := searched(t, Options{Search: s.URL, Block: []string{"127.0.0.1"}}, "x"); capabilities.CodeOf(err) != capabilities.CodeURLBlocked {
		t.Errorf("the owner's block list: %v", err)
	}
	if _, _, err := searched(t, Options{Search: s.URL}, "x", "network.egress.https"); capabilities.CodeOf(err) != capabilities.CodeURLBlocked {
		t.Errorf("without a grant: %v", err)
	}
	for _, bad := range []string{"ftp://x.example", "http://", "http://u:p@x.example", "http://x.example/?q=1", filepath.Join(t.TempDir(), "none")} {
		if _, err := New(Options{Search: bad}); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// An index in a file needs no network.
func TestAnIndexIsSearched(t *testing.T) {
	file := filepath.Join(t.TempDir(), "index.jsonl")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"title":"Town library","url":"https://library.example/","text":"Opening hours: ten to six."}

{"title":"Swimming pool","url":"https://pool.example/","text":"Opening hours: eight to nine."}
{"title":"Bakery","url":"https://bread.example/","text":"Bread."}`)
	hits, out, err := searched(t, Options{Search: file}, "When is the library open? opening hours")
	if err != nil || len(hits) != 2 || hits[0].URL != "https://library.example/" || !strings.Contains(out.Evidence, "2 of 3 pages") {
		t.Errorf("%+v %s, %v", hits, out.Evidence, err)
	}
	if hits, _, err := searched(t, Options{Search: file}, "zeppelin"); err != nil || hits == nil || len(hits) != 0 {
		t.Errorf("%+v, %v", hits, err)
	}
	for _, bad := range []string{"{", `{"title":"x"}`} {
		write(bad)
		if _, err := New(Options{Search: file}); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
