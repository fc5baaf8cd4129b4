package gate

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/handrail-dev/handrail/agent/worker/intent"
	"github.com/handrail-dev/handrail/capabilities"
)

// TestConflict: a call that was chosen before its answer's earlier call was seen is told so, and
// no other (S2-47).
func TestConflict(t *testing.T) {
	for _, c := range []struct {
		earlier, before, later, args string
		conflicts                    bool
	}{
		{"tool.browser.navigate", `{"url":"https://a.example/"}`, "tool.browser.click", `{"ref":"e1"}`, true},
		{"tool.browser.navigate", `{"url":"https://a.example/"}`, "tool.browser.fill-form", `{"fields":[{"ref":"e1","value":"x"}]}`, true},
		{"tool.browser.navigate", `{"url":"https://a.example/"}`, "tool.browser.click", `{"selector":"#go"}`, false},
		{"tool.browser.click", `{"ref":"e1"}`, "tool.browser.navigate", `{"url":"https://a.example/"}`, false},
		{"tool.browser.fill-form", `{"fields":[]}`, "tool.browser.click", `{"ref":"e1"}`, false},
		{"tool.browser.tabs", `{"action":"select"}`, "tool.browser.type", `{"ref":"e1","text":"x"}`, true},
		{"tool.desktop.act", `{"action":{"kind":"launch","app":"x"}}`, "tool.desktop.mouse", `{"x":1,"y":1}`, true},
		{"tool.desktop.act", `{"action":{"kind":"launch","app":"x"}}`, "tool.desktop.keyboard", `{"text":"x"}`, false},
		{"tool.fs.write", `{"path":"a"}`, "tool.fs.write", `{"path":"./a"}`, true},
		{"tool.fs.read", `{"path":"a"}`, "tool.fs.write", `{"path":"a"}`, true},
		{"tool.fs.read", `{"path":"a"}`, "tool.fs.write", `{"path":"b"}`, false},
		{"tool.fs.write", `{"path":"a"}`, "tool.fs.read", `{"path":"a"}`, false},
		{"tool.fs.edit", `{"path":"a"}`, "tool.fs.edit", `{"path":"a"}`, false},
	} {
		value := func(text string) (v any) {
			if err := json.Unmarshal([]byte(text), &v); err != nil {
				t.Fatal(err)
			}
			return v
		}
		why := Conflict(capabilities.ToolID(c.earlier), capabilities.ToolID(c.later), value(c.before), value(c.args))
		if (why != "") != c.conflicts {
			t.Errorf("%s, then %s %s: %q", c.earlier, c.later, c.args, why)
		}
	}
	for _, row := range conflicts {
		for _, id := range slices.Concat(row.earlier, row.later) {
			if _, ok := Of(id); !ok {
				t.Errorf("%s is no tool of the gate", id)
			}
		}
	}
}

// TestGroupsCombineWhereItIsSaid: the tools of an intent are of one capability, unless the pair is
// here: a group is added to an intent on purpose only (S2-49).
func TestGroupsCombineWhereItIsSaid(t *testing.T) {
	together := map[intent.Name][]Capability{intent.DesktopTask: {ScreenRead, ScreenControl}}
	for _, i := range intent.All() {
		got := Decide(intent.Route{Intent: i.Name}).Required
		if want := together[i.Name]; len(got) > 1 && !slices.Equal(got, want) {
			t.Errorf("%s combines %v", i.Name, got)
		}
	}
}
