package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/test/site"
)

// fetches is an MCP server on its standard streams that fetches the URL it is called with.
const fetches = `while read -r line; do
[[ $line =~ \"id\":([0-9]+) ]] || continue
id=${BASH_REMATCH[1]}
case $line in
*'"method":"initialize"'*) r='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"fetches","version":"1"}}' ;;
*'"method":"tools/list"'*) r='{"tools":[{"name":"get","description":"Fetches.","inputSchema":{"type":"object","properties":{"url":{"type":"string"}},"required":["url"]}}]}' ;;
*'"method":"tools/call"'*) [[ $line =~ \"url\":\"([^\"]+)\" ]]; said=$(curl -s "${BASH_REMATCH[1]}" | tr -d '"\\\n'); r="{\"content\":[{\"type\":\"text\",\"text\":\"$said\"}]}" ;;
*) r='{}' ;;
esac
printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$r"
done
`

// blocked is a site of the built program in a network of its own: commands, a server and fetch
// reach listed.example, and everything else is asked about.
type blocked struct {
	*person
	admin *caller
	home  string
}

// newBlocked starts it; nil: the test runs in another process.
func newBlocked(t *testing.T, up ...string) *blocked {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the program")
	}
	if _, err := site.NewWalls(); err != nil {
		t.Skip(err)
	}
	names := map[string]string{"listed.example": public + "1", "asked.example": public + "2", "shut.example": public + "3", "inside.example": "127.0.0.1"}
	for i := range 6 {
		names[fmt.Sprintf("h%d.example", i)] = public + "4"
	}
	if !inANetwork(t, names) {
		return nil
	}
	for _, at := range []string{public + "1:80", public + "2:80", public + "4:80"} {
		l, err := net.Listen("tcp", at)
		must(t, err)
		s := &http.Server{Handler: http.HandlerFunc(stock)}
		go func() { _ = s.Serve(l) }()
		t.Cleanup(func() { _ = s.Close() })
	}
	home := privateDir(t)
	b := &blocked{home: home, person: &person{t: t, program: filepath.Join(home, "handrail"), env: append(os.Environ(), "HOME="+home, "HANDRAIL_DATA="+filepath.Join(home, "site"))}}
	site.Program(t, b.program)
	work := filepath.Join(home, "work")
	must(t, os.Mkdir(work, 0o700))
	var ready struct {
		HTTP string `json:"http"`
	}
	b.leaves(&ready, append([]string{"up", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--no-task", "--json", "--workspace", work, "--workspace-net", "listed.example", "--browser-sandbox", "auto", "--browser-allow-domain", "listed.example"}, up...)...)
	text, err := os.ReadFile(filepath.Join(home, "site", "gateway", "admin.token"))
	must(t, err)
	b.admin = newCaller(t, "http://"+strings.TrimPrefix(ready.HTTP, "http://"), strings.TrimSpace(string(text)))
	b.rules(`@id("tools") permit (principal, action, resource);`)
	return b
}

// rules puts more rules of policy in force.
func (b *blocked) rules(text string) {
	b.t.Helper()
	must(b.t, os.WriteFile(filepath.Join(b.home, "site", "gateway", "policy", "test.cedar"), []byte(text), 0o600))
	b.does("policy", "activate", "--yes")
}

// begins makes a call of an agent's, and returns its result later.
func (b *blocked) begins(tool string, args map[string]any) <-chan capabilities.Result {
	b.t.Helper()
	text, err := json.Marshal(args)
	must(b.t, err)
	ended := make(chan capabilities.Result, 1)
	go func() {
		out, _ := b.tries("", "call", "--agent", tool, string(text), "--json")
		var r capabilities.Result
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			r.Message = out
		}
		ended <- r
	}()
	return ended
}

// asked waits for the question about a host.
func (b *blocked) asked(target string) api.Approval {
	b.t.Helper()
	for end := time.Now().Add(site.Within); ; time.Sleep(20 * time.Millisecond) {
		var list struct {
			Approvals []api.Approval `json:"approvals"`
		}
		b.admin.ok(http.MethodGet, "/v1/approvals", "", &list)
		for _, a := range list.Approvals {
			if a.Wants == target {
				return a
			}
		}
		if time.Now().After(end) {
			b.t.Fatalf("nobody was asked about %s: %+v", target, list.Approvals)
		}
	}
}

func (b *blocked) output(ended <-chan capabilities.Result) string {
	b.t.Helper()
	r := <-ended
	return string(r.Output) + r.Message + r.Hint
}

// packets are those of a call, by kind, and all that name an approval.
func (b *blocked) packets(call capabilities.CallID) map[string][]api.Packet {
	b.t.Helper()
	all := map[string][]api.Packet{}
	var list struct {
		Packets []api.Packet `json:"packets"`
	}
	b.admin.ok(http.MethodGet, "/v1/ledger/packets?call="+string(call), "", &list)
	for _, p := range list.Packets {
		all[p.Kind] = append(all[p.Kind], p)
	}
	return all
}

// lifts ends every quarantine.
func (b *blocked) lifts() {
	b.t.Helper()
	var drifted api.DriftList
	must(b.t, json.Unmarshal([]byte(b.does("drift", "list", "--json")), &drifted))
	for _, q := range drifted.Quarantined {
		b.does("drift", "lift", q.Runner, "--reason", "a test of ours")
	}
}

// A command, an MCP server and fetch that want a host which nobody named wait while a person is
// asked, go on with a yes for that call and host alone, and are refused as ever with a no. The
// ledger has question, answer and grant, and the call's envelope with the host as a one-time
// addition, whose reason stands in it and which is linked to the policy it was given under (S1-38).
func TestABlockedHostIsAskedAbout(t *testing.T) {
	t.Parallel()
	b := newBlocked(t)
	if b == nil {
		return
	}
	lib := filepath.Join(b.home, "lib")
	must(t, os.Mkdir(lib, 0o700))
	must(t, os.WriteFile(filepath.Join(lib, "fetches.sh"), []byte(fetches), 0o600))
	b.does("provider", "add", "mcp", "server", "--read", lib, "--net", "listed.example", "--yes", "--", "/bin/bash", filepath.Join(lib, "fetches.sh"))
	ways := map[string]func(host string) <-chan capabilities.Result{
		"bash": func(host string) <-chan capabilities.Result {
			return b.begins("tool.fs.bash", map[string]any{"command": "curl -sS http://" + host + "/"})
		},
		"server": func(host string) <-chan capabilities.Result {
			return b.begins("tool.server.get", map[string]any{"url": "http://" + host + "/"})
		},
		"fetch": func(host string) <-chan capabilities.Result {
			return b.begins("tool.web.fetch", map[string]any{"url": "http://" + host + "/"})
		},
	}
	for name, call := range ways {
		if out := b.output(call("listed.example")); !strings.Contains(out, "listed.example is here") {
			t.Errorf("%s: %s", name, out)
		}
		for range map[string]int{"bash": 2, "server": 1, "fetch": 1}[name] { // a yes is for one call
			ended := call("asked.example")
			a := b.asked("asked.example:80")
			if a.Longest != "call" || !slices.Contains(a.Escalated, capabilities.NarrowDomains+"asked.example:80") || a.Question == nil || len(a.Question.Fields) == 0 {
				t.Errorf("%s: %+v", name, a)
			}
			if out := b.does("approvals"); !strings.Contains(out, "wants asked.example:80") {
				t.Errorf("%s: %s", name, out)
			}
			b.does("approve", a.ID)
			r := <-ended
			if !strings.Contains(string(r.Output), "asked.example is here") {
				t.Fatalf("%s: %s %+v", name, r.Output, r)
			}
			b.recorded(name, r.Call, a)
		}
		ended := call("shut.example")
		b.does("deny", b.asked("shut.example:80").ID)
		out := b.output(ended)
		want := map[string]string{"bash": "said no. Allow it with --workspace-net shut.example", "server": "said no. Allow it with --net shut.example", "fetch": "allows other hosts only"}[name]
		if !strings.Contains(out, want) {
			t.Errorf("%s: %s", name, out)
		}
		// A call again is refused at once: the person has just said so.
		if out := b.output(call("shut.example")); !strings.Contains(out, want) {
			t.Errorf("%s, again: %s", name, out)
		}
		if out := b.output(call("127.0.0.1")); strings.Contains(out, "is here") { // nobody is asked
			t.Errorf("%s: %s", name, out)
		}
	}
	var list struct {
		Approvals []api.Approval `json:"approvals"`
	}
	if b.admin.ok(http.MethodGet, "/v1/approvals", "", &list); len(list.Approvals) > 0 {
		t.Errorf("%+v", list)
	}
	var grants struct {
		Grants []api.Grant `json:"grants"`
	}
	if b.admin.ok(http.MethodGet, "/v1/grants", "", &grants); len(grants.Grants) > 0 {
		t.Errorf("what is used is good still: %+v", grants)
	}
}

// recorded checks what the ledger has of a call that a host was granted.
func (b *blocked) recorded(name string, call capabilities.CallID, a api.Approval) {
	t := b.t
	t.Helper()
	packets := b.packets(call)
	var first, then packet.Decision
	if len(packets["tool.call.escalated"]) != 1 || len(packets["gateway.drift.event"]) != 0 {
		t.Fatalf("%s: %+v", name, packets)
	}
	must(t, json.Unmarshal(packets["tool.call.decision"][0].Body, &first))
	must(t, json.Unmarshal(packets["tool.call.escalated"][0].Body, &then))
	var before, after policy.Envelope
	must(t, json.Unmarshal(first.Envelope, &before))
	must(t, json.Unmarshal(then.Envelope, &after))
	key := capabilities.NarrowDomains + "asked.example:80"
	if x := after.Escalation; x == nil || !slices.Equal(x.Delta, []string{key}) || x.From != first.EnvelopeHash || x.Grant != then.Grant || !strings.Contains(x.Reason, "asked.example:80") ||
		!slices.Contains(after.Grants, key) || slices.Contains(before.Grants, key) || before.Escalation != nil || after.Snapshot == before.Snapshot || then.Snapshot != after.Snapshot || then.Approval != a.ID {
		t.Errorf("%s: %s\nthen %s", name, first.Envelope, then.Envelope)
	}
	var all struct {
		Packets []api.Packet `json:"packets"`
	}
	b.admin.ok(http.MethodGet, "/v1/ledger/packets?kind=gateway.&limit=1000", "", &all)
	found := map[string]bool{}
	for _, p := range all.Packets {
		var body struct {
			Approval, Grant, State, Host string
			Hosts                        []string
			Snapshot                     string `json:"policy_snapshot_id"`
		}
		if json.Unmarshal(p.Body, &body) != nil || body.Approval != a.ID && body.Grant != then.Grant {
			continue
		}
		switch {
		case body.Snapshot != a.Snapshot:
			t.Errorf("%s: %s stands on another policy: %s", name, p.Kind, p.Body)
		case p.Kind == "gateway.approval.asked":
			found[p.Kind] = body.Host == "asked.example:80"
		case p.Kind == "gateway.approval.answered":
			found[p.Kind] = body.State == "allowed" && body.Grant == then.Grant
		case p.Kind == "gateway.grant.made":
			found[p.Kind] = slices.Contains(body.Hosts, "asked.example:80")
		}
	}
	if !found["gateway.approval.asked"] || !found["gateway.approval.answered"] || !found["gateway.grant.made"] {
		t.Errorf("%s: %v", name, found)
	}
}

// Policy decides before a person: what it forbids nobody is asked about, and so it is with what the
// device's owner blocks, with hosts whose names lead inside, and without anybody to ask. One call
// asks about five hosts at most, and about each once.
func TestABlockedHostIsNotAlwaysAskedAbout(t *testing.T) {
	b := newBlocked(t, "--browser-block-domain", "shut.example")
	if b == nil {
		return
	}
	bash := func(command string) <-chan capabilities.Result {
		return b.begins("tool.fs.bash", map[string]any{"command": command})
	}
	none := func(why string) {
		t.Helper()
		var list struct {
			Approvals []api.Approval `json:"approvals"`
		}
		if b.admin.ok(http.MethodGet, "/v1/approvals", "", &list); len(list.Approvals) > 0 {
			t.Errorf("%s: %+v", why, list.Approvals)
		}
	}
	// A name that leads inside is refused by its address, whatever the person says.
	ended := bash("curl -sS http://inside.example/")
	b.does("approve", b.asked("inside.example:80").ID)
	if out := b.output(ended); !strings.Contains(out, "its address is loopback") {
		t.Error(out)
	}
	// A person's no to a call is one attempt, whatever the number of hosts.
	ended = bash("for i in 4 5; do curl -s http://h$i.example:81/; done; true")
	for i := range 2 {
		b.does("deny", b.asked(fmt.Sprintf("h%d.example:81", i+4)).ID)
	}
	r := <-ended
	var drifted api.DriftList
	must(t, json.Unmarshal([]byte(b.does("drift", "list", "--json")), &drifted))
	ours := slices.DeleteFunc(drifted.Events, func(e api.DriftEvent) bool { return e.Call != r.Call })
	if len(ours) != 1 || len(drifted.Quarantined) != 0 || ours[0].Response != "refused" || ours[0].Severity != "violation" || !strings.Contains(ours[0].Evidence, "h4.example:81") || !strings.Contains(ours[0].Evidence, "h5.example:81") {
		t.Errorf("%+v", drifted)
	}
	// The same host twice, side by side, is one question; six hosts are five.
	ended = bash("curl -s http://h0.example/ & curl -s http://h0.example/ & wait; for i in 1 2 3 4 5; do curl -s http://h$i.example/; done; true")
	for i := range 5 {
		b.does("approve", b.asked(fmt.Sprintf("h%d.example:80", i)).ID)
	}
	if out := b.output(ended); strings.Count(out, "h0.example is here") != 2 || !strings.Contains(out, "h4.example is here") || !strings.Contains(out, "5 hosts at most") {
		t.Error(out)
	}
	none("all are answered")
	if out := b.output(b.begins("tool.web.fetch", map[string]any{"url": "http://shut.example/"})); !strings.Contains(out, "blocks it") {
		t.Error(out)
	}
	b.lifts()
	// Policy: no asking for one host, and none at all for one caller.
	b.rules(`@id("tools") permit (principal, action, resource);
@id("no-h1") forbid (principal, action in Action::"keys:network", resource) when { context.wants like "h1.example:*" };`)
	if out := b.output(bash("curl -sS http://h1.example/")); !strings.Contains(out, "policy lets nobody be asked about it. Allow it with --workspace-net h1.example") {
		t.Error(out)
	}
	b.lifts()
	b.rules(`@id("tools") permit (principal, action, resource);
@id("no-asking") forbid (principal is Agent, action == Action::"tool.fs.bash", resource) when { context.wants != "" };`)
	if out := b.output(bash("curl -sS http://h2.example/")); !strings.Contains(out, "policy lets nobody be asked") {
		t.Error(out)
	}
	none("policy forbids it")
}
