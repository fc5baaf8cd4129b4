package satellites

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/bus"
	"github.com/handrail-dev/handrail/satellite"
)

// plain is echo without bytes, which do not come a second time.
func (e *echo) plain() satellite.Tool {
	t := e.tool()
	whole := t.Run
	t.Run = func(ctx context.Context, c satellite.Call) (satellite.Result, error) {
		r, err := whole(ctx, c)
		r.Bytes, r.MIME = nil, ""
		return r, err
	}
	return t
}

// Ready after one heartbeat, stale after 15 s, gone after 30 s (S3-11): what stands behind it may
// run as it likes.
func TestASilentSatellite(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	r := run(t, satellite.Options{Name: "voice", Dir: t.TempDir(), Paste: h.invite("voice"), Tools: []satellite.Tool{(&echo{}).tool()}})
	p := h.approve("voice")
	h.callable("tool.voice.say")
	r.end()
	// A call that leaves while the connection ends might be heard by nobody and answered by nobody.
	within(t, "its connection to end", func() bool {
		_, err := h.Gateway.Bus.Manifest(context.Background(), p.Host)
		return capabilities.CodeOf(err) == capabilities.CodeNodeDisconnected
	})
	for _, c := range []struct {
		late time.Duration
		is   bus.Health
		why  capabilities.Reason
	}{{16 * time.Second, bus.HealthStale, capabilities.ReasonHeartbeatLate}, {31 * time.Second, bus.HealthGone, capabilities.ReasonNodeOffline}} {
		h.late.Store(int64(c.late))
		v, err := h.Gateway.Bus.View(p.Host)
		must(t, err)
		if v.Health != c.is {
			t.Errorf("after %s it is %s", c.late, v.Health)
		}
		h.Await(string(c.why), func() bool {
			r := h.call("tool.voice.say", `{"text":"x"}`, "")
			return r.Code == capabilities.CodeNodeNotReady && strings.Contains(fmt.Sprint(r.Details), string(c.why))
		})
	}
}

// The heartbeat comes from the adapter and says whether the backing service answers (S3-10, S3-11).
func TestTheBackingServiceIsSilent(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	var mu sync.Mutex
	var down error
	run(t, satellite.Options{Name: "voice", Dir: t.TempDir(), Paste: h.invite("voice"), Tools: []satellite.Tool{(&echo{}).tool()},
		Check: func(context.Context) error { mu.Lock(); defer mu.Unlock(); return down }})
	p := h.approve("voice")
	h.callable("tool.voice.say")
	mu.Lock()
	down = fmt.Errorf("the model is not loaded")
	mu.Unlock()
	within(t, "the adapter's word", func() bool {
		v, err := h.Gateway.Bus.View(p.Host)
		return err == nil && v.Health == bus.HealthNotReady && strings.Contains(v.Why, "model is not loaded")
	})
	want(t, h.call("tool.voice.say", `{"text":"x"}`, ""), capabilities.StatusError, capabilities.CodeNodeNotReady)
}

// A satellite that is killed in a call is an unknown outcome once it is back and cannot tell, and
// nothing ran twice.
func TestAKilledSatellite(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	dir := t.TempDir()
	log := filepath.Join(dir, "ran")
	child := func(paste string) string {
		o, err := json.Marshal(map[string]string{"Dir": dir, "Paste": paste, "Log": log})
		must(t, err)
		return "SATELLITES_CHILD=" + string(o)
	}
	first := process(t, child(h.invite("slow")))
	h.approve("slow")
	h.callable("tool.slow.work")
	result := make(chan capabilities.Result, 1)
	go func() { result <- h.call("tool.slow.work", `{}`, "r-1") }()
	within(t, "the call to begin", func() bool { data, _ := os.ReadFile(log); return len(data) > 0 })
	must(t, first.Process.Kill())
	_ = first.Wait()
	process(t, child(""))
	r := <-result
	want(t, r, capabilities.StatusError, capabilities.CodeUnknownOutcome)
	h.callable("tool.slow.work")
	want(t, h.call("tool.slow.work", `{}`, "r-1"), capabilities.StatusError, capabilities.CodeUnknownOutcome)
	if data, _ := os.ReadFile(log); strings.Count(string(data), "\n") != 1 {
		t.Errorf("it ran %q", data)
	}
}

// Ten calls in flight survive a restart of the gateway: each is carried out once and its result is
// what the satellite says when it is asked.
func TestARestartWithCallsInFlight(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	e := &echo{gate: make(chan struct{})}
	run(t, satellite.Options{Name: "voice", Dir: t.TempDir(), Paste: h.invite("voice"), Capacity: 16, Tools: []satellite.Tool{e.plain()}})
	h.approve("voice")
	h.callable("tool.voice.say")
	var calls sync.WaitGroup
	text := func(i int) string { return fmt.Sprintf("t%d", i) }
	args := func(i int) string { return fmt.Sprintf(`{"text":%q}`, text(i)) }
	for i := range 10 {
		calls.Go(func() { h.call("tool.voice.say", args(i), capabilities.RequestID(fmt.Sprint("r", i))) })
	}
	for i := range 10 {
		within(t, "a call to begin", func() bool { return e.times(text(i)) == 1 })
	}
	h.Restart()
	calls.Wait()
	close(e.gate)
	h.callable("tool.voice.say")
	for i := range 10 {
		r := h.call("tool.voice.say", args(i), capabilities.RequestID(fmt.Sprint("r", i)))
		want(t, r, capabilities.StatusOK, "")
		if !strings.Contains(string(r.Output), text(i)) || e.times(text(i)) != 1 {
			t.Errorf("%s ran %d times: %s", text(i), e.times(text(i)), r.Output)
		}
		if k := h.kinds(r.Call); has(k, "tool.call.failed") {
			t.Errorf("%s: %q", r.Call, k)
		}
	}
}

// A cut between satellite and gateway ends no call: the satellite comes back by itself and tells
// what became of it.
func TestAPartition(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	way := cable(t)
	e := &echo{gate: make(chan struct{})}
	paste := h.invite("voice")
	way.to = h.Gateway.Bus.Listening()
	paste = strings.Replace(paste, way.to, way.at, 1)
	log := &events{}
	run(t, satellite.Options{Name: "voice", Dir: t.TempDir(), Paste: paste, Log: slog.New(slog.NewTextHandler(log, nil)), Tools: []satellite.Tool{e.plain()}})
	h.approve("voice")
	h.callable("tool.voice.say")
	result := make(chan capabilities.Result, 1)
	go func() { result <- h.call("tool.voice.say", `{"text":"cut"}`, "") }()
	within(t, "the call to begin", func() bool { return e.times("cut") == 1 })
	way.cut()
	close(e.gate) // its answer goes nowhere
	way.heal()
	r := <-result
	want(t, r, capabilities.StatusOK, "")
	if !strings.Contains(string(r.Output), "cut") || e.times("cut") != 1 {
		t.Errorf("%s, ran %d times", r.Output, e.times("cut"))
	}
	// Its log says that it is back.
	within(t, "the log", func() bool { return log.times("satellite.connected") >= 2 && log.times("satellite.disconnected") >= 1 })
}

// A call whose time ended while its satellite was cut off is an unknown outcome. Once it is back
// the satellite tells: the ledger has both, and a repeat gets what it did.
func TestACallIsReconciled(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	way := cable(t)
	e := &echo{gate: make(chan struct{})}
	paste := h.invite("voice")
	way.to = h.Gateway.Bus.Listening()
	paste = strings.Replace(paste, way.to, way.at, 1)
	say := e.plain()
	say.Timeout = 5 * time.Second // a busy machine comes to the cut in that
	run(t, satellite.Options{Name: "voice", Dir: t.TempDir(), Paste: paste, Tools: []satellite.Tool{say}})
	h.approve("voice")
	h.callable("tool.voice.say")
	result := make(chan capabilities.Result, 1)
	args := `{"text":"cut"}`
	go func() { result <- h.call("tool.voice.say", args, "r-1") }()
	within(t, "the call to begin", func() bool { return e.times("cut") == 1 })
	way.cut()
	close(e.gate) // its answer goes nowhere
	r := <-result
	want(t, r, capabilities.StatusError, capabilities.CodeUnknownOutcome)
	if k := h.kinds(r.Call); !has(k, "tool.call.failed") || has(k, "tool.call.reconciled") {
		t.Errorf("%q", k)
	}
	way.heal()
	within(t, "the call to be reconciled", func() bool { return has(h.kinds(r.Call), "tool.call.reconciled") })
	again := h.call("tool.voice.say", args, "r-1")
	if want(t, again, capabilities.StatusOK, ""); again.Call != r.Call || !strings.Contains(string(again.Output), "cut") || e.times("cut") != 1 {
		t.Errorf("%+v, ran %d times", again, e.times("cut"))
	}
}

// events is a log that a test reads meanwhile.
type events struct {
	mu   sync.Mutex
	text strings.Builder
}

func (e *events) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text.Write(p)
}

func (e *events) times(event string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Count(e.text.String(), "msg="+event+" ")
}

// wire is a TCP proxy that can be cut.
type wire struct {
	at, to string
	mu     sync.Mutex
	down   bool
	open   []net.Conn
}

func cable(t *testing.T) *wire {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	w := &wire{at: l.Addr().String()}
	var works sync.WaitGroup
	works.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.mu.Lock()
			down := w.down
			w.mu.Unlock()
			if down {
				_ = c.Close()
				continue
			}
			out, err := net.Dial("tcp", w.to)
			if err != nil {
				_ = c.Close()
				continue
			}
			w.mu.Lock()
			w.open = append(w.open, c, out)
			w.mu.Unlock()
			for _, pair := range [][2]net.Conn{{c, out}, {out, c}} {
				works.Go(func() { _, _ = io.Copy(pair[0], pair[1]); _ = pair[0].Close(); _ = pair[1].Close() })
			}
		}
	})
	t.Cleanup(func() { _ = l.Close(); w.cut(); works.Wait() })
	return w
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = true
	for _, c := range w.open {
		_ = c.Close()
	}
	w.open = nil
}

func (w *wire) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = false
}

// Interchangeable satellites share the calls by how busy each is, and one that is gone costs none
// of the next; without that word a second one is not let in.
func TestInterchangeable(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	a, b := &echo{gate: make(chan struct{})}, &echo{gate: make(chan struct{})}
	ra := run(t, satellite.Options{Name: "voice", Dir: t.TempDir(), Paste: h.invite("voice"), Interchangeable: true, Tools: []satellite.Tool{a.tool()}})
	h.approve("voice")
	run(t, satellite.Options{Name: "voice", Dir: t.TempDir(), Paste: h.invite("voice"), Interchangeable: true, Tools: []satellite.Tool{b.tool()}})
	h.Await("both", func() bool {
		ready := 0
		for _, v := range h.Gateway.Bus.Views() {
			if v.Health == bus.HealthReady && v.Manifest != "" {
				ready++
			}
		}
		return ready == 2 && len(h.Gateway.Registry.Now().Hosts("voice")) == 2
	})
	h.callable("tool.voice.say")
	var calls sync.WaitGroup
	for i := range 4 {
		calls.Go(func() {
			want(t, h.call("tool.voice.say", fmt.Sprintf(`{"text":"t%d"}`, i), ""), capabilities.StatusOK, "")
		})
		within(t, "the call to run", func() bool { return len(a.all())+len(b.all()) == i+1 })
	}
	within(t, "two calls on each", func() bool { return len(a.all()) == 2 && len(b.all()) == 2 })
	close(a.gate)
	close(b.gate)
	calls.Wait()
	ra.end()
	h.late.Store(int64(31 * time.Second))
	for i := range 3 {
		h.Await("the other one", func() bool {
			return h.call("tool.voice.say", fmt.Sprintf(`{"text":"alone%d"}`, i), "").Status == capabilities.StatusOK
		})
	}
	if len(a.all()) != 2 {
		t.Errorf("the one that is gone ran %q", a.all())
	}

	run(t, satellite.Options{Name: "single", Dir: t.TempDir(), Paste: h.invite("single"), Tools: []satellite.Tool{(&echo{}).tool()}})
	h.approve("single")
	id, err := h.Gateway.Bus.Invite(context.Background(), "root", "single", true, 0)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, err = satellite.Join(ctx, id.Paste, t.TempDir(), "single", satellite.JoinOptions{Progress: func(_, _, state string) {
		if state != "pending" {
			t.Errorf("a second one is %s", state)
		}
		cancel()
	}})
	if err == nil {
		t.Error("a second one is let in")
	}
}

func (e *echo) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string{}, e.ran...)
}

// A satellite that says something else of a tool than was approved is not called (S4's lifecycle is
// that of every provider).
func TestAChangedSatellite(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	e, dir := &echo{}, t.TempDir()
	r := run(t, satellite.Options{Name: "voice", Dir: dir, Paste: h.invite("voice"), Tools: []satellite.Tool{e.tool()}})
	h.approve("voice")
	h.callable("tool.voice.say")
	r.end()
	changed := e.tool()
	changed.Description = "Says what it heard, and reads your mail."
	run(t, satellite.Options{Name: "voice", Dir: dir, Tools: []satellite.Tool{changed}})
	h.Await("review", func() bool {
		p, err := h.Gateway.Providers.Get("voice")
		return err == nil && p.Tools[0].State == "review"
	})
	if r := h.call("tool.voice.say", `{"text":"x"}`, ""); r.Status == capabilities.StatusOK || e.times("x") != 0 {
		t.Errorf("it is called: %+v", r)
	}
	p, err := h.Gateway.Providers.Check(context.Background(), admin, "voice")
	must(t, err)
	if !strings.Contains(p.Tools[0].Description, "mail") {
		t.Errorf("%+v", p.Tools[0])
	}
	h.approve("voice")
	h.callable("tool.voice.say")
	want(t, h.call("tool.voice.say", `{"text":"y"}`, ""), capabilities.StatusOK, "")
}
