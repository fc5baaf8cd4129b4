package e2e

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/test/site"
)

// A satellite that is cut off says so and is not called meanwhile; when it is back it is called
// again, without a word of anybody's. One that is revoked ends, its calls are refused by their
// exact code, and it does not come in again by its key or its code (S3-08).
func TestASatelliteIsCutOffAndRevoked(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs the program")
	}
	if _, err := site.NewWalls(); err != nil {
		t.Skip(err)
	}
	home := privateDir(t)
	p := &person{t: t, program: filepath.Join(home, "handrail"), env: append(os.Environ(), "HOME="+home, "HANDRAIL_DATA="+filepath.Join(home, "site"))}
	site.Program(t, p.program)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	bus := l.Addr().String()
	must(t, l.Close())
	var ready struct{}
	p.leaves(&ready, "up", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--bus", bus, "--no-task", "--json")
	code := strings.TrimSpace(p.does("satellite", "add", "words", "--yes", "--no-wait"))
	if out, exit := p.tries(code, "satellite", "join", "words"); exit != 0 {
		t.Fatalf("joining: %s", out)
	}
	manifest := filepath.Join(home, "words.json")
	must(t, os.WriteFile(manifest, []byte(`{"tools":[{"name":"say","description":"Says hi.","argv":["hi"],"read_only":true}]}`), 0o600))
	log, err := os.Create(filepath.Join(home, "satellite.log"))
	must(t, err)
	t.Cleanup(func() { _ = log.Close() })
	run := func() *exec.Cmd {
		cmd := exec.Command(p.program, "satellite", "run", "words", "--manifest", manifest, "--", "echo")
		cmd.Env, cmd.Stderr = p.env, log
		must(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd
	}
	call := func() (r capabilities.Result) {
		t.Helper()
		out, _ := p.tries("", "call", "tool.words.say", "--json")
		first, _, _ := strings.Cut(out, "\n")
		must(t, json.Unmarshal([]byte(first), &r))
		return r
	}
	awaits := func(what string, there func() bool) {
		t.Helper()
		for end := time.Now().Add(site.Within); !there(); time.Sleep(100 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("waited in vain for %s", what)
			}
		}
	}
	works := func() bool {
		r := call()
		return r.Status == capabilities.StatusOK && strings.Contains(string(r.Output), "hi")
	}
	first := run()
	awaits("its tools", func() bool { _, exit := p.tries("", "provider", "show", "words"); return exit == 0 })
	p.does("provider", "approve", "words", "--allow", "all", "--yes")
	awaits("a call", works)

	must(t, first.Process.Kill())
	_ = first.Wait()
	awaits("calls to be refused", func() bool {
		r := call()
		return r.Code == capabilities.CodeNodeNotReady && r.Status == capabilities.StatusError && strings.Contains(string(mustJSON(t, r.Details)), string(capabilities.ReasonNodeOffline)) && r.Hint != ""
	})
	second := run()
	awaits("a call once it is back", works)

	// A second process of the same identity would take its connection away, and be taken it.
	if out, exit := p.tries("", "satellite", "run", "words", "--manifest", manifest, "--json", "--", "echo"); exit == 0 || !strings.Contains(out, string(capabilities.CodeConflict)) {
		t.Errorf("a second process: %d %s", exit, out)
	}

	id := string(items[api.Satellite](p, "satellite", "list")[0].ID)
	if out := p.does("satellite", "show", "words"); !strings.Contains(out, id) {
		t.Errorf("by its name it is shown as %s", out)
	}
	p.does("satellite", "revoke", "words", "--reason", "lost")
	if err := second.Wait(); err == nil {
		t.Error("the revoked one ended well")
	}
	if data, err := os.ReadFile(log.Name()); err != nil || strings.Contains("\n"+string(data), "\nnats: ") {
		t.Errorf("a library wrote to its standard error: %v\n%s", err, data)
	}
	r := call()
	if r.Code != capabilities.CodeNodeNotReady || !strings.Contains(r.Message, "no satellite") || r.Action.Key != capabilities.ActionListSatellites {
		t.Errorf("%+v", r)
	}
	if out := p.does("provider", "show", "words", "--json"); !strings.Contains(out, `"satellite_revoked"`) {
		t.Errorf("%s", out)
	}
	// By its key, and by the code that it came with.
	again := exec.Command(p.program, "satellite", "run", "words", "--manifest", manifest, "--json", "--", "echo")
	again.Env = p.env
	if out, err := again.CombinedOutput(); err == nil || !strings.Contains(string(out), string(capabilities.CodeNodeRevoked)) {
		t.Errorf("%v: %s", err, out)
	}
	if out, exit := p.tries(code, "satellite", "join", "words", "--json"); exit == 0 {
		t.Errorf("it joined again: %s", out)
	}
	text, err := os.ReadFile(log.Name())
	must(t, err)
	if !strings.Contains(string(text), "node_revoked") {
		t.Errorf("its log does not say why it ended: %s", text)
	}
}
