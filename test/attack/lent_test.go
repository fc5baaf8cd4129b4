package attack

import (
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/test/site"
)

// The person who lent the keyboard of the only machine is told before, can look on as a viewer and
// no more, and can resume what they stopped once the hands of that are over, and not before.
func TestALoneOwnerIsNotLockedOut(t *testing.T) {
	t.Parallel()
	a := enter(t, site.Options{ApprovalWait: time.Millisecond})
	if r := a.press(caller("agent", "agent"), `{"text":"wanted"}`); r.Code != capabilities.CodeApprovalPending {
		t.Fatalf("%+v", r)
	}
	w := a.waiting()
	if !w.Hands {
		t.Errorf("the question does not say that a lease lends the device: %+v", w)
	}
	if _, err := a.Consent.Answer(t.Context(), w.ID, consent.Answer{Allow: true, Kind: consent.KindLease, By: "anna"}); err != nil {
		t.Fatal(err)
	}
	sign := func(body string) (int, string) { return a.do(a.operator, "POST", "/v1/logins", body) }
	for _, body := range []string{`{}`, `{"role":"operator"}`} {
		if status, answer := sign(body); status != 403 || !strings.Contains(answer, `"hands_elsewhere"`) || !strings.Contains(answer, `"principal":"agent"`) || !strings.Contains(answer, `"until":`) || strings.Contains(answer, "keys that a notice") {
			t.Errorf("signing in %s: %d %s", body, status, answer)
		}
	}
	if status, answer := sign(`{"role":"viewer"}`); status != 200 {
		t.Errorf("signing in as a viewer: %d %s", status, answer)
	}
	if status, answer := a.do(a.operator, "POST", "/v1/stop", `{}`); status != 200 || !strings.Contains(answer, `"grants":1`) {
		t.Fatalf("%d %s", status, answer)
	}
	status, answer := a.do(a.operator, "POST", "/v1/resume", `{}`)
	if status != 403 || !strings.Contains(answer, `"hands_elsewhere"`) || !strings.Contains(answer, "Repeat it in ") {
		t.Errorf("resuming at once: %d %s", status, answer)
	}
	for end := time.Now().Add(site.Within); len(a.Consent.Hands()) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the hands are never over")
		}
	}
	if status, answer := a.do(a.operator, "POST", "/v1/resume", `{}`); status != 200 {
		t.Errorf("resuming: %d %s", status, answer)
	}
}
