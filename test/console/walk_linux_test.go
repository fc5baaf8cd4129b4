package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	screen "github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// walk is a person with a phone's screen and a keyboard, before a machine on which
// there is nothing but the program.
type walk struct {
	*browser
	program string
	env     []string
}

// run runs a command of the program to its end, and returns what it printed.
func (w *walk) command(in string, args ...string) string {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), w.program, args...)
	cmd.Env, cmd.Stdin = w.env, strings.NewReader(in)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		w.t.Fatalf("handrail %s: %v\n%s%s", strings.Join(args, " "), err, out.String(), said.String())
	}
	return strings.TrimSpace(out.String())
}

// start runs a command that stays until the test ends.
func (w *walk) start(args ...string) {
	w.t.Helper()
	cmd := exec.Command(w.program, args...)
	cmd.Env = w.env
	screen.Stay(w.t, cmd)
}

// reach goes Tab by Tab to what an expression says of document.activeElement, which is
// seen to have the focus, and presses Enter there.
func (w *walk) reach(what string) {
	w.t.Helper()
	for range 80 {
		if w.value("(e => "+what+")(document.activeElement)") == "true" {
			if !w.focusSeen() {
				w.t.Errorf("the focus is not seen on %s", w.value("document.activeElement.outerHTML.slice(0, 200)"))
			}
			w.key("Enter")
			return
		}
		w.key("Tab")
	}
	w.t.Fatalf("the keyboard does not reach %s\n%s", what, w.value("document.body.innerText"))
}

// stays marks the page, and returns a check that it is the same one still: nobody reloaded it.
func (w *walk) stays() func() {
	w.t.Helper()
	must(w.t, w.run("window.stays = true", nil))
	return func() {
		w.t.Helper()
		if w.value("window.stays === true") != "true" {
			w.t.Error("the page was loaded anew")
		}
	}
}

// page goes to a page by the menu.
func (w *walk) page(name, address string) {
	w.t.Helper()
	w.reach(`e.closest("nav") !== null && e.textContent.startsWith("` + name + `")`)
	w.await(`location.pathname === "` + address + `" && document.readyState === "complete"`)
}

// shot looks at the page as it is now: all of it fits the phone's width, axe-core finds
// nothing serious, and its picture is kept.
func (w *walk) shot(name string) {
	w.t.Helper()
	if wide := w.wider(); wide != "" {
		w.t.Errorf("%s: %s", name, wide)
	}
	w.accessible("walk " + name)
	if folder := os.Getenv("HANDRAIL_SHOTS"); folder != "" {
		must(w.t, os.WriteFile(filepath.Join(folder, "walk-"+name+".png"), w.picture(), 0o600))
	}
}

// From a bare machine, on a phone's width, by keyboard alone: pair a node, connect a
// client, approve five minutes, watch each call appear, open one and understand it,
// stop everything.
func TestFromABareMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a desktop, a Chrome and the program")
	}
	d := screen.StartX(t, screen.Options{})
	home := t.TempDir()
	w := &walk{program: filepath.Join(home, "handrail"), env: append(d.Env, "HOME="+home, "HANDRAIL_DATA="+filepath.Join(home, "site"), "PATH="+os.Getenv("PATH"))}
	w.browser = &browser{t: t}
	site.Program(t, w.program)
	w.start("gateway", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--json")
	link := w.command("", "login")
	w.browser = startChrome(t)
	w.look(390, 844, false)
	w.open(link)
	w.await(`location.pathname === "/console/" && document.body.innerText.includes("No question waits")`)
	w.shot("signed-in")

	// Pair a node.
	w.page("Devices", "/console/nodes")
	w.reach(`e.closest("form[action='/console/pair']") !== null && e.tagName === "BUTTON"`)
	w.await(`document.querySelector(".paste svg.qr") && document.querySelector(".paste code")`)
	w.shot("paste")
	paste := w.value(`[...document.querySelectorAll(".paste code")].map(e => e.textContent).find(s => s.startsWith("hr1:"))`)
	device := filepath.Join(home, "device")
	joined := make(chan struct{})
	go func() {
		defer close(joined)
		w.command(paste+"\n", "node", "join", "--data", device)
	}()
	w.await(`document.body.innerText.includes("Wants to join")`)
	w.reach(`e.matches("button[value=approve]")`)
	<-joined
	w.start("node", "--data", device, "--json")
	w.await(`!document.body.innerText.includes("Wants to join") && /\d+ of \d+ capabilities ready/.test(document.body.innerText)`)
	w.shot("devices")

	// Connect a client, and use it as the client would.
	w.command("", "connect", "claude-code", "--file", filepath.Join(home, "claude.json"))
	var entry struct {
		Servers map[string]struct {
			Command string   `json:"command"`
			Args    []string `json:"args"`
		} `json:"mcpServers"`
	}
	text, err := os.ReadFile(filepath.Join(home, "claude.json"))
	must(t, err)
	must(t, json.Unmarshal(text, &entry))
	server := exec.Command(entry.Servers["handrail"].Command, entry.Servers["handrail"].Args...)
	server.Env = w.env
	session, err := mcp.NewClient(&mcp.Implementation{Name: "walk", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: server}, nil)
	must(t, err)
	defer session.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	look := func() <-chan *mcp.CallToolResult {
		done := make(chan *mcp.CallToolResult, 1)
		go func() {
			r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "tool_desktop_screenshot", Arguments: map[string]any{"display": "primary"}})
			if err != nil {
				r = &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}}
			}
			done <- r
		}()
		return done
	}
	result := func(done <-chan *mcp.CallToolResult) string {
		t.Helper()
		select {
		case r := <-done:
			text, _ := json.Marshal(r)
			return map[bool]string{true: "refused ", false: "done "}[r.IsError] + string(text[:min(len(text), 600)])
		case <-time.After(within):
			t.Fatalf("the call has no result\n%s", w.value("document.body.innerText"))
			return ""
		}
	}

	// Approve five minutes.
	w.page("Approvals", "/console/approvals")
	same := w.stays()
	first := look()
	for w.value(`document.querySelectorAll("[data-question]").length`) != "1" {
		select {
		case r := <-first:
			text, _ := json.Marshal(r)
			t.Fatalf("nobody was asked: %s", text)
		case <-time.After(50 * time.Millisecond):
		}
	}
	w.await(`document.querySelectorAll("[data-question]").length === 1 && !("settling" in document.body.dataset)`)
	same()
	w.shot("question")
	w.key("j")
	w.await(`document.activeElement.matches("[data-question]")`)
	w.key("f")
	if got := result(first); !strings.HasPrefix(got, "done") {
		t.Fatalf("after five minutes were approved: %s", got)
	}

	// Watch each call appear.
	w.page("Calls", "/console/calls")
	w.await(`document.querySelectorAll("tbody tr").length === 1`)
	same = w.stays()
	for n := 2; n <= 3; n++ {
		if got := result(look()); !strings.HasPrefix(got, "done") {
			t.Fatalf("call %d of the five minutes: %s", n, got)
		}
		w.await(fmt.Sprintf(`document.querySelectorAll("tbody tr").length === %d && document.querySelector("tbody tr").innerText.includes("done")`, n))
	}
	same()
	w.shot("calls")

	// Open one and understand it.
	w.reach(`e.matches("tbody tr:first-child a[href*='/console/calls/']")`)
	w.await(`document.querySelectorAll(".hops > li").length === 12`)
	page := w.value(`document.getElementById("main").innerText`)
	for _, want := range []string{"tool.desktop.screenshot", "claude-code", "data.read.screen", "policy", "tool.call.result"} {
		if !strings.Contains(strings.ToLower(page), want) {
			t.Errorf("the call's page does not say %q:\n%s", want, page)
		}
	}
	w.shot("call")

	// Stop everything, by the button that is on every page.
	w.reach(`e.id === "stop"`)
	w.await(`document.body.innerText.includes("Everything is stopped")`)
	w.shot("stopped")
	if got := result(look()); !strings.HasPrefix(got, "refused") || !strings.Contains(got, "stopped") {
		t.Errorf("after everything was stopped: %s", got)
	}
	w.quiet()
}
