package owner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

func mustCatalog(t testing.TB) *catalog.Catalog {
	t.Helper()
	cat, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	return cat
}

// noon is a Wednesday.
var noon = time.Date(2026, 11, 18, 12, 0, 0, 0, time.Local)

func mustRules(t testing.TB, text string, roots ...string) *Rules {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, FileName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Open(Options{Dir: dir, Catalog: mustCatalog(t), Roots: roots, Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func request(tool capabilities.ToolID, args string) policy.Request {
	return policy.Request{
		Principal: "alice", Tool: tool, Node: policy.Node{ID: "n1"}, Lane: "l", Args: []byte(args),
		Given: capabilities.ClassSession, Time: noon, Granted: true,
	}
}

func TestWhatTheOwnerSays(t *testing.T) {
	docs := t.TempDir()
	taxes := filepath.Join(docs, "taxes")
	if err := os.MkdirAll(taxes, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(taxes, "2026.pdf"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(taxes, "2026.pdf"), filepath.Join(docs, "innocent.pdf")); err != nil {
		t.Log(err) // a system without links
	}
	upload := func(path string) string { return `{"paths":["ok.txt",` + quote(path) + `]}` }
	rules := func(part string) string { return `{"version":1,` + part + `}` }
	never := `"never":[` + quote(taxes) + `]`
	tests := []struct {
		name, file string
		tool       capabilities.ToolID
		args       string
		want       policy.Effect
	}{
		{"nothing said", `{"version":1}`, "tool.desktop.mouse", `{}`, policy.Allow},
		{"a family never", rules(`"capabilities":{"desktop":"never"}`), "tool.desktop.mouse", `{}`, policy.Deny},
		{"one asks", rules(`"capabilities":{"desktop.mouse":"ask"}`), "tool.desktop.mouse", `{}`, policy.Ask},
		{"the longer name wins", rules(`"capabilities":{"desktop":"never","desktop.screenshot":"allow"}`), "tool.desktop.screenshot", `{}`, policy.Allow},
		{"default", rules(`"default":"ask"`), "tool.browser.click", `{"ref":"e1"}`, policy.Ask},
		{"default and named", rules(`"default":"never","capabilities":{"browser":"allow"}`), "tool.browser.click", `{"ref":"e1"}`, policy.Allow},
		{"a host never", rules(`"domains":{"never":["bank.example"]}`), "tool.browser.navigate", `{"url":"https://BANK.example./x"}`, policy.Deny},
		{"below it is another", rules(`"domains":{"never":["bank.example"]}`), "tool.browser.navigate", `{"url":"https://a.bank.example/"}`, policy.Allow},
		{"with all below", rules(`"domains":{"never":["*.bank.example"]}`), "tool.browser.navigate", `{"url":"https://a.bank.example/"}`, policy.Deny},
		{"the domain itself", rules(`"domains":{"never":["*.bank.example"]}`), "tool.browser.tabs", `{"action":"new","url":"https://bank.example/"}`, policy.Deny},
		{"no look-alike", rules(`"domains":{"never":["*.bank.example"]}`), "tool.browser.navigate", `{"url":"https://notbank.example/"}`, policy.Allow},
		{"a host asks", rules(`"domains":{"ask":["*.example"]}`), "tool.browser.navigate", `{"url":"https://a.example/"}`, policy.Ask},
		{"only these", rules(`"domains":{"only":["a.example"]}`), "tool.browser.navigate", `{"url":"https://b.example/"}`, policy.Deny},
		{"only these, this one", rules(`"domains":{"only":["a.example"]}`), "tool.browser.navigate", `{"url":"https://a.example/"}`, policy.Allow},
		{"an empty page", rules(`"domains":{"only":["a.example"]}`), "tool.browser.navigate", `{"url":"about:blank"}`, policy.Allow},
		{"in other letters", rules(`"domains":{"never":["bücher.example"]}`), "tool.browser.navigate", `{"url":"https://xn--bcher-kva.example/"}`, policy.Deny},
		{"an application", rules(`"apps":{"never":["KeePassXC"]}`), "tool.desktop.act", `{"action":{"kind":"launch","app":"/usr/bin/keepassxc"}}`, policy.Deny},
		{"as a desktop entry", rules(`"apps":{"ask":["keepassxc"]}`), "tool.desktop.act", `{"action":{"kind":"launch","app":"KeePassXC.desktop"}}`, policy.Ask},
		{"read by name", rules(`"apps":{"never":["keepassxc"]}`), "tool.desktop.snapshot", `{"app":"KeePassXC"}`, policy.Deny},
		{"only this application", rules(`"apps":{"only":["gedit"]}`), "tool.desktop.act", `{"action":{"kind":"launch","app":"xterm"}}`, policy.Deny},
		{"no application named", rules(`"apps":{"only":["gedit"]}`), "tool.desktop.act", `{"action":{"kind":"click"},"target":"e1"}`, policy.Allow},
		{"a folder", rules(`"folders":{` + never + `}`), "tool.browser.upload-file", upload(filepath.Join(taxes, "2026.pdf")), policy.Deny},
		{"by the way up", rules(`"folders":{` + never + `}`), "tool.browser.upload-file", upload(filepath.Join(docs, "x", "..", "taxes", "a")), policy.Deny},
		{"relative", rules(`"folders":{` + never + `}`), "tool.browser.upload-file", upload("taxes/2026.pdf"), policy.Deny},
		{"another", rules(`"folders":{` + never + `}`), "tool.browser.upload-file", upload("taxes2/2026.pdf"), policy.Allow},
		{"a file address", rules(`"folders":{` + never + `}`), "tool.browser.navigate", `{"url":` + quote("FILE://"+strings.ReplaceAll(filepath.ToSlash(taxes), "t", "%74")+"/2026.pdf") + `}`, policy.Deny},
		{"only a folder", rules(`"folders":{"only":[` + quote(taxes) + `]}`), "tool.browser.upload-file", `{"paths":[` + quote(filepath.Join(docs, "a")) + `]}`, policy.Deny},
		{"quiet", rules(`"quiet_hours":[{"from":"11:00","to":"13:00"}]`), "tool.browser.click", `{"ref":"e1"}`, policy.Deny},
		{"quiet for others", rules(`"quiet_hours":[{"from":"11:00","to":"13:00","capabilities":["desktop"]}]`), "tool.browser.click", `{"ref":"e1"}`, policy.Allow},
		{"quiet asks", rules(`"quiet_hours":[{"from":"11:00","to":"13:00","mode":"ask","capabilities":["browser.click"]}]`), "tool.browser.click", `{"ref":"e1"}`, policy.Ask},
		{"a camera never, live", rules(`"capabilities":{"camera":"never"}`), "tool.live.camera", `{}`, policy.Deny},
		{"a camera asks, live", rules(`"capabilities":{"camera":"ask"}`), "tool.live.camera", `{}`, policy.Ask},
		{"a microphone never, live", rules(`"capabilities":{"audio":"never"}`), "tool.live.microphone", `{}`, policy.Deny},
		{"a microphone asks, live", rules(`"capabilities":{"audio":"ask"}`), "tool.live.microphone", `{}`, policy.Ask},
		{"neither is the other", rules(`"capabilities":{"audio":"never"}`), "tool.live.camera", `{}`, policy.Allow},
		{"nor the screen", rules(`"capabilities":{"camera":"never","audio":"never"}`), "tool.live.screen", `{}`, policy.Allow},
		{"nothing live, though cameras are allowed", rules(`"capabilities":{"live":"never","camera":"allow"}`), "tool.live.camera", `{}`, policy.Deny},
		{"live is allowed, cameras are not", rules(`"default":"never","capabilities":{"live":"allow"}`), "tool.live.camera", `{}`, policy.Deny},
		{"a camera live, not otherwise", rules(`"capabilities":{"live.camera":"allow","camera":"ask"}`), "tool.live.camera", `{}`, policy.Ask},
		{"quiet for cameras", rules(`"quiet_hours":[{"from":"11:00","to":"13:00","capabilities":["camera"]}]`), "tool.live.camera", `{}`, policy.Deny},
		{"quiet for microphones asks", rules(`"quiet_hours":[{"from":"11:00","to":"13:00","mode":"ask","capabilities":["audio"]}]`), "tool.live.microphone", `{}`, policy.Ask},
		{"quiet for cameras, not the screen", rules(`"quiet_hours":[{"from":"11:00","to":"13:00","capabilities":["camera"]}]`), "tool.live.screen", `{}`, policy.Allow},
		{"not that day", rules(`"quiet_hours":[{"from":"11:00","to":"13:00","days":["tue"]}]`), "tool.browser.click", `{"ref":"e1"}`, policy.Allow},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := mustRules(t, tt.file, docs)
			d := r.Judge(request(tt.tool, tt.args))
			if d.Effect != tt.want {
				t.Errorf("%s (%s), want %s", d.Effect, d.Reason, tt.want)
			}
		})
	}
	if _, err := os.Readlink(filepath.Join(docs, "innocent.pdf")); err == nil {
		r := mustRules(t, rules(`"folders":{`+never+`}`), docs)
		if d := r.Judge(request("tool.browser.upload-file", upload("innocent.pdf"))); d.Effect != policy.Deny {
			t.Errorf("a link leads there: %s", d.Effect)
		}
	}
}

func quote(s string) string { return `"` + strings.ReplaceAll(s, `\`, `\\`) + `"` }

func TestQuietHours(t *testing.T) {
	at := func(day, hour, minute int) time.Time {
		return time.Date(2026, 11, 15+day, hour, minute, 0, 0, time.UTC)
	} // day 0: Sunday
	for _, tt := range []struct {
		q    Quiet
		at   time.Time
		want bool
	}{
		{Quiet{From: "22:00", To: "07:00"}, at(1, 23, 0), true},
		{Quiet{From: "22:00", To: "07:00"}, at(1, 6, 59), true},
		{Quiet{From: "22:00", To: "07:00"}, at(1, 7, 0), false},
		{Quiet{From: "22:00", To: "07:00"}, at(1, 21, 59), false},
		{Quiet{From: "22:00", To: "07:00", Days: []string{"fri"}}, at(6, 3, 0), true},  // Saturday morning
		{Quiet{From: "22:00", To: "07:00", Days: []string{"fri"}}, at(5, 3, 0), false}, // Friday morning
		{Quiet{From: "00:00", To: "00:00", Days: []string{"sun"}}, at(0, 23, 59), true},
		{Quiet{From: "00:00", To: "00:00", Days: []string{"sun"}}, at(1, 0, 0), false},
		{Quiet{From: "12:00", To: "12:00", Days: []string{"sun"}}, at(1, 11, 59), true},
		{Quiet{From: "09:00", To: "17:00", Days: []string{"mon"}}, at(1, 9, 0), true},
		{Quiet{From: "09:00", To: "17:00", Days: []string{"mon"}}, at(1, 17, 0), false},
	} {
		if err := tt.q.read("q"); err != nil {
			t.Fatal(err)
		}
		if tt.q.active(tt.at) != tt.want {
			t.Errorf("%s to %s on %v, at %s: %v", tt.q.From, tt.q.To, tt.q.Days, tt.at.Format("Mon 15:04"), !tt.want)
		}
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		``:                          "owner.json",
		`{}`:                        "version is 0",
		`{"version":2}`:             "version is 2",
		`{"version":1} x`:           "owner.json",
		`{"version":1,"versoin":1}`: "versoin",
		`{"version":1,"default":"allow","default":"never"}`:                          "owner.json",
		`{"version":1,"default":"nevr"}`:                                             `"nevr"`,
		`{"version":1,"capabilities":{"brwser":"never"}}`:                            "brwser",
		`{"version":1,"capabilities":{"mouse":"never"}}`:                             "did you mean desktop.mouse",
		`{"version":1,"capabilities":{"browser":""}}`:                                "browser",
		`{"version":1,"domains":{"never":["https://a.b/"]}}`:                         "domains.never[0]",
		`{"version":1,"domains":{"only":["a\" || true"]}}`:                           "domains.only[0]",
		`{"version":1,"folders":{"never":["Documents"]}}`:                            "absolute",
		`{"version":1,"apps":{"never":[""]}}`:                                        "apps.never[0]",
		`{"version":1,"quiet_hours":[{"from":"25:00"}]}`:                             "25:00",
		`{"version":1,"quiet_hours":[{"from":"22:00","to":"07:00","mode":"allow"}]}`: "ask or never",
		`{"version":1,"quiet_hours":[{"from":"22:00","to":"07:00","days":["Mon"]}]}`: `"Mon"`,
	} {
		if f, err := Parse([]byte(text), mustCatalog(t)); err == nil || f != nil || !strings.Contains(capabilities.AsError(err).PublicMessage(), want) {
			t.Errorf("%s: %v, want %q in it", text, err, want)
		}
	}
}

// A good file takes the place of the one in force, a bad one does not.
func TestReload(t *testing.T) {
	r := mustRules(t, `{"version":1}`)
	path := filepath.Join(r.opts.Dir, FileName)
	effect := func() policy.Effect { return r.Judge(request("tool.desktop.mouse", `{}`)).Effect }
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(r.opts.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if changed, err := r.Reload(); changed || err != nil {
		t.Fatal(changed, err)
	}
	write(FileName, `{"version":1,"capabilities":{"desktop":"never"}}`)
	if changed, err := r.Reload(); !changed || err != nil || effect() != policy.Deny {
		t.Fatal(changed, err, effect())
	}
	id := r.ID()
	write(FileName, `{"version":1,"capabilities":{"desktop":"nevr"}}`)
	if changed, err := r.Reload(); changed || err == nil || effect() != policy.Deny {
		t.Fatal(changed, err, effect())
	}
	if _, err := r.Reload(); err != nil || r.ID() != id {
		t.Errorf("said twice: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if changed, err := r.Reload(); changed || err == nil || effect() != policy.Deny {
		t.Error("a file that is gone changed the rules")
	}
	write(FileName, `{"version":1}`)
	write("owner-mine.cedar", `forbid (principal, action in Action::"family:desktop", resource);`)
	if changed, err := r.Reload(); !changed || err != nil || effect() != policy.Deny {
		t.Fatal(changed, err, effect())
	}
	write("owner-mine.cedar", `forbid (principal, action in Action::"family:nothing", resource);`)
	if changed, err := r.Reload(); changed || err == nil || effect() != policy.Deny {
		t.Fatal(changed, err, effect())
	}
}

// An owner's extra file counts wherever the folder lies: a path with brackets is
// no pattern.
func TestRulesInAnyFolder(t *testing.T) {
	for _, name := range []string{"node", "node[1]", "no*de", `no?de`} {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Skip(err) // a name this system does not take
		}
		forbid := []byte(`forbid (principal, action == Action::"tool.browser.evaluate", resource);`)
		if err := os.WriteFile(filepath.Join(dir, "owner-mine.cedar"), forbid, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Open(Options{Dir: dir, Catalog: mustCatalog(t)})
		if err != nil {
			t.Fatal(err)
		}
		evaluate, snapshot := r.Judge(request("tool.browser.evaluate", `{}`)), r.Judge(request("tool.browser.snapshot", `{}`))
		if evaluate.Effect != policy.Deny || snapshot.Effect != policy.Allow {
			t.Errorf("%s: evaluate %s, snapshot %s", name, evaluate.Effect, snapshot.Effect)
		}
	}
}

// A rule of a device that looks at what only the gateway counts is refused: it would never hold.
func TestCountsAreTheGateways(t *testing.T) {
	dir := t.TempDir()
	rule := []byte(`forbid (principal, action, resource) when { context.calls_last_hour >= 5 };`)
	if err := os.WriteFile(filepath.Join(dir, CedarName), rule, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: dir, Catalog: mustCatalog(t)}); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
		t.Errorf("%v", err)
	}
}

func TestSettingSaysWhy(t *testing.T) {
	r := mustRules(t, `{"version":1,"capabilities":{"desktop.mouse":"never","browser":"ask"},"quiet_hours":[{"from":"11:00","to":"13:00","capabilities":["camera"]}]}`)
	for tool, want := range map[capabilities.ToolID]Mode{
		"tool.desktop.mouse": ModeNever, "tool.browser.click": ModeAsk, "tool.camera.capture-photo": ModeNever, "tool.live.camera": ModeNever, "tool.live.microphone": ModeAllow, "tool.desktop.keyboard": ModeAllow,
	} {
		if m, why := r.Setting(tool); m != want || (why == "") != (m == ModeAllow) {
			t.Errorf("%s: %s, %q", tool, m, why)
		}
	}
}

// The output of 'handrail node rules' has the rules of owner.cedar, too.
func TestSays(t *testing.T) {
	dir := t.TempDir()
	cedar := string(policy.DefaultOwnerSource()) + `
@id("mine") forbid (principal, action == Action::"tool.browser.evaluate", resource);
@id("ask-me") forbid (principal, action == Action::"tool.browser.click", resource) unless { context.consent };
@id("no-wiki") forbid (principal, action == Action::"tool.browser.navigate", resource) when { context.args has host && context.args.host == "wiki" };
@id("not-bob") forbid (principal == Agent::"bob", action == Action::"tool.browser.hover", resource);
`
	for name, text := range map[string]string{CedarName: cedar, FileName: `{"version":1,"capabilities":{"browser.type":"never","browser.hover":"ask"}}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Open(Options{Dir: dir, Catalog: mustCatalog(t)})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		tool capabilities.ToolID
		mode Mode
		why  string
	}{
		{"tool.browser.evaluate", ModeNever, "owner.cedar: mine"},
		{"tool.browser.click", ModeAsk, "owner.cedar: ask-me"},
		{"tool.browser.navigate", ModeAllow, "of some calls owner.cedar: no-wiki"},
		{"tool.browser.hover", ModeAsk, "the owner is asked each time; of some calls owner.cedar: not-bob"},
		{"tool.browser.type", ModeNever, "the owner has switched it off"},
		{"tool.browser.snapshot", ModeAllow, ""},
		{"tool.desktop.mouse", ModeAllow, ""},
	} {
		if m, why := r.Says(tt.tool); m != tt.mode || why != tt.why {
			t.Errorf("%s: %s %q, want %s %q", tt.tool, m, why, tt.mode, tt.why)
		}
	}
}
