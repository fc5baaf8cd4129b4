package record

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// NewDriftCmd makes 'handrail drift'.
func NewDriftCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drift",
		Short: "See what calls did without a grant, and end what follows from it",
		Long: "A difference between what was seen and what was granted is an event. A critical one restricts its tool, which\n" +
			"'handrail tools approve' ends. The third violation within an hour quarantines what carried it out.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDriftListCmd(), newDriftResolveCmd(), newDriftLiftCmd())
	return cmd
}

func driftOf(ctx context.Context, c *remote.Gateway, open bool, tool string,
	limit int) (list api.DriftList, raw json.RawMessage, err error) {
	only := ""
	if open {
		only = "1"
	}
	if err := c.Get(ctx, remote.Query(remote.Path("drift"), "limit", strconv.Itoa(limit), "open", only, "tool", tool), &raw); err != nil {
		return list, raw, err
	}
	return list, raw, json.Unmarshal(raw, &list)
}

func newDriftListCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List drift events, quarantined runners, restricted tools and raised risks",
		Args:  cobra.NoArgs,
	}
	open := cmd.Flags().Bool("open", false, "only events that nobody has resolved")
	tool := cmd.Flags().String("tool", "", "events of this tool")
	limit := cmd.Flags().Int("limit", 50, "how many events at most")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *limit < 1 || *limit > 500 {
			return terminal.UsageError("--limit is from 1 to 500")
		}
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		list, raw, err := driftOf(cmd.Context(), c, *open, *tool, *limit)
		if err != nil {
			return err
		}
		if terminal.FlagsOf(cmd).JSON {
			return terminal.PrintJSON(cmd.OutOrStdout(), raw)
		}
		printDrift(cmd.OutOrStdout(), &list, *open)
		return nil
	}
	return cmd
}

func printDrift(out io.Writer, list *api.DriftList, open bool) {
	if len(list.Events) == 0 {
		fmt.Fprintln(out, map[bool]string{true: "No drift waits for anybody.", false: "Nothing drifted."}[open])
	} else {
		t := terminal.NewTable(out, "EVENT", "WHEN", "SEVERITY", "SIGNAL", "WHAT", "TOOL", "NODE", "RESPONSE", "STATE")
		for _, e := range list.Events {
			what := e.Key
			if e.Evidence != "" {
				what += " (" + capabilities.Brief(e.Evidence, 60) + ")"
			}
			state := "open"
			if !e.Open {
				state = "resolved by " + string(e.ResolvedBy)
			}
			t.Row(e.ID, e.At.Local().Format(terminal.DayClock), e.Severity, e.Signal, what, string(e.Tool), string(e.Node), e.Response, state)
		}
		t.Flush()
		if list.Before != 0 {
			fmt.Fprintln(out, "There are more; --limit shows them.")
		}
	}
	if len(list.Quarantined) > 0 {
		fmt.Fprintln(out, "\nIn quarantine, until 'handrail drift lift RUNNER --reason TEXT':")
		t := terminal.NewTable(out, "RUNNER", "SINCE", "NODE", "CLASS", "PROGRAM", "TOOL")
		for _, q := range list.Quarantined {
			t.Row(q.Runner, q.Since.Local().Format(terminal.DayClock), string(q.Node), string(q.Class), q.Program, string(q.Tool))
		}
		t.Flush()
	}
	if len(list.Restricted) > 0 {
		fmt.Fprintln(out, "\nRestricted, until 'handrail tools approve TOOL --reason TEXT':")
		t := terminal.NewTable(out, "TOOL", "SINCE", "EVENT")
		for _, r := range list.Restricted {
			t.Row(string(r.Tool), r.Since.Local().Format(terminal.DayClock), r.Event)
		}
		t.Flush()
	}
	if len(list.Raised) > 0 {
		fmt.Fprintln(out, "\nRisk is raised, until the events are resolved or 1,000 calls showed nothing:")
		t := terminal.NewTable(out, "TOOL", "NODE", "LEVELS", "CLEAN CALLS")
		for _, r := range list.Raised {
			t.Row(string(r.Tool), string(r.Node), strconv.Itoa(r.Levels), strconv.Itoa(r.Clean))
		}
		t.Flush()
	}
}

func newDriftResolveCmd() *cobra.Command {
	return newDriftEndCmd("resolve EVENT", "Resolve an event: it was looked at, and raises no risk any more",
		"A quarantine or a restriction that followed from it stays.",
		func(id string) string { return remote.Path("drift", id, "resolve") }, "%s is resolved")
}

func newDriftLiftCmd() *cobra.Command {
	return newDriftEndCmd("lift RUNNER", "Lift the quarantine of a runner: it takes calls again",
		"'handrail drift list' names it. Violations from before do not count any more.",
		func(runner string) string { return remote.Path("runners", runner, "lift") }, "%s takes calls again")
}

// newDriftEndCmd makes a command by which an admin ends one thing, with a reason.
func newDriftEndCmd(use, short, long string, at func(string) string, said string) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: short + ".\n" + long + " For admins.", Args: cobra.ExactArgs(1)}
	reason := cmd.Flags().String("reason", "", "why, for the ledger (required)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if strings.TrimSpace(*reason) == "" {
			return terminal.UsageError("--reason is required: it goes into the ledger")
		}
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		var raw json.RawMessage
		if err := c.Ask(cmd.Context(), http.MethodPost, at(args[0]), api.DriftReason{Reason: *reason}, &raw); err != nil {
			return err
		}
		return remote.Confirmed(cmd, raw, said, args[0])
	}
	return cmd
}

// Restricted returns how critical drift restricted a tool; nil: it did not, or the caller may not
// know.
func Restricted(ctx context.Context, c *remote.Gateway, tool string) *api.RestrictedTool {
	list, _, err := driftOf(ctx, c, false, "", 1)
	if err != nil {
		return nil
	}
	i := slices.IndexFunc(list.Restricted, func(r api.RestrictedTool) bool { return string(r.Tool) == tool })
	if i < 0 {
		return nil
	}
	return &list.Restricted[i]
}

// ReviewTool has a person look at a tool that critical drift restricted, and lets it be called
// again.
func ReviewTool(cmd *cobra.Command, c *remote.Gateway, r *api.RestrictedTool, reason string, yes bool) error {
	if strings.TrimSpace(reason) == "" {
		return terminal.UsageError("--reason is required: %s was restricted by %s, and its review goes into the ledger",
			terminal.Plain(string(r.Tool)), terminal.Plain(r.Event))
	}
	if !yes {
		if terminal.FlagsOf(cmd).JSON || !terminal.Interactive(cmd.InOrStdin()) {
			return terminal.UsageError("--yes is required where nobody can be asked")
		}
		events, _, err := driftOf(cmd.Context(), c, false, string(r.Tool), 10)
		if err != nil {
			return err
		}
		said := cmd.ErrOrStderr()
		printDrift(said, &api.DriftList{Events: events.Events}, false)
		fmt.Fprintf(said, "\n%s declares: %s\nmanifest  %s\n", terminal.Plain(string(r.Tool)), terminal.OrDash(strings.Join(r.Keys, ", ")),
			terminal.Plain(r.ManifestHash))
		if r.ManifestHash != r.ManifestThen {
			fmt.Fprintf(said, "It changed since: it was %s\n", terminal.Plain(r.ManifestThen))
		}
		fmt.Fprint(said, "Let it be called again? [y/N] ")
		var answer string
		if _, err := fmt.Fscanln(cmd.InOrStdin(), &answer); err != nil || !strings.EqualFold(answer, "y") {
			return capabilities.Errorf(capabilities.CodeCancelled, "nothing was approved")
		}
	}
	var raw json.RawMessage
	if err := c.Ask(cmd.Context(), http.MethodPost, remote.Path("tools", string(r.Tool), "review"),
		api.ReviewTool{ManifestHash: r.ManifestHash, Reason: reason}, &raw); err != nil {
		return err
	}
	return remote.Confirmed(cmd, raw, "%s is reviewed and can be called again", r.Tool)
}
