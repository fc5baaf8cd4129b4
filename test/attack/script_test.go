package attack

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/platform/procguard"
	"github.com/handrail-dev/handrail/test/site"
)

// noWiki is what an admin forbids: a tool, an address, pictures.
const noWiki = `
@id("no-evaluate") forbid (principal, action == Action::"tool.browser.evaluate", resource);
@id("no-wiki") forbid (principal, action == Action::"tool.browser.navigate", resource) when { context.args has host && context.args.host == "localhost" };
@id("no-shot") forbid (principal, action == Action::"tool.browser.screenshot", resource);
`

// browserOn returns a site whose node has a real Chrome that reaches these origins.
func browserOn(t *testing.T, rules string, origins ...string) *arena {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a Chrome")
	}
	found, err := finder.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	o := browser.Options{Finder: finder, Launcher: procguard.New(procguard.Options{Log: log}), Log: log, StateDir: t.TempDir(), AllowOrigins: origins}
	for _, origin := range origins {
		permit, err := policy.OriginPermit(origin, "the test's pages")
		if err != nil {
			t.Fatal(err)
		}
		rules += strings.ReplaceAll(string(permit), `@id("`, fmt.Sprintf(`@id("%d-`, len(rules)))
	}
	if found.NoSandbox != "" {
		o.Sandbox = browser.SandboxOff
		rules += string(policy.NoSandboxPermit("this host gives no sandbox", "test"))
	}
	h, err := browser.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	s := site.Start(t, site.Options{Rules: site.Rules + rules, ApprovalWait: time.Minute})
	a := &arena{Site: s, t: t, h: site.NewHandler()}
	a.node = s.AddNode("desk", h)
	return a
}

// script runs a script and returns what it returned, as text.
func (a *arena) script(code string) (string, capabilities.Result) {
	a.t.Helper()
	args, err := json.Marshal(map[string]string{"code": code})
	if err != nil {
		a.t.Fatal(err)
	}
	r := a.call("tool.browser.run-code", string(args))
	var out struct {
		Result json.RawMessage `json:"result"`
	}
	_ = json.Unmarshal(r.Output, &out)
	return string(out.Result), r
}

// A script does not do what the gateway's policy forbids either: not at once, not caught, not by
// another spelling. The page says what was really opened and evaluated.
func TestStepsOfAScript(t *testing.T) {
	t.Parallel()
	pages := serve(t, func(*visited) string { return "<title>a page</title><p>text</p>" })
	wiki := strings.Replace(pages.URL, "127.0.0.1", "localhost", 1)
	a := browserOn(t, noWiki, pages.URL, wiki)
	for name, code := range map[string]string{
		"evaluate":   fmt.Sprintf("page.evaluate(`fetch('%s/evaluated')`)", pages.URL),
		"a function": fmt.Sprintf("page.evaluate(() => fetch('%s/evaluated'))", pages.URL),
		"navigate":   fmt.Sprintf("page.navigate('%s/wiki').title", wiki),
		"in capital": fmt.Sprintf("page.navigate('%s/wiki').title", strings.Replace(wiki, "localhost", "LOCAL\tHOST", 1)),
		"screenshot": "page.screenshot({})",
	} {
		_, r := a.script(fmt.Sprintf("page.navigate('%s/'); return %s", pages.URL, code))
		if r.Code != capabilities.CodeDeniedByPolicy || len(r.Blobs) != 0 {
			t.Errorf("%s: %s %s %s", name, r.Status, r.Code, r.Message)
		}
	}
	got, r := a.script(fmt.Sprintf(`const codes = []; for (const f of [() => page.evaluate('6*7'), () => page.screenshot({}), () => page.navigate('%s/wiki')]) try { f(); codes.push('ok') } catch (e) { codes.push(e.code) };
		await Promise.all([1, 2, 3].map(async () => { try { page.evaluate('1'); codes.push('ok') } catch (e) { codes.push(e.code) } }));
		page.navigate('%s/allowed'); return codes`, wiki, pages.URL))
	if want := `["denied_by_policy","denied_by_policy","denied_by_policy","denied_by_policy","denied_by_policy","denied_by_policy"]`; got != want {
		t.Errorf("%s, want %s: %s %s", got, want, r.Code, r.Message)
	}
	if pages.seen("/evaluated")+pages.seen("/wiki") != 0 || pages.seen("/allowed") != 1 {
		t.Errorf("the pages were asked for %q", pages.paths)
	}
	all := a.packets(r.Call)
	if len(all) != 7 || kinds(all[1])[2] != "failed" || kinds(all[7])[3] != "result" {
		t.Errorf("the ledger has %d steps", len(all))
	}
}

// The bans of the device's owner in owner.cedar hold in scripts, too.
func TestStepsOfAScriptOnTheDevice(t *testing.T) {
	t.Parallel()
	pages := serve(t, func(*visited) string { return "<title>a page</title><p>text</p>" })
	wiki := strings.Replace(pages.URL, "127.0.0.1", "localhost", 1)
	a := browserOn(t, "", pages.URL, wiki)
	f, err := os.OpenFile(filepath.Join(a.node.Dir, "owner.cedar"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(noWiki); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	a.until("the node to take the owner's file over", func() bool {
		return a.call("tool.browser.evaluate", `{"expression":"1"}`).Code == capabilities.CodeDeniedByNode
	})
	got, r := a.script(fmt.Sprintf(`page.navigate('%s/'); const codes = []; for (const f of [() => page.evaluate('6*7'), () => page.screenshot({}), () => page.navigate('%s/wiki'), () => page.navigate('%s/allowed')])
		try { f(); codes.push('ok') } catch (e) { codes.push(e.code) }; return codes`, pages.URL, wiki, pages.URL))
	if want := `["denied_by_node","denied_by_node","denied_by_node","ok"]`; got != want {
		t.Errorf("%s, want %s: %s %s", got, want, r.Code, r.Message)
	}
	if pages.seen("/wiki") != 0 || pages.seen("/allowed") != 1 || len(r.Blobs) != 0 {
		t.Errorf("the pages were asked for %q", pages.paths)
	}
}

// A script ends where a person has to answer, with what it has done; nothing of it can
// go on without them.
func TestAScriptWaitsForAPerson(t *testing.T) {
	t.Parallel()
	pages := serve(t, func(*visited) string { return "<title>a page</title><a href='/clicked'>go</a>" })
	a := browserOn(t, `@id("asks") forbid (principal, action == Action::"tool.browser.click", resource) unless { context.consent };`, pages.URL)
	if r := a.call("tool.browser.navigate", fmt.Sprintf(`{"url":%q}`, pages.URL+"/")); r.Status != capabilities.StatusOK {
		t.Fatalf("%+v", r) // Chrome takes its time to start
	}
	code := fmt.Sprintf("page.navigate('%s/'); console.log('there'); try { page.click('a') } catch (e) { page.navigate('%s/caught') }; return 1", pages.URL, pages.URL)
	args, _ := json.Marshal(map[string]any{"code": code, "timeout_ms": 15000})
	r := a.call("tool.browser.run-code", string(args))
	details, _ := json.Marshal(r.Details)
	if r.Status != capabilities.StatusPending || r.Code != capabilities.CodeApprovalPending || !strings.Contains(r.Message, "Steps done before: 1") {
		t.Errorf("%s %s %s", r.Status, r.Code, r.Message)
	}
	if !strings.Contains(string(details), `"waits":{"approval":"`+a.waiting().ID+`","tool_id":"tool.browser.click"}`) || !strings.Contains(string(details), `"log":["there"]`) {
		t.Errorf("%s", details)
	}
	if pages.seen("/clicked")+pages.seen("/caught") != 0 {
		t.Errorf("it went on: %q", pages.paths)
	}
}
