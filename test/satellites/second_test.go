package satellites

import (
	"context"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/provider"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/satellite"
)

// A satellite that says later that others may serve its calls lets none in by that: a person looks
// at it first, and its tools wait for the look.
func TestASecondSatelliteWaitsForAPerson(t *testing.T) {
	t.Parallel()
	h, e, ctx := start(t, nil), &echo{}, context.Background()
	o := satellite.Options{Name: "voice", Dir: t.TempDir(), Paste: h.invite("voice"), Tools: []satellite.Tool{e.tool()}}
	first := run(t, o)
	h.approve("voice")
	h.callable("tool.voice.say")
	first.end()
	o.Interchangeable = true
	run(t, o)
	id := h.Gateway.Bus.Views()[0].ID
	h.Await("another manifest", func() bool {
		m, err := h.Gateway.Bus.Manifest(ctx, id)
		return err == nil && m.Interchangeable
	})

	run(t, satellite.Options{Name: "voice", Dir: t.TempDir(), Paste: h.invite("voice"), Tools: o.Tools, Interchangeable: true})
	var second capabilities.NodeID
	h.Await("the second", func() bool {
		for _, v := range h.Gateway.Bus.Views() {
			if v.ID != id {
				second = v.ID
			}
		}
		return second != ""
	})
	if v, err := h.Gateway.Bus.View(second); err != nil || v.State != route.StatePending {
		t.Errorf("the second is %s %v", v.State, err)
	}
	if _, err := h.Gateway.Bus.Decide(ctx, "root", second, route.StateApproved, ""); capabilities.CodeOf(err) != capabilities.CodeConflict {
		t.Errorf("letting it in: %v", err)
	}

	p, err := h.Gateway.Providers.Check(ctx, admin, "voice")
	must(t, err)
	if p.Interchangeable || p.Tools[0].State != "review" {
		t.Errorf("after a check: interchangeable %v, %s", p.Interchangeable, p.Tools[0].State)
	}
	want(t, h.call("tool.voice.say", `{"text":"x"}`, ""), capabilities.StatusError, capabilities.CodeUnknownTool)
	if p := h.approve("voice"); !p.Interchangeable {
		t.Error("the approval of the manifest does not count")
	}
	if _, err := h.Gateway.Bus.Decide(ctx, "root", second, route.StateApproved, ""); err != nil {
		t.Errorf("letting it in after the approval: %v", err)
	}
	h.callable("tool.voice.say")
}

// That others serve its calls, too, is a satellite's own word until a person approved it: a second
// one waits. An approval of one tool is no word about that, and a look anew takes nothing back.
func TestAFirstManifestIsNoApproval(t *testing.T) {
	t.Parallel()
	h, e, ctx := start(t, nil), &echo{}, context.Background()
	o := satellite.Options{Name: "voice", Dir: t.TempDir(), Paste: h.invite("voice"), Tools: []satellite.Tool{e.tool()}, Interchangeable: true}
	run(t, o)
	h.Await("its tools", func() bool { _, err := h.Gateway.Providers.Get("voice"); return err == nil })
	if p, err := h.Gateway.Providers.Get("voice"); err != nil || p.Interchangeable || !p.Manifest.Interchangeable {
		t.Errorf("before a person looked: interchangeable %v, %v", p.Interchangeable, err)
	}
	o.Dir, o.Paste = t.TempDir(), h.invite("voice")
	run(t, o)
	h.Await("the second", func() bool { return len(h.Gateway.Bus.Views()) == 2 })
	var second capabilities.NodeID
	for _, v := range h.Gateway.Bus.Views() {
		if v.State == route.StatePending {
			second = v.ID
		}
	}
	if _, err := h.Gateway.Bus.Decide(ctx, "root", second, route.StateApproved, ""); capabilities.CodeOf(err) != capabilities.CodeConflict {
		t.Errorf("letting %q in: %v", second, err)
	}
	p, err := h.Gateway.Providers.Get("voice")
	must(t, err)
	_, err = h.Gateway.Providers.Decide(ctx, admin, "tool.voice.say", p.Tools[0].Hash, provider.Choice{Effect: provider.EffectAllow})
	must(t, err)
	if p, err = h.Gateway.Providers.Check(ctx, admin, "voice"); err != nil || p.Interchangeable || !p.Tools[0].State.Callable() {
		t.Errorf("after a check: interchangeable %v, %s, %v", p.Interchangeable, p.Tools[0].State, err)
	}
	if p := h.approve("voice"); !p.Interchangeable {
		t.Error("the approval of the manifest does not count")
	}
	if _, err := h.Gateway.Bus.Decide(ctx, "root", second, route.StateApproved, ""); err != nil {
		t.Errorf("letting it in after the approval: %v", err)
	}
}
