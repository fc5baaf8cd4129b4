//go:build linux

package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// smallPage has 27 elements, as the peers were measured with.
var smallPage = html(`<h1>Shop</h1><p>Welcome to the <b>shop</b>.</p><nav><a href="#a">Home</a><a href="#b">About</a><a href="#c">Help</a></nav>
<form><label>Name <input id=name></label><label>Mail <input id=mail type=email></label><label><input type=checkbox> News</label>
<select id=s><option>One<option>Two</select><textarea id=t></textarea><button type=button id=b onclick="this.dataset.n=++n">Go</button></form>
<ul><li>First<li>Second<li>Third</ul><p id=out></p><script>var n=0</script>`)

// largePage has about 5,100 elements: a 500-row table with controls, nested
// frames and 60 open shadow roots.
func largePage() string {
	var b strings.Builder
	b.WriteString(`<h1>Large</h1><button id=b onclick="this.dataset.n=++n">Go</button><input id=name aria-label=Name><input id=mail type=email aria-label=Mail><select id=s aria-label=Size><option>One<option>Two</select><textarea id=t aria-label=Text></textarea><script>var n=0</script><table>`)
	for i := range 500 {
		fmt.Fprintf(&b, `<tr><td>%d<td>Item number %d<td><a href="/item/%d">Open %d</a><td><button>Edit %d</button><td><input type=checkbox aria-label="Pick %d"></tr>`, i, i, i, i, i, i)
	}
	b.WriteString(`</table><iframe srcdoc="<p>one</p><iframe srcdoc='<p>two</p><button>Deep</button>'></iframe>"></iframe>`)
	for i := range 60 {
		fmt.Fprintf(&b, `<div class=host data-i=%d></div>`, i)
	}
	b.WriteString(`<script>document.querySelectorAll('.host').forEach(h=>{h.attachShadow({mode:'open'}).innerHTML='<p>shadow '+h.dataset.i+'</p><button>In '+h.dataset.i+'</button>'})</script>`)
	return html(b.String())
}

// fields are what one fill-form sets on both pages.
var fields = []obj{{"selector": "#name", "value": "Ada Lovelace"}, {"selector": "#mail", "value": "ada@example.com"}, {"selector": "#s", "value": "Two"}, {"selector": "#t", "value": "Hello there"}}

func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
}

// Each tool beside its floor, which is the bare protocol on the same Chrome.
func BenchmarkTools(b *testing.B) {
	s := newSite(b, map[string]string{"/small": smallPage, "/large": largePage()})
	n := newNode(b, s.URL)
	for _, size := range []string{"small", "large"} {
		n.goTo(s.URL + "/" + size)
		n.h.mu.Lock()
		l := n.h.lanes[n.lane]
		n.h.mu.Unlock()
		t, err := l.current(b.Context(), false)
		if err != nil {
			b.Fatal(err)
		}
		call := func(tool string, args any) func(*testing.B) {
			raw, _ := json.Marshal(args)
			return func(b *testing.B) {
				var took []time.Duration
				for b.Loop() {
					began := time.Now()
					if _, err := n.h.Handle(context.Background(), capabilities.Invocation{Capability: capabilities.CapabilityID("tyrum.browser." + tool), Lane: n.lane, Args: raw}); err != nil {
						b.Fatal(err)
					}
					took = append(took, time.Since(began))
				}
				report(b, took)
			}
		}
		b.Run(size+"/evaluate-floor", func(b *testing.B) {
			for b.Loop() {
				if _, err := devtools.Do(b.Context(), t.s, runtime.Evaluate, runtime.EvaluateParams{Expression: "1+1", ReturnByValue: ptr(true)}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(size+"/evaluate", call("evaluate", obj{"expression": "1+1"}))
		b.Run(size+"/snapshot", call("snapshot", obj{}))
		b.Run(size+"/snapshot-full", call("snapshot", obj{"max_chars": 200000}))
		b.Run(size+"/click", call("click", obj{"selector": "#b"}))
		b.Run(size+"/click-noop", call("click", obj{"selector": "h1"}))
		b.Run(size+"/hover", func(b *testing.B) {
			// Two elements in turn: a pointer that does not move starts nothing.
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				raw, _ := json.Marshal(obj{"selector": []string{"#b", "h1"}[i%2]})
				began := time.Now()
				if _, err := n.h.Handle(context.Background(), capabilities.Invocation{Capability: "tyrum.browser.hover", Lane: n.lane, Args: raw}); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			report(b, took)
		})
		b.Run(size+"/press-key", call("press-key", obj{"key": "a", "selector": "#name"}))
		b.Run(size+"/fill4", call("fill-form", obj{"fields": fields}))
		b.Run(size+"/drag", call("drag", obj{"path": []obj{{"x": 300, "y": 300}, {"x": 320, "y": 310}, {"x": 400, "y": 320}}}))
		b.Run(size+"/type20", call("type", obj{"selector": "#name", "text": "abcdefghij0123456789", "clear": true}))
		b.Run(size+"/type500", call("type", obj{"selector": "#name", "text": strings.Repeat("abcdefghi ", 50), "clear": true}))
		b.Run(size+"/screenshot-floor", func(b *testing.B) {
			for b.Loop() {
				if _, err := devtools.Start(b.Context(), t.s, page.CaptureScreenshot, page.CaptureScreenshotParams{OptimizeForSpeed: ptr(true)}).Wait(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(size+"/screenshot", call("screenshot", obj{}))
		b.Run(size+"/screenshot-jpeg", call("screenshot", obj{"format": "jpeg"}))
		b.Run(size+"/tabs", call("tabs", obj{}))
		b.Run(size+"/navigate-floor", func(b *testing.B) {
			for b.Loop() {
				before, _ := t.look()
				if _, err := devtools.Do(b.Context(), t.s, page.Navigate, page.NavigateParams{URL: s.URL + "/" + size}); err != nil {
					b.Fatal(err)
				}
				t.await(b.Context(), func(s tabState) bool { return s.documents > before.documents && s.loaded })
			}
		})
		b.Run(size+"/navigate", call("navigate", obj{"url": s.URL + "/" + size}))
		snap := n.must("snapshot", obj{"max_chars": 200000})
		if limit := 24_000 * 4; len(snap.json) > limit {
			b.Errorf("%s: full snapshot of %d bytes, want at most %d", size, len(snap.json), limit)
		}
	}
}

// BenchmarkColdStart is from nothing to the first page.
func BenchmarkColdStart(b *testing.B) {
	s := newSite(b, map[string]string{"/": smallPage})
	o, _ := options(b, s.URL)
	for b.Loop() {
		h, err := New(o)
		if err != nil {
			b.Fatal(err)
		}
		raw, _ := json.Marshal(obj{"url": s.URL + "/"})
		if _, err := h.Handle(b.Context(), capabilities.Invocation{Capability: "tyrum.browser.navigate", Lane: "l", Args: raw}); err != nil {
			b.Fatal(err)
		}
		h.Close()
	}
}
