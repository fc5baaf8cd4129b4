//go:build unix

package desktop

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	handler "github.com/handrail-dev/handrail/capabilities/desktop"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/atspi"
	opener "github.com/handrail-dev/handrail/platform/desktop"
	"github.com/handrail-dev/handrail/platform/x11/screen"
	"github.com/handrail-dev/handrail/platform/x11/wire"
	"github.com/handrail-dev/handrail/suite"
	"github.com/handrail-dev/handrail/test/bench/figures"
	"github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

var (
	full = flag.Bool("figures", false, "measure in full and print the figures")
	out  = flag.String("out", "", "document to put the figures into, between their marks")
)

// row is one figure.
type row struct {
	name  string
	value float64
	unit  string
	most  float64 // promised; 0: nothing is
	least bool    // the promise is a lower bound
	floor string
}

// bench is one run.
type bench struct {
	t     *testing.T
	d     *desk.Desk
	h     *handler.Handler
	lane  *suite.Lane
	times int
	rows  []row
}

func TestFigures(t *testing.T) {
	load := figures.Load()
	b := &bench{t: t, times: 3, d: desk.StartX(t, desk.Options{Size: "1920x1080"})}
	if *full {
		b.times = 60
	}
	for _, e := range b.d.Env {
		name, value, _ := strings.Cut(e, "=")
		t.Setenv(name, value)
	}
	log := slog.New(slog.DiscardHandler)
	o := opener.New(opener.Options{Log: log})
	t.Cleanup(func() { _ = o.Close() })
	var err error
	if b.h, err = handler.New(handler.Options{Opener: o, Log: log}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.h.Close() })
	s := site.Start(t, site.Options{Rules: `@id("bench") permit (principal, action in Action::"family:desktop", resource);`})
	n := s.AddNode("desk", b.h)
	n.AwaitReady(b.h.Capabilities()...)
	s.Grant("agent", n, "tool.desktop.*")
	b.lane, err = suite.Dial(t.Context(), suite.Options{URL: s.URL() + "/mcp", Token: s.MustToken("agent", principal.RoleAgent)}, "bench", "desktop")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.lane.Close() })

	f := b.d.Fixture(desk.GTK3, 260)
	b.d.Activate(f.Window.ID)
	b.idle()
	b.grab()
	b.screenshots(f)
	b.pointer()
	b.click(f)
	b.typing(f)
	b.tree()
	b.browser()
	if *full {
		b.print(os.Stdout, load)
		if *out != "" {
			var text strings.Builder
			b.print(&text, load)
			const mark = "figures of the desktop family"
			if err := figures.Save(*out, "<!-- "+mark+": written by test/bench/desktop -->", "<!-- end of the "+mark+" -->", []byte("```\n"+text.String()+"```\n")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (b *bench) print(w io.Writer, load string) {
	fmt.Fprintf(w, "%s\n%s; median of %d; load average at the start %s.\n\n", figures.Machine(), time.Now().UTC().Format(time.DateOnly), b.times, load)
	for _, r := range b.rows {
		goal, verdict := "", ""
		if r.most > 0 {
			goal, verdict = fmt.Sprintf("≤ %g %s", r.most, r.unit), "met"
			if r.least {
				goal = fmt.Sprintf("≥ %g %s", r.most, r.unit)
			}
			if r.least != (r.value >= r.most) && r.value != r.most {
				verdict = "missed"
			}
		}
		fmt.Fprintf(w, "%-58s %9.2f %-7s %-14s %-7s %s\n", r.name, r.value, r.unit, goal, verdict, r.floor)
	}
}

func (b *bench) add(r row) { b.rows = append(b.rows, r) }

// median returns the median time in ms of so many runs of f; prepare is not timed.
func (b *bench) median(times int, prepare, f func()) float64 {
	var all []float64
	for range max(times, 1) {
		if prepare != nil {
			prepare()
		}
		began := time.Now()
		f()
		all = append(all, float64(time.Since(began).Microseconds())/1000)
	}
	return figures.Median(all)
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// node makes a call at the node itself.
func (b *bench) node(tool string, args map[string]any) capabilities.Output {
	b.t.Helper()
	raw, _ := json.Marshal(args)
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	r, err := b.h.Handle(ctx, capabilities.Invocation{Capability: capabilities.CapabilityID("tyrum.desktop." + tool), Args: raw, Lane: "bench"})
	b.must(err)
	return r
}

// far makes a call over MCP, gateway and node.
func (b *bench) far(tool string, args map[string]any) *suite.Call {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	c, err := b.lane.Call(ctx, tool, args)
	b.must(err)
	if c.Code != "" {
		b.t.Fatalf("%s: %s: %s", tool, c.Code, c.Message)
	}
	return c
}

// idle is the processor time of gateway and node while nothing happens: both are
// this process.
func (b *bench) idle() {
	b.far("snapshot", map[string]any{"outline": true}) // all parts are open
	wait := time.Second
	if *full {
		wait = 20 * time.Second
	}
	before := processorTime()
	time.Sleep(wait) // the measurement itself
	b.add(row{"gateway and node with an idle desktop", 100 * (processorTime() - before).Seconds() / wait.Seconds(), "%", 0.5, false, "of a core"})
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (b *bench) grab() {
	ctx := b.t.Context()
	c, err := wire.Dial(ctx, wire.Options{})
	b.must(err)
	defer c.Close()
	s, err := screen.New(ctx, c)
	b.must(err)
	defer s.Close()
	const size = 1920 * 1080 * 4
	whole := platform.Rect{Width: 1920, Height: 1080}
	// As the capture bus does it: the last picture is kept until there is the next one.
	back := func() {}
	grab := func() {
		pix, free := s.Lend(ctx, size)
		if pix == nil {
			b.t.Fatal("no memory is lent")
		}
		b.must(s.Grab(ctx, whole, false, pix))
		back()
		back = free
	}
	grab()
	grab() // both of them are attached
	ours := b.median(b.times, nil, grab)
	back()
	bare := bareGrab(b)
	floor := b.median(b.times, nil, bare)
	pix := make([]byte, size)
	copied := b.median(b.times, nil, func() { b.must(s.Grab(ctx, whole, false, pix)) })
	b.add(row{"raw grab of 1920 x 1080", ours, "ms", 1, false, fmt.Sprintf("bare XShm %.2f ms; copied where no memory can be lent %.2f ms", floor, copied)})
}

func (b *bench) screenshots(f *desk.Fixture) {
	n := 0
	change := func() { n++; f.Do(map[string]any{"do": "text", "widget": "label", "text": fmt.Sprint("changed ", n)}) }
	for _, format := range []string{"png", "jpeg"} {
		args := map[string]any{"display": "primary", "format": format}
		var size int
		whole := b.median(b.times, change, func() { size = len(b.far("screenshot", args).Blob) })
		node := b.median(b.times, change, func() { b.node("screenshot", args) })
		b.add(row{"screenshot, " + format + ", end to end", whole, "ms", 45, false, fmt.Sprintf("at the node %.2f ms; %d kB", node, size/1000)})
	}
	last := b.far("screenshot", map[string]any{"display": "primary"})
	b.add(row{"screenshot, the caller has the last frame, end to end", b.median(b.times, nil, func() {
		last = b.far("screenshot", map[string]any{"display": "primary", "if_changed_since": last.Result["frame_id"]})
	}), "ms", 4, false, ""})
}

func (b *bench) pointer() {
	x := 0
	move := func() { x = (x + 7) % 500; b.node("mouse", map[string]any{"action": "move", "x": 1000 + x, "y": 700}) }
	ours := b.median(b.times*5, nil, move)
	bare := bareMove(b)
	floor := b.median(b.times*5, nil, bare)
	process := b.median(min(b.times, 20), nil, func() { x = (x + 7) % 500; b.d.Xdotool("mousemove", fmt.Sprint(1000+x), "700") })
	b.add(row{"pointer move, at the node, read back", ours, "ms", 0.2, false, fmt.Sprintf("bare XTEST and a round trip %.2f ms, xdotool %.1f ms", floor, process)})
	b.add(row{"pointer move, end to end", b.median(b.times, nil, func() {
		x = (x + 7) % 500
		b.far("mouse", map[string]any{"action": "move", "x": 1000 + x, "y": 700})
	}), "ms", 0, false, ""})
}

func (b *bench) click(f *desk.Fixture) {
	window := fmt.Sprintf("window:%q", f.Window.Title)
	q := b.far("query", map[string]any{"selector": window + " >> role:checkbox && name:check"})
	matches, _ := q.Result["matches"].([]any)
	if len(matches) == 0 {
		b.t.Fatalf("the checkbox is not found: %v", q.Result)
	}
	ref := matches[0].(map[string]any)["element_ref"]
	args := map[string]any{"target": ref, "action": map[string]any{"kind": "click"}}
	count := func() (n int) {
		for _, e := range f.Events() {
			if e.Kind == "toggled" {
				n++
			}
		}
		return n
	}
	before, times := count(), b.times
	ours := b.median(times, nil, func() { b.node("act", args) })
	desk.Await(b.t, "every click", func() bool { return count() == before+times })
	b.add(row{"click by ref, at the node, with verification", ours, "ms", 10, false, fmt.Sprintf("bare XTEST press and release %.2f ms", b.median(times, nil, bareClick(b)))})
	b.add(row{"click by ref, end to end", b.median(times, nil, func() { b.far("act", args) }), "ms", 0, false, ""})
}

func (b *bench) typing(f *desk.Fixture) {
	var rare strings.Builder
	for i := range 200 {
		rare.WriteRune(rune(0x4e00 + i*29))
	}
	for _, text := range []struct {
		name, text string
		least      float64
	}{
		{"typing Latin text", strings.Repeat("The quick brown fox. ", 20), 200},
		{"typing 200 characters that no key makes", rare.String(), 60},
	} {
		rate := func(text string, typing func(text string)) float64 {
			f.Do(map[string]any{"do": "text", "widget": "entry", "text": ""})
			b.d.Activate(f.Window.ID)
			f.Do(map[string]any{"do": "focus", "widget": "entry"})
			began := time.Now()
			typing(text)
			took := time.Since(began)
			return float64(len([]rune(text))) / took.Seconds()
		}
		ours := rate(text.text, func(text string) { b.node("keyboard", map[string]any{"action": "type", "text": text}) })
		desk.Await(b.t, "every character", func() bool { return f.Read("entry").Text == text.text })
		// xdotool changes the keyboard for each character that no key makes, and the window
		// manager reads it anew each time: 200 of them keep it from showing the next
		// program's window for half a minute, on a busy machine for more than a minute.
		typed := string([]rune(text.text)[:min(20, len([]rune(text.text)))])
		floor := rate(typed, func(text string) { b.d.Xdotool("type", "--delay", "0", text) })
		lost := ""
		if got := f.Read("entry").Text; got != typed {
			lost = fmt.Sprintf(", of which %d of %d arrived", len([]rune(got)), len([]rune(typed)))
		}
		b.add(row{text.name, ours, "chars/s", text.least, true, fmt.Sprintf("xdotool without a delay %.0f%s", floor, lost)})
	}
}

// tree measures the accessible tree of a GTK program of several hundred widgets.
func (b *bench) tree() {
	desk.Need(b.t, "gtk3-widget-factory")
	f := b.d.App("gtk3-widget-factory")
	defer f.Kill()
	ctx := b.t.Context()
	cold := func(pid int) (ms float64, n int) {
		a := atspi.New(atspi.Options{SessionBus: b.d.Bus, Log: slog.New(slog.DiscardHandler)})
		defer a.Close()
		b.must(a.Check(ctx)) // connected, as the floor is
		began := time.Now()
		tree, err := a.Tree(ctx, platform.TreeQuery{PID: pid, MaxElements: 5000, Bounds: true, PerApp: 10 * time.Second})
		b.must(err)
		return float64(time.Since(began).Microseconds()) / 1000, len(tree.Elements)
	}
	var list []float64
	var n int
	for range max(1, b.times/10) {
		ms, count := cold(f.PID)
		list, n = append(list, ms), count
	}
	naive, visited := naiveWalk(b, f.PID)
	b.add(row{fmt.Sprintf("accessibility snapshot, %d nodes with bounds, cold", n), figures.Median(list), "ms", scaled(40, n, 320), false, fmt.Sprintf("one element after the other %.0f ms for %d, hidden ones too: %.2f of it", naive, visited, figures.Median(list)/naive)})
	b.add(row{fmt.Sprintf("snapshot with outline of that window, %d nodes, at the node", n), b.median(b.times, nil, func() {
		b.node("snapshot", map[string]any{"outline": true, "window": f.Title()})
	}), "ms", 0, false, ""})
}

// browser measures Chromium's tree, cold and from the mirror.
func (b *bench) browser() {
	ctx := b.t.Context()
	var page strings.Builder
	page.WriteString("<title>bench</title>")
	for i := range 700 {
		fmt.Fprintf(&page, "<p><button>Button %d</button></p>", i)
	}
	app := b.d.Chromium(page.String(), "--force-renderer-accessibility")
	var cold, warm []float64
	var n int
	for range max(1, b.times/20) {
		a := atspi.New(atspi.Options{SessionBus: b.d.Bus, Log: slog.New(slog.DiscardHandler)})
		read := func() float64 {
			began := time.Now()
			tree, err := a.Tree(ctx, platform.TreeQuery{PID: app.Window.PID, MaxElements: 5000, Bounds: true, PerApp: 20 * time.Second})
			b.must(err)
			n = len(tree.Elements)
			return float64(time.Since(began).Microseconds()) / 1000
		}
		if len(cold) == 0 { // Chromium itself builds its tree when it is first asked
			desk.Await(b.t, "Chromium's tree", func() bool { read(); return n > 900 })
			_ = a.Close()
			a = atspi.New(atspi.Options{SessionBus: b.d.Bus, Log: slog.New(slog.DiscardHandler)})
		}
		cold = append(cold, read())
		for range 5 {
			warm = append(warm, read())
		}
		_ = a.Close()
	}
	naive, visited := naiveWalk(b, app.Window.PID)
	b.add(row{fmt.Sprintf("Chromium's tree, %d nodes with bounds, cold", n), figures.Median(cold), "ms", scaled(450, n, 1400), false, fmt.Sprintf("one element after the other %.0f ms for %d", naive, visited)})
	b.add(row{fmt.Sprintf("Chromium's tree, %d nodes, from the mirror", n), figures.Median(warm), "ms", scaled(50, n, 1400), false, ""})
}

// scaled is the promise for so many elements, made for so many others.
func scaled(most float64, n, of int) float64 {
	return math.Round(most * max(1, float64(n)/float64(of)))
}
