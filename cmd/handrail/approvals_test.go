package main

import (
	"strings"
	"testing"

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
