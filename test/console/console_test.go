//go:build unix

package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// desk is a site with one node, and a browser that is signed in.
type desk struct {
	*site.Site
	*browser
	t       *testing.T
	node    *site.Node
	handler *site.Handler
	person  principal.Identity
	//lint:ignore containedctx one test, as a value
	ctx context.Context // of the agents' calls
}

// startSite starts a site whose fixture tool "press" asks a person.
func startSite(t *testing.T, door ...func(*gateway.Options)) *desk {
	t.Helper()
	there := atThePlace(t)
	open := func(o *gateway.Options) {
		there(o)
		for _, change := range door {
			change(o)
		}
	}
	s := site.Start(t, site.Options{ApprovalWait: 10 * time.Minute, NodeLogs: readNodeLog, Door: open, Rules: `@id("fixture") permit (principal, action in [Action::"tool.fixture.echo", Action::"tool.fixture.slow", Action::"tool.fixture.image", Action::"tool.fixture.fail"], resource);
@id("ask") @why("it moves the mouse of a person") permit (principal, action == Action::"tool.fixture.press", resource) when { context.consent };`})
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel) // before the site ends, which waits for its calls
	d := &desk{Site: s, t: t, handler: site.NewHandler(), ctx: ctx}
	d.node = s.AddNode("study", d.handler)
	return d
}

// enter starts a browser and signs in by a one-time link, as somebody of that role.
func (d *desk) enter(role principal.Role) {
	d.t.Helper()
	d.browser = startChrome(d.t)
	_, token, err := d.Tokens.Create(context.Background(), principal.Site, principal.Spec{Principal: "ann", Role: role})
	must(d.t, err)
	d.person, err = d.Tokens.Authenticate(token.Reveal())
	must(d.t, err)
	code, _, err := d.Tokens.Login(d.person, "")
	must(d.t, err)
	d.browser.open(d.URL() + "/console/login#" + code.Reveal())
	d.await("['/console/', '/console/approvals'].includes(location.pathname) && document.readyState === 'complete'")
	d.goTo("/console/approvals") // where most tests begin
}

// goTo opens a page and waits until it is live.
func (d *desk) goTo(page string) {
	d.t.Helper()
	d.browser.open(d.URL() + page)
}

// call calls a tool as an agent; its result comes when it comes.
func (d *desk) call(agent, tool, args string) <-chan capabilities.Result {
	done := make(chan capabilities.Result, 1)
	go func() {
		done <- d.Dispatcher.Call(d.ctx, dispatch.Request{
			Caller: dispatch.Caller{Principal: capabilities.PrincipalID(agent), Role: "agent", Lane: capabilities.LaneID(agent)},
			Tool:   capabilities.ToolID(tool), Args: []byte(args), Surface: "test",
		})
	}()
	return done
}

// result waits for a call's result.
func (d *desk) result(done <-chan capabilities.Result) capabilities.Result {
	d.t.Helper()
	select {
	case r := <-done:
		return r
	case <-time.After(within):
		d.t.Fatalf("the call has no result; the page: %s\n%q", d.value("document.body.innerText + document.activeElement.outerHTML.slice(0, 300)"), d.words())
		return capabilities.Result{}
	}
}

// waiting waits until so many questions wait, at the site. A call that ended without one is named.
func (d *desk) waiting(n int, calls ...<-chan capabilities.Result) {
	d.t.Helper()
	late := time.After(within)
	for {
		changed := d.Consent.Changed()
		if len(d.Consent.Approvals()) == n {
			return
		}
		select {
		case <-changed:
		case <-late:
			for _, done := range calls {
				select {
				case r := <-done:
					d.t.Errorf("a call ended: %+v", r)
				default:
				}
			}
			d.t.Fatalf("%d questions wait, want %d", len(d.Consent.Approvals()), n)
		}
	}
}

// shots keeps the page's pictures where HANDRAIL_SHOTS names a folder, and finds what
// does not fit in any width.
func (d *desk) shots(name string) {
	d.t.Helper()
	folder := os.Getenv("HANDRAIL_SHOTS")
	for _, as := range []struct {
		name  string
		width int
		dark  bool
		axe   bool // what axe-core says follows from the width or from the scheme, never from both
	}{{"phone-light", 360, false, true}, {"desk-dark", 1280, true, true}, {"phone-dark", 390, true, false}, {"desk-light", 1280, false, false}} {
		if !as.axe && folder == "" {
			continue
		}
		d.look(as.width, 844, as.dark)
		if wide := d.wider(); wide != "" {
			d.t.Errorf("%s at %d: %s", name, as.width, wide)
		}
		if as.axe {
			d.accessible(name + " " + as.name)
		}
		if folder != "" {
			must(d.t, os.WriteFile(filepath.Join(folder, name+"-"+as.name+".png"), d.picture(), 0o600))
		}
	}
	d.look(1280, 844, false)
}

// wider says what of the page is wider than the screen; empty: nothing.
func (b *browser) wider() string {
	b.t.Helper()
	wide := b.value("Math.max(document.documentElement.scrollWidth, document.body.scrollWidth) - innerWidth")
	if wide == "0" || strings.HasPrefix(wide, "-") {
		return ""
	}
	return wide + " pixels do not fit: " + b.value(`[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1).slice(0, 4).map(e => e.outerHTML.slice(0, 120)).join(" | ")`)
}

func TestSignInAndOut(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleOperator)
	if got := d.value("location.href"); strings.Contains(got, "hrl_") || strings.Contains(got, "#") {
		t.Errorf("the code stays in the address: %s", got)
	}
	if got := d.value("document.cookie"); got != "" {
		t.Errorf("script reads the cookie: %s", got)
	}
	for _, asked := range d.requested() {
		if strings.Contains(asked, "hrl_") || strings.Contains(asked, "hrs_") {
			t.Errorf("a secret went out in an address: %s", asked)
		}
	}
	d.quiet()
	d.shots("approvals-empty")
	if err := d.run(`[...document.querySelectorAll("button")].find(b => b.textContent === "Sign out").click()`, nil); err != nil {
		t.Fatal(err)
	}
	d.await("location.pathname === '/console/login' && document.readyState === 'complete'")
	d.shots("login")
	d.goTo("/console/stop")
	d.await("location.pathname === '/console/login'")
	for _, rec := range d.Tokens.List() {
		if rec.Parent != "" && rec.RevokedAt.IsZero() {
			t.Error("the session lives on")
		}
	}

	// A link that is put into the tab of this very page changes what stands behind the #.
	code, _, err := d.Tokens.Login(d.person, "")
	must(t, err)
	must(t, d.run(`location.hash = "`+code.Reveal()+`"; 1`, nil))
	d.await("location.pathname === '/console/' && document.readyState === 'complete'")
}

// A person at the keyboard answers what an agent waits for; the agent goes on, or not.
func TestApproveWithOneKey(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleOperator)
	if got := d.result(d.call("robot", "tool.fixture.echo", `{"text":"before"}`)); got.Status != capabilities.StatusOK {
		t.Fatalf("%+v", got)
	}
	first := d.call("robot", "tool.fixture.press", `{"text":"the first","purpose":"to answer Ann"}`)
	d.waiting(1)
	d.await(`document.querySelectorAll("[data-question]").length === 1`) // without a reload
	d.await(`document.title.startsWith("(1)")`)
	second := d.call("robot", "tool.fixture.press", `{"text":"the second"}`)
	d.waiting(2)
	d.await(`document.querySelectorAll("[data-question]").length === 2`)
	page := d.value("document.getElementById('main').innerText")
	for _, want := range []string{"robot", "tool.fixture.press", "study", "the first", "it moves the mouse of a person", "So far in this lane", "tool.fixture.echo", "done", "high risk", "Types 9 characters", "robot says why", "to answer Ann",
		"the caller is waiting", "asks 2 questions", "Allow 2 once"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q:\n%s", want, page)
		}
	}
	d.shots("approvals")
	d.goTo("/console/approvals")
	// With the focus elsewhere a key answers nothing: it goes to the first question.
	d.key("a")
	d.await(`document.activeElement.matches("[data-question]")`)
	if n := len(d.Consent.Approvals()); n != 2 {
		t.Fatalf("%d questions wait: a key answered without the focus", n)
	}
	// S1-29, S1-32: with the focus there it answers nothing before the box is ticked.
	d.key("a")
	d.await(`document.activeElement.name === "acknowledged"`)
	if n := len(d.Consent.Approvals()); n != 2 {
		t.Fatalf("%d questions wait: a key allowed what nobody acknowledged", n)
	}
	must(t, d.run(acknowledged+`document.querySelector("[data-question]").focus()`, nil))
	d.await(`!("settling" in document.body.dataset)`)
	d.key("a")
	if got := d.result(first); got.Status != capabilities.StatusOK {
		t.Fatalf("%+v", got)
	}
	d.await(`document.querySelectorAll("[data-question]").length === 1 && document.getElementById("outcome").textContent.includes("Allowed")`)
	said, err := d.Ledger.Packets(t.Context(), ledger.Query{Kind: "gateway.approval.answered", Limit: 10})
	if err != nil || len(said) != 1 || !strings.Contains(string(said[0].Body), `"acknowledged":["privileged.input.inject"]`) {
		t.Errorf("the record of the answer: %v %v", said, err)
	}
	// The focus does not go on to the other question, which the next key would answer.
	if at := d.value("document.activeElement.id"); at != "main" {
		t.Errorf("the focus is at %q", at)
	}
	d.key("j")
	d.await(`document.activeElement.matches("[data-question]") && !("settling" in document.body.dataset)`)
	d.key("d")
	if got := d.result(second); got.Code != capabilities.CodeConsentDenied {
		t.Fatalf("%+v", got)
	}
	d.await(`document.getElementById("live").textContent.includes("No approvals pending")`)
	if d.handler.Runs("the first") != 1 || d.handler.Runs("the second") != 0 {
		t.Errorf("ran: first %d, second %d", d.handler.Runs("the first"), d.handler.Runs("the second"))
	}
	d.quiet()
}

// fetch sends a form as the page's own script would, and returns the status.
func (d *desk) fetch(path, form string) (status string) {
	d.t.Helper()
	must(d.t, d.run(fmt.Sprintf(`fetch(%q, {method: "POST", headers: {"X-Handrail-Csrf": document.body.dataset.csrf}, body: new URLSearchParams(%q)}).then(r => String(r.status))`, path, form), &status))
	return status
}

// A viewer's pages have no buttons, and a form that was made up is refused.
func TestViewerSeesAndChangesNothing(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleViewer)
	d.call("robot", string(site.ToolPress), `{"text":"x"}`)
	d.waiting(1)
	d.await(`document.querySelectorAll("[data-question]").length === 1`)
	if n := d.value(`document.querySelectorAll("main button, main form").length`); n != "0" {
		t.Errorf("%s controls", n)
	}
	id := d.Consent.Approvals()[0].ID
	for _, c := range []struct{ path, form string }{{"/console/approvals/" + id, "answer=call"}, {"/console/stop", ""}} {
		if got := d.fetch(c.path, c.form); got != "403" {
			t.Errorf("%s answered %s", c.path, got)
		}
	}
	if d.Consent.Approvals()[0].ID != id {
		t.Error("the question is gone")
	}
	if _, on := d.Switch.Now(); on {
		t.Error("a viewer stopped everything")
	}
}

func TestStopByKeyboard(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleOperator)
	running := d.call("robot", "tool.fixture.slow", `{"text":"long"}`)
	if d.handler.AwaitStart(within) != "long" {
		t.Fatal("it did not start")
	}
	d.goTo("/console/stop")
	d.shots("stop")
	// Tab by Tab to the button, as a person without a mouse.
	for i := 0; ; i++ {
		if i > 30 {
			t.Fatal("the keyboard does not reach the button")
		}
		d.key("Tab")
		if d.value("document.activeElement.textContent") == "Stop everything now" {
			break
		}
	}
	d.key("Enter")
	if got := d.result(running); got.Status == capabilities.StatusOK {
		t.Errorf("%+v", got)
	}
	d.await(`document.getElementById("stopped").textContent.includes("Everything is stopped") && document.querySelector(".switch.on")`)
	d.shots("stopped")
	if _, on := d.Switch.Now(); !on {
		t.Error("the site is not stopped")
	}
	if err := d.run(`document.querySelector(".switch form").requestSubmit()`, nil); err != nil {
		t.Fatal(err)
	}
	d.await(`document.querySelector(".switch:not(.on)")`)
	if _, on := d.Switch.Now(); on {
		t.Error("the site is stopped still")
	}
	d.quiet()
}

// A page that was told of something new and got no answer asks again, although nothing
// else happens.
func TestAPageThatGotNoAnswerAsksAgain(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleOperator)
	d.goTo("/console/approvals")
	must(t, d.run(`window.lost = 0; window.real = window.fetch; window.fetch = (...a) => a[0] === location.href ? (lost++, Promise.reject(new TypeError("lost"))) : real(...a); 1`, nil))
	d.call("robot", string(site.ToolPress), `{"text":"x"}`)
	d.waiting(1)
	d.await("lost > 2") // all events of it were followed, and the page has asked again
	must(t, d.run(`window.fetch = real; 1`, nil))
	d.await(`document.querySelectorAll("[data-question]").length === 1`)
	d.quiet()
}

// send sends a request that a browser would not, and returns the status.
func send(t *testing.T, method, address string, header http.Header, form url.Values) (int, http.Header) {
	t.Helper()
	req, err := http.NewRequest(method, address, strings.NewReader(form.Encode()))
	must(t, err)
	req.Header = header
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	must(t, err)
	defer resp.Body.Close()
	return resp.StatusCode, resp.Header
}
