package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// strays is a site whose fixture does what its calls were not granted, and the program as a person
// uses it there.
type strays struct {
	*site.Site
	node    *site.Node
	fixture *site.Handler
	program string
	admin   string
}

func newStrays(t *testing.T) *strays {
	t.Helper()
	s := &strays{Site: site.Start(t, site.Options{}), fixture: site.NewHandler(), program: filepath.Join(t.TempDir(), "handrail")}
	s.Drifts = true
	site.Program(t, s.program)
	s.admin = s.MustToken("ada", principal.RoleAdmin)
	s.fixture.Stray = func(inv capabilities.Invocation, text string) {
		if key, ok := strings.CutPrefix(text, "stray "); ok {
			inv.Observe(key, "the fixture")
		}
	}
	s.node = s.AddNode("desk", s.fixture)
	return s
}

// says runs the program as somebody with that token.
func (s *strays) says(token string, exit int, args ...string) (out, failed string) {
	s.T.Helper()
	cmd := exec.Command(s.program, args...)
	cmd.Env = append(os.Environ(), "HANDRAIL_URL="+s.URL(), "HANDRAIL_TOKEN="+token)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != exit {
		s.T.Fatalf("handrail %v ended with %d, want %d: %v\n%s%s", args, got, exit, err, stdout.String(), stderr.String())
	}
	return stdout.String(), stderr.String()
}

func (s *strays) list(open bool) (list api.DriftList) {
	s.T.Helper()
	args := []string{"drift", "list", "--json"}
	if open {
		args = append(args, "--open")
	}
	out, _ := s.says(s.admin, 0, args...)
	must(s.T, json.Unmarshal([]byte(out), &list))
	return list
}

// stray makes one call, in which the fixture does what key stands for; "": nothing.
func (s *strays) stray(key string) capabilities.Result {
	text := "well"
	if key != "" {
		text = "stray " + key
	}
	return s.Call(s.T.Context(), site.ToolEcho, `{"text":"`+text+`"}`, "")
}

func (s *strays) wants(r capabilities.Result, code capabilities.Code) {
	s.T.Helper()
	if r.Code != code || (code == "") != (r.Status == capabilities.StatusOK) {
		s.T.Fatalf("%s %s (%s), want %q", r.Status, r.Code, r.Message, code)
	}
}

// Each signal that a node sees makes an event with its response: a violation is recorded, the third
// within an hour quarantines the runner, a critical one voids the result and restricts the tool. An
// admin ends each with a reason, by the program, also after a restart; nobody else does (S1-02,
// S1-05, S1-44 to S1-46, S1-49 to S1-54).
func TestDriftIsAnsweredUntilAPersonEndsIt(t *testing.T) {
	s := newStrays(t)
	s.wants(s.stray("network.egress.https"), "")
	s.wants(s.stray("data.write.workspace"), "")
	s.wants(s.stray("network.egress.https"), "")
	ran := s.fixture.Runs("well")
	s.wants(s.stray(""), capabilities.CodeRunnerQuarantined)
	listed := s.Call(t.Context(), "tool.node.list", `{"tool_id":"tool.fixture.echo"}`, "")
	if text := string(listed.Output); !strings.Contains(text, `"runner_quarantined"`) || !strings.Contains(text, `"available":false`) {
		t.Errorf("tool.node.list does not say so: %s", text)
	}
	s.Restart()
	s.node.AwaitReady()
	r := s.stray("")
	s.wants(r, capabilities.CodeRunnerQuarantined)
	if s.fixture.Runs("well") != ran {
		t.Error("a runner in quarantine ran a call")
	}
	list := s.list(true)
	if len(list.Events) != 3 || len(list.Quarantined) != 1 || list.Quarantined[0].Runner != r.Action.Name || list.Events[0].Response != "quarantined" || list.Events[1].Signal != "write" || list.Events[2].Signal != "network" {
		t.Fatalf("%+v", list)
	}
	if len(list.Raised) != 1 || list.Raised[0].Levels != 3 || list.Raised[0].Node != s.node.ID {
		t.Errorf("raised: %+v", list.Raised)
	}
	if out, _ := s.says(s.admin, 0, "drift", "list", "--open"); !strings.Contains(out, list.Events[0].ID) || !strings.Contains(out, "In quarantine, until 'handrail drift lift RUNNER --reason TEXT':\n") || !strings.Contains(out, "Risk is raised") {
		t.Error(out)
	}
	if out, _ := s.says(s.admin, 0, "calls", "--runner", r.Action.Name, "--json"); !strings.Contains(out, string(list.Events[0].Call)) || !strings.Contains(out, string(list.Events[2].Call)) || strings.Count(out, `"call_id"`) != 5 {
		t.Errorf("not the five calls of the runner: %s", out)
	}
	if out, _ := s.says(s.admin, 0, "calls", "--runner", "0123456789abcdef", "--json"); strings.Contains(out, `"call_id"`) {
		t.Errorf("calls of no runner: %s", out)
	}
	agent := s.MustToken("agent", principal.RoleAgent)
	operator := s.MustToken("otto", principal.RoleOperator)
	for _, token := range []string{agent, operator} {
		if _, failed := s.says(token, 5, "drift", "lift", r.Action.Name, "--reason", "mine"); !strings.Contains(failed, "forbidden") {
			t.Errorf("lifted by another: %s", failed)
		}
		s.says(token, 5, "drift", "resolve", list.Events[0].ID, "--reason", "mine")
	}
	s.says(s.admin, 2, "drift", "lift", r.Action.Name)
	s.says(s.admin, 0, "drift", "lift", r.Action.Name, "--reason", "the host was allowed since")
	s.wants(s.stray(""), "")
	for _, e := range list.Events {
		s.says(s.admin, 0, "drift", "resolve", e.ID, "--reason", "looked at")
	}
	if left := s.list(true); len(left.Events) != 0 || len(left.Quarantined) != 0 || len(left.Raised) != 0 {
		t.Errorf("%+v", left)
	}

	s.wants(s.stray("privileged.secret.read"), capabilities.CodeDriftCritical)
	s.wants(s.stray(""), capabilities.CodeToolRestricted)
	s.Restart()
	s.node.AwaitReady()
	r = s.stray("")
	s.wants(r, capabilities.CodeToolRestricted)
	if r.Hint == "" || r.Action.Key != capabilities.ActionReviewDrift {
		t.Errorf("%+v", r)
	}
	list = s.list(true)
	if len(list.Events) != 1 || list.Events[0].Response != "restricted" || list.Events[0].Signal != "secret" || len(list.Restricted) != 1 || list.Restricted[0].ManifestHash == "" {
		t.Fatalf("%+v", list)
	}
	s.says(s.admin, 2, "tools", "approve", string(site.ToolEcho), "--yes")
	s.says(operator, 5, "tools", "approve", string(site.ToolEcho), "--yes", "--reason", "mine")
	s.says(s.admin, 0, "tools", "approve", string(site.ToolEcho), "--yes", "--reason", "read its manifest")
	s.wants(s.stray(""), "")

	kinds := map[ledger.Kind]int{}
	all, err := s.Ledger.Packets(t.Context(), ledger.Query{Kind: "gateway.drift.", Limit: 1000})
	must(t, err)
	for _, p := range all {
		kinds[p.Kind]++
		if p.Kind == ledger.KindLifted || p.Kind == ledger.KindReviewed || p.Kind == ledger.KindDriftResolved {
			if p.Principal != "ada" || !strings.Contains(string(p.Body), `"reason"`) {
				t.Errorf("%s by %s: %s", p.Kind, p.Principal, p.Body)
			}
		}
	}
	for kind, n := range map[ledger.Kind]int{ledger.KindDrift: 4, ledger.KindQuarantined: 1, ledger.KindLifted: 1, ledger.KindDriftResolved: 3, ledger.KindRestricted: 1, ledger.KindReviewed: 1} {
		if kinds[kind] != n {
			t.Errorf("%d packets %s, want %d", kinds[kind], kind, n)
		}
	}
	must(t, s.Drift.Rebuild(t.Context()))
	if again := s.list(false); len(again.Events) != 4 || len(again.Quarantined)+len(again.Restricted) != 0 {
		t.Errorf("folded anew: %+v", again)
	}
}

// A page that offered something without a grant makes an event, too, which restricts nothing:
// anybody who reports for a page could take any tool away (S1-47).
func TestWhatAPageShowsIsAnEvent(t *testing.T) {
	s := newStrays(t)
	body := `{"surface":"console","page":"/console/calls","controls":["POST /v1/no-such"],"keys":[{"call_id":"call_none","key":"privileged.secret.read"}]}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+"/v1/surfaced", strings.NewReader(body))
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+s.admin)
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	_ = resp.Body.Close()
	list := s.list(true)
	if resp.StatusCode != 200 || len(list.Events) != 2 || len(list.Restricted) != 0 {
		t.Fatalf("%d %+v", resp.StatusCode, list)
	}
	for _, e := range list.Events {
		if e.Signal != "surface" || e.Response != "recorded" || e.Evidence == "" {
			t.Errorf("%+v", e)
		}
		s.says(s.admin, 0, "drift", "resolve", e.ID, "--reason", "a page of before the update")
	}
	if left := s.list(true); len(left.Events) != 0 {
		t.Errorf("%+v", left)
	}
}

// A step of a call is compared, answered and counted as any call is: a violation is an event of
// the step, which names its parent; a critical one ends the parent, too, and takes the step's tool
// away, from steps as from calls; and each view of governance has a row for it (S1-35, S1-49 to
// S1-53).
func TestStepsDrift(t *testing.T) {
	s := newStrays(t)
	conduct := func(text string) capabilities.Result {
		args, err := json.Marshal(map[string]any{"text": "parent", "steps": []any{map[string]any{"tool": site.ToolEcho, "args": `{"text":"` + text + `"}`}}})
		must(t, err)
		return s.Call(t.Context(), site.ToolConduct, string(args), "")
	}
	events := func() (all []ledger.Packet) {
		all, err := s.Ledger.Packets(t.Context(), ledger.Query{Kind: ledger.KindDrift, Limit: 100})
		must(t, err)
		return all
	}

	parent := conduct("stray network.egress.https")
	s.wants(parent, "")
	found := events()
	if len(found) != 1 || found[0].Call == parent.Call || found[0].Tool != site.ToolEcho || !strings.Contains(string(found[0].Body), `"severity":"violation"`) {
		t.Fatalf("%+v", found)
	}
	ends, err := s.Ledger.Packets(t.Context(), ledger.Query{Call: found[0].Call, Kind: ledger.KindCallResult})
	must(t, err)
	if len(ends) != 1 || !strings.Contains(string(ends[0].Body), string(parent.Call)) || !strings.Contains(string(ends[0].Body), `"isolation_given":"t2"`) {
		t.Errorf("the step's end: %+v", ends)
	}

	r := conduct("stray privileged.secret.read")
	s.wants(r, capabilities.CodeDriftCritical)
	found = events()
	if len(found) != 2 {
		t.Fatalf("%+v", found)
	}
	for _, p := range found {
		if p.Call == r.Call || p.Tool != site.ToolEcho {
			t.Errorf("an event of the parent: %+v", p)
		}
	}
	s.wants(s.stray(""), capabilities.CodeToolRestricted)
	ran := s.fixture.Runs("well")
	if r := conduct("well"); !strings.Contains(string(r.Output), string(capabilities.CodeToolRestricted)) && r.Code != capabilities.CodeToolRestricted || s.fixture.Runs("well") != ran {
		t.Errorf("a step of a restricted tool: %+v", r)
	}

	admin := newCaller(t, s.URL(), s.admin)
	for view, wants := range map[string]string{
		"coverage": `"tool_id":"tool.fixture.echo"`, "isolation": `"isolation_given":"t2"`, "drift": `"tool_id":"tool.fixture.echo"`,
		"friction": string(capabilities.CodeToolRestricted), "kpis": `"drift_per_1000"`, "privilege": `"rows"`,
	} {
		var got json.RawMessage
		admin.ok(http.MethodGet, "/v1/governance/"+view, "", &got)
		if !strings.Contains(strings.ReplaceAll(string(got), `": `, `":`), wants) {
			t.Errorf("%s has no %s: %s", view, wants, got)
		}
	}
}
