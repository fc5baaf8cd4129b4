package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// S4-45: the named events are in the log without --verbose, and other news is not.
func TestGatewayLogHasTheNamedEvents(t *testing.T) {
	for verbose, want := range map[bool][]string{
		false: {"tools.dispatch.started", "tools.select.completed", "satellite.connected", "node.lost"},
		true:  {"tools.dispatch.started", "node.approved", "tools.select.completed", "satellite.connected", "node.lost"},
	} {
		var out bytes.Buffer
		root := newRootCmd()
		cmd := &cobra.Command{Use: "probe"}
		root.AddCommand(cmd)
		root.SetErr(&out)
		log := newEventLog(cmd, verbose)
		log.Info("tools.dispatch.started", "call", "c1")
		log.Info("node.approved")
		log.With("lane", "l1").Info("tools.select.completed")
		log.Info("satellite.connected")
		log.Warn("node.lost")
		var got []string
		for line := range strings.Lines(out.String()) {
			_, rest, _ := strings.Cut(line, "msg=")
			got = append(got, strings.Fields(rest)[0])
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("verbose %v: %q, want %q", verbose, got, want)
		}
	}
}
