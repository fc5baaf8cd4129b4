package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/test/site"
)

const (
	denyEcho = site.Rules + `@id("no-echo") forbid (principal, action == Action::"tool.fixture.echo", resource);`
	askEcho  = site.Rules + `@id("ask-echo") forbid (principal, action == Action::"tool.fixture.echo", resource) unless { context.consent };`
)

// Each decision is recorded (S4-24), and where nobody can be asked the answer is no (S2-32).
func TestPolicy(t *testing.T) {
	for name, c := range map[string]struct {
		rules  string
		status capabilities.Status
		code   capabilities.Code
		policy string // that must be named
	}{
		"denies":                 {denyEcho, capabilities.StatusDenied, capabilities.CodeAmbiguousNode, "no-echo"},
		"asks":                   {askEcho, capabilities.StatusDenied, capabilities.CodeConsentUnavailable, "ask-echo"},
		"has nothing to say":     {`@id("other") permit (principal, action == Action::"tool.fixture.slow", resource);`, capabilities.StatusDenied, capabilities.CodeAmbiguousNode, ""},
		"asks where it permits":  {`@id("with-consent") permit (principal, action in Action::"family:fixture", resource) when { context.consent };`, capabilities.StatusDenied, capabilities.CodeConsentUnavailable, "with-consent"},
		"fails while forbidding": {site.Rules + `@id("broken") forbid (principal, action == Action::"tool.fixture.echo", resource) when { context.time + 9223372036854775807 > 0 };`, capabilities.StatusDenied, capabilities.CodeAmbiguousNode, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h, handler := start(t, site.Options{Rules: c.rules}), site.NewHandler()
			n := h.AddNode("one", handler)
			for _, args := range []string{text("x"), `{"text":"x","node_id":"` + string(n.ID) + `"}`} {
				r := h.Call(t.Context(), site.ToolEcho, args, "")
				code := c.code
				if code == capabilities.CodeAmbiguousNode && strings.Contains(args, "node_id") {
					code = capabilities.CodeNodeDeniedByPolicy
				}
				// The codes are S0's; the message is policy's.
				if r.Code != code || r.Output != nil || r.Message == "" {
					t.Errorf("%+v", r)
				}
				h.wantStory(r.Call, "request", "decision", "failed")
				if body := string(h.story(r.Call).bodys[1]); !strings.Contains(body, `"effect":"deny"`) || !strings.Contains(body, c.policy) {
					t.Errorf("the decision is %s", body)
				}
			}
			if handler.Runs("x") != 0 {
				t.Error("it ran")
			}
		})
	}
}

// A node that isolates less than it should is refused, unless policy on both sides accepts that in
// so many words.
func TestDegradedIsolation(t *testing.T) {
	const accept = `@id("accept") permit (principal, action == Action::"isolation.accept-degraded", resource);`
	for name, c := range map[string]struct {
		gateway, owner string
		ok             bool
		code           capabilities.Code
	}{
		"nobody accepts":       {site.Rules, "", false, capabilities.CodeIsolationUnavailable},
		"the owner does":       {site.Rules, accept, false, capabilities.CodeIsolationUnavailable},
		"the gateway does":     {site.Rules + accept, "", true, ""}, // the shipped owner's rules leave it to the gateway
		"but the owner won't":  {site.Rules + accept, `@id("mine") forbid (principal, action == Action::"isolation.accept-degraded", resource);`, false, capabilities.CodeIsolationUnavailable},
		"nor that tool at all": {site.Rules + accept, accept + `@id("mine") forbid (principal, action == Action::"tool.fixture.echo", resource);`, false, capabilities.CodeDeniedByNode},
	} {
		t.Run(name, func(t *testing.T) {
			h, handler := start(t, site.Options{Rules: c.gateway}), site.NewHandler()
			handler.Degrade = "fixture_sandbox"
			n := h.AddNode("one", handler)
			if c.owner != "" {
				n.Stop()
				n.AwaitGone()
				must(t, os.WriteFile(filepath.Join(n.Dir, "owner-test.cedar"), []byte(c.owner), 0o600))
				n.Start()
			}
			r := h.Call(t.Context(), site.ToolEcho, text("x"), "")
			if c.ok {
				want(t, r, capabilities.StatusOK, "")
				if body := string(h.story(r.Call).bodys[1]); !strings.Contains(body, "fixture_sandbox") {
					t.Errorf("the decision does not name what is missing: %s", body)
				}
				return
			}
			if want(t, r, capabilities.StatusDenied, c.code); handler.Runs("x") != 0 {
				t.Error("it ran")
			}
		})
	}
}

// S1-37, S1-63: what lives in a person's session carries only tools that name it, also where the
// gateway, or the device, was told to let it pass.
func TestASessionCarriesWhatNamesIt(t *testing.T) {
	h, handler := start(t, site.Options{}), site.NewHandler()
	handler.Gives = capabilities.ClassSession
	h.AddNode("one", handler)
	r := h.Call(t.Context(), site.ToolEcho, text("x"), "")
	if want(t, r, capabilities.StatusDenied, capabilities.CodeIsolationUnavailable); handler.Runs("x") != 0 || !strings.Contains(r.Message, "gives session") {
		t.Errorf("it ran %d times: %+v", handler.Runs("x"), r)
	}
}

// The device has the last word: its owner's rules and its stop switch.
func TestOwnerDenies(t *testing.T) {
	h, handler, n := one(t)
	n.Stop()
	n.AwaitGone()
	must(t, os.WriteFile(filepath.Join(n.Dir, "owner-test.cedar"), []byte(`@id("mine") forbid (principal, action == Action::"tool.fixture.echo", resource);`), 0o600))
	n.Start()
	r := h.Call(t.Context(), site.ToolEcho, text("x"), "")
	want(t, r, capabilities.StatusDenied, capabilities.CodeDeniedByNode)
	h.wantStory(r.Call, "request", "decision", "dispatch", "failed")
	want(t, h.Call(t.Context(), site.ToolImage, `{"text":"x","size":1}`, ""), capabilities.StatusOK, "")
	if handler.Runs("x") != 1 {
		t.Errorf("grave: ran %d times", handler.Runs("x"))
	}
}

// A new deny wins over an old result, and a policy taken back restores it.
func TestNewDenyWinsOverOldResult(t *testing.T) {
	h, handler, n := one(t)
	first := h.Call(t.Context(), site.ToolEcho, text("x"), "r1")
	want(t, first, capabilities.StatusOK, "")
	for _, now := range []string{denyEcho, askEcho} {
		h.rules(now)
		h.Restart() // a policy in force stays in force
		n.AwaitReady()
		r := h.Call(t.Context(), site.ToolEcho, text("x"), "r1")
		if now == askEcho { // what was carried out needs no new consent to be told
			want(t, r, capabilities.StatusOK, "")
			continue
		}
		if r.Status == capabilities.StatusOK || r.Output != nil || r.Deduplicated {
			t.Errorf("%+v", r)
		}
	}
	h.rules(site.Rules)
	h.Restart()
	n.AwaitReady()
	r := h.Call(t.Context(), site.ToolEcho, text("x"), "r1")
	want(t, r, capabilities.StatusOK, "")
	if r.Call != first.Call || !r.Deduplicated || handler.Runs("x") != 1 {
		t.Errorf("grave: %+v, ran %d times", r, handler.Runs("x"))
	}
}
