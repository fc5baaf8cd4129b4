package remote

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// Node is a node as the REST surface shows it; fields this version does not
// know are kept for --json by printing the raw object.
type Node struct{ api.Node }

// Ready says how many of its capabilities are ready.
func (n Node) Ready() string {
	ready := 0
	for _, c := range n.Capabilities {
		if c.Available {
			ready++
		}
	}
	return fmt.Sprintf("%d of %d", ready, len(n.Capabilities))
}

// System is its operating system and processor.
func (n Node) System() string { return strings.TrimSuffix(n.Platform+"/"+n.Arch, "/") }

// Seen says whether it is connected, or when it last was.
func (n Node) Seen() string {
	switch {
	case n.Connected && n.Stopped:
		return "connected, stopped"
	case n.Connected && n.Around():
		return "connected by " + n.Transport
	case n.Connected:
		return "connected"
	}
	return terminal.Ago(time.Now(), n.LastSeen)
}

// Around reports whether its connection goes round a network that drops UDP.
func (n Node) Around() bool { return n.Transport != "" && n.Transport != "quic" }

// ByFamily shortens a list of capabilities to "browser: click, close; …".
func ByFamily(list []capabilities.CapabilityID) string {
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

// CapabilityRow returns the row of a capability: its tool, whether it is ready, and why not.
func CapabilityRow(c api.Capability) []string {
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

// NodeNames are the labels of the nodes by their IDs; none for those that have no label
// of their own, or if the caller may not know.
func (c *Gateway) NodeNames(cmd *cobra.Command) map[string]string {
	var answer struct {
		Nodes []Node `json:"nodes"`
	}
	names := map[string]string{}
	if c.Get(cmd.Context(), Path("nodes"), &answer) != nil {
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

// CompleteNodes completes the first limit arguments with node IDs of a running
// gateway; without one it offers nothing.
func CompleteNodes(limit int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= limit {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var answer struct {
			Nodes []Node `json:"nodes"`
		}
		c, err := Find(cmd)
		if err != nil || c.Get(cmd.Context(), Path("nodes"), &answer) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var ids []string
		for _, n := range answer.Nodes {
			ids = append(ids, cobra.CompletionWithDesc(string(n.ID), n.Label))
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}
