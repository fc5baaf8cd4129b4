package owner

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

var (
	someModes = rapid.SampledFrom([]Mode{ModeAllow, ModeAsk, ModeNever})
	someNames = rapid.SampledFrom([]string{"browser", "desktop", "camera", "live", "browser.navigate", "browser.tabs", "browser.upload-file", "desktop.mouse", "desktop.act"})
	someHosts = rapid.SampledFrom([]string{"a.example", "*.example", "*.a.example", "127.0.0.1", "::1", "bücher.example", "b.example"})
	someApps  = rapid.SampledFrom([]string{"gedit", "KeePassXC", "/usr/bin/xterm", `we"ird\name`})
	someDirs  = rapid.SampledFrom([]string{"/home/a", "/home/a/secret", "/srv", "/"})
	someCalls = []policy.Request{
		request("tool.browser.navigate", `{"url":"https://a.example/"}`), request("tool.browser.navigate", `{"url":"http://x.a.example:81/"}`),
		request("tool.browser.navigate", `{"url":"about:blank"}`), request("tool.browser.navigate", `{"url":"http://[::1]/"}`),
		request("tool.browser.navigate", `{"url":"http://127.1/"}`), request("tool.browser.navigate", `{"url":"file:///home/a/secret/x"}`),
		request("tool.browser.tabs", `{"action":"list"}`), request("tool.browser.tabs", `{"action":"new","url":"https://b.example/"}`),
		request("tool.browser.click", `{"ref":"e1"}`), request("tool.desktop.mouse", `{"action":"click","x":1,"y":1}`),
		request("tool.desktop.act", `{"action":{"app":"gedit","kind":"launch"}}`), request("tool.desktop.act", `{"action":{"app":"keepassxc","kind":"launch"}}`),
		request("tool.desktop.snapshot", `{"app":"xterm"}`), request("tool.camera.capture-photo", `{}`), request("tool.live.camera", `{}`),
		request("tool.browser.upload-file", `{"paths":["/home/a/secret/x","/home/a/y"]}`), request("tool.browser.upload-file", `{"paths":["x"]}`),
		request("tool.browser.navigate", `{"url":7}`), request("tool.no.such", `{}`), request("tool.node.list", `{}`),
	}
	someCedar = []string{
		"", "permit (principal, action, resource);\n", "permit (principal, action, resource) when { context.consent };\n",
		`permit (principal == Agent::"alice", action in Action::"family:browser", resource);` + "\n",
		`forbid (principal, action == Action::"tool.desktop.mouse", resource);` + "\n",
		`forbid (principal, action in Action::"family:desktop", resource) unless { context.consent };` + "\n",
		`permit (principal, action in [Action::"tool.browser.navigate"], resource) when { context.args has host && context.args.host like "*.example" };` + "\n",
	}
)

func catalogOf(t *rapid.T) *catalog.Catalog {
	cat, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	return cat
}

var loaderOnce = sync.OnceValues(func() (*policy.Loader, error) {
	cat, err := catalog.Embedded()
	if err != nil {
		return nil, err
	}
	return policy.NewLoader(cat)
})

func loaderOf(t *rapid.T) *policy.Loader {
	l, err := loaderOnce()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func drawList(t *rapid.T, of *rapid.Generator[string], name string) []string {
	return rapid.SliceOfN(of, 0, 2).Draw(t, name)
}

func drawLimits(t *rapid.T, of *rapid.Generator[string], name string) Limits {
	return Limits{Only: drawList(t, of, name+".only"), Ask: drawList(t, of, name+".ask"), Never: drawList(t, of, name+".never")}
}

func drawFile(t *rapid.T) *File {
	f := &File{
		Version: 1, Default: someModes.Draw(t, "default"), Capabilities: rapid.MapOfN(someNames, someModes, 0, 4).Draw(t, "capabilities"),
		Domains: drawLimits(t, someHosts, "domains"), Apps: drawLimits(t, someApps, "apps"), Folders: drawLimits(t, someDirs, "folders"),
	}
	clock := rapid.Custom(func(t *rapid.T) string {
		return fmt.Sprintf("%02d:%02d", rapid.IntRange(0, 23).Draw(t, "hour"), rapid.SampledFrom([]int{0, 30, 59}).Draw(t, "minute"))
	})
	for range rapid.IntRange(0, 2).Draw(t, "quiet") {
		f.QuietHours = append(f.QuietHours, Quiet{
			From: clock.Draw(t, "from"), To: clock.Draw(t, "to"), Mode: rapid.SampledFrom([]Mode{"", ModeAsk, ModeNever}).Draw(t, "mode"),
			Days: drawList(t, rapid.SampledFrom(weekdays), "days"), Capabilities: drawList(t, someNames, "for"),
		})
	}
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	cat := catalogOf(t)
	out, err := Parse(data, cat)
	if err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return out
}

// rulesOf makes Rules without files.
func rulesOf(t *rapid.T, f *File, cedar string, now time.Time) *Rules {
	return &Rules{
		tools: catalogOf(t), loader: loaderOf(t), opts: Options{Catalog: catalogOf(t), Tools: func() *catalog.Catalog { return catalogOf(t) }, Now: func() time.Time { return now }, Roots: []string{"/home/a/secret"}}, file: f,
		cedar: []policy.Source{{Name: CedarName, Data: []byte(cedar)}}, engines: map[facts]*policy.Engine{},
	}
}

// drawCalls returns a few: each kind of call may need rules of its own compiled.
func drawCalls(t *rapid.T) []policy.Request {
	return rapid.SliceOfN(rapid.SampledFrom(someCalls), 3, 3).Draw(t, "calls")
}

func drawMoment(t *rapid.T) time.Time {
	return noon.Add(time.Duration(rapid.IntRange(0, 7*24*60).Draw(t, "minute")) * time.Minute)
}

func drawCedar(t *rapid.T, name string) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(someCedar), 0, 4).Draw(t, name), "")
}

// For every owner's file and call: what comes of both is no more than what the gateway's policy
// alone allows, and no more than what the owner's Cedar rules alone allow; and the file says what
// its reader would expect of it.
func TestTheFileOnlyNarrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		file, ownCedar, now := drawFile(t), drawCedar(t, "owner"), drawMoment(t)
		gateway, err := loaderOf(t).Load([]policy.Source{{Name: "g.cedar", Data: []byte(drawCedar(t, "gateway"))}})
		if err != nil {
			t.Fatal(err)
		}
		rules := rulesOf(t, file, ownCedar, now)
		bare, err := loaderOf(t).Load([]policy.Source{{Name: CedarName, Data: []byte(ownCedar)}})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range drawCalls(t) {
			r.Granted, r.Consented = rapid.Bool().Draw(t, "granted"), rapid.Bool().Draw(t, "consented")
			theirs := gateway.Decide(r)
			r.Consented = false // that is the gateway's
			ours, cedar := rules.Judge(r), bare.Decide(r)
			both := policy.Stricter(theirs, ours)
			if both.Effect > theirs.Effect || both.Effect > ours.Effect {
				t.Fatalf("%s %s: gateway %s, owner %s, both %s", r.Tool, r.Args, theirs.Effect, ours.Effect, both.Effect)
			}
			if ours.Effect > cedar.Effect {
				t.Fatalf("%s %s: the file made %s of %s", r.Tool, r.Args, ours.Effect, cedar.Effect)
			}
			// The second opinion, which shares no rule with the first.
			if d, ok := catalogOf(t).Get(r.Tool); ok && d.NodeCapability() != "" && d.Capability != "" {
				said := map[Mode]policy.Effect{ModeAllow: policy.Allow, ModeAsk: policy.Ask, ModeNever: policy.Deny}[file.judge(catalogOf(t), r.Tool, r.Args, now.Local(), rules.opts.Roots)]
				if want := min(cedar.Effect, said); ours.Effect != want && ours.Code != capabilities.CodeInvalidArguments {
					t.Fatalf("%s %s at %s: %s (%s), want %s of rules %s and file %s\n%s", r.Tool, r.Args, now, ours.Effect, ours.Reason, want, cedar.Effect, said, file.compile(catalogOf(t), facts{}))
				}
			}
		}
	})
}

// Each entry that is added to a file can only narrow.
func TestMoreIsStricter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		file, now := drawFile(t), drawMoment(t)
		before := rulesOf(t, file, someCedar[1], now)
		more := *file
		switch rapid.IntRange(0, 3).Draw(t, "what") {
		case 0:
			more.Domains.Never = append([]string{"a.example"}, more.Domains.Never...)
		case 1:
			more.Apps.Ask = append([]string{"gedit"}, more.Apps.Ask...)
		case 2:
			more.Folders.Never = append([]string{"/home"}, more.Folders.Never...)
		case 3:
			more.QuietHours = append(append([]Quiet(nil), more.QuietHours...), Quiet{Mode: ModeAsk, days: [7]bool{true, true, true, true, true, true, true}})
		}
		after := rulesOf(t, &more, someCedar[1], now)
		for _, r := range drawCalls(t) {
			if b, a := before.Judge(r), after.Judge(r); a.Effect > b.Effect {
				t.Fatalf("%s %s: %s became %s", r.Tool, r.Args, b.Effect, a.Effect)
			}
		}
	})
}

// judge reads the file without Cedar: the second opinion that the rules are held
// against.
func (f *File) judge(cat *catalog.Catalog, tool capabilities.ToolID, args []byte, now time.Time, roots []string) Mode {
	d, ok := cat.Get(tool)
	if !ok {
		return ModeNever
	}
	x := f.factsOf(d, args, now, roots)
	m := stricter(stricter(f.Mode(cat, tool), x.app), x.folder)
	for i := range f.QuietHours {
		if x.quiet&(1<<i) != 0 && f.QuietHours[i].covers(cat, tool) {
			m = stricter(m, f.QuietHours[i].Mode)
		}
	}
	if !slices.Contains(d.Evidence.Args, "/url") || f.Domains.empty() {
		return m
	}
	dest := policy.Destination{Address: policy.AddressNone}
	if url, ok := stringArg(args, "url"); ok {
		dest = policy.ClassifyURL(url)
	}
	is := func(entry string) bool {
		base, below := strings.CutPrefix(entry, "*.")
		return dest.Host == base || below && strings.HasSuffix(dest.Host, "."+base)
	}
	limits := f.Domains
	if dest.Address == policy.AddressNone {
		limits.Only = nil // a page without a host is nobody's
	}
	return stricter(m, limits.mode(is))
}
