package command

import (
	"errors"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// Each key has its words, which are commands, with arguments and without.
func TestEachActionIsWorded(t *testing.T) {
	for _, key := range capabilities.ActionKeys() {
		whole := capabilities.Action{Key: key, Node: "n1", Tool: "tool.x.y", Capability: "tyrum.x.y", Lane: "main", Name: "mine"}
		for _, a := range []capabilities.Action{{Key: key}, whole} {
			words := Words(a)
			if !strings.Contains(words, "'handrail ") || !strings.HasSuffix(words, ".") || strings.Contains(words, "  ") {
				t.Errorf("%s: %q", key, words)
			}
		}
	}
	if len(sayings) != len(capabilities.ActionKeys()) {
		t.Errorf("%d sayings for %d keys", len(sayings), len(capabilities.ActionKeys()))
	}
	if words := Words(capabilities.Action{Key: "another"}); words != "" {
		t.Errorf("an unknown key: %q", words)
	}
}

// Commands have the flags that were given and their arguments; one for another machine has no
// flags, and an argument stays one word.
func TestWords(t *testing.T) {
	for _, c := range []struct {
		action capabilities.Action
		hint   string
		want   string
	}{
		{capabilities.Action{Key: capabilities.ActionListNodes}, "Name one", "Name one. 'handrail nodes --data /d' lists the nodes."},
		{capabilities.Action{Key: capabilities.ActionExamineNode}, "", "'handrail doctor' on the node says what is missing."},
		{capabilities.Action{Key: capabilities.ActionApproveNode, Node: "n-1"}, "An admin can approve it.", "An admin can approve it. 'handrail node approve n-1 --data /d' approves it."},
		{capabilities.Action{Key: capabilities.ActionShowProvider, Name: "x; reboot"}, "", "'handrail provider show 'x; reboot' --data /d' shows what it says."},
		{capabilities.Action{}, "Do this.", "Do this."},
	} {
		if got := Hint(c.hint, c.action, "--data", "/d"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// An error of the command line has its commands in its hint, and those with flags where they are
// asked for.
func TestAdvised(t *testing.T) {
	err := error(Advise(capabilities.Errorf(capabilities.CodeConflict, "it is so"), Here("status"), " says more."))
	if got := OfError(err, "--data", "/d"); got != "'handrail status --data /d' says more." {
		t.Error(got)
	}
	if e := capabilities.AsError(err); e.Code != capabilities.CodeConflict || e.PublicHint() != "'handrail status' says more." || !errors.Is(err, &capabilities.Error{Code: capabilities.CodeConflict}) {
		t.Errorf("%+v", e)
	}
}
