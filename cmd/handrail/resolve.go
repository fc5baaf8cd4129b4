package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/naming"
)

// named is something that a person may mean: its ID, and the name that people gave it.
type named = naming.Thing

// choose returns the ID that a person means by text: the ID itself, else the one whose label
// it is, else the only one whose ID or label begins with it. Several are listed and none
// is chosen; none is told with what there is.
func choose(what, text string, all []named) (string, error) {
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
	return "", usageHint("Give more of the ID: "+list(found)+".", "%q may be %d of them", text, len(found))
}

// like says what somebody who wrote text may have meant.
func like(what, text string, all []named) string {
	near := nearest(text, func(yield func(string)) {
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
	return map[string]string{"node": "'handrail nodes' lists them.", "approval": "'handrail approvals' lists them.", "grant": "'handrail grant list' lists them.",
		"token": "'handrail token list' lists them.", "file": "'handrail artifacts list' lists them."}[what]
}

func list(all []named) string {
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

// nearest returns the word that differs least from text, if it differs little.
func nearest(text string, words func(yield func(string))) string {
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
func (c *remote) allNodes(cmd *cobra.Command) ([]named, error) {
	var answer struct {
		Nodes []nodeView `json:"nodes"`
	}
	err := c.get(cmd.Context(), path("nodes"), &answer)
	var all, out []named
	for _, n := range answer.Nodes {
		one := named{ID: string(n.ID), Label: n.Label}
		if n.State == "approved" || n.State == "pending" {
			all = append(all, one)
		} else {
			out = append(out, named{ID: one.ID}) // who was put out is named by its ID alone
		}
	}
	return append(all, out...), err
}

// nodeID returns the ID of the node that a person means.
func (c *remote) nodeID(cmd *cobra.Command, text string) (string, error) {
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
	return choose("node", text, all)
}

// withNode has a command do something to the node that its first argument means.
func withNode(do func(cmd *cobra.Command, c *remote, id string, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := newClient(cmd)
		if err != nil {
			return err
		}
		id, err := c.nodeID(cmd, args[0])
		if err != nil {
			return err
		}
		return do(cmd, c, id, args)
	}
}

// listedID returns the ID that a person means of a list that the gateway has.
func (c *remote) listedID(cmd *cobra.Command, what, text, at, field, id string, label ...string) (string, error) {
	raw, err := c.list(cmd, path(at), field)
	if err != nil {
		return "", err
	}
	items, err := decodeAll[map[string]any](raw)
	if err != nil {
		return "", err
	}
	var all []named
	for _, item := range items {
		n := named{ID: fmt.Sprint(item[id])}
		for _, l := range label {
			if text, ok := item[l].(string); ok {
				n.Label = cmp.Or(n.Label, text)
			}
		}
		all = append(all, n)
	}
	return choose(what, text, all)
}

// soleNode returns the one node that may be meant where none is named.
func (c *remote) soleNode(cmd *cobra.Command) (string, error) {
	var answer struct {
		Nodes []nodeView `json:"nodes"`
	}
	if err := c.get(cmd.Context(), path("nodes"), &answer); err != nil {
		return "", err
	}
	var all []named
	for _, n := range answer.Nodes {
		if n.State == "approved" {
			all = append(all, named{ID: string(n.ID), Label: n.Label})
		}
	}
	switch len(all) {
	case 1:
		return all[0].ID, nil
	case 0:
		return "", capabilities.Errorf(capabilities.CodeNodeNotFound, "no node is paired").WithAction(capabilities.Action{Key: capabilities.ActionPairNode}, "Have one paired.")
	}
	return "", usageHint("Name it with --node: "+list(all)+".", "there are %d nodes", len(all))
}
