//go:build linux

package browser

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/browser/outline"
)

// elsewhere is a site under its other name: for Chrome that is another site.
func elsewhere(s *site) string {
	return strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
}

// tabOf returns the lane's active tab.
func (n *node) tabOf() *laneTab {
	n.t.Helper()
	n.h.mu.Lock()
	l := n.h.lanes[n.lane]
	n.h.mu.Unlock()
	_, active := l.list()
	all, _ := l.list()
	if active < 0 {
		n.t.Fatal("no tab")
	}
	return all[active]
}

// outside counts the frames of the tab that run in a process of their own.
func (n *node) outside() int {
	t := n.tabOf()
	t.mu.Lock()
	defer t.mu.Unlock()
	count := 0
	for _, f := range t.frames.sessions {
		if f.ready && !f.crashed {
			count++
		}
	}
	return count
}

const counted = `<script>var n = 0</script><button onclick="this.textContent = 'Pressed ' + ++n + (event.isTrusted ? ' truly' : '')">Press</button>`

// A page with frames of every kind: readable, of another origin in the same
// process, in another process, and each in the other.
func TestFramesOfEveryKind(t *testing.T) {
	t.Parallel()
	var s, port *site
	port = newSite(t, map[string]string{
		"/port": html(`<p>Port page</p>` + counted + `<label>Word <input id=word></label>`),
	})
	pages := map[string]string{
		"/other": html(`<style>body{margin:0}</style><div style="height:900px">Other page</div>` + counted + `<label>Name <input id=name></label><iframe srcdoc="<p>Inside other</p><button onclick='this.textContent=&quot;Got it&quot;'>Inner</button>"></iframe>`),
		"/back":  html(`<p>Back home</p>` + counted),
	}
	s = newSite(t, pages)
	pages["/"] = html(`<h1>Top</h1><iframe srcdoc="<p>Near</p><iframe srcdoc='<p>Nearer</p><button onclick=&quot;this.textContent=1&quot;>Deep</button>'></iframe>" title=near></iframe>
<iframe src="` + port.URL + `/port" title=port style="border:7px solid;padding:11px;width:300px;height:200px"></iframe>
<div style="height:1500px"></div>
<iframe src="` + elsewhere(s) + `/other" title=other style="transform:scale(.8) rotate(3deg);width:400px;height:300px"></iframe>
<iframe src="` + elsewhere(s) + `/wrap" title=wrap style="height:400px"></iframe>`)
	pages["/wrap"] = html(`<p>Wrapped</p><iframe src="` + s.URL + `/back" title=back></iframe>`)
	n := newNode(t, s.URL, elsewhere(s), port.URL)
	n.goTo(s.URL + "/")
	snap := n.snap()
	t.Log("\n" + snap)
	wants(t, snap, "- text: Nearer", `button "Deep"`, "- text: Port page", "- text: Other page", "- text: Inside other", "- text: Wrapped", "- text: Back home")
	// other, wrap, and back in wrap.
	if got := n.outside(); got != 3 {
		t.Errorf("%d frames run in another process, want 3", got)
	}
	if again := n.snap(); again != snap {
		t.Errorf("refs are not stable:\n%s", again)
	}
	depth := func(words string) int {
		for line := range strings.SplitSeq(snap, "\n") {
			if strings.Contains(line, words) {
				return outline.Read(line).Depth
			}
		}
		return -1
	}
	if depth("Back home") != 2 || depth("Inside other") != 2 || depth("Other page") != 1 {
		t.Errorf("frames are not indented below their owners:\n%s", snap)
	}
	refs := map[string]string{} // which frame's button
	var owner string
	for line := range strings.SplitSeq(snap, "\n") {
		if strings.Contains(line, "- iframe") {
			owner = outline.Read(line).Text
		}
		if strings.Contains(line, `button "Press"`) {
			refs[strings.SplitN(owner, `"`, 3)[1]] = outline.Read(line).Ref()
		}
	}
	for _, kind := range []string{"port", "other", "back"} {
		a := n.must("click", obj{"ref": refs[kind]})
		if a.Effect != capabilities.EffectConfirmed {
			t.Errorf("%s: %s, %s", kind, a.Effect, a.Evidence)
		}
		wants(t, n.must("snapshot", obj{"ref": refs[kind]}).m["snapshot"].(string), `button "Pressed 1 truly"`)
	}
	n.must("click", obj{"ref": n.ref(`"Deep"`)})
	if a := n.must("click", obj{"ref": n.ref(`"Inner"`)}); a.Effect != capabilities.EffectConfirmed {
		t.Errorf("inner: %s, %s", a.Effect, a.Evidence)
	}
	wants(t, n.snap(), `button "1"`, `button "Got it"`)
	// By selector too, where the main document does not match.
	for _, id := range []string{"#name", "#word"} {
		if a := n.must("type", obj{"selector": id, "text": "quick brown fox"}); a.Effect != capabilities.EffectConfirmed {
			t.Errorf("type into %s: %s, %s", id, a.Effect, a.Evidence)
		}
	}
	wants(t, n.snap(), `textbox "Name" [ref=`, `: "quick brown fox"`)
	if strings.Count(n.snap(), "quick brown fox") != 2 {
		t.Error("the text is not in both fields")
	}
	n.must("screenshot", obj{"selector": "#name"})
}

// A cover of a frame, or of the place in it, is named; an element that a frame hides is
// scrolled to.
func TestAimIntoFrames(t *testing.T) {
	t.Parallel()
	pages := map[string]string{"/in": html(`<div style="height:3000px"></div>` + counted)}
	s := newSite(t, pages)
	pages["/"] = html(`<div style="height:2000px"></div><div style="overflow:auto;height:200px"><div style="height:600px"></div><iframe src="` + elsewhere(s) + `/in" style="width:300px;height:700px"></iframe></div>
<div id=cover style="display:none;position:fixed;inset:0;background:#eee8">Please wait</div>`)
	n := newNode(t, s.URL, elsewhere(s))
	n.goTo(s.URL + "/")
	press := n.ref(`"Press"`)
	if !strings.HasPrefix(press, "f") {
		t.Fatalf("ref %s is not that of a frame", press)
	}
	n.must("click", obj{"ref": press})
	wants(t, n.snap(), `"Pressed 1 truly"`)
	n.eval(`cover.style.display = 'block'; 1`)
	err := n.refused(capabilities.CodeElementObscured, "click", obj{"ref": press})
	wants(t, err.PublicMessage(), "div#cover")
	n.eval(`cover.remove(); document.querySelector('iframe').style.visibility = 'hidden'; 1`)
	n.refused(capabilities.CodeElementNotFound, "click", obj{"ref": press})
}

// Frames come, go and change under the calls.
func TestFramesThatMove(t *testing.T) {
	t.Parallel()
	pages := map[string]string{
		"/one":  html(`<button>One</button><a href="/two">Go</a>`),
		"/two":  html(`<button onclick="document.title='hit'; this.textContent='Hit'">Two</button>`),
		"/late": html(`<button onclick="this.textContent='Hit'" id=late>Late</button>`),
	}
	s := newSite(t, pages)
	pages["/"] = html(`<iframe id=f src="` + elsewhere(s) + `/one"></iframe>`)
	n := newNode(t, s.URL, elsewhere(s))
	n.goTo(s.URL + "/")
	one := n.ref(`"One"`)
	// A link navigates the frame; its refs are gone, and are not those of the next.
	if a := n.must("click", obj{"ref": n.ref(`"Go"`)}); a.Effect != capabilities.EffectConfirmed {
		t.Errorf("a link in a frame: %s, %s", a.Effect, a.Evidence)
	}
	n.refused(capabilities.CodeStaleRef, "click", obj{"ref": one})
	two := n.ref(`"Two"`)
	if two == one {
		t.Error("a ref was used twice")
	}
	a := n.must("click", obj{"ref": two})
	if snap := n.snap(); !strings.Contains(snap, `"Hit"`) {
		t.Errorf("after a click (%s, %s): %s", a.Effect, a.Evidence, snap)
	}
	// One that is only just coming is waited for.
	n.eval(fmt.Sprintf(`setTimeout(() => f.src = %q, 200); f.src = '/hang'; 1`, elsewhere(s)+"/late"))
	a = n.must("click", obj{"selector": "#late"})
	if snap := n.snap(); !strings.Contains(snap, `"Hit"`) {
		t.Errorf("after a click (%s, %s): %s", a.Effect, a.Evidence, snap)
	}
	// One that is gone says so.
	late := n.ref(`"Hit"`)
	n.eval(`f.remove(); 1`)
	n.refused(capabilities.CodeStaleRef, "click", obj{"ref": late})
}

func TestFrameMovesBetweenProcesses(t *testing.T) {
	t.Parallel()
	pages := map[string]string{
		"/one": html(`<button>One</button>`),
		"/two": html(`<button id=two onclick="this.textContent='Hit'">Two</button>`),
		"/a":   html(`<button id=a onclick="this.textContent='Hit a'">A</button>`),
		"/b":   html(`<button id=b onclick="this.textContent='Hit b'">B</button>`),
		"/c":   html(`<button id=c onclick="this.textContent='Hit c'">C</button>`),
	}
	s := newSite(t, pages)
	pages["/"] = html(`<iframe id=f src="` + elsewhere(s) + `/one"></iframe>`)
	n := newNode(t, s.URL, elsewhere(s))
	n.goTo(s.URL + "/")
	one := n.ref(`"One"`)
	for i, address := range []string{s.URL + "/a", elsewhere(s) + "/b", s.URL + "/c"} {
		id := address[len(address)-1:]
		n.eval(fmt.Sprintf(`f.src = %q; 1`, address))
		n.must("click", obj{"selector": "#" + id}) // waits for the frame
		wants(t, n.snap(), `"Hit `+id+`"`)
		n.refused(capabilities.CodeStaleRef, "click", obj{"ref": one})
		if want := 1 - (i+1)%2; n.outside() != want {
			t.Errorf("%s: %d frames in another process, want %d", address, n.outside(), want)
		}
	}
	// Frames that come and go all the time fail nobody.
	n.eval(fmt.Sprintf(`setInterval(() => { f.remove(); const x = document.createElement('iframe'); x.id = 'f'; x.src = [%q, %q][Math.round(Math.random())]; window.f = x; document.body.append(x); }, 120); 1`, s.URL+"/one", elsewhere(s)+"/two"))
	for range 12 {
		n.snap()
		if _, err := n.try("click", obj{"selector": "#two"}); err != nil && err.Code == capabilities.CodeInternal {
			t.Error(err)
		}
	}
}

// A frame whose process dies, or whose script never ends, costs only itself.
func TestFrameCrashesAndHangs(t *testing.T) {
	t.Parallel()
	pages := map[string]string{"/in": html(`<button>Inside</button><button id=spin onclick="for(;;);">Spin</button><button id=later onclick="setTimeout(() => { for(;;); }, 2000)">Later</button>`)}
	s := newSite(t, pages)
	pages["/"] = html(`<button onclick="this.textContent='Hit'">Outside</button><iframe id=f src="` + elsewhere(s) + `/in"></iframe>`)
	n := newNode(t, s.URL, elsewhere(s))
	n.goTo(s.URL + "/")
	inside := n.ref(`"Inside"`)
	tb := n.tabOf()
	tb.mu.Lock()
	var dead *frameSession
	for _, f := range tb.frames.sessions {
		dead = f
	}
	tb.mu.Unlock()
	devtools.Start(t.Context(), dead.Session, page.Crash, cdp.Empty{})
	for crashed := false; !crashed; {
		tb.mu.Lock()
		crashed = dead.crashed || tb.frames.sessions[dead.frame] != dead
		changed := tb.changed
		tb.mu.Unlock()
		if !crashed {
			<-changed
		}
	}
	snap := n.snap()
	wants(t, snap, `button "Outside"`, "- (this frame ")
	if _, err := n.try("click", obj{"ref": inside}); err == nil {
		t.Error("an element of a crashed frame was clicked")
	}
	n.must("click", obj{"ref": n.ref("Outside")})
	// It can be loaded again.
	n.eval(`f.src = f.src; 1`)
	n.until("the frame is back", func() bool { return strings.Contains(n.snap(), `button "Inside"`) })
	n.must("hover", obj{"selector": "#spin"})
	wants(t, n.whole(obj{}).m["snapshot"].(string), `button "Inside"`)
	// Its script is stopped with the call that it held up.
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := n.within(ctx, "click", obj{"selector": "#spin"}); err == nil || err.Code != capabilities.CodeDeadlineExceeded {
		t.Errorf("a click that starts an endless loop: %v", err)
	}
	wants(t, n.whole(obj{}).m["snapshot"].(string), `button "Hit"`, `button "Inside"`)
	// One that hangs by itself, after the click was answered, is left out.
	n.must("click", obj{"selector": "#later"})
	n.until("the frame hangs", func() bool { return strings.Contains(n.snap(), "- (this frame does not answer)") })
	n.must("click", obj{"ref": n.ref(`"Hit"`)})
	began := time.Now()
	n.snap()
	t.Logf("a snapshot beside a frame that is known to hang took %v", time.Since(began))
}

// A frame that was busy for longer than it is waited for is read again once it answers, however
// short the waits for it have become meanwhile.
func TestAFrameThatWasBusyIsReadAgain(t *testing.T) {
	t.Parallel()
	pages := map[string]string{"/in": html(`<button id=busy onclick="setTimeout(() => { const until = Date.now() + 7000; while (Date.now() < until); this.textContent = 'Done' }, 1500)">Busy</button>`)}
	s := newSite(t, pages)
	pages["/"] = html(`<p>Outside</p><iframe id=f src="` + elsewhere(s) + `/in"></iframe>`)
	n := newNode(t, s.URL, elsewhere(s))
	n.goTo(s.URL + "/")
	n.must("click", obj{"selector": "#busy"})
	n.until("the frame is busy", func() bool { return strings.Contains(n.snap(), "- (this frame does not answer)") })
	tab := n.tabOf()
	n.until("the frame to answer", func() bool {
		tab.mu.Lock()
		defer tab.mu.Unlock()
		return !slices.ContainsFunc(slices.Collect(maps.Values(tab.frames.met)), func(f *frame) bool { return f.slow })
	})
	wants(t, n.snap(), `button "Done"`)
}

// A frame that hangs before its click was answered costs that click no more than a bound.
func TestFrameHangsRightAfterAClick(t *testing.T) {
	t.Parallel()
	pages := map[string]string{"/in": html(`<button id=soon onclick="setTimeout(() => { for(;;); }, 60)">Soon</button>`)}
	s := newSite(t, pages)
	pages["/"] = html(`<button onclick="this.textContent='Hit'">Outside</button><iframe id=f src="` + elsewhere(s) + `/in"></iframe>`)
	n := newNode(t, s.URL, elsewhere(s))
	n.goTo(s.URL + "/")
	n.must("hover", obj{"selector": "#soon"})
	ctx, cancel := context.WithTimeout(t.Context(), patience/2)
	defer cancel()
	a, err := n.within(ctx, "click", obj{"selector": "#soon"})
	if err != nil || a.Effect != capabilities.EffectUnverifiable || !strings.Contains(a.Evidence, "has not answered since") {
		t.Fatalf("%v: %s %q", err, a.Effect, a.Evidence)
	}
	n.must("click", obj{"ref": n.ref("Outside")})
	wants(t, n.snap(), `button "Hit"`, "- (this frame does not answer)")
}

// Two frames with the same page have different refs, in every lane.
func TestRefsOfFramesAreUnique(t *testing.T) {
	t.Parallel()
	pages := map[string]string{"/in": html(counted)}
	s := newSite(t, pages)
	pages["/"] = html(strings.Repeat(`<iframe src="`+elsewhere(s)+`/in"></iframe>`, 3) + counted)
	n := newNode(t, s.URL, elsewhere(s))
	n.goTo(s.URL + "/")
	seen := map[string]bool{}
	for range 2 {
		for _, r := range outline.Rows(n.snap()) {
			if ref := r.Ref(); ref != "" {
				if seen[ref] {
					t.Errorf("%s is used twice", ref)
				}
				seen[ref] = true
			}
		}
		n.must("navigate", obj{"url": s.URL + "/?again"})
	}
	// The third one is meant, and pressed.
	var refs []string
	for _, r := range outline.Rows(n.snap()) {
		if strings.Contains(r.Text, `"Press"`) {
			refs = append(refs, r.Ref())
		}
	}
	n.must("click", obj{"ref": refs[2]})
	snap := n.snap()
	if strings.Count(snap, "Pressed 1") != 1 || !strings.Contains(snap, `"Pressed 1 truly" [focused] [ref=`+refs[2]+"]") {
		t.Errorf("another frame was pressed:\n%s", snap)
	}
}

func TestBoxesAndMarksInFrames(t *testing.T) {
	t.Parallel()
	pages := map[string]string{"/in": html(`<style>body{margin:0}</style><button style="position:absolute;left:10px;top:20px;width:50px;height:30px">In</button><button style="position:absolute;left:500px;top:900px">Far</button>`)}
	s := newSite(t, pages)
	pages["/"] = html(`<style>body{margin:0}</style><button style="position:absolute;left:5px;top:6px;width:70px;height:40px">Out</button>
<iframe src="` + elsewhere(s) + `/in" style="position:absolute;left:100px;top:200px;width:300px;height:150px;border:4px solid;padding:0"></iframe>`)
	n := newNode(t, s.URL, elsewhere(s))
	n.goTo(s.URL + "/")
	snap := n.must("snapshot", obj{"boxes": true}).m["snapshot"].(string)
	wants(t, snap, "[box=5,6,70,40]", "[box=114,224,50,30]")
	tb := n.tabOf()
	c := &call{ctx: t.Context(), h: n.h, lane: tb.lane, tab: tb}
	marks, err := c.marks()
	if err != nil || len(marks) != 2 {
		t.Fatalf("%v, %v", marks, err)
	}
	for _, m := range marks {
		want := mark{Ref: n.ref(`"` + m.Name + `"`), Role: "button", Name: m.Name, X: 114, Y: 224, Width: 50, Height: 30}
		if m.Name == "Out" {
			want.X, want.Y, want.Width, want.Height = 5, 6, 70, 40
		}
		if m != want {
			t.Errorf("%+v, want %+v", m, want)
		}
	}
}

// A frame in another process that asks a person asks the caller.
func TestFramesAsk(t *testing.T) {
	t.Parallel()
	pages := map[string]string{"/in": html(`<button id=a onclick="this.textContent = 'Answer ' + confirm('Sure?')">Ask</button><input type=file id=file onchange="document.body.append('Got ' + this.files[0].name)"><button id=k>Keys</button>
<input id=keys onkeydown="this.dataset.n = (+this.dataset.n || 0) + 1; document.title = this.dataset.n">`)}
	s := newSite(t, pages)
	pages["/"] = html(`<iframe src="` + elsewhere(s) + `/in" style="height:300px"></iframe>`)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "note.txt"), []byte("note"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := nodeWith(t, func(o *Options) { o.UploadRoots = []string{dir} }, s.URL, elsewhere(s))
	n.goTo(s.URL + "/")
	a := n.must("click", obj{"selector": "#a"})
	if d, _ := a.m["dialog"].(map[string]any); d["message"] != "Sure?" {
		t.Errorf("the dialog is not reported: %s", a.json)
	}
	n.must("handle-dialog", obj{"accept": true})
	wants(t, n.snap(), `button "Answer true"`)
	n.must("click", obj{"selector": "#file"})
	n.must("upload-file", obj{"paths": []string{filepath.Join(dir, "note.txt")}})
	wants(t, n.snap(), "Got note.txt")
	// Keys go where the focus is, and text where something listens to keys.
	n.must("type", obj{"selector": "#keys", "text": "letters"})
	wants(t, n.snap(), `: "letters"`)
	n.must("press-key", obj{"key": "x"})
	wants(t, n.snap(), `: "lettersx"`)
	// And by coordinates.
	box := n.must("snapshot", obj{"boxes": true, "search": "Keys"}).m["snapshot"].(string)
	var x, y, w, h float64
	line := box[strings.Index(box, `"Keys"`):]
	if _, err := fmt.Sscanf(line[strings.Index(line, "[box="):], "[box=%f,%f,%f,%f]", &x, &y, &w, &h); err != nil {
		t.Fatal(err, box)
	}
	if a = n.must("click", obj{"x": x + w/2, "y": y + h/2}); a.Effect == capabilities.EffectUnverifiable {
		t.Errorf("%s, %s", a.Effect, a.Evidence)
	}
	wants(t, n.snap(), `button "Keys" [focused]`)
}

// A frame's line leads where a link's does.
func TestTargetsOfFrames(t *testing.T) {
	t.Parallel()
	pages := map[string]string{"/in": html("<p>In</p>")}
	s := newSite(t, pages)
	long := elsewhere(s) + "/in?id=" + strings.Repeat("x", 300)
	for _, element := range []string{`<a href="%s">Link</a>`, `<iframe sandbox src="%s"></iframe>`} {
		for _, address := range []string{elsewhere(s) + "/in?order=17&step=2#top", s.URL + "/in?order=18", long} {
			pages["/"] += fmt.Sprintf(element, address)
		}
	}
	pages["/"] = html(pages["/"])
	n := newNode(t, s.URL, elsewhere(s))
	n.goTo(s.URL + "/")
	targets := map[string][]string{}
	for line := range strings.SplitSeq(n.snap(), "\n") {
		if _, target, ok := strings.Cut(line, " -> "); ok {
			role, _, _ := outline.Read(line).Parts()
			targets[role] = append(targets[role], target)
		}
	}
	want := []string{elsewhere(s) + "/in?order=17&step=2#top", "/in?order=18", long[:60] + "…" + long[len(long)-30:]}
	for _, role := range []string{"link", "iframe"} {
		if !slices.Equal(targets[role], want) {
			t.Errorf("%ss lead to %q, want %q", role, targets[role], want)
		}
	}
}
