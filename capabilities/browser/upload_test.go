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
