package tools

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/cmd/handrail/invoke"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// toolSkill is the tool that loads skills: listing and showing them are calls like any other.
const toolSkill = "tool.skill.load"

// NewSkillsCmd makes 'handrail skills'.
func NewSkillsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "skills",
		Short: "See the instructions that agents can load",
		Long: "A skill is a folder with instructions for a kind of work. It grants nothing. Some are built in; others are read\n" +
			"from the folder of --skills, and again when it changes. Loading one is a call of " + toolSkill + ".",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSkillsListCmd(), newSkillsShowCmd())
	return cmd
}

// loadSkill makes the call, and prints its result as it is where that is wanted.
func loadSkill(cmd *cobra.Command, args map[string]any) (s api.Skill, done bool, err error) {
	c, err := remote.Find(cmd)
	if err != nil {
		return s, false, err
	}
	text, err := json.Marshal(args)
	if err != nil {
		return s, false, err
	}
	var raw json.RawMessage
	if err := c.Ask(cmd.Context(), http.MethodPost, remote.Path("calls"), api.MakeCall{Tool: toolSkill, Args: text}, &raw); err != nil {
		return s, false, err
	}
	var r capabilities.Result
	if err := json.Unmarshal(raw, &r); err != nil {
		return s, false, err
	}
	if failure := invoke.Failure(r); failure != nil {
		if args["file"] == nil && capabilities.CodeOf(failure) == capabilities.CodeNotFound { // its hint is for agents
			return s, false, command.Advise(capabilities.AsError(failure), command.Here("skills", "list"), " lists those there are.")
		}
		return s, false, failure
	}
	if terminal.FlagsOf(cmd).JSON {
		return s, true, terminal.PrintJSON(cmd.OutOrStdout(), r.Output)
	}
	return s, false, json.Unmarshal(r.Output, &s)
}

func newSkillsListCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the skills",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, done, err := loadSkill(cmd, map[string]any{})
			if done || err != nil {
				return err
			}
			t := terminal.NewTable(cmd.OutOrStdout(), "SKILL", "FOR")
			for _, one := range s.Skills {
				t.Row(one.Name, capabilities.Brief(one.Description, 100))
			}
			t.Flush()
			for i, b := range s.Broken {
				if i == 0 {
					fmt.Fprintln(cmd.OutOrStdout(), "\nleft out:")
				}
				fmt.Fprintf(cmd.OutOrStdout(), "  %s: %s\n", terminal.Plain(b.Name), terminal.Plain(b.Why))
			}
			return nil
		},
	}
}

func newSkillsShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME [FILE]",
		Short: "Show a skill, or a file of it",
		Args:  cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			asked := map[string]any{"name": args[0]}
			if len(args) > 1 {
				asked["file"] = args[1]
			}
			s, done, err := loadSkill(cmd, asked)
			if done || err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if s.Description != "" {
				fmt.Fprintf(out, "%s: %s\n\n", terminal.Plain(s.Name), terminal.Plain(s.Description))
			}
			for line := range strings.Lines(s.Text) {
				fmt.Fprintln(out, terminal.Plain(strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "    ")))
			}
			for _, f := range s.Files {
				fmt.Fprintf(out, "%s (%d bytes): handrail skills show %s %s\n", terminal.Plain(f.Path), f.Bytes, terminal.Plain(s.Name),
					command.Word(runtime.GOOS, terminal.Plain(f.Path)))
			}
			return nil
		},
	}
}
