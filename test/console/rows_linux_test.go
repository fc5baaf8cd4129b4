package console

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/fs"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/rules"
	"github.com/handrail-dev/handrail/gateway/secret"
	"github.com/handrail-dev/handrail/test/site"
)

// waits runs no command: what it starts ends when it is killed.
type waits struct{}

func (waits) Class(net bool) (capabilities.IsolationClass, error) {
	if net {
		return capabilities.ClassT2, nil
	}
	return capabilities.ClassT1, nil
}

func (waits) Runs(fs.Command) (string, string) { return "", "" }

func (waits) Start(ctx context.Context, _ fs.Command) (fs.Process, error) {
	out, end := io.Pipe()
	in, _ := os.Open(os.DevNull)
	context.AfterFunc(ctx, func() { _ = end.Close() })
	return &waiting{in, out, end}, nil
}

type waiting struct {
	in  *os.File
	out *io.PipeReader
	end *io.PipeWriter
}

func (w *waiting) Stdin() io.WriteCloser { return w.in }
func (w *waiting) Stdout() io.Reader     { return w.out }
func (w *waiting) Wait() (int, error)    { _, err := io.Copy(io.Discard, w.out); return -1, err }
func (w *waiting) Kill()                 { _ = w.end.Close() }

// rows is a site with the shipped tools of files, a clipboard that takes secrets, and a folder.
type rows struct {
	*desk
	folder string
	clip   *clips
}

func startRows(t *testing.T) *rows {
	t.Helper()
	s := site.Start(t, site.Options{ApprovalWait: 10 * time.Minute, Door: atThePlace(t), Rules: `@id("files") permit (principal, action in [Action::"tool.fs.read", Action::"tool.fs.write", Action::"tool.fs.bash"], resource);
@id("patches") permit (principal, action == Action::"tool.fs.apply-patch", resource) when { context.consent };
@id("secrets") permit (principal, action == Action::"tool.secret.copy-to-node-clipboard", resource) when { context.consent };`})
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	r := &rows{desk: &desk{Site: s, t: t, ctx: ctx}, folder: t.TempDir(), clip: &clips{}}
	files, err := fs.New(fs.Options{Workspace: r.folder, Hosts: []string{"example.com"}, Start: waits{}})
	must(t, err)
	r.node = s.AddNode("study", files, r.clip)
	must(t, r.Secrets.Set(t.Context(), "root", "mail", capabilities.NewSecret([]byte("value-nobody-sees"))))
	_, err = r.Secrets.Allow(t.Context(), "root", secret.Spec{Name: "mail", Principal: "robot", Alias: "work", Display: "Work mail", Tools: []capabilities.ToolID{"tool.secret.copy-to-node-clipboard"}})
	must(t, err)
	must(t, r.Lanes.Claim(t.Context(), "robot", "robot"))
	return r
}

// forbids puts one more rule in force.
func (r *rows) forbids(rule string) {
	r.t.Helper()
	r.MustToken("root", principal.RoleAdmin) // who can activate another
	now := r.Rulebook.Engine().SnapshotID()
	next, err := r.Rulebook.Stage(r.t.Context(), rules.Edit{By: "root", Files: []policy.Source{{Name: "more.cedar", Data: []byte(rule)}}})
	must(r.t, err)
	_, err = r.Rulebook.Activate(r.t.Context(), rules.Request{By: "root", Role: "admin", Lane: "root", From: now, To: next.SnapshotID(), Reason: "the row"})
	must(r.t, err)
}

func (r *rows) tool(name string) { r.t.Helper(); r.goTo("/console/tools/" + name) }

// reads returns a file of the workspace; "" if there is none.
func (r *rows) reads(name string) string {
	b, _ := os.ReadFile(filepath.Join(r.folder, name))
	return string(b)
}

// rests asks the REST surface as somebody.
func (r *rows) rests(token, method, path, body string) (int, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.URL()+path, strings.NewReader(body))
	must(r.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(req)
	must(r.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(r.t, err)
	return answer.StatusCode, string(text)
}

func (r *rows) picks(name, text string) {
	r.t.Helper()
	file := filepath.Join(r.t.TempDir(), name)
	must(r.t, os.WriteFile(file, []byte(text), 0o600))
	var doc struct{ Root struct{ NodeID int } }
	r.ask("DOM.getDocument", object{}, &doc)
	var input struct{ NodeID int }
	r.ask("DOM.querySelector", object{"nodeId": doc.Root.NodeID, "selector": "#file"}, &input)
	r.ask("DOM.setFileInputFiles", object{"nodeId": input.NodeID, "files": []string{file}}, nil)
	r.await(fmt.Sprintf(`document.getElementById("text").value === %q`, text))
}

// Row 1 of the table in S1 3.1: a file picker and a dropzone stand where a file upload is declared
// and writing to the workspace is granted (S1-26); nowhere else, and a request that was made up is
// refused (S1-33).
func TestEveryRowFilePicker(t *testing.T) {
	r := startRows(t)
	r.enter(principal.RoleAdmin)
	r.tool("tool.fs.write")
	r.says("Put a text file into the workspace", "ui.input.file_upload")
	r.picks("plan.md", "# The plan\n")
	r.shots("tool-picker")
	r.click("Write file")
	r.await(`location.pathname.startsWith("/console/calls/") && document.body.innerText.includes("Written.")`)
	if got := r.reads("plan.md"); got != "# The plan\n" {
		t.Errorf("the file has %q", got)
	}
	r.tool("tool.fs.write")
	must(t, r.run(`(() => { const d = new DataTransfer(); d.items.add(new File(["dropped"], "drop.txt")); document.querySelector("[data-drop]").dispatchEvent(new DragEvent("drop", { dataTransfer: d, bubbles: true, cancelable: true })); })()`, nil))
	r.await(`document.getElementById("text").value === "dropped" && document.getElementById("name").value === "drop.txt"`)
	must(t, r.run(`(() => { const d = new DataTransfer(); d.items.add(new File([new Uint8Array([255, 254, 0])], "x.bin")); document.querySelector("[data-drop]").dispatchEvent(new DragEvent("drop", { dataTransfer: d, bubbles: true, cancelable: true })); })()`, nil))
	r.await(`document.querySelector("[data-problem]").innerText.includes("no text in UTF-8")`)
	r.tool("tool.fs.read") // the control that it does not declare
	if r.value(`document.querySelectorAll("[data-upload], input[type=file]").length`) != "0" {
		t.Error("a tool that declares no upload has a picker")
	}
	r.quiet()

	r.forbids(`@id("no-uploads") forbid (principal, action == Action::"key:ui.input.file_upload", resource);`)
	r.tool("tool.fs.write")
	r.says("Restricted", "It works without ui.input.file_upload")
	r.shots("tool-restricted")
	if r.value(`document.querySelectorAll("[data-upload], input[type=file]").length`) != "0" {
		t.Error("a picker is shown without its grant")
	}
	if got := r.fetch("/console/tools/tool.fs.write", "name=forged.txt&text=x"); got != "403" || r.reads("forged.txt") != "" {
		t.Errorf("a request that was made up: %s, %q", got, r.reads("forged.txt"))
	}
	if done := r.result(r.call("robot", "tool.fs.write", `{"path":"plain.txt","content":"x"}`)); done.Status != capabilities.StatusOK {
		t.Errorf("what needs no picker: %+v", done)
	}
}

// Row 2: a tool that reaches out has a badge with where to (S1-27).
func TestEveryRowDestinations(t *testing.T) {
	r := startRows(t)
	r.enter(principal.RoleAdmin)
	r.tool("tool.fs.bash")
	r.says("Connected", "reaches out", "example.com")
	r.shots("tool-connected")
	r.forbids(`@id("no-net") forbid (principal, action in Action::"keys:network", resource);`)
	r.tool("tool.fs.bash")
	if strings.Contains(r.value(`document.getElementById("surface").innerText`), "reaches out") {
		t.Error("what reaches nothing has a badge")
	}
	token := r.MustToken("bob", principal.RoleAgent)
	if code, said := r.rests(token, "POST", "/v1/calls", `{"tool":"tool.fs.bash","args":{"command":"true"},"shown":["network.egress.https"]}`); !strings.Contains(said, "denied_by_policy") {
		t.Errorf("a control without its grant: %d %s", code, said)
	}
}

// Row 3: a secret has a banner and asks for consent in so many words (S1-28).
func TestEveryRowSecret(t *testing.T) {
	const args = `{"secret_alias":"work"}`
	r := startRows(t)
	r.enter(principal.RoleOperator)
	wants := r.call("robot", "tool.secret.copy-to-node-clipboard", args)
	r.waiting(1)
	r.goTo("/console/approvals")
	r.says("a secret is put into the clipboard", "Elevated", "I have read what it would do")
	id := r.Consent.Approvals()[0].ID
	if got := r.fetch("/console/approvals/"+id, "answer=call"); got == "303" || got == "200" || r.clip.got.Load() != 0 {
		t.Errorf("an answer that acknowledges nothing: %s, %d delivered", got, r.clip.got.Load())
	}
	must(t, r.run(acknowledged+`document.querySelector("button[value=call]").click()`, nil))
	if done := r.result(wants); done.Status != capabilities.StatusOK || r.clip.got.Load() != 1 {
		t.Errorf("%+v", done)
	}
	r.forbids(`@id("no-secrets") forbid (principal, action == Action::"key:privileged.secret.read", resource);`)
	if done := r.result(r.call("robot", "tool.secret.copy-to-node-clipboard", args)); done.Status != capabilities.StatusDenied || len(r.Consent.Approvals()) != 0 {
		t.Errorf("without the key: %+v, %d questions", done, len(r.Consent.Approvals()))
	}
	if got := r.fetch("/console/approvals/made-up", "answer=call&acknowledged=1"); got < "400" || r.clip.got.Load() != 1 {
		t.Errorf("an answer to no question: %s", got)
	}
}

// Row 4: a call that may destroy something is confirmed first (S1-29).
func TestEveryRowDestructive(t *testing.T) {
	r := startRows(t)
	must(t, os.WriteFile(filepath.Join(r.folder, "old.txt"), []byte("old\n"), 0o600))
	r.enter(principal.RoleOperator)
	wants := r.call("robot", "tool.fs.apply-patch", `{"patch":"*** Begin Patch\n*** Delete File: old.txt\n*** End Patch"}`)
	r.waiting(1)
	r.goTo("/console/approvals")
	r.says("It may destroy something", "change or delete files for good")
	r.shots("destructive")
	id := r.Consent.Approvals()[0].ID
	if words := strings.Join(r.terminal(id), " "); !strings.Contains(words, "may destroy something") { // as a terminal has it
		t.Errorf("a terminal says %s", words)
	}
	if got := r.fetch("/console/approvals/"+id, "answer=call"); got == "303" || got == "200" || r.reads("old.txt") == "" {
		t.Errorf("an answer that confirms nothing: %s", got)
	}
	must(t, r.run(`document.querySelector("button[value=call]").click()`, nil)) // the page itself holds it back
	if len(r.Consent.Approvals()) != 1 {
		t.Error("it went on without the box")
	}
	must(t, r.run(acknowledged+`document.querySelector("button[value=call]").click()`, nil))
	if done := r.result(wants); done.Status != capabilities.StatusOK || r.reads("old.txt") != "" {
		t.Errorf("%+v", done)
	}
	r.result(r.call("robot", "tool.fs.write", `{"path":"a","content":"b"}`))
	r.goTo("/console/calls/" + string(r.newest("robot")))
	if strings.Contains(r.value(`document.getElementById("main").innerText`), "may destroy something") {
		t.Error("what declares nothing of the kind is said to destroy")
	}
}

// Row 5: a call that may run long says so while it does, and can be ended (S1-30).
func TestEveryRowLongRun(t *testing.T) {
	const long, says = `{"command":"sleep 500","timeout_ms":600000}`, "more time than tools usually get"
	r := startRows(t)
	r.enter(principal.RoleOperator)
	for _, granted := range []bool{true, false} {
		if !granted {
			r.forbids(`@id("no-long") forbid (principal, action == Action::"key:execution.timeout.extended", resource);`)
		}
		call := r.call("robot", "tool.fs.bash", long)
		r.goTo("/console/calls")
		r.await(`document.querySelector("td[data-name=State]")?.innerText.includes("running")`)
		id := r.newest("robot")
		r.goTo("/console/calls/" + string(id))
		r.await(`document.body.innerText.includes("It runs")`)
		if shown := strings.Contains(r.value("document.body.innerText"), says); shown != granted {
			t.Errorf("granted %v, shown %v", granted, shown)
		}
		if granted {
			r.shots("long-run")
			if code, said := r.rests(r.MustToken("bob", principal.RoleAgent), "DELETE", "/v1/calls/"+string(id), `{}`); code < 400 {
				t.Errorf("somebody ended another's call: %d %s", code, said)
			}
		}
		r.click("End this call")
		if done := r.result(call); done.Code != capabilities.CodeCancelled {
			t.Errorf("%+v", done)
		}
	}
}

// Row 6: an action without a grant is shown nowhere, in no list of any surface, and refused
// (S1-15, S1-31, S1-33, S1-62).
func TestEveryRowNoGrant(t *testing.T) {
	r := startRows(t)
	r.forbids(`@id("no-reading") forbid (principal, action == Action::"tool.fs.read", resource);`)
	r.enter(principal.RoleAdmin)
	r.goTo("/console/tools")
	r.says("tool.fs.write")
	r.shots("tools")
	token := r.MustToken("ann", principal.RoleAdmin)
	_, rest := r.rests(token, "GET", "/v1/tools", "")
	if page := r.value("document.body.innerText"); strings.Contains(page, "tool.fs.read") || strings.Contains(rest, `"tool.fs.read"`) || slices.Contains(r.mcpTools(token), "tool_fs_read") {
		t.Error("a tool that policy denies is listed")
	}
	if !strings.Contains(rest, `"tool.fs.write"`) || !slices.Contains(r.mcpTools(token), "tool_fs_write") {
		t.Error("the control is not listed")
	}
	r.tool("tool.fs.read")
	r.says("You cannot use it now")
	if r.value(`document.querySelectorAll("#surface, [data-upload]").length`) != "0" {
		t.Error("controls are shown of what is denied")
	}
	if _, said := r.rests(token, "POST", "/v1/calls", `{"tool":"tool.fs.read","args":{"path":"a"}}`); !strings.Contains(said, "denied") {
		t.Errorf("a request that was made up: %s", said)
	}
}

// terminal is what a terminal says of a question.
func (r *rows) terminal(id string) []string {
	r.t.Helper()
	_, said := r.rests(r.MustToken("cli", principal.RoleOperator), "GET", "/v1/approvals/"+id, "")
	var a api.Approval
	must(r.t, json.Unmarshal([]byte(said), &a))
	return a.Surface.Words()
}

// mcpTools are the tools that an MCP client is told of.
func (r *rows) mcpTools(token string) []string {
	r.t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "rows", Version: "1"}, nil).Connect(r.t.Context(), &mcp.StreamableClientTransport{
		Endpoint: r.URL() + "/mcp", HTTPClient: &http.Client{Transport: bearer(token)},
	}, nil)
	must(r.t, err)
	defer session.Close()
	list, err := session.ListTools(r.t.Context(), nil)
	must(r.t, err)
	var names []string
	for _, one := range list.Tools {
		names = append(names, one.Name)
	}
	return names
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}
