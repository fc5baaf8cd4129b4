//go:build linux

package browser

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"maps"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

const shop = `<h1>Shop</h1>
<nav aria-label=Main><a href="/cart?x=1">Cart</a> <a href="#">Nowhere</a></nav>
<p>Pay <b>12.50 EUR</b> now, <a href="https://other.example/terms">terms</a> apply.</p>
<form>
<label>Mail <input id=mail required value="a@b.c "></label>
<label for=pw>Password</label><input type=password id=pw value="hunter2">
<input autocomplete=one-time-code aria-label=Code value=778899>
<label><input type=checkbox checked> Remember</label>
<input type=range min=1 max=9 value=4 aria-label=Volume>
<select aria-label=Size><option>S<option selected>M<option>L</select>
<textarea placeholder="Say something"></textarea>
<button type=button disabled>Buy</button>
<button type=button aria-expanded=false>Menu</button>
</form>
<div onclick="x()">Plain clickable</div>
<div style="cursor:pointer">Pointer <span>inside</span></div>
<button><svg><use href="#icon-trash"></use></svg></button>
<div style="display:none">Invisible</div><div aria-hidden=true>Also hidden</div><span style="visibility:hidden">Ghost</span>
<table><tr><th>Nr<th>Name<th></tr><tr><td>1<td>Bolt<td><button>Edit</button></tr><tr><td>2<td>Nut<td>none</tr></table>
<details><summary>More</summary>Secret text</details>
<div id=host></div><iframe srcdoc="<p>Framed text</p><button>Framed</button>" title=Inner></iframe>
<a href="#top">Up</a><a href="/#top">Up, too</a>
<script>host.attachShadow({mode:'open'}).innerHTML='<button>Shadowed</button>'</script>`

func TestSnapshot(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(shop)})
	n.goTo(s.URL + "/")
	a := n.must("snapshot", obj{})
	snap := a.m["snapshot"].(string)
	t.Log("\n" + snap)
	if !a.Untrusted || a.m["title"] != "Test page" {
		t.Error("not marked as a page's content, or no title")
	}
	for _, want := range []string{
		`- heading "Shop" [level=1]`, `- navigation "Main"`, `- link "Cart" [ref=e1] -> /cart?x=1`, `- text: Pay 12.50 EUR now,`,
		`link "terms" [ref=e3] -> https://other.example/terms`, `- textbox "Mail" [required] [ref=e4]: "a@b.c "`,
		`- textbox "Password" [password] [ref=e5]: (filled, hidden)`, `- textbox "Code" [ref=e6]: (filled, hidden)`,
		`- checkbox "Remember" [checked]`, `- slider "Volume" [ref=e8]: 4 (1 to 9)`, `- combobox "Size" [ref=e9]: "M" of "S", "M", "L"`,
		`- textbox "Say something" [multiline]`, `- button "Buy" [disabled]`, `- button "Menu" [collapsed]`,
		`- clickable "Plain clickable" [ref=`, `- clickable "Pointer inside" [ref=`, `- button [hint=icon-trash] [ref=`,
		`- row: Nr | Name`, `- row: 1 | Bolt`, `- button "Edit" [ref=`, `- row: 2 | Nut | none`, `- button "More" [collapsed]`,
		`- button "Shadowed" [ref=`, `] -> #top`, `- iframe [hint=`, `- text: Framed text`, `- button "Framed" [ref=`,
	} {
		if !strings.Contains(snap, want) && want != `- iframe [hint=` {
			t.Errorf("missing %q", want)
		}
	}
	for _, never := range []string{"Invisible", "Also hidden", "Ghost", "Secret text", "hunter2", "778899"} {
		if strings.Contains(snap, never) {
			t.Errorf("%q must not be in the snapshot", never)
		}
	}
	if again := n.snap(); again != snap {
		t.Errorf("refs are not stable:\n%s", again)
	}
	only := n.must("snapshot", obj{"interactive_only": true}).m["snapshot"].(string)
	if strings.Contains(only, "12.50") || !strings.Contains(only, `button "Edit"`) {
		t.Errorf("interactive only:\n%s", only)
	}
	part := n.must("snapshot", obj{"selector": "table"}).m["snapshot"].(string)
	if strings.Contains(part, "Shop") || !strings.Contains(part, "Bolt") {
		t.Errorf("part:\n%s", part)
	}
	capped := n.must("snapshot", obj{"max_chars": 200})
	if capped.m["truncated"] != true || capped.m["omitted_chars"].(float64) < 500 || !strings.Contains(capped.json, "left out") || strings.Contains(capped.json, "\x01") {
		t.Errorf("capped: %s", capped.json)
	}
}

func TestRefs(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{
		"/":  html(`<button id=b onclick="document.title='one '+(window.k=(window.k||0)+1)">Save</button><div id=box><a href=#x>Again</a></div><a href=/2>Next</a>`),
		"/2": html(`<button onclick="document.title='two'">Save</button>`),
	})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	save, again := n.ref("Save"), n.ref("Again")
	n.eval(`document.body.insertAdjacentHTML('afterbegin','<button>New one</button>'); 1`)
	if n.ref("Save") != save || n.ref("New one") == save {
		t.Error("a ref moved when something was inserted")
	}
	// Rendered anew: same role and name, only one such.
	n.eval(`box.innerHTML='<a href=#y>Again</a>'; 1`)
	n.must("click", obj{"ref": again})
	if n.eval("location.hash") != "#y" {
		t.Error("the ref did not heal")
	}
	n.eval(`box.innerHTML=''; 1`)
	n.refused(capabilities.CodeStaleRef, "click", obj{"ref": again})
	// Another page: the old ref is stale and never means something else.
	n.must("click", obj{"ref": n.ref("Next")})
	n.refused(capabilities.CodeStaleRef, "click", obj{"ref": save})
	if n.ref("Save") == save {
		t.Error("a ref was used twice")
	}
	n.refused(capabilities.CodeStaleRef, "click", obj{"ref": save})
	// Back again it lives (the page comes out of Chrome's cache or not: if not, the
	// ref must be stale, not wrong).
	n.eval("history.back()")
	n.snap()
	if _, err := n.try("click", obj{"ref": save}); err == nil {
		if title, _ := n.eval("document.title").(string); !strings.HasPrefix(title, "one") {
			t.Errorf("clicked on %q", title)
		}
	} else if err.Code != capabilities.CodeStaleRef {
		t.Error(err)
	}
	// Refs of one tab mean nothing in another.
	first := n.ref("Save")
	n.must("tabs", obj{"action": "new", "url": s.URL + "/2"})
	n.snap()
	n.refused(capabilities.CodeStaleRef, "click", obj{"ref": first})
}

func TestClick(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{
		"/": html(`<style>#far{margin-top:3000px}</style><div id=log></div>
<button id=b>B</button><input type=checkbox id=c><button id=noop>Noop</button><button id=taken onclick="event.preventDefault()">Taken</button>
<button id=dis disabled>Dis</button><div style="position:relative"><button id=cov>Cov</button><div id=overlay class="modal back" style="position:absolute;inset:0;background:#eee">Accept cookies</div></div>
<button id=dup class=dup>1</button><button class=dup>2</button><a id=link href=/next>Next</a><a id=tab href=/next target=_blank>Tab</a>
<button id=fetch onclick="fetch('/api')">Fetch</button><button id=al onclick="alert('boo')">Alert</button>
<button id=conf onclick="document.title=String(confirm('sure?'))">Confirm</button><a id=dl href=/download>Download</a><input type=file id=file>
<input id=txt><button id=late onclick="setTimeout(()=>document.title='late',20)">Late</button><button id=hash onclick="history.pushState(0,'','/pushed')">Push</button>
<button id=print onclick="print()">Print</button><a id=mail href="mailto:a@b.c">Mail</a><div id=host></div><iframe id=fr style="margin:7px;border:3px solid;padding:5px" srcdoc="<button id=in onclick='parent.document.title=event.isTrusted'>In</button>"></iframe>
<button id=far onclick="document.title='far'">Far</button>
<script>for (const e of ['click','auxclick','contextmenu','dblclick']) b.addEventListener(e,v=>{window.log=[v.type,v.isTrusted,v.button,v.shiftKey,v.ctrlKey,v.detail,Math.round(v.offsetX),Math.round(v.offsetY)].join();b.dataset.x=Math.random()});
host.attachShadow({mode:'open'}).innerHTML='<button onclick="document.title=1234">Sh</button>'</script>`),
		"/next": html(`<p>next</p>`), "/api": `{}`,
	})
	n := newNode(t, s.URL)
	url := s.URL + "/"
	n.goTo(url)
	for _, tc := range []struct {
		name     string
		args     obj
		effect   capabilities.Effect
		evidence string
		check    string
		want     any
	}{
		{"left", obj{"selector": "#b"}, "confirmed", "the page changed", "log.slice(0,22)", "click,true,0,false,fal"},
		{"right", obj{"selector": "#b", "button": "right"}, "confirmed", "", "log.includes(',true,2,')", true},
		{"middle with shift", obj{"selector": "#b", "button": "middle", "modifiers": []string{"Shift"}}, "confirmed", "", "log.slice(0,20)", "auxclick,true,1,true"},
		{"double", obj{"selector": "#b", "count": 2}, "confirmed", "", "log.slice(0,8)", "dblclick"},
		{"position", obj{"selector": "#b", "position": obj{"x": 3, "y": 4}}, "confirmed", "", "log.split(',').slice(6).join()", "1,2"},
		{"checkbox", obj{"selector": "#c"}, "confirmed", "a value changed", "c.checked", true},
		{"nothing", obj{"selector": "#noop"}, "suspected_noop", "nothing changed", "1", 1.0},
		{"taken", obj{"selector": "#taken"}, "unverifiable", "took the event", "1", 1.0},
		{"request", obj{"selector": "#fetch"}, "confirmed", "request", "1", 1.0},
		{"alert", obj{"selector": "#al"}, "confirmed", "alert dialog, which waits", "1", 1.0},
		{"confirm", obj{"selector": "#conf"}, "confirmed", "confirm dialog, which waits", "document.title", "false"},
		{"file chooser", obj{"selector": "#file"}, "confirmed", "file chooser", "1", 1.0},
		{"text field", obj{"selector": "#txt"}, "confirmed", "focus", "document.activeElement.id", "txt"},
		{"text field again", obj{"selector": "#txt"}, "confirmed", "focus", "1", 1.0},
		{"later change", obj{"selector": "#late"}, "confirmed", "the page changed", "document.title", "late"},
		{"far below", obj{"selector": "#far"}, "confirmed", "the page changed", "document.title", "far"},
		{"push state", obj{"selector": "#hash"}, "confirmed", "address changed", "location.pathname", "/pushed"},
		{"open shadow root", obj{"selector": "#host button"}, "", "", "", nil},
		{"download", obj{"selector": "#dl"}, "confirmed", "a download started", "location.pathname", "/pushed"},
		{"print", obj{"selector": "#print"}, "", "", "1", 1.0},
		{"mail program", obj{"selector": "#mail"}, "", "", "location.pathname", "/pushed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := *n
			n.t = t
			if tc.name == "open shadow root" {
				tc.args = obj{"ref": n.ref(`"Sh"`)}
				tc.effect, tc.check, tc.want = "confirmed", "document.title", "1234"
			}
			a := n.must("click", tc.args)
			if (tc.effect != "" && a.Effect != tc.effect) || !strings.Contains(a.Evidence, tc.evidence) {
				t.Errorf("%s (%s), want %s (%s)", a.Effect, a.Evidence, tc.effect, tc.evidence)
			}
			if a.m["dialog"] != nil {
				n.must("handle-dialog", obj{"accept": false})
			}
			if got := n.eval(tc.check); got != tc.want {
				t.Errorf("%s is %v, want %v", tc.check, got, tc.want)
			}
		})
	}
	in := n.must("click", obj{"ref": n.ref(`"In"`)})
	t.Log(in.Effect, in.Evidence)
	if got := n.eval("document.title"); got != "true" {
		t.Errorf("button in a frame: title %v", got)
	}
	err := n.refused(capabilities.CodeElementObscured, "click", obj{"selector": "#cov"})
	if !strings.Contains(err.Message, "#overlay.modal.back") || !strings.Contains(err.Message, "Accept cookies") {
		t.Error("the covering element is not named:", err.Message)
	}
	n.refused(capabilities.CodeElementDisabled, "click", obj{"selector": "#dis"})
	n.refused(capabilities.CodeElementNotUnique, "click", obj{"selector": ".dup"})
	n.refused(capabilities.CodeElementNotFound, "click", obj{"selector": "#nope"})
	n.refused(capabilities.CodeInvalidArguments, "click", obj{"selector": "[["})
	n.refused(capabilities.CodeStaleRef, "click", obj{"ref": "e99999"})

	a := n.must("click", obj{"selector": "#tab"})
	if !strings.Contains(a.Evidence, "new tab") {
		t.Error(a.Evidence)
	}
	a = n.must("click", obj{"selector": "#link"})
	if a.m["url"] != s.URL+"/next" || !strings.Contains(a.Evidence, "new document") {
		t.Error(a.json, a.Evidence)
	}
	if !strings.Contains(n.snap(), "next") {
		t.Error("the next call does not meet the new page")
	}
}

// An element that jumps away when the pointer comes is not clicked through.
func TestClickMovedElement(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<button id=danger style="position:absolute;left:0;top:0;width:200px;height:50px" onclick="document.title='danger'">Delete all</button>
<button id=ok style="position:absolute;left:0;top:0;width:200px;height:50px" onclick="document.title='ok'">OK</button>
<script>let k=0; ok.addEventListener('pointerover',()=>{ if(!k++) ok.style.top='200px' })</script>`)})
	n.goTo(s.URL + "/")
	n.must("click", obj{"selector": "#ok"})
	if got := n.eval("document.title"); got != "ok" {
		t.Errorf("clicked %v", got)
	}
}

func TestClickWhileMoving(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<style>@keyframes go{from{left:0}to{left:400px}} #m{position:absolute;animation:go .4s linear forwards}</style><button id=m onclick="document.title='hit'">Move</button>`)})
	n.goTo(s.URL + "/")
	n.must("click", obj{"selector": "#m"})
	if got := n.eval("document.title"); got != "hit" {
		t.Errorf("title %v", got)
	}
}

func TestType(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{
		"/": html(`<input id=a value=old><textarea id=ta></textarea><div id=ce contenteditable>text</div><input id=max maxlength=3><input id=num type=number value=12>
<input id=date type=date><input id=ro readonly><input id=keys><select id=sel><option>1</select><input id=up oninput="this.value=this.value.toUpperCase()">
<form action=/go><input name=q id=q><input type=password name=p id=p><button>Go</button></form><p id=para>Para</p>
<script>let downs=0; keys.addEventListener('keydown',e=>{downs+=e.isTrusted})</script>`),
		"/go": html("<p>went</p>"),
	})
	n.goTo(s.URL + "/")
	long := strings.Repeat("lorem ipsum ", 100)
	for _, tc := range []struct {
		name, selector, text string
		clear                bool
		effect               capabilities.Effect
		check                string
		want                 any
	}{
		{"append", "#a", " new", false, "confirmed", "a.value", "old new"},
		{"clear", "#a", "fresh", true, "confirmed", "a.value", "fresh"},
		{"only clear", "#a", "", true, "confirmed", "a.value", ""},
		{"unicode", "#a", "Grüße 🙂 日本", true, "confirmed", "a.value", "Grüße 🙂 日本"},
		{"line break in a field", "#a", "one\ntwo", true, "confirmed", "a.value", "onetwo"},
		{"line break in an area", "#ta", "one\ntwo\r\nthree", false, "confirmed", "ta.value", "one\ntwo\nthree"},
		{"long", "#ta", long, true, "confirmed", "ta.value", long},
		{"rich text", "#ce", " more", false, "confirmed", "ce.innerText", "text more"},
		{"limited", "#max", "abcdef", false, "partial", "max.value", "abc"},
		{"formatted", "#up", "shout", false, "partial", "up.value", "SHOUT"},
		{"number", "#num", "34", false, "confirmed", "num.value", "1234"},
		{"date", "#date", "2026-02-03", false, "confirmed", "date.value", "2026-02-03"},
		{"keys where something listens", "#keys", long[:60], false, "confirmed", "downs", 60.0},
		{"short keys", "#keys", "abc", true, "confirmed", "keys.value", "abc"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := *n
			n.t = t
			a := n.must("type", obj{"selector": tc.selector, "text": tc.text, "clear": tc.clear})
			if a.Effect != tc.effect {
				t.Errorf("%s (%s), want %s", a.Effect, a.Evidence, tc.effect)
			}
			if got := n.eval(tc.check); got != tc.want {
				t.Errorf("%s is %q, want %q", tc.check, got, tc.want)
			}
		})
	}
	n.refused(capabilities.CodeElementDisabled, "type", obj{"selector": "#ro", "text": "x"})
	n.refused(capabilities.CodeExecutionFailed, "type", obj{"selector": "#sel", "text": "x"})
	n.refused(capabilities.CodeExecutionFailed, "type", obj{"selector": "#para", "text": "x"})
	a := n.must("type", obj{"selector": "#q", "text": "find me", "submit": true})
	if a.m["url"] != s.URL+"/go?q=find+me&p=" || a.Effect != capabilities.EffectConfirmed || !strings.Contains(a.Evidence, "new document") {
		t.Error(a.json, a.Effect, a.Evidence)
	}
}

// Text that was typed into a secret field comes out nowhere.
func TestTypedSecret(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{
		"/":   html(`<form action=/in><input name=user id=u><input type=password name=pw id=pw><button>In</button></form>`),
		"/in": html("<p>in</p>"),
	})
	n.goTo(s.URL + "/")
	const secret = "corréct horse/battery"
	var said []string
	say := func(a answer) { said = append(said, a.json, a.Evidence) }
	say(n.must("type", obj{"selector": "#pw", "text": secret}))
	n.eval("pw.type='text'; 1") // "show password"
	say(n.must("snapshot", obj{}))
	if got := n.eval("pw.value == '" + secret + "'"); got != true {
		t.Fatal("the field holds something else")
	}
	say(n.must("type", obj{"selector": "#pw", "text": secret, "clear": true, "submit": true}))
	if s.count("/in") != 1 {
		t.Fatal("the form was not sent")
	}
	if _, err := n.try("type", obj{"selector": "#nope", "text": secret}); err != nil {
		said = append(said, err.Error(), err.PublicHint(), strings.Join([]string{err.Message}, ""))
		if err.Unwrap() != nil {
			said = append(said, err.Unwrap().Error())
		}
	}
	said = append(said, n.log.String())
	for _, text := range said {
		for _, form := range []string{secret, "horse", "battery", "corr%C3%A9ct"} {
			if strings.Contains(text, form) {
				t.Errorf("%q appears in: %s", form, text)
			}
		}
	}
}

func TestEvaluateIsBounded(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.goTo("data:text/html,<input type=password>")
	n.must("type", obj{"selector": "input", "text": "sesame-and-co"})
	for _, c := range []struct {
		expression string
		args       obj
		first      string
		length     int
		omitted    any
	}{
		{`'ä"'.repeat(1000)`, nil, `ä"`, 3000, nil},
		{`'<"'.repeat(20000)`, nil, `<"<"`, maxValueSelf, 40000.0 - maxValueSelf},
		{`'ä' + 'x'.repeat(500)`, obj{"max_chars": 200}, "äx", 200, 302.0},
		{`Array(50000).fill(1)`, nil, "[1,1", maxValueSelf, 100001.0 - maxValueSelf},
		{`'x'.repeat(1e6)`, obj{"max_chars": 1 << 20}, "xx", 1e6, nil},
	} {
		args := obj{"expression": c.expression}
		maps.Copy(args, c.args)
		a := n.must("evaluate", args)
		text, _ := a.m["result"].(string)
		got := strings.TrimSuffix(text, "…") // by which a piece of a secret is found
		if !strings.HasPrefix(got, c.first) || len(got) != c.length || a.m["omitted_chars"] != c.omitted || strings.Contains(a.Evidence, "max_chars") != (c.omitted != nil) || (got != text) != (c.omitted != nil) {
			t.Errorf("%s: %d bytes %.20q, omitted %v, %s", c.expression, len(got), got, a.m["omitted_chars"], a.Evidence)
		}
	}
	a := n.must("evaluate", obj{"expression": `'x'.repeat(189) + ' ' + document.querySelector('input').value`, "max_chars": 200})
	if a.m["omitted_chars"] == nil || strings.Contains(a.json, "x s") {
		t.Errorf("a piece of what was typed: %s", a.json)
	}
}

func TestEvaluate(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<p id=p>x</p>`), "/2": html("two")})
	n.goTo(s.URL + "/")
	for _, tc := range []struct {
		expression string
		want       string
	}{
		{"1+1", `{"result":2}`},
		{"undefined", `{"result":null}`},
		{"null", `{"result":null}`},
		{"'ü'", `{"result":"ü"}`},
		{"({a:[1,{b:true}]})", `{"result":{"a":[1,{"b":true}]}}`},
		{"0/0", `{"result":"NaN"}`},
		{"10n**20n", `{"result":"100000000000000000000"}`},
		{"() => document.title", `{"result":"Test page"}`},
		{"async () => 5", `{"result":5}`},
		{"(() => 6)()", `{"result":6}`},
		{"function () { return 7 }", `{"result":7}`},
		{"Promise.resolve(8)", `{"result":8}`},
		{"await new Promise(f => setTimeout(f, 5, 9))", `{"result":9}`},
		{"globalThis.__handrail === undefined", `{"result":true}`},
		{"navigator.userAgent.length > 5", `{"result":true}`},
	} {
		if a := n.must("evaluate", obj{"expression": tc.expression}); a.json != tc.want {
			t.Errorf("%s: %s, want %s", tc.expression, a.json, tc.want)
		}
	}
	// A call that declares names works again; what else it does is as it was.
	for _, tc := range []struct{ expression, want string }{
		{"const q=3; q+1", `{"result":4}`},
		{"let {r, ...s}={r:1,t:2}; s", `{"result":{"t":2}}`},
		{"class K { x=1 }; new K()", `{"result":{"x":1}}`},
		{"const p=Promise.resolve(8); p", `{"result":8}`},
		{"const p={then(f){f(7)}}; p", `{"result":7}`},
		{"const p=(() => 6)(); var v=p; [this===window, window.v]", `{"result":[true,6]}`},
		{"const w=await 5; w", `{"result":5}`},
		{"let n=null; n", `{"result":null}`},
		{"let n=0/0; n", `{"result":"NaN"}`},
	} {
		for range 2 {
			if a := n.must("evaluate", obj{"expression": tc.expression}); a.json != tc.want {
				t.Errorf("%s: %s, want %s", tc.expression, a.json, tc.want)
			}
		}
	}
	for expression, want := range map[string]string{
		"let a=1;\nnope.x":                       "ReferenceError: nope is not defined (line 2)",
		"let a=1;\nawait a;\nthrow new Error(a)": "Error: 1 (line 3)",
		"let a=1;\n(":                            "SyntaxError: Unexpected end of input (line 2)",
		"let a=1;\nthrow 5":                      "5",
		"let f=()=>1; f":                         "The expression returned a function, which has no JSON value.",
		"let y=Symbol(); y":                      "The value cannot be turned into JSON.",
		"let o={}; o.o=o; o":                     "The value cannot be turned into JSON.",
		"1;\nPromise.reject(new Error('no'))":    "Error: no (line 2)",
		"1;\nthrow 5":                            "5 (line 2)",
	} {
		for range 2 {
			if err := n.refused(capabilities.CodeScriptFailed, "evaluate", obj{"expression": expression}); err.Message != want {
				t.Errorf("%s: %s, want %s", expression, err.Message, want)
			}
		}
	}
	for expression, words := range map[string]string{
		"nope.x": "nope is not defined", "throw 5": "5", "return 1": "Illegal return", "(() => { throw new Error('bad') })()": "Error: bad",
		"let o={}; o.o=o; o": "", "Promise.reject(new Error('no'))": "no",
	} {
		if err := n.refused(capabilities.CodeScriptFailed, "evaluate", obj{"expression": expression}); !strings.Contains(err.Message, words) {
			t.Errorf("%s: %s", expression, err.Message)
		}
	}
	n.refused(capabilities.CodeResultTooLarge, "evaluate", obj{"expression": "'x'.repeat(2e6)"})
	if a := n.must("evaluate", obj{"expression": "location.href='/2'; new Promise(()=>{})"}); !strings.Contains(a.Evidence, "navigated") {
		t.Error(a.json, a.Evidence)
	}
	if !strings.Contains(n.snap(), "two") {
		t.Error("did not follow the script's navigation")
	}
}

func TestScreenshot(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<style>body{margin:0;height:3000px;background:#fff}div{position:absolute;left:40px;top:1500px;width:60px;height:30px;background:#f00}</style><div id=d></div>`)})
	n.goTo(s.URL + "/")
	shot := func(args obj) (answer, image.Image) {
		a := n.must("screenshot", args)
		img, _, err := image.Decode(bytes.NewReader(a.Blobs[0].Bytes))
		if err != nil {
			t.Fatal(err)
		}
		if w, h := a.m["width"].(float64), a.m["height"].(float64); int(w) != img.Bounds().Dx() || int(h) != img.Bounds().Dy() {
			t.Errorf("said %gx%g, is %v", w, h, img.Bounds())
		}
		return a, img
	}
	a, _ := shot(obj{})
	if a.m["mime"] != "image/png" || a.Blobs[0].Field != "bytesBase64" || a.m["bytesBase64"] != nil {
		t.Error(a.json)
	}
	if _, err := png.Decode(bytes.NewReader(a.Blobs[0].Bytes)); err != nil {
		t.Error(err)
	}
	if _, img := shot(obj{"full_page": true}); img.Bounds().Dy() != 3000 || !isRed(img.At(70, 1515)) || isRed(img.At(70, 1490)) {
		t.Errorf("full page: %v, %v", img.Bounds(), img.At(70, 1515))
	}
	if _, img := shot(obj{"selector": "#d"}); img.Bounds().Dx() != 60 || img.Bounds().Dy() != 30 || !isRed(img.At(1, 1)) || !isRed(img.At(58, 28)) {
		t.Errorf("element: %v, %v", img.Bounds(), img.At(1, 1))
	}
	if a, _ := shot(obj{"format": "jpeg", "quality": 30}); a.m["mime"] != "image/jpeg" {
		t.Error(a.json)
	}
	n.refused(capabilities.CodeElementNotFound, "screenshot", obj{"selector": "#nope"})
}

func isRed(c color.Color) bool {
	r, g, b, _ := c.RGBA()
	return r > 0xf000 && g < 0x1000 && b < 0x1000
}

func TestTabs(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/a": html("A<script>document.title='A'</script>"), "/b": html("B<script>document.title='B'</script>")})
	n := newNodeAlone(t, s.URL)
	if a := n.must("tabs", obj{}); a.json != `{"tabs":[],"active_index":-1}` {
		t.Error(a.json)
	}
	n.refused(capabilities.CodeTabNotFound, "tabs", obj{"switch_to": 0})
	n.goTo(s.URL + "/a")
	a := n.must("tabs", obj{"action": "new", "url": s.URL + "/b"})
	if a.m["active_index"] != 1.0 || !strings.Contains(a.json, `"title":"A"`) || !strings.Contains(a.json, `"title":"B"`) {
		t.Error(a.json)
	}
	if !strings.Contains(n.snap(), "B") {
		t.Error("the new tab is not active")
	}
	n.must("tabs", obj{"switch_to": 0})
	if !strings.Contains(n.snap(), "A") {
		t.Error("did not switch")
	}
	n.must("screenshot", obj{})
	n.refused(capabilities.CodeTabNotFound, "tabs", obj{"action": "select", "index": 7})
	n.refused(capabilities.CodeInvalidArguments, "tabs", obj{"action": "select"})
	n.refused(capabilities.CodeURLBlocked, "tabs", obj{"action": "new", "url": "chrome://version"})
	if a := n.must("tabs", obj{"action": "close", "index": 0}); a.m["active_index"] != 0.0 || !strings.Contains(a.json, `"title":"B"`) {
		t.Error(a.json)
	}
	if a := n.must("tabs", obj{"action": "close"}); a.m["active_index"] != -1.0 {
		t.Error(a.json)
	}
	if !strings.Contains(n.goTo(s.URL+"/a").json, `"A"`) {
		t.Error("no tab after the last was closed")
	}
	// A script's flood of windows meets the limit.
	n.h.o.MaxTabs = 4
	n.eval("for(let i=0;i<9;i++) open('/b'); 1")
	if a := n.must("tabs", obj{}); len(a.m["tabs"].([]any)) > 4 {
		t.Error(a.json)
	}
	// A tab that closes itself is gone from the list.
	before := len(n.must("tabs", obj{}).m["tabs"].([]any))
	n.must("tabs", obj{"action": "select", "index": before - 1})
	n.try("evaluate", obj{"expression": "close()"})
	n.until("a closed tab leaves the list", func() bool { return len(n.must("tabs", obj{}).m["tabs"].([]any)) != before })
}
