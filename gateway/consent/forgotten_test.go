package consent_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
)

// A question that was open when the gateway ended is closed by the next start, on record and for
// whoever answers it then; the same call has it asked anew. One that had an end is not.
func TestARestartClosesQuestions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	r := open(t, path, time.Millisecond)
	if _, err := r.Await(context.Background(), ask()); !is(err, capabilities.CodeApprovalPending) {
		t.Fatal(err)
	}
	open1 := r.waiting()
	other := ask()
	other.Args = []byte(`{"a":2}`)
	if _, err := r.Await(context.Background(), other); !is(err, capabilities.CodeApprovalPending) {
		t.Fatal(err)
	}
	for _, a := range r.Approvals() {
		if a.ID != open1.ID {
			if _, err := r.Answer(t.Context(), a.ID, consent.Answer{By: "anna", Allow: true}); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = r.db.Close()

	r = open(t, path, time.Millisecond)
	if got := r.records; !slices.Equal(got, []string{"gateway.approval.closed agent"}) {
		t.Errorf("%q", got)
	}
	if len(r.Approvals()) != 0 {
		t.Errorf("%+v", r.Approvals())
	}
	if a, err := r.Approval(open1.ID); err != nil || a.State != consent.StateClosed || a.Closed != consent.ClosedRestarted || a.Tool != open1.Tool {
		t.Errorf("%+v %v", a, err)
	}
	_, err := r.Answer(t.Context(), open1.ID, consent.Answer{By: "anna", Allow: true})
	if !is(err, capabilities.CodeConflict) || !strings.Contains(capabilities.AsError(err).PublicMessage(), "the gateway restarted") {
		t.Errorf("%v", err)
	}
	if _, err := r.Await(context.Background(), ask()); !is(err, capabilities.CodeApprovalPending) || r.waiting().ID == open1.ID {
		t.Errorf("%v", err)
	}
	_ = r.db.Close()
	r = open(t, path, time.Millisecond)
	_ = r.db.Close()
	if r = open(t, path, time.Millisecond); len(r.records) != 0 { // closed once
		t.Errorf("%q", r.records)
	}
}
