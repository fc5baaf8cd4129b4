package consent_test

import (
	"context"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/form"
	"github.com/handrail-dev/handrail/gateway/consent"
)

type replied struct {
	r   consent.Reply
	err error
}

func (r *room) elicit(ctx context.Context) <-chan replied {
	c := make(chan replied, 1)
	go func() {
		got, err := r.Elicit(ctx, consent.Elicitation{
			Running: consent.Running{Call: "c1", Principal: "agent", Role: "agent", Tool: "tool.wiki.ask", Node: "n1", Lane: "l1"}, Provider: "wiki",
			Form:   &form.Form{Message: "Which PIN?", Fields: []form.Field{{Name: "pin", Kind: form.Text, Required: true}}},
			Digest: func([]byte) string { return "digest" },
		})
		c <- replied{got, err}
	}()
	return c
}

// A form of a provider is answered by what fits it, once, and by nobody at a client or a
// device; silence, a stop and a call that is gone are no answer.
func TestElicit(t *testing.T) {
	r := fresh(t, time.Minute)
	got := r.elicit(t.Context())
	w := r.waiting()
	if w.Form == nil || w.Provider != "wiki" {
		t.Fatalf("%+v", w)
	}
	if _, open := r.Told(w.ID, true); open {
		t.Error("something is told of it beside its form")
	}
	content := map[string]any{"pin": "4815"}
	for name, a := range map[string]consent.Answer{
		"at the client": {Allow: true, Content: content, Via: consent.ViaMCP},
		"at the device": {Allow: true, Content: content, Via: consent.ViaDevice, Device: "n1"},
		"as an owner":   {Allow: true, Content: content, Via: consent.ViaOwner},
		"for a session": {Allow: true, Content: content, Kind: consent.KindSession},
		"with nothing":  {Allow: true},
		"both":          {Allow: true, Dismiss: true, Content: content},
	} {
		a.By = "anna"
		if _, err := r.Answer(t.Context(), w.ID, a); err == nil {
			t.Errorf("%s: it counted", name)
		}
	}
	if a, err := r.Answer(t.Context(), w.ID, consent.Answer{Allow: true, Content: content, By: "anna"}); err != nil || a.State != consent.StateAllowed {
		t.Fatalf("%+v, %v", a, err)
	}
	if g := <-got; g.err != nil || g.r.Action != capabilities.ElicitAccept || string(g.r.Content.Reveal()) != `{"pin":"4815"}` {
		t.Errorf("%+v", g)
	}
	if _, err := r.Answer(t.Context(), w.ID, consent.Answer{By: "ben"}); !is(err, capabilities.CodeConflict) {
		t.Errorf("a second answer: %v", err)
	}
	if len(r.Grants()) > 0 {
		t.Error("it granted something")
	}

	for want, a := range map[capabilities.Elicited]consent.Answer{capabilities.ElicitDecline: {By: "anna"}, capabilities.ElicitCancel: {By: "anna", Dismiss: true}} {
		got = r.elicit(t.Context())
		if _, err := r.Answer(t.Context(), r.waiting().ID, a); err != nil {
			t.Fatal(err)
		}
		if g := <-got; g.err != nil || g.r.Action != want {
			t.Errorf("%s: %+v", want, g)
		}
	}

	got = r.elicit(t.Context())
	r.waiting()
	r.advance(11 * time.Minute)
	r.Approvals() // whoever looks next ends it
	if g := <-got; g.err != nil || g.r.Action != capabilities.ElicitCancel {
		t.Errorf("nobody answered: %+v", g)
	}

	gone, leave := context.WithCancel(t.Context())
	got = r.elicit(gone)
	w = r.waiting()
	leave()
	if g := <-got; !is(g.err, capabilities.CodeCancelled) {
		t.Errorf("its call is gone: %+v", g)
	}
	if a, err := r.Approval(w.ID); err != nil || a.State != consent.StateClosed {
		t.Errorf("%+v, %v", a, err)
	}
}

// Content stands in no answer to a question of policy.
func TestContentIsForForms(t *testing.T) {
	r := fresh(t, time.Minute)
	got := r.await(ask())
	w := r.waiting()
	if _, err := r.Answer(t.Context(), w.ID, consent.Answer{Allow: true, Content: map[string]any{"x": 1}, By: "anna"}); !is(err, capabilities.CodeInvalidRequest) {
		t.Error(err)
	}
	if _, err := r.Answer(t.Context(), w.ID, consent.Answer{By: "anna"}); err != nil {
		t.Fatal(err)
	}
	<-got
}
