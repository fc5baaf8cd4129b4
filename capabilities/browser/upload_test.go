//go:build linux

package browser

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// Files are dropped where the page takes drops; elsewhere nothing is.
func TestFilesAreDropped(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<div id=zone style="margin-top:2000px">Drop here</div><p id=para>Words</p><button id=pick>Pick</button><input id=folder type=file webkitdirectory><iframe srcdoc="<div id=inner>Inner zone</div><script>inner.ondragover=e=>e.preventDefault();inner.ondrop=e=>{e.preventDefault();parent.said=e.dataTransfer.files[0].name}</script>"></iframe>
<script>var said = '', hits = 0;
zone.ondragover = e => e.preventDefault(); para.onclick = () => { para.textContent = ++hits };
zone.ondrop = async e => { e.preventDefault(); const all = []; for (const f of [...e.dataTransfer.files]) all.push(f.name + '=' + await f.text()); said = all.join() };
pick.onclick = () => showOpenFilePicker().catch(() => {})</script>`)})
	root := t.TempDir()
	for name, text := range map[string]string{"a.txt": "first", "b.txt": "second"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n := nodeWith(t, func(o *Options) { o.UploadRoots = []string{root} }, s.URL)
	n.goTo(s.URL)
	n.checks([]check{
		{"two files", "upload-file", obj{"ref": n.ref("[dropzone]", "Drop here"), "paths": []string{"a.txt", "b.txt"}}, "confirmed", "took the drop", "new Promise(f=>{const g=()=>said?f(said):setTimeout(g,5);g()})", "a.txt=first,b.txt=second"},
		{"in a frame", "upload-file", obj{"ref": n.ref("[dropzone]", "Inner zone"), "paths": []string{"b.txt"}}, "confirmed", "took the drop", "said", "b.txt"},
		{"a picker that nothing answers", "click", obj{"selector": "#pick"}, "partial", "nothing can answer", "1", 1.0},
	})
	n.ref("- file [hint=folder] [folder]")
	n.refused(capabilities.CodeNotSupported, "upload-file", obj{"selector": "#folder", "paths": []string{"a.txt"}})
	if err := n.refused(capabilities.CodeExecutionFailed, "upload-file", obj{"selector": "#para", "paths": []string{"a.txt"}}); !strings.Contains(err.Message, "takes no files") {
		t.Error(err.Message)
	}
	n.checks([]check{
		{"the page goes on", "click", obj{"selector": "#para"}, "confirmed", "", "location.pathname + hits", "/1"},
		{"and takes others", "upload-file", obj{"selector": "#zone", "paths": []string{"b.txt"}}, "confirmed", "", "new Promise(f=>{const g=()=>said=='b.txt=second'?f(said):setTimeout(g,5);g()})", "b.txt=second"},
	})
}

// Text, HTML and an address are dropped where the page takes them; elsewhere nothing is.
func TestDataIsDropped(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<div id=zone style="margin-top:2000px">Drop here</div><p id=para>Words</p><textarea id=field aria-label=Field></textarea><iframe srcdoc="<div id=inner>Inner zone</div><script>inner.ondragover=e=>e.preventDefault();inner.ondrop=e=>{e.preventDefault();parent.said=e.dataTransfer.getData('text/plain')}</script>"></iframe>
<script>var said = '', hits = 0; para.onclick = () => { para.textContent = ++hits };
zone.ondragover = e => e.preventDefault();
zone.ondrop = e => { e.preventDefault(); const d = e.dataTransfer; said = ['text/plain', 'text/html', 'text/uri-list'].map(k => d.getData(k)).join('|') + '|' + d.files.length };</script>`)})
	n := newNode(t, s.URL)
	n.goTo(s.URL)
	n.checks([]check{
		{"all three", "drag", obj{"target_ref": n.ref("[dropzone]", "Drop here"), "data": obj{"text": "Words\nof mine", "html": "<b>bold</b>", "uri": "https://example.com/x"}}, "confirmed", "took the drop", "said", "Words\nof mine|<b>bold</b>|https://example.com/x|0"},
		{"in a frame", "drag", obj{"target_ref": n.ref("[dropzone]", "Inner zone"), "data": obj{"text": "inward"}}, "confirmed", "took the drop", "said", "inward"},
		{"into a field", "drag", obj{"target_selector": "#field", "data": obj{"text": "into it"}}, "confirmed", "", "field.value", "into it"},
	})
	// The address of a file brings no file, and is not changed on the way without a word.
	before := n.eval("said")
	for _, uri := range []string{"file:///etc/hostname", "FILE:///etc/hostname", "chrome://version", "javascript:alert(1)"} {
		n.refused(capabilities.CodeInvalidArguments, "drag", obj{"target_selector": "#zone", "data": obj{"uri": uri}})
	}
	if after := n.eval("said"); after != before {
		t.Errorf("the page got %v", after)
	}
	n.checks([]check{
		{"as words", "drag", obj{"target_selector": "#zone", "data": obj{"text": "file:///etc/hostname"}}, "confirmed", "", "said", "file:///etc/hostname|||0"},
		{"a letter's address", "drag", obj{"target_selector": "#zone", "data": obj{"uri": "mailto:a@example.com"}}, "confirmed", "", "said", "||mailto:a@example.com|0"},
	})
	if err := n.refused(capabilities.CodeExecutionFailed, "drag", obj{"target_selector": "#para", "data": obj{"uri": s.URL + "/elsewhere"}}); !strings.Contains(err.Message, "takes no") {
		t.Error(err.Message)
	}
	for _, bad := range []obj{
		{"target_selector": "#zone", "data": obj{}}, {"target_selector": "#zone", "source_selector": "#para", "data": obj{"text": "x"}}, {"data": obj{"text": "x"}},
		{"path": []obj{{"x": 1, "y": 1}, {"x": 9, "y": 9}}, "target_selector": "#zone", "data": obj{"text": "x"}},
	} {
		n.refused(capabilities.CodeInvalidArguments, "drag", bad)
	}
	n.checks([]check{{"the page goes on", "click", obj{"selector": "#para"}, "confirmed", "", "location.pathname + hits", "/1"}})
}

// Where things are dragged by the pointer's events, what they can be dropped on has a ref.
func TestGoalsOfDragsHaveRefs(t *testing.T) {
	t.Parallel()
	board := `<style>.col{width:160px;min-height:120px;border:1px solid}.card{cursor:grab;height:30px}</style><div style="display:flex;gap:20px">
<div><h3>To do</h3><div class="col todo"><div class=card id=a>Card A</div><div class=card>Card B</div></div></div><div><h3>Done</h3><div class="col done" id=done></div></div></div>
<div style="width:100px;height:60px;background:#eee">Bin zone</div><p>Only words</p><div style="border:1px solid"><button>Other</button></div>
<script>for (const c of document.querySelectorAll('.card')) {
	let from; c.onpointerdown = e => { from = [e.clientX, e.clientY]; c.setPointerCapture(e.pointerId); };
	c.onpointermove = e => { if (from) c.style.transform = ` + "`translate(${e.clientX - from[0]}px, ${e.clientY - from[1]}px)`" + `; };
	c.onpointerup = e => { if (!from) return; from = null; c.style.transform = ''; c.style.pointerEvents = 'none'; const to = document.elementFromPoint(e.clientX, e.clientY).closest('.col'); c.style.pointerEvents = ''; if (to) to.append(c); };
}</script>`
	s, n := newPage(t, map[string]string{
		"/": html(board), "/frame": html(`<iframe src="/" width=800 height=500></iframe>`),
		"/marked": html(`<div class=ui-draggable style="width:80px;height:30px">Drag me</div><div class=ui-droppable style="width:100px;height:60px">Bin</div>`),
		"/calm":   html(`<div style="width:100px;height:60px;border:1px solid">Just a box</div><button>Press</button>`),
	})
	for _, at := range []string{"/", "/frame"} {
		n.goTo(s.URL + at)
		snap := n.snap()
		done := n.refs("[dropzone]")
		if len(done) != 2 || len(n.refs("Bin zone")) != 1 || len(n.refs("Only words")) != 0 || strings.Count(snap, "- group") != 3 {
			t.Fatalf("%s: goals %v in\n%s", at, done, snap)
		}
		n.must("drag", obj{"source_ref": n.ref("Card A"), "target_ref": done[1]})
		if got := n.snap(); !strings.Contains(got[strings.Index(got, "Done"):], "Card A") {
			t.Errorf("%s: the card is not in the other column:\n%s", at, got)
		}
	}
	n.goTo(s.URL + "/marked")
	n.ref("[dropzone]", "Bin")
	n.goTo(s.URL + "/calm")
	if snap := n.snap(); strings.Contains(snap, "group") {
		t.Errorf("nothing is dragged there:\n%s", snap)
	}
}
