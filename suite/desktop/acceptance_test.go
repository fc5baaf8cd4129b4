package desktop_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	handler "github.com/handrail-dev/handrail/capabilities/desktop"
	"github.com/handrail-dev/handrail/gateway/principal"
	opener "github.com/handrail-dev/handrail/platform/desktop"
	"github.com/handrail-dev/handrail/suite"
	"github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// agent is an MCP client that has only the desktop's tools.
type agent struct {
	t    *testing.T
	lane *suite.Lane
}

func newAgent(t *testing.T, o suite.Options) *agent {
	t.Helper()
	lane, err := suite.Dial(t.Context(), o, "new-user", "desktop")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lane.Close() })
	return &agent{t, lane}
}

type obj = map[string]any

// do makes a call that has to succeed.
func (a *agent) do(tool string, args obj) *suite.Call {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), desk.Within)
	defer cancel()
	c, err := a.lane.Call(ctx, tool, args)
	if err != nil {
		a.t.Fatalf("%s %v: %v", tool, args, err)
	}
	if c.Code != "" {
		a.t.Fatalf("%s %v: %s: %s %s", tool, args, c.Code, c.Message, c.Hint)
	}
	return c
}

func (a *agent) act(target, kind string, more obj) *suite.Call {
	a.t.Helper()
	do := obj{"kind": kind}
	for k, v := range more {
		do[k] = v
	}
	args := obj{"action": do}
	if target != "" {
		args["target"] = target
	}
	return a.do("act", args)
}

func (a *agent) launch(app string, window string, args ...any) int {
	a.t.Helper()
	do := obj{"kind": "launch", "app": app}
	if len(args) > 0 {
		do["args"] = args
	}
	c := a.do("act", obj{"action": do, "then_wait": obj{"window": window, "timeout_ms": 40000}})
	wait, _ := c.Result["wait"].(map[string]any)
	if wait["status"] != "satisfied" {
		a.t.Fatalf("%s shows no window %q: %v", app, window, c.Result)
	}
	pid, _ := c.Result["pid"].(float64)
	a.t.Cleanup(func() { end(int(pid)) })
	return int(pid)
}

// end ends a program that the test had the node start.
func end(pid int) {
	if p, err := os.FindProcess(pid); err == nil && pid > 0 {
		_ = p.Kill()
	}
}

// reads waits until a query of one element has a value.
func (a *agent) reads(selector, want string) {
	a.t.Helper()
	var got any
	desk.Await(a.t, fmt.Sprintf("%s to show %q", selector, want), func() bool {
		c := a.do("query", obj{"selector": selector})
		matches, _ := c.Result["matches"].([]any)
		if len(matches) == 0 {
			got = c.Result
			return false
		}
		node, _ := matches[0].(map[string]any)["node"].(map[string]any)
		got = node["value"]
		return got == want
	})
}

// As a new user would: open the calculator, compute, read the result and write it
// into a text editor, by elements only.
func TestCalculatorByElements(t *testing.T) {
	d := desk.StartX(t, desk.Options{})
	desk.Need(t, "gnome-calculator", "mousepad")
	a := newAgent(t, start(t, d).Options)
	a.launch("gnome-calculator", "Calculator")
	const calculator = `window:"Calculator" >> `
	// Versions of GTK differ in how they name a button with a label.
	key := func(name string) string {
		return calculator + fmt.Sprintf("role:button && (name:%q || name:%q)", name, name+" "+name)
	}
	a.do("wait-for", obj{"selector": key("1"), "state": "visible"})
	for _, name := range []string{"1", "2", "×", "3", "4", "="} {
		a.act(key(name), "click", nil)
	}
	const display = calculator + "role:textbox && !state:readonly"
	a.reads(display, "408")
	c := a.do("query", obj{"selector": display})
	node, _ := c.Result["matches"].([]any)[0].(map[string]any)["node"].(map[string]any)
	result, _ := node["value"].(string)

	a.write(d, result)
}

// write puts a text into an editor, reads it back there and saves it.
func (a *agent) write(d *desk.Desk, text string) {
	a.t.Helper()
	file := filepath.Join(d.Home, "result.txt")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		a.t.Fatal(err)
	}
	a.launch("mousepad", "result.txt", "--disable-server", file)
	const page = `window~:"result.txt" >> role:textbox && state:multiline`
	a.do("wait-for", obj{"selector": page, "state": "visible"})
	if c := a.act(page, "set_value", obj{"value": text}); c.Effect != capabilities.EffectConfirmed {
		a.t.Errorf("the text was not read back: %s, %s", c.Effect, c.Evidence)
	}
	a.reads(page, text)
	a.act(`window~:"result.txt"`, "menu", obj{"path": []any{"File", "Save"}})
	saved(a.t, file, text)
}

func saved(t *testing.T, file, want string) {
	t.Helper()
	desk.Await(t, fmt.Sprintf("%s to hold %q", file, want), func() bool {
		data, err := os.ReadFile(file)
		return err == nil && strings.TrimSpace(string(data)) == want
	})
}

// The same by pixels only: images, the mouse at places in them, and the keyboard.
func TestCalculatorByPixels(t *testing.T) {
	d := desk.StartX(t, desk.Options{})
	desk.Need(t, "gnome-calculator", "mousepad")
	a := newAgent(t, start(t, d).Options)
	file := filepath.Join(d.Home, "result.txt")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// A text cursor that blinks is a change, too.
	for _, version := range []string{"gtk-3.0", "gtk-4.0"} {
		dir := filepath.Join(d.Home, ".config", version)
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "settings.ini"), []byte("[Settings]\ngtk-cursor-blink=0\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	a.launch("gnome-calculator", "Calculator")
	a.click("Calculator", 0.5, 0.4, nil) // the line that is computed
	a.do("keyboard", obj{"action": "type", "text": "12*34"})
	a.changes("Calculator", 0.05, 0.12, 0.9, 0.22, func() { a.click("Calculator", 0.87, 0.85, nil) }) // the key "=" adds a line above
	// The result is taken as a person takes it who does not want to type it again:
	// selected by three clicks, and put down by the middle button.
	a.click("Calculator", 0.12, 0.38, obj{"count": 3})
	a.launch("mousepad", "result.txt", "--disable-server", file)
	a.click("result.txt", 0.5, 0.6, nil)
	a.changes("result.txt", 0.01, 0.1, 0.3, 0.3, func() { a.click("result.txt", 0.5, 0.6, obj{"button": "middle"}) }) // the text comes when its owner gave it
	a.do("keyboard", obj{"action": "press", "key": "Control+s"})
	saved(t, file, "408")
}

// rest waits until a window's image has come to rest, and returns it.
func (a *agent) rest(window string) *suite.Call {
	a.t.Helper()
	var c *suite.Call
	for deadline := time.Now().Add(desk.Within); ; {
		c = a.do("screenshot", obj{"display": "primary", "window": window})
		again := a.do("screenshot", obj{"display": "primary", "window": window, "if_changed_since": c.Result["frame_id"]})
		if again.Result["unchanged"] == true || time.Now().After(deadline) {
			return c
		}
	}
}

// changes does something and waits until a part of a window's image, given in parts of
// its size, is another one.
func (a *agent) changes(window string, x, y, width, height float64, do func()) {
	a.t.Helper()
	c := a.rest(window)
	w, _ := c.Result["width"].(float64)
	h, _ := c.Result["height"].(float64)
	args := obj{"display": "primary", "region": obj{"x": w * x, "y": h * y, "width": w * width, "height": h * height, "frame_id": c.Result["frame_id"]}}
	args["if_changed_since"] = a.do("screenshot", args).Result["frame_id"]
	do()
	desk.Await(a.t, "a change in "+window, func() bool { return a.do("screenshot", args).Result["unchanged"] != true })
	a.rest(window)
}

// click clicks at a part of a window's image, once the window has come to rest.
func (a *agent) click(window string, x, y float64, how obj) {
	a.t.Helper()
	c := a.rest(window)
	width, _ := c.Result["width"].(float64)
	height, _ := c.Result["height"].(float64)
	args := obj{"action": "click", "x": width * x, "y": height * y, "frame_id": c.Result["frame_id"]}
	for k, v := range how {
		args[k] = v
	}
	a.do("mouse", args)
}

// The policy that is shipped asks about every tool of the family, and as nobody
// can be asked yet, none of them runs.
func TestShippedPolicyAsks(t *testing.T) {
	d := desk.StartX(t, desk.Options{})
	log := slog.New(slog.DiscardHandler)
	o := opener.New(opener.Options{Log: log, Getenv: d.Getenv})
	t.Cleanup(func() { _ = o.Close() })
	h, err := handler.New(handler.Options{Opener: o})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	s := site.Start(t, site.Options{Rules: site.Rules})
	s.AddNode("desk", h).AwaitReady(h.Capabilities()...)
	a := newAgent(t, suite.Options{URL: s.URL() + "/mcp", Token: s.MustToken("agent", principal.RoleAgent)})
	for tool, args := range map[string]obj{
		"screenshot": {"display": "primary"}, "snapshot": {}, "query": {"selector": "role:button"}, "wait-for": {"window": "x"},
		"act": {"action": obj{"kind": "launch", "app": "xterm"}}, "mouse": {"action": "click", "x": 1, "y": 1}, "keyboard": {"action": "type", "text": "x"},
	} {
		c, err := a.lane.Call(t.Context(), tool, args)
		if err != nil || c.Code != capabilities.CodeConsentUnavailable {
			t.Errorf("%s: %v %s %s, want consent_unavailable", tool, err, c.Code, c.Message)
		}
	}
	if got := d.Windows(); len(got) != 0 {
		t.Errorf("there are windows: %+v", got)
	}
}
