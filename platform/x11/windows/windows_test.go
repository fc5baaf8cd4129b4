package windows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/x11/x11test"
	"github.com/handrail-dev/handrail/test/desk"
)

func openWindows(t testing.TB, d *desk.Desk) *Windows {
	t.Helper()
	w, err := New(x11test.Within(t), x11test.Dial(t, d))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func list(t testing.TB, w *Windows) []platform.Window {
	t.Helper()
	all, err := w.List(x11test.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range all {
		if p.Z != i {
			t.Errorf("%q is number %d and has z %d", p.Title, i, p.Z)
		}
	}
	return all
}

func pick(t testing.TB, w *Windows, ref string) platform.Window {
	t.Helper()
	all := list(t, w)
	for _, p := range all {
		if p.Ref == ref {
			return p
		}
	}
	t.Fatalf("%s is not among %+v", ref, all)
	return platform.Window{}
}

func TestWindowsWithManager(t *testing.T) {
	t.Parallel()
	desk.Need(t, "xterm", "wmctrl")
	d := desk.StartX(t, desk.Options{NoBus: true})
	w := openWindows(t, d)
	if all := list(t, w); len(all) != 0 {
		t.Errorf("an empty desktop has %+v", all)
	}
	a, b := x11test.Xterm(d, "first é漢😀", "40x10+100+120"), x11test.Xterm(d, "second", "50x12+300+200")
	refA, refB := "x11:"+a.Window.ID, "x11:"+b.Window.ID
	desk.Await(t, "both windows", func() bool { return len(list(t, w)) == 2 && list(t, w)[0].Focused })
	all := list(t, w)
	if all[0].Ref != refB || all[1].Ref != refA || all[1].Focused {
		t.Fatalf("the second is not on top: %+v", all)
	}
	for _, app := range []*desk.App{a, b} {
		got := pick(t, w, "x11:"+app.Window.ID)
		left, right, top, bottom := d.Frame(app.Window.ID)
		look, _ := app.Look()
		content := platform.Rect{X: look.X, Y: look.Y, Width: look.Width, Height: look.Height}
		frame := platform.Rect{X: content.X - left, Y: content.Y - top, Width: content.Width + left + right, Height: content.Height + top + bottom}
		if got.Content != content || got.Bounds != frame || top == 0 {
			t.Errorf("content %v, bounds %v; the oracle says %v, %v", got.Content, got.Bounds, content, frame)
		}
		if got.Title != look.Title || got.App != "XTerm" || got.PID != app.PID || got.Own || got.Minimized {
			t.Errorf("got %+v of pid %d, %+v", got, app.PID, look)
		}
	}

	if err := w.Activate(x11test.Within(t), refA); err != nil {
		t.Fatal(err)
	}
	if d.Active() != a.Window.ID || list(t, w)[0].Ref != refA || !list(t, w)[0].Focused {
		t.Errorf("active is %s", d.Active())
	}
	if err := w.Activate(x11test.Within(t), refA); err != nil { // it is already
		t.Error(err)
	}

	// xterm keeps to whole characters: the result is bent, and returned in time.
	for _, to := range []platform.Rect{{X: 50, Y: 60, Width: 400, Height: 300}, {X: 200, Y: 10, Width: 333, Height: 222}, {X: -20, Y: 300, Width: 333, Height: 222}} {
		if err := w.Place(x11test.Within(t), refA, to); err != nil {
			t.Fatal(err)
		}
		got := pick(t, w, refA)
		if got.Bounds.X != to.X || got.Bounds.Y != to.Y || abs(got.Bounds.Width-to.Width) > 20 || abs(got.Bounds.Height-to.Height) > 20 {
			t.Errorf("placed at %v, wanted %v", got.Bounds, to)
		}
		if look, _ := a.Look(); look.X != got.Content.X || look.Y != got.Content.Y || look.Width != got.Content.Width {
			t.Errorf("the oracle says %+v, the list %v", look, got.Content)
		}
	}
	d.Run("wmctrl", "-i", "-r", a.Window.ID, "-b", "add,maximized_vert,maximized_horz")
	desk.Await(t, "the maximized window", func() bool { return pick(t, w, refA).Bounds.Width > 1200 })
	if err := w.Place(x11test.Within(t), refA, platform.Rect{X: 70, Y: 80, Width: 333, Height: 222}); err != nil {
		t.Fatal(err)
	}
	if got := pick(t, w, refA); got.Bounds.X != 70 || got.Bounds.Width > 360 {
		t.Errorf("a maximized window was placed at %v", got.Bounds)
	}

	if err := w.Minimize(x11test.Within(t), refB); err != nil {
		t.Fatal(err)
	}
	if !pick(t, w, refB).Minimized || !strings.Contains(d.Run("xprop", "-id", b.Window.ID, "WM_STATE"), "Iconic") {
		t.Error("not minimized")
	}
	if err := w.Activate(x11test.Within(t), refB); err != nil || pick(t, w, refB).Minimized || d.Active() != b.Window.ID {
		t.Errorf("a minimized window was not brought back: %v", err)
	}
	// A window on another workspace is not to be seen.
	d.Run("wmctrl", "-i", "-r", b.Window.ID, "-t", "1")
	desk.Await(t, "the window to leave", func() bool { return pick(t, w, refB).Minimized })
	if err := w.Activate(x11test.Within(t), refB); err != nil || pick(t, w, refB).Minimized {
		t.Errorf("a window of another workspace was not brought: %v; %s %s %+v", err, d.Run("wmctrl", "-d"), d.Active(), list(t, w))
	}

	if err := w.Close(x11test.Within(t), refB); err != nil {
		t.Fatal(err)
	}
	desk.Await(t, "the window to close", func() bool {
		return !slices.ContainsFunc(list(t, w), func(p platform.Window) bool { return p.Ref == refB })
	})
	checkGone(t, w, refB)
	checkGone(t, w, "x11:0xfffff")
	checkGone(t, w, "no ref")
}

func checkGone(t *testing.T, w *Windows, ref string) {
	t.Helper()
	for name, err := range map[string]error{
		"Activate": w.Activate(x11test.Within(t), ref), "Place": w.Place(x11test.Within(t), ref, platform.Rect{Width: 9, Height: 9}),
		"Minimize": w.Minimize(x11test.Within(t), ref), "Close": w.Close(x11test.Within(t), ref),
	} {
		if !errors.Is(err, platform.ErrGone) {
			t.Errorf("%s of a window that is gone: %v", name, err)
		}
	}
}

func TestWindowsWithoutManager(t *testing.T) {
	t.Parallel()
	desk.Need(t, "xterm")
	d := x11test.Bare(t, "")
	w := openWindows(t, d)
	a, b := x11test.Xterm(d, "first", "40x10+100+120"), x11test.Xterm(d, "second", "40x10+300+200")
	refA, refB := "x11:"+a.Window.ID, "x11:"+b.Window.ID
	all := list(t, w)
	if len(all) != 2 || all[0].Ref != refB || all[0].Bounds != around(all[0].Content, []uint32{1, 1, 1, 1}, 1) || all[0].PID != b.PID {
		t.Fatalf("got %+v", all)
	}
	if err := w.Activate(x11test.Within(t), refA); err != nil {
		t.Fatal(err)
	}
	if all = list(t, w); all[0].Ref != refA || !all[0].Focused {
		t.Errorf("after Activate %+v", all)
	}
	to := platform.Rect{X: 7, Y: 8, Width: 300, Height: 200}
	if err := w.Place(x11test.Within(t), refA, to); err != nil || pick(t, w, refA).Bounds != to {
		t.Errorf("placed at %v: %v", pick(t, w, refA).Bounds, err)
	}
	if err := w.Minimize(x11test.Within(t), refA); !errors.Is(err, platform.ErrCannot) {
		t.Errorf("Minimize: %v", err)
	}
	if err := w.Close(x11test.Within(t), refA); err != nil {
		t.Fatal(err)
	}
	desk.Await(t, "the window to close", func() bool { return len(list(t, w)) == 1 })
	checkGone(t, w, refA)
}

// A manager that died leaves its properties behind.
func TestManagerDies(t *testing.T) {
	t.Parallel()
	desk.Need(t, "xterm")
	d := desk.StartX(t, desk.Options{NoBus: true, NoWM: true})
	wm := d.StartWM()
	w := openWindows(t, d)
	a := x11test.Xterm(d, "first", "40x10+100+120")
	wm.Kill()
	desk.Await(t, "the list without a manager", func() bool {
		all := list(t, w)
		return len(all) == 1 && all[0].Ref == "x11:"+a.Window.ID && !all[0].Minimized
	})
	if err := w.Activate(x11test.Within(t), "x11:"+a.Window.ID); err != nil {
		t.Error(err)
	}
}

func TestOwnWindows(t *testing.T) {
	t.Parallel()
	d := x11test.Bare(t, "")
	w := openWindows(t, d)
	p := x11test.NewPainter(t, x11test.Dial(t, d)) // a window of this process
	name := "mine"
	xproto.ChangeProperty(p.C.X, xproto.PropModeReplace, p.W, xproto.AtomWmName, xproto.AtomString, 8, uint32(len(name)), []byte(name))
	xproto.ChangeProperty(p.C.X, xproto.PropModeReplace, p.W, xproto.AtomWmClass, xproto.AtomString, 8, 9, []byte("mine\x00Mine"))
	if err := p.C.Sync(x11test.Within(t)); err != nil {
		t.Fatal(err)
	}
	if all := list(t, w); len(all) != 1 || !all[0].Own || all[0].App != "Mine" {
		t.Errorf("got %+v", all)
	}
}

func TestWindowChanges(t *testing.T) {
	t.Parallel()
	desk.Need(t, "xterm")
	d := desk.StartX(t, desk.Options{NoBus: true})
	w := openWindows(t, d)
	ctx, cancel := context.WithCancel(x11test.Within(t))
	ch, err := w.Changes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(what string, so func() bool) {
		t.Helper()
		for !so() {
			select {
			case _, ok := <-ch:
				if !ok {
					t.Fatal("the changes ended")
				}
			case <-time.After(desk.Within):
				t.Fatalf("not told of %s", what)
			}
		}
	}
	var app *desk.App
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		app = x11test.Xterm(d, "before", "40x10+100+120")
	}()
	expect("a window", func() bool { return len(list(t, w)) == 1 })
	<-opened
	d.Run("xdotool", "set_window", "--name", "after", app.Window.ID)
	expect("its title", func() bool { return list(t, w)[0].Title == "after" })
	at := list(t, w)[0].Bounds
	d.Run("xdotool", "windowmove", app.Window.ID, "300", "310")
	expect("its place", func() bool { return list(t, w)[0].Bounds != at })
	d.Run("xdotool", "windowminimize", app.Window.ID)
	expect("its being away", func() bool { return list(t, w)[0].Minimized })
	app.Kill()
	expect("its end", func() bool { return len(list(t, w)) == 0 })
	cancel()
	for range ch {
	}
}

// Windows close while they are listed and used.
func TestWindowsRaceToClose(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{NoBus: true})
	w := openWindows(t, d)
	maker := x11test.Dial(t, d)
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(x11test.Within(t))
	wg.Go(func() {
		for ctx.Err() == nil {
			id, err := xproto.NewWindowId(maker.X)
			if err != nil {
				return
			}
			s := maker.Screen
			xproto.CreateWindow(maker.X, s.RootDepth, id, s.Root, 10, 10, 100, 100, 0, xproto.WindowClassInputOutput, s.RootVisual, 0, nil)
			xproto.MapWindow(maker.X, id)
			_ = maker.Sync(ctx)
			xproto.DestroyWindow(maker.X, id)
		}
	})
	tried := 0
	for i := range 400 {
		for _, p := range list(t, w) {
			tried++
			c, stop := context.WithTimeout(ctx, 20*time.Second)
			var err error
			switch i % 4 {
			case 0:
				err = w.Activate(c, p.Ref)
			case 1:
				err = w.Place(c, p.Ref, platform.Rect{X: 5, Y: 5, Width: 50, Height: 50})
			case 2:
				err = w.Minimize(c, p.Ref)
			default:
				err = w.Close(c, p.Ref)
			}
			stop()
			if err != nil && !errors.Is(err, platform.ErrGone) && !errors.Is(err, platform.ErrCannot) {
				t.Errorf("%v", err)
			}
		}
	}
	cancel()
	wg.Wait()
	t.Logf("%d windows were used", tried)
}

func TestWindowsOfAnEndedServer(t *testing.T) {
	t.Parallel()
	d := x11test.Bare(t, "")
	w := openWindows(t, d)
	ch, err := w.Changes(x11test.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	d.KillServer()
	if _, err := w.List(x11test.Within(t)); !errors.Is(err, platform.ErrLost) {
		t.Errorf("List: %v", err)
	}
	if err := w.Activate(x11test.Within(t), "x11:0x200001"); !errors.Is(err, platform.ErrLost) {
		t.Errorf("Activate: %v", err)
	}
	for range ch {
	}
}

func abs(n int) int { return max(n, -n) }

func BenchmarkList(b *testing.B) {
	for _, n := range []int{5, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			d := desk.StartX(b, desk.Options{NoBus: true})
			w := openWindows(b, d)
			c := x11test.Dial(b, d)
			for range n {
				x11test.NewWindow(b, c, platform.Rect{X: 3, Y: 3, Width: 60, Height: 60})
			}
			desk.Await(b, "the windows", func() bool { return len(list(b, w)) == n })
			for b.Loop() {
				if _, err := w.List(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
