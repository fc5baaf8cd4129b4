package e2e

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// The device is told where a call stands in its trace: at the call's own span where a collector is
// told of that, else where the caller stands, and nowhere where there is no trace.
func TestATraceGoesOnToTheDevice(t *testing.T) {
	calls := func(h *house, traceparent string) {
		t.Helper()
		c := h.client(principal.RoleAgent)
		req, err := http.NewRequest(http.MethodPost, h.URL()+"/v1/calls", strings.NewReader(callBody(site.ToolEcho, text("x"+traceparent), "")))
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+c.token)
		req.Header.Set("Content-Type", "application/json")
		if traceparent != "" {
			req.Header.Set("Traceparent", traceparent)
		}
		answer, err := c.http.Do(req)
		must(t, err)
		answer.Body.Close()
	}
	told := make(chan string, 1)
	notes := func(inv capabilities.Invocation, _ string) { told <- inv.Trace }
	id := fmt.Sprintf("%032x", 0xbeef)
	parent := "00-" + id + "-00f067aa0ba902b7-01"

	h, handler, _, to := traced(t, "")
	handler.Stray = notes
	calls(h, parent)
	span := to.of(t, id, 1)["execute_tool"][0]
	if got, want := <-told, "00-"+id+"-"+hex.EncodeToString(span.GetSpanId())+"-01"; got != want {
		t.Errorf("the device is told %q, want %s", got, want)
	}

	alone := start(t, site.Options{})
	handler = site.NewHandler()
	handler.Stray = notes
	alone.AddNode("one", handler)
	for _, want := range []string{parent, ""} {
		calls(alone, want)
		if got := <-told; got != want {
			t.Errorf("without a collector the device is told %q, want %q", got, want)
		}
	}
}
