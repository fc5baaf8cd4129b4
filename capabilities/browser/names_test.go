//go:build linux

package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
)

// Characters that nobody sees are no name: the next source of one counts.
func TestUnseenCharactersAreNoName(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<button aria-label="&#8203;" title="Close">&#8203;</button><a href="/x"><img src="data:," alt="&#8205;&#65279;"></a><p>&#8203;&#8288;</p><button>Nim&#8204;e</button>`)})
	n.goTo(s.URL + "/")
	got := n.snap()
	wants(t, got, `- button "Close" [ref=`, "- button \"Nim\u200ce\" [ref=")
	if strings.ContainsAny(got, "\u200b\u200d\u2060\ufeff") || strings.Contains(got, `""`) || strings.Contains(got, "text: ") {
		t.Errorf("the outline:\n%s", got)
	}
}

// Forms have fields called as what our scripts ask forms for (children, title, id, …), and
// pages have images called as what they ask documents for. Neither misleads a tool.
func TestNamesThatPagesTake(t *testing.T) {
	t.Parallel()
	names := append(inpage.Taken(), strings.Fields("accept action alt attributes checked control coords data disabled draggable elements files form hidden host "+
		"href htmlFor indeterminate labels lang length list localName location max method min multiple name nodeName nodeValue nextSibling offsetParent onclick open options "+
		"placeholder previousSibling readOnly remove required role selected size slot src style submit target text toString type value webkitTextSecurity")...)
	var page, want strings.Builder
	for i, name := range names {
		fmt.Fprintf(&page, `<div><form onsubmit="return false" id=form%[1]d title="Form %[1]d"><label>Field %[1]d<input name=%[2]s></label><button type=button onclick="b%[1]d.textContent+='pressed'">Press %[1]d</button><p id=b%[1]d></p></form></div>`, i, name)
		fmt.Fprintf(&want, "- form \"Form %[1]d\"\n  - textbox \"Field %[1]d\" [ref=e%[2]d]\n  - button \"Press %[1]d\" [ref=e%[3]d]\n", i, 2*i+1, 2*i+2)
	}
	s, n := newPage(t, map[string]string{
		"/": html(page.String()), "/frame": html("<iframe src=/ style='width:900px;height:600px'></iframe>"),
		"/images": html("<img src=data:, alt=Pic name=" + strings.Join(names, "><img src=data:, alt=Pic name=") + "><label>Field<input></label><button onclick=this.textContent='pressed'>Press</button>"),
	})
	n.goTo(s.URL + "/")
	whole := func() string { return n.must("snapshot", obj{"max_chars": 200000}).m["snapshot"].(string) }
	if got := whole(); got != strings.TrimSuffix(want.String(), "\n") {
		t.Errorf("the outline:\n%s", got)
	}
	for i := range names {
		n.must("click", obj{"ref": fmt.Sprintf("e%d", 2*i+2)})
		n.must("type", obj{"ref": fmt.Sprintf("e%d", 2*i+1), "text": "typed"})
	}
	if got := n.eval("[...document.querySelectorAll('body>div')].filter(d=>d.querySelector('p').textContent=='pressed'&&d.querySelector('input').value=='typed').length"); got != float64(len(names)) {
		t.Errorf("%v of %d forms were worked with", got, len(names))
	}
	n.goTo(s.URL + "/frame")
	if got := whole(); strings.Count(got, "textbox") != len(names) {
		t.Errorf("in a frame:\n%s", got)
	}
	n.goTo(s.URL + "/images")
	got := whole()
	wants(t, got, `- textbox "Field" [ref=`, `- button "Press" [ref=`)
	if strings.Count(got, `img "Pic"`) != len(names) {
		t.Errorf("the outline:\n%s", got)
	}
	n.must("click", obj{"selector": "button"})
	n.must("type", obj{"selector": "input", "text": "typed"})
	if a := n.must("press-key", obj{"key": "End"}); a.m["title"] != "Test page" {
		t.Errorf("the title is %v", a.m["title"])
	}
	if got := n.eval("Document.prototype.querySelector.call(document,'button').textContent+Document.prototype.querySelector.call(document,'input').value"); got != "pressedtyped" {
		t.Error(got)
	}
}

// The list has to have whatever the page script comes to ask of forms or documents later.
func TestTakenIsComplete(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.goTo("data:text/html,<form id=f></form>")
	has := map[string]bool{}
	for _, name := range n.eval("(()=>{const all=[];for(let x of [f,document])for(;x;x=Object.getPrototypeOf(x))all.push(...Object.getOwnPropertyNames(x));return all})()").([]any) {
		has[name.(string)] = true
	}
	// These are asked of elements whose kind is known, of events, or of things of our own.
	for name := range strings.FieldsSeq("DOCUMENT_POSITION_FOLLOWING all before clear clientLeft clientTop close currentCSSZoom getSelection length location name open part role scrollBy slot style target translate") {
		delete(has, name)
	}
	var script string
	files, err := filepath.Glob("page/*.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(name) != "internals.js" { // it asks what custom elements keep, and no form
			script += string(text)
		}
	}
	for _, found := range regexp.MustCompile(`(?m)^\s*//.*$|\.(\w+)\b`).FindAllStringSubmatch(script, -1) {
		if name := found[1]; has[name] && !slices.Contains(inpage.Taken(), name) {
			t.Errorf("%s is not on the list", name)
			delete(has, name)
		}
	}
}
