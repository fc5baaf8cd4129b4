package sensor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser"
	"github.com/handrail-dev/handrail/capabilities/browser/media"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/sensor/sound"
	"github.com/handrail-dev/handrail/capabilities/sensor/webm"
	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/chrome"
	"github.com/handrail-dev/handrail/platform/procguard"
)

// The tests use the real Chrome of this machine, with the devices that it makes up.

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// rig is a handler with a Chrome that can be found and killed.
type rig struct {
	t   testing.TB
	h   *Handler
	cat *catalog.Catalog

	mu   sync.Mutex
	last platform.Process
}

// Start remembers the process.
func (r *rig) Start(ctx context.Context, c platform.Command) (platform.Process, error) {
	p, err := procguard.New(procguard.Options{}).Start(ctx, c)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.last = p
	}
	return p, err
}

func (r *rig) chrome() platform.Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// chromeBackend is the backend of these tests; fake nil: this host's own devices.
func (r *rig) chromeBackend(fake *media.Fake) *media.Backend {
	r.t.Helper()
	finder := chrome.New(chrome.Options{})
	b, err := finder.Find(r.t.Context())
	if err != nil {
		r.t.Fatalf("these tests need a real Chrome: %v", err)
	}
	o := media.Options{Finder: finder, Launcher: r, Fake: fake, Log: slog.New(slog.DiscardHandler)}
	if b.NoSandbox != "" {
		o.Sandbox = browser.SandboxOff
	}
	backend, err := media.New(o)
	if err != nil {
		r.t.Fatal(err)
	}
	return backend
}

func newRig(t testing.TB, fake *media.Fake) *rig {
	t.Helper()
	r := &rig{t: t}
	return r.with(r.chromeBackend(fake))
}

// with makes the rig's handler of those backends.
func (r *rig) with(backends ...platform.Sensors) *rig {
	r.t.Helper()
	var err error
	if r.cat, err = catalog.Embedded(); err != nil {
		r.t.Fatal(err)
	}
	if r.h, err = New(Options{Backends: backends, Log: slog.New(slog.NewTextHandler(r.t.Output(), nil))}); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := r.h.Close(); err != nil {
			r.t.Error(err)
		}
		if p := r.chrome(); p != nil {
			select {
			case <-p.Done():
			case <-time.After(30 * time.Second):
				r.t.Error("a browser is left")
			}
		}
	})
	return r
}

// call makes one call as the runner would; its result fits the schema or the test fails.
func (r *rig) call(ctx context.Context, id capabilities.CapabilityID, args string, progress func(capabilities.Progress)) (map[string]any, []byte, *capabilities.Error) {
	r.t.Helper()
	d, ok := r.cat.ByCapability(id)
	if !ok {
		r.t.Fatal(id)
	}
	split, bad, err := d.SplitArgs([]byte(args))
	if err != nil || len(bad) > 0 {
		r.t.Fatal(err, bad)
	}
	ctx, cancel := context.WithTimeout(ctx, split.Timeout)
	defer cancel()
	kept := &shelf{most: d.Limits.MaxArtifactBytes}
	out, err := r.h.Handle(ctx, capabilities.Invocation{
		Call: "c", Capability: id, Lane: "l", Args: split.Canonical, Grants: d.Manifest.Keys(), Progress: progress, Spool: kept,
	})
	if err != nil {
		if kept.whole > 0 {
			r.t.Errorf("a call that failed (%v) left a file", err)
		}
		return nil, nil, capabilities.AsError(err)
	}
	body, err := json.Marshal(out.Result)
	if err != nil {
		r.t.Fatal(err)
	}
	if bad := d.ValidateResult(body); len(bad) > 0 {
		r.t.Fatalf("%s does not fit: %v", body, bad)
	}
	var result map[string]any
	if err := json.Unmarshal(body, &result); err != nil || len(out.Artifacts) != 1 || kept.whole != 1 || out.Effect != capabilities.EffectConfirmed && (out.Effect != capabilities.EffectPartial || result["lost_ms"] == nil) {
		r.t.Fatalf("%s, %d artifacts, %s", body, len(out.Artifacts), out.Effect)
	}
	if a := out.Artifacts[0]; a.Field != bytesField || !strings.HasPrefix(result["mime"].(string), a.MIME) || !strings.Contains(a.Name, ".") {
		r.t.Errorf("%+v", a)
	}
	return result, kept.Bytes(), nil
}

// shelf keeps the one artifact of a call in memory.
type shelf struct {
	bytes.Buffer
	spec  capabilities.ArtifactSpec
	most  int64
	whole int
}

func (s *shelf) Create(spec capabilities.ArtifactSpec) (capabilities.ArtifactWriter, error) {
	s.spec = spec
	return s, nil
}

func (s *shelf) Commit() (capabilities.Artifact, error) {
	if int64(s.Len()) > s.most {
		return capabilities.Artifact{}, &capabilities.Error{Code: capabilities.CodeResultTooLarge}
	}
	s.whole++
	return capabilities.Artifact{ID: capabilities.ArtifactIDOf(sha256.Sum256(s.Bytes())), Name: s.spec.Name, MIME: s.spec.MIME, Field: s.spec.Field, Size: int64(s.Len())}, nil
}

func (s *shelf) Abort() {}

func (r *rig) must(id capabilities.CapabilityID, args string) (map[string]any, []byte) {
	r.t.Helper()
	result, file, err := r.call(r.t.Context(), id, args, nil)
	if err != nil {
		r.t.Fatalf("%s %s: %v (%s)", id, args, err, err.PublicMessage())
	}
	return result, file
}

func (r *rig) refused(code capabilities.Code, id capabilities.CapabilityID, args string) *capabilities.Error {
	r.t.Helper()
	_, _, err := r.call(r.t.Context(), id, args, nil)
	if err == nil || err.Code != code || err.PublicHint() == "" {
		r.t.Fatalf("%s %s gave %v, want %s", id, args, err, code)
	}
	return err
}

// open returns a folder whose files Chrome's own account may read.
func open(t *testing.T) string {
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// quarters are the colours of the fixture's picture: of each quarter, in Y, Cb, Cr.
var quarters = [4]color.YCbCr{{81, 90, 240}, {145, 54, 34}, {41, 240, 110}, {210, 16, 146}}

// quarterFilm writes a film of four colours.
func quarterFilm(t *testing.T) string {
	const width, height = 320, 240 // little, so that a busy machine can film it
	var b bytes.Buffer
	fmt.Fprintf(&b, "YUV4MPEG2 W%d H%d F25:1 Ip A1:1 C420jpeg\n", width, height)
	frame := make([]byte, 0, width*height*3/2)
	plane := func(w, h int, of func(color.YCbCr) byte) {
		for y := range h {
			for x := range w {
				frame = append(frame, of(quarters[y*2/h*2+x*2/w]))
			}
		}
	}
	plane(width, height, func(c color.YCbCr) byte { return c.Y })
	plane(width/2, height/2, func(c color.YCbCr) byte { return c.Cb })
	plane(width/2, height/2, func(c color.YCbCr) byte { return c.Cr })
	for range 3 {
		b.WriteString("FRAME\n")
		b.Write(frame)
	}
	file := filepath.Join(open(t), "quarters.y4m")
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// tone returns samples of a sine.
func tone(hz float64, rate int, length time.Duration) []int16 {
	samples := make([]int16, int(length.Seconds()*float64(rate)))
	for i := range samples {
		samples[i] = int16(12000 * math.Sin(2*math.Pi*hz*float64(i)/float64(rate)))
	}
	return samples
}

func toneFile(t *testing.T) string {
	var b bytes.Buffer
	if err := sound.WAV(&b, tone(440, 48000, 2*time.Second), 48000, 1); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(open(t), "tone.wav")
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// goertzel is how strong a frequency is in samples, as an amplitude.
func goertzel(samples []int16, rate int, hz float64) float64 {
	k := 2 * math.Cos(2*math.Pi*hz/float64(rate))
	var s1, s2 float64
	for _, s := range samples {
		s1, s2 = float64(s)+k*s1-s2, s1
	}
	return 2 * math.Sqrt(s1*s1+s2*s2-k*s1*s2) / float64(len(samples))
}

// loudest returns the strongest frequency of a whole number of Hz.
func loudest(samples []int16, rate int) (at, amplitude float64) {
	for hz := 200.0; hz <= 1000; hz++ {
		if a := goertzel(samples, rate, hz); a > amplitude {
			at, amplitude = hz, a
		}
	}
	return at, amplitude
}

// wavSamples reads a WAV file of this package.
func wavSamples(t *testing.T, file []byte) (samples []int16, rate int) {
	t.Helper()
	if len(file) < 44 || string(file[:4]) != "RIFF" || string(file[8:16]) != "WAVEfmt " || int(binary.LittleEndian.Uint32(file[40:])) != len(file)-44 {
		t.Fatalf("no whole WAV file: %.44q", file)
	}
	for i := 44; i+1 < len(file); i += 2 {
		samples = append(samples, int16(binary.LittleEndian.Uint16(file[i:])))
	}
	return samples, int(binary.LittleEndian.Uint32(file[24:]))
}

// stream is what ffprobe says of one.
type stream struct {
	CodecType string `json:"codec_type"`
	CodecName string `json:"codec_name"`
	Width     int    `json:"width"`
	Height    int    `json:"height"`
	Frames    string `json:"nb_read_frames"`
}

// probe has ffprobe read and decode a file that this program made.
func probe(t *testing.T, file []byte) (duration float64, streams map[string]stream) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("ffprobe", "-v", "error", "-count_frames", "-show_format", "-show_streams", "-of", "json", path)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ffprobe: %v", err)
	}
	var got struct {
		Format  struct{ Duration string }
		Streams []stream
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	duration, _ = strconv.ParseFloat(got.Format.Duration, 64)
	streams = map[string]stream{}
	for _, s := range got.Streams {
		streams[s.CodecType] = s
	}
	return duration, streams
}

func TestPhoto(t *testing.T) {
	r := newRig(t, &media.Fake{CameraFile: quarterFilm(t)})
	for _, c := range []struct{ args, format, mime string }{
		{`{}`, "jpeg", "image/jpeg"}, {`{"format":"png"}`, "png", "image/png"}, {`{"quality":0.1}`, "jpeg", "image/jpeg"},
	} {
		result, file := r.must(capPhoto, c.args)
		p, format, err := image.Decode(bytes.NewReader(file))
		if err != nil || format != c.format || result["mime"] != c.mime {
			t.Fatalf("%s: %s %v %v", c.args, format, result, err)
		}
		size := p.Bounds().Size()
		if result["width"] != float64(size.X) || result["height"] != float64(size.Y) || size.X*3 != size.Y*4 {
			t.Errorf("%v is %v", result, size)
		}
		for i, want := range quarters {
			at := image.Pt(size.X/4+i%2*size.X/2, size.Y/4+i/2*size.Y/2)
			got := color.YCbCrModel.Convert(p.At(at.X, at.Y)).(color.YCbCr)
			if near(got.Y, want.Y) > 24 || near(got.Cb, want.Cb) > 24 || near(got.Cr, want.Cr) > 24 {
				t.Errorf("%s: quarter %d is %v, want %v", c.args, i, got, want)
			}
		}
		if result["fake"] != true || !strings.HasPrefix(result["backend"].(string), "chrom") {
			t.Errorf("%v does not say what took it", result)
		}
	}
	small, _ := r.must(capPhoto, `{}`)
	id := small["device"].(map[string]any)["id"].(string)
	if again, _ := r.must(capPhoto, `{"device_id":"`+id+`"}`); again["device"].(map[string]any)["id"] != id {
		t.Error(again)
	}
	if err := r.refused(capabilities.CodeSensorMissing, capPhoto, `{"device_id":"none-such"}`); !strings.Contains(err.PublicHint(), id) {
		t.Error(err.PublicHint())
	}
	r.refused(capabilities.CodeSensorMissing, capPhoto, `{"facing_mode":"environment"}`)
	r.must(capPhoto, `{"facing_mode":"user"}`)
}

func near(a, b uint8) int { return max(int(a), int(b)) - min(int(a), int(b)) }

func TestVideo(t *testing.T) {
	r := newRig(t, &media.Fake{CameraFile: quarterFilm(t)})
	for _, c := range []struct{ args, codec, mime string }{
		{`{"duration_ms":1500}`, "vp8", "video/webm;codecs=vp8,opus"},
		{`{"duration_ms":1000,"audio":false,"format":"video/webm;codecs=vp9"}`, "vp9", "video/webm;codecs=vp9"},
	} {
		var seen []capabilities.Progress
		result, file, err := r.call(t.Context(), capVideo, c.args, func(p capabilities.Progress) { seen = append(seen, p) })
		if err != nil {
			t.Fatal(err, err.PublicMessage())
		}
		sounds := strings.HasSuffix(c.mime, "opus")
		// Chrome says which tracks it has in no order of its own.
		if got := result["mime"].(string); len(got) != len(c.mime) || !strings.Contains(got, c.codec) || result["has_audio"] != sounds {
			t.Errorf("%s: %v", c.args, result)
		}
		duration, streams := probe(t, file)
		wanted := seen[len(seen)-1].Total / 1000
		if duration < wanted-0.25 || duration > wanted+5 || math.Abs(duration*1000-result["duration_ms"].(float64)) > 50 {
			t.Errorf("%s: ffprobe says %v s, the result %v", c.args, duration, result["duration_ms"])
		}
		video := streams["video"]
		if video.CodecName != c.codec || float64(video.Width) != result["width"] || float64(video.Height) != result["height"] {
			t.Errorf("%s: %+v, %v", c.args, video, result)
		}
		if frames, _ := strconv.Atoi(video.Frames); frames < 3 {
			t.Errorf("%s: %d frames", c.args, frames)
		}
		if audio, ok := streams["audio"]; ok != sounds || ok && audio.CodecName != "opus" {
			t.Errorf("%s: %+v", c.args, streams)
		}
		if len(seen) < 3 || seen[0].Done > seen[len(seen)-1].Done {
			t.Errorf("%s: progress %v", c.args, seen)
		}
		if info, err := webm.Read(file); err != nil || info.Duration.Seconds() < wanted-0.25 {
			t.Error(info, err)
		}
	}
	r.refused(capabilities.CodeFormatUnsupported, capVideo, `{"format":"video/mp4"}`)
	r.refused(capabilities.CodeInvalidArguments, capVideo, `{"camera":"front","facing_mode":"environment"}`)
}

func TestSound(t *testing.T) {
	r := newRig(t, &media.Fake{MicrophoneFile: toneFile(t)})
	result, file := r.must(capSound, `{"duration_ms":1000}`)
	samples, rate := wavSamples(t, file)
	if result["mime"] != "audio/wav" || result["duration_ms"] != 1000.0 || len(samples) != rate {
		t.Errorf("%v, %d samples at %d", result, len(samples), rate)
	}
	if hz, strong := loudest(samples, rate); math.Abs(hz-440) > 5 || strong < 1000 {
		t.Errorf("%v Hz, amplitude %v", hz, strong)
	}
	for mime, codec := range map[string]string{"audio/flac": "flac", "audio/webm": "opus"} {
		result, file := r.must(capSound, `{"duration_ms":1000,"mime":"`+mime+`"}`)
		duration, streams := probe(t, file)
		if streams["audio"].CodecName != codec || duration < 0.75 || duration > 3 || !strings.HasPrefix(result["mime"].(string), mime) {
			t.Errorf("%s: %v s, %+v, %v", mime, duration, streams, result)
		}
	}
	r.refused(capabilities.CodeFormatUnsupported, capSound, `{"mime":"audio/mpeg"}`)
}

// during begins a recording and calls do once it is on its way, then returns how it ended.
func (r *rig) during(ctx context.Context, do func()) *capabilities.Error {
	r.t.Helper()
	began := make(chan struct{})
	once := sync.OnceFunc(func() { close(began) })
	ended := make(chan *capabilities.Error, 1)
	go func() {
		_, _, err := r.call(ctx, capVideo, `{"duration_ms":300000}`, func(p capabilities.Progress) {
			if p.Done > 0 {
				once()
			}
		})
		ended <- err
	}()
	select {
	case <-began:
	case err := <-ended:
		r.t.Fatal("it ended by itself:", err)
	case <-time.After(60 * time.Second):
		r.t.Fatal("it never began")
	}
	do()
	select {
	case err := <-ended:
		if err == nil {
			r.t.Fatal("it ended well")
		}
		return err
	case <-time.After(60 * time.Second):
		r.t.Fatal("it did not end")
	}
	return nil
}

// One capture at a time; a cancelled one leaves the device to the next, which the same
// browser serves at once.
func TestCancel(t *testing.T) {
	r := newRig(t, &media.Fake{CameraFile: quarterFilm(t)})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := r.during(ctx, func() {
		r.refused(capabilities.CodeSensorBusy, capPhoto, `{}`)
		r.refused(capabilities.CodeSensorBusy, capSound, `{}`)
		cancel()
	})
	if !errors.Is(context.Cause(ctx), context.Canceled) {
		t.Error(err)
	}
	pid := r.chrome().PID()
	r.must(capVideo, `{"duration_ms":250}`)
	if r.chrome().PID() != pid {
		t.Log("the page did not let go in time, and its browser was ended")
	}
}

// A browser that is killed takes the recording with it, and the next call works.
func TestBrowserKilled(t *testing.T) {
	r := newRig(t, &media.Fake{CameraFile: quarterFilm(t)})
	err := r.during(t.Context(), func() { syscall.Kill(r.chrome().PID(), syscall.SIGKILL) })
	if err.Code != capabilities.CodeCaptureBroken {
		t.Error(err)
	}
	r.must(capPhoto, `{}`)
}

// A stop ends a recording and the browser, whatever the page does.
func TestPause(t *testing.T) {
	r := newRig(t, &media.Fake{CameraFile: quarterFilm(t)})
	ctx, stop := context.WithCancelCause(t.Context())
	r.during(ctx, func() {
		stop(&capabilities.Error{Code: capabilities.CodeStopped})
		r.h.Pause(true)
	})
	select {
	case <-r.chrome().Done():
	case <-time.After(30 * time.Second):
		t.Error("the browser is still there")
	}
	r.h.Pause(false)
	r.must(capPhoto, `{}`)
}

// This host has no camera, as CI's have none; what Chrome then says is the real thing.
func TestNoDevice(t *testing.T) {
	if cameras, _ := filepath.Glob("/dev/video*"); len(cameras) > 0 {
		t.Skip("this host has a camera")
	}
	r := newRig(t, nil)
	r.refused(capabilities.CodeSensorMissing, capPhoto, `{}`)
	r.refused(capabilities.CodeSensorMissing, capVideo, `{"duration_ms":250}`)
}

func TestNoBrowser(t *testing.T) {
	r := &rig{t: t}
	backend, err := media.New(media.Options{Finder: chrome.New(chrome.Options{Path: "/nowhere/chrome"}), Launcher: r})
	if err != nil {
		t.Fatal(err)
	}
	r.with(backend)
	r.refused(capabilities.CodeBrowserUnavailable, capPhoto, `{}`)
	for _, ready := range r.h.Readiness(t.Context()) {
		if ready.Reason != capabilities.ReasonBackendMissing || !strings.Contains(ready.Fix, "/nowhere/chrome") {
			t.Errorf("%+v", ready)
		}
	}
}
