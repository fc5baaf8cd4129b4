//go:build linux

package browser

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/outline"
	"github.com/handrail-dev/handrail/capabilities/browser/outline/outlinetest"
	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
)

// never fails if the text holds one of the parts.
func never(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Errorf("%q must not be in:\n%s", part, text)
		}
	}
}

func TestShadowRoots(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<style>x-card,x-menu{display:block}</style>
<x-card><b slot=title>Given title</b><i>Given body</i><u slot=none>Lost</u></x-card>
<div id=empty style="width:200px;height:60px"></div>
<div id=filled style="width:200px"><p>Fallback that is not shown</p></div>
<x-menu></x-menu><x-plain>Just text</x-plain>
<div style="width:10px;height:10px"></div><p>Plain</p>
<script>
const shut = (host, html) => { const r = host.attachShadow({mode: 'closed'}); r.innerHTML = html; return r; };
const mark = e => { e.target.textContent = 'Hit'; };
shut(document.querySelector('x-card'), '<h2><slot name=title></slot></h2><slot></slot><button>Card</button><input aria-label=Inside>').querySelector('button').onclick = e => document.title = 'card ' + e.isTrusted;
shut(empty, '<button id=deep>Empty</button>').querySelector('button').onclick = e => document.title = 'empty';
const outer = shut(filled, '<div id=in></div>').querySelector('div');
outer.style.cssText = 'width:100px;height:30px';
shut(outer, '<a href=#there>Twice shut</a>');
const open = document.querySelector('x-menu').attachShadow({mode: 'open'});
open.innerHTML = '<div id=m style="width:90px;height:30px"></div>';
shut(open.getElementById('m'), '<button>Mixed</button>').querySelector('button').onclick = () => document.title = 'mixed';
</script>`)})
	n.goTo(s.URL + "/")
	snap := n.snap()
	wants(t, snap, `- heading "Given title"`, "Given body", `- button "Card"`, `- textbox "Inside"`, `- button "Empty"`, `- link "Twice shut"`, `- button "Mixed"`, "Just text")
	never(t, snap, "Fallback", "Lost")
	if again := n.snap(); again != snap {
		t.Errorf("refs are not stable:\n%s", again)
	}
	for name, title := range map[string]string{"Card": "card true", "Empty": "empty", "Mixed": "mixed"} {
		if a := n.must("click", obj{"ref": n.ref(`"` + name + `"`)}); a.Effect != capabilities.EffectConfirmed {
			t.Errorf("%s: %s, %s", name, a.Effect, a.Evidence)
		}
		if got := n.eval("document.title"); got != title {
			t.Errorf("%s: the title is %q", name, got)
		}
	}
	n.must("click", obj{"ref": n.ref(`"Twice shut"`)})
	if n.eval("location.hash") != "#there" {
		t.Error("the link in two closed roots was not followed")
	}
	n.must("type", obj{"ref": n.ref(`"Inside"`), "text": "hello there"})
	wants(t, n.snap(), `: "hello there"`)
	// A selector finds its way without a snapshot.
	n.goTo(s.URL + "/?again")
	n.must("click", obj{"selector": "#deep"})
	if n.eval("document.title") != "empty" {
		t.Error("#deep in a closed root was not clicked")
	}
	// A root that is attached later is found.
	n.eval(`document.body.insertAdjacentHTML('beforeend', '<x-late style="display:block"></x-late>'); 1`)
	n.snap()
	n.eval(`customElements.define('x-late', class extends HTMLElement { connectedCallback() { this.attachShadow({mode: 'closed'}).innerHTML = '<button>Late</button>'; } }); 1`)
	wants(t, n.snap(), `- button "Late"`)
}

// A page without anything that could be the host of a closed root asks Chrome nothing.
func TestNoSuspectsNoTrips(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": largePage()})
	n.goTo(s.URL + "/")
	var answer printed
	if _, err := n.tabOf().ask(t.Context(), inpage.Snapshot, question{}, &answer); err != nil || answer.Suspects != 0 || answer.Strangers != 0 {
		t.Errorf("%d suspects, %d strangers, %v", answer.Suspects, answer.Strangers, err)
	}
}

func TestWhatASnapshotTells(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`
<p>Read <span onclick="1">the terms</span> or <span style="cursor:pointer">the rest</span> now.</p>
<div style="cursor:pointer">Card text <span onclick="2">close</span></div>
<input aria-label=One><textarea aria-label=Many>x
y</textarea><div contenteditable aria-label=Rich>Rich text</div>
<input aria-label=Town list=towns value=Bonn><datalist id=towns><option>Bonn<option>Rom</datalist>
<select aria-label=Some multiple><option selected>A<option>B<option disabled>C</select>
<input type=checkbox id=c hidden checked><label for=c>Styled box</label>
<button aria-pressed=true>Bold</button><a href="/here" aria-current=page>Here</a>
<input aria-label=Bad aria-invalid=true><input aria-label=Off disabled><input type=radio aria-label=R checked>
<div role=tab aria-selected=true tabindex=0>Tab</div><div role=combobox aria-expanded=true tabindex=0 aria-label=Pick>Green</div>
<div tabindex=0>Focusable</div><ul role=listbox aria-label=Opts><li role=option aria-selected=true>Green</li><li role=option>Red</li></ul>
<button><img src="/icons/save.png?v=2"></button><button><i class="fa icon-pen"></i></button><a href=/x><svg><title>Feed</title></svg></a><img src=/map.png alt=Map>
<details><summary>Shut</summary>Unseen</details><div hidden>Unseen</div><div style="content-visibility:hidden;height:9px">Unseen</div><div inert>Unseen</div><dialog>Unseen</dialog>
<div style="cursor:pointer">` + strings.Repeat("many words ", 60) + `</div>
<ul><li><a href=/li>Item link</a></li></ul><a href=/card><h3>Card head</h3><p>and more</p></a><button title=Delete>x</button>
<label>City <select><optgroup label=DE><option>Bonn</optgroup></select></label>
<progress value=3 max=10 aria-label=Load></progress><meter value=0.5 aria-label=Full></meter>
<svg width=40 height=40><defs><text>Unseen</text></defs><g onclick="3"><text y=20>Slice</text></g></svg>
<ul><li draggable=true>Card of a board</li><li draggable=false>Fixed</li></ul><div draggable=true role=button tabindex=0>Brick</div>
<div id=portal style="position:fixed;inset:auto 0 0 0"><button>Cookies</button></div>
<dialog id=d><p>Sure?</p><button>Yes</button></dialog>`)})
	n.goTo(s.URL + "/")
	n.eval("d.showModal(); 1")
	snap := n.snap()
	t.Log("\n" + snap)
	wants(t, snap,
		"- text: Read\n- clickable \"the terms\" [ref=", "- text: or\n- clickable \"the rest\" [ref=", "- text: now.",
		`- clickable "Card text close" [ref=`, `  - clickable "close" [ref=`,
		`- textbox "One" [ref=`, `- textbox "Many" [multiline] [ref=`, `- textbox "Rich" [multiline] [ref=`, `: "Rich text"`,
		`- textbox "Town" [ref=`, `: "Bonn" of "Bonn", "Rom"`, `- listbox "Some" [multiple] [ref=`, `: "A" of "A", "B", "C" (disabled)`,
		`- checkbox "Styled box" [checked] [ref=`, `- button "Bold" [pressed]`, `- link "Here" [current] [ref=`, `-> /here`,
		`- textbox "Bad" [invalid]`, `- textbox "Off" [disabled]`, `- radio "R" [checked]`, `- tab "Tab" [selected]`, `- combobox "Pick" [expanded] [ref=`, ": Green",
		`- clickable "Focusable" [ref=`, `- option "Green" [selected]`, `- option "Red" [ref=`, "- button [hint=save.png] [ref=", "- button [hint=fa icon-pen] [ref=", `- link "Feed" [ref=`, `- img "Map"`,
		`- button "Shut" [collapsed]`, "- clickable [", "many words many words", `- progressbar "Load": 3 of 10`, `- meter "Full": 0.5 of 1`,
		"- list\n  - link \"Item link\" [ref=", `- link "Card head and more" [ref=`, `- button "x" [hint=Delete] [ref=`, `- combobox "City" [ref=`,
		`- clickable "Card of a board" [draggable] [ref=`, "- listitem: Fixed", `- button "Brick" [draggable] [ref=`,
		`- clickable "Slice" [ref=`, `- button "Cookies" [ref=`, "- dialog [modal] [ref=", "- text: Sure?", `- button "Yes" [focused] [ref=`)
	never(t, snap, "Unseen", `heading "Card`)
	if strings.Count(snap, "many words") < 60 {
		t.Error("the text of a long clickable part is cut")
	}
	// The label stands for the hidden box.
	n.eval("d.close(); 1")
	n.must("click", obj{"ref": n.ref("Styled box")})
	if n.eval("c.checked") != false {
		t.Error("the label did not switch its box")
	}
}

func TestSnapshotParts(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`<h1>Top</h1><table><caption>Parts</caption>`)
	for i := range 300 {
		fmt.Fprintf(&b, `<tr><td>%d<td>Part number %d<td><button>Order %d</button></tr>`, i, i, i)
	}
	b.WriteString(`</table><form aria-label=Login><input aria-label=User><button>Go</button></form>`)
	s, n := newPage(t, map[string]string{"/": html(b.String())})
	n.goTo(s.URL + "/")
	a := n.must("snapshot", obj{"max_chars": 4000})
	snap := a.m["snapshot"].(string)
	table := outline.Read(snap[strings.Index(snap, "- table"):]).Ref()
	if len(snap) > 4000 || a.m["truncated"] != true || table == "" {
		t.Fatalf("%d characters, table %q:\n%s", len(snap), table, snap)
	}
	wants(t, snap, `- heading "Top"`, `button "Order 0"`, `- textbox "User"`, `- button "Go"`, "characters left out; snapshot with ref "+table+" shows them)")
	part := n.must("snapshot", obj{"ref": table, "max_chars": 100000})
	wants(t, part.m["snapshot"].(string), `button "Order 299"`)
	if part.m["truncated"] != nil {
		t.Error("the whole table is said to be cut")
	}
	found := n.must("snapshot", obj{"search": "part number 250"}).m["snapshot"].(string)
	wants(t, found, "- table", "250 | Part number 250", `button "Order 250"`)
	never(t, found, "Order 251", "Login")
	wants(t, n.must("snapshot", obj{"search": "no such text"}).m["snapshot"].(string), "no line holds")
	flat := n.must("snapshot", obj{"depth": 1}).m["snapshot"].(string)
	wants(t, flat, "- table", "(+600 lines)", `- heading "Top"`)
	never(t, flat, "Order")
	only := n.must("snapshot", obj{"interactive_only": true, "search": "go"}).m["snapshot"].(string)
	wants(t, only, `button "Go"`)
	n.refused(capabilities.CodeStaleRef, "snapshot", obj{"ref": "e9999"})
}

func TestDeltaOfAPage(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{
		"/":  html(`<h1>Shop</h1><ul id=l><li>One<li>Two</ul><button id=b onclick="l.insertAdjacentHTML('beforeend','<li>Three'); this.disabled=true">More</button>`),
		"/2": html(`<p>Other</p>`),
	})
	n.goTo(s.URL + "/")
	first := n.must("snapshot", obj{})
	id := first.m["snapshot_id"].(string)
	a := n.must("snapshot", obj{"since": "last"})
	if a.m["delta"] != true || !strings.Contains(a.m["snapshot"].(string), "nothing changed since "+id) {
		t.Errorf("%v", a.json)
	}
	n.must("click", obj{"selector": "#b"})
	a = n.must("snapshot", obj{"since": id})
	text := a.m["snapshot"].(string)
	wants(t, text, "changed since "+id, "+   - listitem: Three", `~ - button "More" [disabled]`)
	never(t, text, "One", "Shop")
	body := text[strings.Index(text, "\n")+1:]
	got, err := outlinetest.Apply(strings.Split(first.m["snapshot"].(string), "\n"), body)
	if full := n.snap(); err != nil || strings.Join(got, "\n") != full {
		t.Errorf("the delta gives\n%s\nbut the page is\n%s\n%v", strings.Join(got, "\n"), full, err)
	}
	// Unknown, of another view, or of another document: all of it, which it says.
	whole := func(args obj, why, shows string) {
		t.Helper()
		a := n.must("snapshot", args)
		first, page, _ := strings.Cut(a.m["snapshot"].(string), "\n")
		if a.m["delta"] != nil || first != "("+why+": this is the page, not what changed)" || !strings.Contains(page, shows) {
			t.Errorf("%v: %s", args, a.json)
		}
	}
	whole(obj{"since": "s999"}, "s999 is not kept for this tab", "More")
	whole(obj{"since": id, "interactive_only": true}, id+" is of another view", "More")
	whole(obj{"since": "last", "selector": "#b"}, "no snapshot of this view is kept", "More")
	n.eval(`document.querySelector('ul').innerHTML = '<li>x'.repeat(200); 1`)
	whole(obj{"since": id, "max_chars": 1000}, "what changed since "+id+" takes more room", "Shop")
	id = n.must("snapshot", obj{}).m["snapshot_id"].(string)
	n.goTo(s.URL + "/2")
	whole(obj{"since": "last"}, id+" is of another document", "Other")
	// With an action.
	n.goTo(s.URL + "/")
	n.snap()
	a = n.must("click", obj{"selector": "#b", "snapshot": "delta"})
	text, _ = a.m["snapshot"].(string)
	wants(t, text, "+   - listitem: Three")
	never(t, text, "Shop")
	a = n.must("click", obj{"selector": "h1", "snapshot": "full"})
	text, _ = a.m["snapshot"].(string)
	wants(t, text, "Shop", "Three")
}

// A ref lives through history, whether Chrome kept the page or not.
func TestRefsThroughHistory(t *testing.T) {
	t.Parallel()
	pages := map[string]string{
		"/2":  html(`<button onclick="document.title='two'">Save</button>`),
		"/in": html(`<button onclick="this.textContent='Sent'">Send</button>`),
	}
	s := newSite(t, pages)
	n := newNode(t, s.URL, elsewhere(s))
	for name, extra := range map[string]string{"kept": "", "rebuilt": `<script>addEventListener('unload', () => {})</script>`} {
		pages["/"+name] = html(extra + `<button onclick="document.title='one'">Save</button><button>Same</button><button>Same</button><iframe src="` + elsewhere(s) + `/in"></iframe>`)
		n = n.on(capabilities.LaneID(name))
		n.goTo(s.URL + "/" + name)
		save, same, send := n.ref(`"Save"`), n.ref(`"Same"`), n.ref(`"Send"`)
		n.eval("window.sameDocument = true")
		n.goTo(s.URL + "/2")
		n.refused(capabilities.CodeStaleRef, "click", obj{"ref": save})
		n.eval("history.back(); 1")
		n.until("the page before", func() bool { return n.eval("location.pathname") == "/"+name })
		n.must("click", obj{"ref": save})
		if got := n.eval("document.title"); got != "one" {
			t.Errorf("%s: the title is %v", name, got)
		}
		n.must("click", obj{"ref": send})
		wants(t, n.snap(), `button "Sent"`)
		kept := n.eval("!!window.sameDocument").(bool)
		t.Logf("%s: the document was kept: %v", name, kept)
		// Two of the same name: no guess, unless the document itself is back.
		if _, err := n.try("click", obj{"ref": same}); (err == nil) != kept {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The large page as the peers were measured with, alone with the machine as they were.
func TestSnapshotOfALargePage(t *testing.T) {
	pages := map[string]string{"/other": html(`<h2>Elsewhere</h2><button>Foreign</button>`)}
	s := newSite(t, pages)
	pages["/"] = largePage() + `<iframe src="` + elsewhere(s) + `/other"></iframe>`
	n := newNode(t, s.URL, elsewhere(s))
	n.goTo(s.URL + "/")
	elements := n.eval(`document.querySelectorAll('*').length`).(float64)
	full := n.whole(obj{"max_chars": 200000})
	snap := full.m["snapshot"].(string)
	wants(t, snap, `"Edit 499"`, `"In 59"`, `"Deep"`, `"Foreign"`)
	capped := n.whole(obj{}).m["snapshot"].(string)
	if elements < 4500 || len(snap)/4 > 24000 || len(capped)/4 > 4000 || full.m["truncated"] != nil {
		t.Errorf("%.0f elements: %d tokens in full, %d capped", elements, len(snap)/4, len(capped)/4)
	}
	wants(t, capped, `"Edit 0"`, "left out; snapshot with ref", `"Foreign"`)
	t.Logf("%.0f elements: %d tokens in full, %d capped", elements, len(snap)/4, len(capped)/4)
	var took []time.Duration
	for range 15 {
		began := time.Now()
		n.must("snapshot", obj{})
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("p50 %v", took[len(took)/2])
}

// The words of a PDF are in no document, so the outline says where they are, and what
// it says works.
func TestSnapshotOfAPDF(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/a.pdf": "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n" +
		"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF", "/b": html("<p>b</p>"), "/framed": html("<p>Framed</p><iframe src=/a.pdf width=800 height=600></iframe>")})
	n := newNode(t, s.URL)
	for _, page := range []string{"/a.pdf", "/framed"} {
		n.goTo(s.URL + page)
		for _, only := range []bool{true, false} {
			wants(t, n.must("snapshot", obj{"interactive_only": only}).m["snapshot"].(string), "- (a PDF: a screenshot shows its pages, and its Download button gives the file; ")
		}
		n.until("the button", func() bool { return strings.Contains(n.snap(), `- button "Download"`) })
		n.until("the file", func() bool {
			return strings.Contains(n.must("click", obj{"ref": n.ref(`- button "Download"`)}).json, `"name":"a`)
		})
	}
	n.goTo(s.URL + "/b")
	if got := n.snap(); strings.Contains(got, "PDF") {
		t.Errorf("a page:\n%s", got)
	}
}

// A field's name is that of all its labels, in the order of the page, and of none that
// names another.
func TestNamesByLabels(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`
<label>Wraps <input id=a></label>
<label for=b>Names</label><input id=b>
<label for=c>Before</label><label>Around <input id=c></label><label for=c>After</label>
<label for=a>Of the first <input id=d title=Own></label>
<input id=twin title=T1><input id=twin title=T2><label for=twin>Twin</label>
<label for=none>Nobody</label><label>Outer <label>Inner <button id=e></button></label></label>
<label for=f>Choice</label><select id=f><option>x</select><label for=g>Much</label><progress id=g></progress><label for=h>Hidden</label><input type=hidden id=h>
<div id=host></div><script>host.attachShadow({mode:'open'}).innerHTML='<label for=b>Within</label><input id=b><label for=a>Stray</label>'</script>`)})
	n.goTo(s.URL + "/")
	snap := n.snap()
	for _, id := range []string{"a", "b", "c", "d", "f", "g"} {
		want := n.eval(`[...document.getElementById('` + id + `').labels].map(l=>[...l.childNodes].filter(k=>k.nodeType==3).map(k=>k.data.trim()).join(' ')).join(' ') || 'Own'`)
		if !strings.Contains(snap, ` "`+want.(string)+`"`) {
			t.Errorf("%s: no %q", id, want)
		}
	}
	wants(t, snap, `textbox "Twin"`, `textbox "T2"`, `textbox "Within"`, `textbox "Before Around After"`, `textbox "Own"`, `button "Outer Inner`)
	never(t, snap, `"T1"`)
	if t.Failed() {
		t.Log("\n" + snap)
	}
}

// A snapshot leaves out what nobody can see; it has a control that its page hides to draw
// its own, what will show by scrolling, and what is there to be read aloud.
func TestHiddenThings(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<style>
.sr { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap }
@keyframes come { from { opacity: 0 } 99% { opacity: 0 } to { opacity: 1 } }
</style>
<div style="opacity:0"><h2>Gone 1</h2><p>Gone 2</p></div>
<div style="opacity:0" id=menu><p>Gone 3</p><ul><li><a href=/x>Kept link</a></ul><label><input type=checkbox>Kept box</label><input type=file aria-label="Kept file"></div>
<p style="opacity:0.004">Gone 4</p><p style="opacity:0.4">Kept pale</p>
<p style="animation: come 9999s">Kept coming</p>
<div style="visibility:hidden">Gone 5 <b style="visibility:visible">Kept visible</b></div>
<button>Kept name<span style="visibility:hidden"> gone 6</span></button>
<ul style="content-visibility:hidden"><li>Gone 7<li><button>Gone 8</button></ul><article style="content-visibility:hidden;height:9px">Gone 9</article>
<p>In a line <span style="content-visibility:hidden">Kept inline</span></p>
<div style="height:0;overflow:hidden">Gone 10<input type=file aria-label="Kept upload"><div style="position:fixed;right:0;bottom:0">Kept out of it</div></div>
<div style="width:0;height:0;overflow:hidden;position:relative">Gone 11<div style="position:absolute">Gone 12</div></div>
<div style="height:0">Kept over</div>
<div style="position:absolute;left:-9999px">Gone 13<a href=#m>Kept skip</a></div><p style="position:absolute;top:-5000px">Gone 14</p>
<span class=sr>Kept aloud</span><span class=sr style="left:-10000px;clip-path:none">Kept aloud too</span>
<div id=scroller style="height:60px;width:200px;overflow:auto;position:relative"><p style="position:absolute;top:0">Kept above</p><div style="height:9000px"></div></div>
<table><tr><td style="opacity:0">Gone 15<td>Kept cell</tr></table>
<iframe srcdoc="<p style='opacity:0'>Gone 16</p><p>Kept frame</p>"></iframe>
<div style="height:3000px"></div><p style="opacity:0">Kept until seen</p>
<script>scroller.scrollTop = 8000</script>`)})
	n.goTo(s.URL + "/")
	n.until("the frame", func() bool { return strings.Contains(n.snap(), "Kept frame") })
	snap := n.snap()
	never(t, strings.ToLower(snap), "gone")
	wants(t, snap, `- link "Kept link" [ref=`, `- checkbox "Kept box" [ref=`, `- file "Kept file" [ref=`, "Kept pale", "Kept coming", "Kept visible", `- button "Kept name" [ref=`, "Kept inline",
		`- file "Kept upload" [ref=`, "Kept out of it", "Kept over", `- link "Kept skip"`, "Kept aloud", "Kept aloud too", "Kept above", "Kept cell", "Kept until seen")
	if t.Failed() {
		t.Log("\n" + snap)
	}
	n.eval("menu.style.opacity = 1; 1")
	wants(t, n.must("snapshot", obj{"since": "last"}).m["snapshot"].(string), "- text: Gone 3")
	n.eval("scrollTo(0, 9999); 1")
	never(t, n.snap(), "until seen")
}

// A page whose style sheets are on their way is not yet shown, and not yet read.
func TestSnapshotWaitsForStyles(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<a href=/2>go</a>`), "/2": `<!doctype html><link rel=stylesheet href=/style.css><p>shown</p><p class=x>hidden</p>`})
	site := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/style.css" {
			site.ServeHTTP(w, r)
			return
		}
		time.Sleep(500 * time.Millisecond) // a slow server
		w.Header().Set("Content-Type", "text/css")
		fmt.Fprint(w, ".x{display:none}")
	})
	for _, mode := range []string{"full", "none"} {
		n.goTo(s.URL + "/")
		shown := n.must("click", obj{"selector": "a", "snapshot": mode}).json
		if mode == "none" {
			shown = n.snap()
		}
		if !strings.Contains(shown, "text: shown") || strings.Contains(shown, "hidden") {
			t.Errorf("%s: %s", mode, shown)
		}
	}
}

// While a modal dialog is open a snapshot says that nothing else can be used.
func TestSnapshotOfAModalDialog(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<h1>Shop</h1><main id=main><p>` + strings.Repeat("many words ", 30) + `</p><button>Buy</button></main>
<dialog id=d aria-label=Terms><button>Agree</button><button id=more onclick="e.showModal()">More</button></dialog>
<dialog id=e><button onclick="e.close()">Back</button></dialog><div id=host></div>
<iframe srcdoc="<button>Inner</button><dialog id=f><button>In the frame</button></dialog>"></iframe>
<script>host.attachShadow({mode: 'open'}).innerHTML = '<dialog><button>Shade</button></dialog>'</script>`)})
	n.goTo(s.URL + "/")
	n.until("the frame", func() bool { return strings.Contains(n.snap(), "Inner") })
	note := func(what string) string { return "(the modal " + what + " is open: nothing outside of it can be used)" }
	never(t, n.snap(), "modal")
	n.refused(capabilities.CodeElementNotFound, "click", obj{"selector": "#more"})
	n.eval("d.showModal(); 1")
	change := n.must("snapshot", obj{"since": "last"})
	terms := `dialog "Terms" [ref=` + n.ref("- dialog") + `]`
	if text := change.m["snapshot"].(string); change.m["delta"] != true || !strings.Contains(text, "+ - "+note(terms)) || strings.Contains(text, "Buy") {
		t.Errorf("what opening changed:\n%s", text)
	}
	for _, only := range []bool{false, true} {
		first, rest, _ := strings.Cut(n.must("snapshot", obj{"interactive_only": only}).m["snapshot"].(string), "\n")
		if first != "- "+note(terms) || !strings.Contains(rest, `button "Buy"`) || strings.Contains(rest, "nothing outside") {
			t.Errorf("interactive only %v: %q, then\n%s", only, first, rest)
		}
	}
	wants(t, n.must("snapshot", obj{"selector": "#main"}).m["snapshot"].(string), note(terms))
	never(t, n.must("snapshot", obj{"selector": "#d"}).m["snapshot"].(string), "nothing outside")
	// The one on top counts.
	n.must("click", obj{"selector": "#more"})
	snap := n.snap()
	wants(t, snap, note(`dialog [ref=`+n.ref("- dialog [modal]")+`]`))
	never(t, snap, note(terms))
	n.must("click", obj{"ref": n.ref(`"Back"`)})
	wants(t, n.snap(), note(terms))
	n.eval("d.close(); 1")
	change = n.must("snapshot", obj{"since": "last"})
	if text := change.m["snapshot"].(string); change.m["delta"] != true || strings.Contains(text, "Buy") {
		t.Errorf("what closing changed:\n%s", text)
	}
	// In a frame and in a shadow root.
	n.eval("frames[0].f.showModal(); 1")
	wants(t, n.snap(), "  - "+note("dialog [ref="+n.ref("- dialog")+"]")+"\n  - button \"Inner\"")
	never(t, n.must("snapshot", obj{"selector": "#main"}).m["snapshot"].(string), "modal")
	n.eval("frames[0].f.close(); host.shadowRoot.firstChild.showModal(); 1")
	wants(t, n.snap(), "- "+note("dialog [ref="+n.ref("- dialog")+"]")+"\n- heading")
}

// An element without words of its own is told by those of its style sheet, or by a hint.
func TestNamesWithoutText(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<style>.words::before{content:"Say \"hi\""} .aloud::before{content:"\e001" / "Delete it"} .glyph::before{content:"\e001"} .attr::after{content:attr(data-l)} .both::after{content:"x / y"}
.gone::before{content:"Gone";display:none} .pic::before{content:url("/say.png")}</style>
<input type=image src="/go.png?v=1"><input type=image src=/go.png alt=Go>
<button class=words></button><button class=aloud></button><button class=glyph></button><a href=#x class=attr data-l="From data"></a><button><i class=both></i></button><button class=gone></button><button class=pic></button>
<button data-testid=remove class=c id=i><img src=/bin.png></button><button data-testid=tid class=glyph></button><button style="background:url(/img/bin.svg?v=2);width:20px;height:20px"></button><button class=own style="background:url(/no.svg)"></button>
<button class=words>Text</button><div role=checkbox class=words tabindex=0></div>`)})
	n.goTo(s.URL)
	snap := n.snap()
	wants(t, snap, "- button [hint=go.png] [ref=", `- button "Go" [ref=`, `- button "Say \"hi\"" [ref=`, `- button "Delete it" [ref=`, "- button [hint=glyph] [ref=", `- link "From data" [ref=`, `- button "x / y" [ref=`, "- button [hint=gone] [ref=", "- button [hint=pic] [ref=",
		"- button [hint=remove] [ref=", "- button [hint=tid] [ref=", "- button [hint=bin.svg] [ref=", "- button [hint=own] [ref=", `- button "Text" [ref=`, `- checkbox "Say \"hi\"" [ref=`)
}

// States and bounds that change what is done next.
func TestStatesOfASnapshot(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<style>.off{text-decoration:line-through}</style>
<table><tr><th aria-sort=ascending>Name<th aria-sort=none>Town<th aria-sort=descending><button>Age</button><th aria-sort=other onclick="1">Rank<tr><td>1<td>2<td>3<td>4</table>
<select aria-label=Town><option>Any<optgroup label=DE><option>Bonn<option>Ulm</optgroup><optgroup label=FR disabled><option>Paris</optgroup></select>
<input type=number aria-label=Count min=1 max=9 value=3><input type=range aria-label=Range max=7 value=2><input type=date aria-label=Day min=2020-01-01><input type=number aria-label=Free>
<div role=spinbutton tabindex=0 aria-label=Own aria-valuenow=4 aria-valuemin=0 aria-valuemax=5></div><input aria-label=Text min=1>
<input type=file multiple accept="image/*,.pdf" aria-label=Files><input type=file aria-label=File>
<p>Price <del>20 <b>EUR</b></del> <b>15</b></p><a href=#p>Shoe <s>$20</s> $15</a><p class=off>Done <a href=#d>there</a> it</p><del style="text-decoration:none">Kept</del>
<ol><li aria-current=step>Two</li></ol><a href=#q aria-current=false>Three</a>`)})
	n.goTo(s.URL)
	snap := n.snap()
	wants(t, snap, "- row: Name (sort=ascending) | Town\n", `- button "Age" [sort=descending] [ref=`, `- clickable "Rank" [sort=other] [ref=`,
		`: "Any" of "Any", in "DE": "Bonn", "Ulm", in "FR": "Paris" (disabled)`,
		`- spinbutton "Count" [min=1] [max=9] [ref=`, `- slider "Range" [ref=`, ": 2 (0 to 7)", `- date "Day" [min=2020-01-01] [ref=`, `- spinbutton "Free" [ref=`, `- spinbutton "Own" [min=0] [max=5] [ref=`, `- textbox "Text" [ref=`,
		`- file "Files" [multiple] [accept=image/*,.pdf] [ref=`, `- file "File" [ref=`,
		"- text: Price ~~20 EUR~~ 15\n", `- link "Shoe ~~$20~~ $15" [ref=`, "- text: ~~Done~~\n", `- link "there" [struck] [ref=`, "- text: Kept", "- listitem [current]: Two", `- link "Three" [ref=`)
}

// A frame that did not load is told from an empty one.
func TestSnapshotOfFramesThatDidNotLoad(t *testing.T) {
	t.Parallel()
	pages := map[string]string{"/empty": html("")}
	s, away := newSite(t, pages), newSite(t, nil)
	away.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Frame-Options", "DENY")
		fmt.Fprint(w, "<p>Framed</p>")
	})
	gone := newSite(t, nil)
	gone.Close()
	pages["/"] = html(`<iframe title=refused src="` + gone.URL + `"></iframe><iframe title=denied src="` + elsewhere(away) + `"></iframe><iframe title=policy src="http://other.test"></iframe><iframe title=empty src=/empty></iframe><iframe title=foreign src="` + elsewhere(s) + `/empty"></iframe>`)
	n := newNode(t, s.URL, elsewhere(s), elsewhere(away), gone.URL)
	n.goTo(s.URL)
	var lines []string
	// Chrome shows its error in a frame a moment after the page has loaded.
	n.until("three frames that did not load", func() bool {
		snap := n.whole(obj{}).m["snapshot"].(string)
		lines = strings.Split(snap, "\n")
		return strings.Count(snap, "did not load") >= 3
	})
	for i, name := range []string{"refused", "denied", "policy"} {
		if len(lines) < 2*i+2 || !strings.HasPrefix(lines[2*i], `- iframe "`+name+`" [ref=`) || lines[2*i+1] != "  - (this frame did not load; network-requests says why)" {
			t.Errorf("%s:\n%s", name, strings.Join(lines, "\n"))
		}
	}
	if all := strings.Join(lines, "\n"); strings.Count(all, "did not load") != 3 {
		t.Error(all)
	}
	wants(t, n.must("network-requests", obj{}).json, "failure")
}

// Of a long address the middle is left out, and no half of a secret stays; the link by
// itself shows all of it.
func TestLongAddresses(t *testing.T) {
	t.Parallel()
	const secret = "correct-horse-battery-staple"
	long := "https://far.test/shop/" + strings.Repeat("abcdefghij", 30) + "?id="
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, `<p><a href="%s%d">Offer %d</a></p>`, long, i, i)
	}
	at := long[:59-len(secret)/2] + "/" // a cut without a thought would halve it
	s, n := newPage(t, map[string]string{"/": html(`<input type=password id=p><a href="` + at + secret + "/" + long + `">Half</a><a href="` + long + secret + `-12345678">End</a><a href="` + long[:90] + `">Short</a><iframe src="data:text/html,` + long + `"></iframe>` + b.String())})
	n.goTo(s.URL)
	n.must("type", obj{"selector": "#p", "text": secret})
	a := n.must("snapshot", obj{})
	snap := a.m["snapshot"].(string)
	wants(t, snap, `"Offer 0" [ref=`, " -> "+long[:60]+"…"+(long + "0")[len(long)-29:]+"\n", `"Offer 99" [ref=`, (long + "99")[len(long)-28:], " -> "+long[:90]+"\n", " -> data:text/html,")
	never(t, snap, secret, secret[:8], secret[20:])
	if a.m["truncated"] != nil || len(snap) > 14000 {
		t.Errorf("%d characters", len(snap))
	}
	if one := n.must("snapshot", obj{"ref": n.ref(`"Offer 7"`)}).m["snapshot"].(string); !strings.HasSuffix(one, " -> "+long+"7") {
		t.Error(one)
	}
	one := n.must("snapshot", obj{"ref": n.ref(`"Half"`)}).m["snapshot"].(string)
	never(t, one, secret)
	wants(t, one, at)
}

// Rows that are rendered anew keep their refs, as long as a ref cannot come to mean
// another row than it did.
func TestRefsOfRows(t *testing.T) {
	t.Parallel()
	const script = `<script>
const people = [['1', 'Ann'], ['2', 'Ben'], ['3', 'Cid'], ['4', 'Dan'], ['4', 'Dan']];
const draw = (...which) => { list.innerHTML = which.map(i => '<tr><td>' + people[i].join('<td>') + '<td><button onclick="said = ' + i + '">Delete</button><button>Edit ' + people[i][1] + '</button></tr>').join(''); cards.innerHTML = which.map(i => '<div>' + people[i] + ' <button onclick="said = ' + i + '">Drop</button></div>').join('') };
let said = null; draw(0, 1, 2, 3, 4);
</script>`
	s, n := newPage(t, map[string]string{"/": html(`<table><tbody id=list></tbody></table><div id=cards></div>` + script)})
	refs := func(name string) (all []string) {
		for line := range strings.SplitSeq(n.snap(), "\n") {
			if r := outline.Read(line); strings.Contains(line, `button "`+name+`"`) {
				all = append(all, r.Ref())
			}
		}
		return all
	}
	n.goTo(s.URL)
	rows, cards := refs("Delete"), refs("Drop")
	edit := n.ref(`"Edit Ben"`)
	if len(rows) != 5 || len(cards) != 5 {
		t.Fatal(rows, cards)
	}
	n.eval(`draw(0, 1, 2, 3, 4); 1`)
	for i, ref := range rows[:3] {
		n.must("click", obj{"ref": ref})
		if got := n.eval("said"); got != float64(i) {
			t.Errorf("row %d: %v", i, got)
		}
	}
	n.must("click", obj{"ref": edit})
	n.refused(capabilities.CodeStaleRef, "click", obj{"ref": rows[3]}) // there are two such rows
	n.refused(capabilities.CodeStaleRef, "click", obj{"ref": cards[1]})
	n.eval(`draw(0, 2, 4); 1`) // Ben and one of the Dans went
	n.must("click", obj{"ref": rows[2]})
	if got := n.eval("said"); got != 2. {
		t.Errorf("Cid moved up: %v", got)
	}
	n.eval(`draw(2); said = null; 1`)
	for _, ref := range []string{rows[0], rows[1], rows[3], rows[4], cards[0], edit} {
		n.refused(capabilities.CodeStaleRef, "click", obj{"ref": ref})
	}
	if got := n.eval("said"); got != nil {
		t.Errorf("the row that stayed was pressed: %v", got)
	}
	// Seen in a part of the page only.
	n.goTo(s.URL + "/?part")
	only := outline.Read(strings.Split(n.must("snapshot", obj{"selector": "tr:nth-child(1) button:first-of-type"}).m["snapshot"].(string), "\n")[0]).Ref()
	n.eval(`draw(1); 1`)
	n.refused(capabilities.CodeStaleRef, "click", obj{"ref": only})
	// In a document that was loaded anew.
	n.goTo(s.URL + "/?again")
	first := refs("Delete")[0]
	n.goTo("about:blank")
	n.goTo(s.URL + "/?again")
	n.eval(`draw(1); 1`)
	n.refused(capabilities.CodeStaleRef, "click", obj{"ref": first})
}

// A search takes a pattern, and shows lines around what it finds.
func TestSearchByPattern(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<main><h1>Orders</h1><p>Before it<p>Order 4711 of <b>2026-01-02</b><p>After it<p>Far away<p>Order none<iframe srcdoc="<p>Order 99 of 2025-12-31"></iframe></main>`)})
	n.goTo(s.URL + "/")
	find := func(args obj) string { t.Helper(); return n.must("snapshot", args).m["snapshot"].(string) }
	got := find(obj{"search": `Order \d+ of \d{4}-\d\d`, "regex": true})
	wants(t, got, "4711", "Order 99", "- main")
	for _, not := range []string{"Before", "After", "none"} {
		if strings.Contains(got, not) {
			t.Errorf("%q in:\n%s", not, got)
		}
	}
	got = find(obj{"search": `4711`, "regex": true, "context_lines": 1})
	wants(t, got, "Before it", "4711", "After it")
	if strings.Contains(got, "Far away") {
		t.Error(got)
	}
	wants(t, find(obj{"search": "4711", "context_lines": 2}), "Before it", "Far away")
	wants(t, find(obj{"search": "^text: Far", "regex": true}), "Far away")
	if got = find(obj{"search": "order none", "regex": true}); strings.Contains(got, "none") || !strings.Contains(got, "(?i)") {
		t.Error(got)
	}
	wants(t, find(obj{"search": "(?i)order none", "regex": true}), "Order none")
	for _, bad := range []string{"(", `(?=x)`, `\1`, "a{2000}", strings.Repeat("x", 1001)} {
		n.refused(capabilities.CodeInvalidArguments, "snapshot", obj{"search": bad, "regex": true})
	}
	n.refused(capabilities.CodeInvalidArguments, "snapshot", obj{"regex": true})
}

func wants(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("missing %q in:\n%s", part, text)
		}
	}
}
