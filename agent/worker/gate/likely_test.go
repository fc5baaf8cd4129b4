package gate_test

import (
	"slices"
	"testing"

	"github.com/handrail-dev/handrail/agent/worker/gate"
	"github.com/handrail-dev/handrail/agent/worker/intent"
	"github.com/handrail-dev/handrail/capabilities"
)

// A person is asked ahead about what a message is likely to need, and about no tool that its intent
// does not allow (S2-29, S2-34). Names of files and quotations are data, and speak for nothing; a
// word that begins like one of those that ask for a change asks for none.
func TestLikely(t *testing.T) {
	for _, c := range []struct {
		intent  intent.Name
		message string
		has     []capabilities.ToolID
		lacks   []capabilities.ToolID
	}{
		{intent.FileTask, "what does a.txt say", []capabilities.ToolID{"tool.fs.read"}, []capabilities.ToolID{"tool.fs.write", "tool.fs.edit", "tool.fs.apply-patch"}},
		{intent.FileTask, `find "write new" in write.txt`, []capabilities.ToolID{"tool.fs.grep"}, []capabilities.ToolID{"tool.fs.write", "tool.fs.edit"}},
		{intent.FileTask, "write hello into b.txt", []capabilities.ToolID{"tool.fs.write"}, []capabilities.ToolID{"tool.fs.edit"}},
		{
			intent.FileTask, "what do my notes say about rent?",
			[]capabilities.ToolID{"tool.fs.grep"}, []capabilities.ToolID{"tool.fs.write", "tool.fs.edit"},
		},
		{intent.FileTask, "list the new files", []capabilities.ToolID{"tool.fs.list"}, []capabilities.ToolID{"tool.fs.write", "tool.fs.edit"}},
		{intent.FileTask, "which files make up the project?", nil, []capabilities.ToolID{"tool.fs.write", "tool.fs.edit"}},
		{intent.FileTask, "find the legal texts with my address", nil, []capabilities.ToolID{"tool.fs.write", "tool.fs.edit"}},
		{intent.FileTask, "liste die neuen Legenden", nil, []capabilities.ToolID{"tool.fs.write", "tool.fs.edit"}},
		{intent.FileTask, "make a list of them in b.txt", []capabilities.ToolID{"tool.fs.write"}, nil},
		{intent.FileTask, "Lege eine Datei b.txt an.", []capabilities.ToolID{"tool.fs.write"}, []capabilities.ToolID{"tool.fs.edit"}},
		{intent.FileTask, "Crée un fichier b.txt.", []capabilities.ToolID{"tool.fs.write"}, nil},
		{intent.ScreenObserve, "Haz una captura de pantalla.", []capabilities.ToolID{"tool.desktop.screenshot"}, nil},
		{intent.FileTask, "ersetze in b.txt die Miete", []capabilities.ToolID{"tool.fs.edit"}, []capabilities.ToolID{"tool.fs.write"}},
		{intent.FileTask, "enregistre la liste dans b.txt", []capabilities.ToolID{"tool.fs.write"}, []capabilities.ToolID{"tool.fs.apply-patch"}},
		{intent.FileTask, "guarda la lista en b.txt", []capabilities.ToolID{"tool.fs.write"}, nil},
		{intent.BrowserTask, "order two tickets", []capabilities.ToolID{"tool.browser.click", "tool.browser.fill-form"}, []capabilities.ToolID{"tool.browser.tabs", "tool.browser.screenshot"}},
		{intent.DesktopTask, "drück die Taste", []capabilities.ToolID{"tool.desktop.act", "tool.desktop.keyboard"}, []capabilities.ToolID{"tool.desktop.mouse"}},
		{intent.SystemTask, "run it", []capabilities.ToolID{"tool.fs.bash"}, nil},
	} {
		allowed := gate.Decide(intent.To(c.intent, 1)).Allowed
		got := gate.Likely(c.message, allowed)
		for _, id := range got {
			if !slices.Contains(allowed, id) {
				t.Errorf("%s: %s is not allowed", c.message, id)
			}
		}
		for _, id := range c.has {
			if !slices.Contains(got, id) {
				t.Errorf("%s: %s is left out of %q", c.message, id, got)
			}
		}
		for _, id := range c.lacks {
			if slices.Contains(got, id) {
				t.Errorf("%s: %s is asked about", c.message, id)
			}
		}
	}
}
