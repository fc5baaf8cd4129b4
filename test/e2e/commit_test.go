package e2e

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/agent/journal"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/test/site"
)

// afterCommit is a log that stops the gateway between a call's durable commit and its
// ticket.
type afterCommit struct {
	slog.Handler
	stay func(call string) // on the goroutine of the call
}

func (a *afterCommit) Enabled(context.Context, slog.Level) bool { return true }

func (a *afterCommit) Handle(c context.Context, r slog.Record) error {
	call, allowed := "", false
	r.Attrs(func(at slog.Attr) bool {
		switch at.Key {
		case "call":
			call = at.Value.String()
		case "effect":
			allowed = at.Value.String() == "allow"
		}
		return true
	})
	if r.Message == "tools.dispatch.decision" && allowed {
		a.stay(call)
	}
	if !a.Handler.Enabled(c, r.Level) {
		return nil
	}
	return a.Handler.Handle(c, r)
}

func (a *afterCommit) WithAttrs(list []slog.Attr) slog.Handler {
	return &afterCommit{a.Handler.WithAttrs(list), a.stay}
}

// The gateway is killed when the call is durable and its ticket has not left. It never
// started, the next gateway finds out, and it never runs; its request ID is free.
func TestGatewayKilledBeforeTheTicket(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pause")
	p := startStationWith(t, childOptions{Dir: t.TempDir(), Pause: file})
	t.Cleanup(func() { _ = os.Remove(file) })
	dir, id := p.join()
	startChild(t, childOptions{Role: "node", Dir: dir, QUIC: p.o.QUIC, Witness: p.witness})
	p.awaitNode(id)
	must(t, os.WriteFile(file, nil, 0o600))
	told := make(chan capabilities.Result, 1)
	go func() { told <- p.persist(site.ToolEcho, text("kept"), "kept") }()
	call := ""
	for end := time.Now().Add(site.Within); call == "" && time.Now().Before(end); time.Sleep(time.Millisecond) {
		data, err := os.ReadFile(file)
		must(t, err)
		call = string(data)
	}
	if st := p.read()[capabilities.CallID(call)]; st == nil || strings.Join(st.kinds, " ") != "request decision dispatch" {
		t.Fatalf("the gateway's ledger has %+v", st)
	}
	p.kill()
	must(t, os.Remove(file))
	p.restart()
	p.awaitNode(id)
	r := await(t, "the call", told)
	want(t, r, capabilities.StatusError, capabilities.CodeNodeDisconnected)
	if string(r.Call) != call {
		t.Errorf("told of another call: %s after %s", r.Call, call)
	}
	if ran(t, p.witness)["kept"] != 0 {
		t.Error("it ran")
	}
	again, err := p.call(ctx(), site.ToolEcho, text("kept"), "kept")
	must(t, err)
	if want(t, again, capabilities.StatusOK, ""); string(again.Call) == call || again.Deduplicated {
		t.Errorf("a repeat is told of %s (a repeat: %v) after %s", again.Call, again.Deduplicated, call)
	}
	if st := p.check()[r.Call]; st == nil || st.end() != capabilities.CodeNodeDisconnected {
		t.Errorf("the ledger ends it otherwise: %+v", st)
	}
	if all := ran(t, p.witness); all["kept"] != 1 {
		t.Errorf("%v", all)
	}
	log, err := journal.Read(journal.Dir(dir, string(id)), string(id))
	must(t, err)
	for _, one := range log.Records {
		if string(one.Call) == call {
			t.Errorf("the node's log has %s of the call", one.Kind)
		}
	}
}

// The site is stopped, or the caller leaves, when the call is durable and its ticket has not
// left: it does not run.
func TestEndedBeforeTheTicket(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(h *house, leave context.CancelFunc)
		status capabilities.Status
		code   capabilities.Code
		at     bool // answered at once: the execution has heard of it by then
	}{
		"stopped": {func(h *house, _ context.CancelFunc) {
			did, err := h.Stop(ctx(), "admin", "enough")
			must(h.t, err)
			if did.Calls != 1 {
				h.t.Errorf("%+v", did)
			}
		}, capabilities.StatusDenied, capabilities.CodeStopped, false},
		"the caller left": {func(_ *house, leave context.CancelFunc) { leave() }, capabilities.StatusError, capabilities.CodeCancelled, true},
	} {
		t.Run(name, func(t *testing.T) {
			committed, released := make(chan string, 1), make(chan struct{})
			goOn := sync.OnceFunc(func() { close(released) })
			h := start(t, site.Options{Log: slog.New(&afterCommit{slog.DiscardHandler, func(call string) {
				committed <- call
				<-released
			}})})
			t.Cleanup(goOn)
			handler := site.NewHandler()
			h.AddNode("one", handler)
			c0, leave := context.WithCancel(ctx())
			defer leave()
			told := h.calling(c0, site.ToolEcho, text("kept"), "kept")
			call := await(t, "the commit", committed)
			c.end(h, leave)
			if !c.at {
				goOn()
			}
			want(t, await(t, "the call", told), c.status, c.code)
			goOn()
			h.awaitStory(capabilities.CallID(call), "failed")
			if handler.Runs("kept") != 0 {
				t.Error("it ran")
			}
		})
	}
}
