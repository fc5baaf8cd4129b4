package consent_test

import (
	"context"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/gateway/consent"
)

// A person's word about what they asked for is good for that one call of theirs: for no other
// arguments, not twice, and not for an agent of the same name.
func TestAConfirmedCallIsOneCall(t *testing.T) {
	r := fresh(t, time.Millisecond)
	a := ask()
	a.Principal, a.Role, a.Tool, a.Longest = "admin", "admin", "tool.provider.host", consent.KindCall
	confirm := func() {
		t.Helper()
		if err := r.Confirmed(context.Background(), a.Principal, a.Tool, a.Node, a.Lane, a.Args); err != nil {
			t.Fatal(err)
		}
	}
	granted := func(a consent.Ask) bool {
		t.Helper()
		p, err := r.Await(context.Background(), a)
		return err == nil && r.spend(p) == nil
	}
	confirm()
	other, agent := a, a
	other.Args, agent.Role = []byte(`{"a":2}`), "agent"
	if granted(other) {
		t.Error("it holds for other arguments")
	}
	if granted(agent) {
		t.Error("it holds for an agent of that name")
	}
	if !granted(a) {
		t.Error("it does not hold for the call that was asked for")
	}
	if granted(a) {
		t.Error("it holds twice")
	}
}
