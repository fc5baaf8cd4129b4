package main

import (
	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
)

func newNodeCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Run this device as a node, or manage the nodes of a gateway",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return errNotBuilt },
	}
	addNodeAdminCmds(cmd)
	cmd.AddCommand(newJoinCmd(func() []capabilities.CapabilityID { return nil }))
	return cmd
}
