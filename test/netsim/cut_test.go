package netsim

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/pairing"
)

func TestReconnectAfterGatewayRestart(t *testing.T) { each(t, testReconnectAfterGatewayRestart) }

func testReconnectAfterGatewayRestart(t *testing.T) {
	g := newGateway(t, nil)
	n := g.pair(answerEcho)
	for range 3 {
		g.stop()
		_, _, err := g.call(context.Background(), n.id, `{}`)
		wantCode(t, err, capabilities.CodeNodeDisconnected)
		g.start()
		g.awaitConnected(n.id)
		_, _, err = g.call(context.Background(), n.id, `{}`)
		must(t, err)
	}
}

// A cut in the middle of a call: the gateway does not know, the call runs on, and
// once the way is open the journal tells.
func TestCut(t *testing.T) { each(t, testCut) }

func testCut(t *testing.T) {
	g := newGateway(t, nil)
	way := g.way()
	started, release, finished := make(chan struct{}, 1), make(chan struct{}), make(chan error, 1)
	var call capabilities.CallID
	n := newNode(t, func(ctx context.Context, tk *wire.Ticket, sink link.Sink) {
		call = tk.Call
		started <- struct{}{}
		<-release
		finished <- ctx.Err()
		answerEcho(ctx, tk, sink) // nobody is there
	})
	var mu sync.Mutex
	done := false
	n.opts.Journal = func(_ context.Context, ask *wire.JournalAsk) []wire.JournalState {
		mu.Lock()
		defer mu.Unlock()
		s := wire.JournalState{Call: ask.Calls[0], State: wire.StateRunning}
		if done {
			s.State, s.Answer = wire.StateFinished, &wire.Answer{Status: capabilities.StatusOK}
		}
		return []wire.JournalState{s}
	}
	_, paste := g.invite(invitation)
	paste.Addrs = []string{at(way.addr())}
	must(t, n.join(context.Background(), paste, nil))
	n.run()
	letGo := sync.OnceFunc(func() { close(release) })
	t.Cleanup(letGo) // before the link is stopped, which waits for the call
	g.awaitConnected(n.id)
	result := make(chan error, 1)
	go func() { _, _, err := g.call(context.Background(), n.id, `{}`); result <- err }()
	<-started
	way.cut(true)
	wantCode(t, <-result, capabilities.CodeUnknownOutcome)
	g.awaitGone(n.id)
	n.awaitState("disconnected", func(s link.State) bool { return s.Err != nil && !s.Connected })
	way.cut(false)
	g.awaitConnected(n.id)
	ask := func() wire.CallState {
		states, err := g.nodes.Ask(context.Background(), n.id, &wire.JournalAsk{Calls: []capabilities.CallID{call}})
		must(t, err)
		return states[0].State
	}
	if got := ask(); got != wire.StateRunning {
		t.Errorf("journal says %s", got)
	}
	mu.Lock()
	done = true
	mu.Unlock()
	letGo()
	if err := <-finished; err != nil {
		t.Errorf("the cut ended the call: %v", err)
	}
	if got := ask(); got != wire.StateFinished {
		t.Errorf("journal says %s", got)
	}
}

// Two processes with one identity: the newest has the node, the other does not
// fight for it.
func TestTakeover(t *testing.T) { each(t, testTakeover) }

func testTakeover(t *testing.T) {
	g := newGateway(t, nil)
	first := g.pair(func(ctx context.Context, tk *wire.Ticket, sink link.Sink) {
		sink.Answer(wire.Answer{Status: capabilities.StatusOK, Output: []byte(`"first"`)}, nil)
	})
	second := newNode(t, func(ctx context.Context, tk *wire.Ticket, sink link.Sink) {
		sink.Answer(wire.Answer{Status: capabilities.StatusOK, Output: []byte(`"second"`)}, nil)
	})
	must(t, os.CopyFS(second.dir, os.DirFS(first.dir)))
	for _, f := range []string{"node.key", "identity.json"} {
		must(t, os.Chmod(filepath.Join(second.dir, f), 0o600))
	}
	second.opts.Dir = second.dir
	second.id = first.id
	first.awaitState("connected", func(s link.State) bool { return s.Connected })
	second.run()
	second.awaitState("connected", func(s link.State) bool { return s.Connected })
	first.awaitState("taken over", func(s link.State) bool { return s.Err != nil })
	g.awaitConnected(first.id)
	answer, _, err := g.call(context.Background(), first.id, `{}`)
	if err == nil && string(answer.Output) != `"second"` {
		// The first may have come back meanwhile; then it has taken over in its turn.
		second.awaitState("taken over", func(s link.State) bool { return s.Err != nil })
	}
	if len(g.nodes.Views()) != 1 {
		t.Error("one identity, two nodes")
	}
}

// A hundred nodes at once: quic-go refuses those over its queue of 32 after their
// dial succeeded; all of them come in all the same, and all join.
func TestCrowd(t *testing.T) {
	if testing.Short() {
		t.Skip("a hundred nodes")
	}
	const crowd = 100
	g := newGateway(t, func(o *nodes.Options) { o.Heartbeat = 5 * time.Second })
	_, paste := g.invite(nodes.InviteSpec{AutoApprove: true, Uses: crowd})
	all := make([]*node, crowd)
	ids := make([]capabilities.NodeID, crowd)
	var wg sync.WaitGroup
	for i := range all {
		all[i] = newNode(t, answerEcho)
		wg.Go(func() {
			for {
				err := all[i].join(context.Background(), paste, nil)
				if err == nil {
					return
				}
				if code := capabilities.CodeOf(err); code != capabilities.CodeNodeDisconnected {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for i := range all {
		all[i].run()
		ids[i] = all[i].id
	}
	g.awaitConnected(ids...)
	g.stop() // and all again at the same moment
	g.start()
	g.awaitConnected(ids...)
	for i := range ids {
		args := fmt.Sprintf(`{"i":%d}`, i)
		tk := ticket(ids[i], args)
		wg.Go(func() {
			answer, _, err := g.nodes.Dispatch(context.Background(), ids[i], tk, nil)
			if err != nil || string(answer.Output) != args {
				t.Errorf("%s: %s, %v", args, answer.Output, err)
			}
		})
	}
	wg.Wait()
}

func TestKeyRotation(t *testing.T) { each(t, testKeyRotation) }

func testKeyRotation(t *testing.T) {
	g := newGateway(t, nil)
	n := newNode(t, answerEcho)
	_, paste := g.invite(invitation)
	must(t, n.join(context.Background(), paste, nil))
	old := t.TempDir()
	must(t, os.CopyFS(old, os.DirFS(n.dir)))
	before, err := link.LoadIdentity(n.dir)
	must(t, err)
	n.opts.RotateBefore = 2 * pairing.LeafLifetime // due at once, and once an hour at most
	n.run()
	g.await("rotated", func(views []nodes.View) bool {
		return views[0].Connected && views[0].Fingerprint != pairing.Fingerprint(before.Key.Public().(ed25519.PublicKey))
	})
	if views := g.nodes.Views(); len(views) != 1 || views[0].ID != n.id {
		t.Errorf("%+v", views)
	}
	_, _, err = g.call(context.Background(), n.id, `{}`)
	must(t, err)
	n.stop()
	g.awaitGone(n.id)
	after, err := link.LoadIdentity(n.dir)
	must(t, err)
	if after.Key.Equal(before.Key) || after.Cert == nil || after.Node != before.Node {
		t.Errorf("%+v", after)
	}
	// A node that kept the old key is out.
	thief := newNode(t, answerEcho)
	thief.opts.Dir = old
	must(t, os.Chmod(filepath.Join(old, "node.key"), 0o600))
	thief.run()
	wantCode(t, thief.awaitEnd(), capabilities.CodeNodeRevoked)
	n.run()
	g.awaitConnected(n.id)
}

// A crash at any moment of a rotation: the key files and the identity are put
// together anew, and the gateway takes the node in by whichever key it has.
func TestKeyRotationInterrupted(t *testing.T) { each(t, testKeyRotationInterrupted) }

func testKeyRotationInterrupted(t *testing.T) {
	g := newGateway(t, nil)
	n := newNode(t, answerEcho)
	_, paste := g.invite(invitation)
	must(t, n.join(context.Background(), paste, nil))
	before := t.TempDir()
	must(t, os.CopyFS(before, os.DirFS(n.dir)))
	n.opts.RotateBefore = 2 * pairing.LeafLifetime
	old, err := link.LoadIdentity(n.dir)
	must(t, err)
	n.run()
	g.await("rotated", func(views []nodes.View) bool {
		return views[0].Connected && views[0].Fingerprint != pairing.Fingerprint(old.Key.Public().(ed25519.PublicKey))
	})
	n.stop()
	g.awaitGone(n.id) // or what is awaited below would be this connection
	after := n.dir
	read := func(dir, file string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, file))
		must(t, err)
		return b
	}
	write := func(dir, file string, b []byte) { must(t, os.WriteFile(filepath.Join(dir, file), b, 0o600)) }

	t.Run("identity named the new key, its file was not renamed yet", func(t *testing.T) {
		dir := t.TempDir()
		write(dir, "identity.json", read(after, "identity.json"))
		write(dir, "node.key", read(before, "node.key"))
		write(dir, "node.key.next", read(after, "node.key"))
		id, err := link.LoadIdentity(dir)
		if err != nil || id.Cert == nil {
			t.Fatalf("%+v, %v", id, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "node.key.next")); err == nil {
			t.Error("the change of keys was not finished")
		}
	})
	t.Run("neither key is the identity's", func(t *testing.T) {
		dir := t.TempDir()
		write(dir, "identity.json", read(after, "identity.json"))
		write(dir, "node.key", read(before, "node.key"))
		if id, err := link.LoadIdentity(dir); err == nil || id != nil {
			t.Errorf("%+v, %v", id, err)
		}
	})
	t.Run("the certificate was lost", func(t *testing.T) {
		lost := newNode(t, answerEcho)
		lost.id = n.id
		id := string(read(after, "identity.json"))
		cut := id[:lastIndex(id, `,`)] + "}" // "cert" is the last field
		write(lost.dir, "identity.json", []byte(cut))
		write(lost.dir, "node.key", read(after, "node.key"))
		lost.run()
		g.awaitConnected(n.id) // by its key alone it got a new one
		lost.stop()
		got, err := link.LoadIdentity(lost.dir)
		if err != nil || got.Cert == nil {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func lastIndex(s, sep string) int {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i:i+1] == sep {
			return i
		}
	}
	return -1
}

// A gateway whose clock says that the certificate has ended makes a new one for the same key.
func TestCertificateEndedByTheGatewaysClock(t *testing.T) {
	each(t, testCertificateEndedByTheGatewaysClock)
}

func testCertificateEndedByTheGatewaysClock(t *testing.T) {
	var mu sync.Mutex
	var ahead time.Duration
	g := newGateway(t, func(o *nodes.Options) {
		o.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return time.Now().Add(ahead) }
	})
	n := g.pair(answerEcho)
	n.stop()
	mu.Lock()
	ahead = pairing.LeafLifetime + time.Hour
	mu.Unlock()
	n.run()
	// The node's own clock cannot follow that far, so the gateway's new leaf is not
	// valid for it: it must say so instead of giving up for good.
	s := n.awaitState("told of the clock", func(s link.State) bool { return s.Err != nil })
	if code := capabilities.CodeOf(s.Err); code != capabilities.CodeNodeNotReady {
		t.Errorf("%v", s.Err)
	}
	mu.Lock()
	ahead = 0
	mu.Unlock()
	g.stop()
	g.start()
	g.awaitConnected(n.id)
}
