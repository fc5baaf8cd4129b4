package rest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/ledger"
)

// A list is narrowed by state, node and text, over pages, with each call once.
func TestCallsAreSearched(t *testing.T) {
	a := start(t)
	profiles := []string{"sha256:aa", "sha256:bb", "sha256:cc"}
	for i := range 30 {
		d := ledger.Draft{Call: capabilities.CallID(fmt.Sprintf("c%02d", i)), Tool: "tool.browser.navigate", Principal: "alice", Lane: "l", Node: capabilities.NodeID([]string{"n1", "n2"}[i%2])}
		steps := []struct {
			kind ledger.Kind
			body string
		}{{ledger.KindCallRequest, fmt.Sprintf(`{"evidence":{"url":"https://Example%d.test/"}}`, i)}, {ledger.KindCallDecision, fmt.Sprintf(`{"effect":"allow","envelope":{"capability_profile_id":%q,"isolation_class":%q,"policy_snapshot_id":"sha256:%d"}}`, profiles[i%3], []string{"t1", "t2"}[i%2], i/10)}, {ledger.KindCallDispatch, `{}`}}
		switch i % 3 {
		case 0:
			steps = append(steps, steps[0])
			steps[3].kind, steps[3].body = ledger.KindCallResult, `{"status":"ok"}`
		case 1:
			steps = append(steps, steps[0])
			steps[3].kind, steps[3].body = ledger.KindCallFailed, `{"status":"error","code":"timeout"}`
		}
		for _, s := range steps {
			d.Kind, d.Body = s.kind, json.RawMessage(s.body)
			record(t, a, d)
		}
	}
	list := func(token, query string) (ids []string) {
		t.Helper()
		before := ""
		for range 50 {
			var page struct {
				Calls []struct {
					Call    string `json:"call_id"`
					Outcome string
				}
				Before uint64
			}
			a.ok(token, "GET", "/v1/calls?limit=4&"+query+before, "", &page)
			for _, c := range page.Calls {
				ids = append(ids, c.Call)
			}
			if page.Before == 0 {
				return ids
			}
			before = fmt.Sprintf("&before=%d", page.Before)
		}
		t.Fatalf("%s: the list has no end", query)
		return nil
	}
	for query, want := range map[string]int{
		"state=done": 10, "state=failed": 10, "state=running": 10, "state=denied": 0, "node=n2": 15, "state=done&node=n1": 5,
		"q=example": 30, "q=EXAMPLE7.": 1, "q=timeout": 10, "q=c05": 1, "q=n2": 15, "q=nowhere": 0, "q=timeout&state=failed": 10, "q=timeout&state=done": 0, "q=example1&node=n2": 6,
		"profile=sha256:aa": 10, "profile=sha256:a": 0, "snapshot=sha256:1": 10, "isolation=t2": 15, "isolation=t": 0, "profile=sha256:bb&snapshot=sha256:0": 3, "profile=sha256:aa&state=done": 10, "profile=sha256:bb&state=done": 0, "isolation=t1&node=n2": 0,
		"q=example7.&profile=sha256:bb": 0, // the words of a request are not those of a decision
	} {
		got := list(a.operator, query)
		if slices.Sort(got); len(got) != want || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Errorf("%s: %d calls, want %d: %v", query, len(got), want, got)
		}
	}
	if got := list(a.Token("bob", "agent"), "q=example"); len(got) != 0 {
		t.Errorf("somebody else's calls: %v", got)
	}
	a.fails(a.operator, "GET", "/v1/calls?state=other", "", capabilities.CodeInvalidRequest)
	a.fails(a.operator, "GET", "/v1/calls?profile="+strings.Repeat("x", 201), "", capabilities.CodeInvalidRequest)
	a.fails(a.operator, "GET", "/v1/calls?q="+strings.Repeat("x", 201), "", capabilities.CodeInvalidRequest)
}

// A call whose end stands on another page than its beginning is listed as it ended, and once.
func TestCallsThatEndOnAnotherPage(t *testing.T) {
	a := start(t)
	write := func(call capabilities.CallID, kind ledger.Kind, body string) {
		record(t, a, ledger.Draft{Call: call, Tool: "tool.browser.navigate", Principal: "alice", Lane: "l", Node: "n1", Kind: kind, Body: json.RawMessage(body)})
	}
	write("long", ledger.KindCallRequest, `{}`)
	write("long", ledger.KindCallDispatch, `{}`)
	for i := range 600 { // more than one request of the list reads at once
		call := capabilities.CallID(fmt.Sprintf("c%03d", i))
		write(call, ledger.KindCallRequest, `{}`)
		write(call, ledger.KindCallResult, `{"status":"ok"}`)
	}
	write("long", ledger.KindCallResult, `{"status":"ok"}`)
	for query, want := range map[string]int{"state=running": 0, "state=done": 601, "": 601, "node=n1": 601} {
		before, seen, long := "", 0, 0
		for range 50 {
			var page struct {
				Calls []struct {
					Call    string `json:"call_id"`
					Outcome string
				}
				Before uint64
			}
			a.ok(a.operator, "GET", "/v1/calls?limit=200&"+query+before, "", &page)
			for _, c := range page.Calls {
				seen++
				if c.Call == "long" {
					long++
				}
				if c.Outcome != "done" {
					t.Errorf("%q: %s is %s", query, c.Call, c.Outcome)
				}
			}
			if page.Before == 0 {
				break
			}
			before = fmt.Sprintf("&before=%d", page.Before)
		}
		if seen != want || long != min(want, 1) {
			t.Errorf("%q: %d calls, want %d; the long one %d times", query, seen, want, long)
		}
	}
}

// A script that ended at a question has not failed: it is over, and its caller runs it again.
func TestAScriptThatEndsAtAQuestionIsOver(t *testing.T) {
	a := start(t)
	d := ledger.Draft{Call: "script", Tool: "tool.browser.run-code", Principal: "alice", Lane: "l"}
	d.Kind, d.Body = ledger.KindCallRequest, json.RawMessage(`{}`)
	record(t, a, d)
	d.Kind, d.Body = ledger.KindCallFailed, json.RawMessage(`{"status":"pending","code":"approval_pending"}`)
	record(t, a, d)
	var page struct {
		Calls []struct{ Outcome string }
	}
	if a.ok(a.operator, "GET", "/v1/calls", "", &page); len(page.Calls) != 1 || page.Calls[0].Outcome != "over" {
		t.Errorf("%+v", page)
	}
}

// A call that waited for a person is over when its question is: the list says so and
// keeps nobody waiting.
func TestPendingCallsEndWithTheirQuestion(t *testing.T) {
	a := start(t)
	ask := func(lane capabilities.LaneID) string {
		t.Helper()
		_, err := a.consent.Await(t.Context(), consent.Ask{Principal: "alice", Tool: "tool.desktop.act", Node: "n2", Lane: lane, Snapshot: a.snapshot, Longest: consent.KindCall})
		var e *capabilities.Error
		if !errors.As(err, &e) || e.Code != capabilities.CodeApprovalPending {
			t.Fatal(err)
		}
		return e.Pending().Approval
	}
	body := map[string]string{"open": fmt.Sprintf(`{"approval":%q}`, ask("l1")), "allowed": fmt.Sprintf(`{"approval":%q}`, ask("l2")), "denied": fmt.Sprintf(`{"approval":%q}`, ask("l3")), "forgotten": `{"approval":"a-forgotten"}`, "dropped": `{"approval":"a-forgotten","task":"t-0"}`}
	for name, b := range body {
		d := ledger.Draft{Call: capabilities.CallID("c-" + name), Tool: "tool.desktop.act", Principal: "alice", Lane: "l"}
		for _, kind := range []ledger.Kind{ledger.KindCallRequest, ledger.KindCallDecision, ledger.KindCallPending} {
			d.Kind, d.Body = kind, json.RawMessage(b)
			record(t, a, d)
		}
	}
	for _, q := range a.consent.Approvals() {
		if q.Lane != "l1" {
			if _, err := a.consent.Answer(t.Context(), q.ID, consent.Answer{Allow: q.Lane == "l2", By: "op"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for query, want := range map[string]string{"": "allowed:over denied:denied dropped:over forgotten:over open:waits", "&state=over": "allowed:over dropped:over forgotten:over", "&state=waits": "open:waits", "&q=a-forgotten": "dropped:over forgotten:over"} {
		var page struct {
			Calls []struct {
				Call    string `json:"call_id"`
				Outcome string
			}
		}
		a.ok(a.operator, "GET", "/v1/calls?limit=50"+query, "", &page)
		var got []string
		for _, c := range page.Calls {
			got = append(got, strings.TrimPrefix(c.Call, "c-")+":"+c.Outcome)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %v, want %s", query, got, want)
		}
	}
}

// A call that somebody ended on purpose is told from one that failed; a packet that does not say
// who did, as those of before that was recorded, means what it meant.
func TestEndedOnPurposeIsNoFailure(t *testing.T) {
	a := start(t)
	for name, end := range map[string]string{
		"viewer": `{"status":"error","code":"cancelled","ended_by":"caller"}`, "person": `{"status":"error","code":"cancelled","ended_by":"person"}`,
		"old": `{"status":"error","code":"cancelled"}`, "failed": `{"status":"error","code":"execution_failed"}`,
	} {
		d := ledger.Draft{Call: capabilities.CallID("c-" + name), Tool: "tool.live.screen", Principal: "alice", Lane: "l"}
		for _, step := range []struct {
			kind ledger.Kind
			body string
		}{{ledger.KindCallRequest, `{"surface":"whep"}`}, {ledger.KindCallDecision, `{"effect":"allow"}`}, {ledger.KindCallDispatch, `{}`}, {ledger.KindCallFailed, end}} {
			d.Kind, d.Body = step.kind, json.RawMessage(step.body)
			record(t, a, d)
		}
	}
	// One that waited for a person when its caller left was not denied by anybody.
	d := ledger.Draft{Call: "c-waited", Tool: "tool.live.screen", Principal: "alice", Lane: "l"}
	for _, step := range []struct {
		kind ledger.Kind
		body string
	}{{ledger.KindCallRequest, `{}`}, {ledger.KindCallDecision, `{"effect":"deny","code":"cancelled"}`}, {ledger.KindCallFailed, `{"status":"error","code":"cancelled","ended_by":"caller"}`}} {
		d.Kind, d.Body = step.kind, json.RawMessage(step.body)
		record(t, a, d)
	}
	for query, want := range map[string]string{
		"": "failed:failed: old:failed: person:ended:person viewer:ended:caller waited:ended:caller", "&state=ended": "person:ended:person viewer:ended:caller waited:ended:caller",
		"&state=failed": "failed:failed: old:failed:", "&state=denied": "",
	} {
		var page struct {
			Calls []struct {
				Call    string `json:"call_id"`
				Outcome string
				EndedBy string `json:"ended_by"`
			}
		}
		a.ok(a.operator, "GET", "/v1/calls?limit=50"+query, "", &page)
		var got []string
		for _, c := range page.Calls {
			got = append(got, strings.TrimPrefix(c.Call, "c-")+":"+c.Outcome+":"+c.EndedBy)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %v, want %s", query, got, want)
		}
	}
}
