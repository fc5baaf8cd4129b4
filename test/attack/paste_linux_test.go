package attack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser"
	"github.com/handrail-dev/handrail/capabilities/desktop"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/principal"
	session "github.com/handrail-dev/handrail/platform/desktop"
	"github.com/handrail-dev/handrail/platform/procguard"
	"github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// field is a page with a field that shows what is in it, and tells its server of it.
type field struct {
	*httptest.Server
	mu  sync.Mutex
	has string
}

func newField(t *testing.T) *field {
	f := &field{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, _ := io.ReadAll(r.Body)
			f.mu.Lock()
			f.has = string(body)
			f.mu.Unlock()
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<title>form</title><label>Name <input id=f></label><p id=echo></p><a href=/other>on</a><script>
			f.oninput = () => { echo.textContent = 'you typed ' + f.value; fetch('/', {method: 'POST', body: f.value}); };</script>`)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *field) holds() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.has
}

// The same in a real Chrome, a person's own that the agent is attached to: pasted into a
// page, the value is read back by no outline, search, request, script or picture, before and
// after the clipboard was cleared and with a letter typed into its middle; on another page
// scripts and pictures work, and there again once a person says that it is done.
func TestASecretPastedIntoAPageIsNotReadBack(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a Chrome")
	}
	t.Parallel()
	const value, rules = "Zq7-Hunter-Kx42", `@id("mine") permit (principal, action in [Action::"family:desktop", Action::"family:browser"], resource);`
	d := desk.StartX(t, desk.Options{})
	form := newField(t)
	log := slog.New(slog.DiscardHandler)
	found, err := finder.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	profile := profile(t)
	person := exec.Command(found.Path, "--remote-debugging-port=0", "--user-data-dir="+profile, "--no-sandbox", "--no-first-run", "--disable-gpu", "--window-size=900,600", "about:blank")
	person.Env = append(append(os.Environ(), d.Env...), "HOME="+profile, "TMPDIR="+profile)
	if err := person.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = person.Process.Kill(); _ = person.Wait() })
	opener := session.New(session.Options{Log: log, Getenv: d.Getenv})
	t.Cleanup(func() { _ = opener.Close() })
	minute := make(minute)
	hands, err := desktop.New(desktop.Options{Opener: opener, QuietTime: time.Millisecond, After: minute.after, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hands.Close() })
	a := &arena{Site: site.Start(t, site.Options{Rules: rules, ApprovalWait: time.Millisecond}), t: t, client: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(a.client.CloseIdleConnections)
	var port string
	a.until("the person's Chrome", func() bool {
		text, err := os.ReadFile(filepath.Join(profile, "DevToolsActivePort"))
		line, _, whole := bytes.Cut(text, []byte("\n"))
		port = string(line)
		return err == nil && whole
	})
	pages, err := browser.New(browser.Options{
		Finder: finder, Launcher: procguard.New(procguard.Options{Log: log}), Attach: "http://127.0.0.1:" + port,
		AllowOrigins: []string{form.URL}, StateDir: t.TempDir(), Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pages.Close() })
	a.node = a.AddNode("desk", hands, pages)
	a.node.AwaitReady("tyrum.browser.navigate", "tyrum.desktop.clipboard-write", "tyrum.desktop.screenshot")
	a.operator = a.MustToken("anna", principal.RoleOperator)
	a.MustToken("agent", principal.RoleAgent)
	admin := a.MustToken("root", principal.RoleAdmin)
	for _, ask := range [][3]string{
		{"PUT", "/v1/secrets/mail", `{"value":"` + value + `"}`}, {"POST", "/v1/secrets/mail/references", `{"principal":"agent","secret_alias":"mail"}`},
	} {
		if status, body := a.do(admin, ask[0], ask[1], ask[2]); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
	}
	if err := a.Lanes.Claim(t.Context(), "agent", "main"); err != nil {
		t.Fatal(err)
	}
	call := func(tool capabilities.ToolID, args string) capabilities.Result {
		t.Helper()
		r := a.call(tool, args)
		if r.Code == capabilities.CodeApprovalPending {
			if _, err := a.Consent.Answer(t.Context(), a.waiting().ID, consent.Answer{By: "anna", Allow: true}); err != nil {
				t.Fatal(err)
			}
			r = a.call(tool, args)
		}
		inTime(t, tool, r)
		return r
	}
	do := func(tool capabilities.ToolID, args string) capabilities.Result {
		t.Helper()
		r := call(tool, args)
		if r.Status != capabilities.StatusOK {
			t.Fatalf("%s %s: %s %s (%s)", tool, args, r.Code, r.Message, r.Hint)
		}
		return r
	}
	// texts are what the agent may go on reading, and no piece of the value is in it.
	texts := func(when string) {
		t.Helper()
		for _, look := range [][2]string{
			{"snapshot", `{}`}, {"snapshot", `{"search":"Hunter"}`}, {"network-requests", `{}`}, {"network-requests", `{"filter":"form"}`}, {"console-messages", `{}`},
			{"tabs", `{"action":"list"}`}, {"hover", `{"selector":"#f"}`}, {"wait-for", `{"text":"you typed","timeout_ms":2000}`}, // on another page it does not come
		} {
			all, _ := json.Marshal(call(capabilities.ToolID("tool.browser."+look[0]), look[1]))
			for i := range len(value) - 3 {
				if strings.Contains(string(all), value[i:i+4]) && !(look[1] == `{"search":"Hunter"}` && strings.Contains("Hunter", value[i:i+4])) {
					t.Errorf("%s: %s tells %q", when, look[0], value[i:i+4])
				}
			}
		}
	}
	looks := func(when string, want capabilities.Code) {
		t.Helper()
		for _, look := range [][2]string{
			{"tool.browser.screenshot", `{}`}, {"tool.browser.evaluate", `{"expression":"document.querySelector('#f') && f.value.split('').reverse().join('')"}`},
			{"tool.browser.run-code", `{"code":"return page.evaluate('1')"}`}, {"tool.browser.wait-for", `{"function":"document.title"}`},
		} {
			r := call(capabilities.ToolID(look[0]), look[1])
			if r.Code != want {
				t.Errorf("%s: %s gives %q (%s), want %q", when, look[0], r.Code, r.Message, want)
			}
		}
	}
	key := func(name string, count int) {
		t.Helper()
		for range count {
			do("tool.browser.press-key", fmt.Sprintf(`{"key":%q}`, name))
		}
	}
	a.until("the person's Chrome to take the agent", func() bool { // which has ten seconds for it, and it just started
		r := call("tool.browser.launch", `{"attach":true}`)
		if r.Status != capabilities.StatusOK && r.Code != capabilities.CodeBrowserUnavailable {
			t.Fatalf("%s %s (%s)", r.Code, r.Message, r.Hint)
		}
		return r.Status == capabilities.StatusOK
	})
	do("tool.browser.navigate", `{"url":"`+form.URL+`/"}`)
	do("tool.browser.click", `{"selector":"#f"}`)
	looks("before", "")
	do("tool.secret.copy-to-node-clipboard", `{"secret_alias":"mail"}`)
	looks("in the clipboard", capabilities.CodeSecretHeld)
	key("Control+V", 1)
	a.until("the value in the page", func() bool { return form.holds() == value })
	texts("pasted")
	looks("pasted", capabilities.CodeSecretHeld)
	key("Home", 1)
	key("ArrowRight", 5)
	key("_", 1)
	a.until("a letter in its middle", func() bool { return form.holds() == "Zq7-H_unter-Kx42" })
	texts("a letter in its middle")
	d.Run("sh", "-c", "printf other | xclip -selection clipboard -i >/dev/null 2>&1")
	close(minute)
	a.until("the clipboard to be cleared", func() bool {
		return strings.Contains(call("tool.browser.evaluate", `{"expression":"1"}`).Message, "pasted")
	})
	texts("cleared")
	looks("cleared", capabilities.CodeSecretHeld)
	do("tool.browser.navigate", `{"url":"`+form.URL+`/other"}`)
	looks("on another page", "")
	texts("on another page")
	do("tool.browser.navigate-back", `{}`)
	texts("back again")
	a.until("the hands to be over", func() bool {
		status, _ := a.do(a.operator, "POST", "/v1/lanes/main/secrets-done", "{}")
		return status == 200
	})
	a.until("the word to arrive", func() bool { return call("tool.browser.evaluate", `{"expression":"1"}`).Code == "" })
	texts("done")
}

// An isolated headless Chrome is no place of a delivered secret: it sees nothing of the
// device's clipboard, and so nothing is taken out of its texts. An agent that shows itself
// every guess there gains no piece of the value, and what it pastes there hides nothing.
func TestAnIsolatedPageTellsNoGuess(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a Chrome")
	}
	t.Parallel()
	const value, rules = "hunter22", `@id("mine") permit (principal, action in [Action::"family:desktop", Action::"family:browser"], resource);`
	d := desk.StartX(t, desk.Options{})
	form := newField(t)
	log := slog.New(slog.DiscardHandler)
	opener := session.New(session.Options{Log: log, Getenv: d.Getenv})
	t.Cleanup(func() { _ = opener.Close() })
	minute := make(minute)
	hands, err := desktop.New(desktop.Options{Opener: opener, QuietTime: time.Millisecond, After: minute.after, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hands.Close() })
	found, err := finder.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o, r := browser.Options{
		Finder: finder, Launcher: procguard.New(procguard.Options{Log: log}), AllowOrigins: []string{form.URL}, StateDir: t.TempDir(), Log: log,
	}, rules
	if found.NoSandbox != "" {
		o.Sandbox = browser.SandboxOff
		r += string(policy.NoSandboxPermit("this host gives no sandbox", "test"))
	}
	pages, err := browser.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pages.Close() })
	a := &arena{Site: site.Start(t, site.Options{Rules: r, ApprovalWait: time.Millisecond}), t: t, client: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(a.client.CloseIdleConnections)
	a.node = a.AddNode("desk", hands, pages)
	a.node.AwaitReady("tyrum.browser.navigate", "tyrum.desktop.clipboard-write", "tyrum.desktop.screenshot")
	a.MustToken("agent", principal.RoleAgent)
	admin := a.MustToken("root", principal.RoleAdmin)
	for _, ask := range [][3]string{
		{"PUT", "/v1/secrets/mail", `{"value":"` + value + `"}`}, {"POST", "/v1/secrets/mail/references", `{"principal":"agent","secret_alias":"mail"}`},
	} {
		if status, body := a.do(admin, ask[0], ask[1], ask[2]); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
	}
	if err := a.Lanes.Claim(t.Context(), "agent", "main"); err != nil {
		t.Fatal(err)
	}
	do := func(tool capabilities.ToolID, args string) string {
		t.Helper()
		r := a.call(tool, args)
		if r.Code == capabilities.CodeApprovalPending {
			if _, err := a.Consent.Answer(t.Context(), a.waiting().ID, consent.Answer{By: "anna", Allow: true}); err != nil {
				t.Fatal(err)
			}
			r = a.call(tool, args)
		}
		inTime(t, tool, r)
		if r.Status != capabilities.StatusOK {
			t.Fatalf("%s %s: %s %s (%s)", tool, args, r.Code, r.Message, r.Hint)
		}
		all, _ := json.Marshal(r)
		return string(all)
	}
	// guesses are all rows of four of the value's characters and two others.
	var guesses []string
	const letters = "hunter2ax"
	for i := range 9 * 9 * 9 * 9 {
		guesses = append(guesses, string([]byte{letters[i/729], letters[i/81%9], letters[i/9%9], letters[i%9]}))
	}
	gained := func(when, said string) {
		t.Helper()
		if strings.Contains(said, "[secret]") {
			t.Errorf("%s: the answer marks guesses", when)
		}
	}
	do("tool.browser.navigate", `{"url":"`+form.URL+`/"}`)
	do("tool.browser.evaluate", `{"expression":"document.body.append(Object.assign(document.createElement('pre'), {textContent: 'hunt unte nter ter2 er22 xxxx'}))"}`)
	do("tool.secret.copy-to-node-clipboard", `{"secret_alias":"mail"}`)
	gained("in the clipboard", do("tool.browser.snapshot", `{}`))
	do("tool.browser.click", `{"selector":"#f"}`)
	do("tool.browser.press-key", `{"key":"Control+V"}`)
	do("tool.browser.press-key", `{"key":"x"}`)
	a.until("what was typed after the paste", func() bool { return form.holds() != "" })
	if has := form.holds(); has != "x" {
		t.Errorf("an isolated headless page pasted %q", has)
	}
	d.Run("sh", "-c", "printf other | xclip -selection clipboard -i >/dev/null 2>&1")
	// A person lets it look.
	looks := func() capabilities.Result { return a.call("tool.desktop.screenshot", `{"display":"primary"}`) }
	if r := looks(); r.Code != capabilities.CodeApprovalPending {
		t.Fatalf("nobody was asked: %s %s", r.Code, r.Message)
	}
	if _, err := a.Consent.Answer(t.Context(), a.waiting().ID, consent.Answer{By: "anna", Allow: true, Kind: consent.KindLease}); err != nil {
		t.Fatal(err)
	}
	if r := looks(); r.Code != capabilities.CodeSecretHeld {
		t.Errorf("a picture was taken while the clipboard held the value: %q %s", r.Code, r.Message)
	}
	close(minute)
	a.until("the clipboard to be cleared", func() bool { return looks().Code == "" })
	all := strings.Join(guesses, "~")
	said := do("tool.browser.evaluate", `{"expression":"(()=>{const l='`+letters+`',o=[];for(const a of l)for(const b of l)for(const c of l)for(const d of l)o.push(a+b+c+d);return o.join('~')})()","max_chars":40000}`)
	gained("cleared", said)
	if !strings.Contains(said, all[:5000]) {
		t.Errorf("the guesses are not what was shown: %.300s", said)
	}
	gained("typed", do("tool.browser.snapshot", `{}`))
}
