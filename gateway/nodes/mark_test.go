package nodes

import (
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/pairing"
)

// A node's word that a later copy of the site was restored counts with the proof of the site's key
// alone: a node that lies does not end a gateway.
func TestOnlyAProofSupersedes(t *testing.T) {
	heard := make(chan pairing.Mark, 10)
	p := newPlane(t, func(o *Options) {
		o.Mark = o.Site.Mark(5)
		o.OnSuperseded = func(_ capabilities.NodeID, later pairing.Mark) { heard <- later }
	})
	id, key := p.enrolled()
	other := newPlane(t, nil)
	hello := func(m pairing.Mark) *wire.Hello {
		return &wire.Hello{Version: 1, MinVersion: 1, Node: id, Generation: m.Generation, GenerationProof: m.Proof}
	}
	for name, c := range map[string]struct {
		mark pairing.Mark
		want wire.CloseCode
	}{
		"another site's proof":        {other.opts.Site.Mark(6), wire.CloseProtocol},
		"a proof of another number":   {pairing.Mark{Generation: 9, Proof: p.opts.Site.Mark(6).Proof}, wire.CloseProtocol},
		"a proof that is long enough": {pairing.Mark{Generation: 6, Proof: make([]byte, 64)}, wire.CloseProtocol},
	} {
		f := p.fake(id, key)
		must(t, wire.Write(f.control, hello(c.mark)))
		if got := closedWith(t, f.conn); got != c.want {
			t.Errorf("%s: closed with %d, want %d", name, got, c.want)
		}
	}
	if len(heard) > 0 {
		t.Fatalf("believed: %+v", <-heard)
	}
	// A node that knows less, or as much, is told ours.
	for _, known := range []uint64{0, 4, 5} {
		f := p.fake(id, key)
		must(t, wire.Write(f.control, hello(p.opts.Site.Mark(known))))
		m, err := f.reader.Next()
		must(t, err)
		if ack := m.(*wire.HelloAck); ack.Generation != 5 || p.opts.Site.VerifyMark(pairing.Mark{Generation: ack.Generation, Proof: ack.GenerationProof}) != nil {
			t.Errorf("%+v", ack)
		}
	}
	f := p.fake(id, key)
	must(t, wire.Write(f.control, hello(p.opts.Site.Mark(6))))
	if got := closedWith(t, f.conn); got != wire.CloseSuperseded {
		t.Errorf("closed with %d", got)
	}
	if later := <-heard; later.Generation != 6 {
		t.Errorf("heard of %d", later.Generation)
	}
}
