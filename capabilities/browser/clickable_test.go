//go:build linux

package browser

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/runtime"

	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
)

// An element that only its listeners make clickable is marked, in all documents and roots;
// one that listens for all that is in it is not.
func TestListenersMakeClickable(t *testing.T) {
	t.Parallel()
	const listen = `<script>
const on = (id, type) => document.getElementById(id)?.addEventListener(type, () => { said ||= id + ' ' + type });
let said = '';
</script>`
	pages := map[string]string{"/in": html(`<div id=inner>Inner</div>` + listen + `<script>on('inner', 'click')</script>`)}
	s := newSite(t, pages)
	pages["/"] = html(listen + `
<main id=all><div id=grid style="height:200px"><p id=p1>One</p><p id=p2>Two</p><p id=p3>Three</p><p id=p4>Four</p></div>
<span id=click>Click</span><div id=mousedown>Down</div><div id=pointerdown>Pointer</div><div id=property>Property</div><ul><li id=mouseup>Item</ul>
<table><tr><th id=dblclick>Head<th>Other</tr></table><div id=card>Card <b id=close>close</b></div><div id=keydown>Keys</div><div id=contextmenu>Right</div>
<div id=wide style="height:600px">Wide</div><button><span id=within>Button</span></button><div id=host></div><p id=once>Once</p></main>
<iframe srcdoc="<div id=own>Own frame</div>"></iframe><iframe src="` + elsewhere(s) + `/in"></iframe>
<script>
for (const id of ['click', 'mousedown', 'pointerdown', 'mouseup', 'dblclick', 'contextmenu', 'keydown']) on(id, id);
for (const id of ['all', 'grid', 'p1', 'p2', 'p3', 'p4', 'card', 'close', 'wide', 'within']) on(id, 'click');
document.addEventListener('click', () => {}); document.body.addEventListener('mousedown', () => {});
property.onclick = () => { said ||= 'property' };
const root = host.attachShadow({mode: 'closed'}); root.innerHTML = '<div>Shut</div>';
root.firstChild.addEventListener('click', () => { said ||= 'shut' });
const f = () => { said ||= 'once'; once.removeEventListener('click', f) }; once.addEventListener('click', f);
const frame = document.querySelector('iframe'), own = () => frame.contentDocument.getElementById('own').addEventListener('click', () => { said ||= 'own' });
if (frame.contentDocument.getElementById('own')) own(); else frame.onload = own;
</script>`)
	n := newNode(t, s.URL, elsewhere(s))
	n.goTo(s.URL + "/")
	marked := []string{"One", "Click", "Down", "Pointer", "Property", "Item", "Head", "Right", "Card close", "close", "Shut", "Own frame", "Inner", "Once"}
	not := []string{"Keys", "Wide", "Other", "Button", "One Two Three Four"}
	for _, only := range []bool{true, false} { // the first of them is read as soon as the page is there
		snap := n.must("snapshot", obj{"interactive_only": only}).m["snapshot"].(string)
		for _, name := range marked {
			wants(t, snap, `- clickable "`+name+`" [ref=`)
		}
		for _, name := range not {
			never(t, snap, `clickable "`+name+`"`)
		}
		never(t, snap, "clickable [")
		if t.Failed() {
			t.Fatal("\n" + snap)
		}
	}
	for name, title := range map[string]string{"Click": "click click", "Pointer": "pointerdown pointerdown", "Shut": "shut", "Own frame": "own", "Once": "once"} {
		n.must("click", obj{"ref": n.ref(`"` + name + `"`)})
		if got := n.eval("const was = said; said = ''; was"); got != title {
			t.Errorf("%s: what heard the press is %v", name, got)
		}
	}
	snap := n.snap()
	never(t, snap, `clickable "Once"`) // it listens no more
	// The snapshot that an action brings along marks newer elements, too.
	n.eval(`property.onclick = () => { p1.insertAdjacentHTML('afterend', '<p id=late>Late</p>'); on('late', 'click') }; 1`)
	a := n.must("click", obj{"selector": "#property", "snapshot": "delta"})
	wants(t, a.m["snapshot"].(string), `- clickable "Late" [ref=`)
	if again := n.must("snapshot", obj{"since": "last"}).m["snapshot"].(string); !strings.Contains(again, "nothing changed") {
		t.Errorf("of a page at rest:\n%s", again)
	}
}

// A page that listens is read again and again, while it leaves much to collect: asking
// Chrome for the listeners of a document in our own world ended its process each tenth
// time.
func TestListenersAreReadSafely(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<div id=l style="cursor:pointer">Listens</div><script>l.addEventListener('click', () => 1)</script>`)})
	n := newNode(t, s.URL)
	for i := range 60 {
		r := n.must("navigate", obj{"url": fmt.Sprintf("%s/?%d", s.URL, i), "snapshot": "full"})
		if snap, _ := r.m["snapshot"].(string); !strings.Contains(snap, `clickable "Listens"`) {
			t.Fatalf("%d: %s", i, r.json)
		}
	}
}

// An element that listens for several alike hands that down to them: each can be pressed
// by itself.
func TestOneListenerForMany(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<div id=menu><div>Red</div><div>Blue</div></div><div id=stars><span>1☆</span><span>2☆</span></div>
<table id=days><tr><td>23<td>24<td>25<tr><td>30<td>31<td></table><div id=card><b>Title</b><p>Words</p></div><ul id=found><li><span>Only result</span></ul>
<script>var got = ''; for (const x of [menu, stars, days, card, found]) x.addEventListener('click', e => { got = x.id + ' ' + e.target.textContent.trim() })</script>`)})
	n.goTo(s.URL)
	for name, want := range map[string]string{"Red": "menu Red", "Blue": "menu Blue", "2☆": "stars 2☆", "24": "days 24", "31": "days 31", "Title Words": "card", "Only result": "found Only result"} {
		ref := n.ref(`clickable "` + name)
		n.must("click", obj{"ref": ref})
		if got := fmt.Sprint(n.eval("got")); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", name, got)
		}
	}
	if snap := n.snap(); strings.Contains(snap, "Red Blue") || strings.Contains(snap, "23 24") {
		t.Error(snap)
	}
}

// Each element is asked once whether it holds several alike, not once for each of them.
func TestAlikeAreComparedOnce(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<table id=days>` + strings.Repeat(`<tr><td>a<td>b<td>c`, 200) + `</table><script>days.addEventListener('click', () => 1)</script>`)})
	n.goTo(s.URL)
	n.snap()
	w, err := n.tabOf().inWorld(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ours := func(expression string) float64 {
		r, err := devtools.Do(t.Context(), w.s, runtime.Evaluate, runtime.EvaluateParams{Expression: expression, ContextID: w.id, ReturnByValue: ptr(true)})
		if err != nil {
			t.Fatal(err)
		}
		var v float64
		if err := json.Unmarshal(r.Result.Value, &v); err != nil {
			t.Fatalf("%s: %v", r.Result.Value, err)
		}
		return v
	}
	ours(`var asked = 0; { const name = ` + strconv.Quote(inpage.Second("children")) + `, d = Object.getOwnPropertyDescriptor(Element.prototype, name), get = d.get; d.get = function () { asked++; return get.call(this) }; Object.defineProperty(Element.prototype, name, d) } 0`)
	n.snap()
	if asked, all := ours("asked"), ours("document.querySelectorAll('*').length"); asked == 0 || asked > all {
		t.Errorf("the children were asked for %.0f times, of %.0f elements", asked, all)
	}
}

// An element that takes clicks and has a role of its own keeps it, has a ref, and is among
// those that can be acted on; an empty anchor is not, and a picture in a link is told by the
// link's name.
func TestClickableWithARole(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<img src=/a.png onclick="hit('a')" width=20 height=20><img src=/b.png alt=Pic onclick="hit('b')"><img src=/c.png alt=Only>
<h3 onclick="hit('c')">Head</h3><h3>Plain</h3><h2 style="cursor:pointer">Pointed <a href=#z>inner</a></h2><h4 id=listens>Listens</h4>
<div role=status onclick="hit('e')">Done</div><section aria-label=Card onclick="hit('f')"><p>Words</p></section><canvas onclick="hit('g')"></canvas>
<a href=#in><h3>Within</h3></a><style>a{cursor:pointer}</style><a id=place></a><a href=#p><span><img src=/d.png alt=Logo> Home</span></a><a href=#q aria-label=Given><img src=/e.png alt=Other></a><script>const hit = x => { document.title = x }; listens.addEventListener('click', () => hit('d'))</script>`)})
	n.goTo(s.URL)
	for _, only := range []bool{true, false} {
		snap := n.must("snapshot", obj{"interactive_only": only}).m["snapshot"].(string)
		wants(t, snap, "- img [hint=a.png] [ref=", `- img "Pic" [ref=`, `- heading "Head" [level=3] [ref=`, `- heading "Pointed inner" [level=2] [ref=`, `  - link "inner" [ref=`,
			`- heading "Listens" [level=4] [ref=`, "- status [ref=", `- region "Card" [ref=`, "- canvas [ref=", `- link "Within" [ref=`)
		never(t, snap, `heading "Plain" [level=3] [ref=`, `heading "Within"`, "clickable", `img "Logo"`)
		if only {
			never(t, snap, "Plain", "Only")
		} else {
			wants(t, snap, `- heading "Plain" [level=3]`, `- img "Only" [ref=`, `- link "Logo Home"`, `- img "Other"`)
		}
		if t.Failed() {
			t.Fatal("\n" + snap)
		}
	}
	for name, title := range map[string]string{"hint=a.png": "a", `"Pic"`: "b", `"Head"`: "c", `"Listens"`: "d", "- status": "e", `"Card"`: "f", "- canvas": "g"} {
		n.must("click", obj{"ref": n.ref(name)})
		if got := n.eval("document.title"); got != title {
			t.Errorf("%s: %v", name, got)
		}
	}
	// Made anew, it is found by its role and name.
	head := n.ref(`"Head"`)
	n.eval(`const h = document.querySelector('h3'); h.outerHTML = h.outerHTML; 1`)
	n.must("click", obj{"ref": head})
	if got := n.eval("document.title"); got != "c" {
		t.Errorf("the heading made anew: %v", got)
	}
}

// A link by its role alone has no address.
func TestLinksByRole(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.goTo("data:text/html,<span role=link tabindex=0>Span</span><button role=link>Page 2</button><a role=link aria-disabled=true>Off</a><div role=link href=/x>Own</div>")
	wants(t, n.must("snapshot", nil).m["snapshot"].(string), `- link "Span" [ref=e1]`, `- link "Page 2" [ref=e2]`, `- link "Off" [disabled] [ref=e3]`, `- link "Own" [ref=e4]`)
}

// A root that listens to all there is, as a framework's does, and what stands around the
// rows of a grid, hide nothing of what is in them; a press can go to each cell.
func TestListenersAroundOthers(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<div id=root style="width:300px"><h2>Notes</h2><p>Words</p></div>
<div id=holder style="width:300px"><table role=grid><tr role=row><td role=gridcell tabindex=-1>a<td role=gridcell tabindex=-1>b<tr role=row><td role=gridcell tabindex=-1>c<td role=gridcell tabindex=-1>d</table></div>
<div id=month><div><div><div><div><table role=grid><tr role=row><td role=gridcell>8<td role=gridcell>9</table></div></div></div></div></div><table role=grid><tr role=row><td role=gridcell>still</table>
<div id=outer><div id=middle><span id=inner>Once</span></div></div>
<script>for (const t of ['click', 'mousedown']) for (let i = 0; i < 25; i++) root.addEventListener(t, () => i);
month.onmousedown = () => {}; holder.onmousedown = e => { document.title = e.target.textContent }; for (const x of [outer, middle, inner]) x.onclick = () => { document.title += x.id }</script>`)})
	n.goTo(s.URL)
	snap := n.snap()
	wants(t, snap, "- heading \"Notes\" [level=2]\n- text: Words\n", `- clickable "a" [ref=`, `- clickable "d" [ref=`, `- clickable "9" [ref=`, "row: still")
	if strings.Count(snap, `"Once"`) != 1 || strings.Contains(snap, "a b c d") {
		t.Error(snap)
	}
	n.must("click", obj{"ref": n.ref(`clickable "c"`)})
	n.must("click", obj{"ref": n.ref(`clickable "Once"`)})
	if got := n.eval("document.title"); got != "cinnermiddleouter" {
		t.Error(got)
	}
}

// An element that takes drops has a ref to drop on.
func TestDropZones(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<div id=card draggable=true>Card</div><div id=zone>Put it here</div><ul id=list aria-label=Done><li>First</ul><div id=empty style="height:40px"></div>
<script>card.ondragstart = e => e.dataTransfer.setData('text/plain', 'card'); document.addEventListener('drop', () => {});
for (const x of [zone, list, empty]) { x.addEventListener('dragover', e => e.preventDefault()); x.addEventListener('drop', e => { e.preventDefault(); x.append(card) }) }</script>`)})
	n.goTo(s.URL)
	wants(t, n.snap(), `- group [dropzone] [ref=`, `: Put it here`, `- list "Done" [dropzone] [ref=`)
	n.must("drag", obj{"source_ref": n.ref(`"Card"`), "target_ref": n.ref(`list "Done"`)})
	if got := n.eval("card.parentElement.id"); got != "list" {
		t.Error(got)
	}
	n.must("drag", obj{"source_ref": n.ref(`"Card"`), "target_ref": n.ref(`group [dropzone] [ref`)})
	if got := n.eval("card.parentElement.id"); got != "zone" && got != "empty" {
		t.Error(got)
	}
}
