package ocr

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/sandbox"
)

// Reader reads text with the tesseract program. Its methods are safe for
// concurrent use.
type Reader struct {
	program string // "" to look for it in PATH
	box     *sandbox.Sandbox
	turn    chan struct{} // one token: the program takes a whole core
}

var _ platform.TextReader = (*Reader)(nil)

// New makes a Reader of the program at that path, "" for the one in PATH, which starts in that
// sandbox. It looks for nothing yet.
func New(program string, box *sandbox.Sandbox) *Reader {
	r := &Reader{program: program, box: box, turn: make(chan struct{}, 1)}
	r.turn <- struct{}{}
	return r
}

const (
	// maxAnswer bounds what the program may write.
	maxAnswer = 8 << 20
	// maxSide is the longest side of a picture that is enlarged: letters on screens
	// are smaller than those the program was made for.
	maxSide = 2048
	// A screen takes seconds of a processor, and the program's model of a language more memory than
	// t0 has by itself.
	maxCPU    = 60
	maxMemory = 1 << 30
	// least is the confidence, in percent, below which a word is noise.
	least = 30
)

// Check says why nothing can be read here: a *platform.MissingError without the program,
// CodeIsolationUnavailable without its walls.
func (r *Reader) Check() error {
	if _, err := r.find(); err != nil {
		return err
	}
	return r.box.Check(capabilities.ClassT0, false)
}

func (r *Reader) find() (string, error) {
	name := r.program
	if name == "" {
		name = "tesseract"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", &platform.MissingError{
			What: "Text in pictures is read with the program tesseract, which is not installed.",
			Fix:  "Debian and Ubuntu: apt-get install tesseract-ocr.",
		}
	}
	return path, nil
}

// Read returns the words that are seen in the frame. CodeIsolationUnavailable where the program
// cannot be confined.
func (r *Reader) Read(ctx context.Context, f *platform.Frame) ([]platform.SeenText, error) {
	path, err := r.find()
	if err != nil {
		return nil, err
	}
	select {
	case <-r.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { r.turn <- struct{}{} }()
	scale := 1
	if max(f.Area.Width, f.Area.Height) <= maxSide {
		scale = 2
	}
	// Sparse text: screens are no pages. Several threads would only wait for each other.
	program, err := r.box.Start(ctx, sandbox.Program{
		Argv:  []string{path, "stdin", "stdout", "--psm", "11", "--dpi", strconv.Itoa(96 * scale), "-c", "tessedit_create_tsv=1"},
		Env:   []string{"OMP_THREAD_LIMIT=1"},
		Class: capabilities.ClassT0, Limits: sandbox.Limits{CPU: maxCPU, Memory: maxMemory},
	})
	if err != nil {
		return nil, err
	}
	defer program.Kill()
	picture := grey(f, scale)
	go func() {
		_, _ = program.Stdin().Write(picture) // a program that does not read it says so by its end
		_ = program.Stdin().Close()
	}()
	table, err := io.ReadAll(io.LimitReader(program.Stdout(), maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("tesseract: %w", err)
	}
	code, err := program.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	case code != 0:
		return nil, failure(code, program.Stderr())
	}
	return words(string(table), f.Area, scale), nil
}

// failure tells a program without its languages from one that failed.
func failure(code int, said string) error {
	if strings.Contains(said, "Error opening data file") || strings.Contains(said, "Failed loading language") {
		return &platform.MissingError{
			What: "The program tesseract has no language to read.", Fix: "Debian and Ubuntu: apt-get install tesseract-ocr-eng.",
		}
	}
	return fmt.Errorf("tesseract ended with status %d", code)
}

// grey makes a picture in shades of grey (PGM), each pixel scale times as large.
func grey(f *platform.Frame, scale int) []byte {
	w, h := f.Area.Width, f.Area.Height
	out := bytes.NewBuffer(make([]byte, 0, w*h*scale*scale+32))
	fmt.Fprintf(out, "P5\n%d %d\n255\n", w*scale, h*scale)
	shades := make([]int, w*h)
	for y := range h {
		row := f.Pix[y*f.Stride:]
		for x := range w {
			p := row[4*x : 4*x+3]
			shades[y*w+x] = (29*int(p[0]) + 150*int(p[1]) + 77*int(p[2])) >> 8
		}
	}
	if scale == 1 {
		for _, s := range shades {
			out.WriteByte(byte(s))
		}
		return out.Bytes()
	}
	// Between two pixels lies their mean: edges that are smooth are read better.
	for y := range 2 * h {
		a, b := y/2, min((y+1)/2, h-1)
		for x := range 2 * w {
			c, d := x/2, min((x+1)/2, w-1)
			out.WriteByte(byte((shades[a*w+c] + shades[a*w+d] + shades[b*w+c] + shades[b*w+d]) / 4))
		}
	}
	return out.Bytes()
}

// words reads the program's table: level, page, block, paragraph, line, word, left, top, width,
// height, confidence, text. Level 5 is a word. A line that does not fit the table is passed over.
func words(table string, area platform.Rect, scale int) []platform.SeenText {
	var all []platform.SeenText
	lines := map[string]int{}
	for row := range strings.Lines(table) {
		cells := strings.SplitN(strings.TrimRight(row, "\r\n"), "\t", 12)
		if len(cells) < 12 || cells[0] != "5" || strings.TrimSpace(cells[11]) == "" {
			continue
		}
		var box [4]int
		ok := true
		for i := range box {
			n, err := strconv.Atoi(cells[6+i])
			box[i], ok = n/scale, ok && err == nil && n >= 0 && n < 1<<20
		}
		sure, err := strconv.ParseFloat(cells[10], 64)
		if !ok || err != nil || sure < least || sure > 100 {
			continue
		}
		line := strings.Join(cells[1:5], ".")
		if _, known := lines[line]; !known {
			lines[line] = len(lines) + 1
		}
		all = append(all, platform.SeenText{
			Text: cells[11], Line: lines[line], Confidence: sure / 100,
			Bounds: platform.Rect{X: area.X + box[0], Y: area.Y + box[1], Width: max(box[2], 1), Height: max(box[3], 1)}.Intersect(area),
		})
	}
	return all
}
