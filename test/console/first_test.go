//go:build unix

package console

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// The first page says what waits, what runs, what is unwell and what is still to be set up, as it
// happens. Signing in while a question waits leads to the questions.
func TestFirstPage(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleAdmin)
	d.goTo("/console/")
	d.says("No question waits", "Nothing runs", "All is well", "Connect a client", "Be told on your phone")
	d.shots("home-new")
	asks := d.call("robot", string(site.ToolPress), `{"text":"one"}`)
	d.waiting(1)
	runs := d.call("robot", string(site.ToolSlow), `{"text":"long"}`)
	d.await(`document.querySelectorAll("[aria-labelledby=waits-h] li").length === 1 && document.querySelectorAll("[aria-labelledby=runs-h] li").length === 1`)
	d.shots("home-busy")
	must(t, d.run(`document.querySelector("[aria-labelledby=runs-h] button").click()`, nil))
	d.result(runs)
	d.goTo("/console/")
	must(t, d.run(`document.querySelector("[aria-labelledby=waits-h] li a").click()`, nil))
	d.await(`location.pathname === "/console/approvals/` + d.Consent.Approvals()[0].ID + `" && document.readyState === "complete"`)

	// A notice's Deny leads to the same page, with its button in the focus and nothing pressed.
	must(t, d.run(`location.hash = "deny"; 1`, nil))
	d.await(`document.activeElement.name === "answer" && document.activeElement.value === "deny"`)
	if len(d.Consent.Approvals()) != 1 {
		t.Fatal("it was answered by an address")
	}
	d.goTo("/console/entered")
	d.await(`location.pathname === "/console/approvals"`)
	d.goTo("/console/approvals/" + d.Consent.Approvals()[0].ID + "#deny")
	d.await(`document.activeElement.name === "answer" && document.activeElement.value === "deny"`)
	d.key("Enter")
	d.result(asks)

	d.node.Stop()
	d.goTo("/console/")
	d.await(`document.querySelector("[aria-labelledby=unwell-h]").textContent.includes("study is away")`)
	d.quiet("/console/events")
}

// A browser can keep the console as a program of its own: what it needs for that is served to
// everybody, without a cookie.
func TestTheConsoleIsInstallable(t *testing.T) {
	d := startSite(t)
	get := func(path string) *http.Response {
		t.Helper()
		r, err := http.Get(d.URL() + path)
		must(t, err)
		t.Cleanup(func() { r.Body.Close() })
		if r.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d", path, r.StatusCode)
		}
		return r
	}
	r := get("/console/app.webmanifest")
	var m struct {
		Start   string `json:"start_url"`
		Scope   string
		Display string
		Icons   []struct{ Src, Sizes, Type, Purpose string }
	}
	must(t, json.NewDecoder(r.Body).Decode(&m))
	if r.Header.Get("Content-Type") != "application/manifest+json" || m.Start != "/console/" || m.Scope != "/console/" || m.Display != "standalone" {
		t.Errorf("%+v", m)
	}
	var sizes []string
	for _, icon := range m.Icons {
		if got := get(icon.Src).Header.Get("Content-Type"); got != icon.Type || icon.Type != "image/png" {
			t.Errorf("%s is %s", icon.Src, got)
		}
		sizes = append(sizes, icon.Sizes+" "+icon.Purpose)
	}
	if !slices.Contains(sizes, "192x192 any") || !slices.Contains(sizes, "512x512 maskable") {
		t.Errorf("%v", sizes)
	}
	d.enter(principal.RoleViewer)
	var faults struct {
		Errors []struct{ Message string }
		URL    string
	}
	d.ask("Page.getAppManifest", object{}, &faults)
	if len(faults.Errors) > 0 || !strings.HasSuffix(faults.URL, "/console/app.webmanifest") {
		t.Errorf("the browser says %+v", faults)
	}
	var missing struct {
		InstallabilityErrors []struct{ ErrorID string }
	}
	d.ask("Page.getInstallabilityErrors", object{}, &missing)
	for _, e := range missing.InstallabilityErrors {
		if e.ErrorID != "in-incognito" { // as every test's browser is
			t.Errorf("it cannot be installed: %s", e.ErrorID)
		}
	}
}
