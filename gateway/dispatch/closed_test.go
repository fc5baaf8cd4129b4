package dispatch

import (
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/nodes/nodestest"
)

// A caller who asks for an origin of this machine or the house learns that it is closed and what
// opens it; nobody else is told so.
func TestClosedOriginsSayWhatOpensThem(t *testing.T) {
	nodes := nodestest.New("n1")
	nodes.Roster[0].Readiness["tyrum.browser.navigate"] = capabilities.Readiness{Capability: "tyrum.browser.navigate", Isolation: capabilities.ClassT2}
	h := newHouse(t, nodes, nil)
	h.rules(string(policy.DefaultSource()))
	for url, origin := range map[string]string{
		"http://127.0.0.1:3000/x":  "http://127.0.0.1:3000",
		"http://localhost:3000":    "http://localhost:3000",
		"https://192.168.1.4/":     "https://192.168.1.4",
		"http://[::1]:8080/":       "http://[::1]:8080",
		"http://169.254.169.254/":  "", // a cloud's metadata: nothing to be opened by the way
		"file:///etc/passwd":       "",
		"chrome://settings":        "",
		"http://user@127.0.0.1:9/": "http://127.0.0.1:9",
	} {
		r := h.call(t.Context(), "tool.browser.navigate", `{"url":"`+url+`"}`, "")
		if r.Status == capabilities.StatusOK {
			t.Errorf("%s was permitted", url)
			continue
		}
		hint := r.Hint
		if told := strings.Contains(hint, "--browser-allow-origin"); told != (origin != "") || !strings.Contains(hint, origin) {
			t.Errorf("%s: %q", url, hint)
		}
	}
	for _, url := range []string{"file:///etc/passwd", "localhost:3000/x", "ftp://example.org/"} {
		if hint := h.call(t.Context(), "tool.browser.navigate", `{"url":"`+url+`"}`, "").Hint; !strings.Contains(hint, "begins with http://") {
			t.Errorf("%s: %q", url, hint)
		}
	}
	// A rule that forbids is the admin's word, and nothing to get around.
	h.rules(string(policy.DefaultSource()) + `@id("no") forbid (principal, action == Action::"tool.browser.navigate", resource);`)
	if hint := h.call(t.Context(), "tool.browser.navigate", `{"url":"http://127.0.0.1:3000/"}`, "").Hint; strings.Contains(hint, "--browser-allow-origin") {
		t.Errorf("a forbidden tool: %q", hint)
	}
}
