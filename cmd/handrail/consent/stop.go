package consent

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// NewStopCmd returns the command that stops nodes.
func NewStopCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stop",
		Short: "Stop everything: running calls end, grants are revoked, nothing begins",
		Long: "Turns the gateway's stop switch on: running calls end, here and on every device, browsers and input pause, all\n" +
			"grants are revoked, and new calls are refused until 'handrail resume'. It outlives restarts, and a device that is away\n" +
			"obeys when it comes back. To stop one device alone, run 'handrail node stop' on it: that needs no gateway.",
		Args: cobra.NoArgs,
	}
	reason := cmd.Flags().String("reason", "", "why; it is recorded")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		h, raw, err := turnSwitch(cmd, "stop", *reason)
		if err != nil {
			return err
		}
		return remote.Confirmed(cmd, raw, "Stopped %s: %s ended, %s revoked. Run 'handrail resume' to let calls run again.",
			heeded(h.Nodes), terminal.Count(h.Calls, "call"), terminal.Count(h.Grants, "grant"))
	}
	return cmd
}

// NewResumeCmd returns the command that lets them go on.
func NewResumeCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume",
		Short: "Let calls run again after 'handrail stop'",
		Long: "Turns the gateway's stop switch off. Grants from before the stop stay revoked, and a device that was stopped at\n" +
			"the device itself stays stopped until 'handrail node resume' is run there.",
		Args: cobra.NoArgs,
	}
	reason := cmd.Flags().String("reason", "", "why; it is recorded")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		h, raw, err := turnSwitch(cmd, "resume", *reason)
		if err != nil {
			return err
		}
		return remote.Confirmed(cmd, raw, "Resumed %s. Grants from before the stop stay revoked.", heeded(h.Nodes))
	}
	return cmd
}

func turnSwitch(cmd *cobra.Command, action, reason string) (h api.Halted, raw json.RawMessage, err error) {
	c, err := remote.Find(cmd)
	if err != nil {
		return h, nil, err
	}
	for began := time.Now(); ; {
		err = c.Ask(cmd.Context(), http.MethodPost, remote.Path(action), api.Reason{Reason: reason}, &raw)
		left := handsOver(err)
		if left <= 0 || time.Since(began) > 2*graceAfterStop {
			break
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "An agent had its hands on this device when everything was stopped; waiting %s until that is over.\n",
			terminal.Count(int(left.Seconds()), "second"))
		if err := capabilities.Sleep(cmd.Context(), left); err != nil {
			return h, nil, err
		}
	}
	if err != nil {
		return h, nil, err
	}
	return h, raw, json.Unmarshal(raw, &h)
}

// graceAfterStop is how long the gateway takes nothing from a device that an agent had in
// its hands when everything was stopped.
const graceAfterStop = 15 * time.Second

// handsOver returns how long is left until hands that have been revoked are over; 0: err is
// of another kind, or the hands are still lent.
func handsOver(err error) time.Duration {
	if capabilities.CodeOf(err) != capabilities.CodeHandsElsewhere {
		return 0
	}
	hands := capabilities.DetailsOf[capabilities.Presence](err)
	switch left := time.Duration(hands.Seconds) * time.Second; {
	case hands.Until.IsZero():
		return time.Second // a call is about to end
	case left <= graceAfterStop:
		return max(left, time.Second)
	}
	return 0
}

// heeded says how many devices did so, and which have not yet.
func heeded(n api.Heeded) string {
	parts := []string{terminal.Count(n.Confirmed, "device")}
	if silent := n.Connected - n.Confirmed; silent > 0 {
		parts = append(parts, fmt.Sprintf("%d connected, which did not answer yet", silent))
	}
	if n.Away > 0 {
		parts = append(parts, fmt.Sprintf("%d away, as soon as they come back", n.Away))
	}
	return strings.Join(parts, " and ")
}
