package rest_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front/rest"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// sse reads events from an open stream.
type sse struct {
	t    *testing.T
	resp *http.Response
	in   *bufio.Scanner
}

type event struct{ id, name, data string }

func (a *surface) events(token, lastID string) *sse {
	a.t.Helper()
	req, _ := http.NewRequestWithContext(a.t.Context(), "GET", a.URL+"/v1/events", nil)
	req.Header.Set("Authorization", "Bearer "+token)
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := a.client.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		a.t.Fatalf("events: %s", resp.Status)
	}
	s := &sse{t: a.t, resp: resp, in: bufio.NewScanner(resp.Body)}
	s.in.Buffer(nil, 1<<20)
	for s.in.Scan() && !strings.HasPrefix(s.in.Text(), ": ") { // the greeting
	}
	return s
}

func (s *sse) next() (e event, ok bool) {
	for s.in.Scan() {
		line := s.in.Text()
		switch field, value, _ := strings.Cut(line, ": "); {
		case field == "id":
			e.id = value
		case field == "event":
			e.name = value
		case field == "data":
			e.data = value
		case line == "" && e.name != "":
			return e, true
		}
	}
	return event{}, false
}

func TestEventsResume(t *testing.T) {
	a := start(t)
	recordCall(t, a, "alice", "before")
	s := a.events(a.operator, "")
	recordCall(t, a, "alice", "c1")
	record(t, a, ledger.Draft{Kind: "policy.activated", Body: json.RawMessage(`{"a":"<b>"}`)}, ledger.Draft{Kind: "node.approved", Node: "n2"})
	var ids []string
	var names []string
	for range 6 {
		e, ok := s.next()
		if !ok {
			t.Fatal("the stream ended")
		}
		var p api.Packet
		if err := json.Unmarshal([]byte(e.data), &p); err != nil || strconv.FormatUint(p.Seq, 10) != e.id || p.Call == "before" {
			t.Fatalf("%+v: %v", e, err)
		}
		ids, names = append(ids, e.id), append(names, e.name)
	}
	if want := []string{"call", "call", "call", "call", "packet", "node"}; !slices.Equal(names, want) {
		t.Errorf("names %v", names)
	}
	s.resp.Body.Close()
	recordCall(t, a, "alice", "c2") // while nobody listens
	s = a.events(a.operator, ids[1])
	for _, want := range ids[2:] {
		if e, _ := s.next(); e.id != want {
			t.Errorf("resumed at %s, want %s", e.id, want)
		}
	}
	for range 4 {
		if e, _ := s.next(); !strings.Contains(e.data, `"c2"`) {
			t.Errorf("lost while away: %+v", e)
		}
	}
	// Nodes that come and go are told, but are nothing to resume from.
	if _, err := a.roster.Revoke(t.Context(), "n1", "op", ""); err != nil {
		t.Fatal(err)
	}
	if e, _ := s.next(); e.name != "node" || e.id != "" || !strings.Contains(e.data, `"connected":false`) || !strings.Contains(e.data, `"n1"`) {
		t.Errorf("presence %+v", e)
	}
	for _, bad := range []string{"x", "-1", "1.5"} {
		req, _ := http.NewRequest("GET", a.URL+"/v1/events", nil)
		req.Header.Set("Authorization", "Bearer "+a.operator)
		req.Header.Set("Last-Event-ID", bad)
		resp, err := a.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 400 {
			t.Errorf("Last-Event-ID %q: %s", bad, resp.Status)
		}
	}
	a.fails(a.agent, "GET", "/v1/events", "", capabilities.CodeForbidden)
}

func TestEventsEndWithTheToken(t *testing.T) {
	a := start(t)
	rec, token := a.Mint(principal.Spec{Principal: "watcher", Role: principal.RoleOperator})
	s := a.events(token, "")
	if _, err := a.Tokens.Revoke(t.Context(), principal.Site, rec.ID); err != nil {
		t.Fatal(err)
	}
	for {
		if _, ok := s.next(); !ok {
			return // it ended
		}
	}
}

func TestEventsAreBoundedAndDrain(t *testing.T) {
	a := start(t)
	var streams []*sse
	for range 32 {
		streams = append(streams, a.events(a.operator, ""))
	}
	a.fails(a.operator, "GET", "/v1/events", "", capabilities.CodeOverloaded)
	a.Stop()
	for _, s := range streams {
		for {
			if _, ok := s.next(); !ok {
				break
			}
		}
		// One that held the shutdown up would have been cut when its time was over.
		if err := s.in.Err(); err != nil {
			t.Errorf("a stream was not ended but cut: %v", err)
		}
	}
}

// Streams are bounded for a token, for a principal with many, and in all; an ended one
// makes room again.
func TestStreamsAreBounded(t *testing.T) {
	a := start(t)
	who := func(person, token int) principal.Identity {
		return principal.Identity{TokenID: fmt.Sprintf("t-%d-%d", person, token), Principal: capabilities.PrincipalID(fmt.Sprintf("p-%d", person)), Role: principal.RoleOperator}
	}
	refused := func(id principal.Identity, whose string) {
		t.Helper()
		if err := a.rest.OpenStream(id); capabilities.CodeOf(err) != capabilities.CodeOverloaded || !strings.Contains(err.Error(), whose) {
			t.Errorf("%s: %v", whose, err)
		}
	}
	open := 0
	for person := 0; open < rest.MaxInAll; person++ {
		for i := range rest.MaxEach {
			if err := a.rest.OpenStream(who(person, i/rest.MaxStreams)); err != nil {
				t.Fatalf("stream %d: %v", open, err)
			}
			open++
		}
		if open < rest.MaxInAll {
			refused(who(person, 0), "this token")
			refused(who(person, 99), "this principal")
		}
	}
	refused(who(1000, 0), "this gateway")
	if status, body := a.do(a.operator, "GET", "/v1/events", ""); status != capabilities.CodeOverloaded.Info().HTTP {
		t.Errorf("one more over HTTP: %d %s", status, body)
	}
	if status, _ := a.do(a.operator, "GET", "/v1/nodes", ""); status != 200 {
		t.Errorf("a call meanwhile: %d", status)
	}
	a.rest.CloseStream(who(0, 0))
	if err := a.rest.OpenStream(who(1000, 0)); err != nil {
		t.Errorf("after one ended: %v", err)
	}
	refused(who(1001, 0), "this gateway")
}
