package desktop

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/desktop/selector"
	"github.com/handrail-dev/handrail/platform"
	session "github.com/handrail-dev/handrail/platform/desktop"
	"github.com/handrail-dev/handrail/test/desk"
)

// realTable is a handler as the binary makes it, on whichever desk now holds.
func realTable(t *testing.T, now func() *desk.Desk, o Options) *table {
	t.Helper()
	o.Opener = session.New(session.Options{Log: slog.New(slog.DiscardHandler), Getenv: func(name string) string { return now().Getenv(name) }})
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return &table{t: t, h: h}
}

func only(d *desk.Desk) func() *desk.Desk { return func() *desk.Desk { return d } }

// A button found in a smaller image of a display away from the origin is clicked
// by that image's pixels; an entry is typed into, in six scripts; the programs say
// themselves what came.
func TestRealPixels(t *testing.T) {
	d := desk.StartX(t, desk.Options{Size: "2000x1000", Monitors: []desk.Monitor{
		{Name: "right", X: 1000, Y: 100, Width: 1000, Height: 800}, {Name: "left", Width: 1000, Height: 1000, MM: 132},
	}})
	f := d.Fixture(desk.GTK3, 5)
	b := realTable(t, only(d), Options{QuietTime: time.Millisecond})
	b.do("act", fmt.Sprintf(`{"target": %q, "action": {"kind": "move", "x": 1100, "y": 150}}`, "window:"+selector.Quote(f.Window.Title)))
	desk.Await(t, "the window on the right", func() bool { w, ok := f.Look(); return ok && w.X >= 1100 })
	m, out := b.full("screenshot", `{"display": "primary", "max_width": 500}`)
	shot, _, err := image.Decode(bytes.NewReader(out.Blobs[0].Bytes))
	if err != nil || shot.Bounds().Dx() != 500 || shot.Bounds().Dy() != 400 {
		t.Fatalf("%v %v", shot.Bounds(), err)
	}
	if frame := m["frame"].(map[string]any); frame["x"] != 1000.0 || frame["y"] != 100.0 || frame["display"] != "right" {
		t.Errorf("%v", frame)
	}
	at := func(widget string) string {
		box := f.Box(widget)
		return fmt.Sprintf(`"x": %d, "y": %d, "frame_id": %q`, (box.X+box.Width/2-1000)/2, (box.Y+box.Height/2-100)/2, m["frame_id"])
	}
	before := len(f.Events())
	_, click := b.full("mouse", `{"action": "click", `+at("button")+`}`)
	f.AwaitAfter(before, "the click", func(e desk.Event) bool { return e.Kind == "clicked" && e.Widget == "button" })
	if click.Effect != capabilities.EffectPartial {
		t.Logf("%s: %s", click.Effect, click.Evidence) // a theme may draw no press
	}
	b.do("mouse", `{"action": "click", `+at("entry")+`}`)
	const six = "Zażółć é Ωμέγα жизнь 漢字 שלום नमस्ते 😀"
	b.do("keyboard", fmt.Sprintf(`{"action": "type", "text": %q}`, six))
	desk.Await(t, "the text", func() bool { return f.Read("entry").Text == six })
	b.do("keyboard", `{"action": "press", "key": "Control+A"}`)
	b.do("keyboard", `{"action": "press", "key": "Delete"}`)
	desk.Await(t, "nothing", func() bool { return f.Read("entry").Text == "" })
	b.do("clipboard-write", `{"text": "p4ss é"}`)
	if text, ok := d.Clipboard(); !ok || text != "p4ss é" {
		t.Errorf("%q %v", text, ok)
	}

	// Displays that changed: the image says nothing any more.
	d.SetMonitors([]desk.Monitor{{Name: "one", Width: 2000, Height: 1000}})
	desk.Await(t, "the other layout", func() bool {
		frame := b.do("screenshot", `{"display": "primary"}`)["frame"].(map[string]any)
		return frame["width"] == 2000.0
	})
	before = len(f.Events())
	b.refused(capabilities.CodeStaleFrame, "mouse", `{"action": "click", `+at("button")+`}`)
	f.Read("entry") // the program has had whatever came
	for _, e := range f.Events()[before:] {
		if e.Kind == "button" || e.Kind == "clicked" {
			t.Errorf("something was clicked: %+v", e)
		}
	}
}

// The windows of a real desktop, and what changes there.
func TestRealSnapshot(t *testing.T) {
	d := desk.StartX(t, desk.Options{})
	f := d.Fixture(desk.GTK3, 1000)
	d.Activate(f.Window.ID)
	b := realTable(t, only(d), Options{QuietTime: time.Millisecond})
	var m map[string]any
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", m["outline"])
		}
	})
	desk.Await(t, "the elements", func() bool {
		m = b.do("snapshot", `{"outline": true}`)
		return contains(m["outline"], `button "button"`) && contains(m["outline"], `cell "row 0"`) && !contains(m["outline"], `cell "row 900"`)
	})
	for _, want := range []string{`[protected]`, `menu "File"`, `checkbox "check"`, `slider`} {
		if !contains(m["outline"], want) {
			t.Errorf("%s is not told", want)
		}
	}
	w := m["windows"].([]any)[0].(map[string]any)
	if w["pid"] != float64(f.PID) || w["focused"] != true || w["title"] != f.Window.Title {
		t.Errorf("%v", w)
	}
	f.Do(map[string]any{"do": "focus", "widget": "entry"})
	b.do("keyboard", `{"action": "type", "text": "new"}`)
	desk.Await(t, "the difference", func() bool {
		diff := b.do("snapshot", fmt.Sprintf(`{"diff_since": %q}`, m["snapshot_id"]))
		return contains(diff["outline"], `: "new"`) && !contains(diff["outline"], `button "button"`) && diff["diff_of"] == m["snapshot_id"]
	})
	if took := b.do("snapshot", fmt.Sprintf(`{"include_tree": true, "include_image": true, "window": %q}`, w["ref"])); took["tree"] == nil || took["width"] == nil {
		t.Errorf("%v", took)
	}
}

func contains(text any, part string) bool {
	return bytes.Contains([]byte(fmt.Sprint(text)), []byte(part))
}

// The X server is killed under a call: the call says so, readiness too, and the
// next call works on the server that there is then.
func TestRealServerEnds(t *testing.T) {
	first, second := desk.StartX(t, desk.Options{NoBus: true}), desk.StartX(t, desk.Options{NoBus: true})
	var now atomic.Pointer[desk.Desk]
	now.Store(first)
	b := realTable(t, now.Load, Options{QuietTime: time.Millisecond})
	b.do("screenshot", `{"display": "primary"}`)
	ctx, cancel := context.WithTimeout(t.Context(), desk.Within)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := b.call(ctx, "a", "mouse", `{"action": "drag", "path": [{"x": 1, "y": 1}], "x": 900, "y": 700, "duration_ms": 600000}`)
		done <- err
	}()
	desk.Await(t, "the drag", func() bool { x, _ := first.Pointer(); return x > 1 && x < 900 })
	first.KillServer()
	if err := <-done; capabilities.CodeOf(err) != capabilities.CodeDesktopUnavailable {
		t.Errorf("%v", err)
	}
	b.refused(capabilities.CodeDesktopUnavailable, "mouse", `{"action": "move", "x": 5, "y": 5}`)
	now.Store(second)
	desk.Await(t, "the other server", func() bool {
		_, err := b.call(ctx, "a", "mouse", `{"action": "move", "x": 55, "y": 66}`)
		return err == nil
	})
	if x, y := second.Pointer(); x != 55 || y != 66 {
		t.Errorf("the pointer is at %d, %d", x, y)
	}
	b.do("screenshot", `{"display": "primary"}`)
}

// A person's own mouse, in a nested server: the agent lets go within 100 ms.
func TestRealPersonTakesOver(t *testing.T) {
	outer := desk.StartX(t, desk.Options{NoBus: true})
	inner, window := outer.StartXephyr(desk.Options{NoBus: true})
	f := inner.Fixture(desk.GTK3, 3)
	inner.Activate(f.Window.ID)
	outer.Activate(window)
	stopped := make(chan string, 1)
	const rests = 500 * time.Millisecond
	b := realTable(t, only(inner), Options{QuietTime: rests, Stop: func(reason string) { stopped <- reason }})
	b.do("screenshot", `{"display": "primary"}`)
	for _, c := range [][2]string{
		{"mouse", `{"action": "drag", "path": [{"x": 1, "y": 1}], "x": 700, "y": 500, "duration_ms": 600000}`},
		{"keyboard", `{"action": "press", "key": "Shift+a", "hold_ms": 10000}`},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), desk.Within)
		var ended atomic.Int64
		done := make(chan error, 1)
		go func() {
			// Until the person has rested from bringing the window up.
			_, err := b.call(ctx, "a", c[0], c[1])
			ended.Store(time.Now().UnixNano())
			done <- err
		}()
		desk.Await(t, "the call", func() bool {
			b.h.hands.mu.Lock()
			defer b.h.hands.mu.Unlock()
			return b.h.hands.running != nil
		})
		// They have not rested until this test says so.
		quiet := func(d time.Duration) {
			b.h.hands.mu.Lock()
			defer b.h.hands.mu.Unlock()
			b.h.hands.quiet = d
		}
		quiet(time.Hour)
		var touched time.Time
		for i := 0; len(done) == 0 && ctx.Err() == nil; i++ {
			if touched.IsZero() {
				touched = time.Now()
			}
			outer.Xdotool("mousemove", fmt.Sprint(600+i%50), "400")
		}
		if err := <-done; capabilities.CodeOf(err) != capabilities.CodeInterruptedByPerson {
			t.Fatalf("%s: %v", c[0], err)
		}
		b.h.hands.mu.Lock()
		since := time.Unix(0, ended.Load()).Sub(b.h.hands.touched)
		b.h.hands.mu.Unlock()
		t.Logf("%s ended %s after xdotool was started, %s after the last touch", c[0], time.Unix(0, ended.Load()).Sub(touched).Round(time.Millisecond), since.Round(time.Millisecond))
		cancel()
		if n := inner.Xdotool("getmouselocation"); n == "" {
			t.Error("no pointer")
		}
		b.refused(capabilities.CodeInterruptedByPerson, "keyboard", `{"action": "type", "text": "x"}`)
		quiet(rests)
		desk.Await(t, "work that goes on", func() bool {
			_, err := b.call(t.Context(), "a", "mouse", `{"action": "move", "x": 20, "y": 20}`)
			return err == nil
		})
	}
	outer.Xdotool("key", "ctrl+alt+Escape")
	select {
	case reason := <-stopped:
		t.Log(reason)
	case <-time.After(desk.Within):
		t.Error("the stop keys did nothing")
	}
}

var _ platform.DesktopOpener = (*session.Opener)(nil)
