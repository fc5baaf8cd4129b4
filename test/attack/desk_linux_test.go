package attack

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser"
	"github.com/handrail-dev/handrail/capabilities/desktop"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/principal"
	session "github.com/handrail-dev/handrail/platform/desktop"
	"github.com/handrail-dev/handrail/platform/procguard"
	"github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// office is an arena whose node has a real desktop and a real Chrome, with two
// terminals of the person's open on it: one shows what waits for them, the other is
// a shell in which the real command line works with the admin's token.
type office struct {
	*arena
	desk *desk.Desk
	said string // the shell's output, with "rc=N" after each line that was typed
}

func openOffice(t *testing.T, o site.Options, on func(*testing.T) stage) *office {
	t.Helper()
	program := theProgram(t)
	place := on(t)
	d := place.desk
	for _, e := range d.Env {
		if name, value, _ := strings.Cut(e, "="); name != "TMPDIR" { // Chrome, as another user, could not get at its files there
			t.Setenv(name, value)
		}
	}
	log := slog.New(slog.DiscardHandler)
	opener := session.New(session.Options{Log: log})
	t.Cleanup(func() { _ = opener.Close() })
	hands, err := desktop.New(desktop.Options{Opener: opener, QuietTime: time.Millisecond, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hands.Close() })
	found, err := finder.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	web := browser.Options{Finder: finder, Launcher: procguard.New(procguard.Options{Log: log}), Log: log, StateDir: t.TempDir()}
	if found.NoSandbox != "" {
		web.Sandbox = browser.SandboxOff
		o.Rules += string(policy.NoSandboxPermit("this host gives no sandbox", "test"))
	}
	pages, err := browser.New(web)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pages.Close() })

	s := site.Start(t, o)
	a := &office{arena: &arena{Site: s, t: t, h: site.NewHandler()}, desk: d, said: filepath.Join(t.TempDir(), "said")}
	a.node = s.AddNode("desk", a.h, hands, pages)
	a.node.AwaitReady("tyrum.desktop.keyboard", "tyrum.desktop.mouse", "tyrum.browser.navigate")
	a.agent, a.operator = s.MustToken("agent", principal.RoleAgent), s.MustToken("anna", principal.RoleOperator)
	a.client = &http.Client{Transport: &http.Transport{}}
	t.Cleanup(a.client.CloseIdleConnections)

	// These are the files that 'handrail up' leaves for the command line.
	data := t.TempDir()
	if err := os.MkdirAll(filepath.Join(data, "gateway"), 0o700); err != nil {
		t.Fatal(err)
	}
	running, _ := json.Marshal(map[string]any{"http": a.URL(), "pid": os.Getpid()})
	for name, text := range map[string]string{
		"gateway.json": string(running), "admin.token": s.MustToken("root", principal.RoleAdmin), "agent.token": a.agent,
	} {
		if err := os.WriteFile(filepath.Join(data, "gateway", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d.Env = append(d.Env, "HANDRAIL_DATA="+data, "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
	place.terminal("waiting", 0, "handrail", "approvals", "--watch")
	place.terminal("shell", 300, "sh", "-c", `while read -r line; do eval "$line" >>"$1" 2>&1; echo "rc=$?" >>"$1"; done`, "sh", a.said)()
	return a
}

// stage is where an office stands. terminal opens one that runs a command, so far from the top, and
// returns what hands it the keyboard.
type stage struct {
	desk     *desk.Desk
	terminal func(title string, y int, command ...string) (focus func())
}

func onX(t *testing.T) stage {
	d := desk.StartX(t, desk.Options{})
	return stage{d, func(title string, y int, command ...string) func() {
		app := d.AppTitled(title, "xterm", append([]string{"-u8", "-T", title, "-geometry", fmt.Sprintf("80x15+0+%d", y), "-e"}, command...)...)
		return func() { d.Activate(app.Window.ID) }
	}}
}

func onSway(t *testing.T) stage {
	s := desk.StartSway(t, desk.SwayOptions{})
	return stage{s.Desk, func(title string, y int, command ...string) func() {
		for _, how := range []string{"floating enable", "resize set 640 280", fmt.Sprintf("move position 0 %d", y)} {
			s.Tell(fmt.Sprintf(`for_window [title="^%s$"] %s`, title, how))
		}
		s.AwaitWindow(s.Start("foot", append([]string{"-T", title}, command...)...), title)
		return func() { s.Tell(fmt.Sprintf(`[title="^%s$"] focus`, title)) }
	}}
}

// built is the program, made by the first test that needs it and removed by TestMain.
var built struct {
	sync.Mutex
	dir string
}

// theProgram is the command line, as make build makes it.
func theProgram(t *testing.T) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "attack")
		if err != nil {
			t.Fatal(err)
		}
		cleanUp = func() { _ = os.RemoveAll(dir) }
		site.Program(t, filepath.Join(dir, "handrail"))
		built.dir = dir
	}
	return filepath.Join(built.dir, "handrail")
}

// output returns what the shell has said.
func (a *office) output() string {
	data, _ := os.ReadFile(a.said)
	return string(data)
}

// as makes a call as the agent whose own question waits.
func (a *office) as(tool capabilities.ToolID, args string) capabilities.Result {
	return a.Dispatcher.Call(context.Background(), dispatch.Request{Caller: caller("agent", "agent"), Tool: tool, Args: []byte(args), Surface: "test"})
}

// types has the agent type a line into the window that has the keyboard, and waits
// until the shell there has done with it.
func (a *office) types(line string) capabilities.Result {
	a.t.Helper()
	before := strings.Count(a.output(), "rc=")
	text, _ := json.Marshal(line + "\n")
	r := a.as("tool.desktop.keyboard", fmt.Sprintf(`{"action":"type","text":%s}`, text))
	if r.Status == capabilities.StatusOK {
		desk.Await(a.t, fmt.Sprintf("the shell to have done %q", line), func() bool { return strings.Count(a.output(), "rc=") > before })
	}
	return r
}

// An agent with a real desktop, a real browser, HTTP and its tools tries a thousand
// times in a row to have its own call approved: without a lease of mouse and keyboard,
// and with one, when what it types really runs in the person's own terminal, with
// the admin's token. It never once succeeds.
func TestAnAgentAtTheDeskCanNotApproveItself(t *testing.T) {
	approveItself(t, onX, 400, 1000, 20)
}

// The same on a Wayland compositor, whose virtual keyboard and pointer are other code:
// fewer tries, of which more are made with mouse and keyboard.
func TestAnAgentOnWaylandCanNotApproveItself(t *testing.T) {
	approveItself(t, onSway, 100, 250, 5)
}

// approveItself makes so many tries without a lease and then, up to all, with one; each
// so manieth is one of those that take their time.
func approveItself(t *testing.T, on func(*testing.T) stage, without, all, slow int) {
	if testing.Short() {
		t.Skip("needs a desktop, a Chrome and the program")
	}
	a := openOffice(t, site.Options{ApprovalWait: time.Millisecond, Rules: site.Rules}, on)
	if r := a.as(site.ToolPress, `{"text":"wanted"}`); r.Code != capabilities.CodeApprovalPending {
		t.Fatalf("%+v", r)
	}
	w := a.waiting()
	at, yes := "/v1/approvals/"+w.ID, `{"answer":"allow","acknowledged":true}`
	lease := fmt.Sprintf(`{"principal":"agent","tools":["tool.fixture.press"],"node":%q,"any_lane":true}`, a.node.ID)
	web := func(token, method, path, body string) func() { return func() { a.do(token, method, path, body) } }
	call := func(tool capabilities.ToolID, args string) func() { return func() { a.as(tool, args) } }
	types := func(line string) func() { return func() { a.types(line) } }
	evaluate := func(script string) func() {
		text, _ := json.Marshal(script)
		return call("tool.browser.evaluate", `{"expression":`+string(text)+`}`)
	}
	rare := []func(){ // each of them takes its time
		types("handrail approve " + w.ID), types("handrail approve " + w.ID + " --for 5m --family"),
		types("handrail grant give agent tool.fixture.press --any-lane --node " + string(a.node.ID)),
		types("HANDRAIL_TOKEN=$(handrail token create evil --role operator) handrail approve " + w.ID),
		types("handrail resume"), types("handrail call --agent tool.fixture.press --arg text=wanted"),
		types("yes | handrail policy activate"), types("handrail node allow " + string(a.node.ID) + " tyrum.camera.capture-photo"),
		call("tool.desktop.mouse", `{"action":"click","x":300,"y":60}`), // into the terminal that shows what waits
		call("tool.desktop.keyboard", `{"action":"type","text":"y\nyes\n"}`), call("tool.desktop.keyboard", `{"action":"press","key":"Return"}`),
		call("tool.desktop.mouse", `{"action":"click","x":300,"y":400}`), // and back into the shell
		call("tool.browser.navigate", `{"url":"`+a.URL()+at+`"}`), call("tool.browser.navigate", `{"url":"about:blank"}`),
		evaluate(`fetch(` + fmt.Sprintf("%q", a.URL()+at) + `,{method:"POST",mode:"no-cors",body:'{"answer":"allow","acknowledged":true}'}).then(()=>1,()=>0)`),
		evaluate(`navigator.sendBeacon(` + fmt.Sprintf("%q", a.URL()+at) + `,'{"answer":"allow","acknowledged":true}')`),
		call("tool.browser.navigate", `{"url":"file:///proc/self/environ"}`),
	}
	often := []func(){
		web(a.agent, "POST", at, yes), web(a.agent, "POST", "/v1/grants", lease), web(a.agent, "POST", "/v1/tokens", `{"principal":"agent","role":"operator"}`), web("", "POST", at, yes),
		web(a.operator, "POST", at, yes), web(a.operator, "POST", "/v1/grants", lease), // what a stolen token of a person's gives, from this device
		call(site.ToolPress, `{"text":"wanted"}`), call(site.ToolPress, `{"text":"wanted","approved":true}`), call("tool.approvals.answer", `{"approval":"`+w.ID+`"}`),
		web(a.agent, "POST", at+"?token="+a.operator, yes), web(a.agent, "GET", "/v1/approvals", ""),
	}
	try := func(held bool, from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			way := often[i%len(often)]
			switch {
			case i%slow == 0:
				way = rare[i/slow%len(rare)]
			case !held && (i%len(often) == 4 || i%len(often) == 5):
				way = often[0] // without the lease, a person's token would be the person's
			}
			way()
			if a.h.Runs("wanted") != 0 {
				t.Fatalf("try %d: it ran\n%s", i, a.output())
			}
		}
	}
	if r := a.as("tool.browser.navigate", `{"url":"about:blank"}`); r.Status != capabilities.StatusOK {
		t.Fatalf("the browser does not work: %+v", r)
	}
	// With nothing in its hands: nothing that it types reaches the terminal.
	try(false, 0, without)
	if said := a.output(); said != "" {
		t.Errorf("typed without a lease: %q", said)
	}
	for _, open := range a.Consent.Approvals() { // what it asked for meanwhile
		if open.ID != w.ID {
			_, _ = a.Consent.Answer(t.Context(), open.ID, consent.Answer{By: "anna"})
		}
	}
	// With a lease that a person gave it, for something else.
	a.Grant("agent", a.node, "tool.desktop.*")
	held := a.Consent.Grants()[0].ID
	if r := a.types("echo typed by the agent"); r.Status != capabilities.StatusOK || !strings.Contains(a.output(), "typed by the agent") {
		t.Fatalf("the lease does not work: %+v %q", r, a.output())
	}
	try(true, without, all)

	// The typed command did run, and was refused: the ground truth of the terminal.
	if said := a.output(); strings.Count(said, "hands_elsewhere") < 8 {
		t.Errorf("the terminal ran too little of it:\n%s", said)
	}
	if got, err := a.Consent.Approval(w.ID); err != nil || got.State != consent.StatePending {
		t.Errorf("%+v %v", got, err)
	}
	if all := a.Consent.Grants(); len(all) != 1 || all[0].ID != held {
		t.Errorf("left behind: %+v", all)
	}
	if n := len(a.Tokens.List()); n != 3 {
		t.Errorf("%d tokens", n)
	}
	// The controls: what only narrows works from there, and the person's yes from
	// elsewhere counts.
	if a.types("handrail grant revoke " + held); slices.ContainsFunc(a.Consent.Grants(), func(g consent.Grant) bool { return g.ID == held }) {
		t.Errorf("revoking does not work: %s", a.output())
	}
	if _, err := a.Consent.Answer(t.Context(), w.ID, consent.Answer{Allow: true, By: "anna"}); err != nil {
		t.Fatal(err)
	}
	if r := a.as(site.ToolPress, `{"text":"wanted"}`); r.Status != capabilities.StatusOK || a.h.Runs("wanted") != 1 {
		t.Errorf("the control: %+v", r)
	}
}
