package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/desktop"
	"github.com/handrail-dev/handrail/cmd/handrail/health"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/principal"
	session "github.com/handrail-dev/handrail/platform/desktop"
	"github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// ailing is a node in a session that something is wrong with, and the command line
// in the same session, beside the gateway.
type ailing struct {
	t    *testing.T
	node *site.Node
	env  []string
}

// sick pairs a node in the session of d, with some of its environment changed.
func sick(t *testing.T, d *desk.Desk, change map[string]string) ailing {
	t.Helper()
	env := slices.Clone(d.Env)
	for name, value := range change {
		env = append(slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") }), name+"="+value)
	}
	getenv := func(name string) string {
		for _, e := range env {
			if v, ok := strings.CutPrefix(e, name+"="); ok {
				return v
			}
		}
		return ""
	}
	log := slog.New(slog.DiscardHandler)
	h, err := desktop.New(desktop.Options{Opener: session.New(session.Options{Log: log, Getenv: getenv}), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	s := site.Start(t, site.Options{})
	return ailing{t, s.AddNode("desk", h), append(env, "HANDRAIL_URL="+s.URL(), "HANDRAIL_TOKEN="+s.MustToken("op", principal.RoleOperator), "XDG_STATE_HOME="+t.TempDir())}
}

// run runs handrail in that session.
func (a ailing) run(args ...string) (out string, code int) {
	a.t.Helper()
	self, err := os.Executable()
	if err != nil {
		a.t.Fatal(err)
	}
	cmd := exec.CommandContext(a.t.Context(), self)
	cmd.Args, cmd.Env = append([]string{"handrail"}, args...), a.env // by this name the test binary is the program
	text, err := cmd.Output()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		a.t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// tells wants the list of nodes and the doctor to tell that reason, with that word in what mends
// it, for the tool and for the host; in order is whether the doctor takes it for that.
func (a ailing) tells(tool capabilities.ToolID, part string, reason capabilities.Reason, word string, inOrder bool) {
	a.t.Helper()
	var last string
	desk.Await(a.t, "the list of nodes to say "+string(reason), func() bool {
		last, _ = a.run("node", "list", string(a.node.ID), "--json")
		var n remote.Node
		if err := json.Unmarshal([]byte(last), &n); err != nil {
			a.t.Fatalf("%v: %s", err, last)
		}
		return slices.ContainsFunc(n.Capabilities, func(c api.Capability) bool {
			return c.Tool == tool && !c.Available && c.Reason == reason && strings.Contains(c.Fix, word)
		})
	})
	text, code := a.run("doctor", "--json")
	var all []health.Finding
	for line := range strings.Lines(text) {
		var f health.Finding
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			a.t.Fatalf("%v: %s", err, line)
		}
		all = append(all, f)
	}
	host := slices.ContainsFunc(all, func(f health.Finding) bool {
		return f.Part == "host" && f.Name == part && f.Code == string(reason) && f.OK == inOrder && strings.Contains(f.Detail+f.Fix, word) && f.Fix != ""
	})
	node := slices.ContainsFunc(all, func(f health.Finding) bool {
		return f.Part == "node" && f.Code == string(reason) && strings.Contains(f.Fix, word)
	})
	if !host || !node || !inOrder && code != terminal.ExitFailed {
		a.t.Errorf("doctor ended with %d and says, of the host %v, of the node %v:\n%s", code, host, node, text)
	}
	if text, _ := a.run("doctor"); !strings.Contains(text, "("+string(reason)+")") {
		a.t.Errorf("for people doctor does not say %s:\n%s", reason, text)
	}
	if text, _ := a.run("node", "list", string(a.node.ID)); !strings.Contains(text, string(reason)+": ") {
		a.t.Errorf("for people the list does not say %s:\n%s", reason, text)
	}
}

// noSystemBus keeps the session of the machine itself out of the answer.
const noSystemBus = "unix:path=/nowhere"

// A Wayland session that a real lock program has locked.
func TestSaysLocked(t *testing.T) {
	s := desk.StartSway(t, desk.SwayOptions{})
	desk.Need(t, "swaylock")
	a := sick(t, s.Desk, map[string]string{"DBUS_SYSTEM_BUS_ADDRESS": noSystemBus})
	lock := s.Start("swaylock", "--color", "000000")
	a.tells("tool.desktop.screenshot", "desktop session", capabilities.ReasonSessionLocked, "unlock", false)
	a.tells("tool.desktop.keyboard", "desktop session", capabilities.ReasonSessionLocked, "unlock", false)
	lock.Kill()
	desk.Await(t, "the node to be ready again", func() bool {
		text, _ := a.run("node", "list", string(a.node.ID), "--json")
		return !strings.Contains(text, string(capabilities.ReasonSessionLocked))
	})
}

// A node that was started outside of any session, and one whose display has ended.
func TestSaysNoDisplay(t *testing.T) {
	d := desk.StartX(t, desk.Options{NoBus: true, NoWM: true})
	none := map[string]string{"DISPLAY": "", "XDG_RUNTIME_DIR": t.TempDir(), "XDG_SESSION_TYPE": "", "DBUS_SYSTEM_BUS_ADDRESS": noSystemBus}
	sick(t, d, none).tells("tool.desktop.screenshot", "desktop", capabilities.ReasonBackendMissing, "DISPLAY", true)
	a := sick(t, d, map[string]string{"DBUS_SYSTEM_BUS_ADDRESS": noSystemBus})
	d.KillServer()
	a.tells("tool.desktop.mouse", "desktop", capabilities.ReasonBackendMissing, d.Display, true)
}

// An X server that lets only those in who have its cookie, and a node without.
func TestSaysPermission(t *testing.T) {
	var cookie bytes.Buffer
	const anywhere = 0xFFFF
	_ = binary.Write(&cookie, binary.BigEndian, uint16(anywhere))
	for _, field := range []string{"", "", "MIT-MAGIC-COOKIE-1", "0123456789abcdef"} {
		_ = binary.Write(&cookie, binary.BigEndian, uint16(len(field)))
		cookie.WriteString(field)
	}
	file := filepath.Join(t.TempDir(), "cookie")
	if err := os.WriteFile(file, cookie.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	d := desk.StartX(t, desk.Options{NoBus: true, NoWM: true, Args: []string{"-auth", file}, Env: []string{"XAUTHORITY=" + file}})
	a := sick(t, d, map[string]string{"XAUTHORITY": "/nowhere", "DBUS_SYSTEM_BUS_ADDRESS": noSystemBus})
	a.tells("tool.desktop.screenshot", "desktop", capabilities.ReasonPermission, "XAUTHORITY", false)
}
