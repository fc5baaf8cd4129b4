package netsim

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/nodes"
)

func TestAnswerInFull(t *testing.T) { each(t, testAnswerInFull) }

func testAnswerInFull(t *testing.T) {
	g := newGateway(t, nil)
	blobs := [][]byte{bytes.Repeat([]byte("png"), 700_000), []byte("wav")}
	want := wire.Answer{
		Status: capabilities.StatusOK, Output: []byte(`{"title":"é"}`), Effect: capabilities.EffectConfirmed, Evidence: "seen",
		Untrusted: true, Isolation: capabilities.ClassT2, DurationUS: 7,
		Observed: []wire.Observation{{Key: "network.browser.session", Detail: "example.org", Count: 2}},
		Blobs: []wire.BlobHead{
			{Field: "bytesBase64", MIME: "image/png", Size: uint32(len(blobs[0])), SHA256: sha256.Sum256(blobs[0])},
			{Field: "sound", MIME: "audio/wav", Size: 3, SHA256: sha256.Sum256(blobs[1])},
		},
	}
	var got *wire.Ticket
	n := g.pair(func(_ context.Context, tk *wire.Ticket, sink link.Sink) {
		got = tk
		sink.Answer(want, blobs)
		sink.Answer(wire.Answer{Status: capabilities.StatusError}, nil) // one answer only
	})
	tk := ticket(n.id, `{"a":"`+strings.Repeat("x", 900_000)+`"}`)
	tk.Envelope, tk.Grants = []byte(`{"v":1}`), []string{"network.browser.session"}
	answer, bodies, err := g.nodes.Dispatch(context.Background(), n.id, tk, nil)
	must(t, err)
	if fmt.Sprintf("%+v", answer) != fmt.Sprintf("%+v", want) {
		t.Errorf("got %+v", answer)
	}
	if len(bodies) != 2 || !bytes.Equal(bodies[0].Bytes, blobs[0]) || !bytes.Equal(bodies[1].Bytes, blobs[1]) || bodies[0].Field != "bytesBase64" || bodies[1].MIME != "audio/wav" {
		t.Error("the blobs are not the same")
	}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", tk) || got.Sequence == 0 {
		t.Errorf("the node saw another ticket")
	}
}

func TestSequenceGrowsAboveTheFloor(t *testing.T) {
	g := newGateway(t, nil)
	var mu sync.Mutex
	var last uint64
	floors := 0
	n := newNode(t, nil)
	n.opts.Serve = func(ctx context.Context, tk *wire.Ticket, sink link.Sink) {
		mu.Lock()
		defer mu.Unlock()
		if tk.Sequence <= last {
			t.Errorf("sequence %d after %d", tk.Sequence, last)
		}
		last = tk.Sequence
		answerEcho(ctx, tk, sink)
	}
	n.opts.OnFloor = func(floor uint64) {
		mu.Lock()
		defer mu.Unlock()
		if floor < last {
			t.Errorf("floor %d below %d", floor, last)
		}
		floors++
		last = floor
	}
	_, paste := g.invite(invitation)
	must(t, n.join(context.Background(), paste, nil))
	n.run()
	for range 2 {
		g.awaitConnected(n.id)
		for range 3 {
			_, _, err := g.call(context.Background(), n.id, `{}`)
			must(t, err)
		}
		n.awaitState("connected", func(s link.State) bool { return s.Connected })
		g.stop()
		g.start()
	}
	g.awaitConnected(n.id)
	mu.Lock()
	defer mu.Unlock()
	if floors < 3 {
		t.Errorf("%d floors", floors)
	}
}

func TestProgress(t *testing.T) {
	g := newGateway(t, nil)
	seen := make(chan capabilities.Progress, 1)
	n := g.pair(func(_ context.Context, _ *wire.Ticket, sink link.Sink) {
		sink.Progress(wire.Progress{Done: 1, Total: 2, Message: strings.Repeat("é", 200)})
		<-seen // it arrived while the call runs
		sink.Answer(wire.Answer{Status: capabilities.StatusOK, Output: []byte(`{}`)}, nil)
		sink.Progress(wire.Progress{Done: 2})
	})
	calls := 0
	_, _, err := g.nodes.Dispatch(context.Background(), n.id, ticket(n.id, `{}`), func(p capabilities.Progress) {
		if calls++; p.Done != 1 || p.Total != 2 || len(p.Message) != 200 {
			t.Errorf("%+v", p)
		}
		seen <- p
	})
	must(t, err)
	if calls != 1 {
		t.Errorf("%d progress frames", calls)
	}
}

func TestCallerGivesUp(t *testing.T) { each(t, testCallerGivesUp) }

func testCallerGivesUp(t *testing.T) {
	g := newGateway(t, nil)
	started, ended := make(chan struct{}), make(chan error)
	n := g.pair(func(ctx context.Context, _ *wire.Ticket, sink link.Sink) {
		started <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
	})
	for name, c := range map[string]struct {
		make func() (context.Context, func())
		want capabilities.Code
	}{
		"cancel": {func() (context.Context, func()) { c, f := context.WithCancel(context.Background()); return c, f }, capabilities.CodeCancelled},
		"coded": {func() (context.Context, func()) {
			c, f := context.WithCancelCause(context.Background())
			return c, func() { f(&capabilities.Error{Code: capabilities.CodeStopped}) }
		}, capabilities.CodeStopped},
		"deadline": {func() (context.Context, func()) {
			c, f := context.WithTimeout(context.Background(), time.Second)
			return c, func() { _ = f }
		}, capabilities.CodeDeadlineExceeded},
	} {
		ctx, give := c.make()
		result := make(chan error, 1)
		go func() { _, _, err := g.call(ctx, n.id, `{}`); result <- err }()
		<-started
		give()
		if capabilities.CodeOf(<-ended) != capabilities.CodeCancelled {
			t.Errorf("%s: the node's context did not end by the reset", name)
		}
		wantCode(t, <-result, c.want)
	}
	// Before anything was sent: nothing starts.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _, err := g.call(ctx, n.id, `{}`)
	wantCode(t, err, capabilities.CodeCancelled)
	select {
	case <-started:
		t.Error("a cancelled call started")
	default:
	}
}

// When the node's agent ends, its calls end with it, and the gateway says that it
// does not know.
func TestNodeEndsMidCall(t *testing.T) { each(t, testNodeEndsMidCall) }

func testNodeEndsMidCall(t *testing.T) {
	g := newGateway(t, nil)
	started := make(chan struct{})
	n := g.pair(func(ctx context.Context, _ *wire.Ticket, _ link.Sink) {
		close(started)
		<-ctx.Done()
	})
	result := make(chan error, 1)
	go func() {
		answer, _, err := g.call(context.Background(), n.id, `{}`)
		if err == nil && answer.Status == capabilities.StatusError {
			// The handler's last word may still have made it.
			err = &capabilities.Error{Code: capabilities.CodeUnknownOutcome}
		}
		result <- err
	}()
	<-started
	n.stop() // waits for the call
	wantCode(t, <-result, capabilities.CodeUnknownOutcome)
	g.awaitGone(n.id)
	_, _, err := g.call(context.Background(), n.id, `{}`)
	wantCode(t, err, capabilities.CodeNodeDisconnected)
	_, err = g.nodes.Ask(context.Background(), n.id, &wire.JournalAsk{Calls: []capabilities.CallID{"c"}})
	wantCode(t, err, capabilities.CodeNodeDisconnected)
}

func TestHandlerFailures(t *testing.T) {
	g := newGateway(t, nil)
	n := g.pair(func(_ context.Context, tk *wire.Ticket, sink link.Sink) {
		switch string(tk.Args) {
		case `"silent"`:
		case `"large"`:
			sink.Answer(wire.Answer{Status: capabilities.StatusOK, Output: make([]byte, wire.MaxOutput+1)}, nil)
		case `"lying"`:
			sink.Answer(wire.Answer{Status: capabilities.StatusOK, Blobs: []wire.BlobHead{{Size: 2}}}, [][]byte{{1}})
		case `"bad"`:
			sink.Answer(wire.Answer{Status: "fine"}, nil)
		}
	})
	for args, want := range map[string]capabilities.Code{
		`"silent"`: capabilities.CodeInternal, `"lying"`: capabilities.CodeInternal, `"bad"`: capabilities.CodeInternal,
		`"large"`: capabilities.CodeResultTooLarge,
	} {
		answer, blobs, err := g.call(context.Background(), n.id, args)
		must(t, err)
		if answer.Status != capabilities.StatusError || answer.Code != want || len(blobs) != 0 {
			t.Errorf("%s: %+v", args, answer)
		}
	}
}

// A ticket that no frame can carry is refused here, before a stream exists.
func TestTicketOutOfBounds(t *testing.T) {
	g := newGateway(t, nil)
	n := g.pair(answerEcho)
	tk := ticket(n.id, `{}`)
	tk.Args = make([]byte, wire.MaxArgs+1)
	_, _, err := g.nodes.Dispatch(context.Background(), n.id, tk, nil)
	wantCode(t, err, capabilities.CodeInvalidRequest)
	_, _, err = g.call(context.Background(), n.id, `{}`)
	must(t, err)
}

func TestManyCallsAtOnce(t *testing.T) { each(t, testManyCallsAtOnce) }

func testManyCallsAtOnce(t *testing.T) {
	// A busy machine must not look like a dead node here.
	g := newGateway(t, func(o *nodes.Options) { o.Heartbeat = 10 * time.Second })
	var at, most atomic.Int32
	full := make(chan struct{})
	const calls = 600 // more than quic-go's default of 100 streams
	n := g.pair(func(ctx context.Context, tk *wire.Ticket, sink link.Sink) {
		if now := at.Add(1); now == calls {
			close(full)
		} else if now > most.Load() {
			most.Store(now)
		}
		select {
		case <-full: // all of them run at the same time
		case <-ctx.Done():
		}
		answerEcho(ctx, tk, sink)
	})
	var wg sync.WaitGroup
	for i := range calls {
		args := fmt.Sprintf(`{"i":%d}`, i)
		tk := ticket(n.id, args)
		wg.Go(func() {
			answer, _, err := g.nodes.Dispatch(context.Background(), n.id, tk, nil)
			if err != nil || string(answer.Output) != args {
				t.Errorf("%s: %s, %v", args, answer.Output, err)
			}
		})
	}
	wg.Wait()
}

func TestAskTheJournal(t *testing.T) { each(t, testAskTheJournal) }

func testAskTheJournal(t *testing.T) {
	g := newGateway(t, nil)
	n := newNode(t, answerEcho)
	answer := &wire.Answer{Status: capabilities.StatusOK, Output: []byte(`{}`)}
	n.opts.Hello = func() wire.Hello { return wire.Hello{Agent: "test", Platform: "linux", Arch: "amd64", Recall: "r1"} }
	recalls := make(chan []string, 2) // as often as it is asked
	n.opts.Journal = func(_ context.Context, ask *wire.JournalAsk) []wire.JournalState {
		var states []wire.JournalState
		recalls <- ask.Recalls
		for _, c := range ask.Calls {
			s := wire.JournalState{Call: c, State: wire.StateNeverStarted}
			if c == "finished" {
				s.State, s.Answer = wire.StateFinished, answer
			}
			if c == "liar" {
				s.Call = "other"
			}
			states = append(states, s)
		}
		return states
	}
	_, paste := g.invite(invitation)
	must(t, n.join(context.Background(), paste, nil))
	n.run()
	g.awaitConnected(n.id)
	states, err := g.nodes.Ask(context.Background(), n.id, &wire.JournalAsk{Calls: []capabilities.CallID{"a", "finished"}, Recalls: []string{"r1", ""}})
	must(t, err)
	if said, asked := g.nodes.Snapshot()[0].Recall, <-recalls; said != "r1" || !slices.Equal(asked, []string{"r1", ""}) {
		t.Errorf("the node said %q, and was asked with %q", said, asked)
	}
	if len(states) != 2 || states[0].State != wire.StateNeverStarted || states[1].State != wire.StateFinished || string(states[1].Answer.Output) != `{}` {
		t.Errorf("%+v", states)
	}
	if states, err = g.nodes.Ask(context.Background(), n.id, &wire.JournalAsk{Calls: []capabilities.CallID{"liar"}}); err == nil || states != nil {
		t.Errorf("%+v, %v", states, err)
	}
}

func TestNewsBothWays(t *testing.T) { each(t, testNewsBothWays) }

func testNewsBothWays(t *testing.T) {
	g := newGateway(t, nil)
	n := newNode(t, answerEcho)
	var mu sync.Mutex
	epoch, stopped := uint64(3), false
	changed := make(chan struct{})
	ready := slices.Clone(readyEcho)
	readyChanged := make(chan struct{})
	type stop struct {
		epoch uint64
		on    bool
	}
	stops := make(chan stop, 4)
	var site stop
	lanes := make(chan capabilities.LaneID, 1)
	n.opts.Stop = func() wire.Stop {
		mu.Lock()
		defer mu.Unlock()
		return wire.Stop{Epoch: epoch, On: stopped, SiteEpoch: site.epoch, SiteOn: site.on}
	}
	n.opts.StopChanged = func() <-chan struct{} { mu.Lock(); defer mu.Unlock(); return changed }
	n.opts.OnStop = func(e uint64, on bool) {
		mu.Lock()
		defer mu.Unlock()
		site = stop{e, on}
		stops <- site
	}
	n.opts.OnLaneClosed = func(l capabilities.LaneID) { lanes <- l }
	n.opts.ReadinessEvery = time.Hour
	n.opts.ReadinessChanged = readyChanged
	n.opts.Readiness = func(context.Context) []capabilities.Readiness { mu.Lock(); defer mu.Unlock(); return ready }
	var epochs []uint64
	n.opts.Serve = func(ctx context.Context, tk *wire.Ticket, sink link.Sink) {
		mu.Lock()
		epochs = append(epochs, tk.StopEpoch)
		mu.Unlock()
		answerEcho(ctx, tk, sink)
	}
	_, paste := g.invite(invitation)
	must(t, n.join(context.Background(), paste, nil))
	n.run()
	g.awaitConnected(n.id)
	_, _, err := g.call(context.Background(), n.id, `{}`)
	must(t, err)

	mu.Lock()
	epoch, stopped = 4, true
	close(changed)
	changed = make(chan struct{})
	mu.Unlock()
	for !g.snapshot(n.id).Stopped {
		awaitChange(t, g)
	}
	_, _, err = g.call(context.Background(), n.id, `{}`) // the guard refuses it, the link does not
	must(t, err)
	mu.Lock()
	if !slices.Equal(epochs, []uint64{3, 4}) {
		t.Errorf("tickets carried stop epochs %v", epochs)
	}
	mu.Unlock()

	if s := <-stops; s != (stop{}) { // with the hello
		t.Errorf("%+v", s)
	}
	g.nodes.TellStop(77, true)
	if s := <-stops; s != (stop{77, true}) {
		t.Errorf("%+v", s)
	}
	if h := g.nodes.AwaitStop(context.Background(), 77); h != (nodes.Heeded{Connected: 1, Confirmed: 1}) {
		t.Errorf("%+v", h)
	}
	g.nodes.CloseLane(n.id, "p/main")
	if l := <-lanes; l != "p/main" {
		t.Errorf("%s", l)
	}

	mu.Lock()
	ready = []capabilities.Readiness{{Capability: echo, Reason: capabilities.ReasonBackendMissing, Fix: strings.Repeat("apt ", 200)}}
	mu.Unlock()
	readyChanged <- struct{}{}
	for g.snapshot(n.id).Readiness[echo].Ready() {
		awaitChange(t, g)
	}
	if fix := g.snapshot(n.id).Readiness[echo].Fix; len(fix) != 300 {
		t.Errorf("a fix of %d bytes", len(fix))
	}
}

// awaitChange is for loops over a condition; a change that came before it is found
// by the time bound of one turn.
func awaitChange(t *testing.T, g *gateway) {
	t.Helper()
	select {
	case <-g.nodes.Changed():
	case <-time.After(5 * time.Millisecond):
	}
	if t.Context().Err() != nil {
		t.FailNow()
	}
}

func TestHeads(t *testing.T) {
	type told struct {
		node capabilities.NodeID
		key  string
		head wire.Head
	}
	fromNode := make(chan told, 100)
	head := &wire.Head{Seq: 5, Hash: sha256.Sum256([]byte("g")), Time: 1, Sig: make([]byte, 64)}
	g := newGateway(t, withHeads(head, func(n capabilities.NodeID, k string, h wire.Head) { fromNode <- told{n, k, h} }))
	n := newNode(t, answerEcho)
	toNode := make(chan wire.Head, 100)
	n.opts.OnGatewayHead = func(_ ed25519.PublicKey, h wire.Head) { toNode <- h }
	n.opts.Head = func() *wire.Head { return &wire.Head{Seq: 9} }
	key := strings.Repeat("k", 32)
	n.opts.Hello = func() wire.Hello { return wire.Hello{LogKey: []byte(key), LogHead: &wire.Head{Seq: 8}} }
	_, paste := g.invite(invitation)
	must(t, n.join(context.Background(), paste, nil))
	n.run()
	for _, want := range []uint64{8, 9} { // hello, then a heartbeat
		if got := <-fromNode; got.node != n.id || got.key != key || got.head.Seq != want {
			t.Errorf("%+v, want %d", got, want)
		}
	}
	for range 2 {
		if got := <-toNode; got.Seq != 5 || got.Hash != head.Hash {
			t.Errorf("%+v", got)
		}
	}
}
