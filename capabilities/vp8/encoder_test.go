package vp8

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/image/vp8"
)

// screen is a picture that changes as screens do.
type screen struct {
	w, h  int
	pix   []byte
	dirty []image.Rectangle
	rnd   *rand.Rand
}

func newScreen(w, h int, seed uint64) *screen {
	s := &screen{w: w, h: h, pix: make([]byte, w*h*4), rnd: rand.New(rand.NewPCG(seed, 1))}
	s.fill(image.Rect(0, 0, w, h), 0xf0f0f0)
	return s
}

func (s *screen) bounds() image.Rectangle { return image.Rect(0, 0, s.w, s.h) }

// next begins a frame: the pixels of the last one belong to the encoder.
func (s *screen) next() {
	s.pix = bytes.Clone(s.pix)
	s.dirty = nil
}

func (s *screen) fill(r image.Rectangle, rgb uint32) {
	r = r.Intersect(s.bounds())
	s.dirty = append(s.dirty, r)
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			binary.LittleEndian.PutUint32(s.pix[(y*s.w+x)*4:], rgb)
		}
	}
}

func (s *screen) noise(r image.Rectangle) {
	r = r.Intersect(s.bounds())
	s.dirty = append(s.dirty, r)
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			binary.LittleEndian.PutUint32(s.pix[(y*s.w+x)*4:], s.rnd.Uint32())
		}
	}
}

// text fills an area with what looks like lines of letters: short strokes, dark on
// light, some of them coloured, with soft edges.
func (s *screen) text(r image.Rectangle) {
	r = r.Intersect(s.bounds())
	s.fill(r, 0xffffff)
	for y := r.Min.Y + 3; y+10 < r.Max.Y; y += 16 {
		ink := [3]uint32{0x202020, 0x202020, 0x1040a0}[s.rnd.IntN(3)]
		for x := r.Min.X + 4; x+8 < r.Max.X; x += 8 {
			if s.rnd.IntN(6) == 0 {
				continue
			}
			for range 3 {
				if s.rnd.IntN(2) == 0 {
					dx, top := s.rnd.IntN(6), s.rnd.IntN(5)
					s.stroke(x+dx, y+top, 1, 10-top, ink)
				} else {
					s.stroke(x, y+s.rnd.IntN(10), 3+s.rnd.IntN(4), 1, ink)
				}
			}
		}
	}
}

func (s *screen) stroke(x, y, w, h int, ink uint32) {
	for j := y; j < min(y+h, s.h); j++ {
		for i := x; i < min(x+w, s.w); i++ {
			binary.LittleEndian.PutUint32(s.pix[(j*s.w+i)*4:], ink)
		}
		if x+w < s.w {
			binary.LittleEndian.PutUint32(s.pix[(j*s.w+x+w)*4:], 0xb8b8c0)
		}
	}
}

// scroll moves an area up by n rows (down if negative) and writes text into what
// becomes free.
func (s *screen) scroll(r image.Rectangle, n int) {
	r = r.Intersect(s.bounds())
	old := bytes.Clone(s.pix)
	for y := r.Min.Y; y < r.Max.Y; y++ {
		if from := y + n; from >= r.Min.Y && from < r.Max.Y {
			copy(s.pix[(y*s.w+r.Min.X)*4:(y*s.w+r.Max.X)*4], old[(from*s.w+r.Min.X)*4:])
		}
	}
	free := image.Rect(r.Min.X, r.Max.Y-n, r.Max.X, r.Max.Y)
	if n < 0 {
		free = image.Rect(r.Min.X, r.Min.Y, r.Max.X, r.Min.Y-n)
	}
	s.text(free)
	s.dirty = append(s.dirty, r)
}

// stream keeps frames and what the encoder says a decoder shows.
type stream struct {
	w, h   int
	frames [][]byte
	shown  [][]byte
}

// planar returns the visible part of a picture, plane by plane.
func planar(m *image.YCbCr) []byte {
	var b []byte
	w, h := m.Rect.Dx(), m.Rect.Dy()
	for y := range h {
		b = append(b, m.Y[y*m.YStride:][:w]...)
	}
	for _, c := range [][]byte{m.Cb, m.Cr} {
		for y := range (h + 1) / 2 {
			b = append(b, c[y*m.CStride:][:(w+1)/2]...)
		}
	}
	return b
}

func (st *stream) add(t testing.TB, e *Encoder, s *screen, p Params) Info {
	t.Helper()
	frame, info, err := e.Encode(nil, s.pix, s.w*4, s.dirty, p)
	if err != nil {
		t.Fatal(err)
	}
	shown := planar(e.Reconstruction())
	st.frames, st.shown = append(st.frames, frame), append(st.shown, shown)
	if info.Key {
		d := vp8.NewDecoder()
		d.Init(bytes.NewReader(frame), len(frame))
		head, err := d.DecodeFrameHeader()
		if err != nil {
			t.Fatal(err)
		}
		if !head.KeyFrame || head.Width != s.w || head.Height != s.h {
			t.Fatalf("the frame says %+v", head)
		}
		m, err := d.DecodeFrame()
		if err != nil {
			t.Fatal(err)
		}
		same(t, fmt.Sprintf("key frame %d, by x/image", len(st.frames)-1), s.w, s.h, planar(m), shown)
	}
	return info
}

func same(t testing.TB, what string, w, h int, got, want []byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d bytes, want %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			at := fmt.Sprintf("luma %d,%d", i%w, i/w)
			if i >= w*h {
				at = fmt.Sprintf("chroma byte %d", i-w*h)
			}
			t.Fatalf("%s: differs at %s: a decoder shows %d, the encoder thinks %d", what, at, got[i], want[i])
		}
	}
}

// check has ffmpeg decode the whole stream.
func (st *stream) check(t testing.TB) {
	t.Helper()
	dir := t.TempDir()
	name := filepath.Join(dir, "x.ivf")
	if err := os.WriteFile(name, st.ivf(), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("ffmpeg", "-v", "error", "-threads", "1", "-i", name, "-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", "yuv420p", "-")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("ffmpeg: %v\n%s", err, &stderr)
	}
	size := len(st.shown[0])
	if len(out) != size*len(st.shown) {
		t.Fatalf("ffmpeg shows %d bytes for %d frames of %d", len(out), len(st.shown), size)
	}
	for i, want := range st.shown {
		same(t, fmt.Sprintf("frame %d, by ffmpeg", i), st.w, st.h, out[i*size:(i+1)*size], want)
	}
}

// ivf is the container that every decoder reads.
func (st *stream) ivf() []byte {
	b := append([]byte("DKIF"), 0, 0, 32, 0, 'V', 'P', '8', '0')
	b = binary.LittleEndian.AppendUint16(b, uint16(st.w))
	b = binary.LittleEndian.AppendUint16(b, uint16(st.h))
	b = binary.LittleEndian.AppendUint32(b, 30)
	b = binary.LittleEndian.AppendUint32(b, 1)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(st.frames)))
	for i, f := range st.frames {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(f)))
		b = binary.LittleEndian.AppendUint64(b, uint64(i))
		b = append(b, f...)
	}
	return b
}

func begin(t testing.TB, w, h int, seed uint64) (*Encoder, *screen, *stream) {
	t.Helper()
	e, err := New(w, h)
	if err != nil {
		t.Fatal(err)
	}
	return e, newScreen(w, h, seed), &stream{w: w, h: h}
}

// The frame that the encoder thinks a decoder shows is what two foreign ones show.
func TestDecodersShowWhatTheEncoderThinks(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {33, 50}, {176, 144}, {321, 241}} {
		for _, quant := range []int{0, 24, 127} {
			t.Run(fmt.Sprintf("%dx%d-%d", size[0], size[1], quant), func(t *testing.T) {
				t.Parallel()
				e, s, st := begin(t, size[0], size[1], uint64(quant))
				all := s.bounds()
				st.add(t, e, s, Params{Quant: quant})
				for i := range 14 {
					s.next()
					p := Params{Quant: quant}
					switch i {
					case 0:
						s.text(all)
					case 1, 2:
						s.scroll(all, 16)
					case 3:
						s.scroll(all, 7)
					case 4:
						s.scroll(all, -21)
					case 5: // nothing
					case 6:
						p.Quant, p.Refine = quant/4, 1<<20
					case 7:
						s.noise(image.Rect(s.w/4, s.h/4, s.w/2+3, s.h/2+5))
					case 8:
						s.text(image.Rect(s.w/3, 0, s.w, s.h/2))
						s.scroll(image.Rect(0, s.h/3, s.w/2, s.h), 3)
					case 9:
						p.Key = true
					case 10:
						s.noise(all)
					case 11:
						p.Key = true
					case 12:
						s.text(all)
					}
					st.add(t, e, s, p)
				}
				st.check(t)
			})
		}
	}
}

func TestSizesAndPixels(t *testing.T) {
	for _, size := range [][2]int{{0, 1}, {1, 0}, {-1, 5}, {MaxSide + 1, 1}, {5000, 5000}} {
		if _, err := New(size[0], size[1]); err != ErrSize {
			t.Errorf("New(%v): %v, want ErrSize", size, err)
		}
	}
	e, s, st := begin(t, 40, 30, 1)
	for _, short := range [][2]int{{len(s.pix) - 1, 160}, {len(s.pix), 159}, {0, 0}} {
		if _, _, err := e.Encode(nil, s.pix[:short[0]], short[1], nil, Params{}); err != ErrPixels {
			t.Errorf("Encode of %d bytes in rows of %d: %v, want ErrPixels", short[0], short[1], err)
		}
	}
	if info := st.add(t, e, s, Params{}); !info.Key {
		t.Error("the first frame that could be encoded is no key frame")
	}
}

// A screen on which nothing happens costs next to nothing, and one that scrolls
// costs what comes in, not what is there.
func TestWhatDidNotChangeCostsNothing(t *testing.T) {
	e, s, st := begin(t, 640, 480, 3)
	s.text(s.bounds())
	st.add(t, e, s, Params{Quant: 24})
	whole := len(st.frames[0])
	s.next()
	if info := st.add(t, e, s, Params{Quant: 24}); info.Changed+info.Coded+info.Moved != 0 || len(st.frames[1]) > 200 {
		t.Errorf("an unchanged screen: %+v, %d bytes; want none and at most 200", info, len(st.frames[1]))
	}
	for _, rows := range []int{16, 37, -40} {
		s.next()
		s.scroll(image.Rect(64, 32, 600, 470), rows)
		info := st.add(t, e, s, Params{Quant: 24})
		last := len(st.frames[len(st.frames)-1])
		if info.Shift != rows || info.Moved < 500 || last > whole/5 {
			t.Errorf("scrolled by %d: %+v, %d bytes; want most of it moved and less than a fifth of %d", rows, info, last, whole)
		}
	}
	st.check(t)
}

// A part that was sent coarsely becomes sharp once there is time, and then stays silent.
func TestRefinesWhenIdle(t *testing.T) {
	e, s, st := begin(t, 640, 360, 5)
	s.text(s.bounds())
	info := st.add(t, e, s, Params{Quant: 90, Fine: 8})
	if info.Coarse < 500 {
		t.Fatalf("at quantiser 90: %+v, want most of 920 to be coarse", info)
	}
	before := psnr(e, s)
	for i := 0; info.Coarse > 0; i++ {
		if i > 20 {
			t.Fatalf("still coarse: %+v", info)
		}
		s.next()
		info = st.add(t, e, s, Params{Quant: 8, Refine: 200, Fine: 8})
	}
	if after := psnr(e, s); after < before+10 || after < 38 {
		t.Errorf("%.1f dB became %.1f dB; want 10 more and at least 38", before, after)
	}
	s.next()
	if info = st.add(t, e, s, Params{Quant: 8, Refine: 200, Fine: 8}); info.Coded != 0 {
		t.Errorf("all is fine, and yet %+v", info)
	}
	st.check(t)
}
