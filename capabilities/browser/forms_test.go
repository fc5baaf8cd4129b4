//go:build linux

package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// Lists, pickers and tables of libraries read as a person sees them: once, with their
// words, and with nothing to press that nobody can.

func TestSearchInAListIsNoSecret(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<input id=c role=combobox aria-autocomplete=list aria-label=Country autocomplete=new-password oninput="said.textContent=value"><p id=said></p>
<input id=p aria-label=Shown autocomplete=new-password><input id=w type=password role=combobox aria-autocomplete=list aria-label=Odd>`)})
	n.goTo(s.URL)
	n.must("type", obj{"selector": "#c", "text": "Germany"})
	n.must("fill-form", obj{"fields": []obj{{"selector": "#p", "value": "hunter2secret"}, {"selector": "#w", "value": "anotherSecret"}}})
	snap := n.snap()
	wants(t, snap, `- combobox "Country" [ref=`, `: "Germany"`, "- text: Germany", `(filled, hidden)`)
	never(t, snap, "hunter2secret", "anotherSecret")
}

func TestPagesSeeAMouse(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html("Pointers")})
	n := newNode(t, s.URL)
	n.goTo(s.URL)
	const sees = `['(pointer: fine)', '(hover: hover)', '(any-pointer: fine)', '(any-hover: hover)', '(pointer: coarse)'].map(q => +matchMedia(q).matches).join('')`
	if got := n.eval(sees); got != "11110" {
		t.Errorf("a page sees %v", got)
	}
	n.must("resize", obj{"width": 390, "height": 800, "mobile": true})
	if got := fmt.Sprint(n.eval(sees)); got[0] != '0' || got[4] != '1' {
		t.Errorf("on a phone it sees %v", got)
	}
}

func TestOptionsToBeReadAloud(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<div role=listbox style="width:0;height:0;overflow:hidden"><div role=option aria-selected=true>Rome</div><div role=option>Oslo</div></div>
<div role=listbox aria-label=Seen><div role=option>Bonn</div></div><div style="cursor:pointer">Rome</div>
<div style="width:0;height:0;overflow:hidden"><input type=checkbox id=box><button>Go</button><a href=#x>Skip</a></div><label for=box>Box</label>`)})
	n.goTo(s.URL)
	snap := n.snap()
	wants(t, snap, `- clickable "Rome"`, `- option "Bonn"`, `- checkbox "Box"`, `- button "Go"`, `- link "Skip"`)
	never(t, snap, `option "Rome"`, "Oslo", "listbox [")
}

func TestLabelOfAHiddenControl(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<label for=a>Fruit</label><select id=a aria-hidden=true style="position:absolute;width:1px;height:1px"><option>Fig</select><span role=combobox tabindex=0 aria-expanded=false>Fig</span>
<label for=b>Town</label><select id=b hidden></select><label for=c>Plain</label><input id=c>
<label><input type=checkbox aria-hidden=true style="opacity:0">Tick</label><label><input type=radio style="opacity:0">Ring</label>`)})
	n.goTo(s.URL)
	snap := n.snap()
	wants(t, snap, "- text: Fruit\n- combobox", "- text: Town\n", `- textbox "Plain"`, `- checkbox "Tick"`, `- radio "Ring"`)
	never(t, snap, "text: Plain", "text: Tick", "text: Ring")
}

func TestWordsBesideAName(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<button aria-label="Choose a month">May</button><button aria-label=Close>×</button><button aria-label="3 new messages">3</button>
<a href=#a aria-label="Steel bolt">Steel bolt <b>$3.50</b></a><button aria-label=Menu><svg><title>Menu</title></svg></button><h2 id=h>Head</h2><div role=tab tabindex=0 aria-labelledby=h>Tab words</div>`)})
	n.goTo(s.URL)
	snap := n.snap()
	wants(t, snap, `"Choose a month" [ref=`, `]: May`, "$3.50", "Tab words")
	never(t, snap, "×", "]: 3\n")
}

// An element that only stands around a field or a link is not listed beside it.
func TestWhatStandsAroundAField(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<div class=l><div class=l><label for=a>Town</label><input id=a><button>Open</button></div></div>
<table><tr><td class=l><a href=#b>Fig</a><tr><td class=l><button disabled>Off</button></table>
<div class=l><input type=radio aria-label=One><input type=radio aria-label=Two></div><div class=l tabindex=0><img src=/i.png alt=down><div role=combobox tabindex=0 aria-label=Size>Large</div></div>
<div class=l><div role=combobox tabindex=0 aria-label="Rows: 5">5</div><div></div></div>
<label class=l><span><input type=checkbox></span><span>Agree</span></label>
<div class=l>Card <input aria-label=Note></div><div class=l style="width:200px;height:99px"><button>Like</button></div><div class=l style="width:150px;height:150px"><input type=checkbox></div><div class=l draggable=true><button>Drag</button></div>
<script>for (const x of document.querySelectorAll('.l')) x.addEventListener('click', () => {})</script>`)})
	n.goTo(s.URL)
	snap := n.snap()
	wants(t, snap, "- textbox \"Town\" [ref=", "- button \"Open\" [ref=", "- link \"Fig\" [ref=", "- radio \"One\" [ref=", `- combobox "Rows: 5" [ref=`, `]: Large`, `- checkbox "Agree" [ref=`,
		`- clickable "Off" [ref=`, `- clickable "Card Note" [ref=`, `- clickable "Like" [ref=`, "- clickable [hint=l] [ref=", `- clickable "Drag" [draggable] [ref=`)
	never(t, snap, `clickable "Town`, `clickable "Fig`, `clickable "One`, `clickable "down`, `clickable "5"`, `clickable "Large`, `clickable "Agree`)
	if t.Failed() {
		t.Log(snap)
	}
}

// A list or picker that takes the value back when the focus goes on is not said to hold it.
func TestFillOfWhatTakesItBack(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<input id=pick aria-label=Pick><input id=list role=combobox aria-expanded=false aria-label=List><input id=plain aria-label=Plain><input id=mask aria-label=Mask>
<script>pick.onfocus = () => { const d = document.createElement('div'); d.textContent = 'Days'; d.style.position = 'absolute'; document.body.append(d);
  pick.onblur = () => setTimeout(() => { pick.value = ''; d.remove(); }, 100); };
list.oninput = () => list.ariaExpanded = 'true'; list.onblur = () => { list.ariaExpanded = 'false'; setTimeout(() => { list.value = ''; }, 200); };
mask.oninput = () => { mask.value = mask.value.toUpperCase(); };</script>`)})
	n.goTo(s.URL)
	all := func(with ...string) []obj {
		var fields []obj
		for _, id := range with {
			fields = append(fields, obj{"selector": "#" + id, "value": "word"})
		}
		return fields
	}
	for _, c := range []struct {
		fields   []obj
		effect   capabilities.Effect
		evidence string
	}{
		{all("pick", "list", "plain", "mask"), capabilities.EffectPartial, "fields[3]: changed or limited by the page; fields[0], fields[1]: the page took the value back; a picker or a list is clicked, and what it shows then; the others hold their values"},
		{all("plain", "list"), capabilities.EffectConfirmed, "each field holds its value; fields[1]: its list is open, and what is meant is chosen there: click it"},
		{all("list"), capabilities.EffectConfirmed, "the field holds the value; the field: its list is open, and what is meant is chosen there: click it"},
		{all("plain"), capabilities.EffectConfirmed, "the field holds the value"},
	} {
		n.goTo(s.URL)
		if a := n.must("fill-form", obj{"fields": c.fields}); a.Effect != c.effect || a.Evidence != c.evidence {
			t.Errorf("%v: %s (%s)", c.fields, a.Effect, a.Evidence)
		}
	}
}

// An element that looks like a field and cannot be filled says how it is worked with.
func TestWaysOfOtherFields(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<input id=picker readonly><div id=slider role=slider tabindex=0 aria-valuenow=3></div><button id=list aria-haspopup=listbox>One</button><div id=combo role=combobox tabindex=0></div><select id=native></select><button id=other>Other</button>`)})
	n.goTo(s.URL)
	for _, c := range []struct{ tool, id, hint string }{
		{"fill-form", "picker", "click it, take a snapshot"}, {"type", "picker", "click it, take a snapshot"},
		{"fill-form", "slider", "press-key"}, {"type", "slider", "press-key"},
		{"fill-form", "list", "click the option"}, {"type", "list", "click the option"}, {"select-option", "list", "click the option"},
		{"fill-form", "combo", "click the option"}, {"type", "combo", "click the option"}, {"type", "native", "select-option"},
		{"type", "other", "choose another element"},
	} {
		args := obj{"selector": "#" + c.id, "value": "x"}
		switch c.tool {
		case "type":
			args = obj{"selector": "#" + c.id, "text": "x"}
		case "select-option":
			args = obj{"selector": "#" + c.id, "values": []string{"x"}}
		}
		if _, err := n.try(c.tool, args); err == nil || !strings.Contains(err.PublicHint(), c.hint) {
			t.Errorf("%s of the %s: %v", c.tool, c.id, err)
		}
	}
}

// Dates, sliders and lists behind a modal dialog are not set, as text is not.
func TestFillBehindAModalDialog(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<input type=date id=date><input type=range id=range><select id=list><option>A<option>B</select>
<dialog id=d><input type=date id=in><select id=inlist><option>A<option>B</select></dialog><div inert><input type=date id=inert></div><script>d.showModal()</script>`)})
	n.goTo(s.URL)
	for id, value := range map[string]string{"date": "2026-01-02", "range": "70", "list": "B", "inert": "2026-01-02"} {
		n.refused(capabilities.CodeExecutionFailed, "fill-form", obj{"selector": "#" + id, "value": value})
	}
	n.refused(capabilities.CodeExecutionFailed, "select-option", obj{"selector": "#list", "values": []string{"B"}})
	n.must("fill-form", obj{"fields": []obj{{"selector": "#in", "value": "2026-01-02"}, {"selector": "#inlist", "value": "B"}}})
	if got := n.eval("[date.value, range.value, list.value, inert.value, document.getElementById('in').value, inlist.value].join()"); got != ",50,A,,2026-01-02,B" {
		t.Error(got)
	}
	n.eval("d.close(); 1")
	n.must("select-option", obj{"selector": "#list", "values": []string{"B"}})
	n.must("fill-form", obj{"selector": "#date", "value": "2026-01-02"})
}

// Which option the arrow keys came to, and Enter takes, is told.
func TestActiveOption(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<input id=c role=combobox aria-label=City aria-controls=l><div role=listbox id=l aria-label=Cities><div role=option id=o0>Rome</div><div role=option id=o1>Oslo</div></div>
<script>let i = -1; c.onkeydown = e => { if (e.key === 'ArrowDown') c.setAttribute('aria-activedescendant', 'o' + (i = (i + 1) % 2)) }</script>`)})
	n.goTo(s.URL)
	never(t, n.snap(), "[active]")
	n.must("press-key", obj{"selector": "#c", "key": "ArrowDown"})
	wants(t, n.snap(), `- option "Rome" [active] [ref=`, `- option "Oslo" [ref=`)
	a := n.must("press-key", obj{"key": "ArrowDown", "snapshot": "delta"})
	wants(t, a.m["snapshot"].(string), `option "Oslo" [active] [ref=`, `option "Rome" [ref=`)
	n.eval("c.blur(); 1")
	never(t, n.snap(), "[active]")
}

// A box or ring that is there for readers only, 1 pixel large or far out, is set by its label.
func TestBoxesForReaders(t *testing.T) {
	t.Parallel()
	const hide = `style="position:absolute;width:1px;height:1px;clip:rect(0 0 0 0);overflow:hidden;margin:0;left:0"`
	s, n := newPage(t, map[string]string{"/": html(`<div style="position:relative"><label for=r1 style="display:inline-block">One star</label><input type=radio name=r id=r1 ` + hide + `>
<label for=r2>Two stars</label><input type=radio name=r id=r2 ` + hide + `><label>Box <input type=checkbox id=far style="position:absolute;left:-9999px"></label></div>`)})
	n.goTo(s.URL)
	n.must("fill-form", obj{"fields": []obj{{"ref": n.ref("Two stars"), "value": "true"}, {"ref": n.ref(`"Box"`), "value": "true"}}})
	if got := n.eval("[r1.checked, r2.checked, far.checked].join()"); got != "false,true,true" {
		t.Error(got)
	}
	n.must("click", obj{"ref": n.ref("One star")})
	if got := n.eval("[r1.checked, r2.checked].join()"); got != "true,false" {
		t.Error(got)
	}
}

// A name holds what is shown, not what waits hidden beside it.
func TestHiddenPartsOfAName(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<button>Town <span aria-label=Clear style="visibility:hidden">x</span><img alt=Gone style="display:none"><i aria-label=Open></i></button>`)})
	n.goTo(s.URL)
	wants(t, n.snap(), `- button "Town Open" [ref=`)
}

// The places by which a library keeps the focus in its menu are nothing to press.
func TestFocusGuards(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<div tabindex=0></div><span tabindex=0 style="position:absolute;width:1px;height:1px"></span><div tabindex=0 style="width:50px;height:50px"></div><div tabindex=0>Words</div><div tabindex=0 style="height:0"><button>Go</button></div>`)})
	n.goTo(s.URL)
	snap := n.snap()
	wants(t, snap, `- clickable "Words" [ref=`, "- clickable [ref=")
	if got := strings.Count(snap, "clickable [ref="); got != 1 {
		t.Errorf("%d places without a name:\n%s", got, snap)
	}
}

// A dialog that comes once its curtain is drawn is in the answer of what opened it.
func TestDialogAfterItsCurtain(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<button id=open>Open</button><div id=curtain style="position:fixed;inset:0;opacity:0;transition:opacity .2s;visibility:hidden;background:#0008"></div><div role=dialog id=d hidden style="position:fixed;top:9px">Sure?</div>
<script>document.getElementById('open').onclick = () => { curtain.style.visibility = 'visible'; curtain.style.opacity = 1; curtain.ontransitionend = () => { d.hidden = false; }; };</script>`)})
	n.goTo(s.URL)
	n.snap()
	a := n.must("click", obj{"selector": "#open", "snapshot": "delta"})
	wants(t, a.m["snapshot"].(string), "Sure?")
}
