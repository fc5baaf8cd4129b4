package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// NewToolsCmd makes 'handrail tools'.
func NewToolsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tools [TOOL]",
		Short: "List the tools this token may call, or show one with its arguments",
		Args:  cobra.MaximumNArgs(1),
	}
	cmd.AddCommand(newToolsShowCmd(), newToolsDiffCmd(), newToolsApproveCmd(), newToolsRestrictCmd(), newToolsDeprecateCmd(),
		newToolsRetireCmd(), newToolsListCmd(), newToolsValidateCmd(), newToolsSelectCmd())
	cmd.ValidArgsFunction = remote.CompleteTools
	cmd.RunE = listTools(cmd)
	return cmd
}

func newToolsListCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the tools this token may call", Args: cobra.NoArgs}
	cmd.RunE = listTools(cmd)
	return cmd
}

// listTools adds the flags of a list and returns what prints it, or the one tool that is named.
func listTools(cmd *cobra.Command) func(*cobra.Command, []string) error {
	lane := cmd.Flags().String("lane", "", "the lane to ask for (default: the token's)")
	agent := cmd.Flags().Bool("agent", false, "those of an agent, with the token in gateway/agent.token")
	all := cmd.Flags().Bool("all", false, "the whole catalog, whether callable or not (admin)")
	tags := cmd.Flags().StringSlice("tag", nil, "only tools with this tag (repeatable)")
	effects := cmd.Flags().String("side-effects", "", "only tools with these side effects: none, local or external")
	return func(cmd *cobra.Command, args []string) error {
		c, err := remote.FindFor(cmd, *agent)
		if err != nil {
			return err
		}
		everything := ""
		if *all {
			everything = "1"
		}
		raw, err := c.List(cmd,
			remote.Query(remote.Path("tools"), "lane", *lane, "all", everything, "tag", strings.Join(*tags, ","), "side_effects", *effects), "tools")
		if err != nil {
			return err
		}
		tools, err := remote.DecodeAll[api.Tool](raw)
		if err != nil {
			return err
		}
		out, asJSON := cmd.OutOrStdout(), terminal.FlagsOf(cmd).JSON
		if len(args) == 1 {
			for i, t := range tools {
				if string(t.ID) != args[0] && t.WireName != args[0] {
					continue
				}
				if asJSON {
					return terminal.PrintJSON(out, raw[i])
				}
				return printTool(cmd, t)
			}
			none := capabilities.Errorf(capabilities.CodeUnknownTool, "no tool %q for this token", args[0])
			if near := remote.NearTool(args[0], tools); near != "" {
				return none.WithHint("Did you mean " + near + "?")
			}
			return command.Advise(none, command.Here("tools"), " lists those it may call, ", command.Here("nodes", "NODE"),
				" says what keeps others from being ready.")
		}
		if asJSON {
			return terminal.PrintItems(out, raw)
		}
		if len(tools) == 0 && (len(*tags) > 0 || *effects != "") {
			fmt.Fprintln(out, "No tool that this token may call is like that; 'handrail tools' lists them all.")
			return nil
		}
		if len(tools) == 0 {
			fmt.Fprintln(out, "No tools: no node is ready, or policy allows this token none. 'handrail doctor' says more.")
			return nil
		}
		t := terminal.NewTable(out, "TOOL", "WHAT IT DOES")
		for _, tool := range tools {
			t.Row(string(tool.ID), tool.Title)
		}
		t.Flush()
		return nil
	}
}

func printTool(cmd *cobra.Command, t api.Tool) error {
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s (MCP name %s)\n%s\n", terminal.Plain(string(t.ID)), terminal.Plain(t.WireName), terminal.PlainBlock(t.Description))
	for _, schema := range []struct {
		name string
		json json.RawMessage
	}{{"Arguments", t.Input}, {"Result", t.Result}} {
		var text bytes.Buffer
		if json.Indent(&text, schema.json, "  ", "  ") == nil && text.Len() > 0 {
			fmt.Fprintf(out, "\n%s:\n  %s\n", schema.name, terminal.PlainBlock(text.String()))
		}
	}
	return nil
}
