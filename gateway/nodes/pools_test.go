package nodes

import (
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// S1-39: how the calls of each class fare is told by heartbeats, for each node and for all.
func TestPoolsAreTold(t *testing.T) {
	p := newPlane(t, nil)
	for range 2 {
		f := p.connected()
		must(t, wire.Write(f.control, &wire.Heartbeat{Seq: 1, Pools: []wire.Pool{{Class: capabilities.ClassT3, Running: 1, Most: 1, Waiting: 2, Queue: 64, Refused: 5}}}))
		f.reader.Accept(wire.KindHeartbeatAck)
		_, err := f.reader.Next()
		must(t, err)
		if v, err := p.View(f.id); err != nil || len(v.Pools) != 1 || v.Pools[0].Waiting != 2 {
			t.Errorf("%+v %v", v.Pools, err)
		}
	}
	if sums := p.Pools(); len(sums) != 1 || sums[capabilities.ClassT3].Running != 2 || sums[capabilities.ClassT3].Waiting != 4 || sums[capabilities.ClassT3].Refused != 10 {
		t.Errorf("%+v", sums)
	}
}
