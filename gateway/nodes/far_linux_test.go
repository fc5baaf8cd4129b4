package nodes

import (
	"context"
	"crypto/ed25519"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/gateway/store/pgtest"
	"github.com/handrail-dev/handrail/pairing"
)

// planes are gateways of one site that serve at once.
func planes(t *testing.T, url store.URL, many int) []*plane {
	t.Helper()
	siteKey, err := pairing.NewKey()
	must(t, err)
	site, err := pairing.NewSite(siteKey)
	must(t, err)
	key, err := pairing.NewKey()
	must(t, err)
	shared := map[string]bool{PlaceTable: true, "node": true, "invite": false}
	var all []*plane
	for range many {
		ctx, cancel := context.WithCancel(context.Background())
		s, err := store.Open(ctx, store.Options{URL: url, Migrations: Migrations(), Lease: 5 * time.Second, Shared: shared})
		must(t, err)
		n, err := New(Options{Store: s, Site: site, Key: key, Addr: "127.0.0.1:0", Heartbeat: 5 * time.Second})
		must(t, err)
		addr, err := n.Listen(ctx)
		must(t, err)
		s.Watch(n.Again, Tables...)
		s.Watch(n.AgainPlaces, PlaceTable)
		s.OnGone(n.GoneIn)
		at, err := n.ListenPeers(ctx, "127.0.0.1:0")
		must(t, err)
		must(t, s.Reach(ctx, at.String()))
		storeCtx, stopStore := context.WithCancel(context.Background())
		var ran sync.WaitGroup
		ran.Go(func() { _ = s.Run(storeCtx) })
		done := make(chan error, 1)
		go func() { done <- n.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			stopStore()
			ran.Wait()
			_ = s.Close()
		})
		all = append(all, &plane{n, t, addr, site})
	}
	return all
}

// greets is a fake that has said hello, and what it offers.
func (p *plane) greets(id capabilities.NodeID, key ed25519.PrivateKey) *fake {
	p.t.Helper()
	p.await(func() bool { return p.lookup(id) != nil })
	f := p.fake(id, key)
	must(p.t, wire.Write(f.control, &wire.Hello{Version: 1, MinVersion: 1, Node: id}))
	_, err := f.reader.Next()
	must(p.t, err)
	must(p.t, wire.Write(f.control, &wire.Readiness{}))
	p.awaitConnected(id)
	return f
}

// takes is the next stream of a fake, and the ticket on it.
func (f *fake) takes() (*quic.Stream, *wire.Ticket) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream, err := f.conn.AcceptStream(ctx)
	must(f.t, err)
	_ = stream.SetDeadline(time.Now().Add(patience))
	m, err := wire.NewReader(stream, wire.KindTicket).Next()
	must(f.t, err)
	return stream, m.(*wire.Ticket)
}

type answered struct {
	answer wire.Answer
	err    error
}

func (p *plane) calls(ctx context.Context, t *wire.Ticket) chan answered {
	out := make(chan answered, 1)
	go func() {
		a, _, err := p.Dispatch(ctx, t.Node, t, nil)
		out <- answered{a, err}
	}()
	return out
}

func TestNodesElsewhere(t *testing.T) {
	server := pgtest.Start(t)
	for name, test := range map[string]func(*testing.T, []*plane){
		"take a call":   farCall,
		"are cancelled": farCancel,
		"move, and nothing comes from where they were": farMove,
		"get nothing of a gateway that was put out":    farPutOut,
	} {
		t.Run(name, func(t *testing.T) { test(t, planes(t, store.URL(server.URL()), 2)) })
	}
}

func farCall(t *testing.T, all []*plane) {
	asks, holds := all[0], all[1]
	id, key := asks.enrolled()
	f := holds.greets(id, key)
	asks.awaitConnected(id)
	sent := ticket(id)
	before := holds.sequence.Load()
	out := asks.calls(t.Context(), sent)
	stream, got := f.takes()
	if got.Call != sent.Call || string(got.Args) != string(sent.Args) || got.ArgsDigest != sent.ArgsDigest {
		t.Errorf("the ticket changed on the way: %+v", got)
	}
	if got.Sequence != before+1 {
		t.Errorf("sequence %d, and the holder's last was %d", got.Sequence, before)
	}
	states, err := asks.Ask(t.Context(), id, &wire.JournalAsk{Calls: []capabilities.CallID{"c"}})
	if err != nil || len(states) != 1 || states[0].State != wire.StateRunning {
		t.Errorf("of a call on its way the journal says %+v, %v", states, err)
	}
	must(t, wire.Write(stream, &wire.Answer{Status: capabilities.StatusOK, Output: []byte(`{"a":1}`), Isolation: capabilities.ClassT0}))
	must(t, stream.Close())
	if r := <-out; r.err != nil || string(r.answer.Output) != `{"a":1}` {
		t.Errorf("%+v", r)
	}
	// The node goes, and both know it.
	_ = f.conn.CloseWithError(0, "")
	asks.awaitGone(id)
	if r := <-asks.calls(t.Context(), ticket(id)); capabilities.CodeOf(r.err) != capabilities.CodeNodeDisconnected {
		t.Errorf("%+v", r)
	}
}

func farCancel(t *testing.T, all []*plane) {
	asks, holds := all[0], all[1]
	id, key := asks.enrolled()
	f := holds.greets(id, key)
	asks.awaitConnected(id)
	ctx, cancel := context.WithCancel(t.Context())
	out := asks.calls(ctx, ticket(id))
	stream, _ := f.takes()
	cancel()
	if r := <-out; capabilities.CodeOf(r.err) != capabilities.CodeCancelled {
		t.Errorf("%+v", r)
	}
	<-stream.Context().Done() // the node sees its answer's direction reset
}

func farMove(t *testing.T, all []*plane) {
	asks, holds := all[0], all[1]
	id, key := asks.enrolled()
	first := holds.greets(id, key)
	asks.awaitConnected(id)
	asks.mu.RLock()
	old := asks.elsewhere[id]
	asks.mu.RUnlock()
	if old == nil {
		t.Fatal("it is not known elsewhere")
	}
	second := holds.greets(id, key) // another connection, another epoch
	if code := closedWith(t, first.conn); code != wire.CloseTakenOver {
		t.Errorf("the first connection closed with %d", code)
	}
	if _, err := asks.start(t.Context(), old, ticket(id)); capabilities.CodeOf(err) != capabilities.CodeNodeDisconnected {
		t.Errorf("a ticket for an old place: %v", err)
	}
	// At the other gateway: this one hears of it, and lets go.
	third := asks.greets(id, key)
	if code := closedWith(t, second.conn); code != wire.CloseTakenOver {
		t.Errorf("the second connection closed with %d", code)
	}
	holds.await(func() bool { s := holds.reach(id); return s != nil && s.far != nil })
	out := holds.calls(t.Context(), ticket(id))
	stream, _ := third.takes()
	must(t, wire.Write(stream, &wire.Answer{Status: capabilities.StatusOK, Output: []byte(`{}`), Isolation: capabilities.ClassT0}))
	must(t, stream.Close())
	if r := <-out; r.err != nil {
		t.Errorf("%+v", r)
	}
}

func farPutOut(t *testing.T, all []*plane) {
	asks, holds := all[0], all[1]
	id, key := asks.enrolled()
	f := holds.greets(id, key)
	asks.awaitConnected(id)
	asks.mu.RLock()
	far := asks.elsewhere[id]
	asks.mu.RUnlock()
	under := asks.calls(t.Context(), ticket(id))
	stream, _ := f.takes()
	// Another one is granted, and its ticket not yet sent.
	late, _, err := asks.openFar(t.Context(), far, farAsk{Call: "late"})
	must(t, err)
	must(t, asks.opts.Store.Close()) // it says that it ends, and is put out
	holds.await(func() bool {
		in, err := holds.opts.Store.In(t.Context(), asks.opts.Store.Member())
		return err == nil && !in || func() bool { holds.Nudge(); return false }()
	})
	ask := &wire.JournalAsk{Calls: []capabilities.CallID{"c", "other"}}
	states, err := holds.Ask(t.Context(), id, ask)
	if err != nil || len(states) != 2 || states[0].State != wire.StateRunning || states[1].State != wire.StateRunning {
		t.Errorf("while a call of one that is out is under way: %+v, %v", states, err)
	}
	sent := ticket(id)
	sent.Call = "late"
	_ = wire.Write(late, sent)
	if _, err := late.reader.Next(); err == nil {
		t.Error("a gateway that was put out got an answer")
	}
	late.end()
	must(t, wire.Write(stream, &wire.Answer{Status: capabilities.StatusOK, Output: []byte(`{}`), Isolation: capabilities.ClassT0}))
	must(t, stream.Close())
	<-under
	// Now it is the journal that tells, and it never had the late one.
	told := make(chan error, 1)
	go func() {
		for {
			stream, err := f.conn.AcceptStream(context.Background())
			if err != nil {
				told <- err
				return
			}
			m, err := wire.NewReader(stream, wire.KindJournalAsk, wire.KindTicket).Next()
			if err != nil {
				continue // a stream that was reset before anything was on it
			}
			if _, ticket := m.(*wire.Ticket); ticket {
				t.Error("a ticket of a gateway that was put out arrived")
				continue
			}
			for _, call := range m.(*wire.JournalAsk).Calls {
				_ = wire.Write(stream, &wire.JournalState{Call: call, State: wire.StateNeverStarted})
			}
			_ = stream.Close()
		}
	}()
	for range 1000 {
		states, err = holds.Ask(t.Context(), id, ask)
		if err == nil && states[0].State != wire.StateRunning {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil || states[0].State != wire.StateNeverStarted || states[1].State != wire.StateNeverStarted {
		t.Errorf("%+v, %v", states, err)
	}
	_ = f.conn.CloseWithError(0, "")
	<-told
}
