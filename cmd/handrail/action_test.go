package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// A hint for agents names no tool to a person: each action has its command here, and a hint
// without an action stays as it is.
func TestHintsNameCommands(t *testing.T) {
	for _, a := range capabilities.Actions() {
		var out bytes.Buffer
		report(&out, capabilities.Errorf(capabilities.CodeConflict, "it is so").WithAction(a, "Call tool.x.y."), false, "")
		if !strings.Contains(out.String(), "'handrail ") || strings.Contains(out.String(), "tool.x.y") {
			t.Errorf("%s: %s", a, out.String())
		}
	}
	for err, want := range map[*capabilities.Error]string{
		{Code: capabilities.CodeNodeNotFound}:                                           "  -> Run 'handrail nodes' to see the nodes.\n",
		{Code: capabilities.CodeUnknownTool}:                                            "  -> Run 'handrail tools' and use one of those names.\n",
		capabilities.Errorf(capabilities.CodeNodeNotFound, "none").WithHint("Do this."): "  -> Do this.\n",
		{Code: capabilities.CodeSensorMissing, Action: capabilities.ActionListLanes}:    "  -> Run 'handrail nodes': it names the devices of each node.\n",
	} {
		var out bytes.Buffer
		report(&out, err, false, "")
		if !strings.HasSuffix(out.String(), want) {
			t.Errorf("%v: %q, want %q", err, out.String(), want)
		}
	}
}
