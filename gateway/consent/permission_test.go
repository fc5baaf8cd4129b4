package consent_test

import (
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
)

// A permission covers what it was given for (S2-28), ends by itself at its time (S2-31), and is
// given, used and taken back on record (S2-35).
func TestAPermissionHasItsTimeAndItsReach(t *testing.T) {
	r := fresh(t, -1)
	grant := func() consent.Grant {
		t.Helper()
		g, err := r.Grant(t.Context(), consent.Spec{Principal: "agent", Tools: []string{"tool.desktop.act"}, Node: "n1", Lane: "l1", Approver: "anna"})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	covers := func(change func(*consent.Ask)) bool {
		a := ask()
		if change != nil {
			change(&a)
		}
		_, err := r.Await(t.Context(), a)
		if err != nil && capabilities.CodeOf(err) != capabilities.CodeConsentUnavailable {
			t.Errorf("%v", err)
		}
		return err == nil
	}
	g := grant()
	if got := g.Expires.Sub(g.Created); got != 5*time.Minute {
		t.Errorf("it lasts %s", got)
	}
	if !covers(nil) {
		t.Error("what it was given for is not covered")
	}
	for what, change := range map[string]func(*consent.Ask){
		"another tool": func(a *consent.Ask) { a.Tool = "tool.desktop.mouse" },
		"another node": func(a *consent.Ask) { a.Node = "n2" },
		"another lane": func(a *consent.Ask) { a.Lane = "l2" },
		"another one":  func(a *consent.Ask) { a.Principal = "other" },
	} {
		if covers(change) {
			t.Errorf("%s is covered", what)
		}
	}
	r.advance(5*time.Minute + time.Second)
	if covers(nil) {
		t.Error("it covers after its time")
	}
	g = grant()
	if !covers(nil) {
		t.Error("a new one does not cover")
	}
	if err := r.Revoke(t.Context(), g.ID, "anna"); err != nil || covers(nil) {
		t.Errorf("taken back, and it covers: %v", err)
	}
	if got := strings.Join(r.records, "|"); !strings.HasPrefix(got, "gateway.grant.made anna|gateway.grant.made anna|gateway.grant.revoked anna") {
		t.Errorf("recorded %q", got)
	}
}

// A question names the tool, the node, why it is asked, how long a yes may last and until when an
// answer counts (S2-33).
func TestAQuestionSaysWhatItIsFor(t *testing.T) {
	r := fresh(t, time.Minute)
	a := ask()
	a.Purpose, a.Why = "to pay the bill", []string{"it presses a real key"}
	got := r.await(a)
	w := r.waiting()
	if w.Tool != "tool.desktop.act" || w.Node != "n1" || w.Lane != "l1" || w.Principal != "agent" || w.Longest != consent.KindLease || !w.Expires.After(w.Created) {
		t.Errorf("%+v", w)
	}
	if told, ok := r.Told(w.ID, false); !ok || told.Purpose != "to pay the bill" || !strings.Contains(strings.Join(w.Why, " "), "real key") {
		t.Errorf("%+v %q", told, w.Why)
	}
	if _, err := r.Answer(t.Context(), w.ID, consent.Answer{By: "anna"}); err != nil {
		t.Fatal(err)
	}
	<-got
}

// A call that only a live grant may cover is never asked about: also where the grant that was found
// for it is gone when it comes (S2-27, S2-28).
func TestOnlyALiveGrantCounts(t *testing.T) {
	r := fresh(t, time.Minute)
	a := ask()
	a.Live = true
	if _, reachable := r.Covering(&a); !reachable {
		t.Error("nobody could be asked, so it says nothing")
	}
	if _, err := r.Await(t.Context(), a); !is(err, capabilities.CodeConsentUnavailable) || len(r.Approvals()) > 0 {
		t.Errorf("%v, %+v waits", err, r.Approvals())
	}
	g, err := r.Grant(t.Context(), consent.Spec{Principal: "agent", Tools: []string{"tool.desktop.act"}, Node: "n1", Lane: "l1", Approver: "anna"})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := r.Await(t.Context(), a); err != nil || p.Grant != g.ID {
		t.Errorf("%+v %v", p, err)
	}
	if err := r.Revoke(t.Context(), g.ID, "anna"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Await(t.Context(), a); !is(err, capabilities.CodeConsentUnavailable) || len(r.Approvals()) > 0 {
		t.Errorf("%v, %+v waits", err, r.Approvals())
	}
}
