package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/agent"
	"github.com/handrail-dev/handrail/agent/notice"
)

func newNodeStatusCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Say what this device is being used for now",
		Long: "Says in words what calls use on the device that the command is run on, who makes them, and how to stop them. It needs\n" +
			"no gateway: it reads " + agent.StatusFile + " in the node's folder, which a running node keeps up to date.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			data, err := dataDirOf(cmd)
			if err != nil {
				return err
			}
			s, err := notice.Read(data.node(agent.StatusFile), time.Now())
			if err != nil {
				return err
			}
			if commonOf(cmd).json {
				return printJSON(cmd.OutOrStdout(), s)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), plainBlock(s.Text))
			return err
		},
	}
}
