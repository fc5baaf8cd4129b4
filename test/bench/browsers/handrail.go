package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/platform"
)

// ours is how Handrail's tools word the operations.
var ours = dialect{
	navigate: func(url string) step { return step{"tool_browser_navigate", object{"url": url}} },
	evaluate: func(x string) step { return step{"tool_browser_evaluate", object{"expression": x}} },
	snapshot: step{"tool_browser_snapshot", object{}},
	full:     &step{"tool_browser_snapshot", object{"max_chars": 200000}},
	tabs:     step{"tool_browser_tabs", object{}},
	shot:     step{"tool_browser_screenshot", object{}},
	act: func(op operation, ref func(string) string, i int) []step {
		switch op {
		case opClick:
			return []step{{"tool_browser_click", object{"ref": ref("Save")}}}
		case opNothing:
			return []step{{"tool_browser_click", object{"ref": ref("Nothing")}}}
		case opType:
			return []step{{"tool_browser_type", object{"ref": ref("Note"), "text": note(i), "clear": true}}}
		case opFill:
			var fields []object
			for _, f := range form(i) {
				fields = append(fields, object{"ref": ref(f.name), "value": f.value})
			}
			return []step{{"tool_browser_fill_form", object{"fields": fields}}}
		case opHover:
			return []step{{"tool_browser_hover", object{"ref": ref(hovered(i))}}}
		case opPress:
			return []step{{"tool_browser_press_key", object{"key": "ArrowRight"}}}
		}
		return nil
	},
}

type object map[string]any

// handrail is the real binary, with the folders of its processes.
type handrail struct {
	program string
	dir     string
	site    *pages
	browser platform.Browser
	profile string // folder for CPU profiles; empty: none
}

// build builds the binary as releases are built. For profiles, a file is laid
// over its sources that records one from start to end.
func (h *handrail) build(repository string) error {
	h.program = filepath.Join(h.dir, "handrail")
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", h.program}
	if h.profile != "" {
		overlay := filepath.Join(h.dir, "overlay.json")
		source := filepath.Join(repository, "test", "bench", "browsers", "testdata", "profile.go.txt")
		text, err := json.Marshal(map[string]any{
			"Replace": map[string]string{filepath.Join(repository, "cmd", "handrail", "profile_overlay.go"): source},
		})
		if err != nil {
			return err
		}
		if err := os.WriteFile(overlay, text, 0o600); err != nil {
			return err
		}
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.Command("go", append(args, "./cmd/handrail")...)
	cmd.Dir = repository
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building: %w: %s", err, out)
	}
	return nil
}

// process is the binary at work as a service, with --json output.
type process struct {
	h      *handrail
	role   string
	cmd    *exec.Cmd
	events *bufio.Scanner
	out    io.Reader
}

type event struct {
	Event string `json:"event"`
	Paste string `json:"paste"`
}

func (h *handrail) start(role string, args ...string) (*process, error) {
	p := &process{h: h, role: role, cmd: exec.Command(h.program, append(args, "--json")...)}
	p.cmd.Env = append(os.Environ(), h.profileEnv(role)...)
	p.cmd.Stderr = os.Stderr
	var err error
	if p.out, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	p.events = bufio.NewScanner(p.out)
	return p, p.cmd.Start()
}

func (h *handrail) profileEnv(role string) []string {
	if h.profile == "" {
		return nil
	}
	return []string{"HANDRAIL_BENCH_PROFILE=" + filepath.Join(h.profile, role+".prof")}
}

func (p *process) await(name string) error {
	for p.events.Scan() {
		var e event
		if json.Unmarshal(p.events.Bytes(), &e) == nil && e.Event == name {
			return nil
		}
	}
	return errors.Join(fmt.Errorf("%s gave no event %q", strings.Join(p.cmd.Args[1:], " "), name), p.events.Err())
}

// profiled waits, bounded, for the profile of a process, where one is recorded.
func (h *handrail) profiled(cmd *exec.Cmd, role string) {
	if h.profile == "" {
		return
	}
	endProfile(cmd.Process)
	for range 40 {
		if info, err := os.Stat(filepath.Join(h.profile, role+".prof")); err == nil && info.Size() > 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// end stops it as a service manager would.
func (p *process) end() error {
	p.h.profiled(p.cmd, p.role)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		_ = p.cmd.Process.Kill() // a system without that signal
	}
	return endProcess(p.cmd, p.out)
}

// policies writes the shipped policy of a gateway, and what this bench's own
// pages need, visibly, as an admin would.
func (h *handrail) policies(data string) error {
	dir := filepath.Join(data, "gateway", "policy")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	origin, err := policy.OriginPermit(h.site.main, "The pages that are measured.")
	if err != nil {
		return err
	}
	files := map[string][]byte{"default.cedar": policy.DefaultSource(), "bench-origin.cedar": origin}
	if h.browser.NoSandbox != "" {
		files["bench-no-sandbox.cedar"] = policy.NoSandboxPermit("This host gives Chrome no sandbox: "+h.browser.NoSandbox, benchTrust)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// nodeFlags are the owner's flags: Chrome, and the pages, which are not public.
func (h *handrail) nodeFlags() []string {
	return []string{
		"--browser", h.browser.Path, "--browser-sandbox", "auto", "--browser-allow-origin", h.site.main, "--browser-allow-origin", h.site.other,
	}
}

// installation is a gateway and a paired node, each a process of its own.
type installation struct {
	h             *handrail
	profiles      string // before the names of its processes' profiles
	data, edge    string
	gateway, node *process
}

// mainName is the installation whose operations are measured.
const mainName = "main"

func (h *handrail) install(name string) (*installation, error) {
	in := &installation{h: h, data: filepath.Join(h.dir, name), edge: filepath.Join(h.dir, name+"-node")}
	if name != mainName {
		in.profiles = name + "-"
	}
	if err := h.policies(in.data); err != nil {
		return nil, err
	}
	err := in.startGateway()
	if err == nil {
		err = in.join()
	}
	if err == nil {
		err = in.startNode()
	}
	if err != nil {
		return nil, errors.Join(err, in.end())
	}
	return in, nil
}

func (in *installation) startGateway() (err error) {
	if in.gateway, err = in.h.start(in.profiles+"gateway", "gateway", "--data", in.data, "--http", "127.0.0.1:0", "--quic",
		"127.0.0.1:0"); err != nil {
		return err
	}
	return in.gateway.await("ready")
}

// benchTrust is the trust of the node that is measured.
const benchTrust = "bench"

// join pairs the node.
func (in *installation) join() error {
	pair := exec.Command(in.h.program, "pair", "--data", in.data, "--json", "--yes", "--no-wait", "--trust", benchTrust)
	pair.Stderr = os.Stderr
	out, err := pair.Output()
	if err != nil {
		return fmt.Errorf("pair: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		var e event
		if json.Unmarshal([]byte(line), &e) != nil || e.Paste == "" {
			continue
		}
		join := exec.Command(in.h.program, "node", "join", "--data", in.edge)
		join.Stdin = strings.NewReader(e.Paste)
		if out, err := join.CombinedOutput(); err != nil {
			return fmt.Errorf("join: %w: %s", err, out)
		}
		return nil
	}
	return fmt.Errorf("pair gave no paste: %s", out)
}

func (in *installation) startNode() (err error) {
	if in.node, err = in.h.start(in.profiles+"node", append([]string{"node", "--data", in.edge}, in.h.nodeFlags()...)...); err != nil {
		return err
	}
	return in.node.await("connected")
}

func (in *installation) end() error {
	var errs []error
	for _, p := range []*process{in.node, in.gateway} {
		if p != nil {
			errs = append(errs, p.end())
		}
	}
	return errors.Join(errs...)
}

// client starts `handrail mcp`, a conversation of its own. role names its profile.
func (h *handrail) client(data, role string) (*server, error) {
	return startServer(h.program, []string{"mcp", "--data", data}, h.profileEnv(role), h.dir)
}

// subject is the whole path. The first call waits until the gateway knows what
// the node can do.
func (in *installation) subject() (subject, *server, error) {
	s, err := in.h.client(in.data, in.profiles+"mcp")
	if err != nil {
		return nil, nil, err
	}
	if err := s.initialize(); err != nil {
		return nil, nil, errors.Join(err, s.end())
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		_, err = s.call("tool_browser_tabs", object{})
		if err == nil || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, s.end())
	}
	end := func() error { in.h.profiled(s.cmd, in.profiles+"mcp"); return s.end() }
	return &toolUser{called: "Handrail", by: s, words: ours, close: end}, s, nil
}
