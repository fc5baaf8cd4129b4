package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// kindOfTool is a tool of one kind of provider, with arguments that do and, where there are any,
// arguments that fit and fail.
type kindOfTool struct {
	tool     string
	args     string
	failing  string // arguments; empty: none make this tool fail
	failTool string // another tool of the same provider that fails; empty: tool
	device   bool   // a node does it, and S0's rules choose which
}

var kindsOfTools = []kindOfTool{
	{tool: "tool.voice.tts", args: `{"text":"Hello"}`},
	{device: true, tool: "tool.fs.read", args: `{"path":"a.txt"}`, failing: `{"path":"no-such-file"}`},
	{tool: "tool.everything.echo", args: `{"message":"hi"}`, failing: `{"resourceType":"Text","resourceId":-5}`, failTool: "tool.everything.get-resource-reference"},
	{tool: "tool.petstore.get-pet", args: `{"petId":7}`, failing: `{"petId":9}`},
	{tool: "tool.macro.all", args: `{"file":"a.txt"}`, failing: `{"file":"no-such-file"}`},
	{device: true, tool: "tool.browser.navigate", args: `{"url":"about:blank"}`, failing: `{"url":"https://nowhere.invalid/"}`},
}

const allKinds = `
description: Calls a tool of each kind.
args: {file: {type: string, maxLength: 100}}
steps:
  - {id: read, tool: tool.fs.read, with: {path: {from: /args/file}}}
  - {id: echo, tool: tool.everything.echo, with: {message: {from: /steps/read/output/content}}}
  - {id: pet, tool: tool.petstore.get-pet, with: {petId: 7}}
  - {id: page, tool: tool.browser.navigate, with: {url: "about:blank"}}
  - {id: say, tool: tool.voice.tts, with: {text: {from: /steps/pet/output/data/name}}}
output:
  echo: {from: /steps/echo/output/text}
  pet: {from: /steps/pet/output/data}
  sound: {from: /steps/say/output/mime}
`

// Keys that are data of one call and not a part of the shape: an effect that says nothing of how
// it was seen, content of nobody else, no bytes, no node.
var (
	ofResults     = []string{"evidence", "untrusted", "hint", "action", "retryable", "details", "effect", "blobs", "artifacts"}
	ofDecisions   = []string{"taint", "isolation_given", "labels"}
	ofDefinitions = []string{"provider", "capability", "examples"}
	ofQuestions   = []string{"node", "node_label", "through", "hosts", "paths", "arguments", "hands", "why"}
)

// alike is a site with a real provider of each kind: a satellite (espeak-ng), files, an MCP server
// (server-everything), an HTTP API, a macro over them all, and Chrome.
type alike struct {
	*person
	admin, agent *caller
	mcp          *sdk.ClientSession
	url, policy  string
}

func newAlike(t *testing.T) *alike {
	t.Helper()
	packages := os.Getenv("HANDRAIL_CONFORMANCE")
	if packages == "" {
		t.Skip("needs Node.js packages: run make conformance")
	}
	if _, err := site.NewWalls(); err != nil {
		t.Skip(err)
	}
	desk.Need(t, "espeak-ng")
	pets := petstore(t)
	home := privateDir(t)
	a := &alike{person: &person{t: t, program: filepath.Join(home, "handrail"), env: append(os.Environ(), "HOME="+home, "HANDRAIL_DATA="+filepath.Join(home, "site"))}}
	site.Program(t, a.program)
	files := filepath.Join(home, "files")
	must(t, os.Mkdir(files, 0o700))
	must(t, os.WriteFile(filepath.Join(files, "a.txt"), []byte("hello"), 0o600))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	bus := l.Addr().String()
	must(t, l.Close())
	var ready struct {
		HTTP string `json:"http"`
	}
	a.leaves(&ready, "up", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--bus", bus, "--no-task", "--json", "--workspace", files)
	if a.url = ready.HTTP; !strings.HasPrefix(a.url, "http") {
		a.url = "http://" + a.url
	}
	token := func(name string) *caller {
		text, err := os.ReadFile(filepath.Join(home, "site", "gateway", name+".token"))
		must(t, err)
		return newCaller(t, a.url, strings.TrimSpace(string(text)))
	}
	a.admin, a.agent = token("admin"), token("agent")
	a.policy = filepath.Join(home, "site", "gateway", "policy", "alike.cedar")

	manifest, err := filepath.Abs("../../examples/satellites/voice.json")
	must(t, err)
	code := a.does("satellite", "add", "voice", "--yes", "--no-wait")
	if out, exit := a.tries(code, "satellite", "join", "voice"); exit != 0 {
		t.Fatalf("joining: %s", out)
	}
	a.stays("satellite", "run", "voice", "--manifest", manifest, "--", "espeak-ng")
	node := filepath.Join(packages, "node_modules", ".bin", "node")
	a.does("provider", "add", "mcp", "everything", "--read", packages, "--", node, filepath.Join(packages, "node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js"))
	a.does("provider", "add", "openapi", "petstore", pets.URL+"/openapi.yaml")
	a.await("the satellite's tools", func() bool {
		_, exit := a.tries("", "provider", "show", "voice")
		return exit == 0
	})
	for _, name := range []string{"voice", "everything", "petstore"} {
		a.does("provider", "approve", name, "--allow", "all", "--yes")
	}
	macro := filepath.Join(home, "all.yaml")
	must(t, os.WriteFile(macro, []byte(allKinds), 0o600))
	a.does("provider", "add", "macro", "all", macro)
	a.does("provider", "approve", "all", "--allow", "all", "--yes")

	a.mcp, err = sdk.NewClient(&sdk.Implementation{Name: "e2e", Version: "1"}, nil).Connect(ctx(), &sdk.StreamableClientTransport{
		Endpoint: a.url + "/mcp", MaxRetries: -1, DisableStandaloneSSE: true, HTTPClient: &http.Client{Transport: bearer{a.agent}},
	}, nil)
	must(t, err)
	t.Cleanup(func() { _ = a.mcp.Close() })
	return a
}

// await asks again and again, for nobody tells.
func (a *alike) await(what string, there func() bool) {
	a.t.Helper()
	for end := time.Now().Add(site.Within); !there(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			a.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// rules puts rules of this test in force, in the place of those before.
func (a *alike) rules(text string) {
	a.t.Helper()
	must(a.t, os.WriteFile(a.policy, []byte(text), 0o600))
	a.does("policy", "activate", "--yes")
}

func (a *alike) all() string {
	var ids []string
	for _, k := range kindsOfTools {
		ids = append(ids, fmt.Sprintf("Action::%q", k.tool))
	}
	return strings.Join(ids, ", ")
}

// form is what can be compared of an object: its keys but for those, and how an agent's program
// ended.
type form struct {
	keys []string
	exit int
}

func (f form) String() string { return fmt.Sprintf("exit %d: %s", f.exit, strings.Join(f.keys, " ")) }

func keysOf(object map[string]any, but ...string) (keys []string) {
	for key := range maps.Keys(object) {
		if !slices.Contains(but, key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// told is what the command line printed of a call.
func (a *alike) told(tool, args string) (result map[string]any, exit int) {
	a.t.Helper()
	out, exit := a.tries("", "call", "--agent", tool, args, "--json")
	line, _, _ := strings.Cut(out, "\n")
	if err := json.Unmarshal([]byte(line), &result); err != nil {
		a.t.Fatalf("%s printed %.300q: %v", tool, out, err)
	}
	return result, exit
}

// asked is the same over MCP: what its _meta says and what a model reads.
func (a *alike) asked(tool, args string) (meta, structured map[string]any, failed bool) {
	a.t.Helper()
	r, err := a.mcp.CallTool(a.t.Context(), &sdk.CallToolParams{Name: capabilities.ToolID(tool).WireName(), Arguments: json.RawMessage(args)})
	if err != nil {
		a.t.Fatalf("%s over MCP: %v", tool, err)
	}
	for _, one := range r.Meta {
		if m, ok := one.(map[string]any); ok && m["tool_id"] != nil {
			meta = m
		}
	}
	structured, _ = r.StructuredContent.(map[string]any)
	if meta == nil || len(r.Content) == 0 {
		a.t.Fatalf("%s over MCP: %+v", tool, r)
	}
	return meta, structured, r.IsError
}

// packets are those of a call: their kinds in order, and the keys of its decisions.
func (a *alike) packets(call any) (kinds, decision []string) {
	a.t.Helper()
	var list struct {
		Packets []api.Packet `json:"packets"`
	}
	a.admin.ok(http.MethodGet, fmt.Sprintf("/v1/ledger/packets?call=%v", call), "", &list)
	for _, p := range list.Packets {
		kinds = append(kinds, string(p.Kind))
		if p.Kind == "tool.call.decision" {
			var body map[string]any
			must(a.t, json.Unmarshal(p.Body, &body))
			decision = keysOf(body, ofDecisions...)
		}
	}
	return kinds, decision
}

// same notes what there is of a kind of tool, and compares it with that of the first.
type same struct {
	t     *testing.T
	first map[string]string
}

func (s *same) is(tool, what string, got fmt.Stringer) {
	s.t.Helper()
	if s.first == nil {
		s.first = map[string]string{}
	}
	switch want, there := s.first[what]; {
	case !there:
		s.first[what] = got.String()
	case want != got.String():
		s.t.Errorf("%s can be told from %s by its %s:\n %s\n %s", tool, kindsOfTools[0].tool, what, got, want)
	}
}

// parts are compared as one text.
type parts []string

func (w parts) String() string { return strings.Join(w, " ") }

// looks compares one call by both doors and what the ledger has of it.
func (a *alike) looks(s *same, k kindOfTool, tool, args, status string) {
	a.t.Helper()
	r, exit := a.told(tool, args)
	if r["status"] != status {
		a.t.Errorf("%s %s ended as %v %v: %v", tool, args, r["status"], r["code"], r["message"])
		return
	}
	s.is(k.tool, "result", form{keysOf(r, append(ofResults, "output")...), exit})
	if routing, ok := r["routing"].(map[string]any); status == "ok" && (!ok || routing["selection_mode"] == "") {
		a.t.Errorf("%s does not say where it went: %v", tool, r)
	}
	if status == "ok" && (r["output"] == nil || r["effect"] == nil) {
		a.t.Errorf("%s has no output or no effect: %v", tool, r)
	}
	kinds, decision := a.packets(r["call_id"])
	s.is(k.tool, "packets", parts(kinds))
	s.is(k.tool, "decision", parts(decision))

	meta, structured, failed := a.asked(tool, args)
	if meta["status"] != status || failed != (status != "ok") {
		a.t.Errorf("%s %s over MCP: %v %v", tool, args, meta["status"], structured)
	}
	s.is(k.tool, "result over MCP", form{keys: keysOf(meta, ofResults...)})
	if status != "ok" {
		s.is(k.tool, "error over MCP", form{keys: keysOf(structured, "details", "hint")})
	}
	over, _ := a.packets(meta["call_id"])
	s.is(k.tool, "packets", parts(over))
}

// A caller cannot tell of which kind a tool is: not by the shape of its result, by what policy
// decided, by the question that a person gets, by the ledger, or by how it is refused or fails
// (S3-17 … S3-21). All of them are defined in one form, by whichever door (S4-01). All six
// providers are real ones.
func TestToolsOfEveryKindAreAlike(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs the program")
	}
	a := newAlike(t)

	t.Run("defined", func(t *testing.T) {
		a.t = t
		defined(t, a)
	})
	t.Run("provided", func(t *testing.T) {
		a.t = t
		provided(t, a)
	})
	t.Run("carried out", func(t *testing.T) {
		a.t = t
		s := &same{t: t}
		for _, k := range kindsOfTools {
			a.looks(s, k, k.tool, k.args, "ok")
		}
	})
	t.Run("arguments that do not fit", func(t *testing.T) {
		a.t = t
		s := &same{t: t}
		for _, k := range kindsOfTools {
			a.looks(s, k, k.tool, `{"no_such_argument":1}`, "error")
		}
	})
	t.Run("failed", func(t *testing.T) {
		a.t = t
		s := &same{t: t}
		for _, k := range kindsOfTools {
			if tool := k.failTool; k.failing != "" {
				if tool == "" {
					tool = k.tool
				}
				a.looks(s, k, tool, k.failing, "error")
			}
		}
	})
	t.Run("the macro to its end", func(t *testing.T) {
		a.t = t
		macroToItsEnd(t, a)
	})
	t.Run("asked", func(t *testing.T) {
		a.t = t
		a.rules(`@id("alike") forbid (principal, action in [` + a.all() + `], resource) unless { context.consent };`)
		s := &same{t: t}
		for _, k := range kindsOfTools {
			answersAll(s, a, k)
		}
	})
	t.Run("denied", func(t *testing.T) {
		a.t = t
		a.rules(`@id("alike") forbid (principal, action in [` + a.all() + `], resource);`)
		s := &same{t: t}
		for _, k := range kindsOfTools {
			r, exit := a.told(k.tool, k.args)
			s.is(k.tool, "refusal", parts{fmt.Sprint(r["status"], " ", exit), strings.Join(keysOf(r, append(ofResults, "routing", "envelope_hash")...), " ")})
			// A device's tool that policy denies has no eligible node, and S0-16 and S0-18 say how
			// that is called; every other tool is denied by policy.
			of := "provider"
			if k.device {
				of = "device"
			}
			s.is(k.tool, "refusal of a "+of+"'s tool", parts{fmt.Sprint(r["code"]), strings.Join(keysOf(r, ofResults...), " ")})
			kinds, decision := a.packets(r["call_id"])
			s.is(k.tool, "packets", parts(kinds))
			s.is(k.tool, "decision on a "+of+"'s tool", parts(decision))
		}
		list, err := a.mcp.ListTools(t.Context(), nil)
		must(t, err)
		for _, tool := range list.Tools {
			for _, k := range kindsOfTools {
				if tool.Name == capabilities.ToolID(k.tool).WireName() {
					t.Errorf("%s is denied and listed", k.tool)
				}
			}
		}
	})
}

// defined compares the tools as they are listed, by REST and over MCP.
func defined(t *testing.T, a *alike) {
	s := &same{t: t}
	listed, err := a.mcp.ListTools(t.Context(), nil)
	must(t, err)
	for _, k := range kindsOfTools {
		var one map[string]any
		a.agent.ok(http.MethodGet, "/v1/tools/"+k.tool, "", &one)
		s.is(k.tool, "definition", form{keys: keysOf(one, ofDefinitions...)})
		at := slices.IndexFunc(listed.Tools, func(tool *sdk.Tool) bool { return tool.Name == capabilities.ToolID(k.tool).WireName() })
		if at < 0 {
			t.Errorf("MCP lists no %s", k.tool)
			continue
		}
		tool := listed.Tools[at]
		if tool.InputSchema == nil || tool.OutputSchema == nil || tool.Annotations == nil || !strings.HasPrefix(tool.Description, fmt.Sprint(one["description"])) {
			t.Errorf("%s over MCP: %+v, by REST %v", k.tool, tool, one)
		}
	}
}

// provided wants the satellite among the providers and no other provider among the satellites: an
// HTTP API and a program have no heartbeat and no identity on the bus (S3-30, S3-31).
func provided(t *testing.T, a *alike) {
	var names, satellites []string
	for _, p := range items[api.Provider](a.person, "provider", "list") {
		names = append(names, p.Name)
	}
	for _, s := range items[api.Satellite](a.person, "satellite", "list") {
		satellites = append(satellites, s.Service)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"all", "everything", "petstore", "voice"}) || !slices.Equal(satellites, []string{"voice"}) {
		t.Errorf("providers %q, satellites %q", names, satellites)
	}
}

// macroToItsEnd looks at a run over every kind: its steps are calls of their own, and its effect is
// what theirs add up to.
func macroToItsEnd(t *testing.T, a *alike) {
	r, _ := a.told("tool.macro.all", `{"file":"a.txt"}`)
	output, _ := json.Marshal(r["output"])
	if string(output) != `{"data":{"echo":"Echo: hello","pet":{"id":7,"name":"Rex"},"sound":"audio/wav"}}` {
		t.Errorf("%s", output)
	}
	if r["effect"] != "confirmed" || r["evidence"] != "that of each step: read, echo, pet, page, say" {
		t.Errorf("effect %v: %v", r["effect"], r["evidence"])
	}
	shown := a.does("calls", "show", fmt.Sprint(r["call_id"]))
	for _, step := range []string{"read the file a.txt", "(everything)", "(petstore)", "opened about:blank", "(voice)"} {
		if !strings.Contains(shown, step) {
			t.Errorf("its calls have no %q:\n%s", step, shown)
		}
	}
	r, _ = a.told("tool.macro.all", `{"file":"no-such-file"}`)
	if r["code"] != "not_found" || r["effect"] != nil {
		t.Errorf("a first step that failed: %v", r)
	}
}

// answersAll answers what is asked about a call and the calls inside it until it has ended.
func answersAll(s *same, a *alike, k kindOfTool) {
	a.t.Helper()
	// A principal of its own, since nobody may ask people too often.
	var made struct {
		Token string `json:"token"`
	}
	must(a.t, json.Unmarshal([]byte(a.does("token", "create", "asks-"+capabilities.ToolID(k.tool).Family(), "--json")), &made))
	agent := newCaller(a.t, a.url, made.Token)
	done := make(chan map[string]any, 1)
	go func() {
		_, answer, err := agent.try(ctx(), http.MethodPost, "/v1/calls", callBody(capabilities.ToolID(k.tool), k.args, ""))
		r := map[string]any{}
		if err == nil {
			err = json.Unmarshal(answer, &r)
		}
		if err != nil {
			r["message"] = err.Error()
		}
		done <- r
	}()
	answered := map[string]bool{}
	for limit := time.After(2 * site.Within); ; {
		select {
		case r := <-done:
			if r["status"] != "ok" {
				a.t.Errorf("%s ended as %v %v: %v", k.tool, r["status"], r["code"], r["message"])
			}
			s.is(k.tool, "result after a question", form{keys: keysOf(r, ofResults...)})
			kinds, decision := a.packets(r["call_id"])
			s.is(k.tool, "packets", parts(kinds))
			s.is(k.tool, "decision", parts(decision))
			if len(answered) == 0 || k.tool == "tool.macro.all" && len(answered) != len(kindsOfTools) {
				a.t.Errorf("%s: %d questions", k.tool, len(answered))
			}
			return
		case <-limit:
			a.t.Fatalf("%s does not end, %d answers", k.tool, len(answered))
		case <-time.After(50 * time.Millisecond):
		}
		var list struct {
			Approvals []map[string]any `json:"approvals"`
		}
		a.admin.ok(http.MethodGet, "/v1/approvals", "", &list)
		for _, one := range list.Approvals {
			id := fmt.Sprint(one["approval"])
			if one["state"] != "pending" || answered[id] {
				continue
			}
			answered[id] = true
			s.is(k.tool, "question", form{keys: keysOf(one, ofQuestions...)})
			a.does("approve", id, "--acknowledge")
		}
	}
}
