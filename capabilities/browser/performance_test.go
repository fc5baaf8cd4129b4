//go:build linux

package browser

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// heavy is a page that keeps its main thread busy and moves what was there.
const heavy = `<!doctype html><title>Heavy</title><link rel=icon href=data:,><div id=top></div><h1 style="font-size: 80px">A large headline</h1>
<button>Order</button>
<script>
	function spin(ms) { for (const end = performance.now() + ms; performance.now() < end; ); }
	function late() {
		spin(130);
		document.getElementById('top').style.height = '100px'; // moves what was drawn
	}
	new PerformanceObserver((list, o) => { o.disconnect(); setTimeout(late, 50); }).observe({type: 'paint', buffered: true});
</script>`

func vitalOf(a answer, name string) (value float64, due string) {
	for _, v := range a.m["vitals"].([]any) {
		if v := v.(map[string]any); v["name"] == name {
			due, _ = v["due_to"].(string)
			return v["value"].(float64), due
		}
	}
	return -1, ""
}

// Each of the Web Vitals is there once it came about, with what it is due to; a trace says which
// function kept the main thread busy.
func TestPerformanceSaysWhatIsSlow(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/a": heavy})
	n.goTo(s.URL + "/a")
	var a answer
	n.until("the page drew and moved", func() bool {
		a = n.must("performance", obj{"trace_ms": 100}) // a moment in which the page has its turn
		lcp, _ := vitalOf(a, "LCP")
		cls, _ := vitalOf(a, "CLS")
		return lcp > 0 && cls > 0
	})
	if _, due := vitalOf(a, "LCP"); !strings.Contains(due, "<h1>") {
		t.Errorf("LCP is due to %q", due)
	}
	if _, due := vitalOf(a, "CLS"); due == "" {
		t.Errorf("CLS is due to nothing: %s", a.json)
	}
	if ttfb, _ := vitalOf(a, "TTFB"); ttfb <= 0 || a.m["long_tasks"].(map[string]any)["longest_ms"].(float64) < 120 || !a.Untrusted {
		t.Error(a.json)
	}
	var traced map[string]any
	n.until("the trace has what the page did late", func() bool {
		a = n.must("performance", obj{"reload": true, "trace_ms": 1500})
		traced = a.m["trace"].(map[string]any)
		tasks, _ := json.Marshal(traced["long_tasks"])
		return strings.Contains(string(tasks), "late ") || strings.Contains(string(tasks), "spin ")
	})
	if traced["cut"] != nil || traced["blocking_ms"].(float64) < 60 || !strings.Contains(a.json, `"name":"scripting"`) {
		t.Errorf("%v", traced)
	}
	if scripts, _ := json.Marshal(traced["scripts"]); !strings.Contains(string(scripts), s.URL+"/a") {
		t.Errorf("the page's script is not named: %s", scripts)
	}
}

// A slower network and processor are what the page has until they are set back, and policy may
// withhold their key.
func TestThrottle(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/a": "<p>a</p>", "/b": "b"})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/a")
	const took = `(async () => { const t = performance.now(); await (await fetch('/b', {cache: 'no-store'})).text(); return performance.now() - t })()`
	a := n.must("resize", obj{"network_speed": "slow-4g", "cpu_slowdown": 4})
	if a.Effect != capabilities.EffectConfirmed || !strings.Contains(a.Evidence, "slows it down") {
		t.Errorf("%s %s", a.Effect, a.Evidence)
	}
	if ms := n.eval(took).(float64); ms < 500 {
		t.Errorf("a request took %v ms by a network that answers after 562", ms)
	}
	n.must("tabs", obj{"action": "new", "url": s.URL + "/a"})
	if ms := n.eval(took).(float64); ms < 500 {
		t.Errorf("in a tab that came later it took %v ms", ms)
	}
	n.must("resize", obj{"network_speed": "full", "cpu_slowdown": 1})
	n.until("requests are quick again", func() bool { return n.eval(took).(float64) < 500 })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := n.h.Handle(ctx, capabilities.Invocation{
		Grants: []string{observedKey}, Call: "c9", Capability: "tyrum.browser.resize", Lane: n.lane, Args: json.RawMessage(`{"cpu_slowdown":2}`),
	})
	if e := capabilities.AsError(err); err == nil || e.Code != capabilities.CodeDeniedByPolicy {
		t.Errorf("without its key: %v", err)
	}
}
