package tools

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/cmd/handrail/invoke"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

func newToolsValidateCmd() *cobra.Command {
	var o invoke.Options
	cmd := &cobra.Command{
		Use:   "validate TOOL [ARGS]",
		Short: "Say whether arguments fit a tool, without calling it",
		Long:  "Checks arguments against the tool's schema and prints every reason why they do not fit. ARGS is a JSON object.",
		Args:  cobra.RangeArgs(1, 2), ValidArgsFunction: remote.CompleteTools,
	}
	addArguments(cmd, &o)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		if len(args) > 1 {
			o.Args = args[1]
		}
		tool := c.ToolName(cmd, args[0])
		in := api.ValidateArgs{Lane: capabilities.LaneID(o.Lane)}
		if in.Args, err = o.Arguments(cmd, c, tool); err != nil {
			return err
		}
		var raw json.RawMessage
		if err := c.Ask(cmd.Context(), http.MethodPost, remote.Path("tools", tool, "validate"), in, &raw); err != nil {
			return c.LikeTool(cmd, args[0], err)
		}
		var v api.Validation
		if err := json.Unmarshal(raw, &v); err != nil {
			return fmt.Errorf("the gateway's answer is not what this version expects: %w", err)
		}
		out := cmd.OutOrStdout()
		if terminal.FlagsOf(cmd).JSON {
			if err := terminal.PrintJSON(out, raw); err != nil {
				return err
			}
		}
		if !v.Valid {
			if !terminal.FlagsOf(cmd).JSON {
				for _, bad := range v.Violations {
					fmt.Fprintln(out, terminal.Plain(strings.TrimSpace(bad.Path+" "+bad.Message)))
				}
			}
			return command.Advise(capabilities.Errorf(capabilities.CodeInvalidArguments, "the arguments do not fit %s", v.Tool),
				command.Here("tools", string(v.Tool)), " shows what it takes.")
		}
		if !terminal.FlagsOf(cmd).JSON {
			fmt.Fprintf(out, "The arguments fit %s.\n", terminal.Plain(string(v.Tool)))
		}
		return nil
	}
	return cmd
}

// addArguments adds the flags by which a command takes a tool's arguments.
func addArguments(cmd *cobra.Command, o *invoke.Options) {
	f := cmd.Flags()
	f.StringArrayVar(&o.Pairs, "arg", nil, "one argument as name=value, typed by the tool's schema (repeatable)")
	f.StringVar(&o.Lane, "lane", "", "the lane to ask for (default: the token's)")
	_ = cmd.RegisterFlagCompletionFunc("arg", remote.CompleteArguments)
}

func newToolsSelectCmd() *cobra.Command {
	var args, lane string
	var tags, candidates []string
	cmd := &cobra.Command{
		Use:   "select WORDS…",
		Short: "Choose a tool for what is to be done, by words; nothing is carried out",
		Long: "Chooses among the tools that this token may call now, by their names, titles, tags, descriptions and arguments.\n" +
			"No model is asked: the same words choose the same tool. The choice is recorded.",
		Example: "  handrail tools select take a picture of the web page\n" +
			"  handrail tools select --tag browser --args '{\"url\":\"https://example.com/\"}' open the page",
		Args: cobra.MinimumNArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&args, "args", "", "arguments as a JSON object: only a tool that can take them is chosen")
	f.StringVar(&lane, "lane", "", "the lane to ask for (default: the token's)")
	f.StringSliceVar(&tags, "tag", nil, "only tools with this tag (repeatable)")
	f.StringSliceVar(&candidates, "candidate", nil, "only this tool (repeatable)")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		in := api.SelectTool{Intent: strings.Join(words, " "), Tags: tags, Lane: capabilities.LaneID(lane)}
		if args != "" {
			if !json.Valid([]byte(args)) {
				return terminal.UsageError("--args is not JSON")
			}
			in.Args = json.RawMessage(args)
		}
		for _, one := range candidates {
			in.Candidates = append(in.Candidates, capabilities.ToolID(one))
		}
		var raw json.RawMessage
		if err := c.Ask(cmd.Context(), http.MethodPost, remote.Path("selections"), in, &raw); err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		if terminal.FlagsOf(cmd).JSON {
			return terminal.PrintJSON(out, raw)
		}
		var s api.ToolSelection
		if err := json.Unmarshal(raw, &s); err != nil {
			return fmt.Errorf("the gateway's answer is not what this version expects: %w", err)
		}
		fmt.Fprintf(out, "%s (%.0f %%)\n%s\nSide effects: %s. %s\n", terminal.Plain(string(s.SelectedTool)), 100*s.Confidence,
			terminal.Plain(s.WhySelected),
			terminal.Plain(s.ExpectedSideEffects), terminal.Plain(s.RollbackPlan))
		for _, other := range s.CandidateTools[min(len(s.CandidateTools), 1):min(len(s.CandidateTools), 5)] {
			fmt.Fprintf(out, "or %s\n", terminal.Plain(string(other)))
		}
		return nil
	}
	return cmd
}
