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
	"github.com/spf13/pflag"

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

// driftNarrow is what a list of events is narrowed by.
type driftNarrow struct {
	open                         bool
	tool, node, signal, severity string
}

// addDriftFlags returns what cmd is told to narrow events by.
func addDriftFlags(cmd *cobra.Command) *driftNarrow {
	n, f := &driftNarrow{}, cmd.Flags()
	f.StringVar(&n.tool, "tool", "", "events of this tool")
	f.StringVar(&n.node, "node", "", "events of calls on this node (also --host)")
	f.StringVar(&n.signal, "signal", "", "events of this signal: "+strings.Join(driftSignals, ", "))
	f.StringVar(&n.severity, "severity", "", "events of this severity: "+strings.Join(driftSeverities, ", "))
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "host" {
			name = "node"
		}
		return pflag.NormalizedName(name)
	})
	_ = cmd.RegisterFlagCompletionFunc("tool", func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return remote.CompleteTools(cmd, nil, typed)
	})
	_ = cmd.RegisterFlagCompletionFunc("signal", cobra.FixedCompletions(driftSignals, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("severity", cobra.FixedCompletions(driftSeverities, cobra.ShellCompDirectiveNoFileComp))
	return n
}

// The words of signals and severities.
var (
	driftSignals    = []string{"network", "write", "secret", "surface", "isolation", "other"}
	driftSeverities = []string{"warning", "violation", "critical"}
)

func (n *driftNarrow) none() bool { return n.tool+n.node+n.signal+n.severity == "" }

// settle checks the words, and makes the node that is meant its ID.
func (n *driftNarrow) settle(cmd *cobra.Command, c *remote.Gateway) (err error) {
	for _, one := range []struct {
		flag, word string
		words      []string
	}{{"signal", n.signal, driftSignals}, {"severity", n.severity, driftSeverities}} {
		if one.word != "" && !slices.Contains(one.words, one.word) {
			return terminal.UsageHint("It is one of "+strings.Join(one.words, ", ")+".", "no event has the %s %q", one.flag, one.word)
		}
	}
	n.node, err = c.NodeID(cmd, n.node)
	return err
}

// driftOf returns events, the newest first; before continues a list.
func driftOf(ctx context.Context, c *remote.Gateway, n *driftNarrow, limit int,
	before uint64) (list api.DriftList, raw json.RawMessage, err error) {
	narrow := []string{"limit", strconv.Itoa(limit), "tool", n.tool, "node", n.node, "signal", n.signal, "severity", n.severity}
	if n.open {
		narrow = append(narrow, "open", "1")
	}
	if before > 0 {
		narrow = append(narrow, "before", strconv.FormatUint(before, 10))
	}
	if err := c.Get(ctx, remote.Query(remote.Path("drift"), narrow...), &raw); err != nil {
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
	narrow := addDriftFlags(cmd)
	cmd.Flags().BoolVar(&narrow.open, "open", false, "only events that nobody has resolved")
	limit := cmd.Flags().Int("limit", 50, "how many events at most")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *limit < 1 || *limit > 500 {
			return terminal.UsageError("--limit is from 1 to 500")
		}
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		if err := narrow.settle(cmd, c); err != nil {
			return err
		}
		list, raw, err := driftOf(cmd.Context(), c, narrow, *limit, 0)
		if err != nil {
			return err
		}
		if terminal.FlagsOf(cmd).JSON {
			return terminal.PrintJSON(cmd.OutOrStdout(), raw)
		}
		printDrift(cmd.OutOrStdout(), &list, narrow.open)
		return nil
	}
	return cmd
}

func printDrift(out io.Writer, list *api.DriftList, open bool) {
	if len(list.Events) == 0 {
		fmt.Fprintln(out, map[bool]string{true: "No drift waits for anybody.", false: "Nothing drifted."}[open])
	} else {
		t := terminal.NewTable(out, "EVENT", "WHEN", "SEVERITY", "SIGNAL", "WHAT", "TOOL", "NODE", "RESPONSE", "STATE")
		for i := range list.Events {
			e := &list.Events[i]
			t.Row(e.ID, e.At.Local().Format(terminal.DayClock), e.Severity, e.Signal, driftWhat(e), string(e.Tool), string(e.Node), e.Response,
				driftState(e))
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

// driftWhat says what was seen, with what shows it.
func driftWhat(e *api.DriftEvent) string {
	if e.Evidence == "" {
		return e.Key
	}
	return e.Key + " (" + capabilities.Brief(e.Evidence, 60) + ")"
}

func driftState(e *api.DriftEvent) string {
	if e.Open {
		return "open"
	}
	return "resolved by " + string(e.ResolvedBy)
}

// maxResolved is how many events the gateway resolves at once.
const maxResolved = 200

func newDriftResolveCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resolve [EVENT]...",
		Short: "Resolve events: they were looked at, and raise no risk any more",
		Long: "Resolves the events named, or all open ones that --tool, --node, --signal and --severity fit, with one reason.\n" +
			"Those are shown first, and only what was shown is resolved. Each has a packet of its own in the ledger.\n" +
			"A quarantine or a restriction that followed from one stays. For admins.",
		Example: "  handrail drift resolve drift_0123456789abcdef --reason \"a test of ours\"\n" +
			"  handrail drift resolve --tool tool.fs.bash --signal network --reason \"the proxy was down\"",
	}
	narrow := addDriftFlags(cmd)
	reason := cmd.Flags().String("reason", "", "why, for the ledger (required)")
	yes := cmd.Flags().Bool("yes", false, "do not ask before events are resolved that were not named")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case strings.TrimSpace(*reason) == "":
			return terminal.UsageError("--reason is required: it goes into the ledger")
		case len(args) == 0 && narrow.none():
			return terminal.UsageError("name events, or what they have in common: --tool, --node, --signal, --severity")
		case len(args) > 0 && !narrow.none():
			return terminal.UsageError("name events, or what they have in common, not both")
		}
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		if len(args) == 0 {
			if args, err = openDrift(cmd, c, narrow, *yes); err != nil {
				return err
			}
		}
		var done api.ResolvedDrift
		for part := range slices.Chunk(args, maxResolved) {
			var some api.ResolvedDrift
			in := api.ResolveDrift{Events: part, Reason: *reason}
			if err := c.Ask(cmd.Context(), http.MethodPost, remote.Path("drift", "resolve"), in, &some); err != nil {
				if n := len(done.Events); n > 0 {
					fmt.Fprintln(cmd.ErrOrStderr(), terminal.Count(n, "event")+" had been resolved by then.")
				}
				return err
			}
			done.Events = append(done.Events, some.Events...)
		}
		if terminal.FlagsOf(cmd).JSON {
			return terminal.PrintItems(cmd.OutOrStdout(), done.Events)
		}
		if len(done.Events) == 1 {
			_, err = fmt.Fprintln(cmd.OutOrStdout(), terminal.Plain(done.Events[0].ID)+" is resolved")
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), terminal.Count(len(done.Events), "event")+" are resolved")
		return err
	}
	return cmd
}

// openDrift returns the open events that narrow fits, once a person has seen them and said yes.
func openDrift(cmd *cobra.Command, c *remote.Gateway, narrow *driftNarrow, yes bool) ([]string, error) {
	if !yes && (terminal.FlagsOf(cmd).JSON || !terminal.Interactive(cmd.InOrStdin())) {
		return nil, terminal.UsageError("--yes is required where nobody can be asked")
	}
	if err := narrow.settle(cmd, c); err != nil {
		return nil, err
	}
	narrow.open = true
	var all []api.DriftEvent
	for before := uint64(0); ; {
		list, _, err := driftOf(cmd.Context(), c, narrow, 500, before)
		if err != nil {
			return nil, err
		}
		all = append(all, list.Events...)
		if before = list.Before; before == 0 {
			break
		}
	}
	if len(all) == 0 {
		return nil, capabilities.Errorf(capabilities.CodeNotFound, "no open event fits").
			WithAction(capabilities.Action{Key: capabilities.ActionListDrift}, "Look at those that are open.")
	}
	var ids []string
	for i := range all {
		ids = append(ids, all[i].ID)
	}
	if yes {
		return ids, nil
	}
	printDrift(cmd.ErrOrStderr(), &api.DriftList{Events: all}, true)
	return ids, terminal.Confirm(cmd, "Resolve "+terminal.Count(len(all), "event")+"?", "nothing was resolved")
}

func newDriftLiftCmd() *cobra.Command {
	const short = "Lift the quarantine of a runner: it takes calls again"
	cmd := &cobra.Command{
		Use: "lift RUNNER", Short: short, Args: cobra.ExactArgs(1),
		Long: short + ".\n'handrail drift list' names it. Violations from before do not count any more. For admins.",
	}
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
		in := api.DriftReason{Reason: *reason}
		if err := c.Ask(cmd.Context(), http.MethodPost, remote.Path("runners", args[0], "lift"), in, &raw); err != nil {
			return err
		}
		return remote.Confirmed(cmd, raw, "%s takes calls again", args[0])
	}
	return cmd
}

// Restricted returns how critical drift restricted a tool; nil: it did not, or the caller may not
// know.
func Restricted(ctx context.Context, c *remote.Gateway, tool string) *api.RestrictedTool {
	list, _, err := driftOf(ctx, c, &driftNarrow{}, 1, 0)
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
		events, _, err := driftOf(cmd.Context(), c, &driftNarrow{tool: string(r.Tool)}, 10, 0)
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
