package bus

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools/remote"
	"github.com/handrail-dev/handrail/gateway/route"
)

// bare is a bus that knows nobody.
func bare(changed func()) *Bus {
	b := &Bus{
		opts: Options{Now: time.Now, Log: slog.New(slog.DiscardHandler), Changed: changed}, roster: map[capabilities.NodeID]*satellite{}, byKey: map[string]*satellite{},
		invites: map[string]*invite{}, refused: map[string]uint64{}, manifests: map[string]*said{}, pending: map[string]*exchange{},
	}
	b.running, b.stop = context.WithCancel(context.Background())
	return b
}

// Close ends while a question to a satellite is on its way: that looks for the connection.
func TestCloseWhileAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bare(func() {})
		b.works.Go(func() {
			<-b.running.Done()
			time.Sleep(time.Second) // Close waits by now
			b.fetch(&satellite{}, "")
		})
		b.Close()
	})
}

var someHash = "sha256:" + strings.Repeat("0a", 32)

// speaker is an approved satellite that says what a test has it say.
type speaker struct {
	t    *testing.T
	of   *satellite
	pair nkeys.KeyPair
	mac  *remote.Key // in place of a signature
	seq  uint64
}

func speaks(t *testing.T, b *Bus, service, id string) *speaker {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	key, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	s := &satellite{record: record{id: capabilities.NodeID(id), service: service, key: key, state: route.StateApproved}}
	s.said = &said{hash: someHash}
	b.put(s)
	return &speaker{t: t, of: s, pair: pair}
}

func (s *speaker) beat(b *Bus, change func(*remote.Heartbeat)) {
	s.t.Helper()
	b.beat(&nats.Msg{Subject: s.of.beatsAt, Data: s.says(change)})
}

// says returns its next heartbeat.
func (s *speaker) says(change func(*remote.Heartbeat)) []byte {
	s.t.Helper()
	s.seq++
	h := remote.Heartbeat{
		Contract: remote.Version, Satellite: string(s.of.id), Service: s.of.service, Host: "box", Subjects: []string{}, Manifest: someHash,
		Ready: true, Connected: true, UptimeS: 10, TS: time.Now().UTC().Format(time.RFC3339Nano), Seq: s.seq,
	}
	if change != nil {
		change(&h)
	}
	sign := s.pair.Sign
	if s.mac != nil {
		sign = s.mac.MAC
	}
	data, err := h.Sign(sign)
	if err != nil {
		s.t.Fatal(err)
	}
	return data
}

// client is one that connects and proves its key.
type client struct {
	server.ClientAuthentication
	pair nkeys.KeyPair
}

func (c client) GetOpts() *server.ClientOpts {
	key, _ := c.pair.PublicKey()
	sig, _ := c.pair.Sign(c.GetNonce())
	return &server.ClientOpts{Nkey: key, Sig: base64.RawURLEncoding.EncodeToString(sig)}
}
func (client) GetNonce() []byte          { return []byte("nonce") }
func (client) RegisterUser(*server.User) {}
func (client) GetID() uint64             { return 7 }

// A satellite that connects while the bus closes begins no work that nobody waits for.
func TestNobodyEntersAClosedBus(t *testing.T) {
	b := bare(func() {})
	s := speaks(t, b, "voice", "t7k2m9qxw3dz8tch5")
	d := door{b}
	if !d.Check(client{pair: s.pair}) {
		t.Fatal("an approved satellite is not let in")
	}
	b.Close()
	if d.Check(client{pair: s.pair}) {
		t.Error("it is let in after the end")
	}
}

// A satellite that says something else in every message keeps nobody busy but itself.
func TestAFloodOfHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looked := 0
		b := bare(func() { looked++ })
		loud, calm := speaks(t, b, "voice", "t7k2m9qxw3dz8tch5"), speaks(t, b, "vision", "u7k2m9qxw3dz8tch5")
		calm.beat(b, nil)
		looked = 0
		for i := range 500 {
			loud.beat(b, func(h *remote.Heartbeat) { h.Ready = i%2 == 0 })
		}
		if looked > beatsInARow {
			t.Errorf("everybody looked anew %d times", looked)
		}
		if r := b.Refused(); r["too_many"] < 400 {
			t.Errorf("%v", r)
		}
		before := calm.of.seen
		time.Sleep(remote.Period)
		calm.beat(b, nil)
		if calm.of.seen.Equal(before) {
			t.Error("the flood cost another service its heartbeat")
		}
		loud.beat(b, nil)
		if loud.of.last.Seq != loud.seq {
			t.Error("one that is calm again is not heard")
		}
	})
}

// One satellite that floods its subject, in its own name, in that of its sibling or in nobody's,
// spends nothing of its sibling's: that one is heard at each time.
func TestAFloodSilencesNoSibling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bare(func() {})
		loud, calm := speaks(t, b, "voice", "t7k2m9qxw3dz8tch5"), speaks(t, b, "voice", "u7k2m9qxw3dz8tch5")
		for range 4 {
			for range 100 {
				loud.beat(b, nil)
				loud.beat(b, func(h *remote.Heartbeat) { h.Satellite = string(calm.of.id) })
				b.beat(&nats.Msg{Subject: loud.of.beatsAt, Data: []byte(`{"satellite_id":"u7k2m9qxw3dz8tch5"}`)})
			}
			for range beatsInARow {
				calm.beat(b, nil)
				if calm.of.last.Seq != calm.seq {
					t.Error("the flood cost its sibling a heartbeat")
				}
			}
			time.Sleep(remote.Period)
		}
		if r := b.Refused(); r["too_many"] == 0 || r["other"] == 0 || calm.of.refused != 0 {
			t.Errorf("%v, of the sibling %d", r, calm.of.refused)
		}
	})
}

// Heartbeats of 10,000 satellites that there are not, or at another subject than a satellite's own,
// are refused before they are read.
func TestHeartbeatsOfNobody(t *testing.T) {
	b := bare(func() {})
	s := speaks(t, b, "voice", "t7k2m9qxw3dz8tch5")
	for i := range 10_000 {
		b.beat(&nats.Msg{Subject: remote.Heartbeats("voice", fmt.Sprintf("t%016d", i)), Data: []byte("{")})
	}
	b.beat(&nats.Msg{Subject: remote.Heartbeats("vision", string(s.of.id)), Data: s.says(nil)})
	b.beat(&nats.Msg{Subject: "factory.gh.heartbeat-t7k2m9qxw3dz8tch5", Data: s.says(nil)})
	if r := b.Refused(); len(r) != 1 || r["unknown"] != 10_002 || !s.of.seen.IsZero() || len(b.Views()) != 1 {
		t.Errorf("%v", r)
	}
}

// A heartbeat with a MAC counts by the key that was agreed on with this satellite, once, unchanged
// and in its order; by any other key, or while there is none, it does not.
func TestMACs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bare(func() {})
		s, sibling := speaks(t, b, "voice", "t7k2m9qxw3dz8tch5"), speaks(t, b, "voice", "u7k2m9qxw3dz8tch5")
		s.mac, sibling.mac = &remote.Key{1}, &remote.Key{2}
		s.beat(b, nil)
		if r := b.Refused(); r["unkeyed"] != 1 || s.of.seen != (time.Time{}) {
			t.Errorf("without a key: %v", r)
		}
		s.of.mac, sibling.of.mac = s.mac, sibling.mac
		whole := s.says(nil)
		b.beat(&nats.Msg{Subject: s.of.beatsAt, Data: whole})
		if s.of.last.Seq != s.seq || !b.Views()[0].Keyed {
			t.Fatalf("it does not count: %v", b.Refused())
		}
		time.Sleep(remote.Period)
		before := s.of.seen
		forged := s.says(func(h *remote.Heartbeat) { h.Ready = false })
		for _, c := range []struct {
			why  string
			data []byte
		}{
			{"repeated", whole},
			{"repeated", s.says(func(h *remote.Heartbeat) { h.Seq = 1 })},
			{"forged", bytes.Replace(forged, []byte(`"ready":false`), []byte(`"ready":true`), 1)},
			{"forged", bytes.Replace(sibling.says(func(h *remote.Heartbeat) { h.Satellite = string(s.of.id) }), []byte(`"seq":1,`), []byte(`"seq":99,`), 1)},
		} {
			had := b.Refused()[c.why]
			b.beat(&nats.Msg{Subject: s.of.beatsAt, Data: c.data})
			if b.Refused()[c.why] != had+1 {
				t.Errorf("%s: %v", c.data, b.Refused())
			}
		}
		time.Sleep(remote.Period)
		b.beat(&nats.Msg{Subject: s.of.beatsAt, Data: sibling.says(func(h *remote.Heartbeat) { h.Satellite, h.Seq = string(s.of.id), 50 })})
		b.beat(&nats.Msg{Subject: s.of.beatsAt, Data: s.says(func(h *remote.Heartbeat) { h.TS = time.Now().Add(-2 * time.Minute).UTC().Format(time.RFC3339Nano) })})
		if r := b.Refused(); r["forged"] != 3 || r["clock"] != 1 || s.of.seen != before {
			t.Errorf("%v", r)
		}
		s.mac = nil
		s.beat(b, nil)
		if s.of.last.Seq != s.seq || b.Views()[0].Keyed {
			t.Errorf("a signature does not count: %v", b.Refused())
		}
	})
}

// One that begins anew loses what ran there; nothing that anybody sees of it is another.
func TestARestartIsNoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looked := 0
		b := bare(func() { looked++ })
		s := speaks(t, b, "voice", "t7k2m9qxw3dz8tch5")
		s.beat(b, nil)
		looked = 0
		lost := s.of.lost
		time.Sleep(remote.Period)
		s.beat(b, func(h *remote.Heartbeat) { h.UptimeS = 1 })
		select {
		case <-lost:
		default:
			t.Error("the calls that ran there are not lost")
		}
		if looked != 0 {
			t.Errorf("everybody looked anew %d times", looked)
		}
	})
}

// The cost of one heartbeat to the gateway once it is here.
func BenchmarkHeartbeat(b *testing.B) {
	for name, mac := range map[string]*remote.Key{"mac": {1}, "signed": nil} {
		b.Run(name, func(b *testing.B) {
			t := &testing.T{}
			one := bare(func() {})
			s := speaks(t, one, "voice", "t7k2m9qxw3dz8tch5")
			s.mac, s.of.mac = mac, mac
			s.of.keying.signs = time.Now().Add(time.Hour)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				s.of.beats = allowance{}
				data := s.says(nil)
				b.StartTimer()
				one.beat(&nats.Msg{Subject: s.of.beatsAt, Data: data})
			}
			if len(one.Refused()) > 0 {
				b.Error(one.Refused())
			}
		})
	}
}
