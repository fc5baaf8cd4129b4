package attack

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/script"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/platform/chrome"
	"github.com/handrail-dev/handrail/platform/confine"
	"github.com/handrail-dev/handrail/test/site"
)

// finder is that of all tests: each would start the browser to ask for its version.
var finder = chrome.New(chrome.Options{})

// cleanUp removes what several tests shared.
var cleanUp = func() {}

func TestMain(m *testing.M) {
	script.Main(confine.Self) // of the scripts that tests run
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.Cleanup(func(code int) { cleanUp(); os.Exit(code) }))
}

// userRules let the person at the MCP client answer, beside those of the fixture.
const userRules = `@id("fixture") @approver("user") @why("it presses a real key")
permit (principal, action in Action::"family:fixture", resource);`

// deferRules keep calls that nobody answers.
const deferRules = `@id("fixture") @defer("8h")
permit (principal, action in Action::"family:fixture", resource);`

// profile returns a folder for the browser of a person that a test starts. A browser's own programs
// end a moment after it, and write there until then.
func profile(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "profile")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		end := time.Now().Add(site.Within)
		for err := os.RemoveAll(dir); err != nil; err = os.RemoveAll(dir) {
			if time.Now().After(end) {
				t.Error(err)
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	return dir
}

// arena is a site with one node and an agent's and a person's token.
type arena struct {
	*site.Site
	t        *testing.T
	node     *site.Node
	h        *site.Handler
	client   *http.Client
	agent    string // of the principal "agent"
	operator string // of the principal "anna"
}

func enter(t *testing.T, o site.Options) *arena {
	t.Helper()
	s := site.Start(t, o)
	a := &arena{Site: s, t: t, h: site.NewHandler(), client: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(a.client.CloseIdleConnections)
	a.node = s.AddNode("desk", a.h)
	a.agent, a.operator = s.MustToken("agent", principal.RoleAgent), s.MustToken("anna", principal.RoleOperator)
	return a
}

// do makes one HTTP request and returns status and body.
func (a *arena) do(token, method, path, body string) (int, string) {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.t.Context(), method, a.URL()+path, strings.NewReader(body))
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

// press calls the tool that always asks, as caller.
func (a *arena) press(caller dispatch.Caller, args string) capabilities.Result {
	return a.Dispatcher.Call(context.Background(), dispatch.Request{Caller: caller, Tool: site.ToolPress, Args: []byte(args), Surface: "test"})
}

func caller(p capabilities.PrincipalID, lane capabilities.LaneID) dispatch.Caller {
	return dispatch.Caller{Principal: p, Role: "agent", Lane: lane}
}

// waiting returns the one approval that waits.
func (a *arena) waiting() consent.Approval {
	a.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if all := a.Consent.Approvals(); len(all) > 0 {
			return all[0]
		}
	}
	a.t.Fatal("slow: nothing waits for a person")
	return consent.Approval{}
}

// connect opens an MCP session whose person answers as answer says.
func (a *arena) connect(revision string, answer func(*sdk.ElicitParams) *sdk.ElicitResult) *sdk.ClientSession {
	a.t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) { return answer(r.Params), nil },
	})
	s, err := client.Connect(a.t.Context(), &sdk.StreamableClientTransport{
		Endpoint: a.URL() + "/mcp", HTTPClient: &http.Client{Transport: bearer{a.agent, a.client.Transport}}, MaxRetries: -1,
	}, &sdk.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = s.Close() })
	return s
}

type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

func code(res *sdk.CallToolResult) string {
	data, _ := json.Marshal(res.StructuredContent)
	var out struct {
		Code  string `json:"code"`
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	_ = json.Unmarshal(data, &out)
	return out.Code + out.Error.Code
}

func httpClient(a *arena) *http.Client {
	return &http.Client{Transport: bearer{a.agent, a.client.Transport}}
}
