package remote

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/naming"
)

// Named is something that a person may mean: its ID, and the name that people gave it.
type Named = naming.Thing

// Choose returns the ID that a person means by text: the ID itself, else the one whose label
// it is, else the only one whose ID or label begins with it. Several are listed and none
// is chosen; none is told with what there is.
func Choose(what, text string, all []Named) (string, error) {
	if text == "" {
		return "", nil
	}
	found := naming.Meant(text, all)
	switch len(found) {
	case 1:
		return found[0].ID, nil
	case 0:
		code := capabilities.CodeNotFound
		if what == "node" {
			code = capabilities.CodeNodeNotFound
		}
		return "", capabilities.Errorf(code, "there is no %s %q", what, text).WithHint(like(what, text, all))
	}
	return "", terminal.UsageHint("Give more of the ID: "+list(found)+".", "%q may be %d of them", text, len(found))
}

// like says what somebody who wrote text may have meant.
func like(what, text string, all []Named) string {
	near := Nearest(text, func(yield func(string)) {
		for _, n := range all {
			yield(n.ID)
			yield(n.Label)
		}
	})
	switch {
	case near != "":
		return "Did you mean " + near + "?"
	case len(all) == 0:
		return "There is none."
	case len(all) <= 8:
		return "There is: " + list(all) + "."
	}
	return map[string]string{"node": "'handrail nodes' lists them.", "approval": "'handrail approvals' lists them.",
		"grant": "'handrail grant list' lists them.",
		"token": "'handrail token list' lists them.", "file": "'handrail artifacts list' lists them.",
		"satellite": "'handrail satellite list' lists them.", "worker": "'handrail worker list' lists them."}[what]
}

func list(all []Named) string {
	var names []string
	for _, n := range all {
		name := n.ID
		if n.Label != "" {
			name += " (" + n.Label + ")"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// Nearest returns the word that differs least from text, if it differs little.
func Nearest(text string, words func(yield func(string))) string {
	best, least := "", 1+len(text)/4
	words(func(w string) {
		if w == "" || w == text {
			return
		}
		if d := distance(strings.ToLower(text), strings.ToLower(w)); d <= least && (best == "" || d < least) {
			best, least = w, d
		}
	})
	return best
}

// distance is how many characters have to be changed, put in or taken out (Levenshtein).
func distance(a, b string) int {
	if max(len(a), len(b)) > 256 {
		return max(len(a), len(b))
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := last
			if a[i] != b[j] {
				change++
			}
			last = row[j+1]
			row[j+1] = min(change, row[j]+1, last+1)
		}
	}
	return row[len(b)]
}

// allNodes returns the nodes that are in or want in. A caller who may not see them gets none, and
// has to write IDs.
func (c *Gateway) allNodes(cmd *cobra.Command) ([]Named, error) {
	var answer struct {
		Nodes []Node `json:"nodes"`
	}
	err := c.Get(cmd.Context(), Path("nodes"), &answer)
	var all, out []Named
	for _, n := range answer.Nodes {
		one := Named{ID: string(n.ID), Label: n.Label}
		if n.State == "approved" || n.State == "pending" {
			all = append(all, one)
		} else {
			out = append(out, Named{ID: one.ID}) // who was put out is named by its ID alone
		}
	}
	return append(all, out...), err
}

// NodeID returns the ID of the node that a person means.
func (c *Gateway) NodeID(cmd *cobra.Command, text string) (string, error) {
	if text == "" {
		return "", nil
	}
	all, err := c.allNodes(cmd)
	if capabilities.CodeOf(err) == capabilities.CodeForbidden {
		return text, nil // the gateway says whether there is such a node
	}
	if err != nil {
		return "", err
	}
	return Choose("node", text, all)
}

// WithNode has a command do something to the node that its first argument means.
func WithNode(do func(cmd *cobra.Command, c *Gateway, id string, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := Find(cmd)
		if err != nil {
			return err
		}
		id, err := c.NodeID(cmd, args[0])
		if err != nil {
			return err
		}
		return do(cmd, c, id, args)
	}
}

// ListedID returns the ID that a person means of a list that the gateway has.
func (c *Gateway) ListedID(cmd *cobra.Command, what, text, at, field, id string, label ...string) (string, error) {
	raw, err := c.List(cmd, Path(at), field)
	if err != nil {
		return "", err
	}
	items, err := DecodeAll[map[string]any](raw)
	if err != nil {
		return "", err
	}
	var all []Named
	for _, item := range items {
		n := Named{ID: fmt.Sprint(item[id])}
		for _, l := range label {
			if text, ok := item[l].(string); ok {
				n.Label = cmp.Or(n.Label, text)
			}
		}
		all = append(all, n)
	}
	return Choose(what, text, all)
}

// SoleNode returns the one node that may be meant where none is named.
func (c *Gateway) SoleNode(cmd *cobra.Command) (string, error) {
	var answer struct {
		Nodes []Node `json:"nodes"`
	}
	if err := c.Get(cmd.Context(), Path("nodes"), &answer); err != nil {
		return "", err
	}
	var all []Named
	for _, n := range answer.Nodes {
		if n.State == "approved" {
			all = append(all, Named{ID: string(n.ID), Label: n.Label})
		}
	}
	switch len(all) {
	case 1:
		return all[0].ID, nil
	case 0:
		return "", capabilities.Errorf(capabilities.CodeNodeNotFound, "no node is paired").
			WithAction(capabilities.Action{Key: capabilities.ActionPairNode}, "Have one paired.")
	}
	return "", terminal.UsageHint("Name it with --node: "+list(all)+".", "there are %d nodes", len(all))
}
