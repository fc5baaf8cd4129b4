package terminal

import (
	"bytes"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// Each action has its command here, with the data directory that was given; a hint without an
// action stays as it is.
func TestHintsNameCommands(t *testing.T) {
	for _, key := range capabilities.ActionKeys() {
		var out bytes.Buffer
		Report(&out, capabilities.Errorf(capabilities.CodeConflict, "it is so").WithAction(capabilities.Action{Key: key}, "Do this."), false, nil)
		if !strings.Contains(out.String(), "  -> Do this. ") || !strings.Contains(out.String(), "'handrail ") {
			t.Errorf("%s: %s", key, out.String())
		}
	}
	on := []string{"--data", "/d"}
	for _, c := range []struct {
		err  error
		on   []string
		want string
	}{
		{&capabilities.Error{Code: capabilities.CodeNodeNotFound}, nil, "  -> Name one of the nodes that there are. 'handrail nodes' lists the nodes.\n"},
		{&capabilities.Error{Code: capabilities.CodeNodeNotFound}, on, "  -> Name one of the nodes that there are. 'handrail nodes --data /d' lists the nodes.\n"},
		{&capabilities.Error{Code: capabilities.CodeBrowserUnavailable}, on, "  -> Install one on the node. 'handrail doctor' on the node says what is missing.\n"},
		{capabilities.Errorf(capabilities.CodeNodeNotFound, "none").WithHint("Do this."), on, "  -> Do this.\n"},
	} {
		var out bytes.Buffer
		Report(&out, c.err, false, c.on)
		if !strings.HasSuffix(out.String(), c.want) {
			t.Errorf("%v: %q, want %q", c.err, out.String(), c.want)
		}
	}
}
