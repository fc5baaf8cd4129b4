package device

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/agent"
	"github.com/handrail-dev/handrail/agent/notice"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
)

func newStatusCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Say what this device is being used for now",
		Long: "Says in words what calls use on the device that the command is run on, who makes them, and how to stop them. It needs\n" +
			"no gateway: it reads " + agent.StatusFile + " in the node's folder, which a running node keeps up to date.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			data, err := datadir.Of(cmd)
			if err != nil {
				return err
			}
			s, err := notice.Read(data.Node(agent.StatusFile), time.Now())
			if err != nil {
				return err
			}
			if terminal.FlagsOf(cmd).JSON {
				return terminal.PrintJSON(cmd.OutOrStdout(), s)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), terminal.PlainBlock(s.Text))
			return err
		},
	}
}
