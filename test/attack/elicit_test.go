package attack

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/test/site"
)

// The person at the client is asked where policy names them, on every revision;
// their answer counts once, for this call alone.
func TestThePersonAtTheClient(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			a := enter(t, site.Options{Rules: userRules, ApprovalWait: time.Minute})
			var asked atomic.Int64
			says := map[string]any{"answer": "allow"}
			action := "accept"
			s := a.connect(revision, func(p *sdk.ElicitParams) *sdk.ElicitResult {
				asked.Add(1)
				for _, want := range []string{"Risk ", "tool.fixture.press", "it presses a real key", "text: "} {
					if !strings.Contains(p.Message, want) {
						t.Errorf("%q is not in %q", want, p.Message)
					}
				}
				if strings.ContainsAny(p.Message, "\u202e\x1b") {
					t.Errorf("%q can be dressed up", p.Message)
				}
				return &sdk.ElicitResult{Action: action, Content: says}
			})
			press := func(text string) *sdk.CallToolResult {
				t.Helper()
				res, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "tool_fixture_press", Arguments: map[string]any{"text": text}})
				if err != nil {
					t.Fatal(err)
				}
				return res
			}
			// The yes comes last: what it lets happen is an agent's hand on the device, and for
			// some seconds after that nobody is asked at the client.
			says["answer"] = "deny"
			if res := press("no " + revision); code(res) != "consent_denied" || a.h.Runs("no "+revision) != 0 {
				t.Errorf("%+v", res.StructuredContent)
			}
			action = "decline"
			if res := press("declined " + revision); code(res) != "consent_denied" || a.h.Runs("declined "+revision) != 0 {
				t.Errorf("%+v", res.StructuredContent)
			}
			says["answer"], action = "allow", "accept"
			text := "\u202eyes\x1b[2J " + revision
			if res := press(text); res.IsError || a.h.Runs(text) != 1 || asked.Load() != 3 {
				t.Fatalf("%+v, %d runs, asked %d times", res.StructuredContent, a.h.Runs(text), asked.Load())
			}
		})
	}
}

// A state that is changed, another's, or for other arguments is worth nothing, and
// neither is one where policy does not name the user.
func TestAStateIsNotAnAnswer(t *testing.T) {
	t.Parallel()
	a := enter(t, site.Options{Rules: userRules})
	raw := func(o *sdk.CallToolParams) *sdk.CallToolResult {
		t.Helper()
		client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
			MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
			Capabilities:   &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}}},
		})
		s, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{
			Endpoint: a.URL() + "/mcp", HTTPClient: httpClient(a), MaxRetries: -1,
		}, &sdk.ClientSessionOptions{ProtocolVersion: "2026-07-28"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		res, err := s.CallTool(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	yes := sdk.InputResponseMap{"approval": &sdk.ElicitResult{Action: "accept", Content: map[string]any{"answer": "allow"}}}
	call := func(text, state string) *sdk.CallToolResult {
		p := &sdk.CallToolParams{Name: "tool_fixture_press", Arguments: map[string]any{"text": text}, RequestState: state}
		if state != "" {
			p.InputResponses = yes
		}
		return raw(p)
	}
	first := call("one", "")
	if !first.NeedsInput() || first.RequestState == "" {
		t.Fatalf("%+v", first)
	}
	state := first.RequestState
	for what, bad := range map[string]string{
		"cut": state[:len(state)-2], "changed": "_" + state[1:], "none": "x", "long": strings.Repeat("A", 4096),
	} {
		if res := call("one", bad); code(res) != "invalid_request" || a.h.Runs("one") != 0 {
			t.Errorf("%s: %+v", what, res.StructuredContent)
		}
	}
	if res := call("two", state); code(res) != "invalid_request" || a.h.Runs("two") != 0 {
		t.Errorf("other arguments: %+v", res.StructuredContent)
	}
	agent := a.agent
	a.agent = a.MustToken("agent", "agent") // the same principal, another token
	if res := call("one", state); code(res) != "invalid_request" || a.h.Runs("one") != 0 {
		t.Errorf("another token: %+v", res.StructuredContent)
	}
	a.agent = agent
	if res := call("one", state); res.IsError || a.h.Runs("one") != 1 { // the control
		t.Fatalf("%+v", res.StructuredContent)
	}
	if res := call("one", state); !res.IsError || a.h.Runs("one") != 1 {
		t.Errorf("a second time: %+v", res.StructuredContent)
	}

	// While an agent holds a device's mouse and keyboard, the client may stand there.
	second := call("three", "")
	if !second.NeedsInput() {
		t.Fatalf("%+v", second)
	}
	a.Grant("other", a.node, "tool.fixture.*")
	if res := call("three", second.RequestState); code(res) != "forbidden" || a.h.Runs("three") != 0 {
		t.Errorf("with somebody's hands on the device: %+v", res.StructuredContent)
	}
	if res := call("four", ""); res.NeedsInput() {
		t.Error("asked at the client although an agent may click there")
	}

	strict := enter(t, site.Options{ApprovalWait: time.Millisecond})
	a = strict
	if res := call("five", ""); res.NeedsInput() || code(res) != string(capabilities.CodeApprovalPending) {
		t.Errorf("policy does not name the user: %+v", res.StructuredContent)
	}
	if _, err := a.Consent.Answer(t.Context(), a.waiting().ID, consent.Answer{Allow: true, Via: consent.ViaMCP, By: "agent"}); err == nil {
		t.Error("and their answer counts")
	}
}
