package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
)

type logger = *slog.Logger

// demoPage is the page that the first task opens, served on loopback.
type demoPage struct {
	origin string
	server *http.Server
}

const demoHTML = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Handrail is up</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:4rem auto;padding:0 1rem;color:#1d2733;background:#f6f7f9}
h1{font-size:1.8rem}button{font:inherit;padding:.5rem 1rem;border:1px solid #1d2733;border-radius:.4rem;background:#fff;cursor:pointer}
output{display:block;margin-top:1rem;font-weight:600}</style></head>
<body><h1>Handrail is up</h1>
<p>This page was opened by a browser on a paired node, ordered over MCP through the gateway, decided by policy and written to the ledger first.</p>
<label>Your name <input id="name" name="name"></label>
<button id="go" type="button">Say hello</button><output id="out"></output>
<script>document.getElementById("go").addEventListener("click",function(){document.getElementById("out").textContent="Hello, "+(document.getElementById("name").value||"stranger")+"."})</script>
</body></html>`

func serveDemo() (*demoPage, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &demoPage{origin: "http://" + l.Addr().String()}
	p.server = &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(demoHTML))
	})}
	go func() { _ = p.server.Serve(l) }()
	return p, nil
}

func (p *demoPage) close() { _ = p.server.Close() }

// firstTask does what an agent would, as an agent would: over MCP, with the
// agent's token. It opens the page, types a name, presses the button, and keeps
// the picture; on this machine's node, whichever others there are.
func firstTask(ctx context.Context, data datadir.Dir, running datadir.Running, node capabilities.NodeID, page *demoPage, say sayer) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	token, err := remote.ReadToken(data.AgentTokenPath())
	if err != nil {
		return err
	}
	base, pin, err := running.Place()
	if err != nil {
		return err
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "handrail-up", Version: programVersion()}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: running.HTTP + "/mcp", HTTPClient: &http.Client{Transport: viaClient{remote.At(base, token, pin)}},
	}, nil)
	if err != nil {
		return capabilities.Wrap(capabilities.CodeInternal, err, "The gateway's MCP endpoint does not answer: "+err.Error())
	}
	defer session.Close()

	began := time.Now()
	t := task{ctx: ctx, session: session, node: node}
	t.call("tool_browser_navigate", map[string]any{"url": page.origin + "/"})
	t.call("tool_browser_type", map[string]any{"selector": "#name", "text": "world"})
	t.call("tool_browser_click", map[string]any{"selector": "#go"})
	snapshot := t.call("tool_browser_snapshot", map[string]any{})
	picture := t.call("tool_browser_screenshot", map[string]any{})
	if t.err != nil {
		return t.err
	}
	var outline struct {
		Snapshot string `json:"snapshot"`
	}
	if err := remarshal(snapshot.StructuredContent, &outline); err != nil {
		return err
	}
	path, err := savePicture(data, picture)
	if err != nil {
		return err
	}
	took := time.Since(began)
	say.event(map[string]any{"event": "task", "snapshot": outline.Snapshot, "screenshot": path, "duration_ms": took.Milliseconds()})
	say.line("first task: opened this program's own page (%s, which %s of the policy allows for %s), typed, clicked, looked, in %d ms\n",
		page.origin, upOriginRules, capabilities.Spoken(demoRulesFor), took.Milliseconds())
	say.line("%s", terminal.PlainBlock(outline.Snapshot))
	say.line("\nscreenshot: %s", path)
	return nil
}

// task calls one tool after the other on a node until one fails.
type task struct {
	//lint:ignore containedctx one task, as a value
	ctx     context.Context
	session *mcp.ClientSession
	node    capabilities.NodeID
	err     error
}

func (t *task) call(name string, args map[string]any) *mcp.CallToolResult {
	if t.err != nil {
		return nil
	}
	args["node_id"] = t.node
	result, err := t.session.CallTool(t.ctx, &mcp.CallToolParams{Name: name, Arguments: args})
	switch {
	case err != nil:
		// A tool that is not listed is one that this node cannot do now.
		t.err = command.Advise(capabilities.Errorf(capabilities.CodeNodeNotReady, "%s: %v", name, err),
			command.Here("doctor"), " says why the node cannot do it.")
	case result.IsError:
		e := &capabilities.Error{Code: capabilities.CodeExecutionFailed, Message: name + " failed"}
		var body struct {
			Error struct {
				Code    capabilities.Code `json:"code"`
				Message string            `json:"message"`
				Hint    string            `json:"hint"`
			} `json:"error"`
		}
		if remarshal(result.StructuredContent, &body) == nil && body.Error.Code != "" {
			e = &capabilities.Error{Code: body.Error.Code, Message: name + ": " + body.Error.Message, Hint: body.Error.Hint}
		} else if len(result.Content) > 0 {
			if text, ok := result.Content[0].(*mcp.TextContent); ok {
				e.Message += ": " + text.Text
			}
		}
		t.err = e
	}
	return result
}

func savePicture(data datadir.Dir, result *mcp.CallToolResult) (string, error) {
	for _, content := range result.Content {
		image, ok := content.(*mcp.ImageContent)
		if !ok {
			continue
		}
		dir := filepath.Join(string(data), "first-task")
		if err := data.Make(dir); err != nil {
			return "", err
		}
		path := filepath.Join(dir, "screenshot.png")
		return path, os.WriteFile(path, image.Data, 0o600)
	}
	return "", capabilities.Errorf(capabilities.CodeExecutionFailed, "the screenshot came without a picture")
}

func remarshal(from, into any) error {
	b, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}

// viaClient sends with a client's token and by its way of knowing the gateway.
type viaClient struct{ *remote.Gateway }

// RoundTrip implements http.RoundTripper.
func (v viaClient) RoundTrip(r *http.Request) (*http.Response, error) {
	return v.Send(r.Clone(r.Context()))
}
