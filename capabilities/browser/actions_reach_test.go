//go:build linux

package browser

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// fields of every kind, with what they got noted as text, so that it can be read
// from outside.
const toolPage = `<style>body{margin:0}</style><input id=t aria-label=Text oninput="note('t',this.value)"><input id=k aria-label=Keys onkeydown="this.d=(this.d||'')+event.key" onkeyup="note('k',this.d)">
<input id=c type=checkbox aria-label=Box onclick="note('c',this.checked+' '+event.isTrusted)"><select id=s aria-label=List onchange="note('s',this.value)"><option>One<option>Two</select>
<div id=ce contenteditable aria-label=Rich role=textbox oninput="note('ce',this.innerText)">x</div><button id=b onclick="note('b',event.isTrusted)">Push</button><button id=h onmouseenter="note('h','over')">Over</button>
<input type=file id=f aria-label=File onchange="this.files[0].text().then(x=>note('f',x))">
<div id=src draggable=true style="width:80px;height:30px;background:#cce" ondragstart="event.dataTransfer.setData('text/plain','cargo')">Cargo</div>
<div id=dst style="width:80px;height:30px;background:#eec" ondragover="event.preventDefault()" ondrop="event.preventDefault();note('dst',event.dataTransfer.getData('text/plain'))">Quay</div><p id=log></p>`

const toolNote = `function note(k,v){(window.doc||document).getElementById('log').textContent+=' '+k+'='+v+';'}`

// Every tool works in a frame of another site, in one of another origin in the same
// process, and in shadow roots, by ref and by selector.
func TestActionsReach(t *testing.T) {
	actionsReach(t, "site by ref", "origin by selector", "open by selector", "closed by ref")
}

func TestActionsReachAtLength(t *testing.T) {
	actionsReach(t, "site by selector", "origin by ref", "same by selector", "same by ref", "open by ref", "closed by selector")
}

func actionsReach(t *testing.T, only ...string) {
	t.Parallel()
	var s, near *site
	near = newSite(t, map[string]string{"/in": html(toolPage + "<script>" + toolNote + "</script>")})
	pages := map[string]string{"/in": html(toolPage + "<script>" + toolNote + "</script>")}
	s = newSite(t, pages)
	frame := func(src string) string {
		return html(`<p>Outside</p><iframe src="` + src + `" style="width:700px;height:400px;margin:9px;border:5px solid"></iframe>`)
	}
	pages["/site"], pages["/origin"], pages["/same"] = frame(elsewhere(s)+"/in"), frame(near.URL+"/in"), frame(s.URL+"/in")
	shadow := func(mode string) string {
		return html(`<div id=host></div><script>window.doc=host.attachShadow({mode:'` + mode + `'});doc.innerHTML=` + "`" + toolPage + "`" + `;` + toolNote + `</script>`)
	}
	pages["/open"], pages["/closed"] = shadow("open"), shadow("closed")
	o, log := options(t, s.URL, elsewhere(s), near.URL)
	root := t.TempDir()
	o.UploadRoots = []string{root}
	if err := os.WriteFile(filepath.Join(root, "f.txt"), []byte("handed over"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	for _, where := range []string{"site", "origin", "same", "open", "closed"} {
		for _, by := range []string{"selector", "ref"} {
			if !among(only, where+" by "+by) {
				continue
			}
			t.Run(where+" by "+by, func(t *testing.T) {
				n := &node{t: t, h: h, lane: "lane-1", log: log}
				n.goTo(s.URL + "/" + where)
				names := map[string]string{"t": "Text", "k": "Keys", "c": "Box", "s": "List", "ce": "Rich", "b": "Push", "h": "Over", "f": "File"}
				at := func(id string, more obj) obj {
					if name := names[id]; by == "ref" && name != "" {
						more["ref"] = n.ref(`"` + name + `"`)
					} else {
						more["selector"] = "#" + id
					}
					return more
				}
				n.must("click", at("b", obj{}))
				n.must("hover", at("h", obj{}))
				n.must("type", at("t", obj{"text": "some longer text", "clear": true}))
				n.must("type", at("k", obj{"text": "keyed in"}))
				n.must("press-key", at("t", obj{"key": "Home"}))
				n.must("press-key", obj{"key": "!"})
				n.must("select-option", at("s", obj{"values": []string{"Two"}}))
				n.must("fill-form", obj{"fields": []obj{at("ce", obj{"value": "rich text"}), at("c", obj{"value": "true"})}})
				n.must("upload-file", at("f", obj{"paths": []string{"f.txt"}}))
				n.must("drag", obj{"source_selector": "#src", "target_selector": "#dst"})
				n.matched(true, obj{"text": "f=handed over;"}) // the page reads the file when it comes to it
				got := n.snap()
				for _, want := range []string{"b=true;", "h=over;", "t=some longer text;", "k=keyed in;", "t=!some longer text;", "s=Two;", "ce=rich text;", "c=true true;", "f=handed over;", "dst=cargo;"} {
					if !strings.Contains(got, want) {
						t.Errorf("no %q in\n%s", want, got)
					}
				}
			})
		}
	}
}

// An element that is named in two ways is none: one of them would be ignored.
func TestElementNamedTwice(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(toolPage + "<script>" + toolNote + "</script>")})
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.txt"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	n := nodeWith(t, func(o *Options) { o.UploadRoots = []string{root} }, s.URL)
	n.goTo(s.URL + "/")
	ref := n.ref(`"Text"`)
	for tool, args := range map[string]obj{
		"click": {}, "hover": {}, "screenshot": {}, "snapshot": {}, "press-key": {"key": "x"}, "type": {"text": "x"}, "fill-form": {"value": "x"},
		"select-option": {"values": []string{"Two"}}, "upload-file": {"paths": []string{"a.txt"}},
		"drag": {"source_ref": ref, "source_selector": "#src", "target_selector": "#dst"},
	} {
		if tool != "drag" {
			args["ref"], args["selector"] = ref, "#b"
		}
		if e := n.refused(capabilities.CodeInvalidArguments, tool, args); !strings.Contains(e.PublicMessage()+e.PublicHint(), "one of") {
			t.Error(tool, e, e.PublicHint())
		}
	}
	n.refused(capabilities.CodeInvalidArguments, "drag", obj{"source_selector": "#src", "target_ref": ref, "target_selector": "#dst"})
	if e := n.refused(capabilities.CodeInvalidArguments, "click", obj{"ref": ref, "x": 5, "y": 5}); !strings.Contains(e.PublicHint(), "Leave out") {
		t.Error(e.PublicHint())
	}
	if got := n.eval("log.textContent"); got != "" {
		t.Error("something was done:", got)
	}
}
