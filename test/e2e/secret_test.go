package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

const copySecret capabilities.ToolID = "tool.secret.copy-to-node-clipboard"

func TestSecretReachesTheClipboardAndNothingElse(t *testing.T) {
	const mail, odd = "CANARY-hunter2-9f8e7d6c", "cänary \"quoted\"/%+ two\nlines"
	v := newVault(t, mail, odd)
	b := newBoard()

	// Without a reference the tool is not there; without a node it cannot be used.
	visible := func() string {
		_, rest := v.ask(http.MethodGet, v.URL()+"/v1/tools", v.agent, "")
		_, mcp := v.ask(http.MethodPost, v.URL()+"/mcp", v.agent, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
		return string(rest) + string(mcp)
	}
	v.set("mail", mail)
	n := v.AddNode("desk", b)
	if strings.Contains(visible(), string(copySecret)) {
		t.Error("the tool is listed to an agent without secrets")
	}
	v.refused(capabilities.CodeUnknownTool, "main", `{"secret_alias":"mail"}`)

	ref := v.allow("mail", "agent", "mail")
	other := v.allow("mail", "bob", "bobs-mail")
	if list := visible(); !strings.Contains(list, string(copySecret)) || !strings.Contains(list, "secret_alias mail (Work mail)") || strings.Contains(list, "bobs-mail") {
		t.Errorf("the agent does not see its secrets, or sees others'")
	}

	// Refusals, none of which asks a person or touches a value.
	for _, args := range []string{
		`{"secret_alias":"nothing"}`, `{"secret_alias":"bobs-mail"}`, `{"secret_ref_id":"` + other + `"}`, `{"secret_ref_id":"mail"}`,
		`{}`, `{"secret_alias":"mail","secret_ref_id":"` + ref + `"}`, `{"secret_alias":"mail","text":"x"}`,
	} {
		v.refused(capabilities.CodeInvalidArguments, "main", args)
	}
	v.refused(capabilities.CodeNodeNotFound, "main", `{"secret_alias":"mail","node_id":"nobody"}`)
	if r := v.as("agent", "denied", copySecret, `{"secret_alias":"mail"}`, ""); r.Status != capabilities.StatusDenied {
		t.Errorf("%+v", r)
	}
	if all := v.Consent.Approvals(); len(all) > 0 || v.resolved() > 0 {
		t.Errorf("%d approvals wait, %d values were resolved", len(all), v.resolved())
	}

	// A person says no, then yes.
	v.refused(capabilities.CodeApprovalPending, "asked", `{"secret_alias":"mail"}`)
	v.answerAll(consent.Answer{Reason: "no"})
	v.refused(capabilities.CodeConsentDenied, "asked", `{"secret_alias":"mail"}`)
	v.refused(capabilities.CodeConsentDenied, "asked", `{"secret_ref_id":"`+ref+`"}`) // the same by another word
	if _, writes := b.has(); writes > 0 || v.resolved() > 0 {
		t.Fatal("denied, and delivered")
	}
	r := v.allowed(`{"secret_ref_id":"` + ref + `"}`)
	if text, writes := b.has(); r.Status != capabilities.StatusOK || text != mail || writes != 1 || v.resolved() != 1 {
		t.Fatalf("%+v; %d writes", r, writes)
	}
	want := map[string]string{"status": "ok", "secret_ref_id": ref, "secret_alias": "mail", "display_name": "Work mail", "selected_node_id": string(n.ID), "selection_mode": "sole_eligible_node"}
	var got map[string]string
	if err := json.Unmarshal(r.Output, &got); err != nil || fmt.Sprint(got) != fmt.Sprint(want) || !r.Ack || len(r.Blobs) > 0 {
		t.Errorf("%v, want %v", got, want)
	}
	// One approval is one delivery.
	v.refused(capabilities.CodeApprovalPending, "main", `{"secret_ref_id":"`+ref+`"}`)

	// While it lies there the same agent gets no text of it, and no picture.
	v.held(b)
	b.clear()
	if r := v.as("agent", "main", site.ToolImage, `{"text":"x","size":1}`, ""); r.Status != capabilities.StatusOK {
		t.Errorf("cleared, and still no picture: %+v", r)
	}
	b.mu.Lock()
	if fmt.Sprint(b.keeps) != "[true false]" {
		t.Errorf("clipboard reads were refused %v", b.keeps)
	}
	b.mu.Unlock()

	v.set("odd", odd)
	v.allow("odd", "agent", "odd")
	// A new value under the old name, and an alias that moves: what was allowed is the
	// reference, not the word.
	if r := v.as("agent", "main", copySecret, `{"secret_alias":"odd"}`, ""); r.Code != capabilities.CodeApprovalPending {
		t.Fatalf("%+v", r)
	}
	v.answerAll(consent.Answer{Allow: true})
	for _, ref := range v.Secrets.Usable("agent", copySecret) {
		if ref.Alias == "odd" {
			if err := v.Secrets.Remove(context.Background(), "anna", ref.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	v.allow("mail", "agent", "odd")
	v.refused(capabilities.CodeApprovalPending, "main", `{"secret_alias":"odd"}`)

	// Two nodes: nothing breaks the tie, not even the lane's own node (S0-23).
	second := newBoard()
	n2 := v.AddNode("second", second)
	if _, err := v.Lanes.Attach(context.Background(), principal.Site, "main", n2.ID); err != nil {
		t.Fatal(err)
	}
	v.refused(capabilities.CodeAmbiguousNode, "main", `{"secret_alias":"mail"}`)
	if r := v.allowed(`{"secret_alias":"mail","node_id":"` + string(n2.ID) + `"}`); r.Status != capabilities.StatusOK || r.Routing.Mode != capabilities.SelectExplicit {
		t.Errorf("%+v", r)
	}
	if text, _ := second.has(); text != mail {
		t.Error("not delivered to the node that was named")
	}
	second.clear()

	// Gone: the agent's word for it is nothing again.
	if status, answer := v.ask(http.MethodDelete, v.URL()+"/v1/secrets/mail", v.admin, ""); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
	if r := v.as("agent", "main", copySecret, `{"secret_alias":"mail","node_id":"`+string(n2.ID)+`"}`, ""); r.Code != capabilities.CodeUnknownTool && r.Code != capabilities.CodeInvalidArguments {
		t.Errorf("%+v", r)
	}
	v.everywhere(n, n2)
}

// Failures of every kind, after the value has left the vault.
func TestSecretAndFailures(t *testing.T) {
	const odd = "cänary \"quoted\"/%+ two\nlines"
	v := newVault(t, odd)
	b := newBoard()
	n := v.AddNode("desk", b)
	v.set("odd", odd)
	v.allow("odd", "agent", "odd")
	for how, code := range map[string]capabilities.Code{"error": capabilities.CodeExecutionFailed, "panic": capabilities.CodeInternal} {
		b.next(how)
		if r := v.allowed(`{"secret_alias":"odd"}`); r.Code != code {
			t.Errorf("%s: %+v", how, r)
		}
		v.held(b)
		b.next("")
		b.clear()
	}
	v.everywhere(n)
}

// Values that the gateway only reads, and places that give none.
func TestSecretFromElsewhere(t *testing.T) {
	const late = "CANARY-from-elsewhere-31415"
	v := newVault(t, late)
	b := newBoard()
	n := v.AddNode("desk", b)
	v.elsewhere(b, late)
	v.everywhere(n)
}

// A delivery that is kept until somebody answers is made anew in full then, from a
// task that holds no more than the call did.
func TestSecretDeferred(t *testing.T) {
	const value = "CANARY-for-another-day-1618"
	later := strings.Replace(string(policy.DefaultSource()), `@id("secret-asks")`, `@id("secret-asks") @defer("8h")`, 1)
	v := newVaultWith(t, site.Options{Default: later}, value)
	b := newBoard()
	n := v.AddNode("desk", b)
	v.set("mail", value)
	v.allow("mail", "agent", "mail")
	const args = `{"secret_alias":"mail"}`
	r := v.as("agent", "main", copySecret, args, "")
	if details, err := json.Marshal(r.Details); err != nil || r.Code != capabilities.CodeApprovalPending || !strings.Contains(string(details), `"task"`) {
		t.Fatalf("%+v", r)
	}
	v.folder(v.Dir)
	if v.resolved() != 0 {
		t.Error("resolved while it waits")
	}
	v.answerAll(consent.Answer{Allow: true})
	// The identical call waits for the one that was kept.
	for end := time.Now().Add(time.Minute); ; {
		r = v.as("agent", "main", copySecret, args, "")
		if r.Status == capabilities.StatusOK {
			break
		}
		if r.Code != capabilities.CodeApprovalPending || time.Now().After(end) {
			t.Fatalf("%+v", r)
		}
	}
	if text, writes := b.has(); text != value || writes != 1 || v.resolved() != 1 {
		t.Errorf("%d writes, %d resolved", writes, v.resolved())
	}
	b.clear()
	v.everywhere(n)
}

// The same over MCP, whose answers are searched whole.
func TestSecretOverMCP(t *testing.T) {
	const value = "CANARY-over-mcp-5772"
	v := newVault(t, value)
	b := newBoard()
	n := v.AddNode("desk", b)
	v.set("mail", value)
	v.allow("mail", "agent", "mail")
	call := v.mcp()
	if list := call("tools/list", `{}`); !strings.Contains(list, "tool_secret_copy_to_node_clipboard") || !strings.Contains(list, "secret_alias mail (Work mail)") {
		t.Errorf("%s", list)
	}
	const copying = `{"name":"tool_secret_copy_to_node_clipboard","arguments":{"secret_alias":"mail"}}`
	if got := call("tools/call", copying); !strings.Contains(got, string(capabilities.CodeApprovalPending)) {
		t.Fatalf("%s", got)
	}
	v.answerAll(consent.Answer{Allow: true})
	if got := call("tools/call", copying); !strings.Contains(got, "sole_eligible_node") {
		t.Fatalf("%s", got)
	}
	if text, _ := b.has(); text != value {
		t.Error("not delivered")
	}
	if got := call("tools/call", `{"name":"tool_fixture_echo","arguments":{"text":"x"}}`); !strings.Contains(got, "[secret]") {
		t.Errorf("%s", got)
	}
	if got := call("tools/call", `{"name":"tool_fixture_image","arguments":{"text":"x","size":1}}`); !strings.Contains(got, string(capabilities.CodeSecretHeld)) {
		t.Errorf("%s", got)
	}
	call("tools/call", `{"name":"tool_fixture_fail","arguments":{"text":"x","code":"x"}}`)
	b.clear()
	v.everywhere(n)
}

// A delivery is cut short in each way: the node goes, the gateway goes, the same request is made
// again. It is delivered once, and nowhere else.
func TestSecretAndCrashes(t *testing.T) {
	const value = "CANARY-through-a-crash-2718"
	v := newVault(t, value)
	b := newBoard()
	n := v.AddNode("desk", b)
	v.set("mail", value)
	v.allow("mail", "agent", "mail")
	const args = `{"secret_alias":"mail"}`
	begin := func(request capabilities.RequestID) chan capabilities.Result {
		t.Helper()
		if r := v.as("agent", "main", copySecret, args, ""); r.Code != capabilities.CodeApprovalPending {
			t.Fatalf("%+v", r)
		}
		v.answerAll(consent.Answer{Allow: true})
		b.next("wait")
		done := make(chan capabilities.Result, 1)
		go func() {
			done <- v.Dispatcher.Call(context.Background(), dispatch.Request{
				Caller: dispatch.Caller{Principal: "agent", Role: "agent", Lane: "main"}, Tool: copySecret, Args: []byte(args), RequestID: request, Surface: "test",
			})
		}()
		select {
		case <-b.waits:
		case r := <-done:
			t.Fatalf("not begun: %+v", r)
		}
		return done
	}

	// The gateway goes while the node writes; the retry gets the node's word.
	done := begin("crash-1")
	v.Restart()
	v.result("cut off", <-done)
	b.release <- struct{}{}
	b.next("")
	n.AwaitReady()
	r := v.as("agent", "main", copySecret, args, "crash-1")
	if _, writes := b.has(); writes != 1 || r.Status != capabilities.StatusOK && r.Code != capabilities.CodeUnknownOutcome {
		t.Errorf("%d writes; %+v", writes, r)
	}
	b.clear()

	// The node goes while it writes.
	done = begin("crash-2")
	stopped := make(chan struct{})
	go func() { n.Stop(); close(stopped) }()
	n.AwaitGone()
	b.release <- struct{}{}
	<-stopped
	b.next("")
	n.Start()
	v.result("node gone", <-done)
	b.clear()
	v.everywhere(n)
}

// Others get what they are due: the same texts and pictures as if there were no
// secret, so that what is taken out for one tells nobody whether a guess is right.
func TestSecretHoldsNobodyElseUp(t *testing.T) {
	const value = "CANARY-not-for-others"
	v := newVault(t)
	b := newBoard()
	v.AddNode("desk", b)
	v.set("mail", value)
	v.allow("mail", "agent", "mail")
	if r := v.allowed(`{"secret_alias":"mail"}`); r.Status != capabilities.StatusOK {
		t.Fatalf("%+v", r)
	}
	if r := v.as("bob", "bob", site.ToolEcho, `{"text":"x"}`, ""); !strings.Contains(string(r.Output), value) {
		t.Errorf("%+v", r)
	}
	if r := v.as("bob", "bob", site.ToolImage, `{"text":"x","size":1}`, ""); r.Status != capabilities.StatusOK {
		t.Errorf("%+v", r)
	}
	b.clear()
}
