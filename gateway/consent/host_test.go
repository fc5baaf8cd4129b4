package consent_test

import (
	"context"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/consent"
)

type saidHost struct {
	said consent.HostSaid
	err  error
}

func (r *room) asksHost(ctx context.Context, call capabilities.CallID, target string) <-chan saidHost {
	c := make(chan saidHost, 1)
	go func() {
		said, err := r.AskHost(ctx, consent.HostAsk{
			Running: consent.Running{Call: call, Principal: "agent", Role: "agent", Tool: "tool.fs.bash", Node: "n1", Lane: "l1", Snapshot: r.snapshot},
			Target:  target, Key: capabilities.NarrowDomains + target, Risk: "high",
			Args: []byte(`{"command":"curl asked.example"}`), Envelope: &policy.Summary{Hash: "h", Grants: []string{capabilities.KeyEgress}},
		})
		c <- saidHost{said, err}
	}()
	return c
}

// A yes about a host is used with the answer, a no holds for a while, and silence is neither;
// nobody answers at a client or a device, nor for longer than the call.
func TestAskHost(t *testing.T) {
	r := fresh(t, time.Minute)
	got := r.asksHost(t.Context(), "c1", "asked.example:443")
	w := r.waiting()
	if told, open := r.Told(w.ID, true); w.Wants != "asked.example:443" || !open || len(told.Fields) != 1 {
		t.Fatalf("%+v %+v", w, told)
	}
	for name, a := range map[string]consent.Answer{
		"at the client": {Allow: true, Via: consent.ViaMCP},
		"at the device": {Allow: true, Via: consent.ViaDevice, Device: "n1"},
		"for a lease":   {Allow: true, Kind: consent.KindLease},
		"with a form":   {Allow: true, Content: map[string]any{"a": 1}},
	} {
		a.By = "anna"
		if _, err := r.Answer(t.Context(), w.ID, a); err == nil {
			t.Errorf("%s: it counted", name)
		}
	}
	if _, err := r.Answer(t.Context(), w.ID, consent.Answer{Allow: true, By: "anna"}); err != nil {
		t.Fatal(err)
	}
	if g := <-got; g.err != nil || g.said.Permit.Grant == "" || g.said.Permit.Kind != consent.KindCall || g.said.Approval != w.ID || g.said.Denied {
		t.Errorf("%+v", g)
	}
	if len(r.Grants()) > 0 {
		t.Error("what is used is good still")
	}

	got = r.asksHost(t.Context(), "c2", "asked.example:443") // another call is asked about anew
	if _, err := r.Answer(t.Context(), r.waiting().ID, consent.Answer{By: "anna"}); err != nil {
		t.Fatal(err)
	}
	if g := <-got; g.err != nil || !g.said.Denied || g.said.Permit.Grant != "" {
		t.Errorf("%+v", g)
	}
	if g := <-r.asksHost(t.Context(), "c3", "asked.example:443"); g.err != nil || !g.said.Denied { // nobody is asked again at once
		t.Errorf("%+v", g)
	}
	r.advance(time.Minute)
	got = r.asksHost(t.Context(), "c4", "asked.example:443")
	r.waiting()
	r.advance(time.Hour)
	r.Approvals()
	if g := <-got; g.err != nil || g.said.Denied || g.said.Permit.Grant != "" {
		t.Errorf("silence: %+v", g)
	}
	ctx, leave := context.WithCancel(t.Context())
	got = r.asksHost(ctx, "c5", "asked.example:443")
	id := r.waiting().ID
	leave()
	if g := <-got; g.err == nil {
		t.Errorf("a call that is gone: %+v", g)
	}
	if a, err := r.Approval(id); err != nil || a.State != consent.StateClosed {
		t.Errorf("%+v %v", a, err)
	}
	if g := <-fresh(t, -1).asksHost(t.Context(), "c6", "asked.example:443"); !is(g.err, capabilities.CodeConsentUnavailable) {
		t.Errorf("headless: %v", g.err)
	}
}
