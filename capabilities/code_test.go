package capabilities

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// A call that somebody or a rule refused is told from one that failed; nothing else is denied.
func TestStatusOfCodes(t *testing.T) {
	denied := map[Code]bool{
		CodeDeniedByPolicy: true, CodeNodeDeniedByPolicy: true, CodeConsentUnavailable: true, CodeConsentDenied: true, CodeIsolationUnavailable: true,
		CodeStopped: true, CodeDeniedByNode: true, CodeCapabilityNotAllowlisted: true, CodeURLBlocked: true, CodeSecretHeld: true,
		CodeToolRestricted: true, CodeRunnerQuarantined: true,
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

// Details are a value where an error is made and, read again, on the other side of a wire.
func TestDetailsOf(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for want, p := range map[string]Presence{
		`{"node":"study","node_id":"n1","principal":"robot"}`: {Node: "n1", Label: "study", By: "robot"},
		`{"passkey":true}`: {Passkey: true},
		`{"node":"study","node_id":"n1","passkey":true,"principal":"robot","seconds":12,"until":"2026-03-04T05:06:07Z"}`: {
			Node: "n1", Label: "study", By: "robot", Passkey: true, Seconds: 12, Until: at,
		},
	} {
		made := Errorf(CodeHandsElsewhere, "an agent may use it").WithDetails(p)
		text, err := json.Marshal(made.Details)
		if err != nil || string(text) != want {
			t.Errorf("%+v is %s on the wire, want %s (%v)", p, text, want, err)
		}
		var form any
		if err := json.Unmarshal(text, &form); err != nil {
			t.Fatal(err)
		}
		sent := &Error{Code: CodeHandsElsewhere, Details: form}
		for _, err := range []error{made, fmt.Errorf("with more: %w", made), sent, fmt.Errorf("with more: %w", sent)} {
			if got := DetailsOf[Presence](err); got != p {
				t.Errorf("%v says %+v, want %+v", err, got, p)
			}
		}
	}
	for _, err := range []error{
		nil, fmt.Errorf("of another kind"), &Error{Code: CodeHandsElsewhere}, Errorf(CodeConflict, "x").WithDetails("passkey"),
		Errorf(CodeConflict, "x").WithDetails(Pending{Approval: "a-1"}), Errorf(CodeConflict, "x").WithDetails(map[string]any{"passkey": true, "node": []any{1}}),
	} {
		if got := DetailsOf[Presence](err); got != (Presence{}) {
			t.Errorf("%v says %+v", err, got)
		}
	}
}
