package ocr

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/procguard"
	"github.com/handrail-dev/handrail/platform/sandbox"
)

func newReader(program string) *Reader {
	return New(program, sandbox.New(procguard.New(procguard.Options{})))
}

func TestMissingProgramIsNamed(t *testing.T) {
	_, err := newReader("no-such-program").Read(t.Context(), frame(8, 8))
	var lacks *platform.MissingError
	if !errors.As(err, &lacks) || !strings.Contains(lacks.Fix, "tesseract-ocr") {
		t.Errorf("%v", err)
	}
}

func TestFailuresAreTold(t *testing.T) {
	if _, err := newReader("false").Read(t.Context(), frame(8, 8)); err == nil || !strings.Contains(err.Error(), "status 1") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newReader("sleep").Read(ctx, frame(8, 8)); err == nil {
		t.Error("an ended call read")
	}
}

func frame(w, h int) *platform.Frame {
	f := &platform.Frame{Area: platform.Rect{X: 100, Y: 50, Width: w, Height: h}, Stride: w * 4, Pix: make([]byte, w*h*4)}
	for i := range f.Pix {
		f.Pix[i] = 255
	}
	return f
}

func TestTable(t *testing.T) {
	table := "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext\n" +
		"4\t1\t1\t1\t1\t0\t20\t10\t200\t20\t-1\t\n" +
		"5\t1\t1\t1\t1\t1\t20\t10\t80\t20\t96.5\tTotal\n" +
		"5\t1\t1\t1\t1\t2\t110\t10\t80\t20\t90\tsum\n" +
		"5\t1\t2\t1\t1\t1\t20\t60\t80\t20\t12\tnoise\n" +
		"5\t1\t2\t1\t1\t1\t20\t60\t80\t20\t92\tnext\n" +
		"5\t1\t2\tx\n5\t1\t2\t1\t1\t1\t-5\t60\t80\t20\t92\tbad\n"
	got := fmt.Sprint(words(table, platform.Rect{X: 100, Y: 50, Width: 400, Height: 300}, 2))
	want := "[{Total {110 55 40 10} 1 0.965} {sum {155 55 40 10} 1 0.9} {next {110 80 40 10} 2 0.92}]"
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func FuzzTable(f *testing.F) {
	f.Add("5\t1\t1\t1\t1\t1\t20\t10\t80\t20\t96.5\tTotal\n", 2)
	f.Fuzz(func(t *testing.T, table string, scale int) {
		area := platform.Rect{X: -10, Y: 5, Width: 100, Height: 100}
		for _, w := range words(table, area, 1+scale&1) {
			if w.Text == "" || w.Confidence < 0 || w.Confidence > 1 || !w.Bounds.Empty() && w.Bounds.Intersect(area) != w.Bounds {
				t.Fatalf("%+v", w)
			}
		}
	})
}

// The real program reads what is plain to see.
func TestRealProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("starts tesseract; run without -short")
	}
	if _, err := exec.LookPath("tesseract"); err != nil {
		t.Fatal("this test needs tesseract: install the package tesseract-ocr (.ci/setup test installs it)")
	}
	f := frame(300, 60)
	for x, glyph := range strings.Split("HELLO", "") {
		paint(f, 30+x*24, 20, glyph)
	}
	seen, err := newReader("").Read(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) != 1 || seen[0].Text != "HELLO" || !seen[0].Bounds.Has(platform.Point{X: 190, Y: 80}) {
		t.Errorf("%+v", seen)
	}
}

// letters are drawn on five columns of seven bits.
var letters = map[string][5]uint8{
	"H": {0x7f, 0x08, 0x08, 0x08, 0x7f}, "E": {0x7f, 0x49, 0x49, 0x49, 0x41}, "L": {0x7f, 0x40, 0x40, 0x40, 0x40}, "O": {0x3e, 0x41, 0x41, 0x41, 0x3e},
}

func paint(f *platform.Frame, left, top int, letter string) {
	const size = 3
	for column, bits := range letters[letter] {
		for row := range 7 {
			if bits>>row&1 == 0 {
				continue
			}
			for y := range size {
				for x := range size {
					at := (top+row*size+y)*f.Stride + (left+column*size+x)*4
					f.Pix[at], f.Pix[at+1], f.Pix[at+2] = 0, 0, 0
				}
			}
		}
	}
}
