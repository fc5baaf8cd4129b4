package main

import "github.com/spf13/cobra"

func newNodeCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Run this device as a node, or manage the nodes of a gateway",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return errNotBuilt },
	}
	addNodeAdminCmds(cmd)
	return cmd
}
