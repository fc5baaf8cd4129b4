package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/client"
)

const (
	drainEvery = 300 * time.Millisecond
	// undrainWithin bounds how long it takes to say that a drain is over, once the person left.
	undrainWithin = 5 * time.Second
)

func newDrainCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Have a gateway end once its calls have, while others take the new ones",
		Long: "The gateway takes no new calls and gives out no jobs. Once the calls that run there have ended, its devices go to the\n" +
			"other gateways of the site, and it ends. Ctrl-C has it take calls again.",
		Args: cobra.NoArgs,
	}
	cancel := cmd.Flags().Bool("cancel", false, "have a gateway that is drained take calls again")
	noWait := cmd.Flags().Bool("no-wait", false, "do not wait for its end")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		if *cancel {
			return undrain(cmd.Context(), cmd, c)
		}
		var d api.Drain
		if err := c.Ask(cmd.Context(), http.MethodPost, remote.Path("drain"), nil, &d); err != nil {
			return err
		}
		if err := sayDrain(cmd, d); err != nil || *noWait {
			return err
		}
		return awaitDrained(cmd, c, d)
	}
	return cmd
}

// awaitDrained tells how far it is until the gateway is gone.
func awaitDrained(cmd *cobra.Command, c *remote.Gateway, said api.Drain) error {
	for {
		if err := capabilities.Sleep(cmd.Context(), drainEvery); err != nil {
			return gaveUp(cmd, c, said)
		}
		var d api.Drain
		err := c.Do(cmd.Context(), http.MethodGet, remote.Path("drain"), nil, &d)
		switch {
		case cmd.Context().Err() != nil:
			return gaveUp(cmd, c, said)
		case errors.Is(err, client.ErrUnreachable) && said.State == api.Leaving:
			return drainEvent(cmd, map[string]any{"event": "drained"}, "Drained: the gateway has ended.")
		case err != nil:
			return c.Told(err)
		case d.State == api.Serving:
			return capabilities.Errorf(capabilities.CodeCancelled, "somebody had the gateway take calls again")
		case d.State != said.State || d.Calls != said.Calls || d.Devices != said.Devices || d.Gateways != said.Gateways:
			if err := sayDrain(cmd, d); err != nil {
				return err
			}
			said = d
		}
	}
}

// gaveUp has the gateway take calls again, as whoever waited has left.
func gaveUp(cmd *cobra.Command, c *remote.Gateway, said api.Drain) error {
	if said.State == api.Leaving {
		return cmd.Context().Err()
	}
	ctx, over := context.WithTimeout(context.WithoutCancel(cmd.Context()), undrainWithin)
	defer over()
	return errors.Join(undrain(ctx, cmd, c), cmd.Context().Err())
}

func undrain(ctx context.Context, cmd *cobra.Command, c *remote.Gateway) error {
	var d api.Drain
	if err := c.Ask(ctx, http.MethodDelete, remote.Path("drain"), nil, &d); err != nil {
		return err
	}
	return sayDrain(cmd, d)
}

func sayDrain(cmd *cobra.Command, d api.Drain) error {
	text := "The gateway takes calls."
	switch d.State {
	case api.Draining:
		text = fmt.Sprintf("Draining: %s, %s, %s of the site beside it.", terminal.Count(d.Calls, "call"), terminal.Count(d.Devices, "device"),
			terminal.Count(d.Gateways, "gateway"))
	case api.Leaving:
		text = "Nothing runs there any more; it ends."
	}
	return drainEvent(cmd, map[string]any{"event": d.State, "calls": d.Calls, "devices": d.Devices, "gateways": d.Gateways}, text)
}

func drainEvent(cmd *cobra.Command, event map[string]any, text string) error {
	if terminal.FlagsOf(cmd).JSON {
		return terminal.PrintJSON(cmd.OutOrStdout(), event)
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}
