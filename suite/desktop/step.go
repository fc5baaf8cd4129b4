package desktop

import (
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/suite"
)

// The words that behaviours are written in: those of every suite, and the desktop's
// own. A step that finds that the desktop lacks something ends the behaviour by a lack.
type (
	step = suite.Step[*run]
	obj  = suite.Args
)

var (
	with      = suite.With
	call      = suite.Does[*run]
	refused   = suite.Refused[*run]
	field     = suite.Field[*run]
	without   = suite.Without[*run]
	among     = suite.Among[*run]
	effect    = suite.Effect[*run]
	check     = suite.Check[*run]
	meanwhile = suite.Meanwhile[*run]
)

type (
	failure struct{ text string }
	lack    struct{ text string }
)

// Fail ends the behaviour.
func (r *run) Fail(format string, args ...any) { panic(failure{fmt.Sprintf(format, args...)}) }

// patience bounds what a step waits for by itself; it is never what is measured.
const patience = 45 * time.Second

// known stands in arguments for what a step before has kept.
type known string

// act is a call of act on a selector.
func act(target, kind string, more ...obj) step { return call("act", action(target, kind, more...)) }

// action returns the arguments of act.
func action(target, kind string, more ...obj) obj {
	do := with("kind", kind)
	for _, m := range more {
		for k, v := range m {
			do[k] = v
		}
	}
	args := with("action", do)
	if target != "" {
		args["target"] = target
	}
	return args
}

// in is a selector for something in the window that talks back.
func in(selector string) string { return `window:"{title}" >> ` + selector }

// Beside is the same run for steps that go on beside its own.
func (r *run) Beside() *run {
	aside := *r
	aside.aside = true
	return &aside
}

// Call makes one call with what its arguments stand for filled in.
func (r *run) Call(tool string, args obj) *suite.Call {
	filled, _ := r.Fill(args).(map[string]any)
	ctx, cancel := context.WithTimeout(r.ctx, 60*time.Second)
	defer cancel()
	c, err := r.s.lane.Call(ctx, tool, filled)
	if err != nil {
		r.Fail("%s %s: %v", tool, suite.Brief(filled), err)
	}
	if !r.aside {
		r.calls = append(r.calls, c)
	}
	return c
}

// fill puts what was kept into a text, as in "{title}".
func (r *run) fill(s string) string {
	if !strings.Contains(s, "{") {
		return s
	}
	for name, v := range r.vars {
		s = strings.ReplaceAll(s, "{"+name+"}", fmt.Sprint(v))
	}
	return s
}

// Fill puts what was kept into texts, and in the place of what stands for it.
func (r *run) Fill(v any) any {
	return suite.FillAll(v, func(v any) any {
		switch x := v.(type) {
		case string:
			return r.fill(x)
		case known:
			kept, ok := r.vars[string(x)]
			if !ok {
				r.Fail("nothing was kept as %q", string(x))
			}
			return kept
		}
		return v
	})
}

// entry finds the entry of a list whose JSON holds all the words.
func (r *run) entry(path string, words ...string) map[string]any {
	x, _ := suite.Entry(r, path, words...)
	m, _ := x.(map[string]any)
	return m
}

// keep stores a field of the last result.
func keep(name, path string) step {
	return func(r *run) {
		v := suite.Pick(r.Last().Result, path)
		if v == nil {
			r.Fail("%s has no %s: %s", r.Last().Tool, path, suite.Brief(r.Last().Result))
		}
		r.vars[name] = v
	}
}

// noField wants a field not to be there, or a text not to hold words.
func noField(path string, words ...string) step {
	return func(r *run) {
		got := suite.Pick(r.Last().Result, path)
		if len(words) == 0 && got != nil {
			r.Fail("%s of %s is %s, and should not be there", path, r.Last().Tool, suite.Brief(got))
		}
		for _, w := range words {
			if text, _ := json.Marshal(got); strings.Contains(string(text), r.fill(w)) {
				r.Fail("%s of %s holds %q: %s", path, r.Last().Tool, r.fill(w), capabilities.Brief(string(text), 1500))
			}
		}
	}
}

// The colours that the pages' squares have, and nothing else on a desktop.
var (
	magenta = color.RGBA{255, 0, 255, 255}
	lime    = color.RGBA{0, 255, 0, 255}
)

// patch returns the smallest area of an image that holds all pixels of a colour.
func patch(img image.Image, c color.RGBA) (area image.Rectangle, pixels int) {
	for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y++ {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x++ {
			R, G, B, _ := img.At(x, y).RGBA()
			if far(R, c.R)+far(G, c.G)+far(B, c.B) < 60 {
				area = area.Union(image.Rect(x, y, x+1, y+1))
				pixels++
			}
		}
	}
	return area, pixels
}

func far(a uint32, b uint8) int { return max(int(a>>8)-int(b), int(b)-int(a>>8)) }

// find wants a square of that colour in the last image and keeps its middle, in
// pixels of the image, as {name.x} and {name.y}, and its size.
func find(name string, c color.RGBA) step {
	return func(r *run) {
		var area image.Rectangle
		soon(func(r *run) string {
			var n int
			if area, n = patch(suite.Picture(r), c); n >= 20 {
				return ""
			}
			// A layout that a browser has made may not be on the screen yet.
			wrong := fmt.Sprintf("the image shows no %s square (%v)", name, suite.Picture(r).Bounds())
			call(r.Last().Tool, r.Last().Args)(r)
			if id, ok := r.Last().Result["frame_id"].(string); ok {
				r.vars["frame"] = id
			}
			return wrong
		})(r)
		r.vars[name+".x"], r.vars[name+".y"] = float64(area.Min.X+area.Max.X)/2, float64(area.Min.Y+area.Max.Y)/2
		r.vars[name+".width"], r.vars[name+".height"] = float64(area.Dx()), float64(area.Dy())
		r.vars[name+".left"], r.vars[name+".top"] = float64(area.Min.X), float64(area.Min.Y)
	}
}

// onDesktop turns a kept place of the last image into one of the desktop.
func onDesktop(name, as string) step {
	return func(r *run) {
		f, _ := r.Last().Result["frame"].(map[string]any)
		for axis, size := range map[string]string{"x": "width", "y": "height"} {
			at, _ := r.vars[name+"."+axis].(float64)
			r.vars[as+"."+axis] = float64(int(suite.Number(f, axis) + at*suite.Number(f, size)/suite.Number(f, "image_"+size)))
		}
	}
}

// soon waits until look finds nothing wrong.
func soon(look func(r *run) string) step {
	return func(r *run) {
		for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			wrong := look(r)
			if wrong == "" {
				return
			}
			if time.Now().After(deadline) || r.ctx.Err() != nil {
				r.Fail("%s", wrong)
			}
		}
	}
}
