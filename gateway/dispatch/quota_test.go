package dispatch

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/nodes/nodestest"
)

const threeAMinute = permitAll + `
@id("three") forbid (principal == Agent::"agent-1", action == Action::"tool.browser.evaluate", resource) when { context.calls_last_minute >= 3 };`

// Of a hundred calls at once as many go on as the rule lets; the others are told when the next may,
// and nobody else is refused. A restart forgets none, and a retry is no call more.
func TestQuota(t *testing.T) {
	nodes := nodestest.New("n1")
	nodes.Carry = nodestest.Answers(`{"result":7}`)
	h := newHouse(t, nodes, nil)
	h.rules(threeAMinute)
	began := time.Now()
	var ok, limited atomic.Int64
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			r := h.evaluate(capabilities.RequestID(fmt.Sprintf("r-%d", i)))
			switch r.Code {
			case "":
				ok.Add(1)
			case capabilities.CodeOverloaded:
				limited.Add(1)
				if l, is := r.Details.(Limited); !is || l.RetryMS <= 0 || l.RetryMS > time.Minute.Milliseconds()+1 || !r.Retryable {
					t.Errorf("%+v", r)
				}
			default:
				t.Errorf("%+v", r)
			}
		})
	}
	all.Wait()
	if ok.Load() != 3 || limited.Load() != 97 || len(nodes.Sent()) != 3 {
		t.Fatalf("%d went on, %d were refused, %d tickets", ok.Load(), limited.Load(), len(nodes.Sent()))
	}
	if r := h.Call(context.Background(), Request{Caller: Caller{Principal: "agent-2", Role: policy.RoleAgent, Lane: "main"}, Tool: toolEvaluate,
		Args: []byte(`{"expression":"1"}`), Surface: "test"}); r.Code != "" {
		t.Errorf("another principal: %+v", r)
	}
	if r := h.call(context.Background(), "tool.browser.snapshot", `{}`, ""); r.Code == capabilities.CodeOverloaded {
		t.Errorf("another tool: %+v", r)
	}
	h.stop()
	h.begin()
	r := h.evaluate("")
	if r.Code != capabilities.CodeOverloaded {
		t.Fatalf("%+v", r)
	}
	if l, is := r.Details.(Limited); !is || time.Now().Add(l.RetryAfter()).Before(began.Add(time.Minute)) {
		t.Errorf("after a restart: %+v", r)
	}
	replayed := 0
	for i := range 100 {
		if r := h.evaluate(capabilities.RequestID(fmt.Sprintf("r-%d", i))); r.Code == "" {
			replayed++
		}
	}
	if replayed != 3 || len(nodes.Sent()) > 4+1 {
		t.Errorf("%d retries got their result, %d tickets", replayed, len(nodes.Sent()))
	}
}

// A rule that no time fulfils is a denial, and one that asks from some call on asks.
func TestQuotaBesideOtherRules(t *testing.T) {
	nodes := nodestest.New("n1")
	nodes.Carry = nodestest.Answers(`{"result":7}`)
	h := newHouse(t, nodes, nil)
	h.rules(permitAll + `@id("never") forbid (principal, action == Action::"tool.browser.evaluate", resource) when { context.calls_last_day >= 0 };`)
	if r := h.evaluate(""); r.Status != capabilities.StatusDenied || r.Code == capabilities.CodeOverloaded {
		t.Errorf("no time makes it right: %+v", r)
	}
	h.rules(permitAll + `@id("asks") forbid (principal, action == Action::"tool.browser.evaluate", resource)
		when { context.calls_last_hour >= 1 } unless { context.consent };`)
	want(t, h.evaluate(""), capabilities.StatusOK, "")
	if r := h.evaluate("second"); r.Code != capabilities.CodeConsentUnavailable {
		t.Errorf("policy asks, and nobody is there: %+v", r)
	}
	// A call that was not carried out does not count.
	h.rules(permitAll + `@id("one") forbid (principal, action == Action::"tool.browser.snapshot", resource) when { context.calls_last_minute >= 1 };
@id("no") forbid (principal, action == Action::"tool.browser.snapshot", resource) when { context.lane == "closed" };`)
	for range 3 {
		h.Call(context.Background(), Request{Caller: Caller{Principal: "agent-1", Role: policy.RoleAgent, Lane: "closed"}, Tool: "tool.browser.snapshot",
			Args: []byte(`{}`), Surface: "test"})
	}
	if r := h.call(context.Background(), "tool.browser.snapshot", `{}`, ""); r.Code == capabilities.CodeOverloaded {
		t.Errorf("refused calls were counted: %+v", r)
	}
}

// Gateways of a site that read one ledger count the same calls, each once: also one that a gateway
// noted before its packet was there.
func TestQuotaFollowsTheLedger(t *testing.T) {
	nodes := nodestest.New("n1")
	nodes.Carry = nodestest.Answers(`{"result":7}`)
	h := newHouse(t, nodes, nil)
	var here, there quota
	count := func(what string, minute int64) {
		t.Helper()
		for _, q := range []*quota{&here, &there} {
			if err := q.follow(t.Context(), h.ledger); err != nil {
				t.Fatal(err)
			}
			if got := q.book.Of("agent-1", toolEvaluate, time.Now()).Minute; got != minute {
				t.Errorf("%s: %d calls, want %d", what, got, minute)
			}
		}
	}
	for range 2 {
		want(t, h.evaluate(""), capabilities.StatusOK, "")
	}
	count("of before", 2)
	for range 3 {
		want(t, h.evaluate(""), capabilities.StatusOK, "")
	}
	count("since", 5)
	r := h.evaluate("")
	want(t, r, capabilities.StatusOK, "")
	here.book.Add("agent-1", toolEvaluate, time.Now())
	here.own[r.Call] = true
	count("its own", 6)
	if len(here.own) != 0 {
		t.Errorf("it waits for a packet that it has read: %v", here.own)
	}
	count("again", 6)
}

// BenchmarkSpend is what noting a call costs where no rule counts, and where one does.
func BenchmarkSpend(b *testing.B) {
	var q quota
	b.Run("noted", func(b *testing.B) {
		for b.Loop() {
			_, _ = q.book.Take("p", "t", time.Now(), func(policy.Calls) bool { return true })
		}
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			_ = q.book.Of("p", "t", time.Now())
		}
	})
}
