package notice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/platform"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const within = 30 * time.Second

// session is a notifier that remembers what is up.
type session struct {
	events chan platform.NoticeEvent
	err    error

	mu     sync.Mutex
	up     map[uint32]platform.Notice
	shown  int
	closed bool
}

func newSession() *session {
	return &session{events: make(chan platform.NoticeEvent), up: map[uint32]platform.Notice{}}
}

func (s *session) Show(_ context.Context, id uint32, n platform.Notice) (uint32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	s.shown++
	if id == 0 {
		id = uint32(s.shown)
	}
	s.up[id] = n
	return id, nil
}

func (s *session) Withdraw(_ context.Context, id uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.up, id)
	return nil
}

func (s *session) Events() <-chan platform.NoticeEvent { return s.events }

func (s *session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// now returns the one notice that is up, and its ID.
func (s *session) now() (platform.Notice, uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, n := range s.up {
		return n, id
	}
	return platform.Notice{}, 0
}

// house is a board that runs.
type house struct {
	t *testing.T
	*Board
	path    string
	session *session
	stops   chan string

	mu   sync.Mutex
	node Node
	stop func()
}

func start(t *testing.T, s *session) *house { t.Helper(); return startAt(t, s, time.Now) }

func startAt(t *testing.T, s *session, now func() time.Time) *house {
	t.Helper()
	h := &house{t: t, path: filepath.Join(t.TempDir(), "status.json"), session: s, stops: make(chan string, 1), node: Node{Connected: true, Gateway: "g1"}}
	h.Board = New(Options{
		Path: h.path, Notifier: s, HotKey: "Control+Alt+Escape", Stop: func(why string) { h.stops <- why },
		Node: func() Node { h.mu.Lock(); defer h.mu.Unlock(); return h.node }, Now: now,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	h.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(h.stop)
	return h
}

// await waits until the file says what it should.
func (h *house) await(what string, ok func(Status) bool) Status {
	h.t.Helper()
	var s Status
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		var err error
		if s, err = Read(h.path, time.Now()); err != nil {
			h.t.Fatal(err)
		}
		if ok(s) {
			return s
		}
	}
	h.t.Fatalf("waited in vain for %s; it says %+v", what, s)
	return s
}

// awaitNotice waits until the session shows what it should.
func (h *house) awaitNotice(what string, ok func(platform.Notice) bool) uint32 {
	h.t.Helper()
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if n, id := h.session.now(); ok(n) {
			return id
		}
	}
	n, _ := h.session.now()
	h.t.Fatalf("waited in vain for %s; the session shows %+v", what, n)
	return 0
}

func ticket(t *testing.T, call capabilities.CallID, who capabilities.PrincipalID, grants ...string) *wire.Ticket {
	t.Helper()
	cat, err := catalog.Embedded()
	must(t, err)
	engine, err := policy.Load([]policy.Source{{Name: "x.cedar", Data: []byte(`permit(principal, action, resource);`)}}, cat)
	must(t, err)
	now := time.Now()
	sealed, err := policy.BuildEnvelope(policy.EnvelopeInput{
		Profile: engine.Profile("tool.desktop.screenshot"), Principal: who, Role: "agent", Lane: "main", Selected: "n1", Mode: capabilities.SelectSole,
		Node: policy.Node{ID: "n1"}, ArgsDigest: make([]byte, 32), Policy: engine.SnapshotID(), Created: now, Expires: now.Add(time.Minute),
	})
	must(t, err)
	return &wire.Ticket{Call: call, Tool: "tool.desktop.screenshot", Lane: "main", Node: "n1", Envelope: sealed.Bytes, Grants: grants}
}

// A use is told in words, in the file and by a notice, from before the call runs until a little
// after it; then nothing is.
func TestUseIsShown(t *testing.T) {
	h := start(t, newSession())
	h.await("a start", func(s Status) bool { return s.State == StateIdle && s.Connected && s.Text == "Nothing is in use." })
	h.Begin(ticket(t, "c1", "agent-1", "data.read.screen", "privileged.input.inject"))
	s := h.await("the use", func(s Status) bool { return s.State == StateInUse })
	if len(s.Uses) != 1 || s.Uses[0].Principal != "agent-1" || s.Uses[0].What != "your mouse and keyboard and your screen" || !s.Uses[0].Running || s.Uses[0].Lane != "main" {
		t.Errorf("%+v", s)
	}
	if !strings.Contains(s.Text, "agent-1 uses your mouse and keyboard and your screen (since ") || !strings.Contains(s.Text, "Control+Alt+Escape") {
		t.Error(s.Text)
	}
	h.awaitNotice("the notice", func(n platform.Notice) bool {
		return n.Lasting && strings.HasPrefix(n.Title, "agent-1 uses your mouse") && len(n.Actions) == 1 && strings.Contains(n.Body, "handrail node stop")
	})
	h.Begin(ticket(t, "c2", "agent-2", "network.browser.session"))
	h.awaitNotice("the second", func(n platform.Notice) bool {
		return strings.HasSuffix(n.Title, ", and 1 more") && strings.Contains(n.Body, "agent-2: a browser")
	})
	h.End("c2")
	h.End("c1")
	h.End("c1")
	h.End("never begun")
	h.await("its end", func(s Status) bool { return s.State == StateInUse && len(s.Uses) > 0 && !s.Uses[0].Running })
	h.await("nothing", func(s Status) bool { return s.State == StateIdle && len(s.Uses) == 0 })
	h.awaitNotice("it to go", func(n platform.Notice) bool { return n.Title == "" })
	h.stop()
	if s, err := Read(h.path, time.Now()); err != nil || s.State != StateGone {
		t.Errorf("%+v %v", s, err)
	}
}

// The people who watch are named, and how often they do; taking over is a use of mouse and
// keyboard.
func TestWatchingIsShown(t *testing.T) {
	h := start(t, newSession())
	live := func(call capabilities.CallID, who capabilities.PrincipalID, tool capabilities.ToolID, key string) {
		tk := ticket(t, call, who, key)
		tk.Tool = tool
		h.Begin(tk)
	}
	says := func(words ...string) {
		t.Helper()
		h.await(strings.Join(words, ", "), func(s Status) bool {
			for _, w := range words {
				if !strings.Contains(s.Text, w) {
					return false
				}
			}
			return s.State == StateInUse
		})
	}
	live("c1", "ann", "tool.live.screen", "data.read.screen")
	says("ann watches your screen, live (since ")
	h.awaitNotice("the notice", func(n platform.Notice) bool { return strings.HasPrefix(n.Title, "ann watches your screen") })
	live("c2", "ann", "tool.live.screen", "data.read.screen")
	live("c3", "ben", "tool.live.camera", "data.capture.camera")
	says("ann watches (2 times) your screen, live", "ben watches your camera, live")
	live("c4", "ann", "tool.live.control", "privileged.input.inject")
	says("ann uses your mouse and keyboard")
	h.End("c2")
	says("ann watches your screen, live")
	h.End("c1")
	h.End("c3")
	says("ann has just used your screen, live", "ben has just used your camera, live")
}

// The notice's button stops the device, and what is stopped is said.
func TestButtonStops(t *testing.T) {
	h := start(t, newSession())
	h.Begin(ticket(t, "c1", "agent-1", "data.read.screen"))
	id := h.awaitNotice("the notice", func(n platform.Notice) bool { return n.Title != "" })
	h.session.events <- platform.NoticeEvent{ID: id + 1, Key: actStop} // another's
	h.session.events <- platform.NoticeEvent{ID: id, Key: actStop}
	<-h.stops
	h.mu.Lock()
	h.node = Node{Connected: true, Stopped: true, SiteStopped: true}
	h.mu.Unlock()
	h.End("c1")
	h.Turned()
	s := h.await("the stop", func(s Status) bool { return s.State == StateStopped })
	if strings.Join(s.StoppedBy, " ") != "person gateway" || !strings.Contains(s.Text, "handrail node resume") {
		t.Errorf("%+v", s)
	}
	h.awaitNotice("the stop", func(n platform.Notice) bool { return n.Title == "Handrail is stopped" && !n.Lasting })
}

// A name that somebody chose cannot write over what is said about it.
func TestHostileNames(t *testing.T) {
	h := start(t, newSession())
	evil := "a\u202e\x1b[2J\n" + strings.Repeat("x", 200)
	tk := ticket(t, "c1", "agent", "nothing.known")
	tk.Tool, tk.Lane = capabilities.ToolID(evil), capabilities.LaneID(evil)
	h.Begin(tk)
	s := h.await("the use", func(s Status) bool { return s.State == StateInUse })
	for _, text := range []string{s.Uses[0].What, s.Uses[0].Lane, s.Uses[0].Tool} {
		if strings.ContainsAny(text, "\u202e\x1b\n") || len([]rune(text)) > maxName {
			t.Errorf("%q", text)
		}
	}
	if strings.Count(s.Text, "\n") != 1 {
		t.Errorf("%q", s.Text)
	}
}

// A session that shows no notices costs nothing but them.
func TestNoNotices(t *testing.T) {
	quiet := newSession()
	quiet.err = fmt.Errorf("%w: nobody", platform.ErrNoNotices)
	h := start(t, quiet)
	h.Begin(ticket(t, "c1", "agent-1", "data.read.screen"))
	h.await("the use", func(s Status) bool { return s.State == StateInUse })
	h.End("c1")
	h.await("nothing", func(s Status) bool { return s.State == StateIdle })
}

// A reader gets what was written, and an old file is that of a node that is gone.
func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status.json")
	if s, err := Read(path, time.Now()); err != nil || s.State != StateGone {
		t.Errorf("%+v %v", s, err)
	}
	now := time.Now()
	must(t, Status{Version: 1, State: StateIdle, Text: "x", Uses: []Use{}}.write(path))
	if s, err := Read(path, now); err != nil || s.State != StateIdle {
		t.Errorf("%+v %v", s, err)
	}
	if s, err := Read(path, now.Add(time.Hour)); err != nil || s.State != StateGone || !strings.Contains(s.Text, "last seen") {
		t.Errorf("%+v %v", s, err)
	}
	touch(path, now.Add(time.Hour))
	if s, err := Read(path, now.Add(time.Hour)); err != nil || s.State != StateIdle {
		t.Errorf("%+v %v", s, err)
	}
	must(t, os.WriteFile(path, []byte("{"), 0o600))
	var syntax *json.SyntaxError
	if _, err := Read(path, now); !errors.As(err, &syntax) {
		t.Errorf("%v", err)
	}
	must(t, os.Truncate(path, maxStatus+1))
	if _, err := Read(path, now); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
		t.Errorf("%v", err)
	}
}

// Every key of the catalog that a person would look for has words.
func TestKeysHaveWords(t *testing.T) {
	cat, err := catalog.Embedded()
	must(t, err)
	for _, d := range cat.All() {
		if d.NodeCapability() == "" || len(d.Manifest.Keys()) == 0 { // what touches nothing
			continue
		}
		if got := uses(d.Manifest.Keys(), "?"); got[0] == "?" {
			t.Errorf("%s with %v has no words", d.Tool, d.Manifest.Keys())
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Calls that follow each other are one use: what is shown already is not written again
// for each, and what waits to be shown does not wait for it.
func TestCallsInARow(t *testing.T) {
	began := time.Now()
	var passed atomic.Int64 // of the clock, which stands still else
	h := startAt(t, newSession(), func() time.Time { return began.Add(time.Duration(passed.Load())) })
	h.await("a start", func(s Status) bool { return s.State == StateIdle })
	shoot := func(call capabilities.CallID, lane capabilities.LaneID) {
		t.Helper()
		tk := ticket(t, call, "agent-1", "data.capture.camera")
		tk.Lane = lane
		h.Begin(tk)
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		must(t, h.AwaitShown(ctx))
		h.End(call)
		s, err := Read(h.path, time.Now())
		must(t, err)
		if s.State != StateInUse || !s.Uses[0].Running || s.Uses[0].Lane != string(lane) {
			t.Fatalf("it is said to be shown, and is not: %+v", s)
		}
	}
	file := func() os.FileInfo { // each write makes a new one
		t.Helper()
		f, err := os.Stat(h.path)
		must(t, err)
		return f
	}
	shoot("c1", "main")
	first := file()
	for i := range 20 {
		if shoot(capabilities.CallID(fmt.Sprint("c1-", i)), "main"); !os.SameFile(first, file()) {
			t.Fatal("the file was written again for what it said already")
		}
	}
	shoot("c2", "other")
	passed.Add(int64(rest))
	h.await("its end", func(s Status) bool { return s.State == StateInUse && !s.Uses[0].Running })
	shoot("c3", "other")
}

// A notice that waits to be shown is shown at once, and not at all while nothing can be written.
func TestAwaitShown(t *testing.T) {
	h := start(t, newSession())
	h.await("a start", func(s Status) bool { return s.State == StateIdle })
	for i := range 5 {
		call := capabilities.CallID(fmt.Sprint("c", i))
		h.Begin(ticket(t, call, capabilities.PrincipalID("agent-"+string(call)), "data.capture.camera"))
		ctx, cancel := context.WithTimeout(t.Context(), within)
		must(t, h.AwaitShown(ctx))
		cancel()
		s, err := Read(h.path, time.Now())
		must(t, err)
		if !strings.Contains(s.Text, "agent-"+string(call)) || !strings.Contains(s.Text, "your camera") {
			t.Fatalf("%d: it is said to be shown, and is not: %s", i, s.Text)
		}
	}
	must(t, os.Remove(h.path))
	must(t, os.MkdirAll(filepath.Join(h.path, "in-the-way"), 0o700))
	h.Begin(ticket(t, "blind", "agent-blind", "data.capture.camera"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := h.AwaitShown(ctx); err == nil {
		t.Error("it is said to be shown, and nothing could be written")
	}
	must(t, os.RemoveAll(h.path))
	fresh, stop := context.WithTimeout(t.Context(), within)
	defer stop()
	must(t, h.AwaitShown(fresh))
}
