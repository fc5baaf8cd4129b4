package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/handrail-dev/handrail/platform"
)

// peer is another browser tool for agents, as its npm package installs it.
type peer struct {
	called string
	pkg    string // below node_modules
	node   bool   // runs in Node.js
	bin    string // of the package's "bin", where there are several
	args   func(b platform.Browser) []string
	env    func(b platform.Browser, dir string) []string
	words  dialect
}

var peers = []peer{
	{
		called: "Playwright MCP", pkg: "@playwright/mcp", node: true,
		args: func(b platform.Browser) []string {
			args := []string{"--headless", "--isolated", "--executable-path", b.Path, "--viewport-size", "1280x720"}
			if sandboxless(b) {
				args = append(args, "--no-sandbox")
			}
			return args
		},
		words: dialect{
			navigate: func(url string) step { return step{"browser_navigate", object{"url": url}} },
			evaluate: func(x string) step { return step{"browser_evaluate", object{"function": "() => (" + x + ")"}} },
			snapshot: step{"browser_snapshot", object{}},
			tabs:     step{"browser_tabs", object{"action": "list"}},
			shot:     step{"browser_take_screenshot", object{"type": "png", "scale": "css"}},
			act: func(op operation, ref func(string) string, i int) []step {
				switch op {
				case opClick:
					return []step{{"browser_click", object{"target": ref("Save")}}}
				case opNothing:
					return []step{{"browser_click", object{"target": ref("Nothing")}}}
				case opType:
					return []step{{"browser_type", object{"target": ref("Note"), "text": note(i)}}}
				case opFill:
					var fields []object
					for _, f := range form(i) {
						fields = append(fields, object{"target": ref(f.name), "name": f.name, "type": f.kind, "value": f.value})
					}
					return []step{{"browser_fill_form", object{"fields": fields}}}
				case opHover:
					return []step{{"browser_hover", object{"target": ref(hovered(i))}}}
				case opPress:
					return []step{{"browser_press_key", object{"key": "ArrowRight"}}}
				}
				return nil
			},
		},
	},
	{
		called: "chrome-devtools-mcp", pkg: "chrome-devtools-mcp", node: true, bin: "chrome-devtools-mcp",
		args: func(b platform.Browser) []string {
			args := []string{
				"--headless", "--isolated", "--executablePath", b.Path, "--viewport", "1280x720", "--no-usage-statistics", "--no-performance-crux",
			}
			if sandboxless(b) {
				args = append(args, "--chrome-arg=--no-sandbox")
			}
			return args
		},
		words: dialect{
			navigate: func(url string) step { return step{"navigate_page", object{"pageId": 1, "type": "url", "url": url}} },
			evaluate: func(x string) step {
				return step{"evaluate_script", object{"pageId": 1, "function": "() => (" + x + ")"}}
			},
			snapshot: step{"take_snapshot", object{"pageId": 1}},
			tabs:     step{"list_pages", object{}},
			shot:     step{"take_screenshot", object{"pageId": 1, "format": "png"}},
			act: func(op operation, ref func(string) string, i int) []step {
				switch op {
				case opClick:
					return []step{{"click", object{"pageId": 1, "uid": ref("Save")}}}
				case opNothing:
					return []step{{"click", object{"pageId": 1, "uid": ref("Nothing")}}}
				case opType:
					return []step{{"fill", object{"pageId": 1, "uid": ref("Note"), "value": note(i)}}}
				case opFill:
					var fields []object
					for _, f := range form(i) {
						fields = append(fields, object{"uid": ref(f.name), "value": f.value})
					}
					return []step{{"fill_form", object{"pageId": 1, "elements": fields}}}
				case opHover:
					return []step{{"hover", object{"pageId": 1, "uid": ref(hovered(i))}}}
				case opPress:
					return []step{{"press_key", object{"pageId": 1, "key": "ArrowRight"}}}
				}
				return nil
			},
		},
	},
	{
		called: "agent-browser", pkg: "agent-browser",
		args: func(platform.Browser) []string { return []string{"mcp"} },
		env: func(b platform.Browser, dir string) []string {
			env := []string{
				"AGENT_BROWSER_EXECUTABLE_PATH=" + b.Path, "AGENT_BROWSER_SESSION=bench-" + fmt.Sprint(os.Getpid()), "HOME=" + dir,
				"AGENT_BROWSER_SCREENSHOT_DIR=" + dir,
			}
			if sandboxless(b) {
				env = append(env, "AGENT_BROWSER_ARGS=--no-sandbox")
			}
			return env
		},
		words: dialect{
			navigate: func(url string) step { return step{"agent_browser_open", object{"url": url}} },
			evaluate: func(x string) step { return step{"agent_browser_eval", object{"script": x}} },
			snapshot: step{"agent_browser_snapshot", object{}},
			full:     &step{"agent_browser_snapshot", object{"full": true}},
			tabs:     step{"agent_browser_tab_list", object{}},
			shot:     step{"agent_browser_screenshot", object{"format": "png"}},
			act: func(op operation, ref func(string) string, i int) []step {
				at := func(name string) string { return "@" + ref(name) }
				switch op {
				case opClick:
					return []step{{"agent_browser_click", object{"selector": at("Save")}}}
				case opNothing:
					return []step{{"agent_browser_click", object{"selector": at("Nothing")}}}
				case opType:
					return []step{{"agent_browser_fill", object{"selector": at("Note"), "text": note(i)}}}
				case opFill:
					var steps []step
					for _, f := range form(i) {
						if f.kind == "combobox" {
							steps = append(steps, step{"agent_browser_select", object{"selector": at(f.name), "values": []string{f.value}}})
						} else {
							steps = append(steps, step{"agent_browser_fill", object{"selector": at(f.name), "text": f.value}})
						}
					}
					return steps
				case opPress:
					return []step{{"agent_browser_press", object{"key": "ArrowRight"}}}
				}
				return nil // its default profile has no hover
			},
		},
	},
}

// sandboxless: Chrome's sandbox refuses root, and a peer starts Chrome as itself.
func sandboxless(b platform.Browser) bool { return b.NoSandbox != "" || b.RunAs != nil }

var errAbsent = errors.New("not installed")

// find returns the peer's program and arguments below dir, and its version.
func (p peer) find(dir string, b platform.Browser) (path string, args []string, version string, err error) {
	root := filepath.Join(dir, "node_modules", filepath.FromSlash(p.pkg))
	data, err := os.ReadFile(filepath.Join(root, "package.json"))
	if err != nil {
		return "", nil, "", errAbsent
	}
	var about struct {
		Version string          `json:"version"`
		Bin     json.RawMessage `json:"bin"`
	}
	if err := json.Unmarshal(data, &about); err != nil {
		return "", nil, "", err
	}
	var one string
	if json.Unmarshal(about.Bin, &one) != nil {
		var several map[string]string
		if err := json.Unmarshal(about.Bin, &several); err != nil {
			return "", nil, "", err
		}
		for name, file := range several {
			if p.bin == "" || name == p.bin {
				one = file
			}
		}
	}
	path, args = filepath.Join(root, filepath.FromSlash(one)), p.args(b)
	if native := filepath.Join(root,
		"bin", p.pkg+"-"+runtime.GOOS+"-"+strings.Replace(runtime.GOARCH, "amd64", "x64", 1)); !p.node && os.Chmod(native, 0o755) == nil {
		return native, args, about.Version, nil // its wrapper in JavaScript would count against it
	}
	if p.node || strings.HasSuffix(path, ".js") {
		node, err := nodeJS(dir)
		if err != nil {
			return "", nil, "", err
		}
		path, args = node, append([]string{path}, args...)
	}
	return path, args, about.Version, nil
}

// nodeJS prefers a Node.js installed beside the packages.
func nodeJS(dir string) (string, error) {
	if beside := filepath.Join(dir, "node_modules", ".bin", "node"); exec.Command(beside, "--version").Run() == nil {
		return beside, nil
	}
	return exec.LookPath("node")
}

// startPeer starts it in a folder of its own.
func startPeer(p peer, dir, scratch string, b platform.Browser) (*server, error) {
	path, args, _, err := p.find(dir, b)
	if err != nil {
		return nil, err
	}
	scratch, err = os.MkdirTemp(scratch, "peer-")
	if err != nil {
		return nil, err
	}
	var env []string
	if p.env != nil {
		env = p.env(b, scratch)
	}
	return startServer(path, args, env, scratch)
}

// subject starts it and opens a conversation.
func (p peer) subject(dir, scratch string, b platform.Browser) (subject, *server, error) {
	s, err := startPeer(p, dir, scratch, b)
	if err != nil {
		return nil, nil, err
	}
	if err := s.initialize(); err != nil {
		return nil, nil, errors.Join(err, s.end())
	}
	return &toolUser{called: p.called, by: s, words: p.words, close: func() error { return p.end(s) }}, s, nil
}

// end stops it; what keeps a browser beyond its client is told to let it go.
func (p peer) end(s *server) error {
	if p.pkg == "agent-browser" {
		_, _ = s.call("agent_browser_close", object{})
	}
	return s.end()
}
