package trace

import (
	"slices"
	"strings"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/handrail-dev/handrail/capabilities"
)

// told is what a collector reads out of one request: the spans of each service.
func told(t *testing.T, body []byte) map[string][]*otlp.Span {
	t.Helper()
	var request collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil {
		t.Fatal(err)
	}
	if len(request.ProtoReflect().GetUnknown()) > 0 {
		t.Error("fields that no collector knows")
	}
	all := map[string][]*otlp.Span{}
	for _, r := range request.GetResourceSpans() {
		service := ""
		for _, a := range r.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, s := range r.GetScopeSpans() {
			all[service] = append(all[service], s.GetSpans()...)
		}
	}
	return all
}

// shape says a span in short: its name, its bounds in µs since began, and whether it failed.
func shape(s *otlp.Span, began time.Time) string {
	at := func(ns uint64) string { return time.Unix(0, int64(ns)).Sub(began).String() }
	text := s.GetName() + " " + at(s.GetStartTimeUnixNano()) + " " + at(s.GetEndTimeUnixNano())
	if s.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR {
		text += " failed"
	}
	return text
}

var source1 = source{gateway: []attr{{"service.name", gatewayService}}, node: []attr{{"service.name", nodeService}}, version: "1"}

// Each hop that a call took is a span of its own, below the call's; the device's is below the one
// that sent it there.
func TestSpans(t *testing.T) {
	began := time.Unix(1700000000, 123000)
	hops := func(ends ...int64) (h [capabilities.HopAnswer]int64) {
		copy(h[capabilities.HopResolve:], ends)
		return h
	}
	for name, one := range map[string]struct {
		call          Call
		gateway, node []string
	}{
		"on a device": {
			call: Call{
				Tool: "tool.fixture.echo", Node: "n1", Status: capabilities.StatusOK, Effect: "allow", Came: began.Add(-time.Millisecond),
				Took: 95 * time.Microsecond, Hops: hops(10, 20, 30, 31, 32, 40, 41, 50, 80, 90),
			},
			gateway: []string{
				"execute_tool tool.fixture.echo -1ms 95µs", "front -1ms 0s", "resolve 0s 10µs", "place 10µs 20µs", "decide 20µs 30µs", "deduplicate 30µs 31µs",
				"permit 31µs 32µs", "commit 32µs 40µs", "send 40µs 80µs", "record 80µs 90µs",
			},
			node: []string{"run 50µs 80µs"},
		},
		"a person is asked": {
			call: Call{
				Tool: "tool.fixture.echo", Node: "n1", Status: capabilities.StatusError, Code: capabilities.CodeInternal, Effect: "ask",
				Took: 9 * time.Second, Hops: hops(10, 20, 30, 31, 5000040, 5000050, 5000051, 5000060, 8000000, 8000001),
				Asked: 35 * time.Microsecond, Waited: 5 * time.Second,
			},
			gateway: []string{
				"execute_tool tool.fixture.echo 0s 9s failed", "resolve 0s 10µs", "place 10µs 20µs", "decide 20µs 30µs", "deduplicate 30µs 31µs",
				"permit 31µs 5.00004s", "consent 35µs 5.000035s", "commit 5.00004s 5.00005s", "send 5.00005s 8s failed", "record 8s 8.000001s",
			},
			node: []string{"run 5.00006s 8s failed"},
		},
		"nobody answers": {
			call: Call{
				Tool: "tool.fixture.echo", Node: "n1", Status: capabilities.StatusPending, Code: capabilities.CodeApprovalPending, Effect: "ask",
				Took: 45 * time.Second, Hops: hops(10, 20, 30, 31), Asked: 40 * time.Microsecond, Waited: 44 * time.Second,
			},
			gateway: []string{
				"execute_tool tool.fixture.echo 0s 45s", "resolve 0s 10µs", "place 10µs 20µs", "decide 20µs 30µs", "deduplicate 30µs 31µs", "permit 31µs 45s",
				"consent 40µs 44.00004s",
			},
		},
		"denied": {
			call: Call{
				Tool: "tool.fixture.echo", Status: capabilities.StatusDenied, Code: capabilities.CodeDeniedByPolicy, Effect: "deny",
				Took: 25 * time.Microsecond, Hops: hops(10, 20),
			},
			gateway: []string{
				"execute_tool tool.fixture.echo 0s 25µs failed", "resolve 0s 10µs", "place 10µs 20µs", "decide 20µs 25µs failed",
			},
		},
		"no such tool": {
			call:    Call{Status: capabilities.StatusError, Code: capabilities.CodeUnknownTool, Took: 5 * time.Microsecond},
			gateway: []string{"execute_tool 0s 5µs failed", "resolve 0s 5µs failed"},
		},
		"the gateway's own, inside another": { // such a call goes round deduplication
			call: Call{
				Tool: "tool.node.list", Inside: "c0", Status: capabilities.StatusOK, Effect: "allow", Took: 60 * time.Microsecond,
				Hops: hops(10, 20, 30, 0, 32, 40, 0, 0, 0, 55),
			},
			gateway: []string{
				"execute_tool tool.node.list 0s 60µs", "resolve 0s 10µs", "place 10µs 20µs", "decide 20µs 30µs", "permit 30µs 32µs", "commit 32µs 40µs",
				"run 40µs 55µs",
			},
		},
		"a device that is cut off": {
			call: Call{
				Tool: "tool.fixture.echo", Node: "n1", Status: capabilities.StatusError, Code: capabilities.CodeNodeDisconnected, Effect: "allow",
				Took: 95 * time.Microsecond, Hops: hops(10, 20, 30, 31, 32, 40, 41, 0, 0, 90),
			},
			gateway: []string{
				"execute_tool tool.fixture.echo 0s 95µs failed", "resolve 0s 10µs", "place 10µs 20µs", "decide 20µs 30µs", "deduplicate 30µs 31µs",
				"permit 31µs 32µs", "commit 32µs 40µs", "send 40µs 90µs failed",
			},
		},
		"a repetition": {
			call: Call{
				Tool: "tool.fixture.echo", Node: "n1", Repeats: "c9", Status: capabilities.StatusOK, Effect: "allow", Took: 95 * time.Microsecond,
				Hops: hops(10, 20, 30),
			},
			gateway: []string{"execute_tool tool.fixture.echo 0s 95µs", "resolve 0s 10µs", "place 10µs 20µs", "decide 20µs 30µs"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := one.call
			c.Place, c.ID, c.Surface, c.Began = Below(Parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")), "call_1", "mcp", began
			body, count := source1.encode([]Call{c})
			all := told(t, body)
			var got [2][]string
			for i, service := range []string{gatewayService, nodeService} {
				for _, s := range all[service] {
					got[i] = append(got[i], shape(s, began))
					if ID(s.GetTraceId()) != c.Trace || len(s.GetSpanId()) != 8 {
						t.Errorf("%s is in another trace", s.GetName())
					}
				}
			}
			if !slices.Equal(got[0], one.gateway) || !slices.Equal(got[1], one.node) {
				t.Errorf("the gateway's:\n%s\nthe device's:\n%s", strings.Join(got[0], "\n"), strings.Join(got[1], "\n"))
			}
			if count != len(one.gateway)+len(one.node) {
				t.Errorf("%d spans are counted", count)
			}
			ids := map[SpanID]string{}
			for _, list := range all {
				for _, s := range list {
					ids[SpanID(s.GetSpanId())] = s.GetName()
				}
			}
			for _, list := range all {
				for _, s := range list {
					want := all[gatewayService][0].GetName()
					switch s.GetName() {
					case want:
						if SpanID(s.GetParentSpanId()) != c.Above {
							t.Errorf("the call is below %x", s.GetParentSpanId())
						}
						continue
					case spanConsent:
						want = "permit"
					case "run":
						if len(one.node) > 0 {
							want = "send"
						}
					}
					if got := ids[SpanID(s.GetParentSpanId())]; got != want {
						t.Errorf("%s is below %q", s.GetName(), got)
					}
				}
			}
		})
	}
}

// A span speaks of its call in OpenTelemetry's words where there are any.
func TestWhatASpanSays(t *testing.T) {
	c := Call{
		Place: Below(Context{}), ID: "call_1", Inside: "call_0", Tool: "tool.fixture.echo", Node: "n1", Surface: "rest", Status: capabilities.StatusError,
		Code: capabilities.CodeInternal, Began: time.Now(),
	}
	body, _ := source1.encode([]Call{c})
	says := map[string]string{}
	for _, a := range told(t, body)[gatewayService][0].GetAttributes() {
		says[a.GetKey()] = a.GetValue().GetStringValue()
	}
	for key, want := range map[string]string{
		"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "tool.fixture.echo", "gen_ai.tool.call.id": "call_1", "handrail.parent_call.id": "call_0",
		"handrail.surface": "rest", "handrail.node.id": "n1", "handrail.status": "error", "error.type": "internal",
	} {
		if says[key] != want {
			t.Errorf("%s is %q", key, says[key])
		}
	}
	if len(says) != 8 {
		t.Errorf("it says %v", says)
	}
}

func TestRejected(t *testing.T) {
	answer, err := proto.Marshal(&collector.ExportTraceServiceResponse{
		PartialSuccess: &collector.ExportTracePartialSuccess{RejectedSpans: 300, ErrorMessage: "too many"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := rejected(answer); n != 300 {
		t.Errorf("%d are rejected", n)
	}
	for _, none := range []string{"", "{}", "\x0a", "\x0a\xff", "\x0a\x02\x08", "\x0b", "\x09\x01"} {
		if n := rejected([]byte(none)); n != 0 {
			t.Errorf("%q rejects %d", none, n)
		}
	}
}

// The reader of answers reads what the library of OpenTelemetry's own types reads, and of what that
// cannot read it makes nothing large.
func FuzzRejected(f *testing.F) {
	f.Add([]byte("\x0a\x03\x08\xac\x02"))
	f.Add([]byte("\x12\x01a\x0a\x05\x12\x01b\x08\x07"))
	f.Add([]byte("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		n := rejected(answer)
		var says collector.ExportTraceServiceResponse
		if proto.Unmarshal(answer, &says) != nil {
			return
		}
		again, err := proto.Marshal(&says) // one of each field
		if err != nil {
			return
		}
		if got, want := rejected(again), uint64(says.GetPartialSuccess().GetRejectedSpans()); got != want {
			t.Fatalf("%x: %d, not %d (as it came: %d)", answer, got, want, n)
		}
	})
}
