package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/pairing"
)

func newNodeCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Run this device as a node, or manage the nodes of a gateway",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return errNotBuilt },
	}
	addNodeAdminCmds(cmd)
	cmd.AddCommand(newJoinCmd(func(context.Context, *cobra.Command, dataDir, pairing.Paste, func(string)) (capabilities.NodeID, error) {
		return "", errNotBuilt
	}))
	return cmd
}
