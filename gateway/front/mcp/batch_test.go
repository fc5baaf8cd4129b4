package mcp_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/gateway/front/fronttest"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// S1-23: a batch that holds a call of a privileged tool is refused whole, whatever else it
// holds and however the call is written; each such call goes alone.
func TestNoBatchHoldsAPrivilegedCall(t *testing.T) {
	f := start(t)
	f.Dispatcher.Show(fronttest.ToolText, "tool.desktop.mouse")
	token := f.Token("alice", principal.RoleAgent)
	session := connect(t, f, token, "/mcp", "2025-03-26", nil)
	post := func(body string) (int, string) {
		t.Helper()
		req := rawRequest(t, f, token, "/mcp", body)
		req.Header.Set("Mcp-Session-Id", session.ID())
		req.Header.Set("Mcp-Protocol-Version", "2025-03-26")
		resp, err := f.Client(token).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(answer)
	}
	call := func(id int, name string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{}}}`, id, name)
	}
	plain, mouse := call(1, "test_simple_text"), call(2, "tool_desktop_mouse")
	for name, body := range map[string]string{
		"first":                  "[" + mouse + "," + plain + "]",
		"last":                   " \n[" + plain + "," + mouse + "]",
		"alone":                  "[" + mouse + "]",
		"by its ID":              "[" + plain + "," + call(2, "tool.desktop.mouse") + "]",
		"not listed":             "[" + plain + "," + call(2, "tool_desktop_keyboard") + "]",
		"members in capitals":    "[" + plain + "," + strings.ReplaceAll(strings.ReplaceAll(mouse, "params", "Params"), "name", "NAME") + "]",
		"a member that is twice": "[" + strings.Replace(mouse, `"name"`, `"name":"test_simple_text","name"`, 1) + "]",
		"cut short":              "[" + plain + "," + mouse,
		"escaped":                "[" + strings.Replace(mouse, "tool_desktop", `tool_de\u0073ktop`, 1) + "]",
	} {
		before, refused := len(f.Dispatcher.Seen()), len(f.Dispatcher.Refused())
		if status, answer := post(body); status != http.StatusBadRequest || !strings.Contains(answer, `"invalid_request"`) {
			t.Errorf("%s: %d %s", name, status, answer)
		}
		if n := len(f.Dispatcher.Seen()) - before; n != 0 {
			t.Errorf("%s: %d calls of it were made", name, n)
		}
		trace := f.Dispatcher.Refused()[refused:]
		if len(trace) != 1 || trace[0].Principal != "alice" || trace[0].Surface != "mcp" || trace[0].Args != nil {
			t.Errorf("%s: %+v is recorded", name, trace)
			continue
		}
		unread := name == "a member that is twice" || name == "cut short" // no JSON that we read: nobody knows what it calls
		if tool := string(trace[0].Tool); unread != (tool == "") || !unread && !strings.HasPrefix(tool, "tool.desktop.") {
			t.Errorf("%s: %q is recorded as refused", name, tool)
		}
	}
	for name, body := range map[string]string{"a batch of others": "[" + plain + "," + call(3, "test_simple_text") + "]", "the call alone": mouse} {
		before := len(f.Dispatcher.Seen())
		if status, answer := post(body); status != http.StatusOK || strings.Contains(answer, `"invalid_request"`) {
			t.Errorf("%s: %d %s", name, status, answer)
		}
		if len(f.Dispatcher.Seen()) == before {
			t.Errorf("%s: nothing was called", name)
		}
	}
	big := "[" + strings.Repeat(" ", 1<<20) + plain + "]"
	if status, _ := post(big); status < 400 {
		t.Errorf("a batch that is too large: %d", status)
	}
}
