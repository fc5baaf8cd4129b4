package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser"
	"github.com/handrail-dev/handrail/platform/chrome"
	"github.com/handrail-dev/handrail/platform/procguard"
	"github.com/handrail-dev/handrail/test/bench/figures"
)

// smallPage has 27 elements in its body.
const smallPage = `<!doctype html><title>Small page</title><body>
<h1>Orders</h1>
<nav><a href="#a">Open</a><a href="#b">Closed</a><a href="#c">All</a></nav>
<form><label for="q">Search</label><input id="q"><select id="s"><option>Newest</option><option>Oldest</option></select>
<label for="p">Only mine</label><input id="p" type="checkbox"></form>
<button id="save" type="button" onclick="count.textContent=++n">Save</button><output id="count">0</output>
<ul><li>One</li><li>Two</li><li>Three</li><li>Four</li><li>Five</li></ul>
<p>Some <b>text</b> with a <a href="#d">link</a>.</p>
<footer><small>The end</small><span id="time"></span></footer>
<script>var n=0</script></body>`

// browserCalls are what is measured, with its target through MCP.
var browserCalls = []struct {
	tool  string
	args  string
	limit float64
}{
	{"evaluate", `{"expression":"1+1"}`, 5},
	{"click", `{"selector":"#save"}`, 35},
	{"snapshot", `{}`, 10},
}

func openPage() json.RawMessage {
	args, err := json.Marshal(map[string]string{"url": "data:text/html," + url.PathEscape(smallPage)})
	if err != nil {
		panic(err) // strings
	}
	return args
}

// browser measures tools on a real Chrome through the real binary and MCP, beside
// the handler alone on a Chrome of its own.
func (b *bench) browser() error {
	program, err := b.program()
	if err != nil {
		return err
	}
	data, err := b.sub("up")
	if err != nil {
		return err
	}
	up, err := start(program, "up", "--browser-sandbox", "auto", "--no-task", "--data", data, "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer up.end()
	ready, err := up.await("ready")
	if err != nil {
		return err
	}
	token, err := os.ReadFile(ready.TokenFile)
	if err != nil {
		return err
	}
	caller, err := spawn("caller", nil, nil)
	if err != nil {
		return err
	}
	defer caller.end()
	alone, err := spawn("browser", nil, nil)
	if err != nil {
		return err
	}
	defer alone.end()
	for _, c := range browserCalls {
		through := &subject{by: caller, measure: measure{Callers: 1, MS: b.ms, Target: target{
			Kind: "mcp", URL: ready.MCP, Token: strings.TrimSpace(string(token)), Revision: "2025-11-25",
			Before: []step{{"tool_browser_navigate", openPage()}}, Tool: "tool_browser_" + c.tool, Args: json.RawMessage(c.args),
		}}}
		handler := &subject{by: alone, measure: measure{Callers: 1, MS: b.ms, Target: target{Tool: c.tool, Args: json.RawMessage(c.args)}}}
		if err := b.alternate(through, handler); err != nil {
			return err
		}
		b.report.add(row{
			Part: "Chrome through MCP, gateway, QUIC and node, on a page of 27 elements", What: c.tool + ", p50",
			Value: figures.Median(through.rounds.of(p50)) / 1000, Unit: "ms", Limit: c.limit,
			Note: fmt.Sprintf("the handler alone %.1f ms; p99 %.1f ms", figures.Median(handler.rounds.of(p50))/1000,
				figures.Median(through.rounds.of(p99))/1000),
		})
	}
	return nil
}

// browserRole is the browser handler with a Chrome and nothing around it.
func browserRole(json.RawMessage) (any, func(json.RawMessage) (any, error), func(), error) {
	finder := chrome.New(chrome.Options{})
	o := browser.Options{Finder: finder, Launcher: procguard.New(procguard.Options{Log: quiet()}), Log: quiet()}
	if found, err := finder.Find(context.Background()); err == nil && found.NoSandbox != "" {
		o.Sandbox = browser.SandboxOff
	}
	h, err := browser.New(o)
	if err != nil {
		return nil, nil, nil, err
	}
	stop := func() { _ = h.Close() }
	call := func(ctx context.Context, tool string, args json.RawMessage) error {
		_, err := h.Handle(ctx, capabilities.Invocation{
			Call: "c", Capability: capabilities.CapabilityID("tyrum.browser." + tool), Lane: "bench", Args: args,
			Progress: func(capabilities.Progress) {}, Observe: func(string, string) {},
		})
		return err
	}
	if err := call(context.Background(), "navigate", openPage()); err != nil {
		return nil, nil, stop, err
	}
	return struct{}{}, func(raw json.RawMessage) (any, error) {
		var m measure
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, err
		}
		return m.run(func() (operation, func(), error) {
			return func(ctx context.Context) error { return call(ctx, m.Target.Tool, m.Target.Args) }, func() {}, nil
		})
	}, stop, nil
}
