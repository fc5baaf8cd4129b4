package desktop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	_ "image/jpeg" // screenshots
	_ "image/png"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/test/capability"
)

// The words that behaviours are written in. A step that does not find what it
// wants ends the behaviour by a failure, which run catches; one that finds that
// the desktop lacks something, by a lack.
type step func(r *run)

type obj = map[string]any

// with makes arguments of names and values. Literal maps would be filled name by
// name in each of hundreds of places, which costs 60 KB of the binary.
func with(pairs ...any) obj {
	o := make(obj, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		o[pairs[i].(string)] = pairs[i+1]
	}
	return o
}

type (
	failure struct{ text string }
	lack    struct{ text string }
)

func (r *run) fail(format string, args ...any) { panic(failure{fmt.Sprintf(format, args...)}) }

// patience bounds what a step waits for by itself; it is never what is measured.
const patience = 45 * time.Second

// known stands in arguments for what a step before has kept.
type known string

// call makes a call that has to succeed.
func call(tool string, args obj) step {
	return func(r *run) {
		if c := r.made(r.call(tool, args)); c.Code != "" {
			r.fail("%s %s was refused: %s: %s", tool, brief(c.Args), c.Code, c.Message)
		}
	}
}

// refused makes a call that has to fail with that code and say those words.
func refused(code capabilities.Code, tool string, args obj, words ...string) step {
	return func(r *run) { r.refusal(r.made(r.call(tool, args)), code, words...) }
}

// refusal wants c to have failed with that code and say those words.
func (r *run) refusal(c *capability.Call, code capabilities.Code, words ...string) {
	if c.Code != code {
		r.fail("%s %s: got %s, want %s", c.Tool, brief(c.Args), end(c), code)
	}
	if c.Message == "" || c.Hint == "" {
		r.fail("%s: %s without a message or a hint", c.Tool, code)
	}
	for _, w := range words {
		if w = r.fill(w); !strings.Contains(c.Message+" "+c.Hint, w) {
			r.fail("%s: the refusal %q does not say %q", c.Tool, c.Message+" "+c.Hint, w)
		}
	}
}

// act is a call of act on a selector.
func act(target, kind string, more ...obj) step { return call("act", action(target, kind, more...)) }

// action gives the arguments of act.
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

// made makes c the last call, which the steps behind it look at.
func (r *run) made(c *capability.Call) *capability.Call {
	r.last = c
	return c
}

// end says how a call ended.
func end(c *capability.Call) string {
	if c.Code == "" {
		return "a result " + brief(c.Result)
	}
	return string(c.Code) + " (" + c.Message + ")"
}

// call makes one call with what its arguments stand for filled in.
func (r *run) call(tool string, args obj) *capability.Call {
	filled, _ := r.fillAll(args).(map[string]any)
	ctx, cancel := context.WithTimeout(r.ctx, 60*time.Second)
	defer cancel()
	c, err := r.s.lane.Call(ctx, tool, filled)
	if err != nil {
		r.fail("%s %s: %v", tool, brief(filled), err)
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

func (r *run) fillAll(v any) any {
	switch x := v.(type) {
	case string:
		return r.fill(x)
	case known:
		kept, ok := r.vars[string(x)]
		if !ok {
			r.fail("nothing was kept as %q", string(x))
		}
		return kept
	case map[string]any:
		filled := make(map[string]any, len(x))
		for k, v := range x {
			filled[k] = r.fillAll(v)
		}
		return filled
	case []any:
		filled := make([]any, len(x))
		for i, v := range x {
			filled[i] = r.fillAll(v)
		}
		return filled
	}
	return v
}

// keep stores a field of the last result.
func keep(name, path string) step {
	return func(r *run) {
		v := pick(r.last.Result, path)
		if v == nil {
			r.fail("%s has no %s: %s", r.last.Tool, path, brief(r.last.Result))
		}
		r.vars[name] = v
	}
}

// field wants a field of the last result. Of strings, want is a part.
func field(path string, want any) step {
	return func(r *run) {
		got := pick(r.last.Result, path)
		text, isText := got.(string)
		part, partWanted := want.(string)
		if isText && partWanted {
			if !strings.Contains(text, r.fill(part)) {
				r.fail("%s of %s is %q, which does not hold %q", path, r.last.Tool, clip(text, 1500), r.fill(part))
			}
			return
		}
		g, _ := json.Marshal(got)
		w, _ := json.Marshal(r.fillAll(want))
		if !bytes.Equal(g, w) {
			r.fail("%s of %s is %s, want %s", path, r.last.Tool, clip(string(g), 600), w)
		}
	}
}

// noField wants a field not to be there, or a text not to hold words.
func noField(path string, words ...string) step {
	return func(r *run) {
		got := pick(r.last.Result, path)
		if len(words) == 0 && got != nil {
			r.fail("%s of %s is %s, and should not be there", path, r.last.Tool, brief(got))
		}
		for _, w := range words {
			if text, _ := json.Marshal(got); strings.Contains(string(text), r.fill(w)) {
				r.fail("%s of %s holds %q: %s", path, r.last.Tool, r.fill(w), clip(string(text), 1500))
			}
		}
	}
}

// without wants text to be nowhere in the last answer.
func without(text string) step {
	return func(r *run) {
		c := r.last
		if all, _ := json.Marshal([]any{c.Result, c.Evidence, c.Message, c.Hint}); strings.Contains(string(all), text) {
			r.fail("%s tells %q: %s", c.Tool, text, clip(string(all), 600))
		}
	}
}

// effect wants what the last call claims of its effect.
func effect(want ...capabilities.Effect) step {
	return func(r *run) {
		for _, w := range want {
			if r.last.Effect == w {
				return
			}
		}
		r.fail("%s claims the effect %q (%s), want %q", r.last.Tool, r.last.Effect, r.last.Evidence, want)
	}
}

// check is any other look at the last call; it says what is wrong.
func check(look func(r *run, c *capability.Call) string) step {
	return func(r *run) {
		if wrong := look(r, r.last); wrong != "" {
			r.fail("%s: %s", r.last.Tool, wrong)
		}
	}
}

// entry finds the entry of a list whose JSON holds all the words.
func (r *run) entry(path string, words ...string) map[string]any {
	list, _ := pick(r.last.Result, path).([]any)
	for _, x := range list {
		text, _ := json.Marshal(x)
		holds := true
		for _, w := range words {
			holds = holds && strings.Contains(string(text), r.fill(w))
		}
		if m, ok := x.(map[string]any); ok && holds {
			return m
		}
	}
	return nil
}

// among wants one entry of a list in the last result to hold all the words.
func among(path string, words ...string) step {
	return func(r *run) {
		if r.entry(path, words...) == nil {
			r.fail("no entry of %s has %q: %s", path, words, clip(brief(pick(r.last.Result, path)), 2000))
		}
	}
}

// notAmong wants no entry to hold them all.
func notAmong(path string, words ...string) step {
	return func(r *run) {
		if e := r.entry(path, words...); e != nil {
			r.fail("an entry of %s has %q: %s", path, words, brief(e))
		}
	}
}

// meanwhile makes a call, and the steps while it runs; its end is judged by the
// first step.
func meanwhile(first step, steps ...step) step {
	return func(r *run) {
		aside := *r // with a last call of its own
		aside.aside = true
		done := make(chan any, 1)
		go func() {
			defer func() { done <- recover() }()
			first(&aside)
		}()
		failed := func() (p any) {
			defer func() { p = recover() }()
			for _, s := range steps {
				s(r)
			}
			return nil
		}()
		p := <-done
		r.last = aside.last
		for _, p := range []any{p, failed} {
			if p != nil {
				panic(p)
			}
		}
	}
}

// pick follows a path through decoded JSON.
func pick(v any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[name]
		case []any:
			if name == "length" {
				v = float64(len(x))
				break
			}
			var i int
			if _, err := fmt.Sscan(name, &i); err != nil || i < 0 || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

// number reads a number from decoded JSON, 0 if there is none.
func number(v any, path string) float64 {
	n, _ := pick(v, path).(float64)
	return n
}

// picture decodes the image of the last call.
func (r *run) picture() image.Image {
	img, _, err := image.Decode(bytes.NewReader(r.last.Blob))
	if err != nil {
		r.fail("%s gave no readable image: %v", r.last.Tool, err)
	}
	return img
}

// The colours that the pages' squares have, and nothing else on a desktop.
var (
	magenta = color.RGBA{255, 0, 255, 255}
	lime    = color.RGBA{0, 255, 0, 255}
)

// patch gives the smallest area of an image that holds all pixels of a colour.
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
			if area, n = patch(r.picture(), c); n >= 20 {
				return ""
			}
			// What a browser has laid out may not be on the screen yet.
			wrong := fmt.Sprintf("the image shows no %s square (%v)", name, r.picture().Bounds())
			call(r.last.Tool, r.last.Args)(r)
			if id, ok := r.last.Result["frame_id"].(string); ok {
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
		f, _ := r.last.Result["frame"].(map[string]any)
		for axis, size := range map[string]string{"x": "width", "y": "height"} {
			at, _ := r.vars[name+"."+axis].(float64)
			r.vars[as+"."+axis] = float64(int(number(f, axis) + at*number(f, size)/number(f, "image_"+size)))
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
				r.fail("%s", wrong)
			}
		}
	}
}

func brief(v any) string {
	text, _ := json.Marshal(v)
	return clip(strings.NewReplacer(`\u0026`, "&", `\u003c`, "<", `\u003e`, ">").Replace(string(text)), 400)
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
