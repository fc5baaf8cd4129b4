//go:build unix

package console

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/bench/figures"
	"github.com/handrail-dev/handrail/test/site"
)

var (
	measure = flag.Bool("figures", false, "measure, and print the table")
	into    = flag.String("out", "", "document to put the table into, between its marks")
	many    = flag.Int("packets", 1_000_000, "packets in the ledger")
	minutes = flag.Int("minutes", 0, "how long TestLiveGrowth watches; below 2 it does not")
)

// figure is one line of the table.
type figure struct {
	what  string
	value float64
	unit  string
	limit float64
	note  string
}

func (f figure) String() string {
	verdict := "missed"
	if f.value <= f.limit {
		verdict = "met"
	}
	return fmt.Sprintf("%-66s %8s %-10s ≤ %-5s %-6s %s", f.what, strconv.FormatFloat(f.value, 'g', 3, 64), f.unit, strconv.FormatFloat(f.limit, 'g', 4, 64), verdict, f.note)
}

// TestFigures measures the console; `make bench-console` runs it.
func TestFigures(t *testing.T) {
	if !*measure {
		t.Skip("measures only with -figures")
	}
	load := figures.Load()
	var lines []figure
	lines = append(lines, watching(t)...)
	d := startSite(t)
	d.enter(principal.RoleOperator)
	lines = append(lines, d.firstPage()...)
	lines = append(lines, d.onScreen(), d.clicked())
	lines = append(lines, d.longLedger())
	var text bytes.Buffer
	fmt.Fprintf(&text, "```\n%s, %d cores, %s\n", figures.Machine(), runtime.NumCPU(), runtime.Version())
	fmt.Fprintf(&text, "%s; medians; load average at the start %s.\n\n", time.Now().Format("2006-01-02"), load)
	for _, l := range lines {
		fmt.Fprintln(&text, strings.TrimRight(l.String(), " "))
	}
	text.WriteString("```")
	t.Log("\n" + text.String())
	if *into != "" {
		must(t, figures.Save(*into, "<!-- figures of the console: written by test/console -->", "<!-- end of the figures of the console -->", text.Bytes()))
	}
}

// number is the value of an expression; a promise is awaited.
func (d *desk) number(expression string) float64 {
	d.t.Helper()
	var v float64
	must(d.t, d.run(expression, &v))
	return v
}

// floor is how long the page takes to ask the gateway for a file and have it.
const floor = `(async () => { const all = []; for (let i = 0; i < 9; i++) { const t = performance.now(); await (await fetch(document.querySelector("link[rel=icon]").href, {cache: "no-store"})).text(); all.push(performance.now() - t); } all.sort((a, b) => a - b); return all[4]; })()`

// firstPage measures all that the first page asks for, with nothing kept from before.
func (d *desk) firstPage() []figure {
	d.ask("Network.setCacheDisabled", object{"cacheDisabled": true}, nil)
	defer d.ask("Network.setCacheDisabled", object{"cacheDisabled": false}, nil)
	var size, shown, floors []float64
	for range 15 {
		d.goTo("/console/approvals")
		d.await(`performance.getEntriesByType("navigation")[0].loadEventEnd > 0`)
		size = append(size, d.number(`[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")].filter(e => !e.name.endsWith("/console/events")).slice(0, 12).reduce((n, e) => n + e.transferSize, 0)`))
		shown = append(shown, d.number(`performance.getEntriesByType("navigation")[0].loadEventEnd`))
		floors = append(floors, d.number(floor))
	}
	return []figure{
		{"first page with all that it asks for, nothing kept", figures.Median(size) / 1000, "KB", 60, ""},
		{"first page until it is loaded, in Chrome", figures.Median(shown), "ms", 100, fmt.Sprintf("one small file in the same page %.1f ms", figures.Median(floors))},
	}
}

// onScreen measures from a call's packet, as the ledger dates it, to its row.
func (d *desk) onScreen() figure {
	d.goTo("/console/calls")
	d.result(d.call("warm", "tool.fixture.echo", `{"text":"warm"}`))
	d.await(`document.querySelectorAll("tbody tr").length > 0`)
	must(d.t, d.run(`window.seen = {}; new MutationObserver(() => { for (const a of document.querySelectorAll("tbody a")) seen[a.href.split("/").pop()] ??= performance.timeOrigin + performance.now(); }).observe(document.body, {subtree: true, childList: true})`, nil))
	var took, floors []float64
	for i := range 20 {
		done := d.result(d.call("robot", "tool.fixture.echo", fmt.Sprintf(`{"text":"%d"}`, i)))
		d.await(fmt.Sprintf("seen[%q]", done.Call))
		list, err := d.Ledger.Packets(context.Background(), ledger.Query{Call: done.Call, Limit: 1})
		must(d.t, err)
		took = append(took, d.number(fmt.Sprintf("seen[%q]", done.Call))-float64(list[0].TimeUS)/1000)
		floors = append(floors, d.number(floor))
	}
	return figure{"a call's first packet until its row is on screen", figures.Median(took), "ms", 100, fmt.Sprintf("one small file in the same page %.1f ms", figures.Median(floors))}
}

// clicked measures from the click on an answer to the waiting call's dispatch.
func (d *desk) clicked() figure {
	d.goTo("/console/approvals")
	must(d.t, d.run(`document.addEventListener("click", () => { window.clicked = performance.timeOrigin + performance.now(); }, true)`, nil))
	var took, floors []float64
	for i := range 9 {
		for len(d.Consent.HandsOn()) > 0 { // what was allowed once counts a while as an agent's hands here
			time.Sleep(50 * time.Millisecond)
		}
		done := d.call(fmt.Sprintf("robot-%d", i), string(site.ToolPress), fmt.Sprintf(`{"text":"%d"}`, i))
		d.await(`document.querySelector("[data-question] button[value=call]") && !("settling" in document.body.dataset)`)
		must(d.t, d.run(acknowledged+`document.querySelector("[data-question] button[value=call]").click()`, nil))
		r := d.result(done)
		if r.Status != capabilities.StatusOK {
			d.t.Fatalf("%+v", r)
		}
		list, err := d.Ledger.Packets(context.Background(), ledger.Query{Call: r.Call, Kind: "tool.call.dispatch", Limit: 1})
		must(d.t, err)
		if len(list) == 0 {
			d.t.Fatal("no dispatch is recorded")
		}
		took = append(took, float64(list[0].TimeUS)/1000-d.number("window.clicked"))
		d.await(`document.querySelectorAll("[data-question]").length === 0`)
		floors = append(floors, d.number(floor))
	}
	return figure{"click on an answer until the waiting call is dispatched", figures.Median(took), "ms", 50, fmt.Sprintf("one small file in the same page %.1f ms", figures.Median(floors))}
}

// longLedger measures the list of calls over a long ledger, unfiltered and by what is
// rare.
func (d *desk) longLedger() figure {
	began := time.Now()
	for n := 0; n < *many; {
		var drafts []ledger.Draft
		for range 500 {
			call := capabilities.CallID(fmt.Sprintf("c-old-%d", n))
			for _, kind := range []ledger.Kind{"tool.call.request", "tool.call.decision", "tool.call.dispatch", "tool.call.result"} {
				drafts = append(drafts, ledger.Draft{Kind: kind, Call: call, Tool: "tool.fixture.echo", Principal: "robot", Lane: "robot", Node: d.node.ID,
					Body: map[string]any{"surface": "mcp", "decision": "allow", "status": "ok", "effect": "confirmed", "duration_ms": 12.5}})
			}
			n += 4
		}
		must(d.t, d.Ledger.Append(context.Background(), drafts...))
	}
	d.t.Logf("%d packets in %s", *many, time.Since(began).Round(time.Second))
	cookie := d.session(principal.RoleOperator)
	ask := func(path string) float64 {
		req, err := http.NewRequest("GET", d.URL()+path, nil)
		must(d.t, err)
		req.Header = cookie.Clone()
		at := time.Now()
		resp, err := http.DefaultClient.Do(req)
		must(d.t, err)
		n, err := io.Copy(io.Discard, resp.Body)
		must(d.t, err)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK || n < 1000 {
			d.t.Fatalf("%s: %d, %d bytes", path, resp.StatusCode, n)
		}
		return float64(time.Since(at).Microseconds()) / 1000
	}
	defer http.DefaultClient.CloseIdleConnections()
	var plain, rare, floors []float64
	for range 15 {
		plain = append(plain, ask("/console/calls"))
		rare = append(rare, ask("/console/calls?principal=nobody"), ask("/console/calls?q=nowhere"))
		floors = append(floors, ask("/console/stop"))
	}
	return figure{fmt.Sprintf("calls page over %d packets", *many), max(figures.Median(plain), figures.Median(rare)), "ms", 150,
		fmt.Sprintf("unfiltered %.1f ms, by what nothing has %.1f ms; the stop page %.1f ms", figures.Median(plain), figures.Median(rare), figures.Median(floors))}
}

// watching measures what 200 nodes with 20 open consoles take of a core while nothing
// happens: of the process with the gateway, one node and the readers of the streams.
// The other nodes are agents of a process of their own, as they are on other machines.
func watching(t *testing.T) []figure {
	const nodes, consoles, window = 200, 20, 20 * time.Second
	d := startSite(t)
	theirs := crowd(t, d, nodes-1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cookie := d.session(principal.RoleOperator)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	var readers sync.WaitGroup
	opened := make(chan struct{}, consoles)
	for range consoles {
		readers.Go(func() {
			req, err := http.NewRequestWithContext(ctx, "GET", d.URL()+"/console/events", nil)
			must(t, err)
			req.Header = cookie.Clone()
			resp, err := (&http.Client{Transport: transport}).Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			opened <- struct{}{}
			_, _ = io.Copy(io.Discard, resp.Body)
		})
	}
	for range consoles {
		select {
		case <-opened:
		case <-time.After(within):
			t.Fatal("a stream does not open")
		}
	}
	before, theirsBefore, at := processor(), theirs(), time.Now()
	time.Sleep(window) // what is measured is what happens meanwhile
	share := func(d time.Duration) float64 { return d.Seconds() / time.Since(at).Seconds() * 100 }
	used, nodesUsed := share(processor()-before), share(theirs()-theirsBefore)
	cancel()
	readers.Wait()
	return []figure{{fmt.Sprintf("%d nodes and %d open consoles", nodes, consoles), used, "% of core", 10,
		fmt.Sprintf("processor time of the gateway and of who reads the consoles' streams, over 20 s in which nothing is called; the nodes' own %.1f %%", nodesUsed)}}
}

func processor() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
