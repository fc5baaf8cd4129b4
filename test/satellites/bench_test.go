package satellites

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/bus"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/satellite"
	"github.com/handrail-dev/handrail/test/site"
)

// BenchmarkPlaneSatellite is a call of a satellite's tool that takes no time of its own, over HTTP,
// beside what it cannot do without: an answer over HTTP, one over a NATS server, and the call's own
// packets committed to the same disk in the same two commits.
func BenchmarkPlaneSatellite(b *testing.B) {
	h := start(b, nil)
	run(b, satellite.Options{Name: "quick", Dir: b.TempDir(), Paste: h.invite("quick"), Tools: []satellite.Tool{{
		Name: "say", Description: "Says nothing.", ReadOnly: true,
		Run: func(context.Context, satellite.Call) (satellite.Result, error) {
			return satellite.Result{Text: "said"}, nil
		},
	}}})
	h.approve("quick")
	h.callable("tool.quick.say")
	token := h.MustToken("agent", principal.RoleAgent)
	client := &http.Client{}
	defer client.CloseIdleConnections()
	ask := func(url, body, within string) []byte {
		req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
		must(b, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := client.Do(req)
		must(b, err)
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		must(b, err)
		if !strings.Contains(string(answer), within) {
			b.Fatalf("%s: %s", url, answer)
		}
		return answer
	}
	const call = `{"tool":"tool.quick.say","args":{}}`
	calling := func() []byte { return ask(h.URL()+"/v1/calls", call, `"status":"ok"`) }
	answer := calling()

	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(answer)
	}))
	defer echo.Close()
	site.Measure(b,
		site.Measured{Name: "call", Do: func() { calling() }},
		site.Measured{Name: "http", Do: func() { ask(echo.URL, call, "ok") }},
		site.Measured{Name: "bus", Do: bareBus(b)},
		site.Measured{Name: "commits", Do: bareCommits(b, h, answer)})
}

// bareBus returns a question and its answer over a NATS server without TLS, permissions or
// signatures.
func bareBus(b *testing.B) func() {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	must(b, err)
	s.Start()
	b.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		b.Fatal("the bare server does not listen")
	}
	connect := func() *nats.Conn {
		c, err := nats.Connect(s.ClientURL())
		must(b, err)
		b.Cleanup(c.Close)
		return c
	}
	there, here := connect(), connect()
	_, err = there.Subscribe("floor", func(m *nats.Msg) { _ = m.Respond(m.Data) })
	must(b, err)
	must(b, there.Flush())
	data := bytes.Repeat([]byte("x"), 300)
	return func() {
		_, err := here.Request("floor", data, 10*time.Second)
		must(b, err)
	}
}

// bareCommits returns the commits of a call: what is durable before it, and its end.
func bareCommits(b *testing.B, h *house, answer []byte) func() {
	var result struct {
		Call capabilities.CallID `json:"call_id"`
	}
	must(b, json.Unmarshal(answer, &result))
	packets, err := h.Gateway.Ledger.Packets(context.Background(), ledger.Query{Call: result.Call})
	must(b, err)
	if len(packets) != 4 {
		b.Fatalf("%d packets of %s", len(packets), answer)
	}
	var drafts []ledger.Draft
	for _, p := range packets {
		drafts = append(drafts, ledger.Draft{Kind: p.Kind, Call: p.Call, Tool: p.Tool, Principal: p.Principal, Lane: p.Lane, Node: p.Node, Body: ledger.Body(p.Body)})
	}
	db, err := store.Open(context.Background(), store.Options{Path: filepath.Join(b.TempDir(), "store.db"), Migrations: ledger.Migrations, ReserveBytes: -1})
	must(b, err)
	b.Cleanup(func() { _ = db.Close() })
	l, err := ledger.Open(context.Background(), ledger.Options{Store: db, Chain: "floor", Key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))})
	must(b, err)
	return func() {
		must(b, l.Append(context.Background(), drafts[:3]...))
		must(b, l.Append(context.Background(), drafts[3]))
	}
}

// Many satellites, of several services, and how long they are watched.
const (
	many    = 1000
	watched = 20 * time.Second
	rounds  = 3 // the quickest counts: keys are still agreed on for a while after all have joined
)

var services = []string{"bakery", "harbor", "violin", "meadow", "cobalt", "jigsaw", "thunder", "pepper", "walnut", "quilt"}

// BenchmarkPlaneBeats is what the heartbeats of a thousand satellites in another process cost their
// gateway: of a core, and of memory over what the gateway has without them; and what as many
// speakers cost a bare NATS server.
func BenchmarkPlaneBeats(b *testing.B) {
	barePercent, bareMemory := bare(b)
	h := start(b, nil)
	alone := resident()
	idle := settled(b, watched/3)
	// The first satellite of each service is approved, so that others may stand beside it.
	start := func(members int) {
		type member struct{ Service, Paste string }
		var list []member
		for n := range members {
			service := services[n%len(services)]
			list = append(list, member{service, h.invite(service)})
		}
		data, err := json.Marshal(list)
		must(b, err)
		file := filepath.Join(b.TempDir(), "members.json")
		must(b, os.WriteFile(file, data, 0o600))
		process(b, "SATELLITES_CROWD="+file)
	}
	start(len(services))
	for _, service := range services {
		within(b, service, func() bool { _, err := h.Gateway.Providers.Get(service); return err == nil })
		h.approve(service)
	}
	start(many - len(services))
	ready := 0
	for end := time.Now().Add(3 * time.Minute); ready < many; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("%d of %d satellites are ready; refused: %v", ready, many, h.Gateway.Bus.Refused())
		}
		ready = 0
		for _, v := range h.Gateway.Bus.Views() {
			if v.Health == bus.HealthReady {
				ready++
			}
		}
	}
	settled(b, 10*time.Second) // what joining left to do
	for b.Loop() {
		least := settled(b, watched)
		for range rounds - 1 {
			least = min(least, settled(b, watched))
		}
		b.ReportMetric(least, "busy-percent")
	}
	b.ReportMetric(idle, "idle-percent")
	b.ReportMetric(barePercent, "bare-percent")
	b.ReportMetric(bareMemory, "barely-MB")
	b.ReportMetric(resident()-alone, "memory-MB")
	b.ReportMetric(alone, "alone-MB")
	if refused := h.Gateway.Bus.Refused(); len(refused) > 0 {
		b.Logf("refused: %v", refused)
	}
}

// settled is busy after a collection of what came before.
func settled(b *testing.B, d time.Duration) float64 {
	b.Helper()
	runtime.GC()
	return busy(d)
}

// crowd is all the members of a file, each a satellite of its own.
func crowd(file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	var members []struct{ Service, Paste string }
	if err := json.Unmarshal(data, &members); err != nil {
		panic(err)
	}
	joining := make(chan struct{}, 8)
	var all sync.WaitGroup
	for n, m := range members {
		all.Go(func() {
			dir := filepath.Join(filepath.Dir(file), fmt.Sprint(n))
			joining <- struct{}{}
			err := os.Mkdir(dir, 0o700)
			if err == nil {
				_, err = satellite.Join(context.Background(), m.Paste, dir, m.Service, satellite.JoinOptions{})
			}
			<-joining
			if err == nil {
				err = satellite.Run(context.Background(), satellite.Options{Name: m.Service, Dir: dir, Interchangeable: true, Log: slog.New(slog.DiscardHandler), Tools: []satellite.Tool{{
					Name: "say", Description: "Says nothing.", ReadOnly: true,
					Run: func(context.Context, satellite.Call) (satellite.Result, error) { return satellite.Result{}, nil },
				}}})
			}
			fmt.Fprintln(os.Stderr, m.Service, err)
		})
	}
	all.Wait()
	os.Exit(1)
}
