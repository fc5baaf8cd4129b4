package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
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

// bashed is what a call of tool.fs.bash returned.
type bashed struct {
	capabilities.Result
	Output struct {
		Output  string `json:"output"`
		Exit    *int   `json:"exit_code"`
		Refused []string
	} `json:"output"`
}

// Commands of the workspace reach the hosts that the owner named, by programs as they are, and no
// others. The call is of class t2 then (S1-35), its question names the hosts (S4-40), its envelope
// holds them, its end says which were reached (S1-44), and a key of policy takes the network away
// without taking the commands. On a node whose owner named none nothing is different.
func TestCommandsReachTheNamedHosts(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the program")
	}
	if _, err := site.NewWalls(); err != nil {
		t.Skip(err)
	}
	open := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/repo/info/refs" {
			_, _ = fmt.Fprintf(w, "%040d\trefs/heads/main\n", 7)
			return
		}
		_, _ = io.WriteString(w, "here I am")
	}))
	t.Cleanup(open.Close)
	shut := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a closed host was reached") }))
	t.Cleanup(shut.Close)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(open.URL, "http://"))
	must(t, err)
	at, not := "localhost:"+port, strings.TrimPrefix(shut.URL, "http://")
	home := privateDir(t)
	p := &person{t: t, program: filepath.Join(home, "handrail"), env: append(os.Environ(), "HOME="+home, "HANDRAIL_DATA="+filepath.Join(home, "site"))}
	site.Program(t, p.program)
	work := filepath.Join(home, "work")
	must(t, os.Mkdir(work, 0o700))
	if out, code := p.tries("", "up", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--no-task", "--workspace", work, "--workspace-net", "http://"+at); code != 2 || !strings.Contains(out, "--workspace-net") {
		t.Errorf("%d %s", code, out)
	}
	var ready struct {
		HTTP string `json:"http"`
	}
	p.leaves(&ready, "up", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--no-task", "--json", "--workspace", work, "--workspace-net", at+",api.example")
	url := ready.HTTP
	if !strings.HasPrefix(url, "http") {
		url = "http://" + url
	}
	text, err := os.ReadFile(filepath.Join(home, "site", "gateway", "admin.token"))
	must(t, err)
	admin := newCaller(t, url, strings.TrimSpace(string(text)))
	bash := func(command string) (r bashed) {
		t.Helper()
		args, err := json.Marshal(map[string]string{"command": command})
		must(t, err)
		out, code := p.tries("", "call", "--agent", "tool.fs.bash", string(args), "--json")
		if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
			t.Fatalf("%s: %d %s %v", command, code, out, err)
		}
		return r
	}

	// The question.
	told := make(chan bashed, 1)
	go func() { told <- bash("curl -s http://" + at + "/") }()
	var asked api.Approval
	for end := time.Now().Add(site.Within); asked.ID == ""; time.Sleep(20 * time.Millisecond) {
		var list struct {
			Approvals []api.Approval `json:"approvals"`
		}
		if admin.ok(http.MethodGet, "/v1/approvals", "", &list); len(list.Approvals) > 0 {
			asked = list.Approvals[0]
		} else if time.Now().After(end) {
			t.Fatal("nobody was asked")
		}
	}
	if got := strings.Join(asked.Through, "; "); !strings.Contains(got, at+", api.example") || !slices.Contains(asked.Keys, capabilities.KeyEgress) || asked.Envelope.Isolation != capabilities.ClassT2 {
		t.Errorf("through %q, keys %v, %+v", got, asked.Keys, asked.Envelope)
	}
	if out := p.does("approvals"); !strings.Contains(out, "api.example") {
		t.Errorf("%s", out)
	}
	p.does("approve", asked.ID, "--for", "30m")
	first := <-told
	if first.Output.Output != "here I am" || first.Hint != "" {
		t.Errorf("%+v", first)
	}

	// The ledger has all of the call.
	var decision packet.Decision
	var end packet.End
	var list struct {
		Packets []api.Packet `json:"packets"`
	}
	admin.ok(http.MethodGet, "/v1/ledger/packets?call="+string(first.Call), "", &list)
	for _, one := range list.Packets {
		switch one.Kind {
		case "tool.call.decision":
			must(t, json.Unmarshal(one.Body, &decision))
		case "tool.call.result":
			must(t, json.Unmarshal(one.Body, &end))
		case "drift.detected":
			t.Errorf("drift: %s", one.Body)
		}
	}
	var envelope policy.Envelope
	must(t, json.Unmarshal(decision.Envelope, &envelope))
	if !slices.Contains(envelope.Grants, capabilities.NarrowDomains+at) || !slices.Contains(envelope.Capabilities.Network, "egress.https") || envelope.Isolation != capabilities.ClassT2 || !slices.Contains(decision.Hosts, at) {
		t.Errorf("%s", decision.Envelope)
	}
	if end.Isolation != capabilities.ClassT2 || !slices.Contains(end.Observed, packet.Observed{Key: capabilities.KeyEgress, Detail: at, Count: 1}) {
		t.Errorf("%s %+v", end.Isolation, end.Observed)
	}

	// Programs as they are.
	for name, command := range map[string]string{
		"git":    "git ls-remote http://" + at + "/repo",
		"python": `/usr/bin/python3 -c 'import urllib.request as u; print(u.urlopen("http://` + at + `/").read().decode())'`,
		"bash":   "exec 3<>/dev/tcp/127.0.0.1/" + port + ` && printf 'GET / HTTP/1.0\r\n\r\n' >&3 && cat <&3`,
		"node":   `node -e 'fetch("http://` + at + `/").then(r => r.text()).then(console.log)'`,
	} {
		if _, err := exec.LookPath("node"); name == "node" && err != nil { // make conformance has one behind the same door
			continue
		}
		want := "here I am"
		if name == "git" {
			want = "refs/heads/main"
		}
		if r := bash(command); !strings.Contains(r.Output.Output, want) {
			t.Errorf("%s: %s", name, r.Output.Output)
		}
	}

	// Other hosts.
	r := bash("curl -sS --max-time 20 http://" + not + "/")
	if !strings.Contains(r.Output.Output, "--workspace-net "+not) || r.Action.Key != capabilities.ActionNameHost || r.Action.Name != not || !strings.Contains(r.Hint, "tried "+not+"; allow it with --workspace-net "+not) ||
		len(r.Output.Refused) != 1 || !strings.HasPrefix(r.Output.Refused[0], not+": ") {
		t.Errorf("%+v", r)
	}
	if out, _ := p.tries("", "call", "--agent", "tool.fs.bash", `{"command":"curl -s http://169.254.169.254/"}`); !strings.Contains(out, "hint: The command tried 169.254.169.254:80; allow it with --workspace-net 169.254.169.254.") || !strings.Contains(out, "'handrail up'") {
		t.Errorf("%s", out)
	}

	// The attempts are drift of their calls, and the third quarantines commands there (S1-44, S1-52).
	bash("curl -s --max-time 20 http://169.254.169.254/; true")
	var drifted api.DriftList
	must(t, json.Unmarshal([]byte(p.does("drift", "list", "--json")), &drifted))
	if len(drifted.Events) != 3 || len(drifted.Quarantined) != 1 || drifted.Events[2].Response != "refused" || drifted.Events[2].Evidence != not+" (granted for other hosts only)" || drifted.Events[2].Call != r.Call {
		t.Fatalf("%+v", drifted)
	}
	if out, code := p.tries("", "call", "--agent", "tool.fs.bash", `{"command":"true"}`, "--json"); code != 3 || !strings.Contains(out, "runner_quarantined") {
		t.Errorf("%d %s", code, out)
	}
	p.does("drift", "lift", drifted.Quarantined[0].Runner, "--reason", "a test of ours")

	// Policy takes the network away, and the commands stay.
	rules := filepath.Join(home, "site", "gateway", "policy", "no-net.cedar")
	must(t, os.WriteFile(rules, []byte(`@id("no-net") forbid(principal, action in Action::"keys:network", resource);
@id("commands") permit(principal, action == Action::"tool.fs.bash", resource);`), 0o600))
	p.does("policy", "activate", "--yes")
	r = bash("echo it runs; curl -s --max-time 20 http://" + at + "/; true")
	if r.Output.Output != "it runs\n" || !strings.Contains(r.Hint, "the call was not granted it") ||
		!slices.Contains(r.Output.Refused, "an IPv4 socket: no network was granted") {
		t.Errorf("%+v %q", r.Output, r.Hint)
	}
	admin.ok(http.MethodGet, "/v1/ledger/packets?call="+string(r.Call), "", &list)
	for _, one := range list.Packets {
		if one.Kind != "tool.call.decision" {
			continue
		}
		decision = packet.Decision{}
		must(t, json.Unmarshal(one.Body, &decision))
		if !slices.Contains(decision.Withheld, capabilities.KeyEgress) || strings.Contains(string(decision.Envelope), "domain_allowlist") {
			t.Errorf("%v %s", decision.Withheld, decision.Envelope)
		}
	}
}
