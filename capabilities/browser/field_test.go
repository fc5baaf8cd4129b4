//go:build linux

package browser

import (
	"fmt"
	"strings"
	"testing"
)

// The labels of custom elements that belong to forms name what is in them.
func TestLabelsOfCustomElements(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<script>
customElements.define('x-check', class extends HTMLElement { static formAssociated = true; constructor() { super(); this.i = this.attachInternals(); this.attachShadow({mode: 'open'}).innerHTML = '<input type=checkbox><slot></slot>'; } });
customElements.define('x-shut', class extends HTMLElement { static formAssociated = true; constructor() { super(); this.i = this.attachInternals(); this.attachShadow({mode: 'closed'}).innerHTML = '<input>'; } });
customElements.define('x-role', class extends HTMLElement { static formAssociated = true; constructor() { super(); this.i = this.attachInternals(); } connectedCallback() { this.setAttribute('role', 'switch'); this.setAttribute('aria-checked', 'true'); this.tabIndex = 0; } });
customElements.define('x-mute', class extends HTMLElement { static formAssociated = true; constructor() { super(); this.i = this.attachInternals(); } });
</script><label>I agree <x-check></x-check></label><label for=z>Send mail</label><x-check id=z></x-check><label for=y>Secret word</label><x-shut id=y></x-shut>
<label>Loud <x-role></x-role></label><label>Words stay <x-mute>as they are</x-mute></label><label>Plain <input></label>`)})
	n.goTo(s.URL + "/")
	snap := n.snap()
	wants(t, snap, `checkbox "I agree"`, `checkbox "Send mail"`, `textbox "Secret word"`, `switch "Loud" [checked]`, "Words stay as they are", `textbox "Plain"`)
	n.must("click", obj{"ref": n.ref(`checkbox "Send mail"`)})
	wants(t, n.snap(), `checkbox "Send mail" [checked]`)
}

// An element that is about to be shown, and paused until then, is in the outline.
func TestOutlineInMidAnimation(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<style>@keyframes in{from{opacity:0}to{opacity:1}}.a{animation:in 1s both paused}</style><div class=a><table><tr><td>Monday</table></div><div style="opacity:0">never</div>`)})
	n.goTo(s.URL + "/")
	snap := n.snap()
	wants(t, snap, "Monday")
	never(t, snap, "never")
}

// Words that only style sheets put there are read.
func TestGeneratedWords(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<style>.s::before{content:"Status: "}.s::after{content:" (paid)"}@media all{.e::before{content:"Sold out"}}.i::before{content:"\f101"}.c::after{content:"→"}.d::before{content:attr(data-w)}.h::before{content:"ghost";display:none}.b::before{content:"Remove"}</style>
<p class=s>Order 7</p><p><span class=e></span></p><i class=i></i><p class=c>next</p><p class=d data-w="From data"></p><p class=h>x</p><p class=e style="visibility:hidden"></p><button class=b></button><div id=r></div>
<script>r.attachShadow({mode: 'open'}).innerHTML = '<style>b::before{content:"In shadow"}</style><b></b>'</script>`)})
	n.goTo(s.URL + "/")
	snap := n.snap()
	wants(t, snap, "Status: Order 7 (paid)", "Sold out", "text: next", "From data", `button "Remove"`, "In shadow")
	never(t, snap, "ghost", "→", "\uf101")
	if strings.Count(snap, "Sold out") != 1 {
		t.Error(snap)
	}
}

// Text without an element goes where the focus is: into a field, a frame, or as keys to
// what draws itself.
func TestTypeWhereTheFocusIs(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<canvas id=c width=200 height=100 tabindex=0></canvas><input id=i value=a><input id=p type=password name=pw><iframe id=f srcdoc="<body contenteditable></body>"></iframe>
<script>let text = ''; c.onkeydown = e => { text += e.key.length === 1 ? e.key : '<' + e.key + '>'; }; c.onclick = () => c.focus();</script>`)})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	n.must("click", obj{"selector": "#c"})
	a := n.must("type", obj{"text": "Hi you", "submit": true})
	if got := n.eval("text"); got != "Hi you<Enter>" || !strings.Contains(a.Evidence, "went in as keys") {
		t.Error(got, a.Evidence)
	}
	if err := n.refused("execution_failed", "type", obj{"selector": "#c", "text": "x"}); !strings.Contains(err.Hint, "without ref or selector") {
		t.Error(err.Hint)
	}
	n.must("click", obj{"selector": "#i"})
	if a := n.must("type", obj{"text": "bc"}); n.eval("i.value") != "abc" || a.Effect != "confirmed" {
		t.Error(n.eval("i.value"), a.Evidence)
	}
	n.must("click", obj{"selector": "#p"})
	n.must("type", obj{"text": "long enough word"})
	if got := n.eval("'is ' + p.value"); got != "is (hidden)" {
		t.Error(got)
	}
	n.eval("f.contentWindow.focus(); f.contentDocument.body.focus(); 1")
	n.must("type", obj{"text": "in the frame"})
	if got := n.eval("f.contentDocument.body.innerText"); got != "in the frame" {
		t.Error(got)
	}
}

// An editor that draws itself and keeps its own caret gets text at the end of what it holds.
func TestTypeAddsAtTheEndOfAnEditor(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<style>.ed{position:relative;width:300px;height:80px;overflow:hidden;white-space:pre}.ed textarea{position:absolute;width:1px;height:1px;padding:0;border:0}</style>
<div class=ed><textarea aria-label=Code></textarea><pre id=out></pre></div>
<script>
const field = document.querySelector('textarea');
let text = 'one\ntwo', caret = 0;
const draw = () => requestAnimationFrame(() => { out.textContent = text; });
const put = t => { text = text.slice(0, caret) + t + text.slice(caret); caret += t.length; draw(); };
field.onkeydown = e => { if (e.key === 'End' && e.ctrlKey) { caret = text.length; e.preventDefault(); } };
field.oninput = () => { put(field.value); field.value = ''; };
draw();
</script>`)})
	n.goTo(s.URL + "/")
	n.must("type", obj{"ref": n.ref(`textbox "Code"`), "text": " // end"})
	if got := n.eval("text"); got != "one\ntwo // end" {
		t.Error(got)
	}
}

// list is a sortable list of five. It makes room in 150 ms and hears nothing meanwhile, as
// SortableJS does; with hold, a drag begins only after the pointer rested.
const sortable = `<ul id=l style="width:200px;list-style:none;padding:0;user-select:text"></ul><script>
const hold = +new URLSearchParams(location.search).get('hold');
for (const k of 'ABCDE') { const x = document.createElement('li'); x.id = k; x.textContent = 'Card ' + k; x.style.cssText = 'height:34px;border:1px solid;background:#fff;touch-action:none'; if (!hold) x.draggable = true; l.append(x); }
let held = null, busy = false;
const over = (x, y) => {
	if (!held || busy) return;
	const at = document.elementFromPoint(x, y)?.closest('li');
	if (!at || at === held) return;
	const all = [...l.children], tops = new Map(all.map(c => [c, c.getBoundingClientRect().top]));
	if (all.indexOf(at) > all.indexOf(held)) at.after(held); else at.before(held);
	busy = true;
	for (const c of l.children) { const d = tops.get(c) - c.getBoundingClientRect().top; if (d) c.animate([{transform: 'translateY(' + d + 'px)'}, {transform: 'none'}], 150); }
	setTimeout(() => { busy = false; }, 150);
};
l.ondragstart = e => { held = e.target; e.dataTransfer.setData('text', 'x'); };
l.ondragover = e => { e.preventDefault(); over(e.clientX, e.clientY); };
l.ondrop = e => { e.preventDefault(); held = null; };
if (hold) {
	let timer, from;
	l.onpointerdown = e => { from = e; timer = setTimeout(() => { held = from.target; }, hold); };
	onpointermove = e => { if (from && !held && Math.hypot(e.clientX - from.clientX, e.clientY - from.clientY) > 5) { clearTimeout(timer); from = null; } over(e.clientX, e.clientY); };
	onpointerup = () => { clearTimeout(timer); held = from = null; };
}
</script>`

func TestDragInListsThatMakeRoom(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(sortable)})
	for _, query := range []string{"", "?hold=300"} {
		for _, c := range []struct{ from, to, want string }{{"A", "B", "BACDE"}, {"A", "D", "BCDAE"}, {"A", "E", "BCDEA"}, {"E", "A", "EABCD"}, {"D", "B", "ADBCE"}} {
			n.goTo(s.URL + "/" + query)
			a := n.must("drag", obj{"source_selector": "#" + c.from, "target_selector": "#" + c.to})
			if got := n.eval("[...l.children].map(x => x.id).join('')"); got != c.want || a.Effect != "confirmed" || strings.Contains(a.Evidence, "held still") != (query != "") {
				t.Errorf("%s: %s on %s gave %v (%s: %s)", query, c.from, c.to, got, a.Effect, a.Evidence)
			}
		}
	}
}

// A selection that a drag makes on its way is no effect of it.
func TestASelectionIsNoEffectOfADrag(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<p id=a>Some words here</p><p id=b>and there</p>`)})
	n.goTo(s.URL + "/")
	if a := n.must("drag", obj{"source_selector": "#a", "target_selector": "#b"}); a.Effect != "suspected_noop" {
		t.Error(a.Effect, a.Evidence)
	}
}

// Long values are cut in an outline, with the number of characters left out, and are
// read whole by ref.
func TestLongValuesAreCut(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<textarea aria-label=Notes></textarea><input aria-label=Line><div contenteditable aria-label=Rich></div><select aria-label=Pick></select>
<script>const long = n => Array.from({length: n}, (_, i) => 'word' + i).join(' ');
document.querySelector('textarea').value = long(9000); document.querySelector('input').value = long(200); document.querySelector('div').textContent = long(300);
for (let i = 0; i < 60; i++) document.querySelector('select').add(new Option('choice ' + i))</script>`)})
	n.goTo(s.URL + "/")
	snap := n.snap()
	line := func(name string) string {
		for l := range strings.SplitSeq(snap, "\n") {
			if strings.Contains(l, `"`+name+`"`) {
				return l
			}
		}
		return ""
	}
	for name, whole := range map[string]string{"Notes": "word8999", "Line": "word199", "Rich": "word299"} {
		length := map[string]int{"Notes": 79889, "Line": 1489, "Rich": 2289}[name]
		if l := line(name); !strings.Contains(l, fmt.Sprintf("(%d more characters; snapshot with this ref shows them)", length-299)) {
			t.Errorf("%s: …%s", name, l[max(0, len(l)-100):])
		}
		own := n.must("snapshot", obj{"ref": n.ref(`"` + name + `"`), "max_chars": 100000}).m["snapshot"].(string)
		if !strings.Contains(own, whole) || strings.Contains(own, "more characters") {
			t.Errorf("%s is not read whole: …%s", name, own[max(0, len(own)-100):])
		}
	}
	if l := line("Pick"); !strings.Contains(l, "60 in all") {
		t.Error(l)
	}
	if own := n.must("snapshot", obj{"ref": n.ref(`"Pick"`)}).m["snapshot"].(string); !strings.Contains(own, "choice 59") {
		t.Error(own)
	}
}
