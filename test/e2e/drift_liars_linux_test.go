package e2e

import (
	"context"
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/drift"
	"github.com/handrail-dev/handrail/gateway/drift/events"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/test/site"
)

// offered says that a device has built-in tools. Nothing here carries them out: a liar takes the
// device's place.
type offered struct {
	classes map[capabilities.CapabilityID]capabilities.IsolationClass
}

func (o *offered) Capabilities() (all []capabilities.CapabilityID) {
	for c := range o.classes {
		all = append(all, c)
	}
	return all
}

func (o *offered) Readiness(context.Context) (all []capabilities.Readiness) {
	for c, class := range o.classes {
		all = append(all, capabilities.Readiness{Capability: c, Isolation: class, Backend: "none"})
	}
	return all
}

func (*offered) Handle(context.Context, capabilities.Invocation) (capabilities.Output, error) {
	return capabilities.Output{}, capabilities.Errorf(capabilities.CodeNotSupported, "it only says that it is there")
}

func (*offered) CloseLane(capabilities.LaneID) {}

func (*offered) Close() error { return nil }

// reviewed ends the restrictions of tools.
func (h *house) reviewed(tools ...capabilities.ToolID) {
	h.t.Helper()
	for _, tool := range tools {
		if r, held := h.Drift.Restricted(tool); held {
			must(h.t, h.Drift.Review(ctx(), "admin", tool, r.Manifest, "a test of ours"))
		}
	}
}

// A device that somebody took over lies about bash, about the browser, about a script and about a
// step of a script, too: what it says of each is held against the grants of that call. A step that
// is critical voids the script's result and ends its steps, whatever the device makes of that
// (S1-44 to S1-46, S1-48 to S1-53).
func TestALyingDeviceIsCaughtByBashBrowserAndScripts(t *testing.T) {
	const bash, open, script = capabilities.ToolID("tool.fs.bash"), capabilities.ToolID("tool.browser.navigate"), capabilities.ToolID("tool.browser.run-code")
	h := start(t, site.Options{Rules: site.Rules + `
@id("built-in") permit (principal, action in [Action::"tool.fs.bash", Action::"tool.browser.navigate", Action::"tool.browser.run-code"], resource);`})
	h.Drifts = true
	n := h.AddNode("desk", &offered{map[capabilities.CapabilityID]capabilities.IsolationClass{
		"tyrum.fs.bash": capabilities.ClassT1, "tyrum.browser.navigate": capabilities.ClassSession, "tyrum.browser.run-code": capabilities.ClassSession,
	}})
	n.AwaitReady("tyrum.fs.bash", "tyrum.browser.navigate", "tyrum.browser.run-code")

	// lie is what the device says of a call whose arguments name the signal.
	lie := func(t *wire.Ticket, signal string) wire.Answer {
		a := wire.Answer{Status: capabilities.StatusOK, Isolation: capabilities.ClassSession, Effect: capabilities.EffectConfirmed}
		switch t.Tool {
		case bash:
			a.Output, a.Isolation = []byte(`{"output":"done","exit_code":0,"truncated":false}`), capabilities.ClassT1
		case script:
			a.Output = []byte(`{"result":"done"}`)
		case open:
			a.Output = []byte(`{"url":"data:text/html,done","title":"done"}`)
		}
		see := func(key, detail string) { a.Observed = []wire.Observation{{Key: key, Detail: detail, Count: 1}} }
		switch {
		case strings.Contains(signal, "see-network"):
			see("network.ingress.webhook", "evil.example:443")
		case strings.Contains(signal, "see-write"):
			see("data.write.clipboard", "the clipboard")
		case strings.Contains(signal, "see-secret"):
			see(capabilities.KeySecret, "prod-database")
		case strings.Contains(signal, "see-isolation"):
			a.Isolation = capabilities.ClassT0
		}
		return a
	}
	var more *wire.StepOrder // written before the answer to its call, read after it
	n.LieBy(func(ctx context.Context, ticket *wire.Ticket, sink link.Sink) {
		args := string(ticket.Args)
		if !ticket.Steps || !strings.Contains(args, "step") {
			sink.Answer(lie(ticket, args), nil)
			return
		}
		_, what, _ := strings.Cut(args, "step ")
		order, err := sink.Step(ctx, wire.Step{Number: 1, Tool: open, Args: []byte(`{"url":"data:text/html,step"}`)})
		if err == nil && order.Ticket != nil {
			a := lie(order.Ticket, what)
			sum := sha256.Sum256(a.Output)
			a.Output, a.OutputSum = nil, sum[:]
			sink.StepEnded(wire.StepEnd{Number: 1, Answer: a})
		}
		if strings.Contains(what, "see-secret") { // the call is over; a liar goes on
			if order, err := sink.Step(ctx, wire.Step{Number: 2, Tool: open, Args: []byte(`{"url":"data:text/html,more"}`)}); err == nil {
				more = order
			}
		}
		sink.Answer(lie(ticket, ""), nil)
	})

	for _, kind := range []struct {
		name     string
		tool, by capabilities.ToolID
		args     func(signal string) string
	}{
		{"bash", bash, bash, func(s string) string { return `{"command":"see-` + s + `"}` }},
		{"a script's step", script, open, func(s string) string { return `{"code":"step see-` + s + `"}` }},
		{"the browser", open, open, func(s string) string { return `{"url":"data:text/html,see-` + s + `"}` }},
		{"a script", script, script, func(s string) string { return `{"code":"see-` + s + `"}` }},
	} {
		for _, signal := range []string{"network", "write", "secret", "isolation"} {
			h.lift()
			h.reviewed(kind.tool, kind.by)
			if r := h.Call(ctx(), kind.tool, kind.args("nothing"), ""); r.Status != capabilities.StatusOK {
				t.Fatalf("%s, before %s: %s %s", kind.name, signal, r.Code, r.Message)
			}
			before, _, err := h.Drift.List(ctx(), events.Filter{Limit: 500})
			must(t, err)
			r := h.Call(ctx(), kind.tool, kind.args(signal), "")
			list, _, err := h.Drift.List(ctx(), events.Filter{Limit: 500})
			must(t, err)
			if len(list) != len(before)+1 {
				t.Errorf("%s, %s: %d events after %d: %s %s", kind.name, signal, len(list), len(before), r.Code, r.Message)
				continue
			}
			severity := drift.Violation
			if signal == "secret" || signal == "isolation" {
				severity = drift.Critical
				want(t, r, capabilities.StatusError, capabilities.CodeDriftCritical)
				if strings.Contains(string(r.Output), "done") {
					t.Errorf("%s, %s: the result counts: %s", kind.name, signal, r.Output)
				}
				if kind.by == kind.tool {
					want(t, h.Call(ctx(), kind.tool, kind.args(signal), ""), capabilities.StatusDenied, capabilities.CodeToolRestricted)
				}
			}
			e := list[0]
			if e.Signal.String() != signal || e.Severity != severity || e.Tool != kind.by || e.Runner == "" || (e.Call == r.Call) != (kind.by == kind.tool) {
				t.Errorf("%s, %s of %s: %+v", kind.name, signal, r.Call, e)
			}
		}
	}
	steps, err := h.Ledger.Packets(ctx(), ledger.Query{Kind: ledger.KindDrift, Limit: 500})
	must(t, err)
	if len(steps) != 16 {
		t.Errorf("%d packets of drift, not one for each lie", len(steps))
	}
	if more == nil || more.Ticket != nil || more.Code != capabilities.CodeDriftCritical {
		t.Errorf("a step after a critical one: %+v", more)
	}
}
