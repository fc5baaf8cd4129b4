package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/drift/events"
	"github.com/handrail-dev/handrail/test/site"
)

// asks is a program that fetches a URL by the proxy of its variables, as stock programs do; direct
// one that connects itself.
const asks = `{"tools":[
 {"name":"get","argv":["bash","-c","p=${HTTP_PROXY#http://}; exec 3<>/dev/tcp/${p%:*}/${p#*:}; printf 'GET %s HTTP/1.0\\r\\nHost: x\\r\\n\\r\\n' \"$2\" >&3; cat <&3","bash","--","{url}"],"params":{"url":{"type":"string"}},"required":["url"]},
 {"name":"direct","argv":["bash","-c","exec 3<>/dev/tcp/$2/$3 && printf 'GET / HTTP/1.0\\r\\nHost: x\\r\\n\\r\\n' >&3 && cat <&3","bash","--","{host}","{port}"],"params":{"host":{"type":"string"},"port":{"type":"integer"}},"required":["host","port"]}]}`

func reaching(t *testing.T, c *caller, n *site.Node, name string, net ...string) api.Provider {
	t.Helper()
	body, err := json.Marshal(api.AddProvider{Name: name, Kind: "command", Host: n.ID, Manifest: asks, Net: net})
	must(t, err)
	var p api.Provider
	c.ok(http.MethodPost, "/v1/providers", string(body), &p)
	return approved(t, c, p, "allow")
}

// A program reaches the hosts that were named when its provider was added, by its variables or by
// their address, and no others: what it tried is told with the flag that allows it. One that says
// that it needs no network gets none.
func TestAProgramReachesWhatWasNamed(t *testing.T) {
	t.Parallel()
	h, n, admin := hosting(t)
	open := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("here I am")) }))
	defer open.Close()
	shut := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("reached") }))
	defer shut.Close()
	h.Drifts = true
	at, not := strings.TrimPrefix(open.URL, "http://"), strings.TrimPrefix(shut.URL, "http://")
	reaching(t, admin, n, "fetcher", at)
	reaching(t, admin, n, "hermit")
	n.AwaitReady("tyrum.fetcher.get", "tyrum.hermit.get")
	get := func(provider, url string) capabilities.Result {
		h.lift()
		return h.Call(ctx(), capabilities.ToolID("tool."+provider+".get"), `{"url":"`+url+`"}`, "")
	}
	direct := func(provider, to string) capabilities.Result {
		h.lift()
		host, port, _ := strings.Cut(to, ":")
		return h.Call(ctx(), capabilities.ToolID("tool."+provider+".direct"), `{"host":"`+host+`","port":`+port+`}`, "")
	}
	for _, r := range []capabilities.Result{get("fetcher", open.URL), direct("fetcher", at)} {
		if r.Status != capabilities.StatusOK || !strings.Contains(string(r.Output), "here I am") {
			t.Errorf("%s %s %v", r.Code, r.Output, r.Details)
		}
	}
	if r := get("fetcher", shut.URL); !strings.Contains(string(r.Output), "403") || !strings.Contains(string(r.Output), "--net "+not) {
		t.Errorf("%s %s", r.Code, r.Output)
	}
	for _, url := range []string{"http://169.254.169.254/latest/meta-data/", "http://localhost/", "http://[::1]/"} {
		if r := get("fetcher", url); !strings.Contains(string(r.Output), "403") {
			t.Errorf("%s: %s %s", url, r.Code, r.Output)
		}
	}
	want(t, direct("fetcher", not), capabilities.StatusError, capabilities.CodeExecutionFailed)
	want(t, direct("hermit", at), capabilities.StatusError, capabilities.CodeExecutionFailed)
	if r := get("hermit", open.URL); strings.Contains(string(r.Output), "here I am") {
		t.Errorf("it has a network: %s", r.Output)
	}
	if list, _, err := h.Drift.List(ctx(), events.Filter{}); err != nil || len(list) < 5 {
		t.Errorf("%v: what was refused left %d events", err, len(list))
	}
	var p api.Provider
	admin.ok(http.MethodPost, "/v1/providers/hermit/check", "{}", &p)
	if !slices.ContainsFunc(p.Tried, func(x api.TriedHost) bool { return x.Target == at && x.Flag == "--net "+at }) {
		t.Errorf("tried: %+v", p.Tried)
	}
}
