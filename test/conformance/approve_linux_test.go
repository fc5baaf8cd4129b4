package conformance

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/agent"
	"github.com/handrail-dev/handrail/agent/provider"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/client"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// The API of a real service, whole, is added to a site and approved with one rule for each effect;
// one of its operations is decided about alone, and called.
func TestGitHubsAPIIsApproved(t *testing.T) {
	document, err := os.ReadFile(filepath.Join(packages(t), "node_modules", "@octokit", "openapi", "generated", "api.github.com.json"))
	if err != nil {
		t.Fatal(err)
	}
	server := standIn(t, document)
	s := site.Start(t, site.Options{})
	n := s.AddNodeWith("desk", func(o *agent.Options) {
		cat, err := catalog.Embedded()
		if err != nil {
			t.Fatal(err)
		}
		news := make(chan struct{}, 1)
		host, err := provider.New(provider.Options{Dir: filepath.Join(o.Dir, "providers"), Catalog: cat, Allowed: true, Changed: func() {
			select {
			case news <- struct{}{}:
			default:
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		o.Handlers, o.Hosted, o.HostedChanged = append(o.Handlers, host), host, news
	}, site.NewHandler())
	n.AwaitReady("tyrum.provider.host")
	c, err := client.New(s.URL(), client.NewToken(s.MustToken("admin", principal.RoleAdmin)))
	if err != nil {
		t.Fatal(err)
	}
	var p api.Provider
	does := func(method, at string, in any) {
		t.Helper()
		if err := c.Do(t.Context(), method, at, in, &p); err != nil {
			t.Fatal(err)
		}
	}
	does(http.MethodPost, client.Path("providers"), api.AddProvider{Name: "github", Kind: "openapi", Host: n.ID, URL: server.URL + "/openapi.json", Server: server.URL + "/api"})
	if len(p.Tools) < 1200 || strings.Count(p.Rules, "@id") != 1 {
		t.Fatalf("%d tools, %d rules", len(p.Tools), strings.Count(p.Rules, "@id"))
	}
	does(http.MethodPost, client.Path("providers", "github", "approve"), api.ApproveProvider{
		ManifestHash: p.ManifestHash, Tools: map[capabilities.ToolID]api.ToolChoice{"tool.github.repos-get": {Effect: "allow"}},
	})
	if strings.Count(p.Rules, "@id") != 2 || !strings.Contains(p.Rules, "permit (principal, action in [\n  Action::\"tool.github.repos-get\"\n], resource);") {
		t.Errorf("%.2000s", p.Rules)
	}
	n.AwaitReady("tyrum.github.repos-get")
	r := s.Call(t.Context(), "tool.github.repos-get", `{"owner":"octocat","repo":"hello-world"}`, "")
	if r.Status != capabilities.StatusOK || !strings.Contains(string(r.Output), "repos/get") {
		t.Errorf("%+v %s", r, r.Output)
	}
	var tool api.ProviderTool
	if err := c.Do(t.Context(), http.MethodPost, client.Path("tools", "tool.github.repos-get", "state"), api.ToolDecision{State: "retired"}, &tool); err != nil || tool.State != "retired" {
		t.Fatal(err, tool.State)
	}
	does(http.MethodGet, client.Path("providers", "github"), nil)
	if text, _ := json.Marshal(p.Rules); strings.Count(p.Rules, "@id") != 1 || strings.Contains(p.Rules, "repos-get\"") {
		t.Errorf("%.2000s", text)
	}
}
