package roster

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

var workerKind = kind{
	what: "worker", of: "name", add: capabilities.ActionAddWorker, join: func(string) []string { return []string{"worker", "join"} },
	read: func(raw json.RawMessage) (*newcomer, error) {
		w, err := decoded[api.Worker](raw)
		return &newcomer{id: w.ID, as: w.Name, state: w.State, host: w.Host, platform: w.Platform, key: w.Key, raw: raw}, err
	},
	code: func(raw json.RawMessage) (*invited, error) {
		i, err := decoded[api.InvitedWorker](raw)
		return &invited{i.Paste, i.Name, i.Expires}, err
	},
	then: func(said io.Writer, _ *newcomer) {
		fmt.Fprintln(said, "On its machine, start it: handrail worker --gateway joined")
	},
}

// WithRoster adds the commands about workers on other machines to the one that runs a worker.
func WithRoster(worker *cobra.Command) *cobra.Command {
	worker.AddCommand(newWorkerAddCmd(), newWorkerListCmd(), workerKind.shows(showWorker),
		workerKind.decides("approve", "Let in a worker that waits: it gets a token of its own", showWorker),
		workerKind.decides("deny", "Turn away a worker that waits", showWorker),
		workerKind.decides("revoke", "Put a worker out: its token ends at once and it stays out", showWorker))
	return worker
}

func newWorkerAddCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Print a one-time code for a worker on another machine, and approve who comes with it",
		Long: "Give the code to 'handrail worker join' on the worker's machine. Then shows who joined and asks once whether to let it in.\n" +
			"It is a principal of its own name, with a token of its own, and takes the jobs of that principal.",
		Args: cobra.ExactArgs(1),
	}
	flags := addInviteFlags(cmd)
	whose := cmd.Flags().String("principal", "", "whose jobs it takes, and whose calls it makes (default: NAME)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return workerKind.invite(cmd, flags, api.InviteWorker{
			Name: args[0], Principal: capabilities.PrincipalID(*whose), AutoApprove: *flags.yes, TTLS: int(flags.ttl.Seconds()),
		})
	}
	return cmd
}

func newWorkerListCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List workers on other machines: who is let in, and who waits",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			all, done, err := remote.Listed[api.Worker](cmd, c, remote.Path("workers"), "workers")
			if done || err != nil {
				return err
			}
			if len(all) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "No workers on other machines yet. 'handrail worker add NAME' lets one in.")
				return nil
			}
			t := terminal.NewTable(cmd.OutOrStdout(), "WORKER", "NAME", "PRINCIPAL", "HOST", "STATE", "SINCE")
			for _, w := range all {
				t.Row(w.ID, w.Name, string(w.Principal), w.Host, w.State, w.JoinedAt.Local().Format("2006-01-02 15:04"))
			}
			t.Flush()
			return nil
		},
	}
}

func showWorker(cmd *cobra.Command, raw json.RawMessage) error {
	all, err := remote.DecodeAll[api.Worker]([]json.RawMessage{raw})
	if err != nil {
		return err
	}
	w, out := &all[0], cmd.OutOrStdout()
	fmt.Fprintf(out, "%s, %s: %s\n  principal %s\n  host      %s (%s)\n  key       %s\n", terminal.Plain(w.ID), terminal.Plain(w.Name),
		terminal.Plain(w.State), terminal.Plain(string(w.Principal)), terminal.Plain(w.Host), terminal.Plain(w.Platform), terminal.Plain(w.Key))
	if w.Token != "" {
		fmt.Fprintf(out, "  token     %s\n", terminal.Plain(w.Token))
	}
	if w.Reason != "" {
		fmt.Fprintf(out, "  reason    %s\n", terminal.Plain(w.Reason))
	}
	return nil
}
