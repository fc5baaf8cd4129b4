package browser

import (
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// A row of a table that listens is pressed as one, beside the links and boxes in it. The days of
// a week are pressed one by one.
func TestRowsThatListen(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<table style="width:600px"><thead><tr><th>Name<th>Town<th>More</tr></thead>
<tbody id=people><tr><td><input type=checkbox aria-label=Pick><td>Ann Lee<td style="text-align:center"><a href=#ann style="display:block">More</a><td>Rome<td>3<tr><td><input type=checkbox aria-label=Pick><td>Bob Ray<td style="text-align:center"><a href=#bob style="display:block">More</a><td>Oslo<td>4</tbody></table>
<table id=days><tr><td>23<td>24<td>25<tr><td>30<td>31<td>1</table>
<script>for (const r of document.querySelectorAll('tbody tr')) r.addEventListener('click', e => { document.title = r.textContent.slice(0, 3) + e.target.tagName + e.target.textContent })</script>`)})
	n.goTo(s.URL)
	snap := n.snap()
	wants(t, snap, `- clickable "Pick Ann Lee More Rome 3" [ref=`, `link "More" [ref=`, `checkbox "Pick" [ref=`, `- clickable "24" [ref=`)
	never(t, snap, "- text: \n", `clickable "Rome"`, `clickable "Oslo"`, `clickable "Name`)
	n.must("click", obj{"ref": n.ref("clickable", "Bob Ray")})
	if got := n.eval("document.title + location.hash").(string); !strings.HasPrefix(got, "BobTD") || strings.Contains(got, "#") {
		t.Errorf("the press on a row: %v", got)
	}
}

// A key to a field with a list comes at the pace of a person: some libraries put their lists away
// over a tenth of a second, and take no key meanwhile.
func TestKeysAtAPace(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<input id=f role=combobox aria-autocomplete=list aria-expanded=false aria-label=Tags><script>
let busy = false, added = [];
f.oninput = () => { busy = true; f.setAttribute('aria-expanded', false); setTimeout(() => { busy = false }, 100) };
f.onkeydown = e => { if (e.key === 'Enter' && !busy) { added.push(f.value); document.title = added.join() } };
</script>`)})
	n.goTo(s.URL)
	n.must("type", obj{"selector": "#f", "text": "rust"})
	n.must("press-key", obj{"key": "Enter"})
	if got := n.eval("document.title"); got != "rust" {
		t.Errorf("title %v", got)
	}
}

// Neither does the next letter come before the page had the turn that it asked for.
func TestLettersAtAPace(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<input id=f role=combobox aria-autocomplete=list aria-label=Tags><script>
let due = 0, early = 0;
f.onkeydown = () => { early += due };
f.oninput = () => { due++; setTimeout(() => { due--; document.title = f.value + ' ' + early }) };
</script>`)})
	n.goTo(s.URL)
	n.must("type", obj{"selector": "#f", "text": "rusty"})
	n.until("the page's turn", func() bool { return n.eval("due") == 0.0 })
	if got := n.eval("document.title"); got != "rusty 0" {
		t.Errorf("typed: %v", got)
	}
	n.must("fill-form", obj{"selector": "#f", "value": "oxide"})
	n.until("the page's turn", func() bool { return n.eval("due") == 0.0 })
	if got := n.eval("document.title"); got != "oxide 0" {
		t.Errorf("filled: %v", got)
	}
}

// A field whose first key opens something else gets its text as one edit.
func TestFieldWhoseKeyIsACommand(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<label>Phone <input id=f></label><input id=search hidden aria-label=Country><script>
f.onkeydown = e => { if (e.key === '+') { e.preventDefault(); search.hidden = false; search.focus() } };
f.oninput = () => { document.title = f.value };
</script>`)})
	n.goTo(s.URL)
	a := n.must("fill-form", obj{"selector": "#f", "value": "+4930123"})
	if got := n.eval("document.title"); got != "+4930123" {
		t.Errorf("%s (%s): title %v", a.Effect, a.Evidence, got)
	}
}

// A field without a name is told apart by what its page shows over it; a picture that is within a
// style sheet tells nothing.
func TestHintsOfFields(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<section title="Your name"><input id=id_8R></section>
<button id=drawn style="width:20px;height:20px;background-image:url('data:image/svg+xml;utf8,<svg xmlns=%22http://www.w3.org/2000/svg%22></svg>')"></button>`)})
	n.goTo(s.URL)
	snap := n.snap()
	wants(t, snap, "- textbox [hint=Your name] [ref=")
	never(t, snap, "svg")
}

// A router shows its new view in many small tasks: a click that led there is answered after them.
func TestRouteInManyTasks(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<a id=go href=#next>Go</a><main id=view>Old view</main><script>
onhashchange = () => {
	const c = new MessageChannel();
	let n = 0;
	c.port1.onmessage = () => {
		for (const end = performance.now() + 5; performance.now() < end; );
		if (++n < 80) c.port2.postMessage(0); else view.textContent = 'New view';
	};
	c.port2.postMessage(0);
};
</script>`)})
	n.goTo(s.URL)
	a := n.must("click", obj{"selector": "#go"})
	if got := n.eval("view.textContent"); got != "New view" {
		t.Errorf("after a click (%s, %s): %v", a.Effect, a.Evidence, got)
	}
}

// A program that draws later than an action is watched has drawn when its page is read: what comes
// along is then never called nothing. The curtain over the page makes the reading wait.
func TestWhatIsReadIsNotCalledNothing(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<style>@keyframes dim{from{opacity:.1}}
#c{position:fixed;inset:0;pointer-events:none}button:hover ~ #c{animation:dim 900ms}</style>
<button id=b onclick="setTimeout(() => { o.textContent = 'Drawn late' }, 400)">Draw</button><button id=dead>Dead</button><p id=o></p><div id=c></div>`)})
	n.goTo(s.URL)
	n.snap()
	a := n.must("click", obj{"selector": "#b", "snapshot": "delta"})
	if strings.Contains(a.m["snapshot"].(string), "Drawn late") == (a.Effect == capabilities.EffectSuspectNoop) {
		t.Errorf("%s (%s), and the page shows:\n%s", a.Effect, a.Evidence, a.m["snapshot"])
	}
	if a := n.must("click", obj{"selector": "#dead", "snapshot": "delta"}); a.Effect != capabilities.EffectSuspectNoop {
		t.Errorf("a press on nothing: %s (%s)", a.Effect, a.Evidence)
	}
}
