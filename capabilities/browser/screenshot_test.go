//go:build linux

package browser

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// picture decodes what a screenshot gave.
func (n *node) picture(args obj) (image.Image, answer) {
	n.t.Helper()
	a := n.must("screenshot", args)
	p, _, err := image.Decode(bytes.NewReader(a.Blobs[0].Bytes))
	if err != nil {
		n.t.Fatal(err)
	}
	if p.Bounds().Dx() != int(a.m["width"].(float64)) || p.Bounds().Dy() != int(a.m["height"].(float64)) {
		n.t.Errorf("%v: %v, but the result says %s", args, p.Bounds(), a.json)
	}
	return p, a
}

func near(c color.Color, r, g, b uint32) bool {
	x, y, z, _ := c.RGBA()
	d := func(a, b uint32) bool { return a>>8 < b+12 && b < a>>8+12 }
	return d(x, r) && d(y, g) && d(z, b)
}

func TestScreenshotParts(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<style>body{margin:0;width:2000px;height:3000px;background:#fff}div{position:absolute}</style>
<div style="left:100px;top:50px;width:200px;height:100px;background:#f00"></div><div id=blue style="left:1500px;top:2500px;width:40px;height:30px;background:#00f"></div>
<iframe id=fr style="position:absolute;left:300px;top:300px;width:200px;height:100px;border:10px solid #000" srcdoc="<style>body{margin:0}</style><p id=in style='margin:20px;width:50px;height:25px;background:#0f0'></p>"></iframe>`)})
	n := newNode(t, s.URL)
	n.must("resize", obj{"width": 800, "height": 600})
	n.goTo(s.URL + "/")
	whole, a := n.picture(obj{})
	if whole.Bounds() != image.Rect(0, 0, 800, 600) || !near(whole.At(150, 100), 255, 0, 0) || a.m["url"] != s.URL+"/" {
		t.Errorf("viewport: %v %s", whole.Bounds(), a.json)
	}
	clipped, _ := n.picture(obj{"clip": obj{"x": 90, "y": 40, "width": 50, "height": 30}})
	if clipped.Bounds() != image.Rect(0, 0, 50, 30) || !near(clipped.At(5, 5), 255, 255, 255) || !near(clipped.At(15, 15), 255, 0, 0) {
		t.Errorf("clip: %v", clipped.Bounds())
	}
	n.eval("scrollTo(0, 40)")
	if p, _ := n.picture(obj{"clip": obj{"x": 90, "y": 0, "width": 50, "height": 30}}); !near(p.At(15, 15), 255, 0, 0) || !near(p.At(5, 15), 255, 255, 255) {
		t.Error("a clip is not in the coordinates of the viewport")
	}
	if p, _ := n.picture(obj{"scale": 0.5}); p.Bounds() != image.Rect(0, 0, 400, 300) || !near(p.At(75, 30), 255, 0, 0) {
		t.Errorf("half: %v", p.Bounds())
	}
	if p, _ := n.picture(obj{"clip": obj{"x": 100, "y": 20, "width": 50, "height": 30}, "scale": 2}); p.Bounds() != image.Rect(0, 0, 100, 60) || !near(p.At(50, 30), 255, 0, 0) {
		t.Errorf("double: %v", p.Bounds())
	}
	full, _ := n.picture(obj{"full_page": true, "format": "jpeg"})
	if full.Bounds() != image.Rect(0, 0, 2000, 3000) || !near(full.At(1520, 2515), 0, 0, 255) || !near(full.At(150, 100), 255, 0, 0) {
		t.Errorf("full page: %v", full.Bounds())
	}
	if p, _ := n.picture(obj{"full_page": true, "clip": obj{"x": 1500, "y": 2500, "width": 40, "height": 30}}); !near(p.At(20, 15), 0, 0, 255) {
		t.Error("a clip of the full page is not in its coordinates")
	}
	if p, _ := n.picture(obj{"selector": "#blue"}); p.Bounds() != image.Rect(0, 0, 40, 30) || !near(p.At(1, 1), 0, 0, 255) || !near(p.At(38, 28), 0, 0, 255) {
		t.Errorf("element: %v", p.Bounds())
	}
	if p, _ := n.picture(obj{"selector": "#in"}); p.Bounds() != image.Rect(0, 0, 50, 25) || !near(p.At(1, 1), 0, 255, 0) || !near(p.At(48, 23), 0, 255, 0) {
		t.Errorf("element in a frame: %v", p.Bounds())
	}
	webp := n.must("screenshot", obj{"format": "webp"})
	if webp.m["width"] != 800.0 || webp.m["height"] != 600.0 || webp.Blobs[0].MIME != "image/webp" || string(webp.Blobs[0].Bytes[8:12]) != "WEBP" {
		t.Errorf("webp: %s", webp.json)
	}
	n.refused(capabilities.CodeInvalidArguments, "screenshot", obj{"clip": obj{"x": 900, "y": 0, "width": 10, "height": 10}})
	n.refused(capabilities.CodeInvalidArguments, "screenshot", obj{"annotate": true, "format": "webp"})
}

// A page too long for one image comes in parts: each says where the next begins.
func TestLongPageComesInParts(t *testing.T) { longPageInParts(t, 400) }

func TestLongPageComesInPartsAtLength(t *testing.T) { longPageInParts(t, 2000) }

// longPageInParts takes pictures of a page that is so wide, and as high as five of them.
func longPageInParts(t *testing.T, width int) {
	t.Parallel()
	blue := width * 3 / 4
	s := newSite(t, map[string]string{"/": html(fmt.Sprintf(`<style>body{margin:0;width:%dpx;height:40000px;background:#fff}div{position:absolute}</style>
<div style="left:100px;top:50px;width:200px;height:100px;background:#f00"></div><div style="left:%dpx;top:39000px;width:40px;height:30px;background:#00f"></div>`, width, blue))})
	n := newNode(t, s.URL)
	n.must("resize", obj{"width": min(width, 800), "height": 600})
	n.goTo(s.URL + "/")
	if p, a := n.picture(obj{"selector": "body"}); p.Bounds() != image.Rect(0, 0, width/5, 8000) || a.m["scale"] != 0.2 {
		t.Errorf("an element too long for one image: %v %s", p.Bounds(), a.json)
	}
	y, parts := 0.0, 0
	for left := 40000.0; left > 0; parts++ {
		args := obj{"full_page": true, "format": "jpeg"}
		if y > 0 {
			args["clip"] = obj{"x": 0, "y": y, "width": width, "height": left}
		}
		p, a := n.picture(args)
		if h := float64(p.Bounds().Dy()); h != min(left, 8000) || p.Bounds().Dx() != width {
			t.Fatalf("part %d: %v of %v", parts, p.Bounds(), left)
		}
		if at := 39010 - int(y); at < p.Bounds().Dy() && !near(p.At(blue+10, at), 0, 0, 255) || y == 0 && !near(p.At(150, 100), 255, 0, 0) {
			t.Errorf("part %d shows something else", parts)
		}
		rest, more := a.m["left_out"].(obj)
		if left -= float64(p.Bounds().Dy()); !more {
			if left > 0 {
				t.Fatalf("part %d: nothing is said of %v more: %s", parts, left, a.json)
			}
			break
		}
		if y += float64(p.Bounds().Dy()); rest["y"] != y || rest["height"] != left {
			t.Fatalf("part %d: %v is left out, want %v from %v on", parts, rest, left, y)
		}
	}
	if parts != 4 {
		t.Errorf("%d parts have more behind them", parts)
	}
	if p, a := n.picture(obj{"full_page": true, "scale": 0.2, "format": "jpeg"}); p.Bounds() != image.Rect(0, 0, width/5, 8000) || a.m["left_out"] != nil {
		t.Errorf("a long page at a smaller scale: %v", p.Bounds())
	}
}

// A frame in another process is asked whether it was shown once for each of its
// documents, and not before each picture.
func TestFramesArePaintedOnce(t *testing.T) {
	t.Parallel()
	other := newSite(t, map[string]string{"/": html(`<style>body{background:#00f}</style><p>foreign`), "/2": html(`<style>body{background:#0f0}</style><p>another`)})
	foreign := elsewhere(other)
	s := newSite(t, map[string]string{"/": html(`<style>body{margin:0}iframe{border:0}</style><iframe id=f src="` + foreign + `/"></iframe>`)})
	n := newNode(t, s.URL, other.URL, foreign)
	n.goTo(s.URL + "/")
	n.matched(true, obj{"text": "foreign"})
	unpainted := func() int { return len(n.tabOf().unpainted()) }
	if p, _ := n.picture(obj{}); !near(p.At(100, 100), 0, 0, 255) || unpainted() != 0 {
		t.Errorf("%v; %d frames would be asked again", p.At(100, 100), unpainted())
	}
	n.eval(`f.src += '2'; 1`)
	n.matched(true, obj{"text": "another"})
	if unpainted() != 1 {
		t.Errorf("%d frames are asked although one has a new document", unpainted())
	}
	if p, _ := n.picture(obj{}); !near(p.At(100, 100), 0, 255, 0) || unpainted() != 0 {
		t.Errorf("%v; %d frames would be asked again", p.At(100, 100), unpainted())
	}
}

func TestScreenshotAnnotated(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<style>body{margin:0;background:#fff}</style><button style="position:absolute;left:100px;top:100px;width:120px;height:40px;border:0;background:#eee"></button>
<a href=/x style="position:absolute;left:300px;top:100px;width:50px;height:20px">Link</a><iframe style="position:absolute;left:50px;top:200px;width:200px;height:100px;border:0" srcdoc="<style>body{margin:0}</style><button style='width:80px;height:30px'>Inner</button>"></iframe>`)})
	n := newNode(t, s.URL)
	n.must("resize", obj{"width": 600, "height": 400, "device_scale_factor": 2})
	n.goTo(s.URL + "/")
	before := n.eval("document.documentElement.outerHTML")
	p, a := n.picture(obj{"annotate": true})
	legend := a.m["legend"].([]any)
	if len(legend) != 3 || p.Bounds() != image.Rect(0, 0, 1200, 800) {
		t.Fatalf("%v %s", p.Bounds(), a.json)
	}
	// The frame of the first is drawn, in two picture pixels; its inside is not.
	for _, at := range []image.Point{{200, 240}, {439, 240}, {300, 279}} {
		if near(p.At(at.X, at.Y), 238, 238, 238) || near(p.At(at.X, at.Y), 255, 255, 255) {
			t.Errorf("no line at %v: %v", at, p.At(at.X, at.Y))
		}
	}
	if !near(p.At(300, 240), 238, 238, 238) {
		t.Errorf("the inside is drawn over: %v", p.At(300, 240))
	}
	// A ref of the legend works.
	for _, e := range legend {
		if e := e.(obj); e["name"] == "Link" {
			n.must("click", obj{"ref": e["ref"]})
		}
	}
	n.must("navigate-back", obj{})
	if after := n.eval("document.documentElement.outerHTML"); after != before {
		t.Error("the page was touched")
	}
	if q, _ := n.picture(obj{"annotate": true, "format": "jpeg", "clip": obj{"x": 290, "y": 80, "width": 100, "height": 60}}); q.Bounds() != image.Rect(0, 0, 200, 120) || near(q.At(20, 60), 255, 255, 255) {
		t.Errorf("annotated clip: %v %v", q.Bounds(), q.At(20, 60))
	}
	if dir := os.Getenv("BROWSER_TEST_PICTURES"); dir != "" {
		os.WriteFile(dir+"/annotated.png", a.Blobs[0].Bytes, 0o600)
	}
}

// legible reports whether a label stands whole in a picture: dots of one ink, and the
// ref in white. taken are the places of those found before, the longer ones first.
func legible(p *image.RGBA, ref string, unit int, taken map[image.Point]bool) bool {
	size := labelSize(ref, unit)
	want := image.NewRGBA(image.Rectangle{Max: size})
	letters(want, image.Pt(unit, unit), ref, unit)
	white := color.RGBA{255, 255, 255, 255}
	for y := range p.Rect.Dy() - size.Y + 1 {
	next:
		for x := range p.Rect.Dx() - size.X + 1 {
			ink := p.RGBAAt(x, y)
			if ink == white || taken[image.Pt(x, y)] {
				continue
			}
			for i := range size.X * size.Y {
				is := p.RGBAAt(x+i%size.X, y+i/size.X)
				if letter := want.RGBAAt(i%size.X, i/size.X).A != 0; letter && is != white || !letter && is != ink {
					continue next
				}
			}
			taken[image.Pt(x, y)] = true
			return true
		}
	}
	return false
}

// Every label can be read where there is room for it, in a small picture of a crowded
// page, too.
func TestLabelsDoNotOverlap(t *testing.T) {
	t.Parallel()
	page := `<style>body{margin:0;background:#fff;font-size:14px}</style>`
	for i := range 80 {
		page += `<a href=#` + strconv.Itoa(i) + `>Link ` + strconv.Itoa(i) + `</a> `
	}
	page += `<table>` + strings.Repeat(`<tr><td><button>Edit</button><td><input type=checkbox><input type=radio><td><a href=#x>x</a> <a href=#y>y</a></tr>`, 10) + `</table>`
	s := newSite(t, map[string]string{"/": html(page)})
	n := newNode(t, s.URL)
	n.must("resize", obj{"width": 1000, "height": 700})
	n.goTo(s.URL + "/")
	for _, scale := range []float64{0.5, 1} {
		p, a := n.picture(obj{"annotate": true, "scale": scale})
		if dir := os.Getenv("BROWSER_TEST_PICTURES"); dir != "" {
			os.WriteFile(fmt.Sprintf("%s/crowded-%v.png", dir, scale), a.Blobs[0].Bytes, 0o600)
		}
		whole := image.NewRGBA(p.Bounds())
		draw.Draw(whole, whole.Rect, p, image.Point{}, draw.Src)
		var refs []string
		for _, e := range a.m["legend"].([]any) {
			refs = append(refs, e.(obj)["ref"].(string))
		}
		slices.SortFunc(refs, func(a, b string) int { return len(b) - len(a) })
		hidden, taken := 0, map[image.Point]bool{}
		for _, ref := range refs {
			if !legible(whole, ref, 1, taken) {
				hidden++
			}
		}
		if hidden > 0 || len(refs) != 130 {
			t.Errorf("scale %v: %d of %d labels cannot be read", scale, hidden, len(refs))
		}
	}
}

// A picture for a model has no side over 8,000 pixels, and is at most 5 MB in base64.
func TestPicturesFitModels(t *testing.T) {
	t.Parallel()
	n, fits := noise(t)
	p, a := fits("a page of noise", obj{"full_page": true})
	rest, _ := a.m["left_out"].(obj)
	if rest == nil || p.Bounds().Dx() != 800 || rest["y"] != float64(p.Bounds().Dy()) || rest["height"] != 3000-rest["y"].(float64) {
		t.Errorf("a tile of it: %v, %s", p.Bounds(), a.json)
	}
	if p, a := fits("an element of noise", obj{"selector": "#c"}); a.m["scale"] == nil || p.Bounds().Dx() != int(800*a.m["scale"].(float64)+0.5) {
		t.Errorf("an element of noise: %v, %s", p.Bounds(), a.json)
	}
	n.eval("c.remove(); document.body.style.cssText = 'width:300px;height:12000px;background:linear-gradient(#fff, #00f)'; 1")
	if p, a := fits("a long element", obj{"selector": "body"}); a.m["scale"] == nil || p.Bounds().Dy() != 8000 {
		t.Errorf("a long element: %v, %s", p.Bounds(), a.json)
	}
	n.eval("document.body.style.cssText = 'width:9500px;height:100px'; 1")
	if p, a := fits("a wide page", obj{"full_page": true}); p.Bounds().Dx() != 8000 || a.m["left_out"] != nil {
		t.Errorf("a wide page: %v, %s", p.Bounds(), a.json)
	}
	if _, a := n.picture(obj{}); a.m["scale"] != nil || a.Evidence != "" {
		t.Errorf("an ordinary picture: %s %q", a.json, a.Evidence)
	}
}

// A large viewport fits, too.
func TestPicturesFitModelsAtLength(t *testing.T) {
	n, fits := noise(t)
	n.must("resize", obj{"width": 2400, "height": 1600})
	n.eval("fill(2400, 1600), 1")
	if p, a := fits("a viewport of noise", obj{}); a.m["scale"] == nil || p.Bounds().Dx() >= 2400 {
		t.Errorf("a viewport of noise: %v, %s", p.Bounds(), a.json)
	}
	fits("with refs", obj{"annotate": true})
	n.eval("c.remove(); 1")
	if _, a := n.picture(obj{}); a.m["scale"] != nil || a.Evidence != "" {
		t.Errorf("an ordinary picture: %s %q", a.json, a.Evidence)
	}
}

// noise opens a page that no format makes small, and returns what takes a picture that has to fit.
func noise(t *testing.T) (*node, func(what string, args obj) (image.Image, answer)) {
	t.Helper()
	s := newSite(t, map[string]string{"/": html(`<style>body{margin:0}canvas{display:block}</style><canvas id=c></canvas><script>
const fill = (w, h) => { c.width = w; c.height = h; const x = c.getContext('2d'), tile = x.createImageData(w, 100);
for (let y = 0; y < h; y += 100) { for (let i = 0; i < tile.data.length; i += 65536) crypto.getRandomValues(tile.data.subarray(i, i + 65536)); for (let i = 3; i < tile.data.length; i += 4) tile.data[i] = 255; x.putImageData(tile, 0, y); } };
fill(800, 3000)</script>`)})
	n := newNode(t, s.URL)
	n.must("resize", obj{"width": 800, "height": 600})
	n.goTo(s.URL + "/")
	return n, func(what string, args obj) (image.Image, answer) {
		t.Helper()
		p, a := n.picture(args)
		if b := a.Blobs[0].Bytes; len(b) > 5_000_000/4*3 || max(p.Bounds().Dx(), p.Bounds().Dy()) > 8000 {
			t.Errorf("%s: %v, %d bytes", what, p.Bounds(), len(b))
		}
		if a.Evidence == "" {
			t.Errorf("%s: nothing is said", what)
		}
		return p, a
	}
}

// spooled keeps artifacts in memory.
type spooled struct {
	mu   sync.Mutex
	kept []capabilities.Artifact
	data map[string][]byte // by name
}

func (s *spooled) Create(spec capabilities.ArtifactSpec) (capabilities.ArtifactWriter, error) {
	return &spooling{spooled: s, spec: spec}, nil
}

type spooling struct {
	*spooled
	spec capabilities.ArtifactSpec
	bytes.Buffer
}

func (w *spooling) Commit() (capabilities.Artifact, error) {
	a := capabilities.Artifact{ID: capabilities.ArtifactIDOf(sha256.Sum256(w.Bytes())), Name: w.spec.Name, MIME: w.spec.MIME, Size: int64(w.Len()), Field: w.spec.Field}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, a)
	if w.data == nil {
		w.data = map[string][]byte{}
	}
	w.data[a.Name] = w.Bytes()
	return a, nil
}

func (w *spooling) Abort() {}

// A picture can be kept by name, whole, without being in the answer.
func TestPicturesAreKept(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<style>body{margin:0;width:300px;height:12000px;background:linear-gradient(#fff, #00f)}</style>`)})
	n.goTo(s.URL + "/")
	n.refused(capabilities.CodeNotSupported, "screenshot", obj{"keep_as": "front.png"}) // a call without a spool
	spool := &spooled{}
	n.spool = spool
	for _, bad := range []string{"../up.png", "a/b.png", "a\\b.png", ".", "tab\t.png", strings.Repeat("x", 201)} {
		n.refused(capabilities.CodeInvalidArguments, "screenshot", obj{"keep_as": bad})
	}
	a := n.must("screenshot", obj{"keep_as": "front page.png", "full_page": true})
	if len(a.Blobs) != 0 || len(a.Artifacts) != 1 || a.Artifacts[0].Name != "front page.png" || a.Artifacts[0].Field != "" || a.Artifacts[0].MIME != "image/png" {
		t.Fatalf("%d pictures in the answer, artifacts %+v", len(a.Blobs), a.Artifacts)
	}
	p, _, err := image.Decode(bytes.NewReader(spool.data["front page.png"]))
	if err != nil || p.Bounds().Dy() != 12000 || a.m["height"] != 12000.0 || a.m["left_out"] != nil {
		t.Errorf("kept: %v %v, %s", p.Bounds(), err, a.json)
	}
}
