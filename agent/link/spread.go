package link

import (
	"bytes"
	"crypto/sha256"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/pairing"
)

// places returns the addresses of all gateways that a node knows, in the order to try them. Each
// node prefers another gateway, by the highest hash of both names (rendezvous hashing): a fleet
// spreads, and where a gateway comes or goes, only the nodes that prefer it go elsewhere. Addresses
// that the code named and no gateway did come last.
func places(node capabilities.NodeID, gateways [][]string, joined []string) []string {
	ranked := slices.Clone(gateways)
	weight := func(addrs []string) []byte {
		// By the first address in the order of letters: gateways may list them differently.
		sum := sha256.Sum256([]byte("handrail rendezvous\x00" + string(node) + "\x00" + slices.Min(addrs)))
		return sum[:]
	}
	slices.SortStableFunc(ranked, func(a, b []string) int { return bytes.Compare(weight(b), weight(a)) })
	var all []string
	for _, addrs := range append(ranked, joined) {
		for _, a := range addrs {
			if !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	return all
}

// told keeps the site's gateways as the present one names them, for the next connection.
func (l *Link) told(gateways [][]string) {
	if len(gateways) == 0 || slices.EqualFunc(gateways, l.id.Gateways, slices.Equal) || !known(gateways) {
		return
	}
	l.id.Gateways = gateways
	// The identity on the disk, and not l.id: its addresses may be those of this run alone.
	kept, err := LoadIdentity(l.opts.Dir)
	if err == nil {
		kept.Gateways = gateways
		err = kept.save(l.opts.Dir)
	}
	if err != nil {
		l.log.Warn("node.gateways_not_kept", "node", l.id.Node, "err", err)
	}
}

// known reports whether all are addresses that a node can try.
func known(gateways [][]string) bool {
	if len(gateways) > wire.MaxGateways {
		return false
	}
	for _, addrs := range gateways {
		if len(addrs) == 0 || slices.ContainsFunc(addrs, func(a string) bool { return pairing.CheckAddr(a) != nil }) {
			return false
		}
	}
	return true
}
