package microphone

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/platform"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a real PulseAudio of a test's own: a sink that nobody hears, and a
// microphone that hears what is played there.
type server struct {
	t       *testing.T
	dir     string
	cmd     *exec.Cmd
	kill    func() // once
	backend *Backend
}

const modules = `load-module module-native-protocol-unix auth-anonymous=1 socket=%s
load-module module-null-sink sink_name=room rate=48000 channels=1
load-module module-remap-source master=room.monitor source_name=ear source_properties=device.description=Ear
set-default-source ear
`

func startServer(t *testing.T) *server {
	t.Helper()
	program, err := exec.LookPath("pulseaudio")
	if err != nil {
		t.Fatal("this test needs pulseaudio")
	}
	s := &server{t: t, dir: t.TempDir()}
	socket := filepath.Join(s.dir, "native")
	script := filepath.Join(s.dir, "default.pa")
	if err := os.WriteFile(script, []byte(strings.ReplaceAll(modules, "%s", socket)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.Command(program, "-n", "-F", script, "--daemonize=no", "--exit-idle-time=-1", "--disallow-exit", "--use-pid-file=no", "--log-target=stderr", "--log-level=error")
	s.cmd.Env = append(os.Environ(), "HOME="+s.dir, "XDG_RUNTIME_DIR="+s.dir, "PULSE_RUNTIME_PATH="+filepath.Join(s.dir, "run"), "DBUS_SESSION_BUS_ADDRESS=disabled:", "DBUS_SYSTEM_BUS_ADDRESS=disabled:")
	s.cmd.Stderr = t.Output()
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.kill = sync.OnceFunc(func() { s.cmd.Process.Kill(); s.cmd.Wait() })
	t.Cleanup(s.kill)
	s.backend = New(Options{Server: "unix:" + socket})
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		s.backend.mu.Lock()
		s.backend.looked = time.Time{}
		s.backend.mu.Unlock()
		if l := s.backend.Look(t.Context(), platform.SensorMicrophone); l.Missing == nil && len(l.Devices) > 0 {
			return s
		}
		if time.Now().After(end) {
			t.Fatal("the sound server did not start")
		}
	}
}

// play has a tone played in the room until the test ends, by a foreign program.
func (s *server) play(hz float64) {
	s.t.Helper()
	const rate, seconds = 48000, 120
	raw := make([]byte, 0, 2*rate*seconds)
	for i := range rate * seconds {
		raw = binary.LittleEndian.AppendUint16(raw, uint16(int16(12000*math.Sin(2*math.Pi*hz*float64(i)/rate))))
	}
	file := filepath.Join(s.dir, "tone.raw")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command("pacat", "--playback", "--raw", "--format=s16le", "--rate=48000", "--channels=1", "-d", "room", file)
	cmd.Env = s.env()
	cmd.Stderr = s.t.Output()
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
}

func (s *server) env() []string {
	return append(os.Environ(), "HOME="+s.dir, "PULSE_SERVER=unix:"+filepath.Join(s.dir, "native"))
}

// recorders counts what records at the server, by the server's own account.
func (s *server) recorders() int {
	cmd := exec.Command("pactl", "list", "short", "source-outputs")
	cmd.Env = s.env()
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(out)) {
		if !strings.Contains(line, "module-remap-source") {
			n++
		}
	}
	return n
}

// record collects samples.
func (s *server) record(ctx context.Context, device string, length time.Duration, progress func(time.Duration)) ([]int16, platform.Recording, error) {
	var samples []int16
	r, err := s.backend.Record(ctx, platform.RecordOrder{
		Kind: platform.SensorMicrophone, Device: device, Format: platform.FormatPCM, Duration: length, Progress: progress,
		Write: func(p []byte) error {
			for i := 0; i+1 < len(p); i += 2 {
				samples = append(samples, int16(binary.LittleEndian.Uint16(p[i:])))
			}
			return nil
		},
	})
	return samples, r, err
}

// goertzel is how strong a frequency is, as an amplitude.
func goertzel(samples []int16, hz float64) float64 {
	k := 2 * math.Cos(2*math.Pi*hz/Rate)
	var s1, s2 float64
	for _, s := range samples {
		s1, s2 = float64(s)+k*s1-s2, s1
	}
	return 2 * math.Sqrt(s1*s1+s2*s2-k*s1*s2) / float64(len(samples))
}

func TestTone(t *testing.T) {
	s := startServer(t)
	l := s.backend.Look(t.Context(), platform.SensorMicrophone)
	if !strings.HasPrefix(l.Backend, "PulseAudio ") || len(l.Devices) != 1 || l.Devices[0].ID != "ear" || !l.Devices[0].Default {
		t.Fatalf("%+v: the monitor of a loudspeaker is no microphone", l)
	}
	s.play(440)
	// Until the player plays, the room is silent; how long that is nobody promises.
	for end := time.Now().Add(60 * time.Second); ; {
		some, _, err := s.record(t.Context(), "", 250*time.Millisecond, func(time.Duration) {})
		if err != nil {
			t.Fatal(err)
		}
		if goertzel(some, 440) > 1000 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the tone was never heard")
		}
	}
	told := 0
	samples, r, err := s.record(t.Context(), "ear", 2*time.Second, func(time.Duration) { told++ })
	if err != nil || len(samples) != 2*Rate || r.Rate != Rate || r.Device.ID != "ear" || told < 3 || r.At.IsZero() {
		t.Fatalf("%d samples, %+v, %d times told, %v", len(samples), r, told, err)
	}
	best, amplitude := 0.0, 0.0
	for hz := 400.0; hz <= 480; hz++ {
		if a := goertzel(samples, hz); a > amplitude {
			best, amplitude = hz, a
		}
	}
	if math.Abs(best-440) > 1 || amplitude < 6000 {
		t.Errorf("%v Hz with amplitude %v, want 440 with 12000", best, amplitude)
	}
}

// A recording that is given up, or told to rest, leaves nothing at the server.
func TestCancel(t *testing.T) {
	s := startServer(t)
	for name, end := range map[string]func(cancel context.CancelFunc){
		"cancelled": func(cancel context.CancelFunc) { cancel() },
		"resting":   func(context.CancelFunc) { s.backend.Rest() },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		seen := 0
		_, _, err := s.record(ctx, "", 5*time.Minute, func(time.Duration) {
			if seen++; seen == 3 {
				if s.recorders() != 1 {
					t.Error("the server knows nothing of it")
				}
				go end(cancel)
			}
		})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Error(name, err)
		}
		for end := time.Now().Add(30 * time.Second); s.recorders() > 0; {
			if time.Now().After(end) {
				t.Fatal(name, "and the server still records")
			}
		}
	}
	if _, _, err := s.record(t.Context(), "", 250*time.Millisecond, func(time.Duration) {}); err != nil {
		t.Error(err)
	}
}

func TestFaults(t *testing.T) {
	s := startServer(t)
	var none *platform.NoSensorError
	if _, _, err := s.record(t.Context(), "nose", time.Second, nil); !errors.As(err, &none) || len(none.Have) != 1 || none.Have[0].ID != "ear" {
		t.Error(err)
	}
	// The server dies under a recording.
	seen := 0
	_, _, err := s.record(t.Context(), "", 5*time.Minute, func(time.Duration) {
		if seen++; seen == 3 {
			go s.kill()
		}
	})
	if !errors.Is(err, platform.ErrSensorLost) {
		t.Error(err)
	}
	var missing *platform.MissingError
	if _, _, err := s.record(t.Context(), "", time.Second, nil); !errors.As(err, &missing) || missing.Fix == "" {
		t.Error(err)
	}
	s.backend.mu.Lock()
	s.backend.looked = time.Time{}
	s.backend.mu.Unlock()
	if l := s.backend.Look(t.Context(), platform.SensorMicrophone); l.Missing == nil || l.Listed {
		t.Errorf("%+v", l)
	}
}

// say has a foreign program speak: its samples.
func say(t *testing.T, text string) []int16 {
	t.Helper()
	out, err := exec.Command("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "flite=text='"+text+"'", "-ar", "48000", "-ac", "1", "-f", "s16le", "-").Output()
	if err != nil {
		t.Skipf("no voice here: ffmpeg with flite, as Debian builds it: %v", err)
	}
	spoken := make([]int16, len(out)/2)
	for i := range spoken {
		spoken[i] = int16(binary.LittleEndian.Uint16(out[2*i:]))
	}
	return spoken
}

// alike finds where part is in whole: how alike they are there, from -1 to 1.
func alike(whole, part []int16) float64 {
	at := func(lag, step int) float64 {
		var ab, aa, bb float64
		for i := 0; i < len(part); i += step {
			a, b := float64(whole[lag+i]), float64(part[i])
			ab, aa, bb = ab+a*b, aa+a*a, bb+b*b
		}
		return ab / math.Sqrt(max(aa*bb, 1))
	}
	best := -1.0
	for lag := 0; lag+len(part) <= len(whole); lag++ {
		// A few samples tell most places from the right one.
		if rough := at(lag, 997); rough > 0.5 {
			best = max(best, at(lag, 1))
		}
	}
	return best
}

// Words that are spoken in the room are recorded as they were spoken, sample for sample.
func TestSpeech(t *testing.T) {
	spoken := say(t, "Nine lives, and hands on rails.")
	if len(spoken) < Rate {
		t.Fatalf("%d samples", len(spoken))
	}
	s := startServer(t)
	file := filepath.Join(s.dir, "speech.raw")
	raw := make([]byte, 0, 2*len(spoken))
	for _, v := range spoken {
		raw = binary.LittleEndian.AppendUint16(raw, uint16(v))
	}
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	// On a busy machine the player may be late or out of breath: it speaks anew then.
	like := 0.0
	for end := time.Now().Add(90 * time.Second); like < 0.98; {
		if time.Now().After(end) {
			t.Fatalf("what was recorded is %.3f like what was spoken", like)
		}
		speak := exec.Command("pacat", "--playback", "--raw", "--format=s16le", "--rate=48000", "--channels=1", "-d", "room", file)
		speak.Env, speak.Stderr = s.env(), t.Output()
		var begun error
		begin := sync.OnceFunc(func() { begun = speak.Start() })
		length := time.Duration(len(spoken))*time.Second/Rate + 2*time.Second
		samples, _, err := s.record(t.Context(), "", length, func(time.Duration) { begin() })
		begin()
		if err != nil || begun != nil {
			t.Fatal(err, begun)
		}
		_ = speak.Process.Kill()
		_ = speak.Wait()
		like = alike(samples, spoken)
	}
	t.Logf("%.4f alike", like)
}
