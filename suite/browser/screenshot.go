package browser

import (
	"fmt"
	"image"

	"github.com/handrail-dev/handrail/suite"
)

// screenshots: pictures whose points are looked at.
func screenshots() []*behaviour {
	p := file("screenshot.squares.html")
	shot := func(args obj) step { return call("screenshot", args) }
	// color tells near colours apart from others: jpeg is not exact.
	color := func(img image.Image, x, y int) string {
		r, g, b, _ := img.At(img.Bounds().Min.X+x, img.Bounds().Min.Y+y).RGBA()
		word := func(on uint32) string {
			if on > 0xc000 {
				return "1"
			}
			return "0"
		}
		return word(r) + word(g) + word(b)
	}
	const red, blue, white = "100", "001", "111"
	is := func(x, y int, want string) step {
		return picture(func(img image.Image) string {
			if got := color(img, x, y); got != want {
				return fmt.Sprintf("the point %d,%d is %s, want %s", x, y, got, want)
			}
			return ""
		})
	}
	sized := func(w, h int) step {
		return picture(func(img image.Image) string {
			if got := img.Bounds().Size(); got.X != w || got.Y != h {
				return fmt.Sprintf("it is %dx%d, want %dx%d", got.X, got.Y, w, h)
			}
			return ""
		})
	}
	kind := func(want string) step {
		return check(func(_ *run, c *suite.Call) string {
			if c.MIME != want {
				return "it is " + c.MIME
			}
			return ""
		})
	}
	top := holds(`scrollY`, 0)
	return []*behaviour{
		b("screenshot.viewport", "what is visible", "the picture shows it in the window's size", p,
			call("resize", with("width", 640, "height", 480)), shot(nil), kind("image/png"), sized(640, 480), is(25, 25, blue), is(300, 300, white),
			holds(`[innerWidth, innerHeight]`, []int{640, 480})),
		b("screenshot.full-page", "the whole page", "what is below is in it", p, shot(with("full_page", true)), is(70, 1515, red),
			is(25, 25, blue), top),
		b("screenshot.element", "one element far below", "the picture is it and nothing else", p, shot(with("selector", "#d")), sized(60, 30),
			is(1, 1, red), is(58, 28, red), holds(`(r=>[r.width,r.height])(d.getBoundingClientRect())`, []int{60, 30})),
		b("screenshot.element-ref", "one element by ref", "the picture is it", file("screenshot.element-ref.html"), shot(with("ref", at{`"R"`})),
			sized(80, 40), is(5, 5, red), holds(`x.offsetWidth`, 80)),
		b("screenshot.clip", "a part by coordinates", "the picture is that part", p,
			shot(with("clip", with("x", 30, "y", 30, "width", 40, "height", 40))), sized(40, 40), is(5, 5, blue), is(35, 35, white), top),
		b("screenshot.scale", "half the size", "the picture is half as large", p, call("resize", with("width", 600, "height", 400)),
			shot(with("scale", 0.5)), sized(300, 200), is(10, 10, blue), holds(`innerWidth`, 600)),
		b("screenshot.jpeg", "jpeg", "it is one, and smaller with less quality", p, shot(with("format", "jpeg", "quality", 90)),
			kind("image/jpeg"), is(25, 25, blue), top),
		b("screenshot.webp", "webp", "it is one", p, shot(with("format", "webp")), kind("image/webp"), check(func(_ *run, c *suite.Call) string {
			if len(c.Blob) < 12 || string(c.Blob[8:12]) != "WEBP" {
				return "the bytes are no webp"
			}
			return ""
		}), top),
		b("screenshot.annotated", "refs drawn on it", "the legend's refs press what is shown", file("screenshot.annotated.html"),
			shot(with("annotate", true)), among("legend", "button", "Mark me"), func(r *run) {
				list, _ := suite.Pick(r.Last().Result, "legend").([]any)
				for _, x := range list {
					if name, _ := suite.Pick(x, "name").(string); name == "Mark me" {
						r.refs["m"], _ = suite.Pick(x, "ref").(string)
					}
				}
			}, call("click", with("ref", known("m"))), holds(`document.title`, "pressed")),
		b("screenshot.annotation-gone", "after an annotated picture", "the page has no trace of it", html(`<button id=x>B</button>`),
			holds(`before=document.documentElement.outerHTML, 1`, 1), shot(with("annotate", true)),
			holds(`document.documentElement.outerHTML==before`, true)),
		b("screenshot.retina", "a screen of twice the points", "the element is sharp: twice as large",
			html(`<div id=d style="position:absolute;left:0;top:0;width:50px;height:20px;background:red"></div>`),
			call("resize", with("width", 400, "height", 300, "device_scale_factor", 2)), shot(with("selector", "#d")), is(1, 1, red),
			holds(`devicePixelRatio`, 2)),
		b("screenshot.missing", "an element that is not there", "refused", p,
			refused("element_not_found", "screenshot", with("selector", "#nope")), top),
		b("screenshot.scroll-kept", "a page that was scrolled", "taking a picture of it all leaves it there", p,
			holds(`scrollTo(0,700), scrollY`, 700), shot(with("full_page", true)), holds(`scrollY`, 700)),
		b("screenshot.huge", "a page of fourteen thousand points", "the picture is cut and says where the rest begins, which a clip gives",
			html(`<style>body{margin:0}</style><div style="height:14000px;background:linear-gradient(red 13000px,blue 13000px)"></div>`),
			call("resize", with("width", 400, "height", 300)), shot(with("full_page", true, "format", "jpeg")), sized(400, 8000), is(5, 7996, red),
			field("left_out.y", 8000), field("left_out.height", 6000),
			shot(with("full_page", true, "format", "jpeg", "clip", with("x", 0, "y", 8000, "width", 400, "height", 6000))), sized(400, 6000),
			is(5, 4980, red), is(5, 5020, blue), without("left_out"), top),
		b("screenshot.dialog", "a dialog is open", "refused at once with the dialog's text; once it is answered there is a picture",
			html(`<button id=x onclick="alert('In the way');document.title='after'">A</button>`), call("click", with("selector", "#x")),
			refused("dialog_open", "screenshot", nil, "In the way"), call("handle-dialog", with("accept", true)), shot(nil), kind("image/png"),
			becomes(`document.title`, "after")),
		b("screenshot.frame", "a frame of another origin", "it is in the picture", file("screenshot.frame.html"),
			page{"in", `<style>body{margin:0;background:#f00}</style>`}, shot(nil), is(100, 50, red), served("in", "B")),
	}
}
