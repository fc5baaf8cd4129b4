package nodes

import (
	"maps"
	"slices"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
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

// SecretsDone passes a person's word on a lane's secrets to every connected node. left are
// those that could not be told.
func (n *Nodes) SecretsDone(lane capabilities.LaneID) (told int, left []capabilities.NodeID) {
	n.mu.RLock()
	sessions := maps.Clone(n.sessions)
	n.mu.RUnlock()
	for id, s := range sessions {
		if !s.takesDone || s.send(&wire.SecretsDone{Lane: lane}) != nil {
			left = append(left, id)
			continue
		}
		told++
	}
	slices.Sort(left)
	return told, left
}
