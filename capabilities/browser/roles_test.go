//go:build linux

package browser

import (
	"fmt"
	"strings"
	"testing"
)

// A frame is a frame, whatever role its author gave it.
func TestFramesWithARole(t *testing.T) { framesWithARole(t, "presentation", "button", "none dialog") }

func TestFramesWithARoleAtLength(t *testing.T) {
	framesWithARole(t, "none", "dialog", "region", "group", "application", "document", "img", "listitem", "bogus")
}

func framesWithARole(t *testing.T, roles ...string) {
	t.Parallel()
	s := newSite(t, map[string]string{"/field": `<!doctype html><label>Card number <input id=i></label>`})
	other := strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	n := newNode(t, s.URL, other)
	for _, role := range roles {
		for _, from := range []string{s.URL, other} {
			s.pages(t, "/", html(fmt.Sprintf(`<iframe role="%s" aria-label=Pay src="%s/field"></iframe>`, role, from)))
			n.goTo(s.URL + "/")
			n.must("wait-for", obj{"text": "Card number"})
			n.must("type", obj{"ref": n.ref("textbox", "Card number"), "text": "4242"})
			if snap := n.snap(); !strings.Contains(snap, `- iframe "Pay"`) || !strings.Contains(snap, `"4242"`) {
				t.Errorf("%s from %s:\n%s", role, from, snap)
			}
		}
	}
	// A document may be held by other elements, too.
	s.pages(t, "/", html(`<object role=presentation data="/field" type="text/html" width=300 height=100>no</object>`))
	n.goTo(s.URL + "/")
	wants(t, n.snap(), `- iframe [ref=`, `textbox "Card number"`)
}

// An element that takes the focus or has a value is what it is, unless its author's role
// goes with that.
func TestRolesThatContradictTheElement(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`
<input role=presentation aria-label=A1 value=v><input role=none aria-label=A2 value=v><input role=group aria-label=A3 value=v><input role=button aria-label=A4 value=v><textarea role=img aria-label=A5>v</textarea>
<select role=presentation aria-label=B1><option>v</select><select role=group aria-label=B2><option>v</select>
<input type=checkbox role=presentation aria-label=C1 checked><input type=checkbox role=button aria-label=C2 checked><input type=radio role=listitem aria-label=C3 checked><input type=range role=img aria-label=C4>
<button role=presentation>D1</button><button role=heading>D2</button><button role=listitem>D3</button><a role=none href=/x>D4</a><a role=article href=/x>D5</a><table><tr><td><button role=gridcell>D6</button></table>
<div contenteditable role=presentation aria-label=E1>v</div><div contenteditable role=document aria-label=E2>v</div><h2 contenteditable aria-label=E3>v</h2><table><tr><td contenteditable aria-label=E4>v</table>
<progress role=presentation aria-label=F1 value=1 max=2></progress>
<button role=tab>G1</button><button role=combobox aria-label=G2>x</button><input role=combobox aria-label=G3 value=v><input type=checkbox role=switch aria-label=G4 checked><a role=button href=/x>G5</a><input type=checkbox role=button aria-pressed=true aria-label=G6 checked>
<ul role=none><li role=none>H1</ul><img role=presentation alt=H2 src=/x><input type=checkbox role=menuitemcheckbox aria-label=G7 checked>`)})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	snap := n.snap()
	for _, line := range []string{
		`textbox "A1"`, `textbox "A2"`, `textbox "A3"`, `textbox "A4"`, `textbox "A5"`, `combobox "B1"`, `combobox "B2"`,
		`checkbox "C1" [checked]`, `checkbox "C2" [checked]`, `radio "C3" [checked]`, `slider "C4"`, `button "D1"`, `button "D2"`, `button "D3"`, `link "D4"`, `link "D5"`, `button "D6"`,
		`textbox "E1"`, `textbox "E2"`, `textbox "E3"`, `textbox "E4"`, `progressbar "F1": 1 of 2`,
		`tab "G1"`, `combobox "G2"`, `combobox "G3"`, `switch "G4" [checked]`, `button "G5"`, `button "G6"`, `menuitemcheckbox "G7" [checked]`, "text: H1",
	} {
		if !strings.Contains(snap, "- "+line) {
			t.Errorf("no %s in:\n%s", line, snap)
		}
	}
	never(t, snap, "H2")
	for _, name := range []string{"A1", "A3", "A4", "A5", "E1", "E2", "E3", "E4"} {
		n.must("fill-form", obj{"ref": n.ref(`"` + name + `"`), "value": "filled"})
		wants(t, n.snap(), fmt.Sprintf("%q", name))
	}
	if got := strings.Count(n.snap(), `"filled"`); got != 8 {
		t.Error(got, n.snap())
	}
}

// Roles and states that custom elements have by ElementInternals are shown, and follow them.
func TestRolesByInternals(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<script>
const box = (role, states, more) => class extends HTMLElement { static formAssociated = true;
	constructor() { super(); this.i = this.attachInternals(); this.i.role = role; Object.assign(this.i, states); }
	connectedCallback() { this.tabIndex = 0; this.style.cssText = 'display:inline-block;width:60px;height:20px;border:1px solid'; more?.(this); } };
customElements.define('x-box', box('checkbox', {ariaChecked: 'true'}, el => el.onclick = () => { el.i.ariaChecked = el.i.ariaChecked === 'true' ? 'false' : 'true'; }));
customElements.define('x-switch', box('switch', {ariaChecked: 'false'}));
customElements.define('x-slider', box('slider', {ariaValueNow: '30', ariaValueMin: '0', ariaValueMax: '50'}));
customElements.define('x-menu', box('button', {ariaExpanded: 'false', ariaHasPopup: 'menu'}));
customElements.define('x-off', box('button', {ariaDisabled: 'true'}));
customElements.define('x-plain', box('', {}));
customElements.define('x-said', box('checkbox', {ariaChecked: 'true'}));
</script><label>Loud mode <x-box></x-box></label><x-box aria-label=Alone></x-box><x-switch aria-label=Night></x-switch><x-slider aria-label=Volume></x-slider><x-menu>More</x-menu><x-off>Off</x-off><x-plain>Plain</x-plain><x-said role=radio aria-label=Said aria-checked=false></x-said>
<iframe id=f srcdoc="<script>customElements.define('x-in', class extends HTMLElement { constructor() { super(); const i = this.attachInternals(); i.role = 'tab'; i.ariaSelected = 'true'; } connectedCallback() { this.tabIndex = 0; } })</script><x-in>Inner</x-in>"></iframe>`)})
	n.goTo(s.URL + "/")
	snap := n.snap()
	wants(t, snap, `checkbox "Loud mode" [checked]`, `checkbox "Alone" [checked]`, `switch "Night" [ref`, `slider "Volume"`, `: 30`, `button "More" [collapsed] [haspopup]`, `button "Off" [disabled]`, `clickable "Plain"`, `radio "Said" [ref`, `tab "Inner" [selected]`)
	ref := n.ref(`"Alone"`)
	n.must("click", obj{"ref": ref})
	if line := n.snap(); !strings.Contains(line, `checkbox "Alone" [ref=`+ref) && !strings.Contains(line, `checkbox "Alone" [focused] [ref=`+ref) {
		t.Errorf("after a click:\n%s", line)
	}
}
