package netsim

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/tunnel"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/pairing"
)

func TestPairWithOneApproval(t *testing.T) {
	over(t, testPairWithOneApproval, tunnel.QUIC, tunnel.TCP) // a paste names no http address
}

func testPairWithOneApproval(t *testing.T) {
	g := newGateway(t, nil)
	inv, paste := g.invite(nodes.InviteSpec{By: "admin", Trust: "owned", Labels: []string{"office"}})
	text, err := paste.Encode()
	must(t, err)
	paste, err = pairing.ParsePaste(text) // as it arrives at the device
	must(t, err)

	n := newNode(t, answerEcho)
	var seen []link.JoinStep
	joined := make(chan error, 1)
	go func() {
		joined <- n.join(context.Background(), paste, func(s link.JoinStep) { seen = append(seen, s) })
	}()
	var pending nodes.View
	g.await("pending", func(v []nodes.View) bool {
		if len(v) == 1 {
			pending = v[0]
		}
		return len(v) == 1
	})
	if pending.State != pairing.StatePending || pending.Host != "desk.example" || pending.Platform != "linux" || pending.Label != "desk" || !slices.Equal(pending.Offers, profile.Offers) {
		t.Errorf("the admin sees %+v", pending)
	}
	if s := g.snapshot(pending.ID); s.Paired != "pending" || s.Connected {
		t.Errorf("%+v", s)
	}
	view, err := g.nodes.Approve(context.Background(), pending.ID, nodes.Approval{By: "admin"})
	must(t, err)
	must(t, <-joined)
	if view.State != pairing.StateApproved || view.Trust != "owned" || !slices.Equal(view.Labels, []string{"office"}) || !slices.Equal(view.Allow, []string{string(echo)}) {
		t.Errorf("%+v", view)
	}
	if len(seen) != 2 || seen[0].State != pairing.StatePending || seen[1].State != pairing.StateApproved || seen[0].Fingerprint != pending.Fingerprint {
		t.Errorf("the device was told %+v", seen)
	}
	if n.id != pending.ID {
		t.Errorf("%s is not %s", n.id, pending.ID)
	}
	n.run()
	g.awaitConnected(n.id)
	s := g.snapshot(n.id)
	if !s.Connected || !s.Allow(echo) || s.Allow("tyrum.browser.click") || !s.Readiness[echo].Ready() || s.Summary.Trust != "owned" {
		t.Errorf("%+v", s)
	}
	answer, _, err := g.call(context.Background(), n.id, `{"x":1}`)
	if err != nil || string(answer.Output) != `{"x":1}` {
		t.Fatalf("%+v, %v", answer, err)
	}
	list, err := g.nodes.Invites(context.Background())
	must(t, err)
	if len(list) != 1 || list[0].ID != inv.ID || list[0].Used != 1 || len(list[0].UsedBy) != 1 || list[0].UsedBy[0].Node != n.id {
		t.Errorf("%+v", list)
	}
	if want := []string{"node.invited", "node.joined", "node.approved"}; !slices.Equal(g.packets, want) {
		t.Errorf("recorded %v, want %v", g.packets, want)
	}
}

func TestPasteThatDoesNotWork(t *testing.T) { each(t, testPasteThatDoesNotWork) }

func testPasteThatDoesNotWork(t *testing.T) {
	ctx := context.Background()
	var ahead atomic.Int64
	g := newGateway(t, func(o *nodes.Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	other := newGateway(t, nil)

	t.Run("unknown", func(t *testing.T) {
		_, paste := g.invite(nodes.InviteSpec{AutoApprove: true})
		paste.Secret = pairing.NewSecret()
		wantCode(t, newNode(t, answerEcho).join(ctx, paste, nil), capabilities.CodePasteInvalid)
	})
	t.Run("used, and by whom", func(t *testing.T) {
		_, paste := g.invite(nodes.InviteSpec{AutoApprove: true})
		first := newNode(t, answerEcho)
		must(t, first.join(ctx, paste, nil))
		second := newNode(t, answerEcho)
		e := wantCode(t, second.join(ctx, paste, nil), capabilities.CodePasteUsed)
		if !strings.Contains(e.PublicMessage(), string(first.id)) || !strings.Contains(e.PublicMessage(), "desk.example") {
			t.Errorf("who used it is not named: %s", e.PublicMessage())
		}
		if _, err := link.LoadIdentity(second.dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a refused device has an identity: %v", err)
		}
		// The first device may have lost the answer: the same paste leads it to the
		// same node, as long as it still has the same key.
		if len(g.nodes.Views()) != 1 {
			t.Errorf("%d nodes", len(g.nodes.Views()))
		}
	})
	t.Run("withdrawn", func(t *testing.T) {
		inv, paste := g.invite(nodes.InviteSpec{AutoApprove: true})
		must(t, g.nodes.Withdraw(ctx, inv.ID, "admin"))
		wantCode(t, newNode(t, answerEcho).join(ctx, paste, nil), capabilities.CodePasteExpired)
		wantCode(t, g.nodes.Withdraw(ctx, "i0", "admin"), capabilities.CodeNotFound)
	})
	t.Run("wrong site", func(t *testing.T) {
		_, paste := g.invite(nodes.InviteSpec{AutoApprove: true})
		paste.Addrs = []string{other.place()}
		wantCode(t, newNode(t, answerEcho).join(ctx, paste, nil), capabilities.CodeSiteMismatch)
		if len(other.nodes.Views()) != 0 {
			t.Error("the other site took it in")
		}
	})
	t.Run("nobody there", func(t *testing.T) {
		_, paste := g.invite(nodes.InviteSpec{AutoApprove: true})
		down := g.way()
		down.cut(true)
		paste.Addrs = []string{at(down.addr())}
		soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		if err := newNode(t, answerEcho).join(soon, paste, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
	t.Run("a dead address before the good one", func(t *testing.T) {
		_, paste := g.invite(nodes.InviteSpec{AutoApprove: true})
		down := g.way()
		down.cut(true)
		paste.Addrs = []string{at(down.addr()), other.place(), g.place()}
		must(t, newNode(t, answerEcho).join(ctx, paste, nil))
	})
	t.Run("expired", func(t *testing.T) {
		_, paste := g.invite(nodes.InviteSpec{AutoApprove: true, TTL: time.Minute})
		ahead.Store(int64(time.Minute))
		wantCode(t, newNode(t, answerEcho).join(ctx, paste, nil), capabilities.CodePasteExpired)
	})
}

// An enrolment key lets in as many as it says, however many come at once.
func TestEnrolmentKey(t *testing.T) {
	g := newGateway(t, nil)
	const uses, comers = 3, 8
	_, paste := g.invite(nodes.InviteSpec{AutoApprove: true, Uses: uses, Allow: []string{"tool.browser.click", "tyrum.desktop.*"}, Labels: []string{"fleet"}, TTL: time.Hour})
	results := make(chan error, comers)
	for range comers {
		go func() { results <- newNode(t, answerEcho).join(context.Background(), paste, nil) }()
	}
	in := 0
	for range comers {
		if err := <-results; err == nil {
			in++
		} else {
			wantCode(t, err, capabilities.CodePasteUsed)
		}
	}
	views := g.nodes.Views()
	if in != uses || len(views) != uses {
		t.Errorf("%d came in, the roster has %d, want %d", in, len(views), uses)
	}
	for _, v := range views {
		if !slices.Equal(v.Allow, []string{"tyrum.browser.click", "tyrum.desktop.*"}) || !slices.Equal(v.Labels, []string{"fleet"}) {
			t.Errorf("%+v", v)
		}
	}
}

func TestDenied(t *testing.T) { each(t, testDenied) }

func testDenied(t *testing.T) {
	g := newGateway(t, nil)
	_, paste := g.invite(nodes.InviteSpec{})
	n := newNode(t, answerEcho)
	joined := make(chan error, 1)
	waits := make(chan struct{})
	var once sync.Once
	go func() {
		joined <- n.join(context.Background(), paste, func(s link.JoinStep) {
			if s.State == pairing.StatePending {
				once.Do(func() { close(waits) })
			}
		})
	}()
	var id capabilities.NodeID
	g.await("pending", func(v []nodes.View) bool {
		if len(v) == 1 {
			id = v[0].ID
		}
		return len(v) == 1
	})
	<-waits // denied before that, the device keeps nothing to ask again with
	_, err := g.nodes.Deny(context.Background(), id, "admin", "not ours")
	must(t, err)
	wantCode(t, <-joined, capabilities.CodePairingDenied)
	// It asks again with its key alone, and later with the same paste.
	n.run()
	e := wantCode(t, n.awaitEnd(), capabilities.CodePairingDenied)
	if !strings.Contains(e.PublicMessage(), "not ours") {
		t.Errorf("the reason is not told: %v", e)
	}
	_, err = g.nodes.Approve(context.Background(), id, nodes.Approval{})
	wantCode(t, err, capabilities.CodeConflict)
}

// A device that was cut off while it waited goes on waiting with its key alone,
// also in a new process, and gets its certificate then.
func TestApprovalReachesADeviceThatWasAway(t *testing.T) {
	each(t, testApprovalReachesADeviceThatWasAway)
}

func testApprovalReachesADeviceThatWasAway(t *testing.T) {
	g := newGateway(t, nil)
	_, paste := g.invite(nodes.InviteSpec{})
	n := newNode(t, answerEcho)
	ctx, cancel := context.WithCancel(context.Background())
	joined := make(chan error, 1)
	go func() {
		joined <- n.join(ctx, paste, func(s link.JoinStep) {
			if s.State == pairing.StatePending && s.Err == nil {
				cancel() // the process is ended here
			}
		})
	}()
	if err := <-joined; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	id, err := link.LoadIdentity(n.dir)
	must(t, err)
	if !id.Pending() {
		t.Fatal("it has a certificate")
	}
	n.run()
	n.awaitState("pending", func(s link.State) bool { return s.Pending })
	g.stop()
	n.awaitState("disconnected", func(s link.State) bool { return s.Err != nil })
	g.start()
	n.awaitState("pending again", func(s link.State) bool { return s.Pending })
	_, err = g.nodes.Approve(context.Background(), id.Node, nodes.Approval{By: "admin"})
	must(t, err)
	g.awaitConnected(id.Node)
	_, _, err = g.call(context.Background(), id.Node, `{}`)
	must(t, err)
}

func TestRevokeClosesAtOnceAndStays(t *testing.T) { each(t, testRevokeClosesAtOnceAndStays) }

func testRevokeClosesAtOnceAndStays(t *testing.T) {
	g := newGateway(t, nil)
	started := make(chan struct{})
	ended := make(chan error, 1)
	n := g.pair(func(ctx context.Context, tk *wireTicket, sink link.Sink) {
		close(started)
		<-ctx.Done()
		ended <- context.Cause(ctx)
	})
	result := make(chan error, 1)
	go func() { _, _, err := g.call(context.Background(), n.id, `{}`); result <- err }()
	<-started
	_, err := g.nodes.Revoke(context.Background(), n.id, "admin", "lost")
	must(t, err)
	wantCode(t, <-result, capabilities.CodeUnknownOutcome)
	if <-ended == nil {
		t.Error("the running call was not ended")
	}
	wantCode(t, n.awaitEnd(), capabilities.CodeNodeRevoked)
	_, _, err = g.call(context.Background(), n.id, `{}`)
	wantCode(t, err, capabilities.CodeNodeDisconnected)

	again := newNode(t, answerEcho)
	again.dir, again.opts.Dir = n.dir, n.dir
	for range 2 {
		again.run()
		wantCode(t, again.awaitEnd(), capabilities.CodeNodeRevoked)
		g.stop()
		g.start() // it is durable
	}
	if s := g.snapshot(n.id); !s.Revoked || s.Connected {
		t.Errorf("%+v", s)
	}
	_, err = g.nodes.Revoke(context.Background(), n.id, "admin", "")
	wantCode(t, err, capabilities.CodeConflict)
	// A new paste makes a new node of the device; the old one stays out.
	_, paste := g.invite(nodes.InviteSpec{AutoApprove: true})
	must(t, again.join(context.Background(), paste, nil))
	if again.id == n.id {
		t.Error("the ID came back to life")
	}
	again.run()
	g.awaitConnected(again.id)
}

// A device that lost its connection while it was revoked learns it when it comes
// back.
func TestRevokedWhileAway(t *testing.T) { each(t, testRevokedWhileAway) }

func testRevokedWhileAway(t *testing.T) {
	g := newGateway(t, nil)
	n := g.pair(answerEcho)
	n.stop()
	g.awaitGone(n.id)
	_, err := g.nodes.Revoke(context.Background(), n.id, "admin", "")
	must(t, err)
	n.run()
	wantCode(t, n.awaitEnd(), capabilities.CodeNodeRevoked)
}

func TestNodeThatNeverJoined(t *testing.T) {
	n := newNode(t, answerEcho)
	n.run()
	wantCode(t, n.awaitEnd(), capabilities.CodeNodeNotPaired)
}

// The site restored from a backup older than the node does not know it.
func TestNotInRoster(t *testing.T) { each(t, testNotInRoster) }

func testNotInRoster(t *testing.T) {
	g := newGateway(t, nil)
	n := g.pair(answerEcho)
	must(t, g.store.Write(context.Background(), func(tx *storeTx) error {
		_, err := tx.Exec(`DELETE FROM node`)
		return err
	}))
	g.stop()
	g.start()
	wantCode(t, n.awaitEnd(), capabilities.CodeNodeNotPaired)
}

func TestEdit(t *testing.T) {
	ctx := context.Background()
	g := newGateway(t, nil)
	n := newNode(t, answerEcho)
	allowed := make(chan []string, 10)
	n.opts.OnAllow = func(a []string) { allowed <- a }
	_, paste := g.invite(nodes.InviteSpec{AutoApprove: true, Allow: []string{"tyrum.desktop.*"}})
	must(t, n.join(ctx, paste, nil))
	n.run()
	g.awaitConnected(n.id)
	if got := <-allowed; !slices.Equal(got, []string{"tyrum.desktop.*"}) {
		t.Errorf("hello told %v", got)
	}
	v, err := g.nodes.View(n.id)
	must(t, err)
	if !slices.Equal(v.Wants, []capabilities.CapabilityID{echo}) {
		t.Errorf("wants %v", v.Wants)
	}
	label, allow := "kitchen", []string{"tool.browser.evaluate"}
	v, err = g.nodes.Change(ctx, n.id, nodes.Edit{By: "admin", Label: &label, Allow: &allow})
	must(t, err)
	if v.Label != "kitchen" || len(v.Wants) != 0 || !v.Connected {
		t.Errorf("%+v", v)
	}
	if got := <-allowed; !slices.Equal(got, []string{string(echo)}) {
		t.Errorf("the node was told %v", got)
	}
	for _, bad := range []string{"everything", "tyrum.browser.**", "*.x", ""} {
		list := []string{bad}
		_, err = g.nodes.Change(ctx, n.id, nodes.Edit{Allow: &list})
		wantCode(t, err, capabilities.CodeInvalidRequest)
	}
	evil := "a\x1b[31m"
	_, err = g.nodes.Change(ctx, n.id, nodes.Edit{Label: &evil})
	wantCode(t, err, capabilities.CodeInvalidRequest)
	_, err = g.nodes.Change(ctx, "n0", nodes.Edit{Label: &label})
	wantCode(t, err, capabilities.CodeNodeNotFound)
	g.stop()
	g.start()
	if v, err = g.nodes.View(n.id); err != nil || v.Label != "kitchen" || !slices.Equal(v.Allow, []string{string(echo)}) {
		t.Errorf("after a restart %+v, %v", v, err)
	}
	g.awaitConnected(n.id)
}
