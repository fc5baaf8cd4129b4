package attack

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/task"
	"github.com/handrail-dev/handrail/test/site"
)

// asksRules ask about each call of the fixture, and keep none.
const asksRules = `@id("fixture") permit (principal, action in Action::"family:fixture", resource) when { context.consent };`

// handled is what MCP says of a task.
type handled struct {
	Result struct {
		Type    string `json:"resultType"`
		ID      string `json:"taskId"`
		Status  string `json:"status"`
		Message string `json:"statusMessage"`
		Result  *struct {
			IsError    bool            `json:"isError"`
			Structured json.RawMessage `json:"structuredContent"`
			Content    json.RawMessage `json:"content"`
		} `json:"result"`
	} `json:"result"`
	Error *struct {
		Code int `json:"code"`
	} `json:"error"`
}

// mcp sends a request of a client that takes tasks.
func (a *arena) mcp(token, method, name, params string) handled {
	a.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},"io.modelcontextprotocol/clientCapabilities":`+
		`{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`, method, params)
	req, err := http.NewRequestWithContext(a.t.Context(), http.MethodPost, a.URL()+"/mcp", strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	for k, v := range map[string]string{
		"Authorization": "Bearer " + token, "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name,
	} {
		req.Header.Set(k, v)
	}
	resp, err := a.client.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	var out handled
	if err := json.Unmarshal(data, &out); err != nil {
		a.t.Fatalf("%s gave %d %s", method, resp.StatusCode, data)
	}
	return out
}

func (a *arena) presses(token, text string) handled {
	a.t.Helper()
	return a.mcp(token, "tools/call", "tool_fixture_press", `"name":"tool_fixture_press","arguments":{"text":"`+text+`"}`)
}

func (a *arena) about(token, method, id string) handled {
	a.t.Helper()
	return a.mcp(token, method, id, `"taskId":"`+id+`"`)
}

// over asks after a task until it is over.
func (a *arena) over(token, id string) handled {
	a.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if h := a.about(token, "tasks/get", id); h.Error != nil || h.Result.Status != "working" {
			return h
		}
	}
	a.t.Fatal("slow: the task does not end")
	return handled{}
}

// A call that waits for a person is a task at once, where its client takes tasks. It runs once,
// when they allow it, its own client gets the result, and nobody else hears of it.
func TestATaskWaitsForAPerson(t *testing.T) {
	t.Parallel()
	a := enter(t, site.Options{Rules: asksRules, ApprovalWait: time.Hour})
	made := a.presses(a.agent, "held")
	id := made.Result.ID
	if made.Result.Type != "task" || made.Result.Status != "working" || id == "" {
		t.Fatalf("%+v", made)
	}
	if again := a.presses(a.agent, "held"); again.Result.ID != id || len(a.Consent.Approvals()) != 1 {
		t.Errorf("the identical call asks anew: %+v", again)
	}
	person, other := a.MustToken("agent", principal.RoleOperator), a.MustToken("mallory", principal.RoleAgent)
	stranger := func(when string) {
		t.Helper()
		for who, token := range map[string]string{"another": other, "a person of its name": person, "who answers": a.operator} {
			for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
				if h := a.about(token, method, id); h.Error == nil || h.Error.Code != -32602 {
					t.Errorf("%s, %s of %s: %+v", when, method, who, h)
				}
			}
		}
	}
	stranger("while it waits")
	if a.h.Runs("held") != 0 {
		t.Fatal("it ran unasked")
	}
	heard := make(chan time.Time, 1)
	go func() {
		a.over(a.agent, id)
		heard <- time.Now()
	}()
	a.allow()
	said := time.Now()
	t.Logf("the client has the result %s after the answer", (<-heard).Sub(said))
	for range 2 {
		if h := a.over(a.agent, id); h.Result.Status != "completed" || h.Result.Result == nil || h.Result.Result.IsError ||
			!strings.Contains(string(h.Result.Result.Content), "held") {
			t.Fatalf("%+v", h)
		}
	}
	stranger("after it ended")
	if a.h.Runs("held") != 1 {
		t.Errorf("ran %d times", a.h.Runs("held"))
	}
	if next := a.presses(a.agent, "held"); next.Result.Type != "task" || next.Result.ID == id || a.h.Runs("held") != 1 {
		t.Errorf("the result was told, so this is a new call: %+v", next)
	}
}

// A no is the result of a task, and a task that its client cancels asks nobody any more.
func TestATaskIsRefusedOrCancelled(t *testing.T) {
	t.Parallel()
	a := enter(t, site.Options{Rules: asksRules, ApprovalWait: time.Hour})
	id := a.presses(a.agent, "no").Result.ID
	if _, err := a.Consent.Answer(context.Background(), a.waiting().ID, consent.Answer{By: "anna"}); err != nil {
		t.Fatal(err)
	}
	if h := a.over(a.agent, id); h.Result.Status != "completed" || h.Result.Result == nil || !h.Result.Result.IsError ||
		!strings.Contains(string(h.Result.Result.Content), string(capabilities.CodeConsentDenied)) {
		t.Errorf("denied: %+v", h)
	}
	id = a.presses(a.agent, "cancelled").Result.ID
	question := a.waiting().ID
	if h := a.about(a.agent, "tasks/cancel", id); h.Error != nil || h.Result.Type != "complete" || h.Result.ID != "" {
		t.Fatalf("%+v", h)
	}
	if h := a.over(a.agent, id); h.Result.Status != "cancelled" || h.Result.Result != nil {
		t.Errorf("cancelled: %+v", h)
	}
	if q, err := a.Consent.Approval(question); err != nil || q.State != consent.StateClosed {
		t.Errorf("its question: %+v (%v)", q, err)
	}
	if _, err := a.Consent.Answer(context.Background(), question, consent.Answer{Allow: true, By: "anna"}); err == nil {
		t.Error("a yes comes after the end of the question")
	}
	if a.h.Runs("cancelled")+a.h.Runs("no") != 0 {
		t.Error("it ran")
	}
}

// A task outlives the gateway: its handle is good afterwards, the call is asked about anew, and
// runs once.
func TestATaskOutlivesTheGateway(t *testing.T) {
	t.Parallel()
	a := enter(t, site.Options{Rules: asksRules, ApprovalWait: time.Hour})
	id := a.presses(a.agent, "kept").Result.ID
	old := a.waiting().ID
	a.Restart()
	a.node.AwaitReady()
	if h := a.about(a.agent, "tasks/get", id); h.Result.Status != "working" {
		t.Fatalf("%+v", h)
	}
	a.Await("the question", func() bool { return len(a.Consent.Approvals()) == 1 })
	if w := a.waiting(); w.ID == old || w.Task != id {
		t.Fatalf("%+v", w)
	}
	a.allow()
	if h := a.over(a.agent, id); h.Result.Status != "completed" || h.Result.Result == nil || h.Result.Result.IsError || a.h.Runs("kept") != 1 {
		t.Errorf("%+v, ran %d times", h, a.h.Runs("kept"))
	}
	a.task(task.Told)
}

// Where nobody can be asked a client gains nothing by taking tasks, and one with as many tasks as
// may be waits as others do.
func TestTasksAreBounded(t *testing.T) {
	t.Parallel()
	a := enter(t, site.Options{Rules: asksRules})
	if h := a.presses(a.agent, "x"); h.Result.Type != "complete" || h.Result.ID != "" {
		t.Errorf("nobody is asked here: %+v", h)
	}
	if all, err := a.Tasks.Tasks(t.Context(), ""); err != nil || len(all) != 0 || len(a.Consent.Approvals()) != 0 {
		t.Errorf("%+v (%v)", all, err)
	}
}
