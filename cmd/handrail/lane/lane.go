package lane

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// NewLaneCmd returns the commands about lanes.
func NewLaneCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lane",
		Short: "See and record lanes, and attach nodes to them",
		Long: "A lane is one agent conversation. A node attached to it is the one its calls go to\n" +
			"when they name none, as long as it is the only one attached.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newLaneListCmd(), newLaneRecordCmd(), newLaneRecordingsCmd(),
		newLaneNodeCmd("attach", "Attach a node to a lane", http.MethodPut, "node %s is attached to lane %s"),
		newLaneNodeCmd("detach", "Detach a node from a lane", http.MethodDelete, "node %s is detached from lane %s"))
	return cmd
}

func newLaneListCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the lanes and the nodes attached to them",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			lanes, done, err := remote.Listed[api.Lane](cmd, c, remote.Path("lanes"), "lanes")
			if done || err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if len(lanes) == 0 {
				fmt.Fprintln(out, "No lanes yet.")
				return nil
			}
			t := terminal.NewTable(out, "LANE", "NODES", "USED")
			for _, l := range lanes {
				var nodes []string
				for _, n := range l.Nodes {
					nodes = append(nodes, string(n))
				}
				t.Row(string(l.Lane), strings.Join(nodes, ", "), terminal.Ago(time.Now(), l.LastUsed))
			}
			t.Flush()
			return nil
		},
	}
}

func newLaneNodeCmd(verb, short, method, done string) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " LANE NODE",
		Short: short,
		Args:  cobra.ExactArgs(2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			if len(args) != 1 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return remote.CompleteNodes(2)(cmd, args, toComplete)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			id, err := c.NodeID(cmd, args[1])
			if err != nil {
				return err
			}
			return c.Change(cmd, method, remote.Path("lanes", args[0], "nodes", id), nil, done, id, args[0])
		},
	}
}
