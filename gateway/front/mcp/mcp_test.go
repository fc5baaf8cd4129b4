package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/front/fronttest"
	"github.com/handrail-dev/handrail/gateway/front/mcp"
	"github.com/handrail-dev/handrail/gateway/principal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// revisions are all that the surface serves, on the same address.
var revisions = []string{"2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

func start(t testing.TB) *fronttest.Front {
	t.Helper()
	f := fronttest.Prepare(t)
	return f.Start(surface(t, f))
}

// bounded is start with lower bounds than the real ones.
func bounded(t *testing.T, views, sessions int) *fronttest.Front {
	t.Helper()
	f := fronttest.Prepare(t)
	s := surface(t, f)
	s.Bound(views, sessions)
	return f.Start(s)
}

func surface(t testing.TB, f *fronttest.Front) *mcp.Server {
	t.Helper()
	s, err := mcp.New(mcp.Options{
		Dispatcher: f.Dispatcher, Tools: f.Dispatcher.Catalog, Lanes: f.Lanes, Working: f.Lanes, Tokens: f.Tokens,
		Version: "1.2.3", Log: f.Log, Now: f.Clock.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// connect opens a client session of that revision at path.
func connect(t testing.TB, f *fronttest.Front, token, path, revision string, o *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: f.URL + path, HTTPClient: f.Client(token), MaxRetries: -1,
	}, &sdk.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatalf("connect %s: %v", revision, err)
	}
	t.Cleanup(func() { _ = session.Close() })
	if got := session.InitializeResult().ProtocolVersion; got != revision {
		t.Fatalf("negotiated %s, want %s", got, revision)
	}
	return session
}

func eachRevision(t *testing.T, run func(t *testing.T, revision string)) {
	for _, r := range revisions {
		t.Run(r, func(t *testing.T) { run(t, r) })
	}
}

func names(t testing.TB, s *sdk.ClientSession) map[string]*sdk.Tool {
	t.Helper()
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]*sdk.Tool)
	for _, tool := range list.Tools {
		all[tool.Name] = tool
	}
	return all
}

func call(t testing.TB, s *sdk.ClientSession, name string, args any) *sdk.CallToolResult {
	t.Helper()
	res, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return res
}

func text(res *sdk.CallToolResult) string {
	var all []string
	for _, c := range res.Content {
		if t, ok := c.(*sdk.TextContent); ok {
			all = append(all, t.Text)
		}
	}
	return strings.Join(all, "\n")
}

func TestListAndCall(t *testing.T) {
	f := start(t)
	f.Dispatcher.Do(fronttest.ToolText, func(_ context.Context, r dispatch.Request) capabilities.Result {
		res := fronttest.OK(`{"text":"hello"}`)
		res.Effect, res.Evidence, res.Untrusted = capabilities.EffectConfirmed, "it said so", true
		res.Routing = &capabilities.Routing{Selected: "n1", Mode: capabilities.SelectSole}
		return res
	})
	token := f.Token("alice", principal.RoleAgent)
	eachRevision(t, func(t *testing.T, revision string) {
		s := connect(t, f, token, "/mcp", revision, nil)
		if s.InitializeResult().Instructions == "" {
			t.Error("no instructions")
		}
		tools := names(t, s)
		if tools["tool_browser_navigate"] == nil || tools["test_simple_text"] == nil {
			t.Fatalf("wire names are missing in %v", tools)
		}
		for name, tool := range tools {
			if strings.ContainsAny(name, ".-") {
				t.Errorf("%s: most clients refuse such a name", name)
			}
			if tool.Title == "" || tool.Description == "" || tool.OutputSchema == nil {
				t.Errorf("%s has no title, description or output schema", name)
			}
		}
		for _, hidden := range []string{"test_hidden", "tool_desktop_clipboard_write"} {
			if tools[hidden] != nil {
				t.Errorf("%s is listed", hidden)
			}
		}
		res := call(t, s, "test_simple_text", map[string]any{"text": "x"})
		if res.IsError || !strings.HasPrefix(text(res), `{"text":"hello"}`) {
			t.Errorf("result %s", text(res))
		}
		if !strings.Contains(text(res), "effect confirmed (it said so)") || !strings.Contains(text(res), "third-party content") {
			t.Errorf("what was verified is not told: %s", text(res))
		}
		if got, _ := json.Marshal(res.StructuredContent); string(got) != `{"text":"hello"}` {
			t.Errorf("structured %s", got)
		}
		meta, _ := res.Meta["dev.handrail/call"].(map[string]any)
		if meta["tool_id"] != "test.simple-text" || meta["call_id"] == "" || meta["routing"] == nil {
			t.Errorf("meta %v", meta)
		}
		seen := f.Dispatcher.Seen()
		last := seen[len(seen)-1]
		if last.Principal != "alice" || last.Role != "agent" || last.Lane != "alice" || last.Surface != "mcp" || string(last.Args) != `{"text":"x"}` {
			t.Errorf("request %+v", last)
		}
	})
}

func TestErrors(t *testing.T) {
	f := start(t)
	f.Dispatcher.Do(fronttest.ToolFailing, func(context.Context, dispatch.Request) capabilities.Result {
		return fronttest.Fail(capabilities.CodeNodeNotReady, map[string]any{"reason": "backend_missing", "fix": "install it"})
	})
	token := f.Token("alice", principal.RoleAgent)
	eachRevision(t, func(t *testing.T, revision string) {
		s := connect(t, f, token, "/mcp", revision, nil)
		res := call(t, s, "test_error_handling", nil)
		info := capabilities.CodeNodeNotReady.Info()
		for _, want := range []string{"node_not_ready", info.Message, info.Hint, "backend_missing"} {
			if !res.IsError || !strings.Contains(text(res), want) {
				t.Errorf("%q is missing in %q", want, text(res))
			}
		}
		e, _ := res.StructuredContent.(map[string]any)["error"].(map[string]any)
		if e["code"] != "node_not_ready" || e["hint"] != info.Hint || e["retryable"] != true || e["call_id"] == "" {
			t.Errorf("structured %v", e)
		}
		res = call(t, s, "test_simple_text", map[string]any{"wrong": 1})
		if !res.IsError || !strings.Contains(text(res), "/wrong") {
			t.Errorf("violations are not told: %s", text(res))
		}
		// A tool that exists but is hidden reaches the dispatcher, which refuses and records.
		res = call(t, s, "test_hidden", nil)
		if !res.IsError || !strings.Contains(text(res), "denied_by_policy") {
			t.Errorf("hidden tool: %s", text(res))
		}
		for _, name := range []string{"no_such_tool", "tool_desktop_clipboard_write", strings.Repeat("x", 5000)} {
			_, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: name})
			if err == nil || !strings.Contains(err.Error(), "unknown tool") || len(err.Error()) > 500 {
				t.Errorf("%.20s: %v", name, err)
			}
		}
	})
}

// A defect below costs its own call, not the process.
func TestPanicsStayInTheirCall(t *testing.T) {
	f := start(t)
	f.Dispatcher.Do(fronttest.ToolText, func(context.Context, dispatch.Request) capabilities.Result { panic("inner HUNTER2") })
	token := f.Token("alice", principal.RoleAgent)
	eachRevision(t, func(t *testing.T, revision string) {
		s := connect(t, f, token, "/mcp", revision, nil)
		res := call(t, s, "test_simple_text", nil)
		if !res.IsError || !strings.Contains(text(res), "internal") || strings.Contains(text(res), "HUNTER2") {
			t.Errorf("%q", text(res))
		}
		if len(names(t, s)) == 0 {
			t.Error("the session did not live on")
		}
	})
}

func TestContentKinds(t *testing.T) {
	f := start(t)
	png, wav := []byte("\x89PNG fake"), []byte("RIFF fake")
	f.Dispatcher.Do(fronttest.ToolMixed, func(context.Context, dispatch.Request) capabilities.Result {
		return fronttest.OK(`{"text":"three kinds"}`,
			capabilities.Blob{Field: "bytesBase64", MIME: "image/png", Bytes: png},
			capabilities.Blob{Field: "sound", MIME: "audio/wav", Bytes: wav},
			capabilities.Blob{Field: "file", MIME: "application/pdf", Bytes: []byte("%PDF")},
			capabilities.Blob{Field: "drawing", MIME: "image/svg+xml", Bytes: []byte("<svg/>")})
	})
	token := f.Token("alice", principal.RoleAgent)
	eachRevision(t, func(t *testing.T, revision string) {
		res := call(t, connect(t, f, token, "/mcp", revision, nil), "test_multiple_content_types", nil)
		if len(res.Content) != 5 {
			t.Fatalf("%d contents", len(res.Content))
		}
		image, ok := res.Content[1].(*sdk.ImageContent)
		if !ok || image.MIMEType != "image/png" || !bytes.Equal(image.Data, png) {
			t.Errorf("image %+v", res.Content[1])
		}
		if audio, ok := res.Content[2].(*sdk.AudioContent); !ok || !bytes.Equal(audio.Data, wav) {
			t.Errorf("audio %+v", res.Content[2])
		}
		if file, ok := res.Content[3].(*sdk.EmbeddedResource); !ok || string(file.Resource.Blob) != "%PDF" || file.Resource.MIMEType != "application/pdf" ||
			!strings.HasPrefix(file.Resource.URI, "handrail://call/") || !strings.HasSuffix(file.Resource.URI, "/file") {
			t.Errorf("resource %+v", res.Content[3])
		}
		if drawing, ok := res.Content[4].(*sdk.EmbeddedResource); !ok || drawing.Resource.MIMEType != "image/svg+xml" {
			t.Errorf("a drawing that models do not take: %+v", res.Content[4])
		}
		if got, _ := json.Marshal(res.StructuredContent); string(got) != `{"text":"three kinds"}` {
			t.Errorf("structured output holds more than the output: %s", got)
		}
	})
}

func TestProgress(t *testing.T) {
	f := start(t)
	f.Dispatcher.Do(fronttest.ToolProgress, func(_ context.Context, r dispatch.Request) capabilities.Result {
		if r.Progress == nil {
			return fronttest.Fail(capabilities.CodeInternal, nil)
		}
		for _, done := range []float64{0, 50, 50, 100} { // one that does not advance
			r.Progress(capabilities.Progress{Done: done, Total: 100, Message: "at it"})
		}
		return fronttest.OK(`{}`)
	})
	token := f.Token("alice", principal.RoleAgent)
	eachRevision(t, func(t *testing.T, revision string) {
		got := make(chan float64, 10)
		s := connect(t, f, token, "/mcp", revision, &sdk.ClientOptions{
			ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
				if r.Params.ProgressToken == "mine" {
					got <- r.Params.Progress
				}
			},
		})
		res, err := s.CallTool(t.Context(), &sdk.CallToolParams{
			Meta: sdk.Meta{"progressToken": "mine"}, Name: "test_tool_with_progress",
		})
		if err != nil || res.IsError {
			t.Fatalf("%v %v", err, res)
		}
		for _, want := range []float64{0, 50, 100} {
			if p := <-got; p != want {
				t.Errorf("progress %v, want %v", p, want)
			}
		}
		// Nobody asked, nobody is told.
		if res := call(t, s, "test_tool_with_progress", nil); !res.IsError {
			t.Error("progress without a token")
		}
	})
}

// waiting makes ToolWait say when it runs and why it ended.
func waiting(f *fronttest.Front) (running <-chan struct{}, ended <-chan error) {
	r, e := make(chan struct{}, 1), make(chan error, 1)
	f.Dispatcher.Do(fronttest.ToolWait, func(ctx context.Context, _ dispatch.Request) capabilities.Result {
		r <- struct{}{}
		<-ctx.Done()
		e <- ctx.Err()
		return fronttest.Fail(capabilities.CodeCancelled, nil)
	})
	return r, e
}

func TestCancellationReachesTheTool(t *testing.T) {
	f := start(t)
	running, ended := waiting(f)
	token := f.Token("alice", principal.RoleAgent)
	eachRevision(t, func(t *testing.T, revision string) {
		s := connect(t, f, token, "/mcp", revision, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "test_wait"})
			done <- err
		}()
		<-running
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the client got %v", err)
		}
		<-ended
	})
}

// A client that dies takes its call with it: its answer could not be delivered.
func TestClientThatGoesAwayCancels(t *testing.T) {
	f := start(t)
	running, ended := waiting(f)
	token := f.Token("alice", principal.RoleAgent)
	session := rawInitialize(t, f, token, "/mcp")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		req := rawRequest(t, f, token, "/mcp", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"test_wait"}}`)
		req.Header.Set("Mcp-Session-Id", session)
		req.Header.Set("Handrail-Visit", "forged") // ours alone: must not get in the way
		if resp, err := http.DefaultClient.Do(req.WithContext(ctx)); err == nil {
			resp.Body.Close()
		}
	}()
	<-running
	cancel()
	<-ended
	<-done
	http.DefaultClient.CloseIdleConnections()
}

func TestListFollowsWhatIsVisible(t *testing.T) {
	f := start(t)
	token := f.Token("alice", principal.RoleAgent)
	eachRevision(t, func(t *testing.T, revision string) {
		f.Dispatcher.Show(fronttest.ToolNodeList, fronttest.ToolText)
		changed := make(chan struct{}, 10)
		s := connect(t, f, token, "/mcp/l/"+revision, revision, &sdk.ClientOptions{
			ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { changed <- struct{}{} },
		})
		await(t, s, "tool_node_list", "test_simple_text")
		// A client opens its stream for notifications in its own time, so change
		// something until it says that it was told.
		for told := false; !told; {
			f.Dispatcher.Show(fronttest.ToolNodeList)
			f.Dispatcher.Show(fronttest.ToolNodeList, fronttest.ToolSnapshot)
			select {
			case <-changed:
				told = true
			case <-time.After(50 * time.Millisecond):
			}
		}
		await(t, s, "tool_node_list", "tool_browser_snapshot")
		f.Dispatcher.Show(fronttest.ToolNodeList, fronttest.ToolNavigate)
		<-changed
		await(t, s, "tool_node_list", "tool_browser_navigate")
	})
}

// await reads the list until it is exactly want: a change travels on its own time.
func await(t *testing.T, s *sdk.ClientSession, want ...string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		tools := names(t, s)
		same := len(tools) == len(want)
		for _, name := range want {
			same = same && tools[name] != nil
		}
		if same {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("list is %v, want %v", tools, want)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func TestFiltersAndNames(t *testing.T) {
	f := start(t)
	token := f.Token("alice", principal.RoleAgent)
	s := connect(t, f, token, "/mcp?tools=node,browser", "2025-11-25", nil)
	tools := names(t, s)
	if tools["tool_node_list"] == nil || tools["tool_browser_click"] == nil || tools["test_simple_text"] != nil || tools["tool_desktop_act"] != nil {
		t.Errorf("filtered list %v", tools)
	}
	if _, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "test_simple_text"}); err == nil {
		t.Error("a tool outside the chosen families could be called")
	}
	s = connect(t, f, token, "/mcp?names=canonical", "2026-07-28", nil)
	tools = names(t, s)
	if tools["tool.browser.click"] == nil || tools["tool_browser_click"] != nil {
		t.Errorf("canonical list %v", tools)
	}
	for _, name := range []string{"test.simple-text", "test_simple_text"} { // either name works
		if res := call(t, s, name, nil); res.IsError {
			t.Errorf("%s: %s", name, text(res))
		}
	}
	for _, path := range []string{"/mcp?names=other", "/mcp?token=hrt_x", "/mcp?tools=" + strings.Repeat("a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,", 1), "/mcp?tools=a%00", "/mcp?%zz"} {
		if status, _ := rawPost(t, f, token, path, initialize, ""); status != http.StatusBadRequest {
			t.Errorf("%s gives %d", path, status)
		}
	}
}

func TestLanes(t *testing.T) {
	f := start(t)
	_, token := f.Mint(principal.Spec{Principal: "alice", Role: principal.RoleAgent, Lane: "work"})
	bob := f.Token("bob", principal.RoleAgent)
	for path, want := range map[string]capabilities.LaneID{"/mcp": "work", "/mcp/l/other": "other", "/mcp/l/a/b": "a/b"} {
		call(t, connect(t, f, token, path, "2025-06-18", nil), "test_simple_text", nil)
		seen := f.Dispatcher.Seen()
		if got := seen[len(seen)-1].Lane; got != want {
			t.Errorf("%s: lane %q, want %q", path, got, want)
		}
	}
	if status, body := rawPost(t, f, bob, "/mcp/l/other", initialize, ""); status != http.StatusForbidden {
		t.Errorf("another principal's lane gives %d %s", status, body)
	}
	if status, _ := rawPost(t, f, bob, "/mcp/l/bad%00name", initialize, ""); status != http.StatusBadRequest {
		t.Errorf("a bad lane name gives %d", status)
	}
}

func TestSessionIsBoundToItsTokenAndLane(t *testing.T) {
	f := start(t)
	alice, bob := f.Token("alice", principal.RoleAgent), f.Token("bob", principal.RoleAgent)
	second := f.Token("alice", principal.RoleAdmin)
	session := rawInitialize(t, f, alice, "/mcp")
	ping := `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	if status, body := rawPost(t, f, alice, "/mcp", ping, session); status != http.StatusOK {
		t.Fatalf("its own session gives %d %s", status, body)
	}
	for who, req := range map[string]*http.Request{
		"another principal":       rawRequest(t, f, bob, "/mcp", ping),
		"another token of hers":   rawRequest(t, f, second, "/mcp", ping),
		"another lane":            rawRequest(t, f, alice, "/mcp/l/x", ping),
		"another principal's GET": func() *http.Request { r := rawRequest(t, f, bob, "/mcp", ""); r.Method = "GET"; return r }(),
		"another's DELETE":        func() *http.Request { r := rawRequest(t, f, bob, "/mcp", ""); r.Method = "DELETE"; return r }(),
	} {
		req.Header.Set("Mcp-Session-Id", session)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s gets %d on the session", who, resp.StatusCode)
		}
	}
	if status, _ := rawPost(t, f, alice, "/mcp", ping, session); status != http.StatusOK {
		t.Errorf("the session did not survive strangers: %d", status)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestRevokedTokenEndsEverything(t *testing.T) {
	f := start(t)
	running, ended := waiting(f)
	eachRevision(t, func(t *testing.T, revision string) {
		rec, token := f.Mint(principal.Spec{Principal: "alice", Role: principal.RoleAgent})
		s := connect(t, f, token, "/mcp", revision, nil)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = s.CallTool(context.Background(), &sdk.CallToolParams{Name: "test_wait"})
		}()
		<-running
		if _, err := f.Tokens.Revoke(t.Context(), principal.Site, rec.ID); err != nil {
			t.Fatal(err)
		}
		<-ended // the running call ends, without the client doing anything
		<-done
		if _, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "test_simple_text"}); err == nil {
			t.Error("a revoked token calls")
		}
	})
}

func TestListsAreNotForSharedCaches(t *testing.T) {
	f := start(t)
	s := connect(t, f, f.Token("alice", principal.RoleAgent), "/mcp", "2026-07-28", nil)
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if list.CacheScope != "private" {
		t.Errorf("cacheScope %q: lists differ by principal", list.CacheScope)
	}
}

func TestRequestID(t *testing.T) {
	f := start(t)
	s := connect(t, f, f.Token("alice", principal.RoleAgent), "/mcp", "2025-11-25", nil)
	for id, bad := range map[any]bool{"r-1": false, 5: true, "bad id\n": true} {
		res, err := s.CallTool(t.Context(), &sdk.CallToolParams{Meta: sdk.Meta{"dev.handrail/request_id": id}, Name: "test_simple_text"})
		if err != nil {
			t.Fatal(err)
		}
		if res.IsError != bad {
			t.Errorf("%v: %s", id, text(res))
		}
		if seen := f.Dispatcher.Seen(); !bad && string(seen[len(seen)-1].RequestID) != id {
			t.Errorf("request ID is %q", seen[len(seen)-1].RequestID)
		}
	}
}
