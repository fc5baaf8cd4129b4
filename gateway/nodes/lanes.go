package nodes

import (
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
)

// EndLane tells every connected node to free what a lane holds, side by side. It
// returns once each was told or given up.
func (n *Nodes) EndLane(lane capabilities.LaneID) {
	n.mu.RLock()
	ids := make([]capabilities.NodeID, 0, len(n.sessions))
	for id := range n.sessions {
		ids = append(ids, id)
	}
	n.mu.RUnlock()
	var telling sync.WaitGroup
	defer telling.Wait()
	for _, id := range ids {
		telling.Go(func() { n.CloseLane(id, lane) })
	}
}
