package console

import (
	"bufio"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	x "github.com/handrail-dev/handrail/test/desk"
)

//go:embed testdata/whep.py
var whepProgram string

// foreign is a WHEP client that shares no code with ours: its SDP, ICE, DTLS, SRTP and
// decoders are others'.
type foreign struct {
	w   *watched
	dir string
	in  io.WriteCloser
	end chan error // of the process

	mu   sync.Mutex
	said map[string]any // the latest of each
}

// startForeign has one receive a source.
func (w *watched) startForeign(source, kind string) *foreign {
	w.t.Helper()
	const python = "/usr/bin/python3" // the system's own has the system's packages
	if out, err := exec.Command(python, "-c", "import aiortc").CombinedOutput(); err != nil {
		w.t.Skipf("no foreign client here: .ci/setup test installs python3-aiortc where the distribution has it (%v: %.200s)", err, out)
	}
	addresses, err := net.InterfaceAddrs()
	must(w.t, err)
	outside := false
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			outside = true
		}
	}
	if !outside {
		w.t.Skip("aiortc offers no address of the loopback, and this machine has no other")
	}
	f := &foreign{w: w, dir: w.t.TempDir(), end: make(chan error, 1), said: map[string]any{}}
	program := exec.CommandContext(w.ctx, python, "-c", whepProgram, w.URL()+fmt.Sprintf("/v1/live/%s/%s/whep", w.node.ID, source), kind, f.dir)
	program.Stderr = w.t.Output()
	f.in, err = program.StdinPipe()
	must(w.t, err)
	out, err := program.StdoutPipe()
	must(w.t, err)
	must(w.t, program.Start())
	told := make(chan struct{})
	go func() {
		defer close(told)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var line map[string]any
			if json.Unmarshal(lines.Bytes(), &line) == nil {
				f.mu.Lock()
				for k, v := range line {
					f.said[k] = v
				}
				f.mu.Unlock()
			}
		}
	}()
	go func() { <-told; f.end <- program.Wait(); close(f.end) }()
	w.t.Cleanup(func() {
		if w.t.Failed() {
			w.t.Logf("the foreign client said: %v", f.all())
		}
		_ = program.Process.Kill()
		<-f.end
	})
	_, err = io.WriteString(f.in, w.token+"\n")
	must(w.t, err)
	return f
}

func (f *foreign) all() map[string]any {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := map[string]any{}
	for k, v := range f.said {
		all[k] = v
	}
	return all
}

func (f *foreign) number(what string) float64 { n, _ := f.all()[what].(float64); return n }

// receives waits for as many frames.
func (f *foreign) receives(frames float64) {
	f.w.t.Helper()
	x.Await(f.w.t, "frames with the foreign client", func() bool { return f.number("frames") >= frames })
	if said := f.all(); said["post"] != 201.0 || said["kind"] != "application/sdp" || said["tag"] == nil || said["state"] != "connected" {
		f.w.t.Errorf("%v", said)
	}
}

// leaves has it take its session back, and holds that it is over.
func (f *foreign) leaves(source string) {
	f.w.t.Helper()
	if list := f.w.Live.Watching(f.w.node.ID); len(list) != 1 || list[0].Source != source || list[0].Principal != "ann" {
		f.w.t.Errorf("who watches: %+v", list)
	}
	must(f.w.t, f.in.Close())
	must(f.w.t, <-f.end)
	if f.number("delete") != 200 {
		f.w.t.Errorf("%v", f.all())
	}
	x.Await(f.w.t, "nobody to watch", func() bool { return len(f.w.Live.Watching(f.w.node.ID)) == 0 })
}

// picture is the latest that it decoded.
func (f *foreign) picture() image.Image {
	f.w.t.Helper()
	data, err := os.ReadFile(filepath.Join(f.dir, "frame.ppm"))
	must(f.w.t, err)
	head, pix, _ := strings.Cut(string(data), "\n")
	var w, h int
	if _, err := fmt.Sscanf(head, "P6 %d %d 255", &w, &h); err != nil || len(pix) != w*h*3 {
		f.w.t.Fatalf("%q with %d bytes: %v", head, len(pix), err)
	}
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		m.SetRGBA(i%w, i/w, color.RGBA{pix[i*3], pix[i*3+1], pix[i*3+2], 255})
	}
	return m
}

// sound is all that it heard, from -1 to 1.
func (f *foreign) sound() []float64 {
	f.w.t.Helper()
	data, err := os.ReadFile(filepath.Join(f.dir, "sound.s16"))
	must(f.w.t, err)
	all := make([]float64, len(data)/2)
	for i := range all {
		all[i] = float64(int16(binary.LittleEndian.Uint16(data[i*2:]))) / 32768
	}
	return all
}

// power is how much of the sound is of that frequency (Goertzel): a whole tone's is a
// quarter of the square of its amplitude.
func power(all []float64, hz, rate float64) float64 {
	var re, im float64
	for i, v := range all {
		sin, cos := math.Sincos(2 * math.Pi * hz * float64(i) / rate)
		re, im = re+v*cos, im+v*sin
	}
	n := float64(len(all))
	return (re*re + im*im) / (n * n)
}

// A client of nobody here watches a real X screen: it gets the screen's own picture, and
// what changes there.
func TestForeignClientWatchesAScreen(t *testing.T) {
	w := startWatched(t, "800x608")
	w.screen.Xterm()
	w.Grant("ann", w.node, "tool.live.screen")
	f := w.startForeign("screen", "video")
	f.receives(1)
	empty := w.real()
	for i := range 12 {
		w.screen.Xdotool("type", fmt.Sprintf("line %d of what a foreign client sees\n", i))
	}
	like := 0.0
	x.Await(t, "its picture to be that of the screen", func() bool { like = likeness(f.picture(), w.real()); return like > 0.97 })
	if before := likeness(f.picture(), empty); before > like-0.02 {
		t.Errorf("its picture is as like the empty screen (%.4f) as the written one (%.4f)", before, like)
	}
	t.Logf("SSIM %.4f after %.0f frames of %.0fx%.0f", like, f.number("frames"), f.number("width"), f.number("height"))
	f.leaves("screen")
	x.Await(t, "the ledger to have the session's beginning and end", func() bool { return strings.HasSuffix(w.kinds("tool.live.screen"), "dispatch failed") })
}

// It hears a room's tone, as PCMU, as the tone it is.
func TestForeignClientHearsATone(t *testing.T) {
	const hz = 440
	ear, listeners := startSound(t, hz)
	w := startSensed(t, ear)
	w.Grant("ann", w.node, "tool.live.microphone")
	f := w.startForeign("microphone", "audio")
	f.receives(1)
	var at, beside float64
	x.Await(t, "the tone", func() bool {
		all, rate := f.sound(), f.number("rate")
		if len(all) < int(rate)/2 {
			return false
		}
		all = all[len(all)-int(rate)/2:]
		at, beside = power(all, hz, rate), max(power(all, hz*0.75, rate), power(all, hz*1.25, rate), power(all, hz*2, rate))
		return at > 1e-4 && at > 20*beside
	})
	if rate := f.number("rate"); rate != 8000 {
		t.Errorf("it came with %.0f samples a second, which PCMU has not", rate)
	}
	t.Logf("%.5f of %d Hz, %.5f beside it", at, hz, beside)
	f.leaves("microphone")
	x.Await(t, "nobody to listen", func() bool { return listeners() == 0 })
}

// It sees a camera and hears a microphone by the encoders of the device's Chrome: VP8
// that we did not make, and Opus.
func TestForeignClientSeesAndHears(t *testing.T) {
	w := startSensed(t, madeUp(t))
	w.Grant("ann", w.node, "tool.live.camera")
	f := w.startForeign("camera", "video")
	f.receives(5)
	m := f.picture()
	colours := map[color.Color]bool{}
	for i := range m.Bounds().Dx() {
		colours[m.At(i, m.Bounds().Dy()/2)] = true
	}
	if m.Bounds().Dx() < 640 || len(colours) < 3 {
		t.Errorf("%v with %d colours: Chrome's test pattern has more", m.Bounds(), len(colours))
	}
	f.leaves("camera")

	w.Grant("ann", w.node, "tool.live.microphone")
	f = w.startForeign("microphone", "audio")
	f.receives(1)
	x.Await(t, "the beep of Chrome's made-up microphone", func() bool {
		peak := 0.0
		for _, v := range f.sound() {
			peak = max(peak, math.Abs(v))
		}
		return peak > 0.01
	})
	if rate := f.number("rate"); rate != 48000 {
		t.Errorf("it came with %.0f samples a second, which Opus has not", rate)
	}
	f.leaves("microphone")
}
