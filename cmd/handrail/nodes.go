package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// nodeView is a node as the REST surface shows it; fields this version does not
// know are kept for --json by printing the raw object.
type nodeView struct{ api.Node }

func (n nodeView) ready() string {
	ready := 0
	for _, c := range n.Capabilities {
		if c.Available {
			ready++
		}
	}
	return fmt.Sprintf("%d of %d", ready, len(n.Capabilities))
}

func (n nodeView) system() string { return strings.TrimSuffix(n.Platform+"/"+n.Arch, "/") }

func (n nodeView) seen() string {
	switch {
	case n.Connected && n.Stopped:
		return "connected, stopped"
	case n.Connected:
		return "connected"
	}
	return ago(time.Now(), n.LastSeen)
}

// byFamily shortens a list of capabilities to "browser: click, close; …".
func byFamily(list []capabilities.CapabilityID) string {
	actions := map[string][]string{}
	for _, c := range list {
		tool := c.Tool()
		actions[tool.Family()] = append(actions[tool.Family()], tool.Action())
	}
	var parts []string
	for _, family := range slices.Sorted(maps.Keys(actions)) {
		slices.Sort(actions[family])
		parts = append(parts, family+": "+strings.Join(actions[family], ", "))
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, "; ")
}

// decodeAll turns the raw objects of a list into values for the printed form.
func decodeAll[T any](raw []json.RawMessage) ([]T, error) {
	all := make([]T, len(raw))
	for i, r := range raw {
		if err := json.Unmarshal(r, &all[i]); err != nil {
			return nil, fmt.Errorf("the gateway's answer is not what this version expects: %w", err)
		}
	}
	return all, nil
}

// listed fetches a list; done says that it was printed as it came, for --json.
func listed[T any](cmd *cobra.Command, c *remote, path, field string) (all []T, done bool, err error) {
	raw, err := c.list(cmd, path, field)
	if err != nil {
		return nil, false, err
	}
	if commonOf(cmd).json {
		return nil, true, printItems(cmd.OutOrStdout(), raw)
	}
	all, err = decodeAll[T](raw)
	return all, false, err
}

// nodeNames are the labels of the nodes by their IDs; none for those that have no label
// of their own, or if the caller may not know.
func (c *remote) nodeNames(cmd *cobra.Command) map[string]string {
	var answer struct {
		Nodes []nodeView `json:"nodes"`
	}
	names := map[string]string{}
	if c.get(cmd.Context(), path("nodes"), &answer) != nil {
		return names
	}
	shared := map[string]int{}
	for _, n := range answer.Nodes {
		shared[n.Label]++
	}
	for _, n := range answer.Nodes {
		if shared[n.Label] == 1 {
			names[string(n.ID)] = n.Label
		}
	}
	return names
}

// list fetches path and returns the raw objects under field.
func (c *remote) list(cmd *cobra.Command, path, field string) ([]json.RawMessage, error) {
	var answer map[string]json.RawMessage
	if err := c.get(cmd.Context(), path, &answer); err != nil {
		return nil, err
	}
	var items []json.RawMessage
	if raw := answer[field]; len(raw) > 0 {
		if err := json.Unmarshal(raw, &items); err != nil {
			return nil, fmt.Errorf("the gateway's answer is not what this version expects: %w", err)
		}
	}
	return items, nil
}

func newNodesCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "nodes [NODE]",
		Short:             "List the nodes, or show one with what it can do",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeNodes(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return showNode(cmd, args)
			}
			return listNodes(cmd)
		},
	}
}

func listNodes(cmd *cobra.Command) error {
	c, err := newClient(cmd)
	if err != nil {
		return err
	}
	nodes, done, err := listed[nodeView](cmd, c, path("nodes"), "nodes")
	if done || err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if len(nodes) == 0 {
		fmt.Fprintln(out, "No nodes yet. 'handrail pair' lets one in.")
		return nil
	}
	t := newTable(out, "NODE", "LABEL", "STATE", "SEEN", "TRUST", "OWNER", "PLATFORM", "READY")
	for _, n := range nodes {
		t.row(string(n.ID), n.Label, n.State, n.seen(), n.Trust, string(n.Owner), n.system(), n.ready())
	}
	t.flush()
	noteStop(cmd, c)
	return nil
}

// showNode prints the node that the first argument means.
var showNode = withNode(func(cmd *cobra.Command, c *remote, id string, _ []string) error {
	var raw json.RawMessage
	if err := c.get(cmd.Context(), path("nodes", id), &raw); err != nil {
		return err
	}
	if commonOf(cmd).json {
		return printJSON(cmd.OutOrStdout(), raw)
	}
	nodes, err := decodeAll[nodeView]([]json.RawMessage{raw})
	if err != nil {
		return err
	}
	printNode(cmd, nodes[0])
	return nil
})

func printNode(cmd *cobra.Command, n nodeView) {
	out := cmd.OutOrStdout()
	for _, line := range [][2]string{
		{"node", string(n.ID)}, {"label", n.Label}, {"state", n.State}, {"reason", n.Reason}, {"seen", n.seen()}, {"trust", n.Trust}, {"owner", string(n.Owner)},
		{"host", n.Host}, {"platform", n.system()}, {"key", n.Fingerprint}, {"version", n.Agent},
		{"labels", strings.Join(n.Labels, ", ")}, {"allowed", asTools(n.Allow)}, {"wants", asTools(n.Wants)},
	} {
		if line[1] != "" {
			fmt.Fprintf(out, "%-9s %s\n", line[0], plain(line[1]))
		}
	}
	if len(n.Wants) > 0 {
		fmt.Fprintf(out, "          It offers more than it may do here: 'handrail node allow %s TOOL…' allows it.\n", plain(string(n.ID)))
	}
	if len(n.Capabilities) == 0 {
		return
	}
	fmt.Fprintln(out)
	t := newTable(out, "TOOL", "READY", "ISOLATION", "BACKEND", "REASON AND FIX")
	for _, c := range n.Capabilities {
		t.row(capabilityRow(c)...)
	}
	t.flush()
}

func capabilityRow(c api.Capability) []string {
	name := string(c.Tool)
	if name == "" {
		name = string(c.Capability)
	}
	ready := "no"
	if c.Available {
		ready = "yes"
	}
	isolation := string(c.Isolation)
	if c.Degraded != "" {
		isolation += " without " + c.Degraded
	}
	why := string(c.Reason)
	if c.Fix != "" {
		why = strings.TrimPrefix(why+": "+c.Fix, ": ")
	}
	return []string{name, ready, isolation, backendOf(c), why}
}

// backendOf says what carries it out, with which devices.
func backendOf(c api.Capability) string {
	text := c.Backend
	if c.Fake {
		text += " (fake devices)"
	}
	for i, d := range c.Devices {
		sep := ", "
		if i == 0 {
			sep = ": "
		}
		text += sep + d.ID
	}
	if len(c.Hosts) > 0 {
		text = strings.TrimPrefix(text+"; reaches "+strings.Join(c.Hosts, ", "), "; ")
	}
	return text
}

// addNodeAdminCmds adds the commands that manage a gateway's nodes.
func addNodeAdminCmds(parent *cobra.Command) {
	list := newNodesCmd()
	list.Use = "list [NODE]"
	list.Aliases = []string{"show"}

	approve := &cobra.Command{Use: "approve NODE", Short: "Let a pending node in"}
	approveAllow := approve.Flags().StringSlice("allow", nil, "tools it may use (default: those of its invite)")
	approveTrust := approve.Flags().String("trust", "", "trust level")
	approveLabel := approve.Flags().String("label", "", "name for people")
	nodeAction(approve, "approve", "is approved", func() (map[string]any, error) {
		allow, err := checkAllow(*approveAllow)
		return body("allow", allow, "trust", *approveTrust, "label", *approveLabel), err
	})

	deny := &cobra.Command{Use: "deny NODE", Short: "Turn a pending node away"}
	nodeAction(deny, "deny", "is turned away", func() (map[string]any, error) { return body(), nil })

	revoke := &cobra.Command{Use: "revoke NODE", Short: "End a node's pairing at once and for good"}
	reason := revoke.Flags().String("reason", "", "why, for the record")
	nodeAction(revoke, "revoke", "is revoked; its connection is closed", func() (map[string]any, error) { return body("reason", *reason), nil })

	parent.AddCommand(list, approve, deny, revoke, newNodeAllowCmd(),
		newNodePatchCmd("label NODE LABEL", "Name a node for people", "label"),
		newNodePatchCmd("trust NODE LEVEL", "Set a node's trust level", "trust"), newNodeOwnerCmd())
}

// body builds a request from (name, value) pairs, leaving out empty values.
func body(pairs ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		switch v := pairs[i+1].(type) {
		case string:
			if v == "" {
				continue
			}
		case []string:
			if len(v) == 0 {
				continue
			}
		case int:
			if v == 0 {
				continue
			}
		case bool:
			if !v {
				continue
			}
		}
		m[pairs[i].(string)] = pairs[i+1]
	}
	return m
}

// nodeAction completes cmd as POST /v1/nodes/{id}/{action}.
func nodeAction(cmd *cobra.Command, action, done string, request func() (map[string]any, error)) {
	cmd.Args = cobra.ExactArgs(1)
	cmd.ValidArgsFunction = completeNodes(1)
	cmd.RunE = withNode(func(cmd *cobra.Command, c *remote, id string, _ []string) error {
		in, err := request()
		if err != nil {
			return err
		}
		return c.change(cmd, http.MethodPost, path("nodes", id, action), in, "node %s %s", id, done)
	})
}

func newNodePatchCmd(use, short, field string) *cobra.Command {
	return &cobra.Command{
		Use:               use,
		Short:             short,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeNodes(1),
		RunE: withNode(func(cmd *cobra.Command, c *remote, id string, args []string) error {
			return c.change(cmd, http.MethodPatch, path("nodes", id), map[string]any{field: args[1]}, "node %s: %s is now %q", id, field, args[1])
		}),
	}
}

// completeNodes completes the first limit arguments with node IDs of a running
// gateway; without one it offers nothing.
func completeNodes(limit int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= limit {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var answer struct {
			Nodes []nodeView `json:"nodes"`
		}
		c, err := newClient(cmd)
		if err != nil || c.get(cmd.Context(), path("nodes"), &answer) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var ids []string
		for _, n := range answer.Nodes {
			ids = append(ids, cobra.CompletionWithDesc(string(n.ID), n.Label))
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}
