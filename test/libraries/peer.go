package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/chrome"
	"github.com/handrail-dev/handrail/suite"
)

// playwright carries the suite's calls out by the tools of Playwright MCP, with its coordinates
// switched on. One of our calls is several of theirs where theirs do less by themselves.
type playwright struct {
	session *mcp.ClientSession
	lines   map[string]string // of the last snapshot, by ref: they say what a field is
}

// openPlaywright returns what starts one server for a conversation.
func openPlaywright(folder string) func(ctx context.Context, name string) (suite.Tools, error) {
	return func(ctx context.Context, _ string) (suite.Tools, error) {
		b, err := chrome.New(chrome.Options{}).Find(ctx)
		if err != nil {
			return nil, err
		}
		dir, err := os.MkdirTemp("", "handrail-peer-")
		if err != nil {
			return nil, err
		}
		program := filepath.Join(folder, "node_modules", "@playwright", "mcp", "cli.js")
		cmd := exec.Command("node", append([]string{program}, peerArgs(b, dir)...)...)
		cmd.Dir = dir
		client := mcp.NewClient(&mcp.Implementation{Name: "handrail-suite", Version: "1"}, nil)
		session, err := client.Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("Playwright MCP: %w", err), os.RemoveAll(dir))
		}
		return &peerFolder{playwright{session: session}, dir}, nil
	}
}

// peerFolder is a conversation with a folder of its own.
type peerFolder struct {
	playwright
	dir string
}

// Close ends the server and removes its folder.
func (p *peerFolder) Close() error { return errors.Join(p.session.Close(), os.RemoveAll(p.dir)) }

func peerArgs(b platform.Browser, dir string) []string {
	args := []string{"--headless", "--isolated", "--executable-path", b.Path, "--viewport-size", "1280x720",
		"--caps", "vision", "--output-dir", dir}
	if b.NoSandbox != "" || b.RunAs != nil {
		args = append(args, "--no-sandbox")
	}
	return args
}

// peerVersion reads which version lies in a folder.
func peerVersion(folder string) (string, error) {
	data, err := os.ReadFile(filepath.Join(folder, "node_modules", "@playwright", "mcp", "package.json"))
	if err != nil {
		return "", err
	}
	var about struct{ Version string }
	return "Playwright MCP " + about.Version, json.Unmarshal(data, &about)
}

// errNoTool: the peer has no tool for a call.
var errNoTool = errors.New("the peer has no tool for it")

type obj = map[string]any

// theirs is one call of the peer's.
type theirs struct {
	tool string
	args obj
}

// Call carries one of our calls out.
func (p *playwright) Call(ctx context.Context, tool string, args map[string]any) (*suite.Call, error) {
	c := &suite.Call{Tool: tool, Args: args, Sent: time.Now(), Result: obj{}}
	steps, err := p.steps(tool, args)
	if args["snapshot"] != nil {
		steps = append(steps, theirs{"browser_snapshot", obj{}}) // their own answer has a file's name
	}
	for _, s := range steps {
		if err != nil {
			break
		}
		var text string
		if text, err = p.one(ctx, s); err == nil {
			c.Text += text
			err = p.read(c, s, text)
		}
	}
	c.Answered = time.Now()
	var failed refusedError
	switch {
	case err == nil:
		return c, nil
	case errors.As(err, &failed) || errors.Is(err, errNoTool):
		c.Text += err.Error()
		c.Code, c.Message, c.Hint, c.Result = capabilities.CodeExecutionFailed, err.Error(), "-", nil
		return c, nil
	}
	return c, err
}

// refusedError is what a tool of the peer's said when it failed.
type refusedError struct{ text string }

func (e refusedError) Error() string { return e.text }

func (p *playwright) one(ctx context.Context, s theirs) (string, error) {
	r, err := p.session.CallTool(ctx, &mcp.CallToolParams{Name: s.tool, Arguments: s.args})
	if err != nil {
		return "", err
	}
	text := ""
	for _, content := range r.Content {
		if x, ok := content.(*mcp.TextContent); ok {
			text += x.Text
		}
	}
	if r.IsError {
		return "", refusedError{text}
	}
	return text, nil
}

var (
	refPattern    = regexp.MustCompile(`\[ref=([^\]]+)\]`)
	resultPattern = regexp.MustCompile(`(?s)### Result\n(.*?)(?:\n### |$)`)
)

// read puts what the peer answered where our steps look for it.
func (p *playwright) read(c *suite.Call, s theirs, text string) error {
	switch s.tool {
	case "browser_snapshot":
		p.lines = map[string]string{}
		last := ""
		for line := range strings.SplitSeq(text, "\n") {
			if m := refPattern.FindStringSubmatch(line); m != nil {
				last = m[1]
				p.lines[last] = line
			} else if strings.Contains(line, "- option ") {
				p.lines[last] += " option" // below what is chosen from
			}
		}
		c.Result["snapshot"] = text
	case "browser_evaluate":
		m := resultPattern.FindStringSubmatch(text)
		if m == nil {
			return fmt.Errorf("no result in %.300q", text)
		}
		var encoded string
		if err := json.Unmarshal([]byte(strings.TrimSpace(m[1])), &encoded); err != nil {
			c.Result["result"] = nil // undefined
			return nil
		}
		var v any
		if err := json.Unmarshal([]byte(encoded), &v); err != nil {
			return err
		}
		c.Result["result"] = v
	}
	return nil
}

// steps are the peer's calls for one of ours.
func (p *playwright) steps(tool string, args obj) ([]theirs, error) {
	target, aimed := args["ref"], args["ref"] != nil
	if !aimed {
		target, aimed = args["selector"], args["selector"] != nil
	}
	switch tool {
	case "launch":
		return nil, nil
	case "close":
		return []theirs{{"browser_close", obj{}}}, nil
	case "navigate":
		return []theirs{{"browser_navigate", obj{"url": args["url"]}}}, nil
	case "navigate-back":
		return []theirs{{"browser_navigate_back", obj{}}}, nil
	case "snapshot", "read":
		return []theirs{{"browser_snapshot", obj{}}}, nil
	case "evaluate":
		return []theirs{{"browser_evaluate", obj{"function": fmt.Sprintf("async () => JSON.stringify(await (%s))", args["expression"])}}}, nil
	case "wait-for":
		if text, ok := args["text"]; ok {
			return []theirs{{"browser_wait_for", obj{"text": text}}}, nil
		}
	case "handle-dialog":
		return []theirs{{"browser_handle_dialog", obj{"accept": args["accept"]}}}, nil
	case "upload-file":
		return []theirs{{"browser_file_upload", obj{"paths": args["paths"]}}}, nil
	case "press-key":
		return p.keys(target, aimed, args)
	case "click":
		if aimed {
			a := obj{"target": target, "doubleClick": number(args["count"], 1) == 2}
			copyTo(a, args, "button", "modifiers")
			return []theirs{{"browser_click", a}}, nil
		}
		a := obj{"x": args["x"], "y": args["y"], "clickCount": number(args["count"], 1)}
		copyTo(a, args, "button")
		return []theirs{{"browser_mouse_click_xy", a}}, nil
	case "type":
		return p.typing(target, aimed, args)
	case "fill-form":
		fields := []any{}
		if aimed {
			fields = append(fields, p.field(target, args["value"]))
		}
		list, _ := args["fields"].([]any)
		for _, f := range list {
			one, _ := f.(obj)
			fields = append(fields, p.field(one["ref"], one["value"]))
		}
		return []theirs{{"browser_fill_form", obj{"fields": fields}}}, nil
	case "select-option":
		if aimed {
			return []theirs{{"browser_select_option", obj{"target": target, "values": args["values"]}}}, nil
		}
	case "hover":
		return hovering(target, aimed, args), nil
	case "drag":
		return dragging(args)
	}
	return nil, fmt.Errorf("%s: %w", tool, errNoTool)
}

func copyTo(to, from obj, names ...string) {
	for _, name := range names {
		if v, ok := from[name]; ok {
			to[name] = v
		}
	}
}

func number(v any, otherwise int) int {
	switch v := v.(type) {
	case int:
		return v
	case float64:
		return int(v)
	}
	return otherwise
}

// keys presses a chord, by a focus of its own where an element is named.
func (p *playwright) keys(target any, aimed bool, args obj) ([]theirs, error) {
	chord := fmt.Sprint(args["key"])
	if held, ok := args["modifiers"].([]any); ok {
		for _, m := range held {
			chord = fmt.Sprint(m) + "+" + chord
		}
	}
	var steps []theirs
	if aimed {
		steps = append(steps, theirs{"browser_evaluate", obj{"target": target, "function": "e => { e.focus(); return '\"focused\"' }"}})
	}
	for range number(args["count"], 1) {
		steps = append(steps, theirs{"browser_press_key", obj{"key": chord}})
	}
	return steps, nil
}

// typing adds text key by key, as ours does where something listens. Their own default replaces
// what is there.
func (p *playwright) typing(target any, aimed bool, args obj) ([]theirs, error) {
	text, _ := args["text"].(string)
	if !aimed {
		var steps []theirs
		for _, r := range text {
			steps = append(steps, theirs{"browser_press_key", obj{"key": string(r)}})
		}
		return steps, nil
	}
	clear, _ := args["clear"].(bool)
	a := obj{"target": target, "text": text, "slowly": !clear}
	copyTo(a, args, "submit")
	return []theirs{{"browser_type", a}}, nil
}

// field words a field as theirs, by what the snapshot or the value says that it is.
func (p *playwright) field(target, value any) obj {
	text := fmt.Sprint(value)
	kind := "textbox"
	line := p.lines[fmt.Sprint(target)]
	for _, role := range []string{"checkbox", "radio", "combobox", "slider"} {
		if strings.Contains(line, "- "+role) {
			kind = role
		}
	}
	if strings.Contains(line, "- switch") || line == "" && (text == "true" || text == "false") {
		kind = "checkbox"
	}
	// A box of choices that takes text is filled as one.
	if kind == "combobox" && !strings.Contains(line, "option") {
		kind = "textbox"
	}
	return obj{"target": target, "name": "the field", "element": "the field", "type": kind, "value": text}
}

func hovering(target any, aimed bool, args obj) []theirs {
	var steps []theirs
	if aimed {
		steps = append(steps, theirs{"browser_hover", obj{"target": target}})
	} else {
		steps = append(steps, theirs{"browser_mouse_move_xy", obj{"x": args["x"], "y": args["y"]}})
	}
	x, y := number(args["wheel_x"], 0), number(args["wheel_y"], 0)
	if x != 0 || y != 0 {
		steps = append(steps, theirs{"browser_mouse_wheel", obj{"deltaX": x, "deltaY": y}})
	}
	return steps
}

// dragging drags between elements, or along a path by the mouse's own tools.
func dragging(args obj) ([]theirs, error) {
	if path, ok := args["path"].([]any); ok {
		var steps []theirs
		for i, at := range path {
			point, _ := at.(obj)
			steps = append(steps, theirs{"browser_mouse_move_xy", obj{"x": point["x"], "y": point["y"]}})
			if i == 0 {
				steps = append(steps, theirs{"browser_mouse_down", obj{}})
			}
		}
		return append(steps, theirs{"browser_mouse_up", obj{}}), nil
	}
	ends := [2]any{}
	for i, side := range []string{"source", "target"} {
		if ends[i] = args[side+"_ref"]; ends[i] == nil {
			ends[i] = args[side+"_selector"]
		}
	}
	if ends[0] == nil || ends[1] == nil {
		return nil, fmt.Errorf("drag: %w", errNoTool)
	}
	return []theirs{{"browser_drag", obj{"startTarget": ends[0], "endTarget": ends[1]}}}, nil
}
