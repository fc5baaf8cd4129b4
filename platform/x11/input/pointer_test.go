package input

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jezek/xgb/xproto"
	"github.com/jezek/xgb/xtest"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/x11/wire"
	"github.com/handrail-dev/handrail/platform/x11/x11test"
	"github.com/handrail-dev/handrail/test/desk"
)

// The mouse: an independent program sees the pointer where it was moved, and a
// program gets buttons and the wheel.
func TestMouse(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{NoBus: true})
	f := d.Fixture(desk.GTK3, 50)
	in := openInput(t, d)
	for _, to := range []platform.Point{{X: 0, Y: 0}, {X: 1279, Y: 799}, {X: 17, Y: 333}} {
		if err := in.Move(x11test.Within(t), to); err != nil {
			t.Fatal(err)
		}
		if x, y := d.Pointer(); x != to.X || y != to.Y {
			t.Errorf("moved to %v, xdotool sees %d,%d", to, x, y)
		}
		if at, err := in.Pointer(x11test.Within(t)); at != to || err != nil {
			t.Errorf("moved to %v, read back %v: %v", to, at, err)
		}
	}
	if err := in.Move(x11test.Within(t), platform.Point{X: 99999, Y: -5}); err != nil {
		t.Errorf("beyond the edge: %v", err)
	}
	d.Activate(f.Window.ID)
	b := f.Box("button")
	if err := in.Move(x11test.Within(t), platform.Point{X: b.X + b.Width/2, Y: b.Y + b.Height/2}); err != nil {
		t.Fatal(err)
	}
	press := func(b platform.Button) {
		t.Helper()
		for _, down := range []bool{true, false} {
			if err := in.Button(x11test.Within(t), b, down); err != nil {
				t.Fatal(err)
			}
		}
	}
	if took, err := in.Behind(x11test.Within(t)); took == 0 || err != nil {
		t.Errorf("a program that answers: %v, %v", took, err)
	}
	press(platform.ButtonLeft)
	f.Await("the click", func(e desk.Event) bool { return e.Kind == "clicked" && e.Widget == "button" })
	for button, number := range map[platform.Button]int{platform.ButtonMiddle: 2, platform.ButtonRight: 3, platform.ButtonBack: 8} {
		press(button)
		f.Await(string(button), func(e desk.Event) bool { return e.Kind == "button" && e.Down && e.Button == number })
	}
	// A person who swapped the buttons is left-handed; left stays what left does, from the next
	// press on.
	d.Run("xmodmap", "-e", "pointer = 3 2 1")
	n := len(f.Events())
	press(platform.ButtonLeft)
	f.AwaitAfter(n, "the click of swapped buttons", func(e desk.Event) bool { return e.Kind == "clicked" })
	// A button that went down comes up, whatever it does by then. (The server refuses to swap while
	// one is down, so the press is made here.)
	n = len(f.Events())
	if err := in.do(x11test.Within(t), func(context.Context) error {
		in.buttons = append(in.buttons, heldButton{1, 1})
		return xtest.FakeInputChecked(in.conn.X, fakeButtonPress, 1, 0, 0, 0, 0, 0).Check()
	}); err != nil {
		t.Fatal(err)
	}
	if err := in.Button(x11test.Within(t), platform.ButtonLeft, false); err != nil {
		t.Fatal(err)
	}
	f.AwaitAfter(n, "the button that went down comes up", func(e desk.Event) bool { return e.Kind == "button" && !e.Down && e.Button == 3 })
	n = len(f.Events())
	if err := in.Scroll(x11test.Within(t), -1, 2); err != nil {
		t.Fatal(err)
	}
	f.AwaitAfter(n, "the wheel", func(e desk.Event) bool { return e.Kind == "scroll" && e.DY > 0 })
	f.AwaitAfter(n, "the wheel's other axis", func(e desk.Event) bool { return e.Kind == "scroll" && e.DX < 0 })
	if err := in.Button(x11test.Within(t), "thumb", true); err == nil {
		t.Error("a button that is none was pressed")
	}
	f.Freeze()
	for _, least := range []time.Duration{askedAfter, 0} { // who does not answer is not asked again
		if took, err := in.Behind(x11test.Within(t)); took < least || least == 0 && took > 0 || err != nil {
			t.Errorf("a program that hangs: %v, %v", took, err)
		}
	}
	f.Thaw()
	if err := in.Move(x11test.Within(t), platform.Point{X: 1, Y: 799}); err != nil {
		t.Fatal(err)
	}
	if took, err := in.Behind(x11test.Within(t)); took != 0 || err != nil {
		t.Errorf("where no program is: %v, %v", took, err)
	}
}

// A window manager looks at a press before the program gets it, and the pointer
// stands still meanwhile: what was moved arrives when it goes on.
func TestMoveWaitsForWhoLooksAtAPress(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{NoBus: true})
	in, other := openInput(t, d), x11test.Dial(t, d)
	ctx := x11test.Within(t)
	if err := in.Move(ctx, platform.Point{X: 40, Y: 50}); err != nil {
		t.Fatal(err)
	}
	grab, err := xproto.GrabPointer(other.X, false, other.Root(), xproto.EventMaskButtonPress, xproto.GrabModeSync, xproto.GrabModeAsync,
		xproto.WindowNone, xproto.CursorNone, xproto.TimeCurrentTime).Reply()
	if err != nil || grab.Status != xproto.GrabStatusSuccess {
		t.Fatalf("%v %+v", err, grab)
	}
	moved := make(chan error, 1)
	go func() { moved <- in.Move(ctx, platform.Point{X: 300, Y: 200}) }()
	// The server's order of events shows that the move is in it, and has not gone on.
	desk.Await(t, "the move is on its way", func() bool {
		select {
		case err := <-moved:
			t.Fatalf("it ended while the pointer was stopped: %v", err)
		default:
		}
		return len(in.turn) == 0
	})
	if err := xproto.AllowEventsChecked(other.X, xproto.AllowAsyncPointer, xproto.TimeCurrentTime).Check(); err != nil {
		t.Fatal(err)
	}
	if err := <-moved; err != nil {
		t.Fatal(err)
	}
	if x, y := d.Pointer(); x != 300 || y != 200 {
		t.Errorf("the pointer is at %d,%d", x, y)
	}
	xproto.UngrabPointer(other.X, xproto.TimeCurrentTime)
	// A program that never lets it go on is told of.
	xproto.GrabPointer(other.X, false, other.Root(), xproto.EventMaskButtonPress, xproto.GrabModeSync, xproto.GrabModeAsync,
		xproto.WindowNone, xproto.CursorNone, xproto.TimeCurrentTime).Reply()
	if err := in.do(ctx, func(context.Context) error { in.thaw = 100 * time.Millisecond; return nil }); err != nil {
		t.Fatal(err)
	}
	if err := in.Move(ctx, platform.Point{X: 10, Y: 10}); err == nil || !strings.Contains(err.Error(), "holds the pointer") {
		t.Errorf("%v", err)
	}
}

// While a window manager looks at a press, what follows waits for the screen's pointer
// only. A button that goes down again on XTEST's device meanwhile would make the
// server drop a release and a press: so it does not go down before.
func TestClicksThatSomebodyLooksAt(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{NoBus: true})
	in, manager, program := openInput(t, d), x11test.Dial(t, d), x11test.Dial(t, d)
	ctx := x11test.Within(t)
	w, err := xproto.NewWindowId(program.X)
	if err != nil {
		t.Fatal(err)
	}
	const buttons = xproto.EventMaskButtonPress | xproto.EventMaskButtonRelease
	mine := func(e wire.Event) bool { return e.Code == xproto.ButtonPress || e.Code == xproto.ButtonRelease }
	got, looked := program.Subscribe(ctx, mine), manager.Subscribe(ctx, mine)
	xproto.CreateWindow(program.X, program.Screen.RootDepth, w, program.Root(), 100, 100, 200, 200, 0, xproto.WindowClassInputOutput, program.Screen.RootVisual,
		xproto.CwOverrideRedirect|xproto.CwEventMask, []uint32{1, buttons})
	if err := xproto.MapWindowChecked(program.X, w).Check(); err != nil {
		t.Fatal(err)
	}
	if err := xproto.GrabButtonChecked(manager.X, false, w, xproto.EventMaskButtonPress, xproto.GrabModeSync, xproto.GrabModeAsync,
		xproto.WindowNone, xproto.CursorNone, xproto.ButtonIndexAny, xproto.ModMaskAny).Check(); err != nil {
		t.Fatal(err)
	}
	next := func(what string, from <-chan wire.Event) byte {
		t.Helper()
		select {
		case e := <-from:
			return e.Code
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s", what)
			return 0
		}
	}
	replay := func() {
		t.Helper()
		next("a press to look at", looked)
		if err := xproto.AllowEventsChecked(manager.X, xproto.AllowReplayPointer, xproto.TimeCurrentTime).Check(); err != nil {
			t.Fatal(err)
		}
	}
	button := func(down bool) {
		t.Helper()
		if err := in.Button(ctx, platform.ButtonLeft, down); err != nil {
			t.Fatal(err)
		}
	}
	if err := in.Move(ctx, platform.Point{X: 200, Y: 200}); err != nil {
		t.Fatal(err)
	}
	button(true)
	button(false)
	again := make(chan error, 1)
	go func() { again <- in.Button(ctx, platform.ButtonLeft, true) }()
	for range 50 { // so many answers of the server later it would have been made
		select {
		case err := <-again:
			t.Fatalf("pressed while the release before waits: %v", err)
		default:
		}
		if err := manager.Sync(ctx); err != nil {
			t.Fatal(err)
		}
	}
	replay()
	if err := <-again; err != nil {
		t.Fatal(err)
	}
	replay()
	button(false)
	for i, want := range []byte{xproto.ButtonPress, xproto.ButtonRelease, xproto.ButtonPress, xproto.ButtonRelease} {
		if is := next("the clicks", got); is != want {
			t.Fatalf("event %d is %d, want %d", i, is, want)
		}
	}
	// So does each turn of the wheel.
	scrolled := make(chan error, 1)
	go func() { scrolled <- in.Scroll(ctx, 0, 3) }()
	for range 3 {
		replay()
		for _, want := range []byte{xproto.ButtonPress, xproto.ButtonRelease} {
			if is := next("the wheel", got); is != want {
				t.Fatalf("%d, want %d", is, want)
			}
		}
	}
	if err := <-scrolled; err != nil {
		t.Fatal(err)
	}
	// Where nobody lets it go on, no click is said to be made.
	button(true)
	button(false)
	if err := in.do(ctx, func(context.Context) error { in.thaw = 100 * time.Millisecond; return nil }); err != nil {
		t.Fatal(err)
	}
	if err := in.Button(ctx, platform.ButtonLeft, true); err == nil || !strings.Contains(err.Error(), "holds the pointer") {
		t.Errorf("%v", err)
	}
	replay()
	for _, want := range []byte{xproto.ButtonPress, xproto.ButtonRelease} {
		if is := next("the click", got); is != want {
			t.Errorf("%d, want %d", is, want)
		}
	}
}

func BenchmarkMove(b *testing.B) {
	d := x11test.Bare(b, "1280x800")
	in := openInput(b, d)
	ctx := context.Background()
	for i := 0; b.Loop(); i++ {
		if err := in.Move(ctx, platform.Point{X: i % 1000, Y: i % 700}); err != nil {
			b.Fatal(err)
		}
	}
}
