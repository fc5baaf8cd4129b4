package record

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// maxCalls is how many calls the gateway lists at once.
const maxCalls = 200

// NewCallsCmd makes 'handrail calls'.
func NewCallsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "calls",
		Short: "List recent calls: who did what, where, and how it ended",
		Long: "Lists the newest calls first, as the console's page Calls does: your own or, for operators and admins, everybody's.\n" +
			"'handrail ledger show --call CALL' prints what was recorded of one, packet by packet.",
		Example: "  handrail calls --node laptop --limit 20\n  handrail calls --state failed\n  handrail calls show c5k2",
		Args:    cobra.NoArgs,
	}
	f := cmd.Flags()
	node := f.String("node", "", "only calls that this node carried out")
	tool := f.String("tool", "", "only calls of this tool")
	lane := f.String("lane", "", "only calls of this lane")
	who := f.String("principal", "", "only calls of this caller")
	state := f.String("state", "", "only calls that are "+strings.Join(api.Outcomes(), ", "))
	search := f.String("search", "", "only calls with this text in what is recorded of them")
	profile := f.String("profile", "", "only calls that were decided with this capability profile")
	snapshot := f.String("policy", "", "only calls that were decided under this policy")
	isolation := f.String("isolation", "", "only calls that needed this isolation class")
	runner := f.String("runner", "", "only calls of the runner with this fingerprint")
	before := f.Uint64("before", 0, "calls older than this; the end of a list names it")
	limit := f.Int("limit", 50, fmt.Sprintf("how many at most, up to %d", maxCalls))
	_ = cmd.RegisterFlagCompletionFunc("tool", func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return remote.CompleteTools(cmd, nil, typed)
	})
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(api.Outcomes(), cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *limit < 1 || *limit > maxCalls {
			return terminal.UsageError("--limit must be from 1 to %d", maxCalls)
		}
		if *state != "" && !slices.Contains(api.Outcomes(), *state) {
			return terminal.UsageHint("It is one of "+strings.Join(api.Outcomes(), ", ")+".", "no call is in the state %q", *state)
		}
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		id, err := c.NodeID(cmd, *node)
		if err != nil {
			return err
		}
		narrow := []string{
			"node", id, "tool", *tool, "lane", *lane, "principal", *who, "state", *state, "q", *search, "profile", *profile, "snapshot", *snapshot,
			"isolation", *isolation, "runner", *runner, "limit", strconv.Itoa(*limit),
		}
		if *before > 0 {
			narrow = append(narrow, "before", strconv.FormatUint(*before, 10))
		}
		list, err := listCalls(cmd, c, narrow...)
		if err != nil {
			return err
		}
		if terminal.FlagsOf(cmd).JSON {
			return terminal.PrintItems(cmd.OutOrStdout(), list.Calls)
		}
		return printCalls(cmd, list)
	}
	cmd.AddCommand(newCallsShowCmd(), newCallsReplayCmd())
	return cmd
}

// callList is a page of calls: raw objects for --json, and where older ones begin; 0 at the
// list's end.
type callList struct {
	Calls  []json.RawMessage `json:"calls"`
	Before uint64            `json:"before"`
}

func listCalls(cmd *cobra.Command, c *remote.Gateway, narrow ...string) (list callList, err error) {
	err = c.Get(cmd.Context(), remote.Query(remote.Path("calls"), narrow...), &list)
	return list, err
}

func printCalls(cmd *cobra.Command, list callList) error {
	calls, err := remote.DecodeAll[api.Call](list.Calls)
	if err != nil {
		return err
	}
	if len(calls) == 0 {
		fmt.Fprintln(cmd.OutOrStdout(), "No calls.")
	} else {
		t := terminal.NewTable(cmd.OutOrStdout(), "WHEN", "WHO", "NODE", "WHAT", "OUTCOME", "CALL")
		now := time.Now()
		for _, v := range calls {
			t.Row(terminal.Ago(now, v.StartedAt), string(v.Principal), cmp.Or(v.NodeLabel, string(v.Node)), cmp.Or(v.Phrase, string(v.Tool)),
				outcomeOf(v), string(v.ID))
		}
		t.Flush()
	}
	if list.Before > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "Older calls: --before %d\n", list.Before)
	}
	return nil
}

// outcomeOf says how a call ended, and why where it did not do what was asked.
func outcomeOf(v api.Call) string {
	switch {
	case v.EndedBy == "caller":
		return v.Outcome + " by its caller"
	case v.EndedBy == "person":
		return v.Outcome + " by a person"
	case v.Code != "":
		return v.Outcome + ": " + string(v.Code)
	}
	return v.Outcome
}

func newCallsShowCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show CALL",
		Short: "Show one call: its class, its runner, what drifted, and its steps",
		Args:  cobra.ExactArgs(1),
	}
	cmd.ValidArgsFunction = completeCalls
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		raw, err := callMeant(cmd, c, args[0])
		if err != nil {
			return err
		}
		calls, err := remote.DecodeAll[api.Call]([]json.RawMessage{raw})
		if err != nil {
			return err
		}
		drifted, err := driftOfCall(cmd.Context(), c, calls[0].ID)
		if err != nil {
			return err
		}
		if terminal.FlagsOf(cmd).JSON {
			return printCallJSON(cmd, raw, drifted)
		}
		printCall(cmd, calls[0])
		printCallDrift(cmd.OutOrStdout(), drifted)
		steps, err := listCalls(cmd, c, "parent", string(calls[0].ID), "limit", strconv.Itoa(maxCalls))
		if err != nil || len(steps.Calls) == 0 {
			return err
		}
		fmt.Fprintln(cmd.OutOrStdout(), "\nIts steps, the latest first:")
		return printCalls(cmd, steps)
	}
	return cmd
}

// callMeant finds the call that a person means by its ID or the beginning of it.
func callMeant(cmd *cobra.Command, c *remote.Gateway, text string) (json.RawMessage, error) {
	list, err := listCalls(cmd, c, "q", text, "limit", strconv.Itoa(maxCalls))
	if err != nil {
		return nil, err
	}
	calls, err := remote.DecodeAll[api.Call](list.Calls)
	if err != nil {
		return nil, err
	}
	byID, near := map[string]json.RawMessage{}, []remote.Named{}
	for i, v := range calls {
		if strings.HasPrefix(string(v.ID), text) {
			byID[string(v.ID)] = list.Calls[i]
			near = append(near, remote.Named{ID: string(v.ID), Label: v.Phrase})
		}
	}
	if len(near) == 0 {
		return nil, command.Advise(capabilities.Errorf(capabilities.CodeNotFound, "no recent call is %q", text),
			command.Here("calls"), " lists the latest; of an old one, ", command.Here("ledger", "show", "--call", text), " shows the packets.")
	}
	id, err := remote.Choose("call", text, near)
	return byID[id], err
}

func printCall(cmd *cobra.Command, v api.Call) {
	took := ""
	switch {
	case v.DurationMS >= 1000:
		took = fmt.Sprintf("%.1f s", v.DurationMS/1000)
	case v.DurationMS > 0:
		took = fmt.Sprintf("%.0f ms", v.DurationMS)
	}
	for _, line := range [][2]string{
		{"call", string(v.ID)}, {"what", v.Phrase}, {"tool", string(v.Tool)}, {"outcome", outcomeOf(v)}, {"effect", string(v.Effect)},
		{"decision", v.Decision}, {"who", string(v.Principal)}, {"lane", string(v.Lane)}, {"by", v.Surface}, {"step of", string(v.Parent)},
		{"node", strings.TrimSpace(v.NodeLabel + " " + string(v.Node))}, {"class", classOf(v)}, {"runner", v.Runner},
		{"began", v.StartedAt.Local().Format(terminal.DayClock)}, {"took", took},
	} {
		if line[1] != "" {
			fmt.Fprintf(cmd.OutOrStdout(), "%-9s %s\n", line[0], terminal.Plain(line[1]))
		}
	}
	for _, r := range v.Runners {
		walls := cmp.Or(strings.Join(r.Walls, ", "), "none")
		fmt.Fprintf(cmd.OutOrStdout(), "%-9s %s\n", "walls", terminal.Plain(fmt.Sprintf("%s (%s, runner %s)", walls, r.Class, r.Runner)))
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%-9s handrail ledger show --call %s\n", "record", terminal.Plain(string(v.ID)))
}

// classOf says which isolation class a call needed and which it got.
func classOf(v api.Call) string {
	if v.Envelope == nil {
		return ""
	}
	kept := func(c capabilities.IsolationClass) string {
		if c.Keeps() == "" {
			return string(c)
		}
		return string(c) + " (" + c.Keeps() + ")"
	}
	need := v.Envelope.Isolation
	text := kept(need)
	switch {
	case v.Given == "":
	case v.Decision == "deny":
		text += "; its node gives " + kept(v.Given)
	case v.Given != need:
		text += "; it got " + kept(v.Given)
	}
	if v.Degraded != "" {
		text += ", without " + v.Degraded
	}
	return text
}

// driftOfCall returns the drift events of a call; nil: the caller may not read them.
func driftOfCall(ctx context.Context, c *remote.Gateway, call capabilities.CallID) ([]json.RawMessage, error) {
	list := struct {
		Events []json.RawMessage `json:"events"`
	}{Events: []json.RawMessage{}}
	err := c.Get(ctx, remote.Query(remote.Path("drift"), "call", string(call), "limit", strconv.Itoa(maxCalls)), &list)
	if capabilities.CodeOf(err) == capabilities.CodeForbidden {
		return nil, nil
	}
	return list.Events, err
}

// printCallJSON prints a call as the gateway told it, with its drift events where the caller may
// read them.
func printCallJSON(cmd *cobra.Command, raw json.RawMessage, drifted []json.RawMessage) error {
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &all); err != nil {
		return err
	}
	if drifted != nil {
		list, err := json.Marshal(drifted)
		if err != nil {
			return err
		}
		all["drift"] = list
	}
	return terminal.PrintJSON(cmd.OutOrStdout(), all)
}

func printCallDrift(out io.Writer, drifted []json.RawMessage) {
	list, err := remote.DecodeAll[api.DriftEvent](drifted)
	if err != nil || drifted == nil {
		return // 'record' leads to the packets
	}
	if len(list) == 0 {
		fmt.Fprintf(out, "%-9s none\n", "drift")
		return
	}
	fmt.Fprintf(out, "\nDrift of this call (%s):\n", terminal.Count(len(list), "event"))
	t := terminal.NewTable(out, "EVENT", "SEVERITY", "SIGNAL", "WHAT", "TIMES", "RESPONSE", "STATE")
	for i := range list {
		e := &list[i]
		t.Row(e.ID, e.Severity, e.Signal, driftWhat(e), strconv.FormatUint(uint64(e.Count), 10), e.Response, driftState(e))
	}
	t.Flush()
}

// completeCalls completes the ID of a recent call.
func completeCalls(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	none := cobra.ShellCompDirectiveNoFileComp
	c, err := remote.Find(cmd)
	if err != nil || len(args) > 0 {
		return nil, none
	}
	list, err := listCalls(cmd, c, "limit", "50")
	if err != nil {
		return nil, none
	}
	calls, err := remote.DecodeAll[api.Call](list.Calls)
	if err != nil {
		return nil, none
	}
	var ids []string
	for _, v := range calls {
		ids = append(ids, cobra.CompletionWithDesc(string(v.ID), cmp.Or(v.Phrase, string(v.Tool))))
	}
	return ids, none
}
