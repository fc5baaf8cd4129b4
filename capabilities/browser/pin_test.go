//go:build linux

package browser

import (
	"strings"
	"testing"
)

const pinPage = `<h1>Order 1202634</h1><p>year 2026</p><table><tr><td>2026<td>1,2026<td>12026</table>
<select aria-label=Year><option>2025<option value=2026>2026</select><p id=cell>2026</p>
<form id=f action=/next><label>PIN <input type=password name=pin id=code></label>
<button type=button id=eye>Show</button><output id=echo></output><i id=i></i><input aria-label=Copy id=copy><button type=button id=say>Say</button><p>made in 2026</p><button>Go</button></form>
<script>
const field = document.querySelector('#code');
eye.onclick = () => { field.type = field.type === 'text' ? 'password' : 'text'; };
field.oninput = () => {
	const v = field.value;
	echo.textContent = v; i.textContent = 'You typed ' + v; copy.value = v; field.setAttribute('value', v);
	say.title = v; say.setAttribute('aria-label', 'Say ' + v); i.setAttribute('data-is', v);
	document.title = 'Year 2026';
	history.replaceState(0, '', '/?year=2026&pin=' + v + '&x=2026');
	fetch('/api', {method: 'POST', body: JSON.stringify({pin: v, year: '2026', n: 2026})});
	fetch('/form', {method: 'POST', body: new URLSearchParams({year: 2026, pin: v})});
	fetch('/other', {method: 'POST', body: JSON.stringify({p: v, n: 12026})});
	console.log(v); console.log('year 2026');
};
</script>`

// A PIN is hidden where the page repeats it as such, and nowhere else: an agent works with
// the other numbers.
func TestTypedPINDoesNotEatThePage(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"type", "fill-form", "type key by key"} {
		t.Run(way, func(t *testing.T) { typedPIN(t, way) })
	}
}

func typedPIN(t *testing.T, way string) {
	s := newSite(t, map[string]string{"/": html(pinPage), "/next": html(`<p>Order 1202634 of 2026</p><table><tr><td>2026<td>12`)})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	args := obj{"selector": "#code", "text": "2026", "snapshot": "full"}
	switch way {
	case "fill-form":
		args = obj{"selector": "#code", "value": "2026", "snapshot": "full"}
	case "type key by key":
		way, args["slowly"] = "type", true
	}
	first := n.must(way, args)
	const told = "what was typed in secret is hidden in: "
	if strings.Count(first.Evidence, told) != 1 || !strings.Contains(first.Evidence, "snapshot") {
		t.Error(first.Evidence)
	}
	look := func() string {
		t.Helper()
		snap := n.snap()
		wants(t, snap, `"Order 1202634"`, "year 2026", "2026 | 1,2026 | 12026", `"2025", "2026"`, "text: 2026", "made in 2026", // the page's
			"You typed (hidden)", `"Copy" [ref=`, `"(hidden)"`, `"Say (hidden)"`)
		if strings.Count(snap, "2026") != strings.Count(snap, "1202634")+7 {
			t.Errorf("some echo is shown, or too much is hidden:\n%s", snap)
		}
		return snap
	}
	if snap := look(); !strings.Contains(snap, "(filled, hidden)") {
		t.Error(snap)
	}
	n.must("click", obj{"selector": "#eye"})
	if snap := look(); !strings.Contains(snap, "(filled, hidden)") {
		t.Errorf("a field that was revealed is shown:\n%s", snap)
	}
	if a := n.must("tabs", obj{}); !strings.Contains(strings.ReplaceAll(a.json, `\u0026`, "&"), "?year=2026&pin=(hidden)&x=2026") || !strings.Contains(a.json, `"Year 2026"`) || strings.Count(a.Evidence, told) != 1 {
		t.Error(a.json, a.Evidence)
	}
	for expression, want := range map[string]string{
		"document.querySelector('h1').textContent": "Order 1202634", "document.querySelector('p').textContent": "year 2026",
		"i.outerHTML":         `<i id="i" data-is="(hidden)">You typed (hidden)</i>`,
		"field.outerHTML":     `<input type="text" name="pin" id="code" value="(hidden)">`,
		"echo.outerHTML":      `<output id="echo">(hidden)</output>`,
		"cell.outerHTML":      `<p id="cell">2026</p>`,
		"cell.textContent":    "2026",
		"location.search":     "?year=2026&pin=(hidden)&x=2026",
		"'pin=' + code.value": "pin=(hidden)",
	} {
		if got := n.eval(expression); got != want {
			t.Errorf("%s: %v, want %s", expression, got, want)
		}
	}
	if got := n.must("evaluate", obj{"expression": "({pin: field.value, year: '2026', n: {pin: 2026}})"}).json; !strings.Contains(got, `{"pin":"(hidden)","year":"2026","n":{"pin":"(hidden)"}}`) {
		t.Error(got)
	}
	body := func(path string) string {
		t.Helper()
		list := n.must("network-requests", obj{"filter": path}).m["requests"].([]any)
		id := list[len(list)-1].(obj)["id"]
		return n.must("network-requests", obj{"id": id}).m["detail"].(obj)["request_body"].(string)
	}
	for path, want := range map[string]string{"/api": `{"pin":"(hidden)","year":"2026","n":2026}`, "/form": "year=2026&pin=(hidden)", "/other": `{"p":"(hidden)","n":12026}`} {
		if got := body(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if got := n.must("console-messages", obj{}).json; !strings.Contains(got, `"text":"(hidden)"`) || !strings.Contains(got, "year 2026") {
		t.Error(got)
	}
	// Where the page has the value nowhere else, an expression that gives it gives the field's.
	n.eval("document.querySelectorAll('table, select, #cell').forEach(x => x.remove()); 1")
	if got := n.eval("field.value"); got != "(hidden)" {
		t.Error(got)
	}
	sent := n.must("press-key", obj{"selector": "#code", "key": "Enter", "snapshot": "full"})
	if snap := sent.m["snapshot"].(string); !strings.Contains(snap, "Order 1202634 of 2026") || !strings.Contains(snap, "2026 | 12") || !strings.HasSuffix(sent.m["url"].(string), "/next?pin=(hidden)") {
		t.Error(sent.json)
	}
	if got := n.eval("document.querySelector('td').textContent"); got != "2026" {
		t.Error(got)
	}
}

// A long value is hidden as a whole word, and within no other.
func TestTypedPasswordIsHiddenAsAWord(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<input type=password><p>pineapple, PINEAPPLE, pineapples, apineapple, "pineapple" pineapple-tart</p>`)})
	n.goTo(s.URL + "/")
	n.must("fill-form", obj{"selector": "input", "value": "pineapple"})
	if snap := n.snap(); !strings.Contains(snap, `text: (hidden), PINEAPPLE, pineapples, apineapple, "(hidden)" (hidden)-tart`) {
		t.Error(snap)
	}
}

// Every sign of a password is one that an echo is looked for with.
func TestTypedSecretsOfAllSigns(t *testing.T) {
	t.Parallel()
	const secret = "a-b/c\\d.e*f+g?h^i$j{k}l(m)n|o[p]q&r<s>t'u\"v,w:x;y=z!0@1#2%3~4`5_6 7"
	s, n := newPage(t, map[string]string{"/": html(`<form><input id=i type=password oninput="o.textContent = value"><output id=o></output></form>`)})
	n.goTo(s.URL + "/")
	n.must("fill-form", obj{"selector": "#i", "value": secret})
	if snap := n.snap(); strings.Contains(snap, "b/c") || !strings.Contains(snap, "(hidden)") {
		t.Error(snap)
	}
}
