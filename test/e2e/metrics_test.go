package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// The files of examples/monitoring ask for series that a gateway has, and those say how the site
// is.
func TestMetricsOfTheExamplesExist(t *testing.T) {
	h, _, n := one(t)
	want(t, h.by("agent", "l", site.ToolEcho, text("x"), ""), capabilities.StatusOK, "")
	admin := h.client(principal.RoleAdmin)
	read := func() string {
		t.Helper()
		status, body, err := admin.try(ctx(), http.MethodGet, "/metrics", "")
		must(t, err)
		if status != http.StatusOK {
			t.Fatalf("%d: %s", status, body)
		}
		return string(body)
	}
	page := read()
	names := regexp.MustCompile(`\b(?:handrail|tools)_[a-z_]+\b`)
	found := 0
	for _, file := range []string{"alerts.yaml", "grafana.json"} {
		data, err := os.ReadFile("../../examples/monitoring/" + file)
		must(t, err)
		if strings.HasSuffix(file, ".json") && !json.Valid(data) {
			t.Errorf("%s is no JSON", file)
		}
		for _, name := range names.FindAllString(string(data), -1) {
			found++
			if !strings.Contains(page, "\n"+name+"{") && !strings.Contains(page, "\n"+name+" ") {
				t.Errorf("%s asks for %s, which no gateway has", file, name)
			}
		}
	}
	if found < 15 {
		t.Errorf("%d names found: the search is broken", found)
	}
	for _, line := range []string{`handrail_nodes{state="connected"} 1`, "handrail_disk_full 0", "handrail_stopped 0", `status="ok"`} {
		if !strings.Contains(page, line) {
			t.Errorf("/metrics has no %s", line)
		}
	}
	n.Stop()
	n.AwaitGone()
	if page := read(); !strings.Contains(page, `handrail_nodes{state="away"} 1`) {
		t.Error("a device that is away is not counted so")
	}
	n.Start()
}

// Strangers learn of a gateway that it is well, and no more: not which site it is, nor its version.
func TestStrangersLearnThatItIsWell(t *testing.T) {
	h := start(t, site.Options{})
	stranger := newCaller(t, h.URL(), "")
	stranger.awaitHealth()
	for _, path := range []string{"/healthz", "/readyz"} {
		status, body, err := stranger.try(ctx(), http.MethodGet, path, "")
		must(t, err)
		if status != http.StatusOK || strings.Contains(string(body), string(h.Site.Gateway.Site())) || strings.Contains(string(body), "version") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, body, err := stranger.try(ctx(), http.MethodGet, "/metrics", ""); err != nil || status != http.StatusUnauthorized {
		t.Errorf("/metrics: %d %s, %v", status, body, err)
	}
	if status, body, err := h.client(principal.RoleViewer).try(ctx(), http.MethodGet, "/healthz", ""); err != nil || status != http.StatusOK ||
		!strings.Contains(string(body), string(h.Site.Gateway.Site())) {
		t.Errorf("to who has a token: %d %s, %v", status, body, err)
	}
}
