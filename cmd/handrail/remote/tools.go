package remote

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// FindTool finds one tool by either of its names.
func (c *Gateway) FindTool(cmd *cobra.Command, lane, name string) (api.Tool, bool, error) {
	raw, err := c.List(cmd, Query(Path("tools"), "lane", lane), "tools")
	if err != nil {
		return api.Tool{}, false, err
	}
	tools, err := DecodeAll[api.Tool](raw)
	for _, t := range tools {
		if string(t.ID) == name || t.WireName == name {
			return t, true, nil
		}
	}
	return api.Tool{}, false, err
}

// NearTool returns the tool that text was likely meant to name: one whose ID ends with it, or
// differs little.
func NearTool(text string, tools []api.Tool) string {
	var ends []string
	for _, t := range tools {
		if strings.HasSuffix(string(t.ID), "."+strings.TrimPrefix(text, ".")) {
			ends = append(ends, string(t.ID))
		}
	}
	if len(ends) > 0 {
		return strings.Join(ends[:min(len(ends), 3)], " or ")
	}
	if near := Nearest(text, func(yield func(string)) {
		for _, t := range tools {
			yield(string(t.ID))
			yield(t.WireName)
		}
	}); near != "" {
		return near
	}
	short := Nearest(text, func(yield func(string)) {
		for _, t := range tools {
			yield(strings.TrimPrefix(string(t.ID), "tool."))
		}
	})
	if short == "" {
		return ""
	}
	return "tool." + short
}

// ToolName returns the ID of the tool that a person wrote by its wire name.
func (c *Gateway) ToolName(cmd *cobra.Command, name string) string {
	if t, ok, _ := c.FindTool(cmd, "", name); ok {
		return string(t.ID)
	}
	return name
}

// LikeTool adds to an error about an unknown tool which one was likely meant.
func (c *Gateway) LikeTool(cmd *cobra.Command, name string, err error) error {
	if capabilities.CodeOf(err) != capabilities.CodeUnknownTool {
		return err
	}
	if a := capabilities.AsError(err).PublicAction(); !a.IsZero() && a.Key != capabilities.ActionListTools {
		return err // a provider has the tool: that is no slip of the pen
	}
	raw, failed := c.List(cmd, Path("tools"), "tools")
	if failed != nil {
		return err
	}
	tools, failed := DecodeAll[api.Tool](raw)
	near := NearTool(name, tools)
	if failed != nil || near == "" {
		return err
	}
	return capabilities.AsError(err).WithHint("Did you mean " + near + "?")
}

// CompleteArguments completes the name of an argument of the tool that the line names.
func CompleteArguments(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	none := cobra.ShellCompDirectiveNoFileComp
	if len(args) == 0 || strings.Contains(typed, "=") {
		return nil, none
	}
	c, err := Find(cmd)
	if err != nil {
		return nil, none
	}
	t, found, err := c.FindTool(cmd, "", args[0])
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

// CompleteTools completes the ID of a tool that the caller may use.
func CompleteTools(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var answer api.ToolList
	c, err := Find(cmd)
	if err != nil || c.Get(cmd.Context(), Path("tools"), &answer) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var ids []string
	for _, t := range answer.Tools {
		ids = append(ids, cobra.CompletionWithDesc(string(t.ID), t.Title))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}
