package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/agent/journal"
	"github.com/handrail-dev/handrail/agent/owner"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/test/site"
)

// waiting returns the one approval that waits at s.
func waiting(t *testing.T, s *site.Site) consent.Approval {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if all := s.Consent.Approvals(); len(all) > 0 {
			return all[0]
		}
	}
	t.Fatal("nothing waits for a person")
	return consent.Approval{}
}

// until waits for what no news of nodes say (see site.Await).
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(site.Within); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func press(s *site.Site, text string) capabilities.Result {
	return s.Call(context.Background(), site.ToolPress, `{"text":"`+text+`"}`, "")
}

// A privileged tool runs when a person said so, exactly what was said, whatever a permit says; the
// ledger tells who. The question comes before anything runs (S2-29), and a no is the call's end
// (S2-30).
func TestAPersonAllows(t *testing.T) {
	s := site.Start(t, site.Options{ApprovalWait: time.Minute})
	h := site.NewHandler()
	n := s.AddNode("desk", h)
	answer := func(text string, a consent.Answer) capabilities.Result {
		t.Helper()
		done := make(chan capabilities.Result, 1)
		go func() { done <- press(s, text) }()
		w := waiting(t, s)
		if h.Runs(text) != 0 || w.Node != n.ID || w.Arguments["/text"] != text && w.Arguments["text"] != text {
			t.Errorf("%d runs while it waits; asked %+v", h.Runs(text), w)
		}
		a.By = "anna"
		if _, err := s.Consent.Answer(context.Background(), w.ID, a); err != nil {
			t.Fatal(err)
		}
		return <-done
	}
	if r := answer("once", consent.Answer{Allow: true}); r.Status != capabilities.StatusOK || h.Runs("once") != 1 {
		t.Fatalf("%+v", r)
	}
	if r := answer("never", consent.Answer{Reason: "not now"}); r.Code != capabilities.CodeConsentDenied || r.Status != capabilities.StatusDenied || h.Runs("never") != 0 {
		t.Fatalf("%+v", r)
	}
	if r := answer("lease", consent.Answer{Allow: true, Kind: consent.KindLease}); r.Status != capabilities.StatusOK {
		t.Fatalf("%+v", r)
	}
	for i := range 3 {
		if r := press(s, fmt.Sprint("more", i)); r.Status != capabilities.StatusOK {
			t.Fatalf("under the lease: %+v", r)
		}
	}
	for _, g := range s.Consent.Grants() {
		if err := s.Consent.Revoke(context.Background(), g.ID, "anna"); err != nil {
			t.Fatal(err)
		}
	}
	if r := answer("after", consent.Answer{}); r.Code != capabilities.CodeConsentDenied || h.Runs("after") != 0 {
		t.Fatalf("after the revocation: %+v", r)
	}
}

// Of a thousand calls at once, a lease of seven uses lets seven run, and none without one (S2-27).
func TestUsesAreNotGainedByRaces(t *testing.T) {
	s := site.Start(t, site.Options{})
	h := site.NewHandler()
	n := s.AddNode("desk", h)
	if _, err := s.Consent.Grant(t.Context(), consent.Spec{
		Principal: "agent", Tools: []string{"tool.fixture.press"}, Node: n.ID, AnyLane: true, MaxUses: 7, Approver: "anna",
	}); err != nil {
		t.Fatal(err)
	}
	var ran atomic.Int64
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() {
			text := fmt.Sprint(i)
			switch r := press(s, text); {
			case r.Status == capabilities.StatusOK:
				ran.Add(1)
			case h.Runs(text) != 0:
				t.Errorf("it ran: %+v", r)
			case r.Code != capabilities.CodeConsentDenied && r.Code != capabilities.CodeConsentUnavailable && r.Code != capabilities.CodeOverloaded:
				t.Errorf("%+v", r)
			}
		})
	}
	wg.Wait()
	if ran.Load() != 7 {
		t.Errorf("%d ran", ran.Load())
	}
}

// A question that the owner wants asked is not answered by the gateway's grant.
func TestOwnerIsNotOverruled(t *testing.T) {
	s := site.Start(t, site.Options{})
	h := site.NewHandler()
	n := s.AddNode("desk", h)
	s.Grant("agent", n, "tool.fixture.*")
	if r := press(s, "granted"); r.Status != capabilities.StatusOK {
		t.Fatalf("%+v", r)
	}
	n.Stop()
	rule := `forbid (principal, action == Action::"tool.fixture.press", resource) unless { context.consent };`
	if err := os.WriteFile(filepath.Join(n.Dir, "owner-test.cedar"), []byte(rule), 0o600); err != nil {
		t.Fatal(err)
	}
	n.Start()
	answer := func(text string, a owner.Answer) capabilities.Result {
		t.Helper()
		done := make(chan capabilities.Result, 1)
		go func() { done <- press(s, text) }()
		q := question(t, n)
		if h.Runs(text) != 0 || q.Principal != "agent" || q.Tool != site.ToolPress {
			t.Errorf("%d runs while it waits; asked %+v", h.Runs(text), q)
		}
		if _, err := owner.Reply(n.Dir, q.ID, a, time.Now()); err != nil {
			t.Fatal(err)
		}
		return <-done
	}
	if r := answer("no", owner.Answer{}); r.Code != capabilities.CodeConsentDenied || r.Status != capabilities.StatusDenied || h.Runs("no") != 0 {
		t.Errorf("%+v", r)
	}
	if r := answer("yes", owner.Answer{Approve: true, By: "ada"}); r.Status != capabilities.StatusOK || h.Runs("yes") != 1 {
		t.Errorf("%+v", r)
	}
	log, err := journal.Read(journal.Dir(n.Dir, string(n.ID)), string(n.ID))
	if err != nil {
		t.Fatal(err)
	}
	// The person's word stands before what it allowed.
	said := slices.IndexFunc(log.Records, func(r journal.Record) bool { return r.Answer == "approve" && r.By == "ada" })
	if said < 0 || said+2 >= len(log.Records) || log.Records[said+1].Kind != journal.KindStarted || log.Records[said+1].Call != log.Records[said].Call || log.Records[said+1].Principal != "agent" {
		t.Errorf("the node's log: %+v", log.Records)
	}
}

// question waits for what the node asks its person.
func question(t *testing.T, n *site.Node) owner.Question {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if all, err := owner.Questions(n.Dir, time.Now()); err == nil && len(all) > 0 {
			return all[0]
		}
	}
	t.Fatal("the node asks nobody")
	return owner.Question{}
}
