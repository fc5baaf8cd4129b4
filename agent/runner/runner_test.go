package runner

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/agent/journal"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	evaluate   = capabilities.CapabilityID("tyrum.browser.evaluate")
	screenshot = capabilities.CapabilityID("tyrum.browser.screenshot")
)

// handler does what the test wants.
type handler struct {
	offers []capabilities.CapabilityID
	handle func(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error)
	runs   int
	mu     sync.Mutex
}

func (h *handler) Capabilities() []capabilities.CapabilityID { return h.offers }

func (h *handler) Readiness(context.Context) []capabilities.Readiness {
	var all []capabilities.Readiness
	for _, c := range h.offers {
		all = append(all, capabilities.Readiness{Capability: c, Isolation: capabilities.ClassT2})
	}
	return all
}

func (h *handler) Handle(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	h.mu.Lock()
	h.runs++
	h.mu.Unlock()
	return h.handle(ctx, inv)
}

func (h *handler) ran() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runs
}

func (h *handler) CloseLane(capabilities.LaneID) {}
func (h *handler) Close() error                  { return nil }

func ok(context.Context, capabilities.Invocation) (capabilities.Output, error) {
	return capabilities.Output{Result: map[string]any{"result": 1}, Effect: capabilities.EffectConfirmed}, nil
}

// untilEnded waits for the context, as a handler should.
func untilEnded(ctx context.Context, _ capabilities.Invocation) (capabilities.Output, error) {
	<-ctx.Done()
	return capabilities.Output{}, ctx.Err()
}

type guardFunc func(*wire.Ticket, capabilities.Readiness) *capabilities.Error

func (f guardFunc) Check(_ context.Context, t *wire.Ticket, r capabilities.Readiness) *capabilities.Error {
	return f(t, r)
}

func (f guardFunc) Reaches(*wire.Ticket, capabilities.Readiness, string) *capabilities.Error {
	return nil
}

func (f guardFunc) Still(t *wire.Ticket, r capabilities.Readiness) *capabilities.Error {
	return f(t, r)
}

func admit(*wire.Ticket, capabilities.Readiness) *capabilities.Error { return nil }

// sink keeps what a call sends.
type sink struct {
	mu       sync.Mutex
	progress []wire.Progress
	answers  []wire.Answer
	blobs    [][]byte
	seal     func(key []byte) (*wire.Sealed, error)
	order    func(wire.Step) (*wire.StepOrder, error)
	asked    []wire.Step
	ends     []wire.StepEnd
	// answerForm answers what a person is asked; nil: nobody can be.
	answerHost func(wire.HostAsk) (*wire.HostAnswer, error)
	answerForm func(wire.Elicit) (*wire.Elicited, error)
}

func (s *sink) Step(_ context.Context, m wire.Step) (*wire.StepOrder, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, m)
	m.Number = uint32(len(s.asked))
	return s.order(m)
}

func (s *sink) AskHost(_ context.Context, m wire.HostAsk) (*wire.HostAnswer, error) {
	if s.answerHost == nil {
		return nil, capabilities.Errorf(capabilities.CodeNotSupported, "nobody can be asked")
	}
	return s.answerHost(m)
}

func (s *sink) Elicit(_ context.Context, m wire.Elicit) (*wire.Elicited, error) {
	if s.answerForm == nil {
		return nil, capabilities.Errorf(capabilities.CodeNotSupported, "nobody can be asked")
	}
	return s.answerForm(m)
}

func (s *sink) StepEnded(m wire.StepEnd) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends = append(s.ends, m)
}

func (s *sink) Progress(p wire.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress = append(s.progress, p)
}

func (s *sink) Accept(_ context.Context, a wire.Accept) (*wire.Sealed, error) {
	if s.seal == nil {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "nothing is delivered here")
	}
	return s.seal(a.Key)
}

func (s *sink) Answer(a wire.Answer, blobs [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, a)
	s.blobs = blobs
}

// bench is a runner with a real journal.
type bench struct {
	*Runner
	t       *testing.T
	dir     string
	h       *handler
	journal *journal.Journal
	calls   int
	places  map[capabilities.IsolationClass]Places
}

func newBench(t *testing.T, guard guardFunc, handle func(context.Context, capabilities.Invocation) (capabilities.Output, error)) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir(), h: &handler{offers: []capabilities.CapabilityID{evaluate, screenshot}, handle: handle}}
	b.open(guard)
	t.Cleanup(func() { _ = b.journal.Close() })
	return b
}

func (b *bench) open(guard guardFunc) {
	b.t.Helper()
	j, err := journal.Open(journal.Options{Dir: b.dir, Chain: "n1", Key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))})
	if err != nil {
		b.t.Fatal(err)
	}
	cat, err := catalog.Embedded()
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := New(Options{Handlers: []capabilities.Handler{b.h}, Catalog: cat, Guard: guard, Journal: j, Places: b.places})
	if err != nil {
		b.t.Fatal(err)
	}
	b.Runner, b.journal = r, j
}

// restart makes the runner of the next process, over the journal of this one.
func (b *bench) restart() {
	b.t.Helper()
	if err := b.journal.Close(); err != nil {
		b.t.Fatal(err)
	}
	b.open(admit)
}

func (b *bench) ticket() *wire.Ticket {
	b.calls++
	args := []byte(`{"expression":"1"}`)
	return &wire.Ticket{
		Call: capabilities.CallID(fmt.Sprint("c", b.calls)), Tool: evaluate.Tool(), Capability: evaluate, Lane: "main", Node: "n1",
		Args: args, ArgsDigest: sha256.Sum256(args), Grants: []string{"network.browser.session"}, LifetimeMS: 60_000, DeadlineMS: 60_000,
	}
}

// serve runs one ticket and returns its one answer.
func (b *bench) serve(ctx context.Context, t *wire.Ticket) wire.Answer {
	b.t.Helper()
	return b.serveTo(ctx, t, &sink{})
}

func (b *bench) serveTo(ctx context.Context, t *wire.Ticket, s *sink) wire.Answer {
	b.t.Helper()
	b.Serve(ctx, t, s)
	if len(s.answers) != 1 {
		b.t.Fatalf("%d answers", len(s.answers))
	}
	return s.answers[0]
}

func (b *bench) state(call capabilities.CallID) wire.JournalState {
	return b.States(context.Background(), &wire.JournalAsk{Calls: []capabilities.CallID{call}})[0]
}

// neverStarted fails the test if t ran or the journal does not say that it never did.
func (b *bench) neverStarted(t *wire.Ticket) {
	b.t.Helper()
	if st := b.state(t.Call); st.State != wire.StateNeverStarted || b.h.ran() != 0 {
		b.t.Errorf("%+v, ran %d times", st, b.h.ran())
	}
}

func want(t *testing.T, a wire.Answer, status capabilities.Status, code capabilities.Code) {
	t.Helper()
	if a.Status != status || a.Code != code {
		t.Errorf("got %s %q (%s), want %s %q", a.Status, a.Code, a.Message, status, code)
	}
}

func TestStartedIsKnownBeforeTheHandlerStarts(t *testing.T) {
	var b *bench
	var seen wire.CallState
	b = newBench(t, admit, func(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
		seen = b.journal.States(ctx, &wire.JournalAsk{Calls: []capabilities.CallID{inv.Call}})[0].State
		inv.Progress(capabilities.Progress{Done: 1, Message: strings.Repeat("é", 300)})
		inv.Observe("network.browser.session", "example.org")
		return ok(ctx, inv)
	})
	s := &sink{}
	tk := b.ticket()
	b.Serve(t.Context(), tk, s)
	if seen != wire.StateRunning {
		t.Errorf("in the handler the journal said %s", seen)
	}
	a := s.answers[0]
	want(t, a, capabilities.StatusOK, "")
	if string(a.Output) != `{"result":1}` || a.Effect != capabilities.EffectConfirmed || a.Isolation != capabilities.ClassT2 ||
		len(a.Observed) != 1 || a.Observed[0].Detail != "example.org" {
		t.Errorf("%+v", a)
	}
	if len(s.progress) != 1 || len(s.progress[0].Message) != 200 {
		t.Errorf("%+v", s.progress)
	}
	if st := b.state(tk.Call); st.State != wire.StateFinished || st.Answer == nil || string(st.Answer.Output) != `{"result":1}` {
		t.Errorf("%+v", st)
	}
	if b.Active() != 0 {
		t.Errorf("%d calls still run", b.Active())
	}
}

func TestWhatMustNotStart(t *testing.T) {
	refusing := func(*wire.Ticket, capabilities.Readiness) *capabilities.Error {
		return capabilities.Errorf(capabilities.CodeDeniedByNode, "no").WithDetails(map[string]any{"why": "so"})
	}
	for name, c := range map[string]struct {
		guard  guardFunc
		alter  func(b *bench, tk *wire.Ticket)
		status capabilities.Status
		code   capabilities.Code
		state  wire.CallState
	}{
		"guard": {refusing, func(*bench, *wire.Ticket) {}, capabilities.StatusDenied, capabilities.CodeDeniedByNode, wire.StateNeverStarted},
		"no such capability here": {admit, func(_ *bench, tk *wire.Ticket) { tk.Capability = "tyrum.browser.click" },
			capabilities.StatusError, capabilities.CodeCapabilityNotAdvertised, wire.StateNeverStarted},
		"another tool": {admit, func(_ *bench, tk *wire.Ticket) { tk.Tool = screenshot.Tool() },
			capabilities.StatusError, capabilities.CodeTicketInvalid, wire.StateNeverStarted},
		"arguments that do not fit": {admit, func(_ *bench, tk *wire.Ticket) { tk.Args = []byte(`{"expression":1}`) },
			capabilities.StatusError, capabilities.CodeTicketInvalid, wire.StateNeverStarted},
		"arguments that are no JSON": {admit, func(_ *bench, tk *wire.Ticket) { tk.Args = []byte(`{`) },
			capabilities.StatusError, capabilities.CodeTicketInvalid, wire.StateNeverStarted},
		"the journal refuses": {admit, func(b *bench, _ *wire.Ticket) { _ = b.journal.Close() },
			capabilities.StatusError, capabilities.CodeLedgerUnavailable, wire.StateNeverStarted},
		"its life is used up": {admit, func(_ *bench, tk *wire.Ticket) { tk.LifetimeMS = 0 },
			capabilities.StatusError, capabilities.CodeTicketExpired, wire.StateFinished},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.guard, ok)
			tk := b.ticket()
			c.alter(b, tk)
			a := b.serve(t.Context(), tk)
			want(t, a, c.status, c.code)
			if b.h.ran() != 0 {
				t.Error("the handler ran")
			}
			if name == "guard" && string(a.Details) != `{"why":"so"}` {
				t.Errorf("details %s", a.Details)
			}
			if st := b.state(tk.Call); st.State != c.state {
				t.Errorf("afterwards the call is %s, want %s", st.State, c.state)
			}
		})
	}
}

func TestCallRunsOnce(t *testing.T) {
	gate := make(chan struct{})
	started := make(chan struct{})
	b := newBench(t, admit, func(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
		close(started)
		<-gate
		return ok(ctx, inv)
	})
	tk := b.ticket()
	first := make(chan wire.Answer, 1)
	go func() { s := &sink{}; b.Serve(context.Background(), tk, s); first <- s.answers[0] }()
	<-started
	want(t, b.serve(t.Context(), tk), capabilities.StatusError, capabilities.CodeTicketReplayed)
	if st := b.state(tk.Call); st.State != wire.StateRunning {
		t.Errorf("the second ticket made the first %s", st.State)
	}
	close(gate)
	want(t, <-first, capabilities.StatusOK, "")
	want(t, b.serve(t.Context(), tk), capabilities.StatusError, capabilities.CodeTicketReplayed)

	b.restart() // nor in the life of the next process
	want(t, b.serve(t.Context(), tk), capabilities.StatusError, capabilities.CodeTicketReplayed)
	if b.h.ran() != 1 {
		t.Errorf("it ran %d times", b.h.ran())
	}
}

// A call that the gateway was told "never started" about never starts.
func TestDisownedCallNeverStarts(t *testing.T) {
	b := newBench(t, admit, ok)
	tk := b.ticket()
	if st := b.state(tk.Call); st.State != wire.StateNeverStarted {
		t.Fatalf("%+v", st)
	}
	want(t, b.serve(t.Context(), tk), capabilities.StatusError, capabilities.CodeTicketReplayed)
	if b.h.ran() != 0 {
		t.Error("it ran")
	}
}

// While States and Serve race, "never started" and a run exclude each other.
func TestDisownRace(t *testing.T) {
	b := newBench(t, admit, ok)
	for range 200 {
		tk := b.ticket()
		before := b.h.ran()
		told := make(chan wire.JournalState, 1)
		go func() {
			told <- b.States(context.Background(), &wire.JournalAsk{Calls: []capabilities.CallID{tk.Call}})[0]
		}()
		b.serve(t.Context(), tk)
		if st := <-told; st.State == wire.StateNeverStarted && b.h.ran() != before {
			t.Fatal("a call that was told never to have started ran")
		}
	}
}

// A call that a dead process had begun is unknown, not running and not finished.
func TestCallOfADeadProcess(t *testing.T) {
	b := newBench(t, admit, ok)
	tk := b.ticket()
	if err := b.journal.Started(t.Context(), tk); err != nil { // and no end: it died
		t.Fatal(err)
	}
	b.restart()
	if st := b.state(tk.Call); st.State != wire.StateUnknown {
		t.Errorf("%+v", st)
	}
}

func TestPanicCostsOneCall(t *testing.T) {
	b := newBench(t, admit, func(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
		if inv.Call == "c1" {
			panic("secret text of the page")
		}
		return ok(ctx, inv)
	})
	a := b.serve(t.Context(), b.ticket())
	want(t, a, capabilities.StatusError, capabilities.CodeInternal)
	if strings.Contains(a.Message, "secret") {
		t.Errorf("the panic's text left the node: %s", a.Message)
	}
	if st := b.state("c1"); st.State != wire.StateFinished {
		t.Errorf("%+v", st)
	}
	want(t, b.serve(t.Context(), b.ticket()), capabilities.StatusOK, "")
}

// Why a call was ended is what its answer says, whatever the handler made of it.
func TestCauses(t *testing.T) {
	type ending func(b *bench, cancel context.CancelCauseFunc)
	for name, c := range map[string]struct {
		deadlineMS uint32
		end        ending
		handle     func(context.Context, capabilities.Invocation) (capabilities.Output, error)
		status     capabilities.Status
		code       capabilities.Code
	}{
		"deadline": {30, func(*bench, context.CancelCauseFunc) {}, untilEnded, capabilities.StatusError, capabilities.CodeDeadlineExceeded},
		"cancel": {60_000, func(_ *bench, cancel context.CancelCauseFunc) { cancel(nil) }, untilEnded,
			capabilities.StatusError, capabilities.CodeCancelled},
		"cancel with a cause": {60_000, func(_ *bench, cancel context.CancelCauseFunc) {
			cancel(capabilities.Errorf(capabilities.CodeNodeRevoked, "out"))
		}, untilEnded, capabilities.StatusError, capabilities.CodeNodeRevoked},
		"stop switch": {60_000, func(b *bench, _ context.CancelCauseFunc) { b.StopAll() }, untilEnded,
			capabilities.StatusDenied, capabilities.CodeStopped},
		"the handler's own error does not hide it": {60_000, func(b *bench, _ context.CancelCauseFunc) { b.StopAll() },
			func(ctx context.Context, _ capabilities.Invocation) (capabilities.Output, error) {
				<-ctx.Done()
				return capabilities.Output{}, capabilities.Errorf(capabilities.CodeNavigationFailed, "the socket closed")
			}, capabilities.StatusDenied, capabilities.CodeStopped},
		"the handler tells more about the same cause": {30, func(*bench, context.CancelCauseFunc) {},
			func(ctx context.Context, _ capabilities.Invocation) (capabilities.Output, error) {
				<-ctx.Done()
				return capabilities.Output{Effect: capabilities.EffectPartial}, capabilities.Errorf(capabilities.CodeDeadlineExceeded, "still loading")
			}, capabilities.StatusError, capabilities.CodeDeadlineExceeded},
		"it finished all the same": {30, func(*bench, context.CancelCauseFunc) {},
			func(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
				<-ctx.Done()
				return ok(ctx, inv)
			}, capabilities.StatusOK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			started := make(chan struct{})
			b := newBench(t, admit, func(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
				close(started)
				return c.handle(ctx, inv)
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			tk := b.ticket()
			tk.DeadlineMS = c.deadlineMS
			done := make(chan wire.Answer, 1)
			go func() { s := &sink{}; b.Serve(ctx, tk, s); done <- s.answers[0] }()
			<-started
			c.end(b, cancel)
			a := <-done
			want(t, a, c.status, c.code)
			if strings.HasPrefix(name, "the handler tells") && (a.Message != "still loading" || a.Effect != capabilities.EffectPartial) {
				t.Errorf("%+v", a)
			}
		})
	}
}

// A stop that comes before the call has its journal entry still ends it.
func TestCancelledBeforeItStarted(t *testing.T) {
	b := newBench(t, admit, ok)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	want(t, b.serve(ctx, b.ticket()), capabilities.StatusError, capabilities.CodeCancelled)
	if b.h.ran() != 0 {
		t.Error("it ran")
	}
}

func TestDriftKillsTheCall(t *testing.T) {
	for name, handle := range map[string]func(context.Context, capabilities.Invocation) (capabilities.Output, error){
		"heeds its context": func(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
			inv.Observe("privileged.input.inject", "")
			return untilEnded(ctx, inv)
		},
		"goes on regardless": func(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
			inv.Observe("privileged.input.inject", "")
			return ok(ctx, inv)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, admit, handle)
			a := b.serve(t.Context(), b.ticket())
			want(t, a, capabilities.StatusError, capabilities.CodeDriftCritical)
			if a.Output != nil || a.Effect == "" || len(a.Observed) != 1 || !strings.Contains(a.Message, "privileged.input.inject") {
				t.Errorf("%+v", a)
			}
			if st := b.state("c1"); st.State != wire.StateFinished || st.Answer.Code != capabilities.CodeDriftCritical {
				t.Errorf("%+v", st)
			}
		})
	}
	t.Run("what is not privileged is told, not killed", func(t *testing.T) {
		b := newBench(t, admit, func(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
			inv.Observe("data.read.screen", "")
			return ok(ctx, inv)
		})
		a := b.serve(t.Context(), b.ticket())
		want(t, a, capabilities.StatusOK, "")
		if len(a.Observed) != 1 || a.Observed[0].Key != "data.read.screen" {
			t.Errorf("%+v", a.Observed)
		}
	})
	t.Run("what was granted is no drift", func(t *testing.T) {
		b := newBench(t, admit, func(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
			inv.Observe("privileged.input.inject", "")
			return ok(ctx, inv)
		})
		tk := b.ticket()
		tk.Grants = append(tk.Grants, "privileged.input.inject")
		want(t, b.serve(t.Context(), tk), capabilities.StatusOK, "")
	})
}

func TestResultsThatCanNotLeave(t *testing.T) {
	image := []capabilities.Blob{{Field: "bytesBase64", MIME: "image/png", Bytes: []byte("png")}}
	for name, c := range map[string]struct {
		out  capabilities.Output
		err  error
		code capabilities.Code
	}{
		"does not fit the schema":  {capabilities.Output{Result: map[string]any{"answer": 1}, Blobs: image}, nil, capabilities.CodeInternal},
		"not an object":            {capabilities.Output{Result: "text"}, nil, capabilities.CodeInternal},
		"nothing where there must": {capabilities.Output{}, nil, capabilities.CodeInternal},
		"cannot be encoded":        {capabilities.Output{Result: make(chan int)}, nil, capabilities.CodeInternal},
		"too large":                {capabilities.Output{Result: map[string]any{"result": strings.Repeat("x", wire.MaxOutput)}, Blobs: image}, nil, capabilities.CodeResultTooLarge},
		"a foreign error":          {capabilities.Output{}, errors.New("/home/anna/secret"), capabilities.CodeExecutionFailed},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, admit, func(context.Context, capabilities.Invocation) (capabilities.Output, error) { return c.out, c.err })
			s := &sink{}
			b.Serve(t.Context(), b.ticket(), s)
			a := s.answers[0]
			want(t, a, capabilities.StatusError, c.code)
			if a.Output != nil || len(s.blobs) != 0 || len(a.Blobs) != 0 || strings.Contains(a.Message, "anna") {
				t.Errorf("%+v with %d blobs", a, len(s.blobs))
			}
			if st := b.state("c1"); st.State != wire.StateFinished || st.Answer == nil || st.Answer.Code != c.code {
				t.Errorf("the journal keeps %+v", st)
			}
		})
	}
}

// A result is read by a model, for which an escaped bracket is five more
// characters to pay for.
func TestResultsAreNotEscapedForHTML(t *testing.T) {
	a := success(capabilities.Output{Result: map[string]any{"snapshot": "a -> b & <c>"}})
	if want := `{"snapshot":"a -> b & <c>"}`; string(a.Output) != want {
		t.Errorf("output %s, want %s", a.Output, want)
	}
}

func TestBlobsAreAnnounced(t *testing.T) {
	b := newBench(t, admit, func(context.Context, capabilities.Invocation) (capabilities.Output, error) {
		return capabilities.Output{
			Result: map[string]any{"mime": "image/png", "width": 1, "height": 1},
			Blobs:  []capabilities.Blob{{Field: "bytesBase64", MIME: "image/png", Bytes: []byte("png")}},
		}, nil
	})
	tk := b.ticket()
	tk.Capability, tk.Tool, tk.Args = screenshot, screenshot.Tool(), []byte(`{}`)
	s := &sink{}
	b.Serve(t.Context(), tk, s)
	a := s.answers[0]
	want(t, a, capabilities.StatusOK, "")
	if len(a.Blobs) != 1 || a.Blobs[0].Size != 3 || a.Blobs[0].SHA256 != sha256.Sum256([]byte("png")) || string(s.blobs[0]) != "png" {
		t.Errorf("%+v", a.Blobs)
	}
}

func TestCloseEndsWhatRuns(t *testing.T) {
	started := make(chan struct{})
	b := newBench(t, admit, func(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
		close(started)
		return untilEnded(ctx, inv)
	})
	done := make(chan wire.Answer, 1)
	tk := b.ticket()
	go func() { s := &sink{}; b.Serve(context.Background(), tk, s); done <- s.answers[0] }()
	<-started
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	want(t, <-done, capabilities.StatusDenied, capabilities.CodeStopped)
}

func TestHandlersMustFit(t *testing.T) {
	cat, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	one := &handler{offers: []capabilities.CapabilityID{evaluate}}
	for name, list := range map[string][]capabilities.Handler{
		"two for one capability":       {one, &handler{offers: []capabilities.CapabilityID{evaluate}}},
		"a capability nobody knows of": {&handler{offers: []capabilities.CapabilityID{"tyrum.teapot.pour"}}},
	} {
		if _, err := New(Options{Handlers: list, Catalog: cat}); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
