package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/agent/journal"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/test/site"
)

// afterCommit is a log that stops the gateway between a call's durable commit and
// what follows it: the ticket lies at the node, and the word is not sent. A call whose
// ticket did not go ahead passes.
type afterCommit struct {
	slog.Handler
	held *sync.Map         // by call
	stay func(call string) // on the goroutine of the call
}

func (a *afterCommit) Enabled(context.Context, slog.Level) bool { return true }

func (a *afterCommit) Handle(c context.Context, r slog.Record) error {
	call := ""
	r.Attrs(func(at slog.Attr) bool {
		if at.Key == "call" {
			call = at.Value.String()
		}
		return call == ""
	})
	switch r.Message {
	case "tools.dispatch.held":
		a.held.Store(call, nil)
	case "tools.dispatch.decision":
		if _, held := a.held.LoadAndDelete(call); held {
			a.stay(call)
		}
	}
	if !a.Handler.Enabled(c, r.Level) {
		return nil
	}
	return a.Handler.Handle(c, r)
}

func (a *afterCommit) WithAttrs(list []slog.Attr) slog.Handler {
	return &afterCommit{a.Handler.WithAttrs(list), a.held, a.stay}
}

// maxTries bounds how often a call is made until one finds the gateway's store idle,
// so that its ticket goes ahead.
const maxTries = 100

// wantLog waits until the node's log has these records of the call, and no others.
func wantLog(t *testing.T, dir string, node capabilities.NodeID, call string, kinds ...string) {
	t.Helper()
	var got []string
	for end := time.Now().Add(site.Within); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		log, err := journal.Read(journal.Dir(dir, string(node)), string(node))
		must(t, err)
		got = nil
		for _, r := range log.Records {
			if string(r.Call) == call {
				got = append(got, r.Kind)
			}
		}
		if slices.Equal(got, kinds) {
			return
		}
	}
	t.Fatalf("the node's log has %q of the call, want %q", got, kinds)
}

// paused is a gateway and a node in processes of their own, and a call whose ticket
// lies at the node, durable on both sides, when the gateway stopped before the word.
type paused struct {
	*station
	node *child
	id   capabilities.NodeID
	name string // of the call, and its request ID
	call string
	told <-chan capabilities.Result
}

func pause(t *testing.T) *paused {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pause")
	p := &paused{station: startStationWith(t, childOptions{Dir: t.TempDir(), Pause: file})}
	t.Cleanup(func() { _ = os.Remove(file) })
	dir, id := p.join()
	p.id, p.node = id, startChild(t, childOptions{Role: "node", Dir: dir, QUIC: p.station.o.QUIC, Witness: p.witness})
	p.awaitNode(id)
	must(t, os.WriteFile(file, nil, 0o600))
	for i := 0; p.call == ""; i++ {
		if i == maxTries {
			t.Fatal("no ticket goes ahead")
		}
		p.name = fmt.Sprint("held-", i)
		told := make(chan capabilities.Result, 1)
		go func() { told <- p.persist(site.ToolEcho, text(p.name), p.name) }()
		p.told = told
		p.call = p.committed(file, told)
	}
	wantLog(t, dir, id, p.call, journal.KindHeld)
	if st := p.read()[capabilities.CallID(p.call)]; st == nil || strings.Join(st.kinds, " ") != "request decision dispatch" {
		t.Fatalf("the gateway's ledger has %+v", st)
	}
	return p
}

// committed waits until the call is durable and the gateway stopped; empty, if its
// ticket did not go ahead, and it ran.
func (p *paused) committed(file string, told <-chan capabilities.Result) string {
	p.t.Helper()
	for end := time.Now().Add(site.Within); time.Now().Before(end); time.Sleep(time.Millisecond) {
		select {
		case r := <-told:
			want(p.t, r, capabilities.StatusOK, "")
			return ""
		default:
		}
		data, err := os.ReadFile(file)
		must(p.t, err)
		if len(data) > 0 {
			return string(data)
		}
	}
	p.t.Fatal("the call is neither committed nor over")
	return ""
}

func (p *paused) mustCall(name, id string) capabilities.Result {
	p.t.Helper()
	r, err := p.station.call(ctx(), site.ToolEcho, text(name), id)
	must(p.t, err)
	return r
}

// goOn lets commits be followed by the word again.
func (p *paused) goOn() { must(p.t, os.Remove(p.station.o.Pause)) }

// wantNothingRan wants that the held call never ran and never will, and that both sides
// go on. Where that is known the request ID is free and a repeat runs; where it is not,
// everybody is told the same.
func (p *paused) wantNothingRan(code capabilities.Code) {
	t := p.t
	t.Helper()
	p.awaitNode(p.id)
	r := await(t, "the call", p.told)
	want(t, r, capabilities.StatusError, code)
	if string(r.Call) != p.call {
		t.Errorf("told of another call: %s after %s", r.Call, p.call)
	}
	runs := 0
	if ran(t, p.witness)[p.name] != 0 {
		t.Error("it ran")
	}
	again := p.mustCall(p.name, p.name)
	if code == capabilities.CodeUnknownOutcome {
		want(t, again, capabilities.StatusError, code)
	} else {
		want(t, again, capabilities.StatusOK, "")
		runs = 1
	}
	if known := code != capabilities.CodeUnknownOutcome; (string(again.Call) != p.call) != known || again.Deduplicated == known {
		t.Errorf("a repeat is told of %s (a repeat: %v) after %s", again.Call, again.Deduplicated, p.call)
	}
	want(t, p.mustCall("after", ""), capabilities.StatusOK, "")
	if st := p.check()[r.Call]; st == nil || st.end() != code {
		t.Errorf("the ledger ends it otherwise: %+v", st)
	}
	if all := ran(t, p.witness); all[p.name] != runs || all["after"] != 1 {
		t.Errorf("%v", all)
	}
}

// The gateway is killed when the call is durable and the word that lets it run is not
// sent. It never started, the next gateway finds out, and it never runs.
func TestGatewayKilledBeforeTheWord(t *testing.T) {
	t.Parallel()
	p := pause(t)
	p.station.kill()
	p.goOn()
	p.restart()
	p.wantNothingRan(capabilities.CodeNodeDisconnected)
	wantLog(t, p.node.o.Dir, p.id, p.call, journal.KindHeld, journal.KindWithdrawn)
}

// The node is killed while it holds: nobody can tell that from a call that ran.
func TestNodeKilledWhileItHolds(t *testing.T) {
	t.Parallel()
	p := pause(t)
	p.node.kill()
	p.goOn()
	p.node = startChild(t, p.node.o)
	p.wantNothingRan(capabilities.CodeUnknownOutcome)
	wantLog(t, p.node.o.Dir, p.id, p.call, journal.KindHeld)
}

// Both are killed at that moment.
func TestBothKilledBeforeTheWord(t *testing.T) {
	t.Parallel()
	p := pause(t)
	p.station.kill()
	p.node.kill()
	p.goOn()
	p.node = startChild(t, p.node.o)
	p.restart()
	p.wantNothingRan(capabilities.CodeUnknownOutcome)
	wantLog(t, p.node.o.Dir, p.id, p.call, journal.KindHeld)
}

// holding is a site with a call whose ticket lies at the node; the word follows goOn.
type holding struct {
	*house
	handler *site.Handler
	node    *site.Node
	leave   context.CancelFunc // the caller's
	name    string             // of the call, and its request ID
	call    string
	told    <-chan capabilities.Result
	goOn    func()
}

func hold(t *testing.T) *holding {
	t.Helper()
	committed, released := make(chan string, 1), make(chan struct{})
	h := &holding{handler: site.NewHandler(), goOn: sync.OnceFunc(func() { close(released) })}
	h.house = start(t, site.Options{Log: slog.New(&afterCommit{slog.DiscardHandler, new(sync.Map), func(call string) {
		select {
		case committed <- call: // the first one
			<-released
		case <-released:
		}
	}})})
	t.Cleanup(h.goOn)
	h.node = h.AddNode("one", h.handler)
	c, cancel := context.WithCancel(ctx())
	t.Cleanup(cancel)
	h.leave = cancel
	for i := 0; h.call == ""; i++ {
		if i == maxTries {
			t.Fatal("no ticket goes ahead")
		}
		h.name = fmt.Sprint("held-", i)
		h.told = h.calling(c, site.ToolEcho, text(h.name), capabilities.RequestID(h.name))
		select {
		case h.call = <-committed:
		case r := <-h.told:
			want(t, r, capabilities.StatusOK, "")
		case <-time.After(site.Within):
			t.Fatal("the call is neither committed nor over")
		}
	}
	h.wantLog(journal.KindHeld)
	return h
}

func (h *holding) wantLog(kinds ...string) {
	h.t.Helper()
	wantLog(h.t, h.node.Dir, h.node.ID, h.call, kinds...)
}

// wantNothingRan sends the word, which comes too late, and wants that end of the call.
func (h *holding) wantNothingRan(status capabilities.Status, code capabilities.Code) {
	h.t.Helper()
	h.goOn()
	r := await(h.t, "the call", h.told)
	want(h.t, r, status, code)
	h.awaitStory(capabilities.CallID(h.call), "failed")
	h.wantStory(capabilities.CallID(h.call), "request", "decision", "dispatch", "failed")
	if h.handler.Runs(h.name) != 0 {
		h.t.Error("it ran")
	}
}

// The site is stopped while the node holds.
func TestSiteStoppedWhileHeld(t *testing.T) {
	h := hold(t)
	did, err := h.Stop(ctx(), "admin", "enough")
	must(t, err)
	if did.Calls != 1 {
		t.Errorf("%+v", did)
	}
	h.wantLog(journal.KindHeld, journal.KindWithdrawn)
	h.wantNothingRan(capabilities.StatusDenied, capabilities.CodeStopped)
	_, err = h.Resume(ctx(), "admin", "")
	must(t, err)
	want(t, h.Call(t.Context(), site.ToolEcho, text("after"), ""), capabilities.StatusOK, "")
	h.wantLog(journal.KindHeld, journal.KindWithdrawn)
}

// The device is stopped by its person while it holds, and let go again: that does not
// bring the ticket back.
func TestDeviceStoppedWhileHeld(t *testing.T) {
	h := hold(t)
	h.node.Halt("test")
	h.wantLog(journal.KindHeld, journal.KindWithdrawn)
	h.wantNothingRan(capabilities.StatusDenied, capabilities.CodeStopped)
}

// The caller leaves while the node holds.
func TestCallerLeavesWhileHeld(t *testing.T) {
	h := hold(t)
	h.leave()
	h.wantLog(journal.KindHeld, journal.KindWithdrawn)
	h.goOn()
	want(t, await(t, "the call", h.told), capabilities.StatusError, capabilities.CodeCancelled)
	h.awaitStory(capabilities.CallID(h.call), "reconciled")
	h.wantStory(capabilities.CallID(h.call), "request", "decision", "dispatch", "failed", "reconciled")
	// The node's word: nothing of it was carried out.
	if st := h.read()[capabilities.CallID(h.call)]; st.codes[len(st.codes)-1] != capabilities.CodeNodeDisconnected || h.handler.Runs(h.name) != 0 {
		t.Errorf("told %s after %d runs", st.codes, h.handler.Runs(h.name))
	}
}

// The disk takes longer for the commit than a ticket may lie: the node gives up, the
// word is too late, and the caller is told that nothing ran.
func TestTheWordComesTooLate(t *testing.T) {
	t.Parallel() // it takes as long as a ticket may lie
	h := hold(t)
	h.wantLog(journal.KindHeld, journal.KindWithdrawn)
	h.wantNothingRan(capabilities.StatusError, capabilities.CodeTicketExpired)
	// What never started has left its request ID free.
	want(t, h.Call(t.Context(), site.ToolEcho, text(h.name), capabilities.RequestID(h.name)), capabilities.StatusOK, "")
	if r := h.Call(t.Context(), site.ToolEcho, text(h.name), capabilities.RequestID(h.name)); !r.Deduplicated {
		t.Errorf("a repeat of what ran is no repeat: %+v", r)
	}
	if h.handler.Runs(h.name) != 1 {
		t.Errorf("grave: ran %d times", h.handler.Runs(h.name))
	}
}
