package guard

import (
	"context"
	"crypto/sha256"
	"path/filepath"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// BenchmarkTicketMadeAndChecked measures what a ticket costs both sides: the
// envelope and the arguments' digest at the gateway, everything the guard checks on
// the device but the owner's rules, which are an evaluation of their own. The floor
// is hashing the same bytes.
func BenchmarkTicketMadeAndChecked(b *testing.B) {
	cat, err := catalog.Embedded()
	if err != nil {
		b.Fatal(err)
	}
	engine, err := policy.Load([]policy.Source{{Name: "owner.cedar", Data: []byte(permitAll)}}, cat)
	if err != nil {
		b.Fatal(err)
	}
	stop, err := OpenStopSwitch(filepath.Join(b.TempDir(), "stop.json"), "site", nil)
	if err != nil {
		b.Fatal(err)
	}
	g := New(Options{
		Node: func() policy.Node { return policy.Node{ID: "n1"} }, Stop: stop,
		Owner: func(policy.Request) policy.Decision { return policy.Decision{Effect: policy.Allow} },
	})
	ready := capabilities.Readiness{Capability: "tyrum.browser.evaluate", Isolation: capabilities.ClassT2}
	args := []byte(`{"expression":"document.title"}`)
	now := time.Now()
	in := policy.EnvelopeInput{
		Profile: engine.Profile(tool), Principal: "agent-1", Role: "agent", Lane: "main", Selected: "n1", Mode: capabilities.SelectSole,
		Node: policy.Node{ID: "n1"}, ArgsDigest: make([]byte, 32), Policy: engine.SnapshotID(), Created: now, Expires: now.Add(time.Minute),
	}
	make := func(seq uint64) *wire.Ticket {
		sealed, err := policy.BuildEnvelope(in)
		if err != nil {
			b.Fatal(err)
		}
		return &wire.Ticket{
			Call: "c1", Tool: tool, Capability: "tyrum.browser.evaluate", Lane: "main", Node: "n1", Args: args, ArgsDigest: sha256.Sum256(args),
			Envelope: sealed.Bytes, Grants: sealed.Grants, Sequence: seq, LifetimeMS: 1000, DeadlineMS: 1000,
		}
	}
	b.Run("floor", func(b *testing.B) {
		t := make(1)
		for b.Loop() {
			for range 2 { // once on each side
				sha256.Sum256(t.Envelope)
				sha256.Sum256(t.Args)
			}
		}
	})
	b.Run("made-and-checked", func(b *testing.B) {
		b.ReportAllocs()
		seq := uint64(1)
		g.Connected(0)
		for b.Loop() {
			if err := g.Check(context.Background(), make(seq), ready); err != nil {
				b.Fatal(err)
			}
			seq++
		}
	})
}
