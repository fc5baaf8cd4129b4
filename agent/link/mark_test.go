package link

import (
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/pairing"
)

// A node takes generations of its site that the site's key proves, keeps the highest, and ends the
// connection to a gateway of a lower one, such as one of an earlier program that says none.
func TestGenerations(t *testing.T) {
	g := newFakeGateway(t)
	told := make(chan uint64, 10)
	superseded := make(chan struct{}, 100)
	l := g.node(func(o *Options) {
		o.OnRestored = func(generation uint64) { told <- generation }
		o.OnState = func(s State) {
			if capabilities.CodeOf(s.Err) == capabilities.CodeSiteSuperseded {
				select {
				case superseded <- struct{}{}:
				default:
				}
			}
		}
	})
	dir := l.opts.Dir
	g.run(l)
	of := func(m pairing.Mark) *wire.HelloAck {
		a := *ack
		a.Generation, a.GenerationProof = m.Generation, m.Proof
		return &a
	}
	other := newFakeGateway(t).site
	kept := func() uint64 {
		t.Helper()
		id, err := LoadIdentity(dir)
		must(t, err)
		return id.Mark.Generation
	}

	conn, control := g.accept()
	must(t, wire.Write(control, of(other.Mark(9)))) // proven by another site
	if code := closedWith(t, conn); code != wire.CloseProtocol || kept() != 0 {
		t.Errorf("an unproven generation: closed with %d, kept %d", code, kept())
	}
	conn, control = g.accept()
	must(t, wire.Write(control, of(g.site.Mark(7))))
	select {
	case generation := <-told:
		if generation != 7 {
			t.Errorf("told of %d", generation)
		}
	case <-time.After(patience):
		t.Fatal("the node takes no generation")
	}
	closeWith(conn, wire.CloseDone)
	for _, lower := range []pairing.Mark{{}, g.site.Mark(6)} {
		conn, control = g.accept()
		if kept() != 7 {
			t.Errorf("kept %d", kept())
		}
		must(t, wire.Write(control, of(lower)))
		if code := closedWith(t, conn); code != wire.CloseSuperseded {
			t.Errorf("generation %d: closed with %d", lower.Generation, code)
		}
		select {
		case <-superseded:
		case <-time.After(patience):
			t.Fatal("nobody is told")
		}
	}
	_, control = g.accept() // it comes back, for the later copy may
	must(t, wire.Write(control, of(g.site.Mark(8))))
	if generation := <-told; generation != 8 {
		t.Errorf("told of %d", generation)
	}
}
