package rest_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/admin"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/front/fronttest"
	"github.com/handrail-dev/handrail/gateway/front/rest"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/passkey"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/registry"
	"github.com/handrail-dev/handrail/gateway/rules"
	"github.com/handrail-dev/handrail/pairing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var site = pairing.SiteIDOf(ed25519.PublicKey(make([]byte, ed25519.PublicKeySize)))

// surface is a REST surface with a token of each role.
type surface struct {
	*fronttest.Front
	t                      *testing.T
	roster                 *roster
	rest                   *rest.Server
	files                  *front.Artifacts
	consent                *consent.Consent
	engine                 *policy.Engine
	snapshot               string // of the policy
	rules                  *rules.Book
	policyDir              string // where files are staged
	agent, operator, admin string
	client                 *http.Client
	held                   atomic.Bool // an agent holds the device that requests come from
	drift                  drifts
	live                   marking
}

func start(t *testing.T, more ...func(*rest.Options)) *surface {
	t.Helper()
	f := fronttest.Prepare(t)
	engine, err := policy.Load([]policy.Source{{Name: "default.cedar", Data: policy.DefaultSource()}}, f.Dispatcher.Catalog)
	if err != nil {
		t.Fatal(err)
	}
	a := &surface{Front: f, t: t, roster: newRoster(), client: &http.Client{Transport: &http.Transport{}}}
	a.live.Live = rest.Dark()
	t.Cleanup(a.client.CloseIdleConnections)
	a.consent, err = consent.New(consent.Options{Store: f.Store, Snapshot: engine.SnapshotID, Wait: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	a.snapshot = engine.SnapshotID()
	a.policyDir = filepath.Join(t.TempDir(), "policy")
	a.rules, err = rules.Open(t.Context(), rules.Options{Dir: a.policyDir, Tools: f.Dispatcher.Catalog, Store: f.Store})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := passkey.New(passkey.Options{Users: f.Tokens})
	if err != nil {
		t.Fatal(err)
	}
	a.files = f.Artifacts()
	a.engine = engine
	works, err := admin.New(admin.Options{Policy: func() *policy.Engine { return a.engine }, Tools: f.Dispatcher.Catalog, Store: f.Store, Ledger: f.Ledger, Now: f.Clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	opts := rest.Options{
		Works:     works,
		Artifacts: a.files, Passkeys: keys, Live: &a.live, Governance: nothingCounted{},
		Consent: a.consent, Tasks: deferred{}, Running: deferred{}, Drift: &a.drift, NodeLogs: nodeLogs, Brake: &brake{}, Secrets: noSecrets{},
		Dispatcher: f.Dispatcher, Tools: registry.New(f.Dispatcher.Catalog, f.Log), Lanes: f.Lanes, Tokens: f.Tokens, Roster: a.roster, Ledger: f.Ledger, Selector: selections{f.Dispatcher.Catalog},
		Policy: func() *policy.Engine { return engine }, Rules: ruleSets{a.rules, f}, Log: f.Log, Now: f.Clock.Now,
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "tools_registry_size 1") }),
		Elsewhere: func(*http.Request, capabilities.NodeID) error {
			if a.held.Load() {
				return capabilities.Errorf(capabilities.CodeForbidden, "held")
			}
			return nil
		},
		Site: func() rest.Site {
			return rest.Site{SiteID: site, GatewayID: "g1", Version: "1.2.3", HTTPAddr: "127.0.0.1:1", QUICAddr: "127.0.0.1:2", BaseURL: f.URL}
		},
	}
	for _, change := range more {
		change(&opts)
	}
	a.rest, err = rest.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	f.Start(a.rest)
	a.agent, a.operator, a.admin = f.Token("alice", principal.RoleAgent), f.Token("op", principal.RoleOperator), f.Token("root", principal.RoleAdmin)
	return a
}

func (a *surface) do(token, method, path, body string) (int, string) {
	a.t.Helper()
	req, err := http.NewRequest(method, a.URL+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := a.client.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

// ok wants 200 and decodes the answer.
func (a *surface) ok(token, method, path, body string, into any) string {
	a.t.Helper()
	status, answer := a.do(token, method, path, body)
	if status != http.StatusOK {
		a.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(answer), into); err != nil {
			a.t.Fatalf("%s %s: %v in %s", method, path, err, answer)
		}
	}
	return answer
}

// fails wants that code, its status, and a whole error.
func (a *surface) fails(token, method, path, body string, code capabilities.Code) {
	a.t.Helper()
	status, answer := a.do(token, method, path, body)
	var form struct {
		Error struct {
			Code          capabilities.Code
			Message, Hint string
			Retryable     *bool
		}
	}
	if err := json.Unmarshal([]byte(answer), &form); err != nil || form.Error.Code != code || status != code.Info().HTTP ||
		form.Error.Message == "" || form.Error.Hint == "" || form.Error.Retryable == nil {
		a.t.Errorf("%s %s %s: want %s, got %d %s", method, path, body, code, status, answer)
	}
}

func TestCalls(t *testing.T) {
	a := start(t)
	png := []byte("\x89PNG")
	a.Dispatcher.Do(fronttest.ToolImage, func(_ context.Context, r dispatch.Request) capabilities.Result {
		res := fronttest.OK(`{"text":"<&>"}`, capabilities.Blob{Field: "bytesBase64", MIME: "image/png", Bytes: png})
		res.Effect, res.DurationMS = capabilities.EffectConfirmed, 1.5
		return res
	})
	var res struct {
		Call   string `json:"call_id"`
		Tool   string `json:"tool_id"`
		Status string
		Output map[string]string
		Effect string
	}
	raw := a.ok(a.agent, "POST", "/v1/calls", `{"tool":"test.image-content","args":{"text":"x"},"request_id":"r1"}`, &res)
	if res.Status != "ok" || res.Tool != "test.image-content" || res.Call == "" || res.Effect != "confirmed" ||
		res.Output["text"] != "<&>" || res.Output["bytesBase64"] != base64.StdEncoding.EncodeToString(png) {
		t.Errorf("result %s", raw)
	}
	seen := a.Dispatcher.Seen()
	last := seen[len(seen)-1]
	if last.Principal != "alice" || last.Role != "agent" || last.Lane != "alice" || last.Surface != "rest" || last.RequestID != "r1" || string(last.Args) != `{"text":"x"}` {
		t.Errorf("request %+v", last)
	}
	// The pipeline's answer is 200, also when it says no.
	for body, code := range map[string]string{
		`{"tool":"test.hidden"}`:                         "denied_by_policy",
		`{"tool":"no.such"}`:                             "unknown_tool",
		`{"tool":"test.simple-text","args":{"wrong":1}}`: "invalid_arguments",
	} {
		var res struct{ Status, Code, Hint string }
		a.ok(a.agent, "POST", "/v1/calls", body, &res)
		if res.Code != code || res.Status == "ok" || res.Hint == "" {
			t.Errorf("%s: %+v", body, res)
		}
	}
	for body, code := range map[string]capabilities.Code{
		``:                      capabilities.CodeInvalidRequest,
		`{}`:                    capabilities.CodeInvalidRequest,
		`[]`:                    capabilities.CodeInvalidRequest,
		`null`:                  capabilities.CodeInvalidRequest,
		`{"tool":5}`:            capabilities.CodeInvalidRequest,
		`{"tool":"a.b","x":1}`:  capabilities.CodeInvalidRequest,
		`{"tool":"a.b"} {}`:     capabilities.CodeInvalidRequest,
		`{"tool":"a","tool":1}`: capabilities.CodeInvalidRequest,
		`{"tool":"a","Tool":1}`: capabilities.CodeInvalidRequest,
		`{"tool":"a.b","args":{"n":9007199254740993}}`:               capabilities.CodeInvalidRequest,
		`{"tool":"a.b","lane":"a b"}`:                                capabilities.CodeInvalidRequest,
		`{"tool":"a.b","request_id":"a\n"}`:                          capabilities.CodeInvalidRequest,
		`{"tool":"` + strings.Repeat("x", 200) + `"}`:                capabilities.CodeUnknownTool,
		`{"tool":"a.b","args":"` + strings.Repeat("x", 1<<20) + `"}`: capabilities.CodeBodyTooLarge,
	} {
		a.fails(a.agent, "POST", "/v1/calls", body, code)
	}
	a.ok(a.operator, "POST", "/v1/calls", `{"tool":"test.simple-text","lane":"shared"}`, nil)
	a.fails(a.agent, "POST", "/v1/calls", `{"tool":"test.simple-text","lane":"shared"}`, capabilities.CodeForbidden)
}

func TestCallIsCancelledWithItsRequest(t *testing.T) {
	a := start(t)
	running, ended := make(chan struct{}), make(chan struct{})
	a.Dispatcher.Do(fronttest.ToolWait, func(ctx context.Context, _ dispatch.Request) capabilities.Result {
		close(running)
		<-ctx.Done()
		close(ended)
		return fronttest.Fail(capabilities.CodeCancelled, nil)
	})
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "POST", a.URL+"/v1/calls", strings.NewReader(`{"tool":"test.wait"}`))
	req.Header.Set("Authorization", "Bearer "+a.agent)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := a.client.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	<-running
	cancel()
	<-ended
	<-done
}

func TestTools(t *testing.T) {
	a := start(t)
	var list struct {
		Tools []struct {
			ID     string          `json:"tool_id"`
			Wire   string          `json:"wire_name"`
			Input  json.RawMessage `json:"input_schema"`
			Result json.RawMessage `json:"result_schema"`
		}
	}
	a.Dispatcher.Show(fronttest.ToolNodeList, fronttest.ToolNavigate)
	a.ok(a.agent, "GET", "/v1/tools", "", &list)
	if len(list.Tools) != 2 || list.Tools[0].ID != "tool.node.list" || list.Tools[1].Wire != "tool_browser_navigate" || len(list.Tools[1].Input) == 0 || len(list.Tools[1].Result) == 0 {
		t.Errorf("tools %+v", list.Tools)
	}
	var one struct {
		ID          string          `json:"tool_id"`
		Description string          `json:"description"`
		Tags        []string        `json:"tags"`
		Args        json.RawMessage `json:"input_schema"`
		SideEffects string          `json:"side_effects"`
		Risk        string          `json:"risk"`
	}
	a.ok(a.agent, "GET", "/v1/tools/tool.browser.navigate", "", &one) // S4-16, S4-33
	if one.ID != "tool.browser.navigate" || one.Description == "" || len(one.Tags) == 0 || len(one.Args) == 0 || one.SideEffects != "external" || one.Risk != "medium" {
		t.Errorf("one tool: %+v", one)
	}
	a.fails(a.agent, "GET", "/v1/tools/tool.browser.click", "", capabilities.CodeUnknownTool)
	a.ok(a.admin, "GET", "/v1/tools/tool.browser.click?all=1", "", &one)
	a.fails(a.agent, "GET", "/v1/tools/tool.browser.click?all=1", "", capabilities.CodeForbidden)
	a.fails(a.agent, "GET", "/v1/tools?tool=tool.browser.navigate", "", capabilities.CodeInvalidRequest)
	for path, want := range map[string]int{ // S4-15
		"/v1/tools?tag=browser": 1, "/v1/tools?tag=browser,open": 1, "/v1/tools?tag=browser,device": 0, "/v1/tools?side_effects=none": 1, "/v1/tools?side_effects=external&tag=browser": 1,
	} {
		list.Tools = nil
		if a.ok(a.agent, "GET", path, "", &list); len(list.Tools) != want {
			t.Errorf("%s lists %d tools, want %d", path, len(list.Tools), want)
		}
	}
	a.fails(a.agent, "GET", "/v1/tools?side_effects=some", "", capabilities.CodeInvalidRequest)
	var fits struct { // S4-17
		Tool       string `json:"tool_id"`
		Valid      bool   `json:"valid"`
		Violations []struct{ Path, Message string }
	}
	a.ok(a.agent, "POST", "/v1/tools/tool.browser.navigate/validate", `{"args":{"url":"https://example.com/","node_id":"n1"}}`, &fits)
	if fits.Tool != "tool.browser.navigate" || !fits.Valid || len(fits.Violations) != 0 {
		t.Errorf("good arguments: %+v", fits)
	}
	a.ok(a.agent, "POST", "/v1/tools/tool.browser.navigate/validate", `{"args":{"uri":"x","timeout_ms":-1}}`, &fits)
	if fits.Valid || len(fits.Violations) < 3 {
		t.Errorf("bad arguments: %+v", fits)
	}
	a.fails(a.agent, "POST", "/v1/tools/tool.browser.click/validate", `{}`, capabilities.CodeUnknownTool)
	a.fails(a.agent, "GET", "/v1/tools?all=1", "", capabilities.CodeForbidden)
	a.fails(a.operator, "GET", "/v1/tools?all=1", "", capabilities.CodeForbidden)
	a.fails(a.admin, "GET", "/v1/tools?all=maybe", "", capabilities.CodeInvalidRequest)
	a.ok(a.admin, "GET", "/v1/tools?all=1", "", &list)
	if len(list.Tools) != len(a.Dispatcher.Catalog.All()) {
		t.Errorf("%d tools of %d", len(list.Tools), len(a.Dispatcher.Catalog.All()))
	}
	// Programs get every bound that is enforced, models a shorter form of it.
	for _, tool := range list.Tools {
		d, ok := a.Dispatcher.Catalog.Get(capabilities.ToolID(tool.ID))
		if !ok || !bytes.Equal(tool.Input, d.FullInput(false)) || !bytes.Equal(tool.Result, d.Result) {
			t.Errorf("%s: the schemas are not those that are enforced", tool.ID)
		}
	}
}

func TestTokens(t *testing.T) {
	a := start(t)
	var made struct {
		ID        string `json:"token_id"`
		Token     string
		Lane      string
		ExpiresAt time.Time `json:"expires_at"`
	}
	a.ok(a.admin, "POST", "/v1/tokens", `{"principal":"carol","role":"agent","lane":"c1","ttl_s":3600}`, &made)
	if made.Token == "" || made.Lane != "c1" || made.ExpiresAt.IsZero() {
		t.Fatalf("%+v", made)
	}
	// The default lane is hers before she ever used it.
	a.fails(a.agent, "POST", "/v1/calls", `{"tool":"test.simple-text","lane":"c1"}`, capabilities.CodeForbidden)
	a.fails(a.admin, "POST", "/v1/tokens", `{"principal":"mallory","role":"agent","lane":"c1"}`, capabilities.CodeForbidden)
	a.ok(made.Token, "GET", "/v1/tools", "", nil)
	if list := a.ok(a.admin, "GET", "/v1/tokens", "", nil); !strings.Contains(list, made.ID) || strings.Contains(list, made.Token) || strings.Contains(list, "hrt_") {
		t.Errorf("list %s", list)
	}
	a.ok(a.admin, "DELETE", "/v1/tokens/"+made.ID, "", nil)
	a.fails(made.Token, "GET", "/v1/tools", "", capabilities.CodeUnauthenticated)
	a.fails(a.admin, "DELETE", "/v1/tokens/nothing", "", capabilities.CodeNotFound)
	for _, body := range []string{`{}`, `{"principal":"x"}`, `{"principal":"x","role":"root"}`, `{"principal":"x y","role":"agent"}`, `{"principal":"x","role":"agent","ttl_s":1.5}`} {
		a.fails(a.admin, "POST", "/v1/tokens", body, capabilities.CodeInvalidRequest)
	}
	status, packets := a.do(a.admin, "GET", "/v1/ledger/packets?kind=token.", "")
	if status != 200 || !strings.Contains(packets, "token.created") || !strings.Contains(packets, "token.revoked") || strings.Contains(packets, made.Token) {
		t.Errorf("recorded %s", packets)
	}
}

func record(t *testing.T, a *surface, drafts ...ledger.Draft) {
	t.Helper()
	if err := a.Ledger.Append(context.Background(), drafts...); err != nil {
		t.Fatal(err)
	}
}

func recordCall(t *testing.T, a *surface, who capabilities.PrincipalID, call capabilities.CallID) {
	t.Helper()
	d := ledger.Draft{Call: call, Tool: "tool.browser.click", Principal: who, Lane: "l", Node: "n1"}
	for _, step := range []struct {
		kind ledger.Kind
		body string
	}{
		{ledger.KindCallRequest, `{"surface":"mcp"}`}, {ledger.KindCallDecision, `{"effect":"allow"}`}, {ledger.KindCallDispatch, `{}`},
		{ledger.KindCallResult, `{"status":"ok","effect":"confirmed","duration_ms":2.5}`},
	} {
		d.Kind, d.Body = step.kind, json.RawMessage(step.body)
		record(t, a, d)
	}
}

func TestLedger(t *testing.T) {
	a := start(t)
	for i := range 5 {
		recordCall(t, a, "alice", capabilities.CallID("c"+strconv.Itoa(i)))
	}
	recordCall(t, a, "bob", "b1")
	record(t, a, ledger.Draft{Kind: ledger.KindCallRequest, Call: "open", Principal: "bob", Body: json.RawMessage(`{}`)})
	var calls struct {
		Calls []struct {
			Call     string `json:"call_id"`
			State    string
			Status   string
			Decision string
			Effect   string
			Node     string  `json:"node_id"`
			Duration float64 `json:"duration_ms"`
		}
	}
	a.ok(a.agent, "GET", "/v1/calls?limit=3", "", &calls)
	if len(calls.Calls) != 3 || calls.Calls[0].Call != "c4" {
		t.Errorf("the agent's calls %+v", calls)
	}
	a.ok(a.operator, "GET", "/v1/calls", "", &calls)
	if len(calls.Calls) != 7 || calls.Calls[0].State != "requested" {
		t.Fatalf("all calls %+v", calls)
	}
	if c := calls.Calls[1]; c.Call != "b1" || c.State != "ended" || c.Status != "ok" || c.Decision != "allow" || c.Effect != "confirmed" || c.Node != "n1" || c.Duration != 2.5 {
		t.Errorf("a folded call %+v", c)
	}
	var list struct{ Packets []api.Packet }
	a.ok(a.operator, "GET", "/v1/ledger/packets?limit=3", "", &list)
	tip, _ := a.Ledger.Tip()
	if len(list.Packets) != 3 || list.Packets[2].Seq != tip || list.Packets[0].Seq != tip-2 {
		t.Errorf("the newest packets: %d, last %d of %d", len(list.Packets), list.Packets[len(list.Packets)-1].Seq, tip)
	}
	a.ok(a.operator, "GET", "/v1/ledger/packets?after=0&limit=2", "", &list)
	if len(list.Packets) != 2 || list.Packets[0].Seq != 1 {
		t.Errorf("the first packets %+v", list.Packets)
	}
	a.ok(a.operator, "GET", "/v1/ledger/packets?call=c2", "", &list)
	if len(list.Packets) != 4 || list.Packets[0].Kind != string(ledger.KindCallRequest) {
		t.Errorf("packets of a call %+v", list.Packets)
	}
	for _, query := range []string{"limit=x", "limit=5000", "after=-1", "after=1.5", "kinds=tool.", "limit=1&x=2"} {
		a.fails(a.operator, "GET", "/v1/ledger/packets?"+query, "", capabilities.CodeInvalidRequest)
	}
	// An export verifies offline, byte for byte.
	export := a.ok(a.admin, "GET", "/v1/ledger/export", "", nil)
	if _, err := ledger.Verify(strings.NewReader(export), ledger.Pins{}); err != nil {
		t.Errorf("the export does not verify: %v", err)
	}
	a.ok(a.operator, "GET", "/v1/ledger/head", "", nil)
}

// From a device that an agent holds one can look, ask what if, and take away, and do nothing that
// lets more happen.
func TestFromAHeldDevice(t *testing.T) {
	a := start(t)
	give := `{"principal":"alice","tools":["tool.desktop.*"],"node":"n2"}`
	a.ok(a.admin, "POST", "/v1/grants", give, nil) // the control
	a.held.Store(true)
	for row, body := range map[string]string{
		"GET /v1/policy": "", "GET /v1/ledger/head": "", "POST /v1/policy/replay": `{"set":"active"}`,
		"POST /v1/policy/explain":                               `{"principal":"p","role":"agent","tool":"tool.node.list"}`,
		"DELETE /v1/grants/" + string(a.consent.Grants()[0].ID): "",
	} {
		method, path, _ := strings.Cut(row, " ")
		a.ok(a.admin, method, path, body, nil)
	}
	for row, body := range map[string]string{
		"POST /v1/grants": give, "POST /v1/tokens": `{"principal":"x","role":"agent"}`, "POST /v1/invites": `{}`,
		"POST /v1/policy/activate": fmt.Sprintf(`{"from":%q,"to":"sha256:00"}`, a.snapshot),
	} {
		method, path, _ := strings.Cut(row, " ")
		a.fails(a.admin, method, path, body, capabilities.CodeForbidden)
	}
	if n := len(a.consent.Grants()); n != 0 {
		t.Errorf("%d grants", n)
	}
	var doc struct{ Paths map[string]map[string]any }
	a.ok(a.agent, "GET", "/v1/openapi.json", "", &doc)
	takesAway := 0
	for path := range doc.Paths {
		if !strings.HasSuffix(path, "/deny") && !strings.HasSuffix(path, "/revoke") {
			continue
		}
		takesAway++
		if _, answer := a.do(a.admin, "POST", regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(path, "x"), ""); strings.Contains(answer, "held") {
			t.Errorf("%s waits for another device: %s", path, answer)
		}
	}
	if takesAway < 2 {
		t.Errorf("%d routes deny or revoke", takesAway)
	}
}

func TestStatusAndHealth(t *testing.T) {
	a := start(t)
	var health map[string]any
	a.ok("", "GET", "/healthz", "", &health)
	if health["status"] != "ok" || len(health) != 2 {
		t.Errorf("health, to strangers: %v", health)
	}
	a.ok(a.operator, "GET", "/healthz", "", &health)
	if health["status"] != "ok" || health["site_id"] != string(site) {
		t.Errorf("health %v", health)
	}
	var status struct {
		Nodes  struct{ Total, Connected, Pending int }
		MCPURL string `json:"mcp_url"`
		Ledger struct {
			Seq  uint64
			Head string
		}
		Policy struct{ Files []string }
	}
	a.ok(a.operator, "GET", "/v1/status", "", &status)
	if status.Nodes.Total != 3 || status.Nodes.Connected != 1 || status.Nodes.Pending != 2 || status.MCPURL != a.URL+"/mcp" ||
		status.Ledger.Seq == 0 || len(status.Ledger.Head) != 64 || !slices.Equal(status.Policy.Files, []string{"default.cedar"}) {
		t.Errorf("status %+v", status)
	}
	if status, body := a.do(a.operator, "GET", "/metrics", ""); status != 200 || !strings.Contains(body, "tools_registry_size") {
		t.Errorf("metrics %d %s", status, body)
	}
}

// A client that went away in the middle of a question is no failure of ours; what fails
// meanwhile is.
func TestAClientThatWentAwayIsNoFailure(t *testing.T) {
	a := start(t)
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, asked := a.Ledger.Packets(gone, ledger.Query{Limit: 1})
	if asked == nil || !rest.Left(gone, asked) {
		t.Errorf("it left, and the ledger says %v", asked)
	}
	if rest.Left(t.Context(), asked) {
		t.Error("it is still there")
	}
	if rest.Left(gone, capabilities.Wrap(capabilities.CodeInternal, errors.New("the disk is gone"), "")) {
		t.Error("a failure that it left in the middle of is hidden")
	}
}
