package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/gateway/api"
)

func newToolsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tools [TOOL]",
		Short: "List the tools this token may call, or show one with its arguments",
		Args:  cobra.MaximumNArgs(1),
	}
	cmd.AddCommand(newToolsShowCmd(), newToolsDiffCmd(), newToolsApproveCmd(), newToolsRestrictCmd(), newToolsDeprecateCmd(), newToolsRetireCmd(), newToolsListCmd(), newToolsValidateCmd(), newToolsSelectCmd())
	cmd.ValidArgsFunction = completeTools
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
		c, err := newCaller(cmd, *agent)
		if err != nil {
			return err
		}
		everything := ""
		if *all {
			everything = "1"
		}
		raw, err := c.list(cmd, query(path("tools"), "lane", *lane, "all", everything, "tag", strings.Join(*tags, ","), "side_effects", *effects), "tools")
		if err != nil {
			return err
		}
		tools, err := decodeAll[api.Tool](raw)
		if err != nil {
			return err
		}
		out, asJSON := cmd.OutOrStdout(), commonOf(cmd).json
		if len(args) == 1 {
			for i, t := range tools {
				if string(t.ID) != args[0] && t.WireName != args[0] {
					continue
				}
				if asJSON {
					return printJSON(out, raw[i])
				}
				return printTool(cmd, t)
			}
			none := capabilities.Errorf(capabilities.CodeUnknownTool, "no tool %q for this token", args[0])
			if near := nearTool(args[0], tools); near != "" {
				return none.WithHint("Did you mean " + near + "?")
			}
			return command.Advise(none, command.Here("tools"), " lists those it may call, ", command.Here("nodes", "NODE"), " says what keeps others from being ready.")
		}
		if asJSON {
			return printItems(out, raw)
		}
		if len(tools) == 0 && (len(*tags) > 0 || *effects != "") {
			fmt.Fprintln(out, "No tool that this token may call is like that; 'handrail tools' lists them all.")
			return nil
		}
		if len(tools) == 0 {
			fmt.Fprintln(out, "No tools: no node is ready, or policy allows this token none. 'handrail doctor' says more.")
			return nil
		}
		t := newTable(out, "TOOL", "WHAT IT DOES")
		for _, tool := range tools {
			t.row(string(tool.ID), tool.Title)
		}
		t.flush()
		return nil
	}
}

func printTool(cmd *cobra.Command, t api.Tool) error {
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s (MCP name %s)\n%s\n", plain(string(t.ID)), plain(t.WireName), plainBlock(t.Description))
	for _, schema := range []struct {
		name string
		json json.RawMessage
	}{{"Arguments", t.Input}, {"Result", t.Result}} {
		var text bytes.Buffer
		if json.Indent(&text, schema.json, "  ", "  ") == nil && text.Len() > 0 {
			fmt.Fprintf(out, "\n%s:\n  %s\n", schema.name, plainBlock(text.String()))
		}
	}
	return nil
}

// tool finds one tool by either of its names.
func (c *remote) tool(cmd *cobra.Command, lane, name string) (api.Tool, bool, error) {
	raw, err := c.list(cmd, query(path("tools"), "lane", lane), "tools")
	if err != nil {
		return api.Tool{}, false, err
	}
	tools, err := decodeAll[api.Tool](raw)
	for _, t := range tools {
		if string(t.ID) == name || t.WireName == name {
			return t, true, nil
		}
	}
	return api.Tool{}, false, err
}

// nearTool returns the tool that text was likely meant to name: one whose ID ends with it, or
// differs little.
func nearTool(text string, tools []api.Tool) string {
	var ends []string
	for _, t := range tools {
		if strings.HasSuffix(string(t.ID), "."+strings.TrimPrefix(text, ".")) {
			ends = append(ends, string(t.ID))
		}
	}
	if len(ends) > 0 {
		return strings.Join(ends[:min(len(ends), 3)], " or ")
	}
	if near := nearest(text, func(yield func(string)) {
		for _, t := range tools {
			yield(string(t.ID))
			yield(t.WireName)
		}
	}); near != "" {
		return near
	}
	short := nearest(text, func(yield func(string)) {
		for _, t := range tools {
			yield(strings.TrimPrefix(string(t.ID), "tool."))
		}
	})
	if short == "" {
		return ""
	}
	return "tool." + short
}

// toolName returns the ID of the tool that a person wrote by its wire name.
func (c *remote) toolName(cmd *cobra.Command, name string) string {
	if t, ok, _ := c.tool(cmd, "", name); ok {
		return string(t.ID)
	}
	return name
}

// likeTool adds to an error about an unknown tool which one was likely meant.
func (c *remote) likeTool(cmd *cobra.Command, name string, err error) error {
	if capabilities.CodeOf(err) != capabilities.CodeUnknownTool {
		return err
	}
	if a := capabilities.AsError(err).PublicAction(); !a.IsZero() && a.Key != capabilities.ActionListTools {
		return err // a provider has the tool: that is no slip of the pen
	}
	raw, failed := c.list(cmd, path("tools"), "tools")
	if failed != nil {
		return err
	}
	tools, failed := decodeAll[api.Tool](raw)
	near := nearTool(name, tools)
	if failed != nil || near == "" {
		return err
	}
	return capabilities.AsError(err).WithHint("Did you mean " + near + "?")
}

// completeArguments completes the name of an argument of the tool that the line names.
func completeArguments(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	none := cobra.ShellCompDirectiveNoFileComp
	if len(args) == 0 || strings.Contains(typed, "=") {
		return nil, none
	}
	c, err := newClient(cmd)
	if err != nil {
		return nil, none
	}
	t, found, err := c.tool(cmd, "", args[0])
	if err != nil || !found {
		return nil, none
	}
	var schema struct {
		Properties map[string]struct {
			Description string `json:"description"`
			Enum        []any  `json:"enum"`
		} `json:"properties"`
	}
	if json.Unmarshal(t.Input, &schema) != nil {
		return nil, none
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		p := schema.Properties[name]
		about := p.Description
		if about == "" && len(p.Enum) > 0 {
			about = strings.Trim(strings.Join(strings.Fields(fmt.Sprint(p.Enum)), ", "), "[]")
		}
		names = append(names, cobra.CompletionWithDesc(name+"=", about))
	}
	return names, none | cobra.ShellCompDirectiveNoSpace
}

func completeTools(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var answer struct {
		Tools []api.Tool `json:"tools"`
	}
	c, err := newClient(cmd)
	if err != nil || c.get(cmd.Context(), path("tools"), &answer) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var ids []string
	for _, t := range answer.Tools {
		ids = append(ids, cobra.CompletionWithDesc(string(t.ID), t.Title))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}
