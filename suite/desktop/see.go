package desktop

import (
	"bytes"
	"fmt"
	"image"
	"math"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/suite"
)

// An agent's seeing: images, and the frames that bind places in them.

// twoSquares shows a magenta square of 80 by 60 at 40, 60 and a lime one at
// 300, 200 of the window.
const twoSquares = html(
	`<button class=m id=m style="left:40px;top:60px"></button><button class=l id=l style="left:300px;top:200px"></button>`)

func shot(more ...obj) step {
	args := with("display", "primary")
	for _, m := range more {
		for k, v := range m {
			args[k] = v
		}
	}
	return func(r *run) {
		call("screenshot", args)(r)
		if id, ok := r.Last().Result["frame_id"].(string); ok {
			r.vars["frame"] = id
		}
	}
}

// aside takes the pointer off the window, where a compositor that draws it into
// every image covers nothing.
var aside = call("mouse", with("action", "move", "x", 1, "y", 1))

// size wants the image to be as large as the result and its frame say.
var size = check(func(r *run, c *suite.Call) string {
	b := suite.Picture(r).Bounds()
	for path, want := range map[string]int{"width": b.Dx(), "height": b.Dy(), "frame.image_width": b.Dx(), "frame.image_height": b.Dy()} {
		if suite.Number(c.Result, path) != float64(want) {
			return fmt.Sprintf("%s is %v, and the image is %v", path, suite.Pick(c.Result, path), b)
		}
	}
	return ""
})

// squares wants the last image to show both squares at their distance, however
// the image is scaled.
func squares(r *run) {
	find("m", magenta)(r)
	find("l", lime)(r)
	v := func(name string) float64 { f, _ := r.vars[name].(float64); return f }
	scale := suite.Number(r.Last().Result, "frame.image_width") / suite.Number(r.Last().Result, "frame.width") * r.ratio()
	off := max(2, 2/scale)
	if math.Abs((v("l.x")-v("m.x"))/scale-260) > off || math.Abs((v("l.y")-v("m.y"))/scale-140) > off ||
		math.Abs(v("m.height")/scale-60) > 2*off {
		r.Fail("the squares are not where they were drawn: %v", r.vars)
	}
}

// ratio is the page's: how many pixels of the desktop one of its own is.
func (r *run) ratio() float64 {
	f, _ := r.eval("devicePixelRatio").(float64)
	return f
}

// struck wants the last click to have come to the middle of the square m, within
// off of the page's pixels.
func struck(off float64) step {
	return becomes(
		fmt.Sprintf("log.filter(e => e.t === 'click' && e.id === 'm' && Math.abs(e.x - 80) <= %g && Math.abs(e.y - 90) <= %g).length", off, off),
		1)
}

var clickFrame = call("mouse", with("action", "click", "x", known("m.x"), "y", known("m.y"), "frame_id", known("frame")))

func screenshots() []*behaviour {
	return []*behaviour{
		b("screenshot.png", "the primary display", "a PNG of its pixels, as large as it says, and the window is on it", twoSquares,
			shot(), field("mime", "image/png"), size, squares,
			check(func(r *run, c *suite.Call) string {
				if c.MIME != "image/png" || !bytes.HasPrefix(c.Blob, []byte("\x89PNG")) {
					return "the bytes are no PNG"
				}
				return ""
			})),
		b("screenshot.jpeg", "the same as JPEG, of a chosen quality", "a JPEG that is the smaller the lower the quality", twoSquares,
			shot(with("format", "jpeg", "quality", 90)), field("mime", "image/jpeg"), size, func(r *run) {
				high := len(r.Last().Blob)
				if !bytes.HasPrefix(r.Last().Blob, []byte("\xff\xd8")) {
					r.Fail("the bytes are no JPEG")
				}
				shot(with("format", "jpeg", "quality", 20))(r)
				if low := len(r.Last().Blob); low >= high {
					r.Fail("quality 20 has %d bytes and quality 90 %d", low, high)
				}
			}),
		b("screenshot.max-width", "an image of at most 400 pixels' width", "the whole display, smaller, and the frame says by how much",
			twoSquares,
			shot(with("max_width", 400)), size, squares, check(func(r *run, c *suite.Call) string {
				if w := suite.Number(c.Result, "width"); w > 400 || suite.Number(c.Result, "frame.width") < w {
					return suite.Brief(c.Result)
				}
				return ""
			})),
		b("screenshot.window", "one window", "its pixels only, in its size", twoSquares,
			shot(with("window", "{title}")), size, squares, check(func(r *run, c *suite.Call) string {
				w := *c
				call("snapshot", obj{})(r)
				e := r.entry("windows", "{title}")
				if e == nil || suite.Number(e, "bounds.width") != suite.Number(w.Result, "frame.width") ||
					suite.Number(e, "bounds.height") != suite.Number(w.Result, "frame.height") {
					return fmt.Sprintf("the image is of %s, and the window is %s", suite.Brief(w.Result["frame"]), suite.Brief(e))
				}
				return ""
			})),
		b("screenshot.region", "an area of the desktop", "exactly that area", twoSquares,
			aside, shot(), find("m", magenta), onDesktop("m", "at"), func(r *run) {
				x, y := r.vars["at.x"].(float64), r.vars["at.y"].(float64)
				shot(with("region", with("x", x-20, "y", y-15, "width", 40, "height", 30)))(r)
				if area, n := patch(suite.Picture(r), magenta); n != 40*30 || area != image.Rect(0, 0, 40, 30) {
					r.Fail("the area within the square has %d magenta pixels in %v, want all 1200", n, area)
				}
			}),
		b("screenshot.region-of-frame", "an area given in the pixels of a smaller image", "that area, in the desktop's own pixels", twoSquares,
			aside, shot(with("max_width", 320)), find("m", magenta), func(r *run) {
				x, y := r.vars["m.x"].(float64), r.vars["m.y"].(float64)
				shot(with("region", with("x", math.Floor(x)-2, "y", math.Floor(y)-2, "width", 4, "height", 4, "frame_id", r.vars["frame"])))(r)
				b := suite.Picture(r).Bounds()
				if _, n := patch(suite.Picture(r), magenta); n != b.Dx()*b.Dy() || b.Dx() < 4 {
					r.Fail("the area within the square has %d magenta pixels of %v", n, b)
				}
			}),
		b("screenshot.all", "all displays in one image", "an image around every display", twoSquares,
			shot(with("display", "all")), size, squares),
		b("screenshot.unchanged", "the caller has the last frame, and nothing changed", "unchanged, and no image; after a change, the image",
			twoSquares,
			becomes("new Promise(d => setTimeout(() => d(true), 300))", true), // the button's last shades of drawing
			shot(with("window", "{title}")), shot(with("window", "{title}", "if_changed_since", known("frame"))),
			func(r *run) {
				for range 20 { // something on the window may still be drawn
					if r.Last().Result["unchanged"] == true {
						break
					}
					shot(with("window", "{title}", "if_changed_since", known("frame")))(r)
				}
			},
			field("unchanged", true), check(func(r *run, c *suite.Call) string {
				if len(c.Blob) > 0 {
					return "there are bytes all the same"
				}
				return ""
			}),
			inPage("el('m').style.left = '140px'"),
			becomes("new Promise(d => requestAnimationFrame(() => requestAnimationFrame(() => d(true))))", true),
			soon(func(r *run) string {
				shot(with("window", "{title}", "if_changed_since", known("frame")))(r)
				if r.Last().Result["unchanged"] == true {
					return "a change in the window is not seen"
				}
				return ""
			}), find("m", magenta)),
		b("screenshot.cursor", "with the pointer's image", "the pointer is drawn where it is, and only when asked for (under Wayland, where a "+
			"compositor may draw it into everything: when asked for)", twoSquares,
			aside, shot(), find("m", magenta), func(r *run) {
				_, without := patch(suite.Picture(r), magenta)
				clickFrame(r)
				shot()(r)
				if _, n := patch(suite.Picture(r), magenta); n < without && !wayland() {
					r.Fail("the square has %d pixels with the pointer on it, though nobody asked for the pointer, and %d without", n, without)
				}
				shot(with("cursor", true))(r)
				if _, with := patch(suite.Picture(r), magenta); with >= without {
					r.Fail("the square has %d pixels with the pointer on it, and %d without", with, without)
				}
			}),
		b("screenshot.display-id", "a display by its ID, and one that is not there", "the image names its display; an unknown one is refused",
			twoSquares,
			shot(), keep("display", "frame.display"), shot(with("display", with("id", known("display")))), field("frame.display", known("display")),
			squares,
			func(r *run) {
				c := r.Made(r.Call("screenshot", with("display", with("id", "no such display"))))
				if c.Code == "" || c.Message == "" || c.Hint == "" {
					r.Fail("a display that is not there: %s", c.End())
				}
			}),
	}
}

func frames() []*behaviour {
	return []*behaviour{
		b("frame.click", "a click at a place in the image", "it comes to exactly that place", twoSquares, shot(), squaresStep, clickFrame,
			noField("unbound"), struck(1)),
		b("frame.click-scaled", "a click in a smaller image", "it comes to that place of the desktop, within a pixel of the image", twoSquares,
			shot(with("max_width", 500)), find("m", magenta), clickFrame, struck(4)),
		b("frame.click-cropped", "a click in the image of an area", "the area's place counts in", twoSquares,
			shot(), find("m", magenta), onDesktop("m", "at"), func(r *run) {
				x, y := r.vars["at.x"].(float64), r.vars["at.y"].(float64)
				shot(with("region", with("x", max(x-90, 0), "y", max(y-70, 0), "width", 200, "height", 160)))(r)
			}, find("m", magenta), clickFrame, struck(1)),
		b("frame.click-window", "a click in the image of a window", "the window's place counts in", twoSquares,
			shot(with("window", "{title}")), find("m", magenta), clickFrame, struck(1)),
		b("frame.unknown", "a click that quotes an image nobody took", "stale_frame, and nothing is clicked", twoSquares,
			refused(capabilities.CodeStaleFrame, "mouse", with("action", "click", "x", 100, "y", 100, "frame_id", "f0-none")),
			holds("had('mousedown')", 0)),
		b("frame.outside", "a click outside of the image it quotes", "outside_desktop, and nothing is clicked", twoSquares,
			shot(with("max_width", 300)),
			refused(capabilities.CodeOutsideDesktop, "mouse", with("action", "click", "x", 301, "y", 10, "frame_id", known("frame"))),
			holds("had('mousedown')", 0)),
		b("frame.unbound", "a click without a frame", "pixels of the whole desktop, and the result says unbound", twoSquares,
			shot(), find("m", magenta), onDesktop("m", "at"),
			call("mouse", with("action", "click", "x", known("at.x"), "y", known("at.y"))), field("unbound", true), struck(1)),
		b("frame.layout-changed", "the displays are arranged anew after the image", "stale_frame, and nothing is clicked; a new image works",
			twoSquares, needsLayout,
			shot(), find("m", magenta), func(r *run) {
				undo, err := r.s.o.Relayout(r.ctx)
				if err != nil {
					r.Fail("%v", err)
				}
				defer undo()
				soon(func(r *run) string { // the server tells of it in its own time
					c := r.Made(r.Call("mouse", with("action", "move", "x", r.vars["m.x"], "y", r.vars["m.y"], "frame_id", r.vars["frame"])))
					if c.Code != capabilities.CodeStaleFrame {
						return "after a new layout: " + c.End()
					}
					return ""
				})(r)
				refused(capabilities.CodeStaleFrame,
					"mouse", with("action", "click", "x", known("m.x"), "y", known("m.y"), "frame_id", known("frame")))(r)
				holds("had('mousedown')", 0)(r)
				shot(with("display", "all"))(r)
				find("m", magenta)(r)
				clickFrame(r)
				struck(1)(r)
			}),
	}
}

var squaresStep = step(squares)
