package consent

import (
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/gateway/api"
)

// A question says what carries the call out, made safe for this terminal once more.
func TestApprovalsSayWhatACallGoesThrough(t *testing.T) {
	var out strings.Builder
	a := approvalView{api.Approval{ID: "a-1", State: "pending", Tool: "tool.words.count", Longest: "call", Through: []string{"provider words (command w\x1bc)", "no network"}}}
	a.print(&out, false, false)
	if text := out.String(); !strings.Contains(text, "\n    through: provider words (command w") || !strings.Contains(text, "c); no network\n") || strings.ContainsRune(text, 0x1b) {
		t.Errorf("%q", text)
	}
}

// A question that this token cannot answer, since its holder asked it, names no command to approve.
func TestOwnQuestionsNameNoApprove(t *testing.T) {
	asked := func(id string, own *api.Own) approvalView {
		return approvalView{api.Approval{ID: id, Principal: "ann", Lane: "ann", Tool: "tool.browser.click", Longest: "always", Created: time.Now(), Expires: time.Now(), Own: own}}
	}
	mine := &api.Own{Owner: true, Why: "you asked for this call yourself", Hint: "Do it in the console."}
	for name, c := range map[string]struct {
		own      *api.Own
		approves bool
	}{"another's": {nil, true}, "one's own, which counts": {&api.Own{Owner: true, May: true}, true}, "one's own": {mine, false}} {
		var out strings.Builder
		a, b := asked("a-1", c.own), asked("a-2", c.own)
		a.print(&out, false, false)
		printTask(&out, []approvalView{a, b})
		text := out.String()
		if strings.Contains(text, "handrail approve") != c.approves || strings.Contains(text, "You asked for this call yourself. Do it in the console.") == c.approves || strings.Count(text, "handrail deny a-1") != 2 {
			t.Errorf("%s: %s", name, text)
		}
	}
}
