package e2e

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	otlpcollector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/trace"
	"github.com/handrail-dev/handrail/test/site"
)

// tracesTo is a collector that keeps the spans it gets, by OpenTelemetry's own types.
type tracesTo struct {
	*httptest.Server
	mu    sync.Mutex
	raw   []byte
	spans []collected
}

type collected struct {
	*otlp.Span
	service, instance string
}

func (s collected) says(key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

func newTracesTo(t *testing.T) *tracesTo {
	c := &tracesTo{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request otlpcollector.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(body, &request) != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: not a request of OTLP: %v", r.URL, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.raw = append(c.raw, body...)
		for _, group := range request.GetResourceSpans() {
			var one collected
			for _, a := range group.GetResource().GetAttributes() {
				switch a.GetKey() {
				case "service.name":
					one.service = a.GetValue().GetStringValue()
				case "service.instance.id":
					one.instance = a.GetValue().GetStringValue()
				}
			}
			for _, scope := range group.GetScopeSpans() {
				for _, span := range scope.GetSpans() {
					one.Span = span
					c.spans = append(c.spans, one)
				}
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// of waits for the spans of a trace that has n calls, by name; those of one name in the order of
// their beginning.
func (c *tracesTo) of(t *testing.T, id string, n int) map[string][]collected {
	t.Helper()
	byName := map[string][]collected{}
	until(t, "the trace "+id, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		clear(byName)
		calls := 0
		for _, s := range c.spans {
			if hex.EncodeToString(s.GetTraceId()) == id {
				name, _, called := strings.Cut(s.GetName(), " ")
				if called {
					calls++
				}
				byName[name] = append(byName[name], s)
			}
		}
		return calls == n
	})
	for _, list := range byName {
		slices.SortFunc(list, func(a, b collected) int {
			return int(int64(a.GetStartTimeUnixNano()) - int64(b.GetStartTimeUnixNano()))
		})
	}
	return byName
}

// traced is a site that tells a collector.
func traced(t *testing.T, rules string) (*house, *site.Handler, *site.Node, *tracesTo) {
	t.Helper()
	to := newTracesTo(t)
	config, err := trace.FromEnvironment(to.URL, func(string) string { return "" })
	must(t, err)
	h := start(t, site.Options{Rules: rules, ApprovalWait: time.Minute, Door: func(o *gateway.Options) { o.Traces = config }})
	handler := site.NewHandler()
	return h, handler, h.AddNode("one", handler), to
}

// A call is one trace, below the span that its client names: in MCP's _meta, or by the header of
// REST. It has a span for each hop, the device's below the one that sent it there, and nothing of
// what was asked or answered.
func TestTraceOfACall(t *testing.T) {
	h, _, n, to := traced(t, "")
	c := h.client(principal.RoleAgent)
	client := h.session(c.token)
	const payload = "hush-this-is-the-argument"
	for i, surface := range []string{"mcp", "rest"} {
		id, above := fmt.Sprintf("%032x", 0xabc+i), fmt.Sprintf("%016x", 0xdef+i)
		parent := "00-" + id + "-" + above + "-01"
		if surface == "mcp" {
			r, err := client.CallTool(t.Context(), &sdk.CallToolParams{
				Meta: sdk.Meta{"traceparent": parent}, Name: "tool_fixture_echo", Arguments: json.RawMessage(text(payload)),
			})
			must(t, err)
			if r.IsError {
				t.Fatalf("%+v", r)
			}
		} else {
			req, err := http.NewRequest(http.MethodPost, h.URL()+"/v1/calls", strings.NewReader(callBody(site.ToolEcho, text(payload), "")))
			must(t, err)
			req.Header.Set("Authorization", "Bearer "+c.token)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Traceparent", parent)
			answer, err := c.http.Do(req)
			must(t, err)
			answer.Body.Close()
		}
		spans := to.of(t, id, 1)
		for _, name := range []string{"front", "resolve", "place", "decide", "deduplicate", "permit", "commit", "send", "run", "record"} {
			if len(spans[name]) != 1 {
				t.Errorf("%s: %d spans of %s", surface, len(spans[name]), name)
			}
		}
		if t.Failed() {
			return
		}
		call, send, run := spans["execute_tool"][0], spans["send"][0], spans["run"][0]
		if got := hex.EncodeToString(call.GetParentSpanId()); got != above || call.says("gen_ai.tool.name") != string(site.ToolEcho) ||
			call.says("handrail.surface") != surface || call.says("gen_ai.tool.call.id") == "" {
			t.Errorf("%s: below %s: %v", surface, got, call)
		}
		if run.service != "handrail-node" || run.instance != string(n.ID) || call.service != "handrail-gateway" || call.instance == "" {
			t.Errorf("of %s %s and %s %s", run.service, run.instance, call.service, call.instance)
		}
		if !bytes.Equal(run.GetParentSpanId(), send.GetSpanId()) || !bytes.Equal(send.GetParentSpanId(), call.GetSpanId()) {
			t.Error("the device's span is not below the one that sent it there")
		}
		if run.GetStartTimeUnixNano() < send.GetStartTimeUnixNano() || run.GetEndTimeUnixNano() > call.GetEndTimeUnixNano() {
			t.Error("the device's span is outside the call's")
		}
		if surface == "rest" { // the record leads on from the trace
			h.wantStory(capabilities.CallID(call.says("gen_ai.tool.call.id")), "request", "decision", "dispatch", "result")
		}
	}
	to.mu.Lock()
	defer to.mu.Unlock()
	for _, word := range []string{payload, "\x05agent", "e2e"} {
		if bytes.Contains(to.raw, []byte(word)) {
			t.Errorf("the collector was told %q", word)
		}
	}
}

// The time that a person takes to answer is a span. A call that was not wanted in a trace is in
// none.
func TestTraceOfAQuestion(t *testing.T) {
	h, _, _, to := traced(t, `@id("asked") permit (principal, action in Action::"family:fixture", resource) when { context.consent };`)
	admin := h.client(principal.RoleAdmin)
	c := h.client(principal.RoleAgent)
	asks := func(flags string) string {
		id := fmt.Sprintf("%032x", 0x777+len(flags)+int(flags[1]))
		done := make(chan error, 1)
		go func() {
			req, err := http.NewRequest(http.MethodPost, h.URL()+"/v1/calls", strings.NewReader(callBody(site.ToolEcho, text("x"+flags), "")))
			if err == nil {
				req.Header.Set("Authorization", "Bearer "+c.token)
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Traceparent", "00-"+id+"-00f067aa0ba902b7-"+flags)
				var answer *http.Response
				if answer, err = c.http.Do(req); err == nil {
					answer.Body.Close()
				}
			}
			done <- err
		}()
		admin.ok(http.MethodPost, "/v1/approvals/"+waiting(t, h.Site).ID, `{"answer":"allow","acknowledged":true}`, nil)
		must(t, await(t, "the answer", done))
		return id
	}
	unwanted := asks("00")
	spans := to.of(t, asks("01"), 1)
	if len(spans["consent"]) != 1 || len(spans["run"]) != 1 || spans["decide"][0].says("handrail.decision") != "ask" {
		t.Errorf("%v", spans)
	}
	if took := spans["consent"][0]; took.GetEndTimeUnixNano() <= took.GetStartTimeUnixNano() ||
		!bytes.Equal(took.GetParentSpanId(), spans["permit"][0].GetSpanId()) {
		t.Errorf("%v", took)
	}
	if spans := to.of(t, unwanted, 0); len(spans) > 0 {
		t.Errorf("an unwanted trace was told: %v", spans)
	}
}

// The calls that a call makes are in its trace, below it.
func TestTraceOfSteps(t *testing.T) {
	h, _, _, to := traced(t, "")
	r := h.Call(t.Context(), site.ToolConduct, `{"text":"parent","steps":[{"tool":"tool.fixture.echo","args":"{\"text\":\"a\"}"},{"tool":"tool.fixture.echo","args":"{\"text\":\"b\"}"}]}`, "")
	want(t, r, capabilities.StatusOK, "")
	var id string
	until(t, "the trace", func() bool {
		to.mu.Lock()
		defer to.mu.Unlock()
		for _, s := range to.spans {
			if s.says("gen_ai.tool.call.id") == string(r.Call) {
				id = hex.EncodeToString(s.GetTraceId())
			}
		}
		return id != ""
	})
	var parent collected
	steps := 0
	calls := to.of(t, id, 3)["execute_tool"]
	for _, s := range calls {
		if s.says("gen_ai.tool.call.id") == string(r.Call) {
			parent = s
		}
	}
	for _, s := range calls {
		if s.says("handrail.parent_call.id") == string(r.Call) && bytes.Equal(s.GetParentSpanId(), parent.GetSpanId()) {
			steps++
		}
	}
	if steps != 2 {
		t.Errorf("%d steps are below their call: %v", steps, calls)
	}
}

// A collector that is away costs calls nothing, and what it missed is counted.
func TestTracesWithoutACollector(t *testing.T) {
	config, err := trace.FromEnvironment("http://127.0.0.1:1", func(string) string { return "" })
	must(t, err)
	h := start(t, site.Options{Door: func(o *gateway.Options) { o.Traces = config }})
	h.AddNode("one", site.NewHandler())
	want(t, h.by("agent", "l", site.ToolEcho, text("x"), ""), capabilities.StatusOK, "")
	if _, page := h.client(principal.RoleAdmin).do(http.MethodGet, "/metrics", ""); !bytes.Contains(page, []byte(`handrail_trace_spans_total{outcome="dropped"}`)) {
		t.Errorf("nothing counts spans: %s", page)
	}
}
