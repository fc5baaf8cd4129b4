package main

import "github.com/spf13/cobra"

func newUpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Run a gateway and a paired node on this machine",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return errNotBuilt },
	}
}
