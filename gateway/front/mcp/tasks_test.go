package mcp_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/front/fronttest"
	"github.com/handrail-dev/handrail/gateway/front/mcp"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/registry"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/gateway/task"
)

// keeper is the real tasks over a store.
func keeper(t *testing.T, f *fronttest.Front) *task.Tasks {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{
		Path: filepath.Join(t.TempDir(), "store.db"), ReserveBytes: -1,
		Migrations: slices.Concat(ledger.Migrations, outcome.Migrations, dispatch.Migrations, task.Migrations),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	l, err := ledger.Open(t.Context(), ledger.Options{Store: s, Chain: "gateway", Key: ed25519.NewKeyFromSeed(make([]byte, 32))})
	if err != nil {
		t.Fatal(err)
	}
	o, err := outcome.Open(outcome.Options{Store: s, Key: make([]byte, outcome.KeySize)})
	if err != nil {
		t.Fatal(err)
	}
	return task.New(task.Options{
		Store: s, Ledger: l, Outcomes: o, Registry: registry.New(f.Dispatcher.Catalog, slog.New(slog.DiscardHandler)),
		Nodes: func() <-chan struct{} { return nil },
	})
}

// tasking is a surface whose calls become tasks after so long.
func tasking(t *testing.T, after time.Duration) (*fronttest.Front, *task.Tasks) {
	t.Helper()
	f := fronttest.Prepare(t)
	tasks := keeper(t, f)
	s, err := mcp.New(mcp.Options{
		Dispatcher: f.Dispatcher, Tools: f.Dispatcher.Catalog, Lanes: f.Lanes, Tokens: f.Tokens, Tasks: tasks, TaskAfter: after, Log: f.Log,
	})
	if err != nil {
		t.Fatal(err)
	}
	return f.Start(s), tasks
}

const takesTasks = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// answer is what the surface says to a request.
type answer struct {
	Result struct {
		ResultType string          `json:"resultType"`
		ID         string          `json:"taskId"`
		Status     string          `json:"status"`
		TTL        int64           `json:"ttlMs"`
		Poll       int64           `json:"pollIntervalMs"`
		Content    json.RawMessage `json:"content"`
		Result     *struct {
			Content json.RawMessage `json:"content"`
			IsError bool            `json:"isError"`
		} `json:"result"`
	} `json:"result"`
	Error *struct {
		Code int             `json:"code"`
		Data json.RawMessage `json:"data"`
	} `json:"error"`
}

// says sends a request of the newest revision, with those capabilities of the client.
func says(t *testing.T, f *fronttest.Front, token, able, method, name, params string) answer {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":{%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":%s}}}`, method, params, able)
	req := rawRequest(t, f, token, "/mcp", body)
	req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	req.Header.Set("Mcp-Method", method)
	req.Header.Set("Mcp-Name", name)
	resp, err := f.Client(token).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if m := dataLine.FindSubmatch(data); m != nil {
		data = m[1]
	}
	var a answer
	if err := json.Unmarshal(data, &a); err != nil {
		t.Fatalf("%s gave %d %s", method, resp.StatusCode, data)
	}
	return a
}

func asksAfter(t *testing.T, f *fronttest.Front, token, method, id string) answer {
	t.Helper()
	params := fmt.Sprintf(`"taskId":%q`, id)
	if method == "tasks/update" {
		params += `,"inputResponses":{}`
	}
	return says(t, f, token, takesTasks, method, id, params)
}

// settled asks after a task until it is over.
func settled(t *testing.T, f *fronttest.Front, token, id string) answer {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if a := asksAfter(t, f, token, "tasks/get", id); a.Error != nil || a.Result.Status != "working" {
			return a
		}
	}
	t.Fatal("the task does not end")
	return answer{}
}

const wait = `"name":"test_wait","arguments":{}`

// A call that runs for long becomes a task, and its client gets the result by the handle, as often
// as it asks. Nobody else does.
func TestALongCallBecomesATask(t *testing.T) {
	f, tasks := tasking(t, 20*time.Millisecond)
	go1 := make(chan struct{})
	f.Dispatcher.Do(fronttest.ToolWait, func(ctx context.Context, r dispatch.Request) capabilities.Result {
		r.Began("c-long")
		select {
		case <-go1:
			return fronttest.OK(`{"text":"` + strings.Repeat("long ", 100) + `"}`)
		case <-ctx.Done():
			return fronttest.Fail(capabilities.CodeCancelled, nil)
		}
	})
	token, other := f.Token("alice", principal.RoleAgent), f.Token("mallory", principal.RoleAgent)
	made := says(t, f, token, takesTasks, "tools/call", "test_wait", wait)
	id := made.Result.ID
	if made.Result.ResultType != "task" || made.Result.Status != "working" || id == "" || made.Result.TTL <= 0 || made.Result.Poll <= 0 {
		t.Fatalf("%+v", made)
	}
	if one, err := tasks.Task(t.Context(), "alice", id); err != nil || one.State != task.Running || one.Call != "c-long" {
		t.Fatalf("what is kept: %+v (%v)", one, err)
	}
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		for who, a := range map[string]answer{
			"another principal": asksAfter(t, f, other, method, id), "another ID": asksAfter(t, f, token, method, "t-0"),
		} {
			if a.Error == nil || a.Error.Code != -32602 {
				t.Errorf("%s by %s: %+v", method, who, a)
			}
		}
		if a := says(t, f, token, `{}`, method, id, `"taskId":"`+id+`"`); a.Error == nil || a.Error.Code != -32021 ||
			!strings.Contains(string(a.Error.Data), `"io.modelcontextprotocol/tasks"`) {
			t.Errorf("%s by a client that takes no tasks: %+v", method, a)
		}
	}
	if a := asksAfter(t, f, token, "tasks/update", id); a.Error != nil || a.Result.ResultType != "complete" {
		t.Errorf("update: %+v", a)
	}
	close(go1)
	for range 2 {
		a := settled(t, f, token, id)
		if a.Result.Status != "completed" || a.Result.ResultType != "complete" || a.Result.Result == nil || a.Result.Result.IsError ||
			!strings.Contains(string(a.Result.Result.Content), "long long") {
			t.Fatalf("%+v", a)
		}
	}
	if a := asksAfter(t, f, token, "tasks/cancel", id); a.Error != nil || a.Result.ResultType != "complete" {
		t.Errorf("cancelling what is over: %+v", a)
	}
	if a := settled(t, f, token, id); a.Result.Status != "completed" {
		t.Errorf("after that: %+v", a)
	}
}

// The call of a task ends when its client cancels the task, and with the client's token; a client
// that only goes away ends nothing.
func TestATaskIsCancelled(t *testing.T) {
	f, _ := tasking(t, 20*time.Millisecond)
	ended := make(chan error, 1)
	f.Dispatcher.Do(fronttest.ToolWait, func(ctx context.Context, r dispatch.Request) capabilities.Result {
		r.Began("c-1")
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return fronttest.Fail(capabilities.CodeCancelled, nil)
	})
	token := f.Token("alice", principal.RoleAgent)
	id := says(t, f, token, takesTasks, "tools/call", "test_wait", wait).Result.ID
	f.Client(token).CloseIdleConnections()
	if a := asksAfter(t, f, token, "tasks/get", id); a.Result.Status != "working" {
		t.Fatalf("%+v", a)
	}
	if a := asksAfter(t, f, token, "tasks/cancel", id); a.Error != nil || a.Result.ResultType != "complete" || a.Result.ID != "" {
		t.Fatalf("%+v", a)
	}
	if err := <-ended; capabilities.CodeOf(err) != capabilities.CodeCancelled {
		t.Errorf("it ended with %v", err)
	}
	if a := settled(t, f, token, id); a.Result.Status != "cancelled" || a.Result.Result != nil {
		t.Errorf("%+v", a)
	}

	id = says(t, f, token, takesTasks, "tools/call", "test_wait", wait).Result.ID
	for _, one := range f.Tokens.List() {
		if one.Principal == "alice" {
			if _, err := f.Tokens.Revoke(t.Context(), principal.Site, one.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := <-ended; capabilities.CodeOf(err) == "" {
		t.Errorf("the token was revoked, and it ended with %v", err)
	}
	_ = id
}

// A server leaves tasks to clients that declare them, in a request of the revision that has them:
// all others get results, and none becomes a task before its call is committed.
func TestTasksAreForWhoDeclaresThem(t *testing.T) {
	f, tasks := tasking(t, time.Millisecond)
	f.Dispatcher.Do(fronttest.ToolWait, func(_ context.Context, r dispatch.Request) capabilities.Result {
		if r.Began != nil || r.Keep != 0 {
			return fronttest.Fail(capabilities.CodeInternal, nil)
		}
		time.Sleep(20 * time.Millisecond)
		return fronttest.OK(`{"text":"done"}`)
	})
	f.Dispatcher.Do(fronttest.ToolText, func(_ context.Context, r dispatch.Request) capabilities.Result {
		time.Sleep(20 * time.Millisecond) // longer than TaskAfter, and never committed
		if r.Keep == 0 {
			return fronttest.Fail(capabilities.CodeInternal, nil)
		}
		return fronttest.OK(`{"text":"done"}`)
	})
	token := f.Token("alice", principal.RoleAgent)
	for able, name := range map[string]string{`{}`: "test_wait", takesTasks: "test_simple_text"} {
		a := says(t, f, token, able, "tools/call", name, `"name":"`+name+`","arguments":{}`)
		if a.Result.ResultType != "complete" || !strings.Contains(string(a.Result.Content), "done") {
			t.Errorf("%s with %s: %+v", name, able, a)
		}
	}
	if res := call(t, connect(t, f, token, "/mcp", "2025-11-25", nil), "test_wait", map[string]any{}); !strings.Contains(text(res), "done") {
		t.Errorf("in a session: %s", text(res))
	}
	if all, err := tasks.Tasks(t.Context(), ""); err != nil || len(all) != 0 {
		t.Errorf("%+v (%v)", all, err)
	}
	for _, method := range []string{"tasks/list", "tasks/result"} { // the extension has them no more
		if a := says(t, f, token, takesTasks, method, "t-1", `"taskId":"t-1"`); a.Error == nil || a.Error.Code != -32601 {
			t.Errorf("%s: %+v", method, a)
		}
	}
}
