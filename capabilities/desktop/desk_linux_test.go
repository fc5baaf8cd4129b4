package desktop

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/atspi"
	"github.com/handrail-dev/handrail/platform/capture"
	"github.com/handrail-dev/handrail/platform/x11/input"
	"github.com/handrail-dev/handrail/platform/x11/screen"
	"github.com/handrail-dev/handrail/platform/x11/windows"
	"github.com/handrail-dev/handrail/platform/x11/wire"
	"github.com/handrail-dev/handrail/test/desk"
)

// opener returns a desk as this program's desktop.
type opener struct{ d *platform.Desktop }

func (o opener) Open(context.Context) (*platform.Desktop, error) { return o.d, nil }
func (o opener) Locked(context.Context) string                   { return "" }
func (o opener) Close() error                                    { return nil }

// realBench is a handler on a real desktop.
func realBench(t testing.TB, d *desk.Desk) *bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), desk.Within)
	defer cancel()
	o := wire.Options{Display: d.Display, Authority: d.Getenv("XAUTHORITY")}
	conn, err := wire.Dial(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	pixels, err := screen.New(ctx, conn)
	if err != nil {
		t.Fatal(err)
	}
	bus := capture.New(pixels)
	t.Cleanup(func() { _ = bus.Close() })
	in, err := input.New(ctx, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })
	listed, err := windows.New(ctx, conn)
	if err != nil {
		t.Fatal(err)
	}
	ears := atspi.New(atspi.Options{Windows: listed, SessionBus: d.Bus, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = ears.Close() })
	h, err := New(Options{Opener: opener{&platform.Desktop{Name: "test", Screen: bus, Input: in, Windows: listed, Accessibility: ears}}, QuietTime: time.Millisecond, Control: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return &bench{t: t, h: h}
}

// The same acts on the same widgets of three toolkits, each read back by the
// program itself.
func TestActsOnRealWidgets(t *testing.T) {
	for _, kit := range []desk.Toolkit{desk.GTK3, desk.GTK4, desk.Qt} {
		t.Run(string(kit), func(t *testing.T) {
			t.Parallel()
			d := desk.StartX(t, desk.Options{})
			f := d.Fixture(kit, 200)
			b := realBench(t, d)
			m, _, err := b.call("wait-for", map[string]any{"selector": `name:button && role:button`, "state": "visible", "timeout_ms": desk.Within.Milliseconds()})
			if err != nil || m["status"] != "satisfied" {
				t.Fatalf("%v, %v", m, err)
			}
			confirmed := func(target any, action map[string]any) map[string]any {
				t.Helper()
				began := time.Now()
				m, out := b.act(target, action)
				t.Logf("%v %v: %v %s (%s) in %v", target, action["kind"], m["route"], out.Effect, out.Evidence, time.Since(began).Round(100*time.Microsecond))
				if out.Effect != capabilities.EffectConfirmed {
					t.Errorf("%v %v: %v, %+v", target, action, m, out)
				}
				return m
			}
			same := func(widget, want string) {
				t.Helper()
				if got := f.Read(widget).Text; got != want {
					t.Errorf("%s holds %q, want %q", widget, got, want)
				}
			}
			n := len(f.Events())
			m, out := b.act(`role:button && name:button`, kind("click"))
			t.Logf("click: %v %s (%s)", m["route"], out.Effect, out.Evidence)
			f.AwaitAfter(n, "the click", func(e desk.Event) bool { return e.Kind == "clicked" })
			confirmed(`name:check`, kind("check"))
			if !f.Read("check").On {
				t.Error("not checked")
			}
			confirmed(`name:check`, kind("check"))
			confirmed(`name:check`, kind("toggle"))
			if f.Read("check").On {
				t.Error("still checked")
			}
			confirmed(`name:entry`, kind("set_value", "value", unicodeText))
			same("entry", unicodeText)
			confirmed(`name:entry`, kind("type", "text", " é漢😀!"))
			same("entry", unicodeText+" é漢😀!")
			confirmed(`name:entry`, kind("clear"))
			same("entry", "")
			confirmed(`name:entry`, kind("type", "text", "héllo 漢"))
			same("entry", "héllo 漢")
			confirmed(`name:text`, kind("set_value", "value", "one\ntwo 😀"))
			same("text", "one\ntwo 😀")
			_, out = b.act(`name:password`, kind("set_value", "value", "hunter2"))
			if same("password", "hunter2"); out.Effect == capabilities.EffectConfirmed {
				t.Errorf("a protected field was read back: %+v", out)
			}
			confirmed(`name:slider`, kind("set_value", "value", "42"))
			if got := f.Read("slider").Number; got != 42 {
				t.Errorf("the slider is at %v", got)
			}
			confirmed(`name:spin`, kind("increment"))
			if got := f.Read("spin").Number; got != 1 {
				t.Errorf("the spin button is at %v", got)
			}
			confirmed(`role:combobox`, kind("set_value", "value", "green"))
			same("combo", "green")
			confirmed(`name:entry`, kind("focus"))
			n = len(f.Events())
			m, out, err = b.call("act", map[string]any{"action": kind("menu", "path", []string{"File", "Open"}), "target": fmt.Sprintf(`window:"%s"`, f.App.Window.Title)})
			t.Logf("menu: %v %s (%s) %v", m["route"], out.Effect, out.Evidence, err)
			switch {
			case kit == desk.GTK4: // whose menu bar publishes no elements
				if capabilities.CodeOf(err) != capabilities.CodeElementNotFound {
					t.Errorf("%v, %v", m, err)
				}
			case err != nil:
				t.Errorf("%v %+v", err, capabilities.AsError(err).Details)
			default:
				f.AwaitAfter(n, "the menu's item", func(e desk.Event) bool { return e.Kind == "menu" && e.Text == "Open" })
			}
		})
	}
}

// within waits for what wait-for waits for, as long as a busy machine may take.
func (b *bench) await(args map[string]any) map[string]any {
	b.t.Helper()
	args["timeout_ms"] = desk.Within.Milliseconds()
	m, _, err := b.callWithin(desk.Within+10*time.Second, "wait-for", args)
	if err != nil || m["status"] != "satisfied" {
		b.t.Fatalf("waiting for %v: %v, %v (%+v)", args, m, err, capabilities.AsError(err))
	}
	return m
}

// query finds, and fails the test if nothing is found.
func (b *bench) query(selector string) map[string]any {
	b.t.Helper()
	m, _, err := b.call("query", map[string]any{"selector": selector})
	if err != nil || len(m["matches"].([]any)) == 0 {
		b.t.Fatalf("%s finds %v, %v", selector, m, err)
	}
	return m["matches"].([]any)[0].(map[string]any)["node"].(map[string]any)
}

// A calculator and an editor, worked by their elements only.
func TestCalculatorAndEditor(t *testing.T) {
	desk.Need(t, "gnome-calculator", "mousepad")
	t.Parallel()
	d := desk.StartX(t, desk.Options{})
	d.App("gnome-calculator")
	d.App("mousepad")
	b := realBench(t, d)
	b.await(map[string]any{"selector": `window:Calculator >> role:button && name:7`, "state": "enabled"})
	for _, key := range []string{"7", "×", "6", "="} {
		m, out := b.act(fmt.Sprintf(`window:Calculator >> role:button && name:%q`, key), kind("click"))
		t.Logf("%s: %v %s (%s)", key, m["route"], out.Effect, out.Evidence)
	}
	b.await(map[string]any{"selector": `window:Calculator >> text:"42"`, "state": "visible"})
	m, out := b.act(`window:Mousepad >> role:textbox && state:multiline`, kind("type", "text", "7 × 6 = 42 é漢😀"))
	t.Logf("type: %v %s (%s)", m["route"], out.Effect, out.Evidence)
	if out.Effect != capabilities.EffectConfirmed {
		t.Errorf("%v, %+v", m, out)
	}
	if got := b.query(`window:Mousepad >> role:textbox && state:multiline`)["value"]; got != "7 × 6 = 42 é漢😀" {
		t.Errorf("the editor holds %q", got)
	}
	m, out = b.act(`window:Mousepad`, kind("menu", "path", []string{"Edit", "Select All"}))
	t.Logf("menu: %v %s (%s)", m["route"], out.Effect, out.Evidence)
	m, out = b.act(`window:Mousepad`, kind("close"))
	t.Logf("close: %v %s (%s)", m["route"], out.Effect, out.Evidence)
	if w, _ := m["window"].(map[string]any); out.Effect != capabilities.EffectPartial || w == nil {
		t.Errorf("closing a changed text asks: %v, %+v", m, out)
	}
	m, out = b.act(`window:Calculator`, kind("close"))
	if out.Effect != capabilities.EffectConfirmed {
		t.Errorf("%v, %+v", m, out)
	}
}

// An application that is frozen is named, and costs the others nothing.
func TestFrozenApplication(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{})
	frozen, free := d.Fixture(desk.GTK3, 5), d.Fixture(desk.Qt, 5)
	b := realBench(t, d)
	title := func(f *desk.Fixture) string { return f.App.Window.Title }
	button := func(f *desk.Fixture) string { return fmt.Sprintf(`window:%q >> role:button && name:button`, title(f)) }
	b.await(map[string]any{"selector": button(frozen), "state": "enabled"})
	b.await(map[string]any{"selector": button(free), "state": "enabled"})
	frozen.Freeze()
	e := b.refused(capabilities.CodeAppHung, "act", map[string]any{"target": button(frozen), "action": kind("click")})
	t.Logf("%v %+v", e, e.Details)
	n := len(free.Events())
	b.act(button(free), kind("click"))
	free.AwaitAfter(n, "the click", func(e desk.Event) bool { return e.Kind == "clicked" })
	m, _, err := b.call("query", map[string]any{"selector": `role:button && name:button`, "limit": 10})
	if err != nil || m["total"] != 1.0 || m["hung"] == nil {
		t.Errorf("%v, %v", m, err)
	}
	frozen.Thaw()
	b.await(map[string]any{"selector": button(frozen), "state": "enabled"})
	n = len(frozen.Events())
	b.act(button(frozen), kind("click"))
	frozen.AwaitAfter(n, "the click", func(e desk.Event) bool { return e.Kind == "clicked" })
}

// Covered windows come to the front for the pointer, and what had the focus has it
// again afterwards.
func TestPointerAndFocusAreLeftAlone(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{})
	below, above := d.Fixture(desk.Qt, 5), d.Fixture(desk.GTK3, 5)
	b := realBench(t, d)
	in := func(f *desk.Fixture, what string) string {
		return fmt.Sprintf(`window:%q >> %s`, f.App.Window.Title, what)
	}
	b.await(map[string]any{"selector": in(below, `role:checkbox && name:check`), "state": "visible"})
	b.await(map[string]any{"selector": in(above, `name:entry`), "state": "visible"})
	d.Activate(above.App.Window.ID)
	x, y := d.Pointer()
	// By its own action nothing moves.
	m, out := b.act(in(below, `name:check`), kind("check"))
	if m["moved_pointer"] != nil || m["took_focus"] != nil || d.Active() != above.App.Window.ID || out.Effect != capabilities.EffectConfirmed {
		t.Errorf("%v, %+v; %s has the focus", m, out, d.Active())
	}
	// Only the pointer turns a wheel or clicks with the middle button.
	n := len(below.Events())
	m, _ = b.act(in(below, `name:label`), kind("middle_click"))
	below.AwaitAfter(n, "the middle button", func(e desk.Event) bool { return e.Kind == "button" && e.Button == 2 })
	if m["moved_pointer"] != true || m["took_focus"] != true || m["route"] != "synthetic_input" {
		t.Errorf("%v", m)
	}
	desk.Await(t, "the focus to be back", func() bool { return d.Active() == above.App.Window.ID })
	if nx, ny := d.Pointer(); nx != x || ny != y {
		t.Errorf("the pointer was at %d, %d and is at %d, %d", x, y, nx, ny)
	}
}

// A page in Chromium is worked as any other application, by its elements.
func TestChromiumByElements(t *testing.T) {
	desk.Need(t, "chromium")
	t.Parallel()
	d := desk.StartX(t, desk.Options{})
	b := realBench(t, d)
	if _, _, err := b.call("query", map[string]any{"selector": "role:button"}); err != nil { // browsers look once, as they start
		t.Fatal(err)
	}
	d.Chromium(`<title>Form</title><label>Name <input id=n></label><label><input type=checkbox id=c>Agree</label>
<select id=s aria-label=Colour><option>red<option>green<option>blue</select><textarea aria-label=Notes></textarea>
<button onclick="document.title='Sent '+n.value+' '+c.checked+' '+s.value">Send</button>`, "--force-renderer-accessibility")
	in := func(what string) string { return `window:"Form" >> ` + what }
	b.await(map[string]any{"selector": in(`role:button && name:Send`), "state": "enabled"})
	for _, step := range []struct {
		target string
		action map[string]any
	}{
		{in(`role:textbox && name:Name`), kind("set_value", "value", "é漢😀")},
		{in(`role:checkbox && name:Agree`), kind("check")},
		{in(`role:combobox && name:Colour`), kind("set_value", "value", "green")},
		{in(`role:textbox && name:Notes`), kind("type", "text", "one\ntwo")},
		{in(`role:button && name:Send`), kind("click")},
	} {
		m, out := b.act(step.target, step.action)
		t.Logf("%s %v: %v %s (%s)", step.target, step.action["kind"], m["route"], out.Effect, out.Evidence)
		// A combobox may not tell what it shows; the page does, in the end.
		if out.Effect != capabilities.EffectConfirmed && (out.Effect != capabilities.EffectPartial || step.action["value"] != "green") {
			t.Errorf("%v, %+v", m, out)
		}
	}
	b.await(map[string]any{"window": "Sent"})
	if windows, err := caller(b.h).windows(t.Context()); err != nil || windows[0].Title != "Sent é漢😀 true green" {
		t.Errorf("%+v, %v", windows, err)
	}
}

// A click by a ref, at the node, with its evidence.
func BenchmarkClickByRef(b *testing.B) {
	for _, kit := range []desk.Toolkit{desk.GTK3, desk.GTK4, desk.Qt} {
		b.Run(string(kit), func(b *testing.B) {
			d := desk.StartX(b, desk.Options{})
			d.Fixture(kit, 50)
			h := realBench(b, d)
			h.await(map[string]any{"selector": `role:spinbutton`, "state": "enabled"})
			m, _, err := h.call("query", map[string]any{"selector": `role:spinbutton`})
			if err != nil {
				b.Fatal(err)
			}
			ref := m["matches"].([]any)[0].(map[string]any)["element_ref"]
			for i := 0; b.Loop(); i++ {
				_, out := h.act(ref, kind("set_value", "value", fmt.Sprint(1+i%50)))
				if out.Effect != capabilities.EffectConfirmed {
					b.Fatalf("%+v", out)
				}
			}
		})
	}
}
