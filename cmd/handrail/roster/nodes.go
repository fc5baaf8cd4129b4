package roster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// NewNodesCmd makes 'handrail nodes'.
func NewNodesCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "nodes [NODE]",
		Short:             "List the nodes, or show one with what it can do",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: remote.CompleteNodes(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return showNode(cmd, args)
			}
			return listNodes(cmd)
		},
	}
}

func listNodes(cmd *cobra.Command) error {
	c, err := remote.Find(cmd)
	if err != nil {
		return err
	}
	nodes, done, err := remote.Listed[remote.Node](cmd, c, remote.Path("nodes"), "nodes")
	if done || err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if len(nodes) == 0 {
		fmt.Fprintln(out, "No nodes yet. 'handrail pair' lets one in.")
		return nil
	}
	t := terminal.NewTable(out, "NODE", "LABEL", "STATE", "SEEN", "TRUST", "OWNER", "PLATFORM", "READY")
	for _, n := range nodes {
		t.Row(string(n.ID), n.Label, n.State, n.Seen(), n.Trust, string(n.Owner), n.System(), n.Ready())
	}
	t.Flush()
	remote.NoteStop(cmd, c)
	return nil
}

// showNode prints the node that the first argument means.
var showNode = remote.WithNode(func(cmd *cobra.Command, c *remote.Gateway, id string, _ []string) error {
	var raw json.RawMessage
	if err := c.Get(cmd.Context(), remote.Path("nodes", id), &raw); err != nil {
		return err
	}
	if terminal.FlagsOf(cmd).JSON {
		return terminal.PrintJSON(cmd.OutOrStdout(), raw)
	}
	nodes, err := remote.DecodeAll[remote.Node]([]json.RawMessage{raw})
	if err != nil {
		return err
	}
	printNode(cmd, nodes[0])
	return nil
})

func printNode(cmd *cobra.Command, n remote.Node) {
	out := cmd.OutOrStdout()
	for _, line := range [][2]string{
		{"node", string(n.ID)}, {"label", n.Label}, {"state", n.State}, {"reason", n.Reason}, {"seen", n.Seen()}, {"transport", n.Transport},
		{"trust", n.Trust},
		{"owner", string(n.Owner)}, {"host", n.Host}, {"platform", n.System()}, {"key", n.Fingerprint}, {"version", n.Agent},
		{"labels", strings.Join(n.Labels, ", ")}, {"allowed", asTools(n.Allow)}, {"wants", asTools(n.Wants)},
	} {
		if line[1] != "" {
			fmt.Fprintf(out, "%-9s %s\n", line[0], terminal.Plain(line[1]))
		}
	}
	if len(n.Wants) > 0 {
		fmt.Fprintf(out, "          It offers more than it may do here: 'handrail node allow %s TOOL…' allows it.\n",
			terminal.Plain(string(n.ID)))
	}
	if len(n.Capabilities) == 0 {
		return
	}
	fmt.Fprintln(out)
	t := terminal.NewTable(out, "TOOL", "READY", "ISOLATION", "BACKEND", "REASON AND FIX")
	for _, c := range n.Capabilities {
		t.Row(remote.CapabilityRow(c)...)
	}
	t.Flush()
}

// AddNodeAdminCmds adds the commands that manage a gateway's nodes.
func AddNodeAdminCmds(parent *cobra.Command) {
	list := NewNodesCmd()
	list.Use = "list [NODE]"
	list.Aliases = []string{"show"}

	approve := &cobra.Command{Use: "approve NODE", Short: "Let a pending node in"}
	approveAllow := approve.Flags().StringSlice("allow", nil, "tools it may use (default: those of its invite)")
	approveTrust := approve.Flags().String("trust", "", "trust level")
	approveLabel := approve.Flags().String("label", "", "name for people")
	nodeAction(approve, "approve", "is approved", func() (any, error) {
		allow, err := checkAllow(*approveAllow)
		return api.NodeApproval{Allow: allow, Trust: *approveTrust, Label: *approveLabel}, err
	})

	deny := &cobra.Command{Use: "deny NODE", Short: "Turn a pending node away"}
	nodeAction(deny, "deny", "is turned away", func() (any, error) { return api.Reason{}, nil })

	revoke := &cobra.Command{Use: "revoke NODE", Short: "End a node's pairing at once and for good"}
	reason := revoke.Flags().String("reason", "", "why, for the record")
	nodeAction(revoke, "revoke", "is revoked; its connection is closed",
		func() (any, error) { return api.Reason{Reason: *reason}, nil })

	parent.AddCommand(list, approve, deny, revoke, newNodeAllowCmd(),
		newNodePatchCmd("label NODE LABEL", "Name a node for people", "label",
			func(s *string) api.NodeChange { return api.NodeChange{Label: s} }),
		newNodePatchCmd("trust NODE LEVEL", "Set a node's trust level", "trust",
			func(s *string) api.NodeChange { return api.NodeChange{Trust: s} }), newNodeOwnerCmd())
}

// nodeAction completes cmd as POST /v1/nodes/{id}/{action}.
func nodeAction(cmd *cobra.Command, action, done string, request func() (any, error)) {
	cmd.Args = cobra.ExactArgs(1)
	cmd.ValidArgsFunction = remote.CompleteNodes(1)
	cmd.RunE = remote.WithNode(func(cmd *cobra.Command, c *remote.Gateway, id string, _ []string) error {
		in, err := request()
		if err != nil {
			return err
		}
		return c.Change(cmd, http.MethodPost, remote.Path("nodes", id, action), in, "node %s %s", id, done)
	})
}

func newNodePatchCmd(use, short, field string, to func(*string) api.NodeChange) *cobra.Command {
	return &cobra.Command{
		Use:               use,
		Short:             short,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: remote.CompleteNodes(1),
		RunE: remote.WithNode(func(cmd *cobra.Command, c *remote.Gateway, id string, args []string) error {
			return c.Change(cmd, http.MethodPatch, remote.Path("nodes", id), to(&args[1]), "node %s: %s is now %q", id, field,
				args[1])
		}),
	}
}
