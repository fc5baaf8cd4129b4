//go:build linux

package browser

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/script"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/egress"
	chromefinder "github.com/handrail-dev/handrail/platform/chrome"
	"github.com/handrail-dev/handrail/platform/confine"
	"github.com/handrail-dev/handrail/platform/procguard"
)

// The tests drive the real Chrome of this machine.

func TestMain(m *testing.M) {
	script.Main(confine.Self)
	if os.Getenv("BROWSER_TEST_NODE") != "" {
		nodeThatGetsKilled()
	}
	if dir := os.Getenv("BROWSER_TEST_PROFILE"); dir != "" {
		profileThatGetsKilled(dir)
	}
	goleak.VerifyTestMain(browserTests{m}, goleak.Cleanup(script.Unwatched()))
}

// browserTests runs the tests side by side, and ends the Chromes that they shared when they
// are done.
type browserTests struct{ *testing.M }

// sideBySide is how many tests run at once unless -parallel says so: they wait more than they
// compute, so that a core has one. Each may have a Chrome, and some have two.
func sideBySide() int { return min(runtime.GOMAXPROCS(0), 12) }

func (b browserTests) Run() int {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		if err := flag.Set("test.parallel", strconv.Itoa(sideBySide())); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	code := b.M.Run()
	if err := errors.Join(sharedPages.close(), shared.close()); err != nil {
		fmt.Fprintln(os.Stderr, "closing the tests' Chromes:", err)
		return max(code, 1)
	}
	return code
}

// shared are the handlers of the tests that need none of their own: starting a Chrome takes
// longer than most of them. One test has a handler at a time, with rules, a log and lanes that
// are its own; what it leaves there is closed after it, and after a failure so is Chrome.
var shared sharedHandlers

type sharedHandlers struct {
	mu   sync.Mutex
	idle []*sharedHandler // the latest last
}

type sharedHandler struct {
	h   *Handler
	log syncBuffer
}

// take returns a handler that no other test has.
func (s *sharedHandlers) take(t testing.TB, origins []string) *sharedHandler {
	t.Helper()
	rules, err := egress.NewRules(origins)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	var mine *sharedHandler
	if last := len(s.idle) - 1; last >= 0 {
		mine, s.idle = s.idle[last], s.idle[:last]
	}
	s.mu.Unlock()
	if mine == nil {
		mine = &sharedHandler{}
		if mine.h, err = New(logging(t, &mine.log)); err != nil {
			t.Fatal(err)
		}
	}
	mine.h.rules = rules // a stop goes by those that it was made with: who tests one has a handler alone
	mine.log.reset()
	return mine
}

func (s *sharedHandlers) takeBack(t testing.TB, had *sharedHandler) {
	had.h.mu.Lock()
	lanes := slices.Collect(maps.Keys(had.h.lanes))
	had.h.mu.Unlock()
	for _, lane := range lanes {
		had.h.CloseLane(lane)
	}
	if t.Failed() {
		if err := had.h.Close(); err != nil {
			t.Error("Close:", err)
		}
		return
	}
	s.mu.Lock()
	s.idle = append(s.idle, had)
	s.mu.Unlock()
}

// close ends them all, when no test has one any more.
func (s *sharedHandlers) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, had := range s.idle {
		errs = append(errs, had.h.Close())
	}
	s.idle = nil
	return errors.Join(errs...)
}

// site serves the pages of the tests and counts what they do.
type site struct {
	*httptest.Server
	mu   sync.Mutex
	hits map[string]int
	last map[string]string // path -> last query or body

	served map[string]string // by path
}

// pages serves a page from now on.
func (s *site) pages(t testing.TB, path, page string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served[path] = page
}

func (s *site) count(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hits[path]
}

func newSite(t testing.TB, pages map[string]string) *site {
	s := serve(pages)
	t.Cleanup(s.Close)
	return s
}

// serve is newSite for one that lasts longer than a test.
func serve(pages map[string]string) *site {
	s := &site{hits: map[string]int{}, last: map[string]string{}, served: pages}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.hits[r.URL.Path]++
		s.last[r.URL.Path] = r.URL.RawQuery
		s.mu.Unlock()
		s.mu.Lock()
		body, ok := s.served[r.URL.Path]
		s.mu.Unlock()
		switch {
		case r.URL.Path == afresh:
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
		case r.URL.Path == "/hang":
			<-r.Context().Done()
		case r.URL.Path == "/auth":
			if name, word, _ := r.BasicAuth(); name != "ann" || word != "s3cret" {
				w.Header().Set("WWW-Authenticate", `Basic realm="house"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			fmt.Fprint(w, "<p>welcome</p>")
		case r.URL.Path == "/a.pdf":
			w.Header().Set("Content-Type", "application/pdf")
			fmt.Fprint(w, body)
		case r.URL.Path == "/204":
			w.WriteHeader(204)
		case r.URL.Path == "/redirect":
			http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusFound)
		case r.URL.Path == "/download":
			w.Header().Set("Content-Disposition", "attachment; filename=x.bin")
			w.Write(make([]byte, 1000))
		case !ok:
			http.NotFound(w, r)
		case strings.HasSuffix(r.URL.Path, ".js"):
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, body)
		default:
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, body)
		}
	}))
	return s
}

// node is a handler under test with a lane of its own.
type node struct {
	t    testing.TB
	h    *Handler
	lane capabilities.LaneID
	who  capabilities.PrincipalID
	log  *syncBuffer
	// spool takes the calls' artifacts; nil: they have none.
	spool capabilities.ArtifactSpool
}

type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (s *syncBuffer) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.b.Reset()
}

func options(t testing.TB, origins ...string) (Options, *syncBuffer) {
	log := &syncBuffer{}
	return logging(t, log, origins...), log
}

// finder is that of all tests: each would start the browser to ask for its version.
var finder = chromefinder.New(chromefinder.Options{})

func logging(t testing.TB, log *syncBuffer, origins ...string) Options {
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	b, err := finder.Find(context.Background())
	if err != nil {
		t.Fatalf("these tests need a real Chrome: %v", err)
	}
	o := Options{Finder: finder, Launcher: procguard.New(procguard.Options{Log: logger}), AllowOrigins: origins, Log: logger}
	if b.NoSandbox != "" {
		t.Logf("without sandbox: %s", b.NoSandbox)
		o.Sandbox = SandboxOff
	}
	return o
}

// newNode returns a node whose Chrome other tests have had and will have, without a tab. A test
// about the content of one document starts with newPage.
func newNode(t testing.TB, origins ...string) *node {
	mine := shared.take(t, origins)
	t.Cleanup(func() { shared.takeBack(t, mine) })
	return &node{t: t, h: mine.h, lane: "lane-1", log: &mine.log}
}

// newNodeAlone returns a node with a Chrome of its own: for a test that ends either, or
// changes what a handler was made with.
func newNodeAlone(t testing.TB, origins ...string) *node {
	o, log := options(t, origins...)
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error("Close:", err)
		}
	})
	return &node{t: t, h: h, lane: "lane-1", log: log}
}

// on returns the same node seen from another lane.
func (n *node) on(lane capabilities.LaneID) *node { c := *n; c.lane = lane; return &c }

// as returns the same node seen by another principal, in a lane of its own.
func (n *node) as(who capabilities.PrincipalID) *node {
	c := *n
	c.who, c.lane = who, capabilities.LaneID(who)
	return &c
}

type answer struct {
	capabilities.Output
	json string
	m    map[string]any
}

func (n *node) try(tool string, args any) (answer, *capabilities.Error) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return n.within(ctx, tool, args)
}

func (n *node) within(ctx context.Context, tool string, args any) (answer, *capabilities.Error) {
	n.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		n.t.Fatal(err)
	}
	out, err := n.h.Handle(ctx, withSteps(n.t, capabilities.Invocation{
		Grants: []string{"ui.session.persist_state", throttleKey}, Principal: n.who,
		Call: "c1", Capability: capabilities.CapabilityID("tyrum.browser." + tool), Lane: n.lane, Args: raw, Spool: n.spool,
	}))
	if err != nil {
		return answer{}, capabilities.AsError(err)
	}
	a := answer{Output: out}
	b, err := json.Marshal(out.Result)
	if err != nil {
		n.t.Fatal(err)
	}
	a.json = string(b)
	if tools, err := catalog.Embedded(); err != nil {
		n.t.Fatal(err)
	} else if d, ok := tools.ByCapability(capabilities.CapabilityID("tyrum.browser." + tool)); ok {
		if bad := d.ValidateResult(b); bad != nil { // the runner would refuse it
			n.t.Errorf("%s: the result does not fit the catalog: %v in %s", tool, bad, capabilities.Clip(a.json, 500))
		}
	}
	json.Unmarshal(b, &a.m)
	return a, nil
}

// must calls a tool that has to succeed.
func (n *node) must(tool string, args any) answer {
	n.t.Helper()
	a, err := n.try(tool, args)
	if err != nil {
		n.t.Fatalf("%s %v: %v (hint %s; cause %v)\nlog:\n%s", tool, args, err, err.PublicHint(), err.Unwrap(), n.log)
	}
	return a
}

// refused calls a tool that has to fail with code.
func (n *node) refused(code capabilities.Code, tool string, args any) *capabilities.Error {
	n.t.Helper()
	a, err := n.try(tool, args)
	if err == nil || err.Code != code {
		n.t.Fatalf("%s %v: %v, %v; want %s", tool, args, a.json, err, code)
	}
	if err.PublicMessage() == "" || err.PublicHint() == "" {
		n.t.Fatalf("%s: no message or hint", code)
	}
	return err
}

type obj = map[string]any

// among reports whether the case of a table runs: all do where none is named.
func among(only []string, name string) bool { return len(only) == 0 || slices.Contains(only, name) }

func (n *node) goTo(url string) answer { n.t.Helper(); return n.must("navigate", obj{"url": url}) }

func (n *node) eval(expression string) any {
	n.t.Helper()
	return n.must("evaluate", obj{"expression": expression}).m["result"]
}

func (n *node) snap() string {
	n.t.Helper()
	return n.must("snapshot", obj{}).m["snapshot"].(string)
}

// whole is a snapshot in which every frame has answered: one that misses its time, as on a busy
// machine, is left out, and said to be.
func (n *node) whole(args obj) (a answer) {
	n.t.Helper()
	n.until("every frame to answer", func() bool {
		a = n.must("snapshot", args)
		return !strings.Contains(a.m["snapshot"].(string), "this frame does not answer")
	})
	return a
}

// patience bounds what is waited for, and measures nothing: a machine may be as busy
// as it likes, and the tests beside this one are busy, too.
const patience = 3 * time.Minute

// until asks again until cond holds: for what comes about by itself. Its pauses are longer than its
// questions: several processes of Chrome work for each, and what is waited for needs them.
func (n *node) until(what string, cond func() bool) {
	n.t.Helper()
	for end := time.Now().Add(patience); ; {
		asked := time.Now()
		if cond() {
			return
		}
		if time.Now().After(end) {
			n.t.Fatal("never came about: " + what)
		}
		time.Sleep(max(10*time.Millisecond, 2*time.Since(asked)))
	}
}

// before tries something that has to happen before a call's deadline, with ever
// later deadlines.
func (n *node) before(bound time.Duration, try func(ctx context.Context) error) {
	n.t.Helper()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), bound)
		err := try(ctx)
		cancel()
		if err == nil {
			return
		}
		if bound > patience/2 {
			n.t.Fatal(err)
		}
		n.t.Logf("within %s: %v", bound, err)
		bound *= 2
	}
}

// ref finds the ref on the snapshot line that holds all of the words. On a busy machine a frame of
// another origin takes its time to start, and says so until then.
func (n *node) ref(words ...string) string {
	n.t.Helper()
	for end := time.Now().Add(patience); ; {
		snap := n.snap()
		for line := range strings.SplitSeq(snap, "\n") {
			ok := true
			for _, w := range words {
				ok = ok && strings.Contains(line, w)
			}
			if _, after, found := strings.Cut(line, "[ref="); ok && found {
				ref, _, _ := strings.Cut(after, "]")
				return ref
			}
		}
		if !strings.Contains(snap, "(this frame does not answer)") || time.Now().After(end) {
			n.t.Fatalf("no ref on a line with %q in:\n%s", words, snap)
		}
	}
}

func html(body string) string {
	return "<!doctype html><meta charset=utf-8><title>Test page</title><body>" + body
}
