//go:build linux

package browser

import (
	"encoding/json"
	"net/url"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// No answer of any tool has what a page shows of a password that was typed into it.
func TestTypedSecretsAreInNoAnswer(t *testing.T) {
	t.Parallel()
	const secret = `se"same & co`
	s := newSite(t, map[string]string{"/": html(`<input type=password aria-label=Password><p id=p></p><button id=b>B</button><div id=c style="position:fixed;inset:0;display:none"></div>
<script>document.querySelector('input').oninput = e => {
	const v = e.target.value;
	document.title = p.textContent = 'typed ' + v;
	b.setAttribute('aria-label', 'Say ' + v);
	history.replaceState(0, '', '/at/' + encodeURIComponent(v) + '?pw=' + encodeURIComponent(v));
}</script>`)})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	clean := func(what, text, mark string) {
		t.Helper()
		for _, spelling := range []string{"same", "se%22"} {
			if strings.Contains(text, spelling) {
				t.Errorf("%s tells %q: %s", what, spelling, text)
			}
		}
		if !strings.Contains(text, mark) {
			t.Errorf("%s: no %q in %s", what, mark, text)
		}
	}
	ok := func(tool string, args obj, mark string) answer {
		t.Helper()
		a := n.must(tool, args)
		clean(tool, a.json+a.Evidence, mark)
		return a
	}
	n.snap()
	ok("type", obj{"selector": "input", "text": secret, "snapshot": "delta"}, "typed (hidden)")
	ok("fill-form", obj{"selector": "input", "value": secret}, `"title":"typed (hidden)"`)
	if a := ok("snapshot", obj{}, "text: typed (hidden)"); !strings.Contains(a.json, `button \"Say (hidden)\" [ref=e`) || !strings.Contains(a.json, `/at/(hidden)?pw=(hidden)"`) {
		t.Error(a.json)
	}
	ok("snapshot", obj{"interactive_only": true, "search": "Say"}, "Say (hidden)")
	for _, expression := range []string{"document.querySelector('input').value", "location.href", "({[document.title]: [1, document.title]})", "document.body.innerHTML", "JSON.stringify(document.title)"} {
		ok("evaluate", obj{"expression": expression}, "(hidden)")
	}
	ok("wait-for", obj{"text": "typed"}, "?pw=(hidden)")
	ok("tabs", obj{}, "typed (hidden)")
	ok("screenshot", obj{}, "?pw=(hidden)")
	ok("run-code", obj{"code": `const e = await page.evaluate('document.title'); console.log(e); return [e, ` + "`" + secret + "`" + `]`}, `"(hidden)"],"log":["typed (hidden)"]`)
	n.eval("c.style.display = 'block'; 1")
	err := n.refused(capabilities.CodeElementObscured, "click", obj{"selector": "#b"})
	clean("the refusal", err.Message, "Say (hidden)")
	err = n.refused(capabilities.CodeScriptFailed, "evaluate", obj{"expression": "throw new Error(document.title)"})
	clean("the exception", err.Message, "typed (hidden)")
	n.eval("setTimeout(() => alert(document.title)); 1")
	n.until("the dialog is open", func() bool { _, err = n.try("snapshot", obj{}); return err != nil })
	details, _ := json.Marshal(err.Details)
	clean("the dialog", err.Message+string(details), "typed (hidden)")
	n.must("handle-dialog", obj{"accept": true})
	// Another lane's answers stay as they are.
	other := n.on("lane-2")
	other.goTo(s.URL + "/")
	if got := other.eval("'se\"same & co'"); got != secret {
		t.Error(got)
	}
}

// A page puts what was typed into addresses in several ways.
func TestTypedSecretsInAddresses(t *testing.T) {
	t.Parallel()
	const secret = "a!b'c(d)*e~f g[h]^i{j}|k&l+m;n@o,p$q%r/s"
	s, n := newPage(t, map[string]string{"/": html(`<input type=password><div id=all></div>
<script>
document.querySelector('input').onchange = e => {
	const v = e.target.value;
	for (const to of [encodeURIComponent(v), encodeURI(v), new URLSearchParams({v}), v, '?' + v])
		all.insertAdjacentHTML('beforeend', '<p><a>L</a>'), all.lastChild.firstChild.href = '/x/' + to;
}
</script>`)})
	n.goTo(s.URL + "/")
	n.must("type", obj{"selector": "input", "text": secret, "submit": true})
	if got := n.snap(); strings.Count(got, "-> /x/") != 5 || strings.Count(got, "(hidden)") != 5 || strings.Contains(got, "o,p") || strings.Contains(got, "%2Cp") {
		t.Error(got)
	}
}

// The same of a frame's address, of what only listens, and of a modal dialog's name.
func TestTypedSecretsInAnOutline(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<input type=password><div id=d></div><iframe sandbox></iframe><dialog id=m>M</dialog>
<script>d.addEventListener('click', () => {});
document.querySelector('input').oninput = e => {
	const v = e.target.value;
	d.textContent = 'listens ' + v;
	m.ariaLabel = 'asks ' + v;
	document.querySelector('iframe').src = '/in?pw=' + encodeURIComponent(v);
}</script>`)})
	n.goTo(s.URL + "/")
	n.must("type", obj{"selector": "input", "text": `horse & "battery"`})
	n.eval("m.showModal(); 1")
	snap := n.snap()
	wants(t, snap, `- (the modal dialog "asks (hidden)" [ref=`, `- clickable "listens (hidden)" [ref=`, `-> /in?pw=(hidden)`)
	never(t, snap, "horse")
}

// A PIN may look like a ref, and what a record shares is not written to.
func TestHidingLeavesOursAlone(t *testing.T) {
	type inner struct{ Text string }
	type given struct {
		inner
		Any   any
		Known *inner
		List  []string
		Names map[string]string
		Raw   json.RawMessage
		Bytes []byte
		n     int
	}
	l := &lane{}
	if h := l.hider(); h != nil {
		t.Error("there is nothing to hide")
	}
	for _, secret := range []string{"12", "12345678", "1234567890"} {
		l.noteTyped(typedSecret{text: secret})
	}
	shared, list, names := &inner{"a12345678"}, []string{"say 12345678", "e12345678", "f1e12345678"}, map[string]string{"12345678": "12345678", "x": "y"}
	var got any = given{inner{"- x [ref=e12345678] 12345678 [ref=12345678] 1234567890, 12"}, inner{"12345678"}, shared, list, names, json.RawMessage(`{"12345678":["\u0031\u0032345678\n",12345678]}`), []byte("12345678"), 7}
	l.hider().in(reflect.ValueOf(&got).Elem(), "")
	want := given{inner{"- x [ref=e12345678] (hidden) [ref=(hidden)] (hidden), 12"}, inner{"(hidden)"}, &inner{"a12345678"}, []string{"say (hidden)", "e12345678", "f1e12345678"},
		map[string]string{"12345678": "(hidden)", "x": "y"}, json.RawMessage(`{"(hidden)":["(hidden)\n",12345678]}`), []byte("12345678"), 7}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %s\nwant %+v", got, got.(given).Raw, want)
	}
	if list[0] != "say 12345678" || names["12345678"] != "12345678" {
		t.Error("what was shared was written to")
	}
}

// BenchmarkHideNothing is what a large snapshot costs a lane that typed a password.
func BenchmarkHideNothing(b *testing.B) {
	l := &lane{}
	l.noteTyped(typedSecret{text: "correct horse & battery"})
	var g any = given{Snapshot: strings.Repeat("- button \"Some name of it\" [ref=e1234]\n", 1600)}
	for b.Loop() {
		l.hider().in(reflect.ValueOf(&g).Elem(), "")
	}
}

// Nothing of a secret is left where a text was cut within it.
func TestTypedSecretsAreNotCut(t *testing.T) {
	t.Parallel()
	const secret = "Zq7XwKv_3Jb#xNmT8Rg"
	s, n := newPage(t, map[string]string{"/": html(`<input type=password aria-label=Password><div id=all></div>
<script>
const pad = n => 'o'.repeat(n);
document.querySelector('input').onchange = e => {
	const v = e.target.value;
	for (let i = 0; i < 24; i++) all.insertAdjacentHTML('beforeend', '<p><a href="/' + pad(i + 38) + '/' + encodeURIComponent(v) + '/' + pad(60) + '/' + encodeURIComponent(v) + '/' + pad(i + 8) + '">L</a>');
	for (let i = 0; i < 24; i++) console.log({text: pad(i + 76) + ' ' + v + ' ' + pad(99)}, [pad(i + 38) + ' ' + v + ' ' + pad(99)]);
	document.title = pad(950) + ' ' + v + ' ' + pad(99);
	fetch('/long?' + pad(2008) + '=' + encodeURIComponent(v));
}
</script>`)})
	n.goTo(s.URL + "/")
	clean := func(what, text string) {
		t.Helper()
		for _, spelling := range []string{secret, "Zq7XwKv_3Jb%23xNmT8Rg"} {
			for i := range len(spelling) - 3 {
				if strings.Contains(text, spelling[i:i+3]) {
					t.Fatalf("%s tells %q: %s", what, spelling[i:i+3], text)
				}
			}
		}
		if !strings.Contains(text, "(hidden)…") {
			t.Errorf("%s was not cut: %s", what, text)
		}
	}
	n.must("type", obj{"selector": "input", "text": secret, "submit": true})
	clean("snapshot", n.snap())
	wants(t, n.snap(), "…(hidden)")
	clean("console", n.must("console-messages", obj{}).json)
	title := n.must("tabs", obj{}).json
	if !strings.Contains(title, " (hidden) o") || !strings.Contains(title, "o…") {
		t.Errorf("the title was not freed and cut: %s", title)
	}
	clean("request", n.must("network-requests", obj{"filter": "/long"}).json)
	clean("exception", n.refused(capabilities.CodeScriptFailed, "evaluate", obj{"expression": "throw new Error(document.title.slice(-500 - 99, -99))"}).Message)
}

// A PIN is hidden under its field's name also where the text that it stands in is cut
// within it: titles, addresses and what the console shows are freed of it first.
func TestTypedPINIsNotCut(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<input type=password name=pin aria-label=PIN>
<script>
const pad = n => 'o'.repeat(n);
document.querySelector('input').onchange = e => {
	const v = e.target.value;
	console.log(pad(16374) + ' pin=' + v); // the cut is behind its second digit
	document.title = pad(993) + ' pin=' + v;
	history.replaceState(0, '', '/?' + pad(32768 - location.origin.length - 9) + '&pin=' + v);
}
</script>`)})
	n.goTo(s.URL + "/")
	for what, a := range map[string]answer{
		"type": n.must("type", obj{"selector": "input", "text": "2026", "submit": true}), "snapshot": n.must("snapshot", obj{}), "tabs": n.must("tabs", obj{}),
		"console": n.must("console-messages", obj{}), "wait-for": n.must("wait-for", obj{"selector": "input"}),
	} {
		if i := strings.Index(a.json, "pin=2"); i >= 0 {
			t.Errorf("%s tells of the PIN: %q", what, a.json[i:min(i+12, len(a.json))])
		}
	}
	for what, a := range map[string]answer{"tabs": n.must("tabs", obj{}), "console": n.must("console-messages", obj{})} {
		if !strings.Contains(a.json, "pin=(") {
			t.Errorf("%s does not reach to where the PIN stood, so it shows nothing: %.200s", what, a.json[max(0, len(a.json)-200):])
		}
	}
}

// A secret within a download's name, which is cut and freed of signs, is hidden whole;
// the path that is told leads to the file.
func TestTypedSecretsInNamesOfDownloads(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<input type=password><button id=b>B</button><button id=count>C</button>
<script>
b.onclick = () => {
	const a = document.createElement('a');
	a.href = window.URL.createObjectURL(new Blob(['x']));
	a.download = b.name + document.querySelector('input').value + '.txt';
	a.click();
};
</script>`)})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	for _, secret := range []string{"Kv3Xw7Qz_3Jb5NmT8Rg", `Kv3?Xw"Qz*3:b<5>~e\f|g`, "Kv3/QzXw"} {
		n.must("fill-form", obj{"selector": "input", "value": secret})
		for _, before := range []string{"a ", strings.Repeat("o", 141) + " "} {
			n.eval("b.name = '" + before + "'; 1")
			d := n.nextDownload(n.must("click", obj{"selector": "#b"}))
			if strings.Contains(d.Name+d.Path, "Kv3") || strings.Contains(d.Name+d.Path, "Xw") || !strings.Contains(d.Name, "(hid") {
				t.Errorf("%q: %+v", secret, d)
			}
			if _, err := os.Stat(d.Path); err != nil {
				t.Error(err)
			}
		}
	}
}

// Servers spell a secret in ways of their own, and a page may show what they gave.
func TestHidingKnowsTheSpellings(t *testing.T) {
	const secret = "a<b>c&d'e\"f g~h$i+j=k:l@m/n\\o"
	l := &lane{}
	l.noteTyped(typedSecret{text: secret})
	quoted, _ := json.Marshal(secret)
	for _, spelling := range []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret), string(quoted), string(quote(secret)),
		"a&lt;b&gt;c&amp;d'e\"f g~h$i+j=k:l@m/n\\o", "a<b>c&amp;d'e&quot;f g~h$i+j=k:l@m/n\\o",
	} {
		if got := l.hider().text("say " + spelling); strings.Trim(got, `"`) != "say (hidden)" && got != `say "(hidden)"` {
			t.Errorf("%s: %s", spelling, got)
		}
	}
}

// Every part of an answer is looked through.
func TestHidingReachesEveryPart(t *testing.T) {
	l := &lane{}
	l.noteTyped(typedSecret{text: "longhorse"})
	out := capabilities.Output{Result: []string{"a longhorse"}, Evidence: "saw longhorse"}
	l.hider().output(&out)
	if !reflect.DeepEqual(out.Result, []string{"a (hidden)"}) || out.Evidence != "saw (hidden)" {
		t.Errorf("%+v", out)
	}
	e := capabilities.Errorf(capabilities.CodeConflict, "a longhorse").WithHint("a longhorse").WithDetails([]string{"a longhorse"})
	if e = l.hider().refusal(e); e.Message != "a (hidden)" || e.Hint != "a (hidden) This answer hides what was typed in secret." || !reflect.DeepEqual(e.Details, []string{e.Message}) {
		t.Errorf("%+v", e)
	}
}
