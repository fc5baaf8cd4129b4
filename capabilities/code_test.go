package capabilities

import (
	"encoding/json"
	"testing"
	"time"
)

// A call that somebody or a rule refused is told from one that failed; nothing else is denied.
func TestStatusOfCodes(t *testing.T) {
	denied := map[Code]bool{
		CodeDeniedByPolicy: true, CodeNodeDeniedByPolicy: true, CodeConsentUnavailable: true, CodeConsentDenied: true, CodeIsolationUnavailable: true,
		CodeStopped: true, CodeDeniedByNode: true, CodeCapabilityNotAllowlisted: true, CodeURLBlocked: true, CodeSecretHeld: true,
	}
	for _, c := range append(Codes(), "of_another_version") {
		want := StatusError
		switch {
		case denied[c]:
			want = StatusDenied
		case c == CodeApprovalPending:
			want = StatusPending
		}
		if got := c.Info().Status; got != want {
			t.Errorf("%s ends a call as %q, want %q", c, got, want)
		}
	}
}

// The reason for which a call waits is a value on its way, and on the wire what it always was.
func TestPending(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for want, p := range map[string]Pending{
		`{"approval":"a-1"}`: {Approval: "a-1"},
		`{"approval":"a-1","expires_at":"2026-03-04T05:06:07Z","task":"t-1"}`:                   {Approval: "a-1", Task: "t-1", Expires: at},
		`{"approval":"a-1","expires_at":"2026-03-04T05:06:07Z","state":"waiting","task":"t-1"}`: {Approval: "a-1", Task: "t-1", State: "waiting", Expires: at},
	} {
		e := Errorf(CodeApprovalPending, "it waits").WithDetails(p)
		r := Result{Code: e.Code, Details: e.Details}
		text, err := json.Marshal(e.Details)
		if err != nil || string(text) != want || e.Pending() != p || r.Pending() != p {
			t.Errorf("%s, %v, %+v, want %s", text, err, e.Pending(), want)
		}
	}
	if p := (&Error{Code: CodeConflict, Details: map[string]any{"approval": "a-1"}}).Pending(); p != (Pending{}) {
		t.Errorf("%+v", p)
	}
}
