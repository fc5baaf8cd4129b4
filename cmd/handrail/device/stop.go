package device

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/agent"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
)

// addStopCmds adds the device's own stop switch, which needs no gateway.
func addStopCmds(parent *cobra.Command) {
	for _, c := range []struct {
		use, short, done string
		on               bool
	}{
		{"stop", "Stop this device: running calls end, and none starts", "Stopped", true},
		{"resume", "Let calls run on this device again", "Resumed", false},
	} {
		parent.AddCommand(&cobra.Command{
			Use: c.use, Short: c.short, Args: cobra.NoArgs,
			Long: c.short + ".\nThis is the stop switch of the device that the command is run on. It needs no gateway, outlives restarts, and\n" +
				"is the one that the stop keys pull. A node that runs heeds it within half a second, and before its next call.",
			RunE: func(cmd *cobra.Command, _ []string) error {
				data, err := datadir.Of(cmd)
				if err != nil {
					return err
				}
				if _, err := os.Stat(data.Node()); errors.Is(err, fs.ErrNotExist) {
					return capabilities.Errorf(capabilities.CodeNotFound, "no device keeps its data in %s", data).
						WithHint("Give the --data that 'handrail node' or 'handrail up' was started with here.")
				}
				if err := agent.SetStop(data.Node(), c.on); err != nil {
					return err
				}
				if terminal.FlagsOf(cmd).JSON {
					return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]bool{"stopped": c.on})
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s this device.\n", c.done)
				return nil
			},
		})
	}
}
