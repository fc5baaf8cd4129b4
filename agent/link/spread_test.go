package link

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/pairing"
)

// A fleet spreads over its gateways, each node always prefers the same one, and one that goes
// moves no node that prefers another.
func TestNodesSpread(t *testing.T) {
	gateways := [][]string{{"a.example:7443"}, {"b.example:7443", "192.0.2.2:7443"}, {"c.example:7443"}}
	const nodes = 3000
	count := map[string]int{}
	for range nodes {
		node := pairing.NewNodeID()
		first := places(node, gateways, nil)[0]
		count[first]++
		other := slices.Clone(gateways)
		slices.Reverse(other)
		if again := places(node, other, nil)[0]; again != first {
			t.Fatalf("%s in one order, %s in the other", first, again)
		}
		for i, gone := range gateways {
			left := slices.Delete(slices.Clone(gateways), i, i+1)
			if gone[0] != first && places(node, left, nil)[0] != first {
				t.Fatalf("%s moved because %s went", node, gone)
			}
		}
	}
	for _, g := range gateways {
		if n := count[g[0]]; n < nodes/3-nodes/10 || n > nodes/3+nodes/10 {
			t.Errorf("%d of %d nodes prefer %s", n, nodes, g[0])
		}
	}
}

// Every address is tried once, a gateway's own in its order, what the code named last.
func TestPlacesKeepAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var gateways [][]string
		for g := range rapid.IntRange(0, 5).Draw(t, "gateways") {
			var addrs []string
			for a := range rapid.IntRange(1, 3).Draw(t, "addrs") {
				addrs = append(addrs, fmt.Sprintf("g%d-%d:1", g, a))
			}
			gateways = append(gateways, addrs)
		}
		all := places(pairing.NewNodeID(), gateways, []string{"joined:1", "g0-0:1"})
		for _, addrs := range gateways {
			at := slices.Index(all, addrs[0])
			if at < 0 || !slices.Equal(all[at:at+len(addrs)], addrs) {
				t.Fatalf("%v of %v", addrs, all)
			}
		}
		if !slices.Contains(all, "joined:1") || len(slices.Compact(slices.Sorted(slices.Values(all)))) != len(all) {
			t.Fatalf("%v", all)
		}
	})
}
