package browser

import (
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// dressedPage has lists that a page draws itself: over a hidden native list whose changes it
// follows (a) or does not (b, m), and without one (c, k, t).
const dressedPage = `<style>select{display:none}.face{display:inline-block;border:1px solid;padding:4px;min-width:80px}
.list{position:absolute;background:silver;z-index:9}[hidden]{display:none!important}</style>
<select id=a><option value=fr>France<option value=de>Germany<option disabled>Atlantis</select><div class=face id=fa role=combobox tabindex=0 aria-label=Follows>France</div><br>
<select id=b><option value=fr>France<option value=de>Germany</select><div class=face id=fb role=combobox tabindex=0 aria-label=Own>France</div><br>
<select id=m multiple><option>Red<option>Green<option>Blue</select><button class=face id=fm aria-haspopup=listbox aria-label=Several>none</button><br>
<div class=face id=fc role=combobox tabindex=0 aria-label=Drawn>choose</div><br>
<div class=face><input id=fk role=combobox aria-label=Sought></div><br>
<dialog id=d open><div class=face id=ft role=combobox tabindex=0 aria-label=Stays>choose</div></dialog>
<button id=off aria-haspopup=listbox>Nothing opens</button><button id=below onclick="document.title='below'">Below</button>
<script>window.log = []; const opened = {};
a.onchange = () => { fa.textContent = a.selectedOptions[0].text; log.push('a' + a.value) };
b.onchange = () => log.push('b' + b.value);
function draw(face, names, pick, o = {}) {
	const list = document.createElement('ul');
	list.className = 'list'; list.setAttribute('role', 'listbox'); list.hidden = true;
	if (o.several) list.setAttribute('aria-multiselectable', 'true');
	for (const n of names) { const li = document.createElement('li'); li.setAttribute('role', 'option'); li.textContent = n; list.append(li);
		li.onclick = () => { pick(n, li); if (!o.several && !o.stays) list.hidden = true } }
	(o.stays ? d : document.body).append(list);
	const show = () => { list.hidden = o.stays ? false : !list.hidden };
	face.addEventListener('mousedown', show);
	(o.stays ? d : window).addEventListener('keydown', e => { if (e.key === 'Escape') { list.hidden = true; if (o.stays) d.close() } if (e.key === 'Tab') list.hidden = true });
	opened[face.id] = () => !list.hidden;
	return list;
}
draw(fb, ['France', 'Germany'], n => { fb.textContent = n; b.value = n === 'France' ? 'fr' : 'de'; b.dispatchEvent(new Event('change')) });
const several = new Set();
draw(fm, ['Red', 'Green', 'Blue'], (n, li) => { several.has(n) ? several.delete(n) : several.add(n); li.setAttribute('aria-selected', several.has(n));
	for (const o of m.options) o.selected = several.has(o.text); fm.textContent = [...several].join(', ') || 'none' }, {several: true});
draw(fc, ['France', 'Germany'], n => { fc.textContent = n });
const cities = draw(fk, [], () => {});
fk.oninput = () => { cities.replaceChildren(); cities.hidden = false; setTimeout(() => { for (const n of ['Berlin', 'Bern'].filter(n => n.startsWith(fk.value))) { const li = document.createElement('li');
	li.setAttribute('role', 'option'); li.textContent = n; li.onclick = () => { fk.value = n; cities.hidden = true; log.push(n) }; cities.append(li) } }, 30) };
draw(ft, ['One', 'Two'], n => { ft.textContent = n }, {stays: true});
</script>`

// A list that a page draws itself is chosen in as a native one: by the hidden native list
// where the page follows that, else by its own. It is closed afterwards, and what it shows
// is told.
func TestSelectOptionInAListOfThePagesOwn(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(dressedPage)})
	n := newNode(t, s.URL)
	n.goTo(s.URL)
	n.checks([]check{
		{"behind", "select-option", obj{"selector": "#fa", "values": []string{"Germany"}}, "confirmed", "native list behind", "a.value + log.splice(0).join()", "deade"},
		{"behind, already", "select-option", obj{"selector": "#a", "values": []string{"de"}}, "confirmed", "already", "log.join()", ""},
		{"its own, by the list itself", "select-option", obj{"selector": "#b", "values": []string{"de"}}, "confirmed", "shows what was chosen", "b.value + fb.textContent", "deGermany"},
		{"several", "select-option", obj{"selector": "#fm", "values": []string{"Red", "Blue"}}, "confirmed", "shows what was chosen", "[...several].join()", "Red,Blue"},
		{"several, others", "select-option", obj{"selector": "#fm", "values": []string{"Green"}}, "confirmed", "", "[...several].join()", "Green"},
		{"drawn", "select-option", obj{"selector": "#fc", "values": []string{"germany"}}, "confirmed", "shows what was chosen", "fc.textContent", "Germany"},
		{"sought", "select-option", obj{"selector": "#fk", "values": []string{"Bern"}}, "confirmed", "shows what was chosen", "log.at(-1) + fk.value", "BernBern"},
		{"below", "click", obj{"selector": "#below"}, "confirmed", "", "document.title + Object.values(opened).some(f => f())", "belowfalse"},
	})
	if a := n.must("select-option", obj{"selector": "#fc", "values": []string{"France"}}); !strings.Contains(a.json, `"selected":["France"]`) {
		t.Error(a.json)
	}
	// In a dialog Escape might close that: the list goes when the focus does.
	if a := n.must("select-option", obj{"selector": "#ft", "values": []string{"Two"}}); a.Effect != capabilities.EffectConfirmed || n.eval("d.open + ft.textContent + opened.ft()") != "trueTwofalse" {
		t.Errorf("%s (%s): %v", a.Effect, a.Evidence, n.eval("d.open + ft.textContent + opened.ft()"))
	}
	// Refusals say what there is, and leave the list closed and the value as it was.
	if e := n.refused(capabilities.CodeElementNotFound, "select-option", obj{"selector": "#fc", "values": []string{"Spain"}}); !strings.Contains(e.Message, `"France", "Germany"`) {
		t.Error(e.Message)
	}
	n.refused(capabilities.CodeElementNotFound, "select-option", obj{"selector": "#fb", "values": []string{"Spain"}})
	n.refused(capabilities.CodeElementDisabled, "select-option", obj{"selector": "#fa", "values": []string{"Atlantis"}})
	if e := n.refused(capabilities.CodeExecutionFailed, "select-option", obj{"selector": "#off", "values": []string{"x"}}); !strings.Contains(e.Message, "no list of options opened") || !strings.Contains(e.PublicHint(), "Click it to open it") {
		t.Error(e.Message, e.PublicHint())
	}
	if got := n.eval("[fc.textContent, b.value, a.value, Object.values(opened).some(f => f())].join()"); got != "France,de,de,false" {
		t.Error(got)
	}
}

// A form does not say that a hidden native list is filled which its page does not follow.
func TestFillOfADressedList(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(strings.Replace(dressedPage, "select{display:none}", "select{position:absolute;width:1px;height:1px;padding:0;border:0}", 1))})
	n := newNode(t, s.URL)
	n.goTo(s.URL)
	n.checks([]check{
		{"follows", "fill-form", obj{"selector": "#a", "value": "Germany"}, "confirmed", "holds the value", "a.value + fa.textContent", "deGermany"},
		{"does not", "fill-form", obj{"selector": "#b", "value": "Germany"}, "suspected_noop", "did not change", "b.value + fb.textContent", "frFrance"},
	})
}

// A list that a page opened around is not closed by the focus alone: it is pressed, as a
// person does.
func TestChoosePressesBeforeItFocuses(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<input id=f><div id=c><select id=s><option>May<option>June</select></div><script>let own = false;
c.onmousedown = () => { own = true }; f.onblur = () => { if (!own) c.hidden = true; own = false }</script>`)})
	n := newNode(t, s.URL)
	n.goTo(s.URL)
	n.must("click", obj{"selector": "#f"})
	n.must("select-option", obj{"selector": "#s", "values": []string{"June"}})
	if got := n.eval("s.value + c.hidden"); got != "Junefalse" {
		t.Error(got)
	}
}

// A field of which nothing can be hit is clicked on what wraps it alone.
func TestClickOnTheShellOfAField(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<style>.s{width:120px;height:24px;background:silver;position:relative}</style>
<div class=s id=s1><input id=far aria-label=Far style="position:absolute;left:-10000px;opacity:0"></div><p>
<div class=s id=s2><input type=checkbox id=none aria-label=None style="position:absolute;width:0;height:0;margin:0;opacity:0"></div><p>
<div class=s id=s3><input id=through aria-label=Through style="pointer-events:none"></div><p>
<div class=s id=s4><input id=two aria-label=Two style="position:absolute;left:-10000px"><button>Other</button></div>
<script>window.log = []; for (const x of document.querySelectorAll('.s')) x.onclick = e => log.push(x.id)</script>`)})
	n := newNode(t, s.URL)
	n.goTo(s.URL)
	for _, id := range []string{"far", "none", "through"} {
		n.must("click", obj{"selector": "#" + id})
	}
	n.refused(capabilities.CodeElementNotFound, "click", obj{"selector": "#two"})
	if got := n.eval("log.join()"); got != "s1,s2,s3" {
		t.Error(got)
	}
}

// A slider of the page's own takes a value by its keys, and a terminal gets no keys but the
// text's.
func TestFillMovesSlidersAndSparesTerminals(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<div id=s role=slider aria-label=From tabindex=0 aria-valuenow=20 aria-valuemin=0 aria-valuemax=100 style="width:20px;height:20px;background:red"></div>
<div style="width:200px;height:40px;position:relative;background:silver"><textarea id=t aria-label="Terminal input" aria-multiline=false style="position:absolute;opacity:0;width:0;height:0"></textarea></div>
<script>s.onkeydown = e => { const by = {ArrowRight: 5, ArrowLeft: -5}[e.key]; if (by) s.setAttribute('aria-valuenow', +s.getAttribute('aria-valuenow') + by) };
window.log = []; t.onkeydown = e => { log.push(e.key); e.preventDefault() }</script>`)})
	n := newNode(t, s.URL)
	n.goTo(s.URL)
	n.checks([]check{
		{"forth", "fill-form", obj{"selector": "#s", "value": "60"}, "confirmed", "holds the value", "s.getAttribute('aria-valuenow')", "60"},
		{"back", "fill-form", obj{"selector": "#s", "value": "5"}, "confirmed", "holds the value", "s.getAttribute('aria-valuenow')", "5"},
		{"between its steps", "fill-form", obj{"selector": "#s", "value": "22"}, "partial", "", "s.getAttribute('aria-valuenow')", "20"},
	})
	n.refused(capabilities.CodeInvalidArguments, "fill-form", obj{"selector": "#s", "value": "101"})
	n.must("type", obj{"selector": "#t", "text": "ls"})
	if got := n.eval("log.join()"); got != "l,s" {
		t.Error(got)
	}
}
