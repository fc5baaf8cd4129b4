package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/record"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

func newToolsShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "show TOOL",
		Short: "Show a tool's definition, whether it can be called or not",
		Args:  cobra.ExactArgs(1), ValidArgsFunction: remote.CompleteTools,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			out, asJSON := cmd.OutOrStdout(), terminal.FlagsOf(cmd).JSON
			d, err := toolDiff(cmd.Context(), c, args[0])
			switch {
			case err == nil && asJSON:
				return terminal.PrintJSON(out, d)
			case err == nil:
				return showProviderTool(out, &d)
			case !slices.Contains([]capabilities.Code{capabilities.CodeUnknownTool, capabilities.CodeForbidden, capabilities.CodeNotFound},
				capabilities.CodeOf(err)):
				return err
			}
			return showRegistered(cmd, c, c.ToolName(cmd, args[0]))
		},
	}
}

// showRegistered shows a tool that no provider brought: an admin sees any, others those that
// they may call.
func showRegistered(cmd *cobra.Command, c *remote.Gateway, id string) error {
	var raw json.RawMessage
	err := c.Ask(cmd.Context(), http.MethodGet, remote.Query(remote.Path("tools", id), "all", "1"), nil, &raw)
	if capabilities.CodeOf(err) == capabilities.CodeForbidden {
		err = c.Ask(cmd.Context(), http.MethodGet, remote.Path("tools", id), nil, &raw)
	}
	if err != nil {
		return c.LikeTool(cmd, id, err)
	}
	if terminal.FlagsOf(cmd).JSON {
		return terminal.PrintJSON(cmd.OutOrStdout(), raw)
	}
	var t api.Tool
	if err := json.Unmarshal(raw, &t); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "built in; keys: %s\n", terminal.OrDash(strings.Join(t.Manifest, ", ")))
	return printTool(cmd, t)
}

func showProviderTool(out io.Writer, d *api.ToolDiff) error {
	fmt.Fprintf(out, "%s\n%s\n\n", terminal.Plain(string(d.Tool)), terminal.PlainBlock(d.Description))
	t := terminal.NewTable(out, "WHAT", "VALUE")
	t.Row("provider", d.Provider+", which calls it "+d.Upstream)
	t.Row("state", d.State)
	effect := d.Effect
	if d.State == "draft" || d.State == "review" {
		effect = "proposed: " + d.Proposal
	}
	t.Row("agents", terminal.OrDash(effect))
	if len(d.Canary) > 0 {
		names := make([]string, len(d.Canary))
		for i, who := range d.Canary {
			names[i] = string(who)
		}
		t.Row("canary", strings.Join(names, ", "))
	}
	t.Row("hash", d.Hash)
	t.Row("approved", terminal.OrDash(d.Approved))
	t.Row("keys", terminal.OrDash(strings.Join(d.Keys, ", ")))
	t.Row("look at", terminal.OrDash(strings.Join(d.Flags, ", ")))
	t.Flush()
	if len(d.Lines) > 0 && d.Approved != "" {
		fmt.Fprintf(out, "It is not what was approved: handrail tools diff %s\n", terminal.Plain(string(d.Tool)))
	}
	var text bytes.Buffer
	if json.Indent(&text, d.Input, "  ", "  ") == nil && text.Len() > 0 {
		fmt.Fprintf(out, "\nArguments:\n  %s\n", terminal.PlainBlock(text.String()))
	}
	return nil
}

func newToolsDiffCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "diff TOOL",
		Short: "Show what a provider says of a tool now against what was approved",
		Long: "Lines that were approved and are gone begin with -, new ones with +; a character that nobody sees is written out.\n" +
			"Where the tool's host reported a change and nobody asked for it yet, the provider is checked first (admin).",
		Args: cobra.ExactArgs(1), ValidArgsFunction: remote.CompleteTools,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			d, err := seenDiff(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if terminal.FlagsOf(cmd).JSON {
				return terminal.PrintJSON(cmd.OutOrStdout(), d)
			}
			printDiff(cmd.OutOrStdout(), &d)
			return nil
		},
	}
}

func printDiff(out io.Writer, d *api.ToolDiff) {
	switch {
	case len(d.Lines) == 0:
		fmt.Fprintf(out, "%s (%s) says what was approved.\n", terminal.Plain(string(d.Tool)), terminal.Plain(d.State))
		return
	case d.Approved == "":
		fmt.Fprintf(out, "%s (%s): nothing of it was approved yet\n", terminal.Plain(string(d.Tool)), terminal.Plain(d.State))
	default:
		fmt.Fprintf(out, "%s (%s): - approved, + now\n", terminal.Plain(string(d.Tool)), terminal.Plain(d.State))
	}
	for _, line := range d.Lines {
		fmt.Fprintln(out, terminal.Plain(line))
	}
	if len(d.Flags) > 0 {
		fmt.Fprintf(out, "look at: %s\n", terminal.Plain(strings.Join(d.Flags, ", ")))
	}
}

func toolDiff(ctx context.Context, c *remote.Gateway, tool string) (d api.ToolDiff, err error) {
	return d, c.Ask(ctx, http.MethodGet, remote.Path("tools", tool, "diff"), nil, &d)
}

// seenDiff is toolDiff of what the provider says now: a change that only its host knows of is
// asked for first.
func seenDiff(ctx context.Context, c *remote.Gateway, tool string) (api.ToolDiff, error) {
	d, err := toolDiff(ctx, c, tool)
	if err != nil || !d.Unseen {
		return d, err
	}
	if err := c.Ask(ctx, http.MethodPost, remote.Path("providers", d.Provider, "check"), struct{}{}, &json.RawMessage{}); err != nil {
		return d, err
	}
	return toolDiff(ctx, c, tool)
}

func newToolsApproveCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approve TOOL",
		Short: "Let a provider's tool be called, after a look at what it says",
		Long: "Shows what differs from what was approved before, and asks. The approval is of what was shown: if the provider\n" +
			"says something else by then, nothing is approved. With --canary only the named principals may call it.\n" +
			"A tool that waits because it changed becomes what it was: restricted, deprecated, or a canary for the same\n" +
			"principals. Any other becomes active.\n" +
			"A tool that critical drift restricted, also one that is built in, is reviewed: with its drift events, and --reason.",
		Args: cobra.ExactArgs(1), ValidArgsFunction: remote.CompleteTools,
	}
	effect := cmd.Flags().String("effect", "", "what agents may do: allow, ask or deny (default: as it was, or as proposed)")
	canary := cmd.Flags().StringSlice("canary", nil, "only this principal may call it; repeatable")
	yes := cmd.Flags().Bool("yes", false, "do not ask")
	reason := cmd.Flags().String("reason", "", "why, for the ledger; required after critical drift")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *effect != "" && !slices.Contains([]string{"allow", "ask", "deny"}, *effect) {
			return terminal.UsageError("--effect is allow, ask or deny, not %q", *effect)
		}
		in := api.ToolDecision{Effect: *effect} // no state: what it was, or active
		for _, who := range *canary {
			in.State, in.Canary = "canary", append(in.Canary, capabilities.PrincipalID(who))
		}
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		if r := record.Restricted(cmd.Context(), c, c.ToolName(cmd, args[0])); r != nil {
			if *effect != "" || len(*canary) > 0 {
				return terminal.UsageError("%s is restricted by drift: review it first, without --effect and --canary", terminal.Plain(string(r.Tool)))
			}
			return record.ReviewTool(cmd, c, r, *reason, *yes)
		}
		return decideTool(cmd, args[0], in, *yes)
	}
	return cmd
}

func newToolsRestrictCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restrict TOOL",
		Short: "Have a person asked about every call of a provider's tool",
		Args:  cobra.ExactArgs(1), ValidArgsFunction: remote.CompleteTools,
	}
	yes := cmd.Flags().Bool("yes", false, "do not ask, though the tool says something else than was approved")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return decideTool(cmd, args[0], api.ToolDecision{State: "restricted"}, *yes)
	}
	return cmd
}

func newToolsDeprecateCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "deprecate TOOL",
		Short: "Say that a provider's tool goes; it can be called meanwhile",
		Args:  cobra.ExactArgs(1), ValidArgsFunction: remote.CompleteTools,
	}
	yes := cmd.Flags().Bool("yes", false, "do not ask, though the tool says something else than was approved")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return decideTool(cmd, args[0], api.ToolDecision{State: "deprecated"}, *yes)
	}
	return cmd
}

func newToolsRetireCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "retire TOOL",
		Short: "End a provider's tool, for good",
		Args:  cobra.ExactArgs(1), ValidArgsFunction: remote.CompleteTools,
		RunE: func(cmd *cobra.Command, args []string) error {
			return decideTool(cmd, args[0], api.ToolDecision{State: "retired"}, true)
		},
	}
}

// decideTool moves a tool to another state. Words that nobody approved yet are shown before
// they are, unless the person said that they need not be asked.
func decideTool(cmd *cobra.Command, tool string, in api.ToolDecision, yes bool) error {
	c, err := remote.Find(cmd)
	if err != nil {
		return err
	}
	look := seenDiff
	if in.State == "retired" {
		look = toolDiff
	}
	d, err := look(cmd.Context(), c, tool)
	if err != nil {
		return err
	}
	in.Hash = d.Hash
	if in.State == "" && d.State != "draft" && d.State != "review" {
		in.State = "active" // nothing of it waits: it is wanted for all
	}
	if !yes && (len(d.Lines) > 0 || in.State != "restricted" && in.State != "deprecated") {
		if terminal.FlagsOf(cmd).JSON || !terminal.Interactive(cmd.InOrStdin()) {
			return terminal.UsageError("--yes is required where nobody can be asked")
		}
		printDiff(cmd.ErrOrStderr(), &d)
		fmt.Fprintf(cmd.ErrOrStderr(), "Let %s be called as it is now? [y/N] ", terminal.Plain(string(d.Tool)))
		var answer string
		if _, err := fmt.Fscanln(cmd.InOrStdin(), &answer); err != nil || !strings.EqualFold(answer, "y") {
			return capabilities.Errorf(capabilities.CodeCancelled, "nothing was approved")
		}
	}
	var t api.ProviderTool
	if err := c.Ask(cmd.Context(), http.MethodPost, remote.Path("tools", string(d.Tool), "state"), in, &t); err != nil {
		return err
	}
	if terminal.FlagsOf(cmd).JSON {
		return terminal.PrintJSON(cmd.OutOrStdout(), t)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s is %s", terminal.Plain(string(t.Tool)), terminal.Plain(t.State))
	if t.Callable {
		fmt.Fprintf(cmd.OutOrStdout(), "; agents: %s", terminal.Plain(t.Effect))
	}
	fmt.Fprintln(cmd.OutOrStdout())
	return nil
}
