package main

import (
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/cmd/handrail/bridge"
	"github.com/handrail-dev/handrail/cmd/handrail/connect"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
)

func newMCPCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Speak MCP on standard input and output, for clients that start a program",
		Long: "Relays MCP between standard input and output and the gateway. One process is one lane:\n" +
			"a fresh one, unless --lane names it. Uses the token in HANDRAIL_TOKEN, else gateway/agent.token of the\n" +
			"data directory. With --standalone it starts a gateway and this machine's node where none is up; they\n" +
			"end when no such conversation is left.",
		Args: cobra.NoArgs,
	}
	lane := cmd.Flags().String("lane", "", "lane of this conversation (default: a fresh one)")
	tools := cmd.Flags().String("tools", "", "families to offer, such as browser,desktop (default: all)")
	names := cmd.Flags().String("names", "", "canonical: dotted tool names")
	name := cmd.Flags().String("client", "", "call as this client of 'handrail connect', with its token")
	schemas := cmd.Flags().String("schemas", "", "input lists tools without output schemas")
	structured := cmd.Flags().Bool("structured", false,
		"send results as structured content, too (default: as the client named by --client uses it; without --client true)")
	alone := addStandalone(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *lane == "" {
			id, err := uuid.NewV7()
			if err != nil {
				return err
			}
			*lane = "stdio-" + id.String()
		}
		if err := capabilities.ValidateName("--lane", *lane, 128); err != nil {
			return err
		}
		if *names != "" && *names != "canonical" {
			return terminal.UsageError("--names is %q; the only choice is canonical", *names)
		}
		if *schemas != "" && *schemas != "input" {
			return terminal.UsageError("--schemas is %q; the only choice is input", *schemas)
		}
		find := func() (bridge.Gateway, error) { return remote.FindWith(cmd, datadir.Dir.AgentTokenPath) }
		if *name != "" {
			find = func() (bridge.Gateway, error) { return connectedGateway(cmd, *name) }
		}
		if !cmd.Flags().Changed("structured") {
			kind, connected := connect.Named(*name)
			*structured = !connected || kind.Structured
		}
		find, leave, err := alone.join(cmd, find)
		if err != nil {
			return err
		}
		defer leave()
		if _, err := find(); err != nil {
			return err
		}
		b := bridge.New(bridge.Options{
			Connect: find,
			Told:    remote.Told,
			Path: remote.Query("/mcp/l/"+remote.Escape(*lane), "tools", *tools, "names", *names, "schemas", *schemas,
				"structured", asked(*structured)),
			In:  bridge.Polled(cmd.InOrStdin(), terminal.Bare(cmd.OutOrStdout()), cmd.ErrOrStderr()),
			Out: cmd.OutOrStdout(),
			Log: cmd.ErrOrStderr(),
		})
		return b.Run(cmd.Context())
	}
	return cmd
}

// asked is what the address says of structured content; it goes without saying that it is
// wanted.
func asked(structured bool) string {
	if structured {
		return ""
	}
	return "0"
}

// connectedGateway finds the gateway that a client was connected to. Its own
// connection counts, whatever the environment says: a client hands on what it has.
func connectedGateway(cmd *cobra.Command, name string) (bridge.Gateway, error) {
	if _, ok := connect.Named(name); !ok {
		return nil, terminal.UsageError("--client is %q; want one of %s", name, strings.Join(connect.Names(), ", "))
	}
	data, err := datadir.Of(cmd)
	if err != nil {
		return nil, err
	}
	known, had, err := clientsOf(data).Read(name)
	if err != nil {
		return nil, err
	}
	if !had {
		return nil, &terminal.ExitError{Code: terminal.ExitForbidden, Err: command.Advise(capabilities.Errorf(capabilities.CodeUnauthenticated,
			"%s is not connected to a gateway of %s", name, data), command.Here("connect", name), " connects it.")}
	}
	return connectable(cmd, data).Reach(known)
}
