package remote

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// ResumeFix says what lets calls run after a stop.
const ResumeFix = "Run 'handrail resume' to let calls run again."

// StoppedNow tells that the gateway's stop switch is on, since when and by whom; "" if
// it is not, or if who asks may not know.
func StoppedNow(cmd *cobra.Command, c *Gateway) string {
	var s api.Stop
	if c.Get(cmd.Context(), Path("stop"), &s) != nil || !s.Stopped {
		return ""
	}
	text := fmt.Sprintf("Everything is stopped, by %s %s", terminal.Plain(string(s.By)), terminal.Ago(time.Now(), s.Since))
	if s.Reason != "" {
		text += ": " + terminal.Plain(s.Reason)
	}
	return text + "."
}

// NoteStop says so below an answer that holds only while it is not on.
func NoteStop(cmd *cobra.Command, c *Gateway) {
	if text := StoppedNow(cmd, c); text != "" {
		fmt.Fprintf(cmd.OutOrStdout(), "\n%s %s\n", text, ResumeFix)
	}
}
