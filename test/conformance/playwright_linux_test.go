package conformance

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/agent/provider"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// headlessShell is Chrome without what a person's session needs: it takes no lock by a socket.
const headlessShell = "chromium-headless-shell"

// A server that starts a browser of its own runs behind walls with it: Chrome does without its
// sandbox and its zygote there, which need rights that no program behind walls has, and the walls
// are around it. It reaches the host that was named and no other, and what it tried is named
// with the flag that allows it.
func TestPlaywrightRunsItsBrowserBehindWalls(t *testing.T) {
	dir := packages(t)
	desk.Need(t, headlessShell)
	walls, err := site.NewWalls()
	if err != nil {
		t.Skip(err)
	}
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<title>Shop</title><h1>Shop behind walls</h1><button onclick="this.textContent='sold'">Buy</button>`)
	}))
	t.Cleanup(shop.Close)
	shut := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a closed host was reached") }))
	t.Cleanup(shut.Close)
	at, not := strings.TrimPrefix(shop.URL, "http://"), strings.TrimPrefix(shut.URL, "http://")
	cat, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	h, err := provider.New(provider.Options{Dir: t.TempDir(), Catalog: cat, Start: walls, Allowed: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	own, err := filepath.Abs("../../examples/providers/playwright")
	if err != nil {
		t.Fatal(err)
	}
	record := tools.Provider{
		Name: "playwright", Kind: tools.KindMCP, Read: []string{dir, own}, Net: []string{at},
		Command: []string{filepath.Join(dir, "node_modules", ".bin", "node"), "--require", filepath.Join(own, "unshared.js"), filepath.Join(dir, "node_modules", "@playwright", "mcp", "cli.js"), "--config", filepath.Join(own, "playwright.json")},
	}
	out := managed(t, h, "tyrum.provider.host", map[string]any{"provider": "playwright", "record": record})
	var m tools.ToolManifest
	text, _ := out.Result.(map[string]any)["manifest"].(string)
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	list, refused := tools.Describe(&record, &m)
	if len(list) < 15 || len(refused) > 0 {
		t.Fatalf("%d tools, refused %+v", len(list), refused)
	}
	approved := map[string]string{}
	for _, d := range list {
		approved[d.Upstream] = d.Hash
	}
	managed(t, h, "tyrum.provider.offer", map[string]any{"provider": "playwright", "approved": approved})

	answers(t, h, "tyrum.playwright.browser-navigate", `{"url":`+quote(shop.URL)+`}`, "Shop")
	answers(t, h, "tyrum.playwright.browser-snapshot", `{}`, "Shop behind walls")
	answers(t, h, "tyrum.playwright.browser-evaluate", `{"function":"() => { document.querySelector('button').click(); return document.querySelector('button').textContent }"}`, "sold")
	if got, err := called(h, "tyrum.playwright.browser-navigate", `{"url":`+quote(shut.URL)+`}`); err == nil && strings.Contains(textIn(got), "200") {
		t.Errorf("%s", textIn(got))
	}
	checked := managed(t, h, "tyrum.provider.host", map[string]any{"provider": "playwright", "record": record})
	said, err := json.Marshal(checked.Result)
	if err != nil || !strings.Contains(string(said), "--net "+not) {
		t.Errorf("%s %v", said, err)
	}
	for _, r := range h.Readiness(t.Context()) {
		if strings.HasPrefix(string(r.Capability), "tyrum.playwright.") && r.Isolation != capabilities.ClassT2 {
			t.Errorf("%+v", r)
		}
	}
}
