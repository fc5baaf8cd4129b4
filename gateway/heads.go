package gateway

import (
	"context"
	"crypto/ed25519"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// keepHeadWithin bounds the writing of one node's head.
const keepHeadWithin = 5 * time.Second

// nodeHead keeps the latest signed head of a node's own log, so that a truncated
// journal shows. It does not block the node's session.
func (g *Gateway) nodeHead(node capabilities.NodeID, key ed25519.PublicKey, h wire.Head) {
	head := chain.Head{Chain: string(node), Seq: h.Seq, Hash: h.Hash, Time: h.Time}
	if len(h.Sig) != len(head.Sig) || len(key) != len(head.Key) {
		return
	}
	copy(head.Key[:], key)
	copy(head.Sig[:], h.Sig)
	select {
	case g.heads <- nodeHead{node, head}:
	default: // the next heartbeat brings a later one
	}
}

type nodeHead struct {
	node capabilities.NodeID
	head chain.Head
}

// keepHeads writes node heads down, one after the other, until ctx ends.
func (g *Gateway) keepHeads(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case h := <-g.heads:
			within, cancel := context.WithTimeout(ctx, keepHeadWithin)
			if err := g.Ledger.KeepNodeHead(within, h.node, h.head); err != nil && ctx.Err() == nil {
				g.log.Error("ledger.node_head", "node", h.node, "err", err)
			}
			cancel()
		}
	}
}

// head returns the ledger's signed head for nodes to keep.
func (g *Gateway) head() *wire.Head {
	h := g.Ledger.Head()
	if h.Sig == (chain.Sig{}) {
		return nil
	}
	return &wire.Head{Seq: h.Seq, Hash: h.Hash, Time: h.Time, Sig: h.Sig[:]}
}
