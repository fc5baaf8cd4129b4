package consent

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// NewTasksCmd makes 'handrail tasks'.
func NewTasksCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tasks",
		Short: "List the calls that are kept until a person answers",
		Long: "Where policy says so, a call that nobody answers is kept and carried out once somebody allows it. The agent\n" +
			"gets the result when it repeats the identical call.",
		Args: cobra.NoArgs,
	}
	drop := cmd.Flags().String("drop", "", "forget this one")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		if *drop != "" {
			var raw json.RawMessage
			if err := c.Ask(cmd.Context(), http.MethodDelete, remote.Path("tasks", *drop), nil, &raw); err != nil {
				return err
			}
			return remote.Confirmed(cmd, raw, "%s is forgotten", *drop)
		}
		all, done, err := remote.Listed[api.Task](cmd, c, remote.Path("tasks"), "tasks")
		if done || err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		if len(all) == 0 {
			fmt.Fprintln(out, "No calls are kept.")
			return nil
		}
		t := terminal.NewTable(out, "TASK", "STATE", "PRINCIPAL", "LANE", "TOOL", "APPROVAL", "UNTIL")
		for _, v := range all {
			state := v.State
			if v.Code != "" {
				state += " (" + string(v.Code) + ")"
			}
			t.Row(v.ID, state, string(v.Principal), string(v.Lane), string(v.Tool), v.Approval, v.Expires.Local().Format(terminal.DayClock))
		}
		t.Flush()
		return nil
	}
	return cmd
}
