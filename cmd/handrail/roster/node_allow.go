package roster

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

func newNodeAllowCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "allow NODE [TOOL…]",
		Short: "Change which tools a node may use here",
		Long: "Adds the named tools to the node's allowlist; with --remove takes them away, with --set makes them the whole list.\n" +
			"A tool is an ID such as tool.browser.click, or a family such as tool.browser.*. Without one, prints the list.",
		Args: cobra.MinimumNArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return remote.CompleteNodes(1)(cmd, args, toComplete)
			}
			return knownTools(), cobra.ShellCompDirectiveNoFileComp
		},
	}
	remove := cmd.Flags().Bool("remove", false, "take the named tools away")
	set := cmd.Flags().Bool("set", false, "make the named tools the whole list")
	change := remote.WithNode(func(cmd *cobra.Command, c *remote.Gateway, id string, args []string) error {
		var node remote.Node
		if err := c.Get(cmd.Context(), remote.Path("nodes", id), &node); err != nil {
			return err
		}
		if len(args) == 1 && !*set {
			if terminal.FlagsOf(cmd).JSON {
				return terminal.PrintJSON(cmd.OutOrStdout(), map[string]any{"node_id": node.ID, "allow": node.Allow})
			}
			for _, a := range node.Allow {
				fmt.Fprintln(cmd.OutOrStdout(), terminal.Plain(asTool(a)))
			}
			return nil
		}
		allow, err := changedAllow(&node, args[1:], *remove, *set)
		if err != nil {
			return err
		}
		text := "nothing"
		if len(allow) > 0 {
			text = asTools(allow)
		}
		return c.Change(cmd, http.MethodPatch, remote.Path("nodes", id), api.NodeChange{Allow: &allow}, "node %s may use: %s", id, text)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *remove && *set {
			return terminal.UsageError("--remove and --set exclude each other")
		}
		return change(cmd, args)
	}
	return cmd
}

// asTool returns a capability, or a family of them, under the name of its tools.
func asTool(capability string) string {
	if rest, ok := strings.CutPrefix(capability, "tyrum."); ok {
		return "tool." + rest
	}
	return capability
}

func asTools[S ~string](list []S) string {
	var names []string
	for _, c := range list {
		names = append(names, asTool(string(c)))
	}
	return strings.Join(names, ", ")
}

// asCapability is the reverse of asTool.
func asCapability(tool string) string {
	if rest, ok := strings.CutPrefix(tool, "tool."); ok {
		return "tyrum." + rest
	}
	return tool
}

// changedAllow returns the sorted list after adding, removing or setting named. A name that
// no tool has is refused, and so is taking away what is not there; what a family or *
// allowed stays but for what is taken away.
func changedAllow(node *remote.Node, names []string, remove, set bool) ([]string, error) {
	offered := allOf(node)
	var want []string
	for _, name := range names {
		c := asCapability(name)
		if !known(c, offered) {
			near := remote.Nearest(asTool(c), func(yield func(string)) {
				for _, o := range offered {
					yield(asTool(o))
				}
			})
			if near != "" {
				return nil, terminal.UsageHint("Did you mean "+near+"?", "no tool is named %q", name)
			}
			return nil, &terminal.ExitError{Code: terminal.ExitUsage,
				Err: command.Advise(capabilities.Errorf(capabilities.CodeInvalidRequest, "no tool is named %q", name),
					command.Here("nodes", string(node.ID)), " lists the tools of this node.")}
		}
		want = append(want, c)
	}
	have := slices.Clone(node.Allow)
	switch {
	case set:
		have = want
	case remove:
		for _, c := range want {
			var missing bool
			if have, missing = without(have, c, offered); missing {
				return nil, &terminal.ExitError{Code: terminal.ExitUsage,
					Err: command.Advise(capabilities.Errorf(capabilities.CodeInvalidRequest, "%s is not in the list", asTool(c)),
						command.Here("node", "allow", string(node.ID)), " prints the list.")}
			}
		}
	default:
		have = append(have, want...)
	}
	slices.Sort(have)
	if have = slices.Compact(have); have == nil {
		return []string{}, nil
	}
	return have, nil
}

// allOf returns every capability that can be named of a node: those of this version's catalog
// and those that it offers besides.
func allOf(n *remote.Node) []string {
	var list []string
	for _, c := range slices.Concat(n.Offers, n.Wants) {
		list = append(list, string(c))
	}
	for _, c := range n.Capabilities {
		list = append(list, string(c.Capability))
	}
	for _, a := range n.Allow {
		if !strings.HasSuffix(a, "*") {
			list = append(list, a)
		}
	}
	for _, t := range knownTools() {
		list = append(list, asCapability(t))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// knownTools are the tools of this version that a node may carry out.
func knownTools() []string {
	cat, err := catalog.Embedded()
	if err != nil {
		return nil
	}
	var list []string
	for _, d := range cat.All() {
		if d.Capability != "" {
			list = append(list, string(d.Tool))
		}
	}
	return list
}

// known reports whether a name is a capability of the list, a family of it, or *.
func known(name string, all []string) bool {
	family, isFamily := strings.CutSuffix(name, "*")
	return name == "*" || slices.ContainsFunc(all, func(c string) bool {
		return c == name || isFamily && strings.HasSuffix(family, ".") && strings.HasPrefix(c, family)
	})
}

// without takes a capability or a family out of a list; families and * that allow more
// become what they allow besides.
func without(list []string, gone string, offered []string) (rest []string, missing bool) {
	covers := func(pattern, c string) bool {
		p, ok := strings.CutSuffix(pattern, "*")
		return pattern == c || ok && strings.HasPrefix(c, p)
	}
	missing = true
	for _, have := range list {
		switch {
		case covers(gone, have):
			missing = false
		case covers(have, strings.TrimSuffix(gone, "*")):
			missing = false
			for _, c := range offered {
				if covers(have, c) && !covers(gone, c) {
					rest = append(rest, c)
				}
			}
		default:
			rest = append(rest, have)
		}
	}
	return rest, missing
}

// checkAllow refuses names in --allow that no tool has, and returns the capabilities of the others.
func checkAllow(names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	n := &remote.Node{Node: api.Node{ID: "NODE"}}
	return changedAllow(n, names, false, true)
}
