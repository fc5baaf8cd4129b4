package browser

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// axeCore is the one that the conformance tests have from npm.
func axeCore(t *testing.T) AuditScript {
	t.Helper()
	path := os.Getenv("HANDRAIL_CONFORMANCE")
	if path == "" {
		t.Skip("HANDRAIL_CONFORMANCE names no folder with axe-core")
	}
	path = filepath.Join(path, "node_modules", "axe-core", "axe.min.js")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	return AuditScript{Path: path, SHA256: hex.EncodeToString(sum[:])}
}

// Frames are audited with the page: those that it may read, those of other origins, and those
// within; each place says in which it is, and nothing of it goes through the page. Rules for a page
// as a whole are judged once.
func TestAuditOfFrames(t *testing.T) {
	t.Parallel()
	pinned := axeCore(t)
	pages := map[string]string{
		"/own":    `<!doctype html><title>Own</title><button id=own></button><iframe id=deep title=Deep src="/deep"></iframe>`,
		"/deep":   `<!doctype html><title>Deep</title><p>no heading</p><img id=deepest src=/x.png>`,
		"/theirs": `<!doctype html><title>Theirs</title><input id=card><script>window.axe = {runPartial() { throw 1 }}</script>`,
		"/none":   `<!doctype html><title>None</title><p>Nothing is wrong.</p>`,
	}
	s := newSite(t, pages)
	pages["/"] = `<!doctype html><html lang=en><title>Shop</title><main><h1>Shop</h1><img id=logo src=/x.png>
<section id=pay><iframe id=other title=Pay src="` + elsewhere(s) + `/theirs"></iframe></section><iframe id=same title=Own src="/own"></iframe>
<iframe id=none title=None src="/none"></iframe></main><script>told = 0; onmessage = () => told++</script>`
	n := nodeWith(t, func(o *Options) { o.Audit = pinned }, s.URL, elsewhere(s))
	n.goTo(s.URL)
	n.until("the frames", func() bool {
		snap := n.snap()
		return strings.Contains(snap, "Nothing is wrong") && strings.Contains(snap, "no heading") && strings.Contains(snap, "textbox")
	})
	places := func(a answer) map[string]string {
		t.Helper()
		found := map[string]string{}
		for _, v := range a.m["violations"].([]any) {
			for _, p := range v.(obj)["places"].([]any) {
				frame, _ := p.(obj)["frame"].(string)
				found[p.(obj)["selector"].(string)+" in "+frame] += v.(obj)["rule"].(string) + " "
			}
		}
		return found
	}
	a := n.must("audit", obj{"max_places": 20})
	got := places(a)
	for at, rule := range map[string]string{
		"#logo in ": "image-alt", "#own in #same": "button-name", "#deepest in #same | #deep": "image-alt", "#card in #other": "label",
	} {
		if !strings.Contains(got[at], rule) {
			t.Errorf("%s is not at %s: %v", rule, at, got)
		}
	}
	if a.m["frames"] != 4.0 || a.m["frames_left_out"] != nil {
		t.Errorf("%v frames, %v left out", a.m["frames"], a.m["frames_left_out"])
	}
	for at, rules := range got {
		if !strings.HasSuffix(at, " in ") && strings.Contains(rules, "page-has-heading-one") {
			t.Errorf("a frame is judged as a page: %s %s", at, rules)
		}
	}
	if got := n.eval("told"); got != 0.0 {
		t.Errorf("the page got %v messages", got)
	}
	// A part of the page has the frames in it, and no others.
	a = n.must("audit", obj{"selector": "#pay"})
	if got := places(a); a.m["frames"] != 1.0 || got["#card in #other"] == "" || got["#own in #same"] != "" || got["#logo in "] != "" {
		t.Errorf("a part: %v, %v frames", got, a.m["frames"])
	}
	// A frame whose process is gone is left out, and said to be.
	for _, f := range n.tabOf().sessions()[1:] {
		devtools.Start(t.Context(), f, page.Crash, cdp.Empty{})
	}
	n.until("the frame's end", func() bool { return n.outside() == 0 })
	if a = n.must("audit", obj{}); a.m["frames"] != 3.0 || a.m["frames_left_out"] != 1.0 || !strings.Contains(a.json, `"#logo"`) {
		t.Errorf("with a crashed frame: %s", a.json)
	}
}

// A page is audited by the axe-core that the owner named and pinned, and by no other.
func TestAudit(t *testing.T) {
	t.Parallel()
	pinned := axeCore(t)
	s := newSite(t, map[string]string{"/": `<!doctype html><html lang=en><title>Shop</title><main><h1>Shop</h1><img id=logo src=/x.png><button id=b></button>
<form id=f><label for=n>Name</label><input id=n></form></main><script>axe = {run() { throw 1 }}</script>`})
	n := nodeWith(t, func(o *Options) { o.Audit = pinned }, s.URL)
	n.goTo(s.URL)
	a := n.must("audit", obj{})
	for _, want := range []string{`"engine":"axe-core `, `"rule":"image-alt"`, `"rule":"button-name"`, `"selector":"#logo"`, `"impact":"critical"`} {
		if !strings.Contains(a.json, want) {
			t.Errorf("%s is missing: %s", want, a.json)
		}
	}
	if a = n.must("audit", obj{"selector": "#f", "tags": []string{"wcag2a"}}); strings.Contains(a.json, "image-alt") {
		t.Errorf("a part of the page: %s", a.json)
	}
	n.refused(capabilities.CodeElementNotFound, "audit", obj{"selector": "#gone"})
	if got := n.eval("typeof axe.run + typeof axe.version"); got != "functionundefined" {
		t.Errorf("the page's own axe is %v", got)
	}
}

func TestAuditOfWhatIsNotPinned(t *testing.T) {
	file := filepath.Join(t.TempDir(), "axe.min.js")
	if err := os.WriteFile(file, []byte("axe = {}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		script AuditScript
		code   capabilities.Code
	}{
		{AuditScript{}, capabilities.CodeNotSupported},
		{AuditScript{Path: file + "x", SHA256: strings.Repeat("0", 64)}, capabilities.CodeNotSupported},
		{AuditScript{Path: file, SHA256: strings.Repeat("0", 64)}, capabilities.CodeDeniedByNode},
		{AuditScript{Path: file}, capabilities.CodeDeniedByNode},
	} {
		if _, err := tc.script.read(); !isCode(err, tc.code) || capabilities.AsError(err).PublicHint() == "" {
			t.Errorf("%+v: %v", tc.script, err)
		}
	}
}
