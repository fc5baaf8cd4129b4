package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// drifter is a site whose fixture tools do what their text says, and the program beside it.
type drifter struct {
	*site.Site
	t    *testing.T
	node *site.Node
}

func startDrifter(t *testing.T) *drifter {
	t.Helper()
	s := site.Start(t, site.Options{})
	s.Drifts = true
	h := site.NewHandler()
	h.Stray = func(inv capabilities.Invocation, text string) {
		for _, key := range strings.Fields(strings.TrimPrefix(text, "plain")) {
			inv.Observe(key, "evil.example")
		}
	}
	return &drifter{s, t, s.AddNode("desk", h)}
}

// as runs handrail with a token of that role.
func (d *drifter) as(role principal.Role, args ...string) (out, told string, code int) {
	d.t.Helper()
	self, err := os.Executable()
	must(d.t, err)
	cmd := exec.CommandContext(d.t.Context(), self)
	cmd.Args = append([]string{"handrail"}, args...) // by this name the test binary is the program
	cmd.Env = append(os.Environ(), "HANDRAIL_URL="+d.URL(), "HANDRAIL_TOKEN="+d.MustToken("op", role), "XDG_STATE_HOME="+d.t.TempDir())
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run()
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

func (d *drifter) call(text string) capabilities.Result {
	d.t.Helper()
	return d.Call(d.t.Context(), site.ToolEcho, `{"text":"`+text+`"}`, "")
}

// 'calls show' says of a call which isolation class it needed and got, the fingerprint of its
// runner, and what drifted (S1-49, S1-55); to those who may not read drift it says nothing of it.
func TestCallsShowTellsClassRunnerAndDrift(t *testing.T) {
	d := startDrifter(t)
	r := d.call("network.egress.https")
	out, told, code := d.as(principal.RoleOperator, "calls", "show", string(r.Call), "--json")
	var shown struct {
		api.Call
		Drift []api.DriftEvent `json:"drift"`
	}
	if err := json.Unmarshal([]byte(out), &shown); err != nil || code != 0 {
		t.Fatalf("%v %d: %s%s", err, code, out, told)
	}
	if shown.Envelope == nil || shown.Envelope.Isolation == "" || shown.Given == "" || len(shown.Runner) != 16 || len(shown.Drift) != 1 ||
		shown.Drift[0].Key != "network.egress.https" || shown.Drift[0].Runner != shown.Runner {
		t.Errorf("%s", out)
	}
	out, _, _ = d.as(principal.RoleOperator, "calls", "show", string(r.Call))
	for _, want := range []string{
		"\nclass     " + string(shown.Envelope.Isolation) + " (", "\nrunner    " + shown.Runner, "Drift of this call (1 event):", shown.Drift[0].ID, "violation", "evil.example", "open",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	if out, _, code := d.as(principal.RoleOperator, "calls", "show", string(d.call("plain").Call)); code != 0 || !strings.Contains(out, "\ndrift     none\n") {
		t.Errorf("%d: %s", code, out)
	}
}

// 'drift resolve' ends several events with one reason: those named, or the open ones of a kind;
// each has a packet of its own (S1-54).
func TestDriftResolvesSeveral(t *testing.T) {
	d := startDrifter(t)
	for range 2 {
		d.call("network.egress.https data.write.workspace")
	}
	list := func(args ...string) (ids []string) {
		t.Helper()
		out, told, code := d.as(principal.RoleOperator, append([]string{"drift", "list", "--open", "--json"}, args...)...)
		var l api.DriftList
		if err := json.Unmarshal([]byte(out), &l); err != nil || code != 0 {
			t.Fatalf("%v %d: %s%s", err, code, out, told)
		}
		for _, e := range l.Events {
			ids = append(ids, e.ID)
		}
		return ids
	}
	packets := func() int {
		all, err := d.Gateway.Ledger.Packets(t.Context(), ledger.Query{Kind: ledger.KindDriftResolved})
		must(t, err)
		return len(all)
	}
	if n := len(list("--signal", "write", "--host", "desk", "--severity", "violation", "--tool", string(site.ToolEcho))); n != 2 {
		t.Fatalf("%d events of writing", n)
	}
	for name, args := range map[string][]string{
		"no event": {"--reason", "x"}, "no reason": {"--signal", "write"}, "both": {"drift_1", "--signal", "write", "--reason", "x"},
		"nobody to ask": {"--signal", "write", "--reason", "x"}, "no such signal": {"--signal", "loud", "--reason", "x", "--yes"},
	} {
		if out, told, code := d.as(principal.RoleAdmin, append([]string{"drift", "resolve"}, args...)...); code != 2 || packets() != 0 {
			t.Errorf("%s: %d %s%s", name, code, out, told)
		}
	}
	out, told, code := d.as(principal.RoleAdmin, "drift", "resolve", "--signal", "write", "--node", "desk", "--reason", "a test of ours", "--yes")
	if code != 0 || out != "2 events are resolved\n" || packets() != 2 || len(list()) != 2 {
		t.Fatalf("%d %s%s", code, out, told)
	}
	if out, told, code := d.as(principal.RoleAdmin, "drift", "resolve", "--signal", "write", "--reason", "again", "--yes"); code == 0 || !strings.Contains(told, "no open event fits") {
		t.Errorf("%d %s%s", code, out, told)
	}
	ids := list()
	if out, told, code := d.as(principal.RoleOperator, append([]string{"drift", "resolve", "--reason", "looked"}, ids...)...); code == 0 || packets() != 2 {
		t.Errorf("an operator: %d %s%s", code, out, told)
	}
	out, told, code = d.as(principal.RoleAdmin, append([]string{"drift", "resolve", "--reason", "looked", "--json"}, ids...)...)
	if code != 0 || strings.Count(out, `"resolved_by":"op"`) != 2 || packets() != 4 || len(list()) != 0 {
		t.Errorf("%d %s%s", code, out, told)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
