package satellites

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/satellite"
)

func (h *house) packets(call capabilities.CallID) []ledger.Packet {
	h.T.Helper()
	all, err := h.Gateway.Ledger.Packets(context.Background(), ledger.Query{Call: call, Limit: 100})
	must(h.T, err)
	return all
}

// A satellite is a provider like any other (S3-08, S3-09, S3-13): it joins by a code, is found by
// its heartbeat (S3-32) whatever its name is (S3-34), and its tools are called once a person
// approved them, with the result, the policy and the packets of every call (S3-17 … S3-20).
func TestASatelliteServes(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	if at := h.Gateway.Bus.Listening(); at != "" {
		t.Fatalf("the bus listens at %s before anybody was invited", at)
	}
	e, dir := &echo{}, t.TempDir()
	run(t, satellite.Options{Name: "camoufox", Dir: dir, Paste: h.invite("camoufox"), Tools: []satellite.Tool{e.tool()}})
	h.Await("the provider", func() bool { _, err := h.Gateway.Providers.Get("camoufox"); return err == nil })
	want(t, h.call("tool.camoufox.say", `{"text":"early"}`, ""), capabilities.StatusError, capabilities.CodeUnknownTool)
	h.approve("camoufox")
	h.callable("tool.camoufox.say")

	r := h.call("tool.camoufox.say", `{"text":"hello"}`, "")
	want(t, r, capabilities.StatusOK, "")
	if !strings.Contains(string(r.Output), `"text":"hello"`) || !strings.Contains(string(r.Output), `"length":5`) {
		t.Errorf("output %s", r.Output)
	}
	if len(r.Blobs) != 1 || string(r.Blobs[0].Bytes) != "RIFFhello" || r.Blobs[0].MIME != "audio/wav" {
		t.Errorf("bytes %+v", r.Blobs)
	}
	if r.Routing == nil || r.Routing.Mode != capabilities.SelectHost || !r.Untrusted || r.Effect != capabilities.EffectConfirmed {
		t.Errorf("routing %+v, untrusted %v, effect %s", r.Routing, r.Untrusted, r.Effect)
	}
	if kinds := h.kinds(r.Call); strings.Join(kinds, " ") != "tool.call.request tool.call.decision tool.call.dispatch tool.call.result" {
		t.Errorf("packets %q", kinds)
	}
	want(t, h.call("tool.camoufox.say", `{"text":7}`, ""), capabilities.StatusError, capabilities.CodeInvalidArguments)

	// It is no node: nobody lists it or names it.
	list := h.call("tool.node.list", `{}`, "")
	if strings.Contains(string(list.Output), string(r.Routing.Selected)) {
		t.Errorf("tool.node.list has the satellite: %s", list.Output)
	}
	if id, err := os.Stat(filepath.Join(dir, "camoufox.json")); err != nil || id.Mode().Perm() != 0o600 {
		t.Errorf("identity %v %v", id, err)
	}
}

// The same request twice runs once: the gateway joins it, and a request that comes to the satellite
// twice is answered from what it remembers.
func TestACallRunsOnce(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	e := &echo{}
	run(t, satellite.Options{Name: "voice", Dir: t.TempDir(), Paste: h.invite("voice"), Tools: []satellite.Tool{e.tool()}})
	h.approve("voice")
	h.callable("tool.voice.say")
	a, b := h.call("tool.voice.say", `{"text":"once"}`, "r-1"), h.call("tool.voice.say", `{"text":"once"}`, "r-1")
	want(t, a, capabilities.StatusOK, "")
	want(t, b, capabilities.StatusOK, "")
	if a.Call != b.Call || e.times("once") != 1 {
		t.Errorf("calls %s and %s, ran %d times", a.Call, b.Call, e.times("once"))
	}
}
