//go:build linux

package browser

import (
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// drawnEditors are two editors that draw what they hold: one catches its keys in a field
// that nobody sees, as most editors of code do, one in an edit context. Both close
// brackets where they see them typed.
const drawnEditors = `<style>.ed{position:relative;width:300px;height:80px;overflow:hidden;white-space:pre}.ed textarea,.ed .ec{position:absolute;left:40px;top:30px;width:1px;height:1px;padding:0;border:0;z-index:-1}.ed pre{margin:0;height:80px}</style>
<div class=ed id=e1><textarea aria-label="Code"></textarea><pre aria-hidden=true></pre></div>
<div class=ed id=e2><div class=ec role=textbox tabindex=0 aria-label="Context"></div><pre aria-hidden=true></pre></div>
<div id=rich contenteditable>old</div>
<script>
// It makes two brackets of one that is typed, and takes what is pasted as it is.
rich.addEventListener('keydown', e => { if (e.key === '(') { e.preventDefault(); document.execCommand('insertText', false, '()'); } });
rich.addEventListener('paste', e => { e.preventDefault(); document.execCommand('insertText', false, e.clipboardData.getData('text')); });
function edit(ed) {
  const field = ed.firstElementChild, draw = () => requestAnimationFrame(() => { ed.lastElementChild.textContent = ed.text });
  let all = false;
  ed.text = 'old text';
  const put = t => { ed.text = all ? t : ed.text + t; all = false; draw(); };
  field.addEventListener('keydown', e => {
    if (e.ctrlKey && e.key === 'a') { all = true; e.preventDefault(); }
    else if (e.key === 'Backspace') { put(''); e.preventDefault(); }
    else if (e.key === 'Enter') { put('\n  '); e.preventDefault(); }
    else if (e.key === '(') { put('()'); e.preventDefault(); }
  });
  if (field.value === undefined) { const c = field.editContext = new EditContext(); c.addEventListener('textupdate', e => put(e.text)); }
  else field.addEventListener('input', () => { put(field.value); field.value = ''; });
  ed.onmousedown = e => { e.preventDefault(); field.focus(); };
  draw();
}
edit(e1); edit(e2);
</script>`

func TestEditorsThatDraw(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(drawnEditors + `<div id=cover hidden style="position:fixed;inset:0">Wait</div>`)})
	n.goTo(s.URL + "/")
	wants(t, n.must("snapshot", nil).m["snapshot"].(string), `- textbox "Code" [multiline] [ref=`, `]: "old text"`)
	const code = "f(1)\n\nend 🙂"
	for id, name := range map[string]string{"e1": `textbox "Code"`, "e2": `textbox "Context"`} {
		ref, text := n.ref(name), id+".text"
		n.checks([]check{
			{"clicked", "click", obj{"ref": ref}, "confirmed", "", "document.activeElement.parentElement.id", id},
			{"added", "type", obj{"ref": ref, "text": " and"}, "confirmed", "shows the text", text, "old text and"},
			{"replaced", "type", obj{"ref": ref, "text": "fresh", "clear": true}, "confirmed", "shows the text", text, "fresh"},
			{"emptied", "type", obj{"ref": ref, "text": "", "clear": true}, "confirmed", "", text, ""},
			{"keys are keys", "type", obj{"ref": ref, "text": "f(1"}, "unverifiable", "does not hold all", text, "f()1"},
			{"filled, as it is given", "fill-form", obj{"ref": ref, "value": code}, "confirmed", "shows the text", text, code},
			{"among other fields", "fill-form", obj{"fields": []obj{{"ref": ref, "value": "last"}}}, "confirmed", "", text, "last"},
		})
	}
	n.checks([]check{
		{"typed", "type", obj{"selector": "#rich", "text": "g(1)", "clear": true}, "partial", "", "rich.innerText", "g()1)"},
		{"as it is given", "fill-form", obj{"selector": "#rich", "value": "f(1)"}, "confirmed", "", "rich.innerText", "f(1)"},
	})
	snap := n.must("snapshot", obj{"selector": "#e1 textarea"}).m["snapshot"].(string)
	wants(t, snap, `"last"`)
	if a := n.must("screenshot", obj{"ref": n.ref(`textbox "Code"`)}); a.m["width"] != 300.0 {
		t.Error("the picture of an editor:", a.json)
	}
	wants(t, n.must("screenshot", obj{"annotate": true}).json, `"name":"Code"`, `"name":"Context"`)
	n.must("hover", obj{"ref": n.ref(`textbox "Context"`), "wheel_y": 10})
	n.eval("cover.hidden = false; 1")
	if err := n.refused(capabilities.CodeElementObscured, "type", obj{"selector": "#e1 textarea", "text": "x"}); !strings.Contains(err.Message, "cover") {
		t.Error(err.Message)
	}
}
