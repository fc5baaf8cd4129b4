package bus

import (
	"context"
	"encoding/base64"
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
		invites: map[string]*invite{}, refused: map[string]uint64{}, shares: map[string]*share{}, manifests: map[string]*said{}, pending: map[string]*exchange{},
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
	return &speaker{t, s, pair, 0}
}

func (s *speaker) beat(b *Bus, change func(*remote.Heartbeat)) {
	s.t.Helper()
	s.seq++
	h := remote.Heartbeat{
		Contract: remote.Version, Satellite: string(s.of.id), Service: s.of.service, Host: "box", Subjects: []string{}, Manifest: someHash,
		Ready: true, Connected: true, UptimeS: 10, TS: time.Now().UTC().Format(time.RFC3339Nano), Seq: s.seq,
	}
	if change != nil {
		change(&h)
	}
	data, err := h.Sign(s.pair.Sign)
	if err != nil {
		s.t.Fatal(err)
	}
	b.beat(&nats.Msg{Subject: remote.Heartbeats(s.of.service), Data: data})
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
		if r := b.Refused(); r["too_often"] == 0 || r["too_many"] == 0 {
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

// One satellite of a service that floods its subject, in its own name or in nobody's, silences no
// other: of each one heartbeat every Period is heard.
func TestAFloodSilencesNoSibling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bare(func() {})
		loud, calm := speaks(t, b, "voice", "t7k2m9qxw3dz8tch5"), speaks(t, b, "voice", "u7k2m9qxw3dz8tch5")
		for range 4 {
			for range 100 {
				loud.beat(b, nil)
				b.beat(&nats.Msg{Subject: remote.Heartbeats("voice"), Data: []byte("{}")})
			}
			calm.beat(b, nil)
			if calm.of.last.Seq != calm.seq {
				t.Error("the flood cost its sibling a heartbeat")
			}
			time.Sleep(remote.Period)
		}
		if b.Refused()["too_many"] == 0 {
			t.Errorf("%v", b.Refused())
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
