package main

import (
	"errors"

	"github.com/spf13/cobra"
)

var errNotBuilt = errors.New("not built yet")

func newGatewayCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "gateway",
		Short: "Run the gateway that agents call and nodes connect to",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return errNotBuilt },
	}
}
