package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// works is what the tools of every kind do: each says that it began, and ends once the gate is
// open. It is counted from outside of the program, by files and by servers.
type works struct {
	dir string // has one folder for each provider, with a file for each kind: a line each time

	mu   sync.Mutex
	gate chan struct{}
}

func (w *works) close() { w.mu.Lock(); defer w.mu.Unlock(); w.gate = make(chan struct{}) }

func (w *works) open(t *testing.T) {
	t.Helper()
	for _, where := range places {
		must(t, os.WriteFile(filepath.Join(w.dir, where, "go"), nil, 0o600))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.gate: // it is open already
	default:
		close(w.gate)
	}
}

// places are the folders, of which no two providers share one.
var places = map[string]string{
	"bash": "space", "command": "runs", "macro": "runs", "after": "runs", "stdio": "stdio", "http": "here", "api": "here", "fetch": "here", "page": "here", "far": "far",
	"satellite": "orbit",
}

func (w *works) in(kind string) string { return filepath.Join(w.dir, places[kind]) }

// work is one piece of it, within this process.
func (w *works) work(ctx context.Context, kind string) {
	f, err := os.OpenFile(filepath.Join(w.in(kind), kind), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_, _ = fmt.Fprintln(f, "began")
	_ = f.Close()
	w.mu.Lock()
	gate := w.gate
	w.mu.Unlock()
	select {
	case <-gate:
	case <-ctx.Done():
	}
}

// shell is the same as a command.
func (w *works) shell(kind string) string {
	return fmt.Sprintf("echo began >>%[1]s/%[2]s; while ! test -e %[1]s/go; do sleep 0.05; done; echo done", w.in(kind), kind)
}

func (w *works) began(kind string) int {
	text, _ := os.ReadFile(filepath.Join(w.in(kind), kind))
	return strings.Count(string(text), "\n")
}

// speaker is an MCP server on standard input and output.
const speaker = `import json, os, sys, time
where = sys.argv[1]
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    r = {}
    if m["method"] == "initialize":
        r = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "speaker", "version": "1"}}
    elif m["method"] == "tools/list":
        r = {"tools": [{"name": "work", "description": "Works.", "inputSchema": {"type": "object"}}]}
    elif m["method"] == "tools/call":
        with open(where + "/stdio", "a") as f:
            f.write("began\n")
        while not os.path.exists(where + "/go"):
            time.sleep(0.05)
        r = {"content": [{"type": "text", "text": "done"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
`

const slowAPI = `{"openapi":"3.1.0","info":{"title":"Slow","version":"1"},"paths":{"/work":{"post":{"operationId":"work","responses":{"200":{"description":"Done."}}}}}}`

// program is the built program as a process that a test ends in its own way.
type program struct {
	t    *testing.T
	cmd  *exec.Cmd
	said bytes.Buffer
	over chan struct{}
}

// runs starts a command, and decodes its first line.
func (p *person) runs(first any, args ...string) *program {
	p.t.Helper()
	r := &program{t: p.t, cmd: exec.Command(p.program, args...), over: make(chan struct{})}
	r.cmd.Env, r.cmd.Stderr = p.env, &r.said
	out, err := r.cmd.StdoutPipe()
	must(p.t, err)
	must(p.t, r.cmd.Start())
	p.t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.over
		if p.t.Failed() {
			p.t.Logf("the program said: %.4000s", r.said.String())
		}
	})
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	go func() {
		defer close(r.over)
		_, _ = io.Copy(io.Discard, lines)
		_ = r.cmd.Wait()
	}()
	if err != nil || json.Unmarshal([]byte(line), first) != nil {
		p.t.Fatalf("handrail %s began with %q: %v", strings.Join(args, " "), line, err)
	}
	return r
}

func (r *program) signal(s os.Signal) { r.t.Helper(); must(r.t, r.cmd.Process.Signal(s)) }

// A gateway with its node is told to end, or is killed, while ten calls run, one of each kind: a
// shell, a command, MCP servers of both transports, an HTTP API, a macro, a fetched page, a page in
// Chrome, a command of another device, and a satellite. Told to end it waits for all of them, and
// takes nothing new. Killed, it says of each after its next start how it ended, which the other
// device and the satellite know, or that nobody can tell. Each call has one outcome in the ledger,
// nothing runs twice, and the chain holds.
func TestCallsOfEveryKindInFlight(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs the program")
	}
	if _, err := site.NewWalls(); err != nil {
		t.Skip(err)
	}
	desk.Need(t, "chromium")
	for _, how := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(how.String(), func(t *testing.T) { inFlight(t, how) })
	}
}

func inFlight(t *testing.T, how syscall.Signal) {
	w := &works{dir: t.TempDir()}
	w.close()
	for _, where := range places {
		must(t, os.MkdirAll(filepath.Join(w.dir, where), 0o700))
	}
	servers := http.NewServeMux()
	servers.HandleFunc("POST /work", func(rw http.ResponseWriter, r *http.Request) {
		w.work(r.Context(), "api")
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, `{"said":"done"}`)
	})
	for _, kind := range []string{"fetch", "page"} {
		servers.HandleFunc("GET /"+kind, func(rw http.ResponseWriter, r *http.Request) {
			w.work(r.Context(), kind)
			rw.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(rw, "<title>Done</title><p>done")
		})
	}
	servers.HandleFunc("GET /first", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(rw, "<title>First</title><p>first")
	})
	server := sdk.NewServer(&sdk.Implementation{Name: "remote", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "work", Description: "Works."}, func(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		w.work(ctx, "http")
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil, nil
	})
	servers.Handle("/mcp", sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true}))
	elsewhere := httptest.NewServer(servers)
	t.Cleanup(elsewhere.Close)
	t.Cleanup(func() { w.open(t) }) // a server that closes waits for the work that it does

	home := privateDir(t)
	data, files := filepath.Join(home, "site"), filepath.Join(home, "files")
	must(t, os.MkdirAll(filepath.Join(data, "gateway", "policy"), 0o700))
	for _, dir := range []string{data, filepath.Join(data, "gateway")} {
		must(t, os.Chmod(dir, 0o700))
	}
	must(t, os.WriteFile(filepath.Join(data, "gateway", "policy", "all.cedar"), []byte(`@id("all") permit (principal, action, resource);`), 0o600))
	must(t, os.MkdirAll(files, 0o700))
	must(t, os.WriteFile(filepath.Join(files, "speaker.py"), []byte(speaker), 0o600))
	must(t, os.WriteFile(filepath.Join(files, "slow.json"), []byte(slowAPI), 0o600))
	must(t, os.WriteFile(filepath.Join(files, "macro.yaml"), []byte("description: Works in two steps.\nsteps:\n  - {id: a, tool: tool.runs.inner}\n  - {id: b, tool: tool.runs.after}\n"), 0o600))
	manifest, err := json.Marshal(map[string]any{"tools": []any{
		map[string]any{"name": "work", "argv": []string{"bash", "-c", w.shell("command")}},
		map[string]any{"name": "inner", "argv": []string{"bash", "-c", w.shell("macro")}},
		map[string]any{"name": "after", "argv": []string{"bash", "-c", w.shell("after")}},
	}})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(files, "runs.json"), manifest, 0o600))

	p := &person{t: t, program: filepath.Join(home, "handrail"), env: append(os.Environ(), "HOME="+home, "HANDRAIL_DATA="+data)}
	site.Program(t, p.program)
	// Addresses that stay the same over the restart.
	free := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer l.Close()
		return l.Addr().String()
	}
	args := []string{
		"up", "--no-task", "--json", "--workspace", w.in("bash"), "--browser-sandbox", "auto", "--browser-allow-origin", elsewhere.URL,
		"--http", free(), "--quic", free(), "--bus", free(),
	}
	var ready struct{ HTTP string }
	up := p.runs(&ready, args...)
	token, err := os.ReadFile(filepath.Join(data, "gateway", "agent.token"))
	must(t, err)
	agent := newCaller(t, address(ready.HTTP), strings.TrimSpace(string(token)))

	p.does("provider", "add", "command", "runs", "--manifest", filepath.Join(files, "runs.json"), "--write", w.in("command"), "--yes")
	p.does("provider", "add", "mcp", "remote", "--http", elsewhere.URL+"/mcp", "--yes")
	p.does("provider", "add", "mcp", "stdio", "--read", files, "--write", w.in("stdio"), "--yes", "--", "/usr/bin/python3", filepath.Join(files, "speaker.py"), w.in("stdio"))
	p.does("provider", "add", "openapi", "slow", filepath.Join(files, "slow.json"), "--server", elsewhere.URL, "--yes")
	p.does("provider", "add", "macro", "both", filepath.Join(files, "macro.yaml"), "--yes")

	type node struct {
		ID    capabilities.NodeID `json:"node_id"`
		State string
	}
	here := items[node](p, "nodes")[0].ID
	device := filepath.Join(home, "device")
	paste := items[struct{ Paste string }](p, "pair", "--label", "far", "--yes", "--no-wait")[0].Paste
	if out, code := p.tries(paste+"\n", "node", "join", "--data", device); code != 0 {
		t.Fatalf("joining: %s", out)
	}
	var began map[string]any
	p.leaves(&began, "node", "--data", device, "--host-providers", "--json")
	farther, err := json.Marshal(map[string]any{"tools": []any{map[string]any{"name": "work", "argv": []string{"bash", "-c", w.shell("far")}}}})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(files, "far.json"), farther, 0o600))
	desk.Await(t, "the other device to host", func() bool {
		_, code := p.tries("", "provider", "add", "command", "far", "--host", "far", "--manifest", filepath.Join(files, "far.json"), "--write", w.in("far"), "--yes")
		return code == 0
	})
	orbit, err := json.Marshal(map[string]any{"tools": []any{map[string]any{"name": "work", "description": "Works.", "argv": []string{"-c", w.shell("satellite")}}}})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(files, "orbit.json"), orbit, 0o600))
	if out, code := p.tries(p.does("satellite", "add", "orbit", "--yes", "--no-wait"), "satellite", "join", "orbit"); code != 0 {
		t.Fatalf("joining: %s", out)
	}
	p.stays("satellite", "run", "orbit", "--manifest", filepath.Join(files, "orbit.json"), "--write", w.in("satellite"), "--", "bash")
	desk.Await(t, "the satellite's tools", func() bool {
		_, code := p.tries("", "provider", "approve", "orbit", "--allow", "all", "--yes")
		return code == 0
	})
	desk.Await(t, "Chrome", func() bool {
		r, err := agent.call(ctx(), "tool.browser.navigate", fmt.Sprintf(`{"url":%q,"node_id":%q}`, elsewhere.URL+"/first", here), "")
		return err == nil && r.Status == capabilities.StatusOK
	})

	kinds := map[string]struct{ tool, args string }{
		"fetch":     {"tool.web.fetch", fmt.Sprintf(`{"url":%q,"node_id":%q}`, elsewhere.URL+"/fetch", here)},
		"page":      {"tool.browser.navigate", fmt.Sprintf(`{"url":%q,"node_id":%q}`, elsewhere.URL+"/page", here)},
		"far":       {"tool.far.work", `{}`},
		"satellite": {"tool.orbit.work", `{}`},
		"bash":      {"tool.fs.bash", fmt.Sprintf(`{"command":%q}`, w.shell("bash"))},
		"command":   {"tool.runs.work", `{}`}, "http": {"tool.remote.work", `{}`}, "stdio": {"tool.stdio.work", `{}`},
		"api": {"tool.slow.work", `{}`}, "macro": {"tool.macro.both", `{}`},
	}
	var calls sync.WaitGroup
	var mu sync.Mutex
	told := map[string]capabilities.Result{}
	for kind, k := range kinds {
		calls.Go(func() {
			if r, err := agent.call(ctx(), capabilities.ToolID(k.tool), k.args, "r-"+kind); err == nil {
				mu.Lock()
				defer mu.Unlock()
				told[kind] = r
			}
		})
	}
	for kind := range kinds {
		desk.Await(t, kind+" to begin", func() bool {
			mu.Lock()
			defer mu.Unlock()
			if r, ended := told[kind]; ended {
				t.Fatalf("%s ended with %s %s", kind, r.Code, r.Message)
			}
			return w.began(kind) == 1
		})
	}
	if r, err := agent.call(ctx(), "tool.skill.load", `{"name":"files"}`, "r-skill"); err != nil || r.Status != capabilities.StatusOK {
		t.Errorf("%+v %v", r, err)
	}

	up.signal(how)
	if how == syscall.SIGTERM {
		desk.Await(t, "nothing new to begin", func() bool {
			r, err := agent.call(ctx(), "tool.skill.load", `{"name":"files"}`, "")
			return err == nil && r.Code == capabilities.CodeOverloaded
		})
		w.open(t)
	}
	await(t, "the program to end", up.over)
	calls.Wait()
	if how == syscall.SIGTERM {
		if code := up.cmd.ProcessState.ExitCode(); code != 0 && code != 130 && code != 143 {
			t.Errorf("it ended with %d", code)
		}
		for kind := range kinds {
			if r := told[kind]; r.Status != capabilities.StatusOK {
				t.Errorf("%s was told %s %s: a stop waits for it", kind, r.Code, r.Message)
			}
		}
	} else {
		w.open(t)
	}

	var again struct{ HTTP string }
	p.runs(&again, args...)
	codes, ids := map[string]capabilities.Code{}, map[string]capabilities.CallID{}
	for kind, k := range kinds {
		var r capabilities.Result
		desk.Await(t, kind+" to be answered", func() bool {
			r, err = agent.call(ctx(), capabilities.ToolID(k.tool), k.args, "r-"+kind)
			return err == nil && r.Code != capabilities.CodeNodeNotReady && r.Code != capabilities.CodeNodeDisconnected && r.Code != capabilities.CodeUnknownTool
		})
		codes[kind], ids[kind] = r.Code, r.Call
		if how == syscall.SIGTERM && r.Status != capabilities.StatusOK {
			t.Errorf("%s is said to have ended with %s %s", kind, r.Code, r.Message)
		}
		if lives := kind == "far" || kind == "satellite"; how == syscall.SIGKILL && lives && r.Status != capabilities.StatusOK {
			t.Errorf("%s went on, and is said to have ended with %q %s", kind, r.Code, r.Message)
		} else if how == syscall.SIGKILL && !lives && r.Code != capabilities.CodeUnknownOutcome {
			t.Errorf("%s is said to have ended with %q %s", kind, r.Code, r.Message)
		}
		if n := w.began(kind); n != 1 {
			t.Errorf("grave: %s ran %d times", kind, n)
		}
	}
	t.Logf("%s: %v", how, codes)
	if out := p.does("ledger", "verify"); out == "" {
		t.Error("the ledger says nothing")
	}
	ended := map[capabilities.CallID][]string{}
	sent := map[capabilities.CallID]string{}
	for _, one := range items[ledger.Packet](p, "ledger", "show", "--limit", "1000") {
		switch one.Kind {
		case ledger.KindCallDispatch:
			sent[one.Call] = string(one.Tool)
		case ledger.KindCallResult, ledger.KindCallFailed:
			ended[one.Call] = append(ended[one.Call], string(one.Kind))
		}
	}
	for kind, k := range kinds {
		if sent[ids[kind]] != k.tool {
			t.Errorf("%s was not sent as %s", kind, ids[kind])
		}
	}
	for call, tool := range sent {
		if n := len(ended[call]); n != 1 {
			t.Errorf("%s (%s) has %d outcomes: %q", call, tool, n, ended[call])
		}
	}
}

// address is where a client reaches an address that the program said.
func address(s string) string {
	if strings.HasPrefix(s, "http") {
		return s
	}
	return "http://" + s
}
