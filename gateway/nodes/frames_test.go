package nodes

import (
	"testing"

	"github.com/handrail-dev/handrail/capabilities/wire"
)

// A node that talks without end is put out, whatever it says; one that keeps to the
// protocol is heard.
func TestTalkativeNode(t *testing.T) {
	p := newPlane(t, nil)
	for name, m := range map[string]wire.Message{
		"stops":     &wire.Stop{Epoch: 1},
		"readiness": &wire.Readiness{},
	} {
		f := p.connected()
		data := frame(t, m)
		for range frameBurst { // five times what it may; the gateway closes meanwhile
			if _, err := f.control.Write(data); err != nil {
				break
			}
		}
		if got := closedWith(t, f.conn); got != wire.CloseOverloaded {
			t.Errorf("%s: closed with %d", name, got)
		}
		p.awaitGone(f.id)
	}
}
