package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/handrail-dev/handrail/agent/journal"
	"github.com/handrail-dev/handrail/agent/notice"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/client"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// person sits before a machine with a desktop on which there is nothing but the program.
type person struct {
	t       *testing.T
	program string
	env     []string
}

// tries runs a command to its end, and returns what it printed and its exit code.
func (p *person) tries(in string, args ...string) (printed string, code int) {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), p.program, args...)
	cmd.Env, cmd.Stdin = p.env, strings.NewReader(in)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		p.t.Fatalf("handrail %s: %v", strings.Join(args, " "), err)
	}
	if err != nil {
		return out.String() + said.String(), ended.ExitCode()
	}
	return out.String(), 0
}

// does runs a command that has to end well.
func (p *person) does(args ...string) string {
	p.t.Helper()
	out, code := p.tries("", args...)
	if code != 0 {
		p.t.Fatalf("handrail %s ended with %d: %s", strings.Join(args, " "), code, out)
	}
	return out
}

// items runs a command with --json, and returns the objects that it printed.
func items[T any](p *person, args ...string) []T {
	p.t.Helper()
	var all []T
	for line := range strings.Lines(p.does(append(args, "--json")...)) {
		var one T
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			p.t.Fatalf("handrail %s printed %q: %v", strings.Join(args, " "), line, err)
		}
		all = append(all, one)
	}
	return all
}

// leaves starts a command that runs until the test ends, and decodes its first line.
func (p *person) leaves(first any, args ...string) {
	p.t.Helper()
	cmd := exec.Command(p.program, args...)
	cmd.Env = p.env
	line := desk.Stay(p.t, cmd)
	if err := json.Unmarshal([]byte(line), first); err != nil {
		p.t.Fatalf("handrail %s began with %q: %v", strings.Join(args, " "), line, err)
	}
}

// stays starts a command that runs until the test ends and prints nothing of its own.
func (p *person) stays(args ...string) {
	p.t.Helper()
	cmd := exec.Command(p.program, args...)
	cmd.Env = p.env
	must(p.t, cmd.Start())
	p.t.Cleanup(func() { _ = cmd.Process.Signal(os.Interrupt); _ = cmd.Wait() })
}

// watch keeps what the gateway's stream of events says.
type watch struct {
	mu  sync.Mutex
	all []ledger.Packet
}

func (w *watch) kinds(call capabilities.CallID) (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.all {
		if p.Call == call {
			all = append(all, string(p.Kind))
		}
	}
	return all
}

// This is the purpose of all of it, as one walk by the command line on a real desktop: install,
// pair, an agent asks for the desktop, a person allows five minutes of it and watches the log,
// stops it from the device, reads the whole story in both ledgers, and asks what another policy
// would have decided.
func TestADesktopIsLentAndTakenBack(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a desktop and the program")
	}
	d := desk.StartX(t, desk.Options{})
	home := privateDir(t)
	p := &person{t: t, program: filepath.Join(home, "handrail"), env: append(slices.Clone(d.Env), "HOME="+home, "HANDRAIL_DATA="+filepath.Join(home, "site"))}

	// Install: one file.
	site.Program(t, p.program)
	var ready struct {
		HTTP string `json:"http"`
	}
	p.leaves(&ready, "gateway", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--json")

	// Pair: a paste, who joined, one yes.
	device := filepath.Join(home, "device")
	paste := items[struct{ Paste string }](p, "pair", "--label", "laptop", "--no-wait")[0].Paste
	joined := make(chan string, 1)
	go func() {
		out, code := p.tries(paste+"\n", "node", "join", "--data", device)
		if code != 0 {
			out = "refused: " + out
		}
		joined <- out
	}()
	type node struct {
		ID           capabilities.NodeID `json:"node_id"`
		State        string
		Stopped      bool
		Capabilities []struct {
			Tool      capabilities.ToolID `json:"tool_id"`
			Available bool
		}
	}
	var n node
	desk.Await(t, "the device to join", func() bool {
		all := items[node](p, "nodes")
		if len(all) == 1 {
			n = all[0]
		}
		return n.State == "pending"
	})
	p.does("node", "approve", string(n.ID))
	if said := await(t, "the device to be let in", joined); strings.HasPrefix(said, "refused") {
		t.Fatal(said)
	}
	var began map[string]any
	p.leaves(&began, "node", "--data", device, "--json")
	const screenshot, keyboard, waitFor = capabilities.ToolID("tool.desktop.screenshot"), capabilities.ToolID("tool.desktop.keyboard"), capabilities.ToolID("tool.desktop.wait-for")
	desk.Await(t, "the desktop to be ready", func() bool {
		usable := 0
		for _, c := range items[node](p, "nodes")[0].Capabilities {
			if c.Available && slices.Contains([]capabilities.ToolID{screenshot, keyboard, waitFor}, c.Tool) {
				usable++
			}
		}
		return usable == 3
	})

	// The person watches the log.
	admin, err := os.ReadFile(filepath.Join(home, "site", "gateway", "admin.token"))
	must(t, err)
	gateway, err := client.New(ready.HTTP, client.NewToken(string(admin)))
	must(t, err)
	var log watch
	watching := make(chan struct{})
	stopWatching := background(t, "watching", func(c context.Context) error {
		err := gateway.Events(c, 0, func() error { close(watching); return nil }, func(e client.Event) error {
			var p ledger.Packet
			if e.Seq == 0 {
				return nil // who came and went is not in the ledger
			}
			if err := json.Unmarshal(e.Data, &p); err != nil {
				return err
			}
			log.mu.Lock()
			defer log.mu.Unlock()
			log.all = append(log.all, p)
			return nil
		})
		if c.Err() != nil {
			return nil
		}
		return err
	})
	await(t, "the stream of events", watching)

	// An agent asks for the desktop.
	token := strings.TrimSpace(p.does("token", "create", "bot"))
	agent := site.StartAgent(t, p.program, p.env, token)
	window, lines := d.Xterm()
	d.Activate(window.Window.ID)
	nodeLog := func() []journal.Record {
		return items[journal.Record](p, "node", "log", "--data", device, "--limit", "0")
	}
	look := agent.Asks("tool_desktop_screenshot", map[string]any{"display": "primary"})
	type question struct {
		ID    string `json:"approval"`
		Who   string `json:"principal"`
		Tool  capabilities.ToolID
		Label string `json:"node_label"`
	}
	var asked question
	desk.Await(t, "the question", func() bool {
		all := items[question](p, "approvals")
		if len(all) == 1 {
			asked = all[0]
		}
		return asked.ID != ""
	})
	if asked.Who != "bot" || asked.Tool != screenshot || asked.Label != "laptop" {
		t.Errorf("the person is asked %+v", asked)
	}
	if slices.ContainsFunc(nodeLog(), func(r journal.Record) bool { return r.Call != "" }) {
		t.Error("something reached the device before anybody said yes")
	}

	// The person allows five minutes of it: the agent sees, and types, and is not asked about again.
	p.does("approve", asked.ID, "--acknowledge", "--for", "5m", "--family", "--reason", "fill in the form")
	saw := agent.Ends("the picture", look)
	if saw.Code != "" || saw.Images != 1 || saw.Call == "" {
		t.Fatalf("after a yes: %+v", saw)
	}
	typed := agent.Ends("the typing", agent.Asks("tool_desktop_keyboard", map[string]any{"action": "type", "text": "typed while it was lent\n"}))
	if typed.Code != "" {
		t.Fatalf("in the five minutes: %+v", typed)
	}
	desk.Await(t, "what was typed", func() bool { return slices.Equal(lines(), []string{"typed while it was lent"}) })
	whole := []string{"tool.call.request", "tool.call.decision", "tool.call.dispatch", "tool.call.result"}
	desk.Await(t, "the log to show the typing", func() bool { return slices.Equal(log.kinds(typed.Call), whole) })

	// While a call runs, the device says so; the person stops it there.
	waits := agent.Asks("tool_desktop_wait_for", map[string]any{"window": "never shown", "timeout_ms": 600_000})
	desk.Await(t, "the device to say that it is used", func() bool {
		s := items[notice.Status](p, "node", "status", "--data", device)[0]
		return s.State == notice.StateInUse && slices.ContainsFunc(s.Uses, func(u notice.Use) bool { return u.Principal == "bot" && u.Running })
	})
	p.does("node", "stop", "--data", device)
	ended := agent.Ends("the running call", waits)
	if ended.Code != capabilities.CodeStopped || ended.Call == "" {
		t.Fatalf("the running call ended as %+v", ended)
	}
	desk.Await(t, "the gateway to hear of it", func() bool { return items[node](p, "nodes")[0].Stopped })
	if left := items[map[string]any](p, "grant", "list"); len(left) != 0 {
		t.Errorf("after the stop the grants %v are left", left)
	}
	desk.Await(t, "the device to say who stopped it", func() bool {
		s := items[notice.Status](p, "node", "status", "--data", device)[0]
		return s.State == notice.StateStopped && slices.Equal(s.StoppedBy, []string{"person"})
	})
	// Later calls are refused, and nothing of them reaches the device.
	further := agent.Ends("a further call", agent.Asks("tool_desktop_keyboard", map[string]any{"action": "type", "text": "typed after the stop\n", "node_id": string(n.ID)}))
	if further.Code != capabilities.CodeNodeNotReady || further.Call == "" {
		t.Errorf("a further call: %+v", further)
	}
	refused := []string{"tool.call.request", "tool.call.decision", "tool.call.failed"}
	desk.Await(t, "the log to show the refusal", func() bool { return slices.Equal(log.kinds(further.Call), refused) })
	stopWatching()
	if got := lines(); !slices.Equal(got, []string{"typed while it was lent"}) {
		t.Errorf("the window got %q", got)
	}

	// The whole story in the gateway's ledger …
	packets := items[ledger.Packet](p, "ledger", "show", "--limit", "1000")
	told := func(call capabilities.CallID, kind string) (body map[string]any) {
		t.Helper()
		for _, x := range packets {
			if x.Call == call && string(x.Kind) == "tool.call."+kind {
				must(t, json.Unmarshal(x.Body, &body))
				if x.Principal != "bot" {
					t.Errorf("the %s of call %s is told of %s", kind, call, x.Principal)
				}
				return body
			}
		}
		t.Fatalf("the ledger has no %s of call %s", kind, call)
		return nil
	}
	grant, _ := told(typed.Call, "decision")["grant"].(string)
	for _, call := range []capabilities.CallID{saw.Call, typed.Call, ended.Call} {
		if body := told(call, "decision"); body["effect"] != "allow" || grant == "" || body["grant"] != grant {
			t.Errorf("call %s was decided %v", call, body)
		}
	}
	if body := told(ended.Call, "failed"); body["code"] != string(capabilities.CodeStopped) {
		t.Errorf("the running call ended as %v", body)
	}
	if body := told(further.Call, "decision"); body["effect"] != "deny" || body["code"] != string(capabilities.CodeNodeNotReady) {
		t.Errorf("the further call was decided %v", body)
	}
	for _, kind := range []string{"gateway.approval.asked", "gateway.approval.answered", "gateway.node.stopped"} {
		if !slices.ContainsFunc(packets, func(x ledger.Packet) bool { return string(x.Kind) == kind }) {
			t.Errorf("the ledger has no %s", kind)
		}
	}
	// … and in the device's own, which is its own witness.
	var mine []string
	for _, r := range nodeLog() {
		switch {
		case r.Call == further.Call:
			t.Errorf("the refused call reached the device: %+v", r)
		case r.Call != "":
			if r.Principal != "bot" && r.Kind == journal.KindStarted {
				t.Errorf("the device has it of %q", r.Principal)
			}
			mine = append(mine, r.Kind+" "+string(r.Call)+" "+string(r.Code))
		case r.Kind == journal.KindStopped:
			mine = append(mine, r.Kind+" at the "+r.By)
		}
	}
	story := []string{
		"call.started " + string(saw.Call) + " ", "call.finished " + string(saw.Call) + " ",
		"call.started " + string(typed.Call) + " ", "call.finished " + string(typed.Call) + " ",
		"call.started " + string(ended.Call) + " ", "node.stopped at the device", "call.finished " + string(ended.Call) + " stopped",
	}
	slices.Sort(mine)
	slices.Sort(story)
	if !slices.Equal(mine, story) {
		t.Errorf("the device's log tells\n%s\nwant\n%s", strings.Join(mine, "\n"), strings.Join(story, "\n"))
	}
	if report := p.does("node", "report", "--data", device); !strings.Contains(report, "bot") || !strings.Contains(report, "stopped, at the device") {
		t.Errorf("the report says\n%s", report)
	}

	// Both chains verify, and once each has seen the other's end they agree.
	p.does("ledger", "verify")
	exported, file := filepath.Join(home, "ledger.jsonl"), filepath.Join(home, "device.jsonl")
	var c ledger.Comparison
	desk.Await(t, "each to have seen the other's end", func() bool {
		p.does("node", "log", "--data", device, "--out", file)
		p.does("ledger", "export", "--out", exported)
		c = items[ledger.Comparison](p, "ledger", "compare", exported, "--node-log", file)[0]
		return c.Unsettled == 0 && c.SeenByNode > 0 && c.Witnessed == uint64(c.NodeEntries)
	})
	if len(c.Differences) > 0 || c.Calls != 3 || c.GatewayOnly != 0 || c.Refused != 0 {
		t.Errorf("the two ledgers: %+v", c)
	}
	p.does("ledger", "verify", exported)
	// They would not, had the end of either been cut off.
	text, err := os.ReadFile(exported)
	must(t, err)
	must(t, os.WriteFile(exported, text[:bytes.LastIndexByte(bytes.TrimSpace(text), '\n')+1], 0o600))
	if out, code := p.tries("", "ledger", "compare", exported, "--node-log", file); code != 7 {
		t.Errorf("a ledger that was cut off: %d %s", code, out)
	}

	// What if? Another policy's answer to what was asked for, without its being in force.
	replay := func() api.PolicyReplay { return items[api.PolicyReplay](p, "policy", "replay")[0] }
	if r := replay(); r.Calls < 3 || r.Same != r.Calls || len(r.Changes) != 0 {
		t.Errorf("under the policy in force: %+v", r)
	}
	must(t, os.WriteFile(filepath.Join(home, "site", "gateway", "policy", "no-typing.cedar"),
		[]byte(`@id("no-typing") forbid (principal, action == Action::"tool.desktop.keyboard", resource);`), 0o600))
	r := replay()
	if r.Same != r.Calls-1 || r.Stricter != 1 || r.Looser != 0 || len(r.Changes) != 1 {
		t.Fatalf("without typing: %+v", r)
	}
	if x := r.Changes[0]; x.Call != typed.Call || x.Was != "ask" || x.Would != "deny" || !slices.Equal(x.Policies, []string{"no-typing"}) {
		t.Errorf("without typing: %+v", x)
	}
}
