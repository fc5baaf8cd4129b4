package consent_test

import (
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
)

// A person who reads slowly gets more time, within bounds, and never a yes by it.
func TestMoreTimeForAQuestion(t *testing.T) {
	r := fresh(t, time.Minute)
	got := r.await(ask())
	w := r.waiting()
	r.advance(9 * time.Minute)
	longer, err := r.Extend(t.Context(), w.ID, "ann")
	if err != nil || longer.Expires.Sub(w.Expires) < 8*time.Minute {
		t.Fatalf("%s is to be later than %s: %v", longer.Expires, w.Expires, err)
	}
	if again, err := r.Extend(t.Context(), w.ID, "ann"); err != nil || again.Expires.Before(longer.Expires) {
		t.Fatalf("%+v %v", again, err)
	}
	for range 6 { // 54 min more
		r.advance(9 * time.Minute)
		_, err = r.Extend(t.Context(), w.ID, "ann")
	}
	if !is(err, capabilities.CodeConflict) {
		t.Fatalf("a question stays open for ever: %v", err)
	}
	if now, err := r.Approval(w.ID); err != nil || now.State == consent.StatePending {
		t.Errorf("%+v %v", now, err)
	}
	if o := <-got; !is(o.err, capabilities.CodeConsentDenied) {
		t.Errorf("time that ran out is no denial: %+v", o)
	}
	if _, err := r.Extend(t.Context(), w.ID, "ann"); !is(err, capabilities.CodeConflict) {
		t.Errorf("a question that is over was extended: %v", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := strings.Count(strings.Join(r.records, "|"), "gateway.approval.extended ann"); n < 3 {
		t.Errorf("%d extensions are recorded", n)
	}
}
