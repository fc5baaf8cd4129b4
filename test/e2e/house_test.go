package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/rules"
	"github.com/handrail-dev/handrail/test/site"
)

func TestMain(m *testing.M) {
	if childMode() {
		return
	}
	goleak.VerifyTestMain(m)
}

// house is a site whose ledger is checked when the test ends.
type house struct {
	*site.Site
	t *testing.T
}

func start(t *testing.T, o site.Options) *house {
	t.Helper()
	h := &house{Site: site.Start(t, o), t: t}
	t.Cleanup(func() { h.check() })
	return h
}

// Restart is the site's, and waits until the gateway serves again.
func (h *house) Restart() {
	h.t.Helper()
	h.Site.Restart()
	newCaller(h.t, h.URL(), "").awaitHealth()
}

// awaitHealth waits until a gateway answers.
func (c *caller) awaitHealth() {
	c.t.Helper()
	for deadline := time.Now().Add(site.Within); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if status, _, err := c.try(ctx(), http.MethodGet, "/healthz", ""); err == nil && status == http.StatusOK {
			return
		}
	}
	c.t.Fatalf("nothing answers at %s", c.url)
}

// one is a house with one node.
func one(t *testing.T) (*house, *site.Handler, *site.Node) {
	t.Helper()
	h, handler := start(t, site.Options{}), site.NewHandler()
	return h, handler, h.AddNode("one", handler)
}

func ctx() context.Context { return context.Background() }

// by makes a call as somebody in particular.
func (h *house) by(who capabilities.PrincipalID, lane capabilities.LaneID, tool capabilities.ToolID, args string, id capabilities.RequestID) capabilities.Result {
	return h.Dispatcher.Call(ctx(), dispatch.Request{
		Caller: dispatch.Caller{Principal: who, Role: "agent", Lane: lane}, Tool: tool, Args: []byte(args), RequestID: id, Surface: "test",
	})
}

// calling makes a call in the background.
func (h *house) calling(c context.Context, tool capabilities.ToolID, args string, id capabilities.RequestID) <-chan capabilities.Result {
	done := make(chan capabilities.Result, 1)
	go func() { done <- h.Call(c, tool, args, id) }()
	return done
}

func text(s string) string { return fmt.Sprintf(`{"text":%q}`, s) }

func await[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(2 * site.Within):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

// started waits until the call with that text is in its handler.
func started(t *testing.T, h *site.Handler, text string) {
	t.Helper()
	for range 1000 {
		got := h.AwaitStart(site.Within)
		if got == text {
			return
		}
		if got == "" {
			break
		}
	}
	t.Fatalf("%q never started", text)
}

func want(t *testing.T, r capabilities.Result, status capabilities.Status, code capabilities.Code) {
	t.Helper()
	if r.Status != status || r.Code != code {
		t.Fatalf("got %s %q (%s), want %s %q", r.Status, r.Code, r.Message, status, code)
	}
	if code != "" && (r.Message == "" || r.Hint == "") {
		t.Errorf("a refusal without words: %+v", r)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rules replaces the site's own policy file and puts it in force.
func (h *house) rules(cedar string) {
	h.t.Helper()
	must(h.t, os.WriteFile(filepath.Join(h.Dir, "policy", "test.cedar"), []byte(cedar), 0o600))
	book := h.Gateway.Rulebook
	staged, err := book.Load(h.t.Context(), rules.Staged)
	must(h.t, err)
	_, err = book.Activate(h.t.Context(), rules.Request{
		By: "root", Role: string(principal.RoleAdmin), Lane: "main", To: staged.SnapshotID(), From: book.Engine().SnapshotID(),
	})
	must(h.t, err)
}

// story is what the ledger tells about one call.
type story struct {
	call  capabilities.CallID
	tool  capabilities.ToolID
	kinds []string // without "tool.call."
	codes []capabilities.Code
	node  capabilities.NodeID
	bodys []json.RawMessage
}

func (s *story) has(kind string) bool { return slices.Contains(s.kinds, kind) }

// open reports a call that was ordered and has no end.
func (s *story) open() bool { return !s.has("result") && !s.has("failed") }

// code returns the code of the call's end.
func (s *story) end() capabilities.Code {
	for i, k := range s.kinds {
		if k == "result" || k == "failed" {
			return s.codes[i]
		}
	}
	return "open"
}

// stories reads an export, after its chain was checked.
func stories(t *testing.T, export []byte, pins ledger.Pins) map[capabilities.CallID]*story {
	t.Helper()
	if _, err := ledger.Verify(bytes.NewReader(export), pins); err != nil {
		t.Fatalf("the ledger does not verify: %v", err)
	}
	all := map[capabilities.CallID]*story{}
	for line := range bytes.Lines(export) {
		var p struct {
			Type string `json:"type"`
			ledger.Packet
		}
		must(t, json.Unmarshal(line, &p))
		kind, ok := strings.CutPrefix(string(p.Kind), "tool.call.")
		if p.Type != "packet" || !ok || p.Kind == ledger.KindCallRepeated { // a repetition is no story: it names one
			continue
		}
		s := all[p.Call]
		if s == nil {
			s = &story{call: p.Call, tool: p.Tool}
			all[p.Call] = s
		}
		var body struct {
			Code capabilities.Code `json:"code"`
		}
		must(t, json.Unmarshal(p.Body, &body))
		s.kinds, s.codes, s.bodys = append(s.kinds, kind), append(s.codes, body.Code), append(s.bodys, p.Body)
		if p.Node != "" {
			s.node = p.Node
		}
	}
	return all
}

// whole says what is wrong with a story, "" if nothing is: request, decision, for
// what was allowed the intent, exactly one end, and after an unknown one, or an order
// that was ended here (cancelled, stopped, out of time), at most one reconciliation.
func (s *story) whole() string {
	kinds := s.kinds
	take := func(kind string) bool {
		if len(kinds) > 0 && kinds[0] == kind {
			kinds = kinds[1:]
			return true
		}
		return false
	}
	switch {
	case !take("request"):
		return "no request"
	case !take("decision"):
		return "no decision"
	}
	ordered := take("dispatch")
	switch {
	case take("result"):
		if !ordered {
			return "a result without an order"
		}
	case take("failed"):
		switch s.end() {
		case capabilities.CodeUnknownOutcome:
			take("reconciled")
		case capabilities.CodeCancelled, capabilities.CodeStopped, capabilities.CodeDeadlineExceeded:
			// A call that was ended after it was ordered may have happened: the node says it later.
			if ordered {
				take("reconciled")
			}
		}
	default:
		return "no end"
	}
	if len(kinds) > 0 {
		return "too much"
	}
	return ""
}

// read returns the ledger as it is now, after its chain was checked.
func (h *house) read() map[capabilities.CallID]*story {
	h.t.Helper()
	var export bytes.Buffer
	must(h.t, h.Ledger.Export(ctx(), &export))
	return stories(h.t, export.Bytes(), ledger.Pins{Keys: []chain.Key{h.Ledger.Key()}})
}

// muted returns how many calls the ledger says were refused without being looked at.
func (h *house) muted() uint64 {
	h.t.Helper()
	var export bytes.Buffer
	must(h.t, h.Ledger.Export(ctx(), &export))
	var all uint64
	for line := range bytes.Lines(export.Bytes()) {
		var p struct {
			Kind ledger.Kind `json:"kind"`
			Body struct {
				Refusals uint64 `json:"refusals"`
			} `json:"body"`
		}
		if bytes.Contains(line, []byte(`"gateway.calls.muted"`)) {
			must(h.t, json.Unmarshal(line, &p))
			all += p.Body.Refusals
		}
	}
	return all
}

// check looks at the whole ledger, waiting for calls whose callers have left.
func (h *house) check() map[capabilities.CallID]*story {
	h.t.Helper()
	for deadline := time.Now().Add(site.Within); ; time.Sleep(20 * time.Millisecond) {
		all := h.read()
		open := 0
		for _, s := range all {
			if s.open() {
				open++
			}
		}
		if open > 0 && time.Now().Before(deadline) {
			continue
		}
		for _, s := range all {
			if wrong := s.whole(); wrong != "" {
				h.t.Errorf("grave: the ledger of call %s (%s): %s in %q", s.call, s.tool, wrong, s.kinds)
			}
		}
		return all
	}
}

// story returns what the ledger tells about one call, once it has ended.
func (h *house) story(call capabilities.CallID) *story {
	h.t.Helper()
	for deadline := time.Now().Add(site.Within); ; time.Sleep(5 * time.Millisecond) {
		if s := h.read()[call]; s != nil && !s.open() {
			return s
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("the ledger knows no end of call %q", call)
		}
	}
}

// wantStory wants exactly those kinds of packets of a call.
func (h *house) wantStory(call capabilities.CallID, kinds ...string) {
	h.t.Helper()
	if s := h.story(call); !slices.Equal(s.kinds, kinds) {
		h.t.Errorf("call %s has packets %q, want %q", call, s.kinds, kinds)
	}
}

// awaitStory waits for a kind of packet that comes late.
func (h *house) awaitStory(call capabilities.CallID, kind string) {
	h.t.Helper()
	for deadline := time.Now().Add(2 * site.Within); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		all, err := h.Ledger.Packets(ctx(), ledger.Query{Call: call, Kind: ledger.Kind("tool.call." + kind)})
		must(h.t, err)
		if len(all) > 0 {
			return
		}
	}
	h.t.Fatalf("call %s never came to have a %q packet", call, kind)
}

// refused wants a refusal that ran nothing and is recorded as one.
func (h *house) refused(r capabilities.Result, status capabilities.Status, code capabilities.Code) {
	h.t.Helper()
	want(h.t, r, status, code)
	h.wantStory(r.Call, "request", "decision", "failed")
	if end := h.story(r.Call).end(); end != code {
		h.t.Errorf("the ledger says %q", end)
	}
}

// caller speaks to the HTTP surfaces.
type caller struct {
	t     testing.TB
	url   string
	token string
	http  *http.Client
}

func newCaller(t testing.TB, url, token string) *caller {
	c := &caller{t: t, url: url, token: token, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

func (h *house) client(role principal.Role) *caller {
	return newCaller(h.t, h.URL(), h.MustToken(capabilities.PrincipalID(role), role))
}

// try sends a request and returns status and body, or why there are none.
func (c *caller) try(cx context.Context, method, path, body string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(cx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

func (c *caller) do(method, path, body string) (int, []byte) {
	c.t.Helper()
	status, answer, err := c.try(ctx(), method, path, body)
	must(c.t, err)
	return status, answer
}

// ok wants 200 and decodes the answer.
func (c *caller) ok(method, path, body string, into any) {
	c.t.Helper()
	status, answer := c.do(method, path, body)
	if status != http.StatusOK {
		c.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	if into != nil {
		must(c.t, json.Unmarshal(answer, into))
	}
}

// fails wants an error of that code, with its HTTP status and a hint.
func (c *caller) fails(method, path, body string, code capabilities.Code) {
	c.t.Helper()
	status, answer := c.do(method, path, body)
	var form struct {
		Error struct {
			Code          capabilities.Code
			Message, Hint string
		}
	}
	if err := json.Unmarshal(answer, &form); err != nil || status != code.Info().HTTP || form.Error.Code != code || form.Error.Message == "" || form.Error.Hint == "" {
		c.t.Errorf("%s %s: got %d %.300s, want %s", method, path, status, answer, code)
	}
}

// callBody is the body of POST /v1/calls.
func callBody(tool capabilities.ToolID, args, id string) string {
	return fmt.Sprintf(`{"tool":%q,"args":%s,"request_id":%q}`, tool, args, id)
}

// call makes a call over REST. ok is false when no answer came.
func (c *caller) call(cx context.Context, tool capabilities.ToolID, args, id string) (r capabilities.Result, err error) {
	status, answer, err := c.try(cx, http.MethodPost, "/v1/calls", callBody(tool, args, id))
	if err != nil {
		return r, err
	}
	if status != http.StatusOK {
		return r, fmt.Errorf("%d %s", status, answer)
	}
	return r, json.Unmarshal(answer, &r)
}

// background runs something until the test ends, or until stop.
func background(t *testing.T, what string, run func(context.Context) error) (stop func()) {
	t.Helper()
	c, cancel := context.WithCancel(ctx())
	done := make(chan error, 1)
	go func() { done <- run(c) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", what, err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func privateDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	return dir
}
