package desktop

import (
	"bytes"
	"fmt"
	"image"
	_ "image/jpeg"
	_ "image/png"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

var twoDisplays = []platform.Display{
	{ID: "L", Bounds: platform.Rect{X: -800, Y: 100, Width: 800, Height: 600}, Scale: 1},
	{ID: "R", Primary: true, Bounds: platform.Rect{X: 0, Y: 0, Width: 1600, Height: 1200}, Scale: 2},
}

// A point of a smaller image of a display left of the origin means the middle of
// what that pixel shows.
func TestPointsMeanWhatImagesShow(t *testing.T) {
	b := newTable(t, Options{})
	b.d.SetLayout(twoDisplays...)
	m, out := b.full("screenshot", `{"display": {"id": "L"}, "max_width": 200}`)
	frame := m["frame"].(map[string]any)
	if m["width"] != 200.0 || m["height"] != 150.0 || frame["x"] != -800.0 || frame["y"] != 100.0 || frame["width"] != 800.0 || frame["display"] != "L" {
		t.Errorf("%v", m)
	}
	c, _, err := image.DecodeConfig(bytes.NewReader(out.Blobs[0].Bytes))
	if err != nil || c.Width != 200 || c.Height != 150 {
		t.Errorf("%v %v", c, err)
	}
	id := m["frame_id"].(string)
	for _, p := range []struct{ x, y, atX, atY int }{{0, 0, -798, 102}, {199, 149, -2, 698}, {100, 75, -398, 402}} {
		got := b.do("mouse", fmt.Sprintf(`{"action": "move", "x": %d, "y": %d, "frame_id": %q}`, p.x, p.y, id))
		at := got["pointer"].(map[string]any)
		if at["x"] != float64(p.atX) || at["y"] != float64(p.atY) || got["unbound"] != nil {
			t.Errorf("%v: %v", p, got)
		}
	}
	b.refused(capabilities.CodeOutsideDesktop, "mouse", fmt.Sprintf(`{"action": "click", "x": 200, "y": 10, "frame_id": %q}`, id))
	b.refused(capabilities.CodeOutsideDesktop, "mouse", `{"action": "click", "x": -10, "y": 50}`)
	b.refused(capabilities.CodeOutsideDesktop, "mouse", `{"action": "click", "x": 9e15, "y": 50}`)
	b.refused(capabilities.CodeStaleFrame, "mouse", `{"action": "click", "x": 1, "y": 1, "frame_id": "f1-none"}`)
	if got := b.do("mouse", `{"action": "move", "x": -10, "y": 150}`); got["unbound"] != true {
		t.Errorf("%v", got)
	}
}

// A change of the displays between the image and the click: nothing is clicked.
func TestChangedLayoutIsNeverClickedThrough(t *testing.T) {
	b := newTable(t, Options{})
	b.d.SetLayout(twoDisplays...)
	id := b.do("screenshot", `{"display": "all"}`)["frame_id"].(string)
	b.d.SetLayout(twoDisplays[1])
	before := len(b.d.Events())
	b.refused(capabilities.CodeStaleFrame, "mouse", fmt.Sprintf(`{"action": "click", "x": 900, "y": 300, "frame_id": %q}`, id))
	b.refused(capabilities.CodeStaleFrame, "mouse", fmt.Sprintf(`{"action": "drag", "path": [{"x": 1, "y": 1}], "x": 900, "y": 300, "frame_id": %q}`, id))
	b.same(b.ops(before))
	b.refused(capabilities.CodeStaleFrame, "screenshot", fmt.Sprintf(`{"display": "all", "region": {"x": 0, "y": 0, "width": 10, "height": 10, "frame_id": %q}}`, id))
}

// The table of frames holds the last 256; those before are refused, not guessed.
func TestOldFramesAreForgotten(t *testing.T) {
	b := newTable(t, Options{})
	b.d.SetLayout(platform.Display{ID: "small", Name: "small", Primary: true, Scale: 1, Bounds: platform.Rect{Width: maxFrames, Height: 4}})
	first := b.do("screenshot", `{"display": "primary", "max_width": 10}`)["frame_id"].(string)
	var second string
	for i := range maxFrames {
		b.d.Paint(platform.Rect{X: i, Width: 1, Height: 1}, 0xffffff)
		id := b.do("screenshot", `{"display": "primary", "max_width": 10}`)["frame_id"].(string)
		if i == 0 {
			second = id
		}
	}
	b.refused(capabilities.CodeStaleFrame, "mouse", fmt.Sprintf(`{"action": "click", "x": 1, "y": 0, "frame_id": %q}`, first))
	b.do("mouse", fmt.Sprintf(`{"action": "click", "x": 1, "y": 0, "frame_id": %q}`, second))
	if n := len(b.h.frames.byID); n != maxFrames {
		t.Errorf("%d frames are kept", n)
	}
}

func TestUnchangedScreenIsNotSentAgain(t *testing.T) {
	b := newTable(t, Options{})
	one, out := b.full("screenshot", `{"display": "primary"}`)
	id := one["frame_id"].(string)
	again, same := b.full("screenshot", fmt.Sprintf(`{"display": "primary", "if_changed_since": %q}`, id))
	if again["unchanged"] != true || again["frame_id"] != id || len(same.Blobs) != 0 {
		t.Errorf("%v, %d images", again, len(same.Blobs))
	}
	third, cached := b.full("screenshot", `{"display": "primary"}`)
	if third["frame_id"] != id || &cached.Blobs[0].Bytes[0] != &out.Blobs[0].Bytes[0] {
		t.Error("the same pixels were encoded again")
	}
	// Another part or size of it is another image.
	if m := b.do("screenshot", fmt.Sprintf(`{"display": "primary", "max_width": 100, "if_changed_since": %q}`, id)); m["unchanged"] != nil {
		t.Errorf("%v", m)
	}
	b.d.Paint(platform.Rect{X: 5, Y: 5, Width: 1, Height: 1}, 0xff0000)
	if m := b.do("screenshot", fmt.Sprintf(`{"display": "primary", "if_changed_since": %q}`, id)); m["unchanged"] != nil || m["frame_id"] == id {
		t.Errorf("%v", m)
	}
	b.do("screenshot", `{"display": "primary", "if_changed_since": "f1-gone"}`)
}

func TestScreenshotParts(t *testing.T) {
	b := newTable(t, Options{})
	b.d.SetLayout(twoDisplays...)
	b.d.AddWindow(platform.Window{Title: "Notes - Editor", Bounds: platform.Rect{X: 1500, Y: 1100, Width: 400, Height: 300}})
	for args, want := range map[string][4]float64{
		`{"display": "all"}`:                        {-800, 0, 2400, 1200},
		`{"display": "primary"}`:                    {0, 0, 1600, 1200},
		`{"display": "primary", "window": "notes"}`: {1500, 1100, 100, 100}, // what of it is on the desktop
		`{"display": "all", "region": {"x": -10.5, "y": 200, "width": 20, "height": 10.2}}`: {-11, 200, 21, 11},
	} {
		f := b.do("screenshot", args)["frame"].(map[string]any)
		if got := [4]float64{f["x"].(float64), f["y"].(float64), f["width"].(float64), f["height"].(float64)}; got != want {
			t.Errorf("%s: %v, want %v", args, got, want)
		}
	}
	id := b.do("screenshot", `{"display": "primary", "max_width": 400}`)["frame_id"].(string)
	part := b.do("screenshot", fmt.Sprintf(`{"display": "primary", "format": "jpeg", "region": {"x": 10, "y": 20, "width": 30, "height": 40, "frame_id": %q}}`, id))
	if f := part["frame"].(map[string]any); f["x"] != 40.0 || f["y"] != 80.0 || f["width"] != 120.0 || f["height"] != 160.0 || part["mime"] != "image/jpeg" {
		t.Errorf("%v", part)
	}
	e := b.refused(capabilities.CodeOutsideDesktop, "screenshot", `{"display": {"id": "X"}}`)
	if text := fmt.Sprint(e.Details); !strings.Contains(text, "L R") {
		t.Errorf("the displays are not named: %s", text)
	}
	b.refused(capabilities.CodeOutsideDesktop, "screenshot", `{"display": "all", "region": {"x": -900, "y": 0, "width": 5, "height": 5}}`)
	b.refused(capabilities.CodeWindowNotFound, "screenshot", `{"display": "all", "window": "Paint"}`)
}

// However large a desktop says it is, nothing is read that could not be given.
func TestHostileSizes(t *testing.T) {
	b := newTable(t, Options{})
	b.d.SetLayout(platform.Display{ID: "big", Primary: true, Bounds: platform.Rect{Width: 1 << 20, Height: 1 << 20}})
	b.refused(capabilities.CodeResultTooLarge, "screenshot", `{"display": "all"}`)
	b.do("screenshot", `{"display": "all", "max_width": 1, "region": {"x": 0, "y": 0, "width": 100, "height": 3}}`)
	b.do("screenshot", `{"display": "all", "max_width": 1000000000, "region": {"x": 1e6, "y": 1e6, "width": 9e15, "height": 1}}`)
	b.refused(capabilities.CodeOutsideDesktop, "screenshot", `{"display": "all", "region": {"x": 9e15, "y": -9e15, "width": 9e15, "height": 9e15}}`)
	b.d.SetLayout()
	b.refused(capabilities.CodeOutsideDesktop, "screenshot", `{"display": "all"}`)
	b.refused(capabilities.CodeOutsideDesktop, "screenshot", `{"display": "primary"}`)
	b.refused(capabilities.CodeOutsideDesktop, "mouse", `{"action": "click", "x": 0, "y": 0}`)
}
