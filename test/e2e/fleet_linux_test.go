package e2e

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/store/pgtest"
	"github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// TestGatewaysServeAtOnce: three gateways of one site, one device. Calls are made through each of
// them, wherever the device is connected; a token, a stop and a policy hold at all. One is killed,
// calls go on, and all of it is one ledger that verifies.
func TestGatewaysServeAtOnce(t *testing.T) {
	f := startsAtOnce(t, "one", "two", "three")
	all, run, first, names := f.all, f.run, f.all[0], f.names
	in := func(name string) string { return filepath.Join(f.home, name) }
	tries := func(p *person) (capabilities.Result, string) {
		var r capabilities.Result
		args := []string{"call", "--agent", "tool.fs.read", `{"path":"a.txt"}`, "--json"}
		out, _ := p.tries("", args...)
		_ = json.Unmarshal([]byte(strings.TrimSpace(out)), &r)
		return r, out
	}
	calls := func(i int, when string) {
		t.Helper()
		var last string
		desk.Await(t, fmt.Sprintf("a call through the %s gateway %s (%s)", names[i], when, last), func() bool {
			r, out := tries(all[i])
			last = out
			return r.Status == capabilities.StatusOK
		})
	}
	for i := range all {
		calls(i, "at first")
	}
	turnIsFollowedElsewhere(t, in("one/gateway"), all[2])
	// A stop at one holds at all.
	if out := all[1].does("stop", "--reason", "enough"); out == "" {
		t.Error("nothing was said of the stop")
	}
	desk.Await(t, "the third to be stopped", func() bool {
		r, _ := tries(all[2])
		return r.Code == capabilities.CodeStopped
	})
	all[2].does("resume")
	for i := range all {
		calls(i, "after the stop")
	}
	first.does("ledger", "checkpoint", "--out", in("checkpoint"))
	run[0].signal(syscall.SIGKILL)
	for _, i := range []int{1, 2} {
		calls(i, "after a kill")
	}
	all[1].does("ledger", "checkpoint", "--since", in("checkpoint"))
	out := all[2].does("ledger", "verify")
	if !strings.Contains(out, "verifies") {
		t.Errorf("%s", out)
	}
	t.Logf("\n%s\n%s", out, all[1].does("calls", "--limit", "20"))
	if n := strings.Count(all[1].does("ledger", "show", "--kind", "gateway.started", "--json"), `"gateway.started"`); n != 3 {
		t.Errorf("the ledger tells of %d starts, want 3", n)
	}
	run[2].signal(syscall.SIGTERM)
	<-run[2].over
	calls(1, "at the last one")
}

// turnIsFollowedElsewhere: whoever watches a turn at one gateway hears of the words that its worker
// says at another.
func turnIsFollowedElsewhere(t *testing.T, at string, elsewhere *person) {
	t.Helper()
	var place struct {
		HTTP string `json:"http"`
	}
	text, err := os.ReadFile(filepath.Join(at, "gateway.json"))
	must(t, err)
	must(t, json.Unmarshal(text, &place))
	token, err := os.ReadFile(filepath.Join(at, "agent.token"))
	must(t, err)
	const id = "turn_0123456789abcdef"
	var heard struct {
		State string `json:"state"`
	}
	stage := `{"stage":"ROUTER_OUTPUT","at":"2026-11-30T10:00:00Z","router":{"intent":"chat_only","confidence":1,"by":"prefix"}}`
	says := func(more, last string) {
		t.Helper()
		c := newCaller(t, place.HTTP, strings.TrimSpace(string(token)))
		code, answer, err := c.try(t.Context(), http.MethodPost, "/v1/turns", `{"turn_id":"`+id+`","session_id":"s","started_at":"2026-11-30T10:00:00Z"`+more+`,"stages":[`+stage+last+`]}`)
		if err != nil || code != http.StatusOK {
			t.Fatalf("%d %s %v", code, answer, err)
		}
	}
	says(`,"state":"running"`, "")
	watch := elsewhere.runs(&heard, "turns", "watch", id, "--json")
	if heard.State != "running" {
		t.Errorf("the turn is %q elsewhere", heard.State)
	}
	says(`,"ended_at":"2026-11-30T10:00:01Z"`, `,{"stage":"PIPELINE","at":"2026-11-30T10:00:01Z","pipeline":{"intent":"chat_only","confidence":1,"allowed":[],"permissions":[],"calls":[],"round_trips":0,"memory_writes":0,"permissions_revoked":0}}`)
	select {
	case <-watch.over:
	case <-time.After(site.Within / 2): // well within its lease
		t.Error("the watcher elsewhere did not hear of the end")
	}
}

// fleet is several gateways of one site that serve at once, each a process, and a device, which
// began at the first.
type fleet struct {
	home  string
	names []string
	all   []*person // before each gateway
	run   []*program
	start func(i int) *program
}

func startsAtOnce(t *testing.T, names ...string) *fleet {
	t.Helper()
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
		r := all[i].runs(&event, "gateway", "--store", server.Named("fleet"), "--fleet", "127.0.0.1:0", "--bus", "127.0.0.1:0", "--http", freePort(t), "--quic", quic[i],
			"--advertise", strings.Join(quic, ","), "--json")
		if event.Event != "ready" {
			t.Fatalf("it began with %+v", event)
		}
		return r
	}
	run := []*program{start(0)}
	must(t, os.Mkdir(in("files"), 0o700))
	must(t, os.WriteFile(in("files/a.txt"), []byte("hello"), 0o600))
	paste := items[struct{ Paste string }](first, "pair", "--label", "box", "--yes", "--no-wait")[0].Paste
	if out, code := first.tries(paste+"\n", "node", "join", "--data", in("device")); code != 0 {
		t.Fatalf("joining: %s", out)
	}
	var began map[string]any
	first.leaves(&began, "node", "--data", in("device"), "--workspace", in("files"), "--desktop", "off", "--json")

	// The others have the site's keys.
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
	return &fleet{home, names, all, run, start}
}
