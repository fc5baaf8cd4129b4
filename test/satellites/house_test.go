package satellites

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/provider"
	"github.com/handrail-dev/handrail/satellite"
	"github.com/handrail-dev/handrail/test/site"
)

// house is a gateway with a bus of its own.
type house struct {
	*site.Site
	late atomic.Int64 // nanoseconds by which the gateway's clock is ahead
}

var admin = dispatch.Caller{Principal: "root", Role: "admin", Lane: "main"}

func start(t testing.TB, door func(*gateway.Options)) *house {
	t.Helper()
	h := &house{}
	at := freePort(t)
	h.Site = site.Start(t, site.Options{Door: func(o *gateway.Options) {
		o.Bus = at
		o.Clock = func() time.Time { return time.Now().Add(time.Duration(h.late.Load())) }
		if door != nil {
			door(o)
		}
	}})
	return h
}

// freePort returns an address that stays the same over restarts. It is none that the system gives
// to anybody else meanwhile: tests run beside each other, and their clients take ports, too.
func freePort(t testing.TB) string {
	t.Helper()
	for range 100 {
		at := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000))
		if l, err := net.Listen("tcp", at); err == nil {
			must(t, l.Close())
			return at
		}
	}
	t.Fatal("no port is free")
	return ""
}

// running is a satellite at work.
type running struct {
	t    testing.TB
	stop context.CancelFunc
	done chan struct{}
	err  error // valid after done
}

func (r *running) end() { r.stop(); <-r.done }

// invite returns a code for a satellite that is let in at once.
func (h *house) invite(service string) string {
	h.T.Helper()
	i, err := h.Gateway.Bus.Invite(context.Background(), "root", service, true, 0)
	must(h.T, err)
	return i.Paste
}

// run starts a satellite; it ends with the test.
func run(t testing.TB, o satellite.Options) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: t, stop: cancel, done: make(chan struct{})}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	go func() {
		defer close(r.done)
		r.err = satellite.Run(ctx, o)
	}()
	t.Cleanup(r.end)
	return r
}

// approve allows every tool of a provider, once it is there with so many.
func (h *house) approve(name string) provider.Provider {
	h.T.Helper()
	var p provider.Provider
	h.Await("the provider "+name, func() (ok bool) {
		var err error
		p, err = h.Gateway.Providers.Get(name)
		return err == nil
	})
	choices := map[capabilities.ToolID]provider.Choice{}
	for _, t := range p.Tools {
		choices[t.Described.Tool] = provider.Choice{Effect: provider.EffectAllow}
	}
	p, err := h.Gateway.Providers.Approve(context.Background(), admin, name, p.Hash, choices)
	must(h.T, err)
	return p
}

// call makes one call as an agent.
func (h *house) call(tool capabilities.ToolID, args string, request capabilities.RequestID) capabilities.Result {
	return h.Call(context.Background(), tool, args, request)
}

// Await waits until ok holds. It asks again and again: a call that succeeds at last changes no
// roster, for which the site's own waits.
func (h *house) Await(what string, ok func() bool) {
	h.T.Helper()
	within(h.T, what, ok)
}

// callable waits until a tool can be called.
func (h *house) callable(tool capabilities.ToolID) {
	h.T.Helper()
	h.Await(string(tool)+" to be ready", func() bool {
		list := h.Gateway.Dispatcher.Visible(context.Background(), dispatch.Caller{Principal: "agent", Role: "agent", Lane: "main"})
		for _, d := range list {
			if d.Tool == tool {
				return true
			}
		}
		return false
	})
}

// echo is a service with a tool that says what it heard, and counts how often it ran.
type echo struct {
	mu   sync.Mutex
	ran  []string
	gate chan struct{} // nil: it does not wait
}

func (e *echo) tool() satellite.Tool {
	return satellite.Tool{
		Name: "say", Description: "Says what it heard.", ReadOnly: true,
		Input: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string","maxLength":100000}},"required":["text"],"additionalProperties":false}`),
		Run: func(ctx context.Context, c satellite.Call) (satellite.Result, error) {
			var in struct{ Text string }
			if err := json.Unmarshal(c.Args, &in); err != nil {
				return satellite.Result{}, err
			}
			e.mu.Lock()
			e.ran = append(e.ran, in.Text)
			gate := e.gate
			e.mu.Unlock()
			c.Progress(1, 2, "half way")
			if gate != nil {
				select {
				case <-gate:
				case <-ctx.Done():
					return satellite.Result{}, ctx.Err()
				}
			}
			return satellite.Result{Text: in.Text, Data: map[string]any{"length": len(in.Text)}, Bytes: []byte("RIFF" + in.Text), MIME: "audio/wav"}, nil
		},
	}
}

func (e *echo) times(text string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, s := range e.ran {
		if s == text {
			n++
		}
	}
	return n
}

// kinds are the kinds of a call's packets, in order.
func (h *house) kinds(call capabilities.CallID) (all []string) {
	h.T.Helper()
	for _, p := range h.packets(call) {
		all = append(all, string(p.Kind))
	}
	return all
}

func want(t *testing.T, r capabilities.Result, status capabilities.Status, code capabilities.Code) {
	t.Helper()
	if r.Status != status || r.Code != code {
		t.Errorf("got %s %q (%s %s), want %s %q", r.Status, r.Code, r.Message, r.Hint, status, code)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func has(list []string, s string) bool { return slices.Contains(list, s) }
