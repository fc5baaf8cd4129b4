package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/health"
	"github.com/handrail-dev/handrail/platform/chrome"
	"github.com/handrail-dev/handrail/test/desk"
)

// sandboxless has a command run where Chrome's sandbox cannot start: in a user namespace that knows
// one account, as a container does, unless this host is such a place already.
func sandboxless(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	b, err := chrome.New(chrome.Options{}).Locate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if b.NoSandbox == "" {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
	}
	return cmd
}

const flagNamed = "--browser-sandbox auto"

// Where Chrome's sandbox cannot start, up starts nothing by itself, and says what to do.
func TestUpRefusesWithoutTheSandbox(t *testing.T) {
	desk.Need(t, "chromium")
	dir := t.TempDir()
	program := programsIn(t, dir)
	own := filepath.Join(dir, "handrail") // ci starts it anew, by its file's name
	if data, err := os.ReadFile(program.self); err != nil || os.WriteFile(own, data, 0o700) != nil {
		t.Fatal(err)
	}
	program.self = own
	for name, args := range map[string][]string{
		"up":       {"up", "--once", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0"},
		"required": {"up", "--browser-sandbox", "required", "--once", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0"},
		"ci":       {"ci", "--", "sh", "-c", "echo it ran"},
	} {
		t.Run(name, func(t *testing.T) {
			data := filepath.Join(dir, name)
			cmd := sandboxless(t, program.program(data, args...))
			out, err := cmd.Output()
			var ended *exec.ExitError
			if !errors.As(err, &ended) {
				t.Fatalf("%v: %s", err, out)
			}
			said := string(ended.Stderr)
			if len(out) > 0 || !strings.Contains(said, "isolation_unavailable") || !strings.Contains(said, flagNamed) {
				t.Errorf("exit code %d, output %s, errors %s", ended.ExitCode(), out, said)
			}
			for _, made := range []string{"gateway/store.db", "gateway/policy"} {
				if _, err := os.Stat(filepath.Join(data, made)); err == nil {
					t.Errorf("it left %s", made)
				}
			}
		})
	}
}

// The risk that auto accepts is a rule in force with its packet, and is said in every place where
// somebody looks. Where the host gives a sandbox again, the rule goes.
func TestUpWithoutTheSandboxIsRecorded(t *testing.T) {
	desk.Need(t, "chromium")
	dir := t.TempDir()
	program := programsIn(t, dir)
	data := filepath.Join(dir, "site")
	up := []string{"up", "--browser-sandbox", "auto", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0"}
	cmd := sandboxless(t, program.program(data, up...))
	lines := program.stay(cmd)
	var ready struct {
		Event   string
		Without []string
	}
	if line := program.next(lines, &ready); ready.Event != "ready" || len(ready.Without) != 1 || ready.Without[0] != "chrome_sandbox" {
		t.Fatal(line)
	}
	var task struct{ Event string }
	if line := program.next(lines, &task); task.Event != "task" {
		t.Fatal(line)
	}
	var packets []string
	for line := range strings.Lines(program.said("", data, "ledger", "export")) {
		if strings.Contains(line, "up-no-sandbox.cedar") {
			packets = append(packets, line)
		}
	}
	if len(packets) != 1 || !strings.Contains(packets[0], "policy") {
		t.Errorf("packets that name the rule: %q", packets)
	}
	if status := program.said("", data, "status"); !strings.Contains(status, `"without":["chrome_sandbox"]`) {
		t.Error(status)
	}
	doctor, _ := program.program(data, "doctor").Output()
	var sandbox, node bool
	for line := range strings.Lines(string(doctor)) {
		var f health.Finding
		if json.Unmarshal([]byte(line), &f) != nil {
			continue
		}
		sandbox = sandbox || f.Name == "browser sandbox" && f.OK && strings.Contains(f.Detail, "up-no-sandbox.cedar")
		node = node || f.Part == "node" && strings.Contains(f.Detail, "without chrome_sandbox")
	}
	if !sandbox || !node {
		t.Errorf("doctor: %s", doctor)
	}
	if err := lines.end(); err != nil {
		t.Fatal(err)
	}
	if b, err := chrome.New(chrome.Options{}).Locate(t.Context()); err != nil || b.NoSandbox != "" {
		t.Skip("this host gives no sandbox", err)
	}
	again := program.begin(data, append(up, "--no-task")...)
	ready.Without = nil
	if line := program.next(again, &ready); ready.Event != "ready" || ready.Without != nil {
		t.Fatal(line)
	}
	if _, err := os.Stat(filepath.Join(datadir.Dir(data).PolicyDir(), upNoSandboxRules)); !os.IsNotExist(err) {
		t.Errorf("the rule is still there: %v", err)
	}
}

// At a terminal the person is asked, and what they did not say yes to is not done.
func TestUpAsksAboutTheSandbox(t *testing.T) {
	desk.Need(t, "chromium")
	for name, tt := range map[string]struct{ answer, then string }{
		"yes":     {"y\n", "up: gateway on"},
		"no":      {"n\n", flagNamed},
		"nothing": {"\n", flagNamed},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			program := programsIn(t, dir)
			x := openTerminal(t)
			data := filepath.Join(dir, "site")
			cmd := sandboxless(t, program.program(data, "up", "--no-task", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0"))
			cmd.Args = append(cmd.Args[:1], cmd.Args[2:]...) // without --json
			cmd.Stdin, cmd.Stdout, cmd.Stderr = x.slave, x.slave, x.slave
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			t.Cleanup(func() { _ = cmd.Process.Signal(os.Interrupt); <-ended })
			x.saw("Run Chrome without its sandbox? [y/N]")
			x.press(tt.answer)
			x.saw(tt.then)
			rule, err := os.ReadFile(filepath.Join(datadir.Dir(data).PolicyDir(), upNoSandboxRules))
			if yes := name == "yes"; yes != (err == nil) || yes && !strings.Contains(string(rule), "said yes at the terminal") {
				t.Errorf("the rule: %s, %v", rule, err)
			}
		})
	}
}

// saw waits until the terminal was told a text, in a frame or not.
func (x *aTerminal) saw(text string) {
	x.t.Helper()
	limit := time.After(time.Minute)
	for {
		x.mu.Lock()
		said := string(x.said)
		x.mu.Unlock()
		if strings.Contains(said, text) {
			return
		}
		select {
		case <-x.more:
		case <-limit:
			x.t.Fatalf("the terminal is never told %q, but\n%s", text, said)
		}
	}
}
