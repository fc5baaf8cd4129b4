package e2e

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// board is a node's clipboard with an application that shows all of it: the worst
// neighbours a secret can have.
type board struct {
	mu      sync.Mutex
	text    string
	cleared func()
	writes  int
	how     string        // what the next write does: "", error, panic, wait
	waits   chan struct{} // a write of how "wait" has begun
	release chan struct{}
	keeps   []bool
}

func newBoard() *board {
	return &board{waits: make(chan struct{}, 8), release: make(chan struct{}, 8)}
}

func (b *board) Capabilities() []capabilities.CapabilityID {
	return []capabilities.CapabilityID{"tyrum.desktop.clipboard-write", "tyrum.fixture.echo", "tyrum.fixture.image", "tyrum.fixture.fail", "tyrum.fixture.slow"}
}

func (b *board) Readiness(context.Context) []capabilities.Readiness {
	var all []capabilities.Readiness
	for _, c := range b.Capabilities() {
		class := capabilities.ClassT2
		if c == "tyrum.desktop.clipboard-write" {
			class = capabilities.ClassSession
		}
		all = append(all, capabilities.Readiness{Capability: c, Isolation: class, Backend: "board"})
	}
	return all
}

func (b *board) Handle(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	b.mu.Lock()
	text := b.text
	b.mu.Unlock()
	switch inv.Capability {
	case "tyrum.fixture.echo":
		inv.Observe("data.read.clipboard", text)
		return capabilities.Output{Result: map[string]string{"text": "it shows " + text + " " + hex.EncodeToString([]byte(text)) + " " + base64.StdEncoding.EncodeToString([]byte(text)) + " " + url.QueryEscape(text)}, Evidence: text}, nil
	case "tyrum.fixture.image":
		return capabilities.Output{Result: map[string]string{"text": ""}, Blobs: []capabilities.Blob{{Field: "bytesBase64", MIME: "image/png", Bytes: []byte(text + "!")}}}, nil
	case "tyrum.fixture.fail":
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeExecutionFailed, "it shows %s", text).WithHint(text).WithDetails(map[string]string{text + "!": text})
	case "tyrum.fixture.slow":
		inv.Progress(capabilities.Progress{Message: text})
		b.waits <- struct{}{}
		<-b.release
		return capabilities.Output{Result: map[string]string{"text": text}}, nil
	}
	value := string(inv.Secret.Reveal())
	b.mu.Lock()
	how := b.how
	b.text, b.cleared = value, inv.Cleared
	b.writes++
	b.mu.Unlock()
	switch how {
	case "error":
		return capabilities.Output{}, errors.New("the clipboard refused " + value)
	case "panic":
		panic("no place for " + value)
	case "wait":
		b.waits <- struct{}{}
		<-b.release
	}
	return capabilities.Output{Result: map[string]string{"status": "ok", "text": value}, Effect: capabilities.EffectConfirmed, Evidence: value}, nil
}

// KeepClipboard remembers what it is told.
func (b *board) KeepClipboard(_ context.Context, keep bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keeps = append(b.keeps, keep)
	return nil
}

func (b *board) CloseLane(capabilities.LaneID) {}
func (b *board) Close() error                  { return nil }

func (b *board) next(how string) { b.mu.Lock(); b.how = how; b.mu.Unlock() }

// clear is the clipboard being emptied.
func (b *board) clear() {
	b.mu.Lock()
	cleared := b.cleared
	b.text, b.cleared = "", nil
	b.mu.Unlock()
	if cleared != nil {
		cleared()
	}
}

func (b *board) has() (text string, writes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text, b.writes
}

// vault is a site with secrets and all that a canary test looks into.
type vault struct {
	*site.Site
	*mine
	t     *testing.T
	admin string
	agent string
	ran   int
}

const secretRules = site.Rules + `
@id("no-lane") forbid (principal, action, resource) when { context.lane == "denied" };`

func newVault(t *testing.T, values ...string) *vault {
	return newVaultWith(t, site.Options{}, values...)
}

func newVaultWith(t *testing.T, o site.Options, values ...string) *vault {
	v := &vault{t: t, mine: &mine{t: t}}
	for _, value := range values {
		v.canaries = append(v.canaries, newCanary(value))
	}
	log := slog.New(slog.NewJSONHandler(v.mine, &slog.HandlerOptions{Level: slog.LevelDebug - 4, AddSource: true}))
	o.ApprovalWait, o.Rules, o.Log = time.Millisecond, secretRules, log
	v.Site = site.Start(t, o)
	v.Site.Drifts = true // its board says that it reads the clipboard, and the tool that shows it declares nothing
	v.admin, v.agent = v.MustToken("anna", principal.RoleAdmin), v.MustToken("agent", principal.RoleAgent)
	return v
}

func (v *vault) set(name, value string) {
	v.t.Helper()
	body, _ := json.Marshal(map[string]string{"value": value})
	if status, answer := v.ask(http.MethodPut, v.URL()+"/v1/secrets/"+name, v.admin, string(body)); status != 200 {
		v.t.Fatalf("%d %s", status, answer)
	}
}

func (v *vault) allow(name, agent, alias string) (ref string) {
	v.t.Helper()
	status, answer := v.ask(http.MethodPost, v.URL()+"/v1/secrets/"+name+"/references", v.admin, fmt.Sprintf(`{"principal":%q,"secret_alias":%q,"display_name":"Work mail"}`, agent, alias))
	var made struct {
		ID string `json:"secret_ref_id"`
	}
	if err := json.Unmarshal(answer, &made); err != nil || status != 200 || made.ID == "" {
		v.t.Fatalf("%d %s", status, answer)
	}
	return made.ID
}

func (v *vault) as(agent capabilities.PrincipalID, lane capabilities.LaneID, tool capabilities.ToolID, args string, request capabilities.RequestID) capabilities.Result {
	v.t.Helper()
	r := v.Dispatcher.Call(context.Background(), dispatch.Request{
		Caller: dispatch.Caller{Principal: agent, Role: "agent", Lane: lane}, Tool: tool, Args: []byte(args), RequestID: request, Surface: "test",
		Progress: func(p capabilities.Progress) { v.free("progress", []byte(p.Message)) },
	})
	v.result(string(tool)+" "+args, r)
	return r
}

// refused makes a delivery that must end with a code before anything is resolved.
func (v *vault) refused(code capabilities.Code, lane capabilities.LaneID, args string) {
	v.t.Helper()
	before := v.resolved()
	if r := v.as("agent", lane, copySecret, args, ""); r.Code != code {
		v.t.Errorf("%s in %s: %s %s, want %s", args, lane, r.Code, r.Message, code)
	}
	if v.resolved() != before {
		v.t.Errorf("%s: refused, and resolved", args)
	}
}

// resolved is how often a value left the vault, as the ledger says.
func (v *vault) resolved() int {
	v.t.Helper()
	packets, err := v.Ledger.Packets(context.Background(), ledger.Query{Kind: ledger.KindSecretResolved, Limit: 1000})
	if err != nil {
		v.t.Fatal(err)
	}
	return len(packets)
}

// answerAll answers every approval.
func (v *vault) answerAll(a consent.Answer) {
	v.t.Helper()
	a.By = "anna"
	if status, text := v.ask(http.MethodGet, v.URL()+"/v1/approvals", v.admin, ""); status != 200 || !strings.Contains(string(text), "Work mail") {
		v.t.Errorf("approvals %d %s", status, text)
	}
	for _, w := range v.Consent.Approvals() {
		if w.State != consent.StatePending {
			continue
		}
		if w.Longest != consent.KindCall {
			v.t.Errorf("a secret may be granted for a %s", w.Longest)
		}
		if _, err := v.Consent.Answer(context.Background(), w.ID, a); err != nil {
			v.t.Fatal(err)
		}
	}
}

// allowed makes a delivery that a person allows: it is pending, answered, and made
// again.
func (v *vault) allowed(args string) capabilities.Result {
	v.t.Helper()
	if r := v.as("agent", "main", copySecret, args, ""); r.Code != capabilities.CodeApprovalPending {
		v.t.Fatalf("%s: %s %s, want it to wait for a person", args, r.Code, r.Message)
	}
	v.answerAll(consent.Answer{Allow: true})
	return v.as("agent", "main", copySecret, args, "")
}

// mcp opens a session of the agent's and returns a way to make requests in it.
func (v *vault) mcp() func(method, params string) string {
	v.t.Helper()
	session, id := "", 0
	send := func(body string) string {
		v.t.Helper()
		req, err := http.NewRequestWithContext(v.t.Context(), http.MethodPost, v.URL()+"/mcp", strings.NewReader(body))
		if err != nil {
			v.t.Fatal(err)
		}
		for name, value := range map[string]string{"Authorization": "Bearer " + v.agent, "Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Session-Id": session} {
			if value != "" {
				req.Header.Set(name, value)
			}
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			v.t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode >= 300 {
			v.t.Fatalf("%d %s %v", resp.StatusCode, answer, err)
		}
		if s := resp.Header.Get("Mcp-Session-Id"); s != "" {
			session = s
		}
		v.free("MCP", answer)
		return string(answer)
	}
	call := func(method, params string) string {
		id++
		return send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params))
	}
	call("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return call
}

// held checks what the agent gets while a value lies in b.
func (v *vault) held(b *board) {
	v.t.Helper()
	if r := v.as("agent", "main", site.ToolEcho, `{"text":"x"}`, ""); r.Status != capabilities.StatusOK || !strings.Contains(string(r.Output), "[secret]") {
		v.t.Errorf("%+v", r)
	}
	if r := v.as("agent", "main", site.ToolImage, `{"text":"x","size":1}`, ""); r.Code != capabilities.CodeSecretHeld || len(r.Blobs) > 0 {
		v.t.Errorf("a picture: %+v", r)
	}
	if r := v.as("agent", "main", site.ToolFail, `{"text":"x","code":"x"}`, ""); r.Code != capabilities.CodeExecutionFailed || !strings.Contains(r.Message, "[secret]") {
		v.t.Errorf("%+v", r)
	}
	b.release <- struct{}{}
	if r := v.as("agent", "main", site.ToolSlow, `{"text":"x"}`, "slow-"+capabilities.RequestID(fmt.Sprint(v.ran))); r.Status != capabilities.StatusOK {
		v.t.Errorf("%+v", r)
	}
	v.ran++
	<-b.waits
}

// elsewhere delivers from where the gateway only reads, and fails to.
func (v *vault) elsewhere(b *board, value string) {
	v.t.Helper()
	dir := v.t.TempDir()
	file := filepath.Join(dir, "kept")
	if err := os.WriteFile(file, []byte(value+"\n"), 0o600); err != nil {
		v.t.Fatal(err)
	}
	v.t.Setenv("E2E_SECRET", value)
	kept := map[string]any{"version": 1, "secrets": map[string]any{
		"env": map[string]any{"env": "E2E_SECRET"}, "file": map[string]any{"file": file}, "exec": map[string]any{"exec": []string{"cat", file}},
		"unset": map[string]any{"env": "E2E_SECRET_UNSET"}, "missing": map[string]any{"file": file + "-not"},
		"fails": map[string]any{"exec": []string{"sh", "-c", `cat "$1"; cat "$1" >&2; exit 3`, "sh", file}},
	}}
	text, _ := json.Marshal(kept)
	if err := os.WriteFile(filepath.Join(v.Dir, "secret-sources.json"), text, 0o600); err != nil {
		v.t.Fatal(err)
	}
	for _, name := range []string{"env", "file", "exec", "unset", "missing", "fails"} {
		v.allow(name, "agent", name)
		r := v.allowed(`{"secret_alias":"` + name + `"}`)
		text, _ := b.has()
		if name == "env" || name == "file" || name == "exec" {
			if r.Status != capabilities.StatusOK || text != value {
				v.t.Errorf("%s: %+v", name, r)
			}
			b.clear()
		} else if r.Code != capabilities.CodeSecretUnavailable || text != "" {
			v.t.Errorf("%s: %+v", name, r)
		}
	}
	if _, list := v.ask(http.MethodGet, v.URL()+"/v1/secrets", v.admin, ""); !strings.Contains(string(list), `"source":"exec"`) {
		v.t.Errorf("%s", list)
	}
}

// everywhere looks into all that is left of it: logs, databases, journals, exports,
// and every answer that a caller or an admin can get.
func (v *vault) everywhere(nodes ...*site.Node) {
	v.t.Helper()
	for _, path := range []string{"/v1/ledger/export", "/v1/ledger/packets", "/v1/approvals", "/v1/grants", "/v1/calls", "/v1/secrets", "/v1/status", "/v1/nodes", "/v1/policy", "/metrics", "/v1/openapi.json", "/v1/tools?all=1"} {
		if status, _ := v.ask(http.MethodGet, v.URL()+path, v.admin, ""); status != 200 {
			v.t.Errorf("%s: %d", path, status)
		}
	}
	v.log()
	for _, n := range nodes {
		n.Stop()
		v.folder(n.Dir)
	}
	v.Restart() // what was in memory is on the disk now
	v.folder(v.Dir)
	v.log()
}
