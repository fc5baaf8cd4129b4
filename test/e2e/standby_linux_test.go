package e2e

import (
	"encoding/json"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/store/pgtest"
	"github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// freePort returns an address of loopback where nobody listens now, neither by TCP nor by UDP.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

// TestGatewaysOfOneSite: the one that serves is killed, and the other takes the site from it. The
// device is paired once, calls go on, a token that was revoked stays so, and all of it is one
// ledger that verifies.
func TestGatewaysOfOneSite(t *testing.T) { gatewaysOfOneSite(t, "one", "two") }

// TestGatewaysOfOneSiteAtLength: the second stands still, too, as one that is cut off, and a third
// takes the site from it.
func TestGatewaysOfOneSiteAtLength(t *testing.T) { gatewaysOfOneSite(t, "one", "two", "three") }

func gatewaysOfOneSite(t *testing.T, names ...string) {
	if testing.Short() {
		t.Skip("needs the program")
	}
	t.Parallel() // it mostly waits
	server := pgtest.Start(t)
	home := privateDir(t)
	binary := filepath.Join(home, "handrail")
	site.Program(t, binary)
	in := func(name string) string { return filepath.Join(home, name) }
	var all []*person
	var quic []string
	for _, name := range names {
		all = append(all, &person{t: t, program: binary, env: append(os.Environ(), "HOME="+home, "HANDRAIL_DATA="+in(name))})
		quic = append(quic, freePort(t))
	}
	first := all[0]
	var event struct{ Event string }
	start := func(i int) *program {
		r := all[i].runs(&event, "gateway", "--store", server.Named("fleet"), "--standby", "--http", freePort(t), "--quic", quic[i],
			"--advertise", strings.Join(quic, ","), "--json")
		if event.Event != "standby" {
			t.Fatalf("it began with %+v", event)
		}
		return r
	}
	serves := func(p *person) bool {
		_, code := p.tries("", "nodes", "--json")
		return code == 0
	}
	run := []*program{start(0)}
	desk.Await(t, "the first to serve", func() bool { return serves(first) })

	must(t, os.Mkdir(in("files"), 0o700))
	must(t, os.WriteFile(in("files/a.txt"), []byte("hello"), 0o600))
	paste := items[struct{ Paste string }](first, "pair", "--label", "box", "--yes", "--no-wait")[0].Paste
	if out, code := first.tries(paste+"\n", "node", "join", "--data", in("device")); code != 0 {
		t.Fatalf("joining: %s", out)
	}
	var began map[string]any
	first.leaves(&began, "node", "--data", in("device"), "--workspace", in("files"), "--desktop", "off", "--json")
	calls := func(p *person, when string) {
		t.Helper()
		desk.Await(t, "a call to run "+when, func() bool {
			var r capabilities.Result
			out, _ := p.tries("", "call", "--agent", "tool.fs.read", `{"path":"a.txt"}`, "--json")
			return json.Unmarshal([]byte(strings.TrimSpace(out)), &r) == nil && r.Status == capabilities.StatusOK
		})
	}
	calls(first, "at the first")
	robot := items[struct {
		Token string
		ID    string `json:"token_id"`
	}](first, "token", "create", "robot", "--role", "agent")[0]
	first.does("token", "revoke", robot.ID)

	// The others have the site's keys. While the first serves they wait.
	for _, name := range names[1:] {
		must(t, os.Mkdir(in(name), 0o700))
		must(t, os.CopyFS(in(name+"/gateway"), os.DirFS(in("one/gateway"))))
		must(t, filepath.WalkDir(in(name+"/gateway"), func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if e.IsDir() {
				return os.Chmod(path, 0o700)
			}
			return os.Chmod(path, 0o600)
		}))
		must(t, os.Remove(in(name+"/gateway/gateway.json")))
	}
	for i := range names[1:] {
		run = append(run, start(i+1))
	}
	for _, p := range all[1:] {
		if serves(p) {
			t.Error("two gateways serve at once")
		}
	}
	next := func(when string, of ...int) int {
		t.Helper()
		found := -1
		desk.Await(t, "another to serve "+when, func() bool {
			for _, i := range of {
				if serves(all[i]) {
					found = i
				}
			}
			return found >= 0
		})
		return found
	}
	run[0].signal(syscall.SIGKILL)
	rest := []int{1, 2}[:len(names)-1]
	serving, starts := next("after a kill", rest...), 2
	calls(all[serving], "at the second")
	if len(names) > 2 {
		still := serving
		run[still].signal(syscall.SIGSTOP)
		serving, starts = next("in place of one that stands still", 3-still), 3
		calls(all[serving], "at the third")
		// The one that stood still does not serve once it goes on: it waits for its turn.
		run[still].signal(syscall.SIGCONT)
		desk.Await(t, "the one that stood still to stop serving", func() bool { return !serves(all[still]) })
		calls(all[serving], "beside the one that stood still")
	}
	if out := all[serving].does("token", "list"); strings.Contains(out, robot.ID) && !strings.Contains(out, "revoked") {
		t.Errorf("the token that was revoked is valid again: %s", out)
	}
	out := all[serving].does("ledger", "verify")
	if !strings.Contains(out, "verifies") {
		t.Errorf("%s", out)
	}
	t.Logf("\n%s\n%s", out, all[serving].does("calls", "--limit", "10"))
	if n := strings.Count(all[serving].does("ledger", "show", "--kind", "gateway.started", "--json"), `"gateway.started"`); n != starts {
		t.Errorf("the ledger tells of %d starts, want %d", n, starts)
	}
	if len(names) > 2 {
		run[serving].signal(syscall.SIGTERM)
		<-run[serving].over
		serving = next("after one that ended by itself", 3-serving)
		calls(all[serving], "at the one that waited")
	}
}
