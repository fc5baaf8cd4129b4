//go:build linux

package browser

import (
	"bytes"
	"context"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/remote"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/process"
	"github.com/handrail-dev/handrail/platform"
)

// An oracle is a second driver of the same page, chromedp with all it has, on a connection
// of its own: it shares neither our page script nor our session code, so it disagrees
// where these deceive themselves.
type oracle struct {
	t *testing.T
	//lint:ignore containedctx the life of the second driver's browser
	tab context.Context
}

// withPort has Chrome open a debugging port beside its pipe.
type withPort struct{ platform.Launcher }

func (l withPort) Start(ctx context.Context, c platform.Command) (platform.Process, error) {
	build := c.Build
	c.Build = func(scratch string) (args, env []string) {
		args, env = build(scratch)
		return append(args, "--remote-debugging-port=0"), env
	}
	return l.Launcher.Start(ctx, c)
}

// ask returns a node whose current page an oracle looks at, too.
func ask(t *testing.T, change func(*Options), page string, origins ...string) (*node, oracle) {
	n := nodeWith(t, func(o *Options) {
		o.Launcher = withPort{o.Launcher}
		if change != nil {
			change(o)
		}
	}, origins...)
	n.goTo(page)
	var said []string
	n.until("Chrome's port", func() bool {
		data, _ := os.ReadFile(filepath.Join(n.process().Program.Scratch(), process.ProfileDir, "DevToolsActivePort"))
		said = strings.Split(string(data), "\n")
		return len(said) >= 2 && strings.HasPrefix(said[1], "/devtools/")
	})
	all, stop := remote.NewAllocator(t.Context(), "ws://127.0.0.1:"+said[0]+said[1], remote.NoModifyURL)
	browser, leave := chromedp.NewContext(all, chromedp.WithErrorf(t.Logf))
	pages, err := chromedp.Targets(browser)
	if err != nil {
		t.Fatal(err)
	}
	var tab context.Context
	var leaveTab context.CancelFunc
	for _, p := range pages {
		if p.URL == page {
			tab, leaveTab = chromedp.NewContext(browser, chromedp.WithTargetID(p.TargetID))
		}
	}
	if tab == nil {
		t.Fatalf("chromedp sees no page %s: %+v", page, pages)
	}
	t.Cleanup(func() {
		leaveTab()
		leave()
		stop()
		chromedp.FromContext(browser).Allocator.Wait()
	})
	// The first run has no deadline of its own: the connection to the tab would end with it.
	if title, err := chromedp.Run(tab, chromedp.Title()); err != nil || title != "Test page" {
		t.Fatalf("chromedp sees another page: %s, %v", title, err)
	}
	return n, oracle{t, tab}
}

// see runs an action of chromedp's.
func see[T any](o oracle, a chromedp.Action[T]) T {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.tab, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		o.t.Fatal("chromedp: ", err)
	}
	return v
}

// js is what the page's own world says.
func (o oracle) js(expression string) string {
	o.t.Helper()
	return see(o, chromedp.Evaluate[string]("(async () => String("+expression+"))()", chromedp.EvalAwaitPromise))
}

const oraclePage = `<button id=b>Go</button><input id=i aria-label=Name><textarea id=ta aria-label=Text></textarea>
<select id=s aria-label=Size><option>One<option>Two<option>Three</select><label><input id=c type=checkbox>Agree</label><input id=f type=file aria-label=File>
<input id=k aria-label=Keys><div id=d draggable=true style="width:90px;height:40px;background:#fcc">Card</div><div id=to style="width:200px;height:80px;background:#ccf">Here</div>
<script>
const lies = location.search == '?lies', log = [];
d.ondragstart = e => e.dataTransfer.setData('text/plain', 'card');
to.ondrop = e => { e.preventDefault(); to.append(e.dataTransfer.getData('text/plain')) };
for (const kind of ['keydown', 'keyup']) k.addEventListener(kind, e => log.push([kind, e.key, e.code, e.keyCode, e.ctrlKey, e.shiftKey, e.isTrusted].join()));
if (!lies) {
	b.onclick = e => { b.dataset.n = (+b.dataset.n || 0) + 1; b.dataset.trusted = e.isTrusted };
	to.ondragover = e => e.preventDefault();
} else { // a page that takes nothing
	i.oninput = () => { i.value = '' };
	ta.oninput = () => { ta.value = '' };
	s.oninput = () => { s.selectedIndex = 0 };
	c.onclick = e => e.preventDefault();
	f.oninput = () => { f.value = '' };
	k.readOnly = true;
}
</script>`

// chromedp sees what a tool says that it did; where the page undoes it, no tool says that it
// is confirmed.
func TestForeignDriverAgrees(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.txt"), []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSite(t, map[string]string{"/": html(oraclePage)})
	type deed struct {
		tool string
		args obj
		want func(o oracle) (got, want string)
	}
	value := func(id, want string) func(o oracle) (string, string) {
		return func(o oracle) (string, string) { return see(o, chromedp.Value(chromedp.ID(id))), want }
	}
	deeds := []deed{
		{"click", obj{"selector": "#b"}, func(o oracle) (string, string) {
			a := see(o, chromedp.Attributes(chromedp.ID("b")))
			return a["data-n"] + a["data-trusted"], "1true"
		}},
		{"type", obj{"selector": "#i", "text": "Ada Lovelace ü"}, value("i", "Ada Lovelace ü")},
		{"type", obj{"selector": "#ta", "text": "one\ntwo 日本"}, value("ta", "one\ntwo 日本")},
		{"select-option", obj{"selector": "#s", "values": []string{"Two"}}, value("s", "Two")},
		{"fill-form", obj{"fields": []obj{{"selector": "#s", "value": "Three"}}}, value("s", "Three")},
		{"fill-form", obj{"fields": []obj{{"selector": "#i", "value": "Grace"}}}, value("i", "Grace")},
		{"fill-form", obj{"fields": []obj{{"selector": "#c", "value": "true"}}}, func(o oracle) (string, string) { return o.js("c.checked"), "true" }},
		{"upload-file", obj{"selector": "#f", "paths": []string{"a.txt"}}, func(o oracle) (string, string) {
			return o.js("f.files.length && f.files[0].name + '=' + await f.files[0].text()"), "a.txt=first"
		}},
		{"drag", obj{"source_selector": "#d", "target_selector": "#to"}, func(o oracle) (string, string) {
			return see(o, chromedp.Text(chromedp.ID("to"))), "Herecard"
		}},
		{"press-key", obj{"key": "x"}, value("k", "x")},
	}
	for _, page := range []struct {
		name, query string
		takes       bool
	}{{"a page that takes all", "", true}, {"a page that takes nothing", "?lies", false}} {
		t.Run(page.name, func(t *testing.T) {
			t.Parallel()
			n, o := ask(t, func(o *Options) { o.UploadRoots = []string{root} }, s.URL+"/"+page.query, s.URL)
			for _, d := range deeds {
				if d.tool == "press-key" {
					see(o, chromedp.Evaluate[chromedp.Void]("k.focus()"))
				}
				a, refused := n.try(d.tool, d.args)
				got, want := d.want(o)
				confirmed := refused == nil && a.Effect == capabilities.EffectConfirmed
				if (got == want) != page.takes {
					t.Errorf("%s %v: chromedp sees %q, want %q: %v", d.tool, d.args, got, want, page.takes)
				}
				if confirmed != (got == want) {
					t.Errorf("%s %v: chromedp sees %q, and we say %v (%s), %v", d.tool, d.args, got, a.Effect, a.Evidence, refused)
				}
			}
		})
	}
}

// The keys that come to a page are those that the UI Events specification has for them.
func TestForeignDriverSeesKeys(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(oraclePage)})
	n, o := ask(t, nil, s.URL+"/", s.URL)
	for key, want := range map[string]string{
		"Enter":           "keydown,Enter,Enter,13,false,false,true keyup,Enter,Enter,13,false,false,true",
		"a":               "keydown,a,KeyA,65,false,false,true keyup,a,KeyA,65,false,false,true",
		"?":               "keydown,?,Slash,191,false,true,true keyup,?,Slash,191,false,true,true",
		"F7":              "keydown,F7,F7,118,false,false,true keyup,F7,F7,118,false,false,true",
		"Control+ArrowUp": "keydown,Control,ControlLeft,17,true,false,true keydown,ArrowUp,ArrowUp,38,true,false,true keyup,ArrowUp,ArrowUp,38,true,false,true keyup,Control,ControlLeft,17,false,false,true",
		"é":               "keydown,é,,0,false,false,true keyup,é,,0,false,false,true",
	} {
		see(o, chromedp.Evaluate[chromedp.Void]("log.length = 0"))
		n.must("press-key", obj{"selector": "#k", "key": key})
		got := strings.Split(o.js("log.join(' ')"), " ")
		if strings.Contains(key, "?") { // Shift may have events of its own
			got = slices.DeleteFunc(got, func(e string) bool { return strings.Contains(e, "Shift") })
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s came as %q, want %q", key, strings.Join(got, " "), want)
		}
	}
}

// A snapshot names what Chrome's own accessibility tree names, and both drivers take the
// same picture.
func TestForeignDriverSeesThePage(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(oraclePage)})
	n, o := ask(t, nil, s.URL+"/", s.URL)
	n.must("fill-form", obj{"fields": []obj{{"selector": "#i", "value": "Ada"}, {"selector": "#c", "value": "true"}, {"selector": "#s", "value": "Two"}}})
	see(o, chromedp.Evaluate[chromedp.Void]("document.activeElement.blur()")) // a caret blinks
	ours := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^ *- (\w+) "([^"]*)"`).FindAllStringSubmatch(n.snap(), -1) {
		ours[m[1]+" "+m[2]] = true
	}
	tree := see(o, func(ctx context.Context, t *chromedp.Target) ([]*accessibility.Node, error) {
		res, err := cdp.Call(ctx, t, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
		return res.Nodes, err
	})
	text := func(v *accessibility.Value) string {
		if v == nil {
			return ""
		}
		return strings.Trim(string(v.Value), `"`)
	}
	named := 0
	for _, e := range tree {
		role := text(e.Role)
		if !e.Ignored && slices.Contains([]string{"button", "textbox", "combobox", "checkbox"}, role) {
			named++
			if name := text(e.Name); !ours[role+" "+name] && !(role == "button" && ours["file "+name]) {
				t.Errorf("our snapshot has no %s %q: %v", role, text(e.Name), ours)
			}
		}
	}
	if named < 6 {
		t.Errorf("Chrome's tree has %d controls", named)
	}
	mine, _ := n.picture(obj{})
	theirs, err := png.Decode(bytes.NewReader(see(o, chromedp.CaptureScreenshot())))
	if err != nil {
		t.Fatal(err)
	}
	if mine.Bounds() != theirs.Bounds() {
		t.Fatal(mine.Bounds(), theirs.Bounds())
	}
	differ := 0
	for y := range mine.Bounds().Dy() {
		for x := range mine.Bounds().Dx() {
			if mine.At(x, y) != theirs.At(x, y) {
				differ++
			}
		}
	}
	if differ > 0 {
		t.Errorf("%d pixels differ", differ)
	}
}
