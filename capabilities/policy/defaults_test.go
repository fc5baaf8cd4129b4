package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

func defaultEngine(t testing.TB, more ...Source) *Engine {
	t.Helper()
	e, err := Load(append([]Source{{Name: DefaultName, Data: DefaultSource()}}, more...), testCatalog(t))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// These are the sentences of docs/policy.md about the default.
func TestShippedDefault(t *testing.T) {
	e := defaultEngine(t)
	open := func(url string) string { return `{"url":"` + url + `"}` }
	for _, c := range []struct {
		tool  capabilities.ToolID
		args  string
		given capabilities.IsolationClass
		want  Effect
	}{
		{"tool.node.list", `{}`, "", Allow},

		{"tool.browser.navigate", open("https://example.com/"), "t2", Allow},
		{"tool.browser.navigate", open("http://93.184.215.14:8080/"), "t2", Allow},
		{"tool.browser.navigate", open("about:blank"), "t2", Allow},
		{"tool.browser.navigate", open("data:text/html,<p>hi"), "t2", Allow},
		{"tool.browser.navigate", open("http://localhost:3000/"), "t2", Deny},
		{"tool.browser.navigate", open("http://127.0.0.1/"), "t2", Deny},
		{"tool.browser.navigate", open("http://2130706433/"), "t2", Deny},
		{"tool.browser.navigate", open("http://[::1]/"), "t2", Deny},
		{"tool.browser.navigate", open("http://192.168.1.1/"), "t2", Deny},
		{"tool.browser.navigate", open("http://printer/"), "t2", Deny},
		{"tool.browser.navigate", open("http://nas.local/"), "t2", Deny},
		{"tool.browser.navigate", open("http://169.254.1.1/"), "t2", Deny},
		{"tool.browser.navigate", open("http://169.254.169.254/latest/"), "t2", Deny},
		{"tool.browser.navigate", open("http://metadata.google.internal/"), "t2", Deny},
		{"tool.browser.navigate", open("file:///etc/passwd"), "t2", Deny},
		{"tool.browser.navigate", open("chrome://settings"), "t2", Deny},
		{"tool.browser.navigate", open("about:settings"), "t2", Deny},
		{"tool.browser.navigate", open("javascript:alert(1)"), "t2", Deny},
		{"tool.browser.navigate", open("view-source:http://127.0.0.1/"), "t2", Deny},
		{"tool.browser.navigate", open("ftp://example.com/"), "t2", Deny},
		{"tool.browser.navigate", open("wss://example.com/"), "t2", Deny},
		{"tool.browser.navigate", open("https://example.com/"), "t1", Deny},
		{"tool.browser.navigate", open("https://example.com/"), "session", Ask},
		{"tool.browser.tabs", `{"action":"list"}`, "t2", Allow},
		{"tool.browser.tabs", `{"action":"new","url":"https://example.com/"}`, "t2", Allow},
		{"tool.browser.tabs", `{"action":"new","url":"http://10.0.0.1/"}`, "t2", Deny},
		{"tool.browser.tabs", `{}`, "session", Ask},
		{"tool.browser.launch", `{}`, "t2", Allow},
		{"tool.browser.launch", `{"headless":true}`, "t2", Allow},
		{"tool.browser.launch", `{"headless":false}`, "t2", Ask},
		{"tool.browser.launch", `{"profile":"shop","storage_state":"shop"}`, "t2", Allow},
		{"tool.browser.launch", `{"attach":false}`, "t2", Allow},
		{"tool.browser.launch", `{"attach":true}`, "t2", Ask},
		{"tool.browser.launch", `{"attach":true,"headless":true}`, "t2", Ask},
		{"tool.browser.snapshot", `{}`, "t2", Allow},
		{"tool.browser.click", `{"ref":"e1"}`, "t2", Allow},
		{"tool.browser.type", `{"ref":"e1","text":"x"}`, "t2", Allow},
		{"tool.browser.screenshot", `{}`, "t2", Allow},
		{"tool.browser.evaluate", `{"expression":"1"}`, "t2", Allow},
		{"tool.browser.close", `{}`, "t2", Allow},
		{"tool.browser.click", `{"ref":"e1"}`, "session", Ask},
		{"tool.browser.upload-file", `{"selector":"i","paths":["/etc/passwd"]}`, "t2", Ask},

		{"tool.desktop.screenshot", `{"display":"primary"}`, "session", Ask},
		{"tool.desktop.mouse", `{"action":"move","x":1,"y":1}`, "session", Ask},
		{"tool.camera.capture-photo", `{}`, "session", Ask},
		{"tool.audio.record", `{}`, "session", Ask},
		{"tool.location.get", `{}`, "session", Ask},
		{"tool.secret.copy-to-node-clipboard", `{"secret_alias":"a"}`, "session", Ask},
	} {
		r := request(c.tool, c.args)
		r.Given = c.given
		if got := e.Decide(r); got.Effect != c.want {
			t.Errorf("%s %s on %q: got %s (%s), want %s", c.tool, c.args, c.given, got.Effect, got.Reason, c.want)
		}
	}
	// Every tool a browser node may offer has been thought about.
	for _, d := range testCatalog(t).All() {
		r := request(d.Tool, "")
		if d.Surface != "" { // an admin's own work is nobody's call
			if e.Possible(r).Effect != Deny {
				t.Errorf("%s: an agent could call it", d.Tool)
			}
			continue
		}
		if d.Tool.Family() != "browser" && d.Tool.Family() != "node" {
			r.Given = e.Profile(d.Tool).Class()
		}
		if d.Tool.Family() == "provider" { // by admins alone
			if e.Possible(r).Effect != Deny {
				t.Errorf("%s: an agent could manage providers", d.Tool)
			}
			r.Role, r.User = "admin", true
		}
		if e.Possible(r).Effect == Deny {
			t.Errorf("%s: the shipped policy says nothing about it", d.Tool)
		}
	}
}

// Nobody watches or records a screen without a person's word, an admin the machine of the
// gateway neither: the owner's own act is that word where they are there.
func TestOwnScreen(t *testing.T) {
	e := defaultEngine(t)
	for _, c := range []struct {
		who, role, trust string
		tool             capabilities.ToolID
		want             Effect
	}{
		{"admin", "admin", "local", "tool.live.screen", Ask},
		{"admin", "admin", "local", "tool.live.record", Ask},
		{"ann", "admin", "local", "tool.live.screen", Ask},
		{"admin", "admin", "trusted", "tool.live.screen", Ask},
		{"admin", "admin", "", "tool.live.record", Ask},
		{"admin", "admin", "Local", "tool.live.record", Ask},
		{"admin", "admin", "local", "tool.live.camera", Ask},
		{"admin", "admin", "local", "tool.live.microphone", Ask},
		{"admin", "admin", "local", "tool.live.control", Ask},
		{"admin", "admin", "local", "tool.desktop.screenshot", Ask},
		{"admin", "admin", "local", "tool.desktop.mouse", Ask},
		{"admin", "operator", "local", "tool.live.screen", Ask},
		{"ann", "operator", "local", "tool.live.record", Ask},
		{"admin", "agent", "local", "tool.live.screen", Ask},
		{"admin", "agent", "local", "tool.live.record", Ask},
	} {
		r := request(c.tool, `{}`)
		r.Principal, r.Role, r.User, r.Node.Trust, r.Given = capabilities.PrincipalID(c.who), c.role, IsUser(c.role), c.trust, capabilities.ClassSession
		if got := e.Decide(r); got.Effect != c.want {
			t.Errorf("%s as %s, trust %q, %s: %s (%s), want %s", c.who, c.role, c.trust, c.tool, got.Effect, got.Reason, c.want)
		}
	}
}

// A reader gets a comment before every rule and an ID to look it up by.
func TestShippedFilesAreReadable(t *testing.T) {
	owner, err := Load([]Source{{Name: OwnerName, Data: DefaultOwnerSource()}}, testCatalog(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []*Engine{defaultEngine(t), owner} {
		for _, r := range e.rules {
			lines := strings.Split(string(e.sources[0].Data), "\n")
			if strings.Contains(string(r.id), "#") {
				t.Errorf("%s:%d has no @id", r.source, r.line)
			}
			if before := lines[r.line-2]; !strings.HasPrefix(before, "//") {
				t.Errorf("%s:%d has no comment before it, but %q", r.source, r.line, before)
			}
		}
	}
}

func TestOriginPermit(t *testing.T) {
	const origin = "http://127.0.0.1:8765"
	text, err := OriginPermit(origin, "Added by a test.\nforbid (principal, action, resource);")
	if err != nil {
		t.Fatal(err)
	}
	e := defaultEngine(t, Source{Name: "demo.cedar", Data: text})
	for url, want := range map[string]Effect{
		origin + "/page?x=1":             Allow,
		"http://127.1:8765/":             Allow, // the same place, spelled otherwise
		"http://user@0x7f000001:8765/":   Allow,
		"http://127.0.0.1:8766/":         Deny,
		"https://127.0.0.1:8765/":        Deny,
		"http://127.0.0.1/":              Deny,
		"http://localhost:8765/":         Deny,
		"http://127.0.0.2:8765/":         Deny,
		"http://example.com/#" + origin:  Allow,
		"http://10.0.0.1/?" + origin:     Deny,
		"http://127.0.0.1:8765@10.0.0.1": Deny,
	} {
		r := request("tool.browser.navigate", `{"url":"`+url+`"}`)
		if got := e.Decide(r); got.Effect != want {
			t.Errorf("%s: %s", url, got.Effect)
		}
		r.Given = capabilities.ClassSession
		if got := e.Decide(r); got.Effect == Allow {
			t.Errorf("%s in a person's session: %s", url, got.Effect)
		}
	}
	r := request("tool.browser.navigate", `{"url":"`+origin+`/"}`)
	text, err = OriginPermitUntil(origin, "For a while.", r.Time.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	e = defaultEngine(t, Source{Name: "demo.cedar", Data: text})
	for after, want := range map[time.Duration]Effect{0: Allow, 59 * time.Second: Allow, time.Minute: Deny, 24 * time.Hour: Deny} {
		late := r
		if late.Time = r.Time.Add(after); e.Decide(late).Effect != want {
			t.Errorf("after %s: not %s", after, want)
		}
	}
	for _, bad := range []string{"", "127.0.0.1:1", "http://", "http://x/path", "http://127.1:80", "https://EXAMPLE.com", "about:blank", "ws://x", `http://x"y`, "http://u@x"} {
		if text, err := OriginPermit(bad, ""); err == nil {
			t.Errorf("%q was taken:\n%s", bad, text)
		}
	}
	if _, err := OriginPermit("http://[::1]:9000", "v6"); err != nil {
		t.Error(err)
	}
	// However long its name is and for whatever reason, an origin's rule has an ID of its own.
	long := "http://" + strings.Repeat("a", 60) + ".test"
	var files []Source
	for i, o := range []struct{ origin, why string }{{long + ":1", "x"}, {long + ":2", "x"}, {long + ":1", "y"}} {
		text, err := OriginPermit(o.origin, o.why)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, Source{Name: fmt.Sprintf("%d.cedar", i), Data: text})
	}
	defaultEngine(t, files...)
}

// A file's comment is one line that reads as what it is, whatever stands in it.
func TestCommentsReadAsTheyAre(t *testing.T) {
	const why = "for\n\u202egnp.exe\u202c, a\u200bb\x1b[1m\u2028permit \U000e0041\xff"
	origin, err := OriginPermit("http://127.0.0.1:8765", why)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(origin), string(NoSandboxPermit(why, "local"))} {
		first, _, _ := strings.Cut(text, "\n")
		if want := `// for \u{202e}gnp.exe\u{202c}, a\u{200b}b\u{1b}[1m\u{2028}permit \u{e0041}\xff`; first != want {
			t.Errorf("the comment is %q, want %q", first, want)
		}
	}
	if got := comment(strings.Repeat("ä", 300)); got != strings.Repeat("ä", 150) {
		t.Errorf("a long one is %d bytes: %q", len(got), got)
	}
}

func TestNoSandboxPermit(t *testing.T) {
	r := request("tool.browser.navigate", `{"url":"https://example.com/"}`)
	r.Given, r.Degraded = capabilities.ClassT1, "chrome_sandbox"
	if got := defaultEngine(t).Decide(r); got.Code != capabilities.CodeIsolationUnavailable {
		t.Fatalf("without the file: %+v", got)
	}
	e := defaultEngine(t, Source{Name: "no-sandbox.cedar", Data: NoSandboxPermit("This host has no user namespaces.", r.Node.Trust)})
	if got := e.Decide(r); got.Effect != Allow || strings.Join(got.Determining, " ") != "browser-open accept-chrome-without-sandbox" {
		t.Fatalf("with the file: %+v", got)
	}
	elsewhere := r
	elsewhere.Node.ID, elsewhere.Node.Trust = "n2", "owned"
	if got := e.Decide(elsewhere); got.Code != capabilities.CodeIsolationUnavailable {
		t.Fatalf("another device: %+v", got)
	}
	r.Args = []byte(`{"url":"http://10.0.0.1/"}`)
	if got := e.Decide(r); got.Effect != Deny {
		t.Fatalf("it permits more than it says: %+v", got)
	}
	r.Degraded = "landlock"
	if got := e.Decide(r); got.Effect != Deny {
		t.Fatalf("another lack: %+v", got)
	}
}

// The shipped owner's file narrows nothing but what always asks.
func TestShippedOwner(t *testing.T) {
	e, err := Load([]Source{{Name: OwnerName, Data: DefaultOwnerSource()}}, testCatalog(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range testCatalog(t).All() {
		if d.Surface != "" { // no device has a part in it
			continue
		}
		r := request(d.Tool, "")
		r.Given, r.Degraded = capabilities.ClassT1, "chrome_sandbox"
		want := Allow
		if Privileged(d.Manifest.Keys()) || d.Defaults.RequiresApproval {
			want = Ask
		}
		if got := e.Decide(r); got.Effect != want {
			t.Errorf("%s: %+v", d.Tool, got)
		}
	}
}
