package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// The built program audits a page, and a frame of another origin in it, by the axe-core that its
// owner had from npm and pinned; a file that is another is not run, and the command line says with
// which flags it is named.
func TestThePageIsAuditedByTheProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the program")
	}
	desk.Need(t, "chromium")
	packages := os.Getenv("HANDRAIL_CONFORMANCE")
	if packages == "" {
		t.Skip("HANDRAIL_CONFORMANCE names no folder with the npm packages (.ci/conformance)")
	}
	text, err := os.ReadFile(filepath.Join(packages, "node_modules", "axe-core", "axe.min.js"))
	must(t, err)
	var elsewhere string
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/pay" {
			fmt.Fprint(w, `<!doctype html><html lang=en><title>Pay</title><input id=card>`)
			return
		}
		fmt.Fprintf(w, `<!doctype html><html lang=en><title>Shop</title><main><h1>Shop</h1><img id=logo src=/x.png>
<iframe id=pay title=Pay src="%s/pay"></iframe></main>`, elsewhere)
	}))
	t.Cleanup(pages.Close)
	elsewhere = strings.Replace(pages.URL, "127.0.0.1", "localhost", 1)
	home := privateDir(t)
	axe := filepath.Join(home, "axe.min.js")
	must(t, os.WriteFile(axe, text, 0o600))
	sum := sha256.Sum256(text)
	p := &person{t: t, program: filepath.Join(home, "handrail"), env: append(os.Environ(), "HOME="+home, "HANDRAIL_DATA="+filepath.Join(home, "site"))}
	site.Program(t, p.program)
	var ready struct {
		HTTP string `json:"http"`
	}
	p.leaves(&ready, "up", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--no-task", "--json", "--browser-sandbox", "auto", "--desktop", "off",
		"--browser-allow-origin", pages.URL, "--browser-allow-origin", elsewhere, "--browser-audit", axe, "--browser-audit-sha256", hex.EncodeToString(sum[:]))
	must(t, os.WriteFile(filepath.Join(home, "site", "gateway", "policy", "test.cedar"), []byte(`@id("tools") permit (principal, action, resource);`), 0o600))
	p.does("policy", "activate", "--yes")
	token, err := os.ReadFile(filepath.Join(home, "site", "gateway", "agent.token"))
	must(t, err)
	agent := newCaller(t, "http://"+strings.TrimPrefix(ready.HTTP, "http://"), strings.TrimSpace(string(token)))
	call := func(tool capabilities.ToolID, args string) capabilities.Result {
		t.Helper()
		r, err := agent.call(ctx(), tool, args, "")
		must(t, err)
		return r
	}
	want(t, call("tool.browser.navigate", `{"url":"`+pages.URL+`/"}`), capabilities.StatusOK, "")
	want(t, call("tool.browser.wait-for", `{"selector":"#card"}`), capabilities.StatusOK, "")

	r := call("tool.browser.audit", `{"max_places":20}`)
	want(t, r, capabilities.StatusOK, "")
	var found struct {
		Engine     string `json:"engine"`
		Frames     int    `json:"frames"`
		LeftOut    int    `json:"frames_left_out"`
		Violations []struct {
			Rule   string `json:"rule"`
			Places []struct{ Frame, Selector string }
		} `json:"violations"`
	}
	must(t, json.Unmarshal(r.Output, &found))
	at := map[string]string{}
	for _, v := range found.Violations {
		for _, place := range v.Places {
			at[v.Rule+" "+place.Selector] = place.Frame
		}
	}
	frame, inFrame := at["label #card"]
	own, inPage := at["image-alt #logo"]
	if !strings.HasPrefix(found.Engine, "axe-core ") || found.Frames != 1 || found.LeftOut != 0 || !inFrame || frame != "#pay" || !inPage || own != "" || !r.Untrusted {
		t.Errorf("%s", r.Output)
	}

	must(t, os.WriteFile(axe, append(text, '\n'), 0o600))
	want(t, call("tool.browser.audit", `{}`), capabilities.StatusDenied, capabilities.CodeDeniedByNode)
	if out, code := p.tries("", "call", "tool.browser.audit"); code == 0 || !strings.Contains(out, "--browser-audit axe.min.js --browser-audit-sha256 HEX") {
		t.Errorf("%d %s", code, out)
	}
}
