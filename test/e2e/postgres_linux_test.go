package e2e

import (
	"encoding/json"
	"errors"
	"io/fs"
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

// A site that is kept in PostgreSQL, as its admin meets it: a device is paired, calls run and are
// asked about, the gateway is killed and goes on. Then it moves into a file and back, and the
// device is never paired again.
func TestSiteOnPostgres(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs the program")
	}
	server := pgtest.Start(t)
	home := privateDir(t)
	p := &person{t: t, program: filepath.Join(home, "handrail"), env: append(os.Environ(), "HOME="+home, "HANDRAIL_DATA="+filepath.Join(home, "site"))}
	site.Program(t, p.program)
	in := func(name string) string { return filepath.Join(home, name) }
	p.refuses("invalid_request", 2, "gateway", "--store", "postgres://u:geheim@db.example/d")
	p.refuses("invalid_request", 2, "gateway", "--store", "mysql://u@db.example/d")

	var ready struct{ HTTP, QUIC string }
	start := func(more ...string) *program {
		at := []string{"gateway", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--json"}
		if ready.QUIC != "" { // where its device looks for it
			at[4] = ready.QUIC
		}
		return p.runs(&ready, append(at, more...)...)
	}
	end := func(g *program, with syscall.Signal) {
		t.Helper()
		g.signal(with)
		<-g.over
	}
	g := start("--store", server.Named("one"))

	// A device that knows it by a paste.
	must(t, os.Mkdir(in("files"), 0o700))
	must(t, os.WriteFile(in("files/a.txt"), []byte("hello"), 0o600))
	paste := items[struct{ Paste string }](p, "pair", "--label", "box", "--yes", "--no-wait")[0].Paste
	if out, code := p.tries(paste+"\n", "node", "join", "--data", in("device")); code != 0 {
		t.Fatalf("joining: %s", out)
	}
	var began map[string]any
	p.leaves(&began, "node", "--data", in("device"), "--workspace", in("files"), "--desktop", "off", "--json")
	call := func(tool, args string) (r capabilities.Result) {
		out, _ := p.tries("", "call", "--agent", tool, args, "--json")
		_ = json.Unmarshal([]byte(strings.TrimSpace(out)), &r)
		return r
	}
	reads := func(when string) {
		t.Helper()
		desk.Await(t, "a call to run "+when, func() bool { return call("tool.fs.read", `{"path":"a.txt"}`).Status == capabilities.StatusOK })
	}
	reads("at first")

	// A call that policy asks about waits for a person; a token and a rule are made.
	wrote := make(chan capabilities.Result, 1)
	go func() { wrote <- call("tool.fs.write", `{"path":"b.txt","content":"asked"}`) }()
	desk.Await(t, "the question", func() bool {
		all := items[struct {
			ID string `json:"approval"`
		}](p, "approvals")
		if len(all) == 0 {
			return false
		}
		p.does("approve", all[0].ID)
		return true
	})
	want(t, await(t, "the call that was asked about", wrote), capabilities.StatusOK, "")
	p.does("token", "create", "robot", "--role", "agent")
	deny := in("site/gateway/policy/mine.cedar")
	must(t, os.WriteFile(deny, []byte(`@id("mine") forbid (principal, action == Action::"tool.fs.list", resource);`+"\n"), 0o600))
	p.does("policy", "activate", "--yes")
	holds := func(when string) {
		t.Helper()
		reads(when)
		if out, _ := p.tries("", "call", "--agent", "tool.fs.list", `{}`, "--json"); !strings.Contains(out, string(capabilities.CodeDeniedByPolicy)) {
			t.Errorf("%s the policy does not hold: %s", when, out)
		}
		if out := p.does("token", "list"); !strings.Contains(out, "robot") {
			t.Errorf("%s the token is gone: %s", when, out)
		}
		if out := p.does("ledger", "verify"); !strings.Contains(out, "verifies") {
			t.Errorf("%s: %s", when, out)
		}
	}
	holds("on PostgreSQL")

	// Killed, it goes on where it was; it needs no flag for that.
	end(g, syscall.SIGKILL)
	g = start()
	holds("after a kill")
	p.refuses("conflict", 1, "store", "check")
	must(t, os.WriteFile(in("passphrase"), []byte("correct horse battery\n"), 0o600))
	p.does("backup", in("a.backup"), "--passphrase-file", in("passphrase"))
	end(g, syscall.SIGTERM)
	p.refuses("conflict", 1, "gateway", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--store", server.Named("empty"))

	// Into a file, and back into another schema.
	if out := p.does("store", "check"); !strings.Contains(out, "verifies") {
		t.Errorf("%s", out)
	}
	p.does("store", "copy", in("look.db"))
	if out := p.does("store", "migrate", "file"); !strings.Contains(out, "verifies") {
		t.Errorf("%s", out)
	}
	g = start()
	holds("in a file")
	end(g, syscall.SIGTERM)
	p.refuses("conflict", 1, "gateway", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--store", server.Named("one"))
	p.refuses("conflict", 1, "store", "migrate", server.Named("one"))
	p.does("store", "migrate", server.Named("two"))
	if _, err := os.Stat(in("site/gateway/store.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file that was left is in service still: %v", err)
	}
	g = start()
	holds("on PostgreSQL again")
	end(g, syscall.SIGTERM)

	// A backup of the database is a site like another.
	p.does("restore", in("a.backup"), "--passphrase-file", in("passphrase"), "--data", in("restored"))
	if out := p.does("ledger", "verify", "--data", in("restored")); !strings.Contains(out, "verifies") {
		t.Errorf("the restored ledger: %s", out)
	}
}
