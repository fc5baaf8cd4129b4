//go:build linux

package browser

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// rule calls network-rules with the keys that policy would grant.
func (n *node) rule(args obj, grants ...string) (answer, *capabilities.Error) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	raw, err := json.Marshal(args)
	if err != nil {
		n.t.Fatal(err)
	}
	out, err := n.h.Handle(ctx, withSteps(n.t, capabilities.Invocation{
		Grants: append(grants, observedKey), Call: "c1", Capability: "tyrum.browser.network-rules", Lane: n.lane, Args: raw, Spool: n.spool,
	}))
	if err != nil {
		return answer{}, capabilities.AsError(err)
	}
	data, err := json.Marshal(out.Result)
	if err != nil {
		n.t.Fatal(err)
	}
	return answer{Output: out, json: string(data)}, nil
}

func (n *node) mustRule(args obj) answer {
	n.t.Helper()
	a, err := n.rule(args, ruleKey)
	if err != nil {
		n.t.Fatalf("%v: %v", args, err)
	}
	return a
}

// fetchText is an expression that fetches an address and tells what came.
func fetchText(url string) string {
	return `fetch('` + url + `').then(async r => r.status + ' ' + await r.text(), e => 'failed')`
}

// A mock answers for a server, in every tab and frame, and each call after it says so; a block
// fails, a delay only waits, and without rules all is as before.
func TestNetworkRules(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/a": "<title>A</title><p>a</p>", "/api": "true answer"})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/a")
	if a := n.mustRule(obj{"action": "add", "kind": "mock", "match": "*/api*", "status": 503, "content_type": "text/plain", "body": "made up"}); a.Effect != capabilities.EffectConfirmed {
		t.Errorf("%s %s", a.Effect, a.Evidence)
	}
	mocked := n.must("evaluate", obj{"expression": fetchText("/api")})
	if mocked.m["result"] != "503 made up" || !strings.Contains(mocked.Evidence, "1 requests were answered by network rules (mock)") {
		t.Errorf("%v, %s", mocked.m["result"], mocked.Evidence)
	}
	if s.count("/api") != 0 {
		t.Error("the server was asked")
	}
	if next := n.must("evaluate", obj{"expression": "1"}); strings.Contains(next.Evidence, "network rules") {
		t.Errorf("it is said twice: %s", next.Evidence)
	}
	n.must("tabs", obj{"action": "new", "url": s.URL + "/a"}) // one that comes later
	if got := n.eval(fetchText("/api")); got != "503 made up" {
		t.Errorf("in a new tab: %v", got)
	}
	n.mustRule(obj{"action": "remove"})
	if got := n.eval(fetchText("/api")); got != "200 true answer" {
		t.Errorf("without rules: %v", got)
	}
	n.mustRule(obj{"action": "add", "kind": "block", "match": s.URL + "/api"})
	blocked := n.must("evaluate", obj{"expression": fetchText("/api")})
	if blocked.m["result"] != "failed" || !strings.Contains(blocked.Evidence, "blocked by network rules") {
		t.Errorf("%v, %s", blocked.m["result"], blocked.Evidence)
	}
	n.mustRule(obj{"action": "remove", "id": "rule-2"})
	n.mustRule(obj{"action": "add", "kind": "delay", "match": "*/api", "delay_ms": 20})
	if got := n.eval(fetchText("/api")); got != "200 true answer" {
		t.Errorf("late: %v", got)
	}
	if a := n.mustRule(obj{"action": "list"}); !strings.Contains(a.json, `"hits":1`) || !strings.Contains(a.json, `"rule-3"`) {
		t.Error(a.json)
	}
	// Another conversation has none of it.
	o := n.on("lane-2")
	o.goTo(s.URL + "/a")
	if a, err := o.rule(obj{"action": "list"}); err != nil || a.json != `{"rules":[]}` {
		t.Errorf("%v %s", err, a.json)
	}
}

// Without their key, rules that answer or change requests are refused; those that take something
// away are not.
func TestRulesNeedTheirKey(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/a": "<p>a</p>"})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/a")
	for _, args := range []obj{
		{"action": "add", "kind": "mock", "match": "*"}, {"action": "add", "kind": "headers", "match": s.URL + "/*", "headers": obj{"X-A": "b"}},
		{"action": "replay", "har": `{"log":{"version":"1.2","entries":[{"request":{"method":"GET","url":"` + s.URL + `/b"},"response":{"status":200}}]}}`},
	} {
		if _, err := n.rule(args); err == nil || err.Code != capabilities.CodeDeniedByPolicy {
			t.Errorf("%v: %v", args, err)
		}
	}
	if _, err := n.rule(obj{"action": "add", "kind": "block", "match": "*/x"}); err != nil {
		t.Error(err)
	}
	for _, args := range []obj{
		{"action": "add", "kind": "mock"}, {"action": "add", "kind": "headers", "match": "*", "headers": obj{"X-A": "b"}},
		{"action": "add", "kind": "delay", "match": "*"}, {"action": "replay", "har": "{}"},
	} {
		if _, err := n.rule(args, ruleKey); err == nil || err.Code != capabilities.CodeInvalidArguments {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// Headers for one origin go there, and do not follow a redirect to another.
func TestHeadersStayWithTheirOrigin(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 16)
	note := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/favicon.ico" {
				return
			}
			seen <- name + r.URL.Path + "=" + r.Header.Get("X-Pass")
			if to := r.URL.Query().Get("to"); to != "" {
				http.Redirect(w, r, to, http.StatusFound)
				return
			}
			w.Header().Set("Content-Type", "text/html")
			w.Write([]byte("<link rel=icon href=data:,><p>x</p>"))
		}
	}
	one, other := httptest.NewServer(note("one")), httptest.NewServer(note("other"))
	t.Cleanup(one.Close)
	t.Cleanup(other.Close)
	n := newNode(t, one.URL, other.URL)
	n.goTo("about:blank")
	n.mustRule(obj{"action": "add", "kind": "headers", "match": one.URL + "/*", "headers": obj{"X-Pass": "word"}})
	if a := n.goTo(one.URL + "/a?to=" + other.URL + "/b"); !strings.Contains(a.Evidence, "headers of network rules") {
		t.Errorf("%s", a.Evidence)
	}
	if first, second := <-seen, <-seen; first != "one/a=word" || second != "other/b=" {
		t.Errorf("%s, then %s", first, second)
	}
}

// The tab's requests are a HAR file, and that file answers for the server afterwards.
func TestRequestsAreRecordedAndReplayed(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/a": "<title>A</title><p>a</p>", "/api": "true answer"})
	n := newNode(t, s.URL)
	spool := &spooled{}
	n.spool = spool
	n.goTo(s.URL + "/a")
	n.eval(fetchText("/api?q=1"))
	a := n.mustRule(obj{"action": "record", "bodies": true, "keep_as": "a.har"})
	har := string(spool.data["a.har"])
	if len(a.Artifacts) != 1 || !strings.Contains(har, `"true answer"`) || !strings.Contains(har, `"version": "1.2"`) || !strings.Contains(har, s.URL+"/a") {
		t.Fatalf("%s %s", a.Evidence, har)
	}
	n.mustRule(obj{"action": "replay", "har": har})
	s.Close()
	again := n.goTo(s.URL + "/a")
	if again.m["title"] != "A" || !strings.Contains(again.Evidence, "(mock)") {
		t.Errorf("%s: %s", again.json, again.Evidence)
	}
	if got := n.eval(fetchText("/api?q=1")); got != "200 true answer" {
		t.Errorf("replayed: %v", got)
	}
}
