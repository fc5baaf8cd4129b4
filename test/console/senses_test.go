//go:build linux

package console

import (
	"bytes"
	"context"
	"fmt"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/agent/media"
	"github.com/handrail-dev/handrail/capabilities"
	hands "github.com/handrail-dev/handrail/capabilities/browser"
	sensors "github.com/handrail-dev/handrail/capabilities/browser/media"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/chrome"
	"github.com/handrail-dev/handrail/platform/microphone"
	"github.com/handrail-dev/handrail/platform/procguard"
	x "github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// hearing has the page analyse what it hears: which frequency is loudest, how far the
// samples of the last seven tenths of a second went (1 is the most there is), and what
// WebRTC says of them.
const hearing = `whep.listen = () => {
  const c = new AudioContext(), a = c.createAnalyser();
  a.fftSize = 16384; a.smoothingTimeConstant = 0;
  c.createMediaStreamSource(whep.video.srcObject).connect(a);
  const b = c.createAnalyser();
  b.fftSize = 32768;
  a.connect(b);
  c.resume();
  whep.peak = () => {
    const all = new Float32Array(b.fftSize);
    b.getFloatTimeDomainData(all);
    return all.reduce((most, v) => Math.max(most, Math.abs(v)), 0);
  };
  whep.arrived = async () => JSON.stringify([c.state, c.currentTime, [...(await whep.pc.getStats()).values()].filter((s) => s.type == "inbound-rtp")]);
  whep.loudest = () => {
    const all = new Float32Array(a.frequencyBinCount);
    a.getFloatFrequencyData(all);
    let at = 0;
    for (let i = 1; i < all.length; i++) if (all[i] > all[at]) at = i;
    return { hz: at * c.sampleRate / a.fftSize, db: all[at] };
  };
}; true`

// startSensed is a site with a node that has those sensors and no screen.
func startSensed(t *testing.T, backends ...platform.Sensors) *watched {
	t.Helper()
	s := site.Start(t, site.Options{ApprovalWait: 10 * time.Minute, Rules: watchRules, Door: atThePlace(t)})
	h, err := media.New(media.Options{Sensors: backends})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	w := &watched{desk: &desk{Site: s, t: t, ctx: ctx}}
	w.node = s.AddNode("study", h)
	w.node.AwaitReady()
	w.token = s.MustToken("ann", principal.RoleOperator)
	return w
}

// madeUp is Chrome's media stack with the devices that it makes up.
func madeUp(t *testing.T) platform.Sensors {
	t.Helper()
	finder := chrome.New(chrome.Options{})
	found, err := finder.Find(t.Context())
	if err != nil {
		t.Skipf("no Chrome here: %v", err)
	}
	o := sensors.Options{Finder: finder, Launcher: procguard.New(procguard.Options{}), Fake: &sensors.Fake{}}
	if found.NoSandbox != "" {
		o.Sandbox = hands.SandboxOff
	}
	b, err := sensors.New(o)
	must(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// sense has Chrome see or hear a source, and returns the session's address.
func (w *watched) sense(source, kind string) string {
	w.t.Helper()
	w.browser.open(w.URL() + "/healthz")
	must(w.t, w.run(receiver, nil))
	must(w.t, w.run(fmt.Sprintf("whep.kind = %q", kind), nil))
	var offer string
	must(w.t, w.run("whep.offer()", &offer))
	answer, body := w.whep("POST", fmt.Sprintf("/v1/live/%s/%s/whep", w.node.ID, source), "application/sdp", offer)
	if answer.StatusCode != 201 {
		w.t.Fatalf("POST: %d %s", answer.StatusCode, body)
	}
	must(w.t, w.run(fmt.Sprintf("whep.take(%q)", body), nil))
	return answer.Header.Get("Location")
}

// over holds that a session ends, with its beginning and its end in the ledger.
func (w *watched) over(at, source string) {
	w.t.Helper()
	if answer, body := w.whep("DELETE", at, "", ""); answer.StatusCode != 200 {
		w.t.Fatalf("DELETE: %d %s", answer.StatusCode, body)
	}
	x.Await(w.t, "the ledger to have the beginning and end", func() bool {
		kinds := map[string]int{}
		for _, p := range w.packets(capabilities.ToolID("tool.live." + source)) {
			kinds[string(p.Kind)]++
		}
		return kinds["tool.call.dispatch"] == 1 && kinds["tool.call.failed"] == 1
	})
	x.Await(w.t, "nobody to watch", func() bool { return len(w.Live.Watching(w.node.ID)) == 0 })
}

// startSound is startRoom, and the microphone there, with how many listen to it by the
// server's own account.
func startSound(t *testing.T, hz int) (ear platform.Sensors, listeners func() int) {
	t.Helper()
	address, env := startRoom(t, hz)
	ear = microphone.New(microphone.Options{Server: address})
	t.Cleanup(func() { _ = ear.Close() })
	return ear, func() (n int) {
		list := exec.Command("pactl", "list", "short", "source-outputs")
		list.Env = env
		out, err := list.Output()
		must(t, err)
		for line := range strings.Lines(string(out)) {
			if !strings.Contains(line, "module-remap-source") {
				n++
			}
		}
		return n
	}
}

// startRoom is a real PulseAudio of the test's own, in whose only room a tone sounds: its
// address, and the environment of its clients.
func startRoom(t *testing.T, hz int) (address string, env []string) {
	t.Helper()
	dir := t.TempDir()
	address = "unix:" + filepath.Join(dir, "native")
	script := filepath.Join(dir, "default.pa")
	must(t, os.WriteFile(script, fmt.Appendf(nil, `load-module module-native-protocol-unix auth-anonymous=1 socket=%s
load-module module-null-sink sink_name=room rate=48000 channels=1
load-module module-sine sink=room frequency=%d
load-module module-remap-source master=room.monitor source_name=ear source_properties=device.description=Ear
set-default-source ear
`, filepath.Join(dir, "native"), hz), 0o600))
	env = append(os.Environ(), "HOME="+dir, "XDG_RUNTIME_DIR="+dir, "PULSE_RUNTIME_PATH="+filepath.Join(dir, "run"), "PULSE_SERVER="+address,
		"DBUS_SESSION_BUS_ADDRESS=disabled:", "DBUS_SYSTEM_BUS_ADDRESS=disabled:")
	server := exec.Command("pulseaudio", "-n", "-F", script, "--daemonize=no", "--exit-idle-time=-1", "--disallow-exit", "--use-pid-file=no", "--log-target=stderr", "--log-level=error")
	server.Env, server.Stderr = env, t.Output()
	if err := server.Start(); err != nil {
		t.Fatalf("this test needs pulseaudio: %v", err)
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	x.Await(t, "the sound server", func() bool {
		ear := microphone.New(microphone.Options{Server: address})
		defer ear.Close()
		l := ear.Look(t.Context(), platform.SensorMicrophone)
		return l.Missing == nil && len(l.Devices) == 1
	})
	return address, env
}

// A tone in a room is heard from afar as the tone it is, by no browser of the node's; and
// nobody listens any more when the viewer goes.
func TestToneLive(t *testing.T) {
	const hz = 440
	ear, listeners := startSound(t, hz)
	w := startSensed(t, ear)
	w.browser = startChrome(t)
	w.Grant("ann", w.node, "tool.live.microphone")
	at := w.sense("microphone", "audio")
	must(t, w.run(hearing, nil))
	must(t, w.run("whep.listen()", nil))
	w.await(fmt.Sprintf("((l) => l.db > -50 && Math.abs(l.hz - %d) < 6)(whep.loudest())", hz))
	var codec string
	must(t, w.run(`whep.pc.getStats().then((s) => { for (const x of s.values()) if (x.type === "codec") return x.mimeType; return "" })`, &codec))
	if codec != "audio/PCMU" {
		t.Errorf("it came as %q", codec)
	}
	if n := listeners(); n != 1 {
		t.Errorf("%d listen while one does", n)
	}
	w.over(at, "microphone")
	x.Await(t, "nobody to listen", func() bool { return listeners() == 0 })
}

// A camera and a microphone, live in a real Chrome, by another Chrome's encoders: each
// asked for by itself, shown, heard, and over when the viewer goes.
func TestCameraAndMicrophoneLive(t *testing.T) {
	w := startSensed(t, madeUp(t))
	w.browser = startChrome(t)
	w.Grant("ann", w.node, "tool.live.camera")
	at := w.sense("camera", "video")
	w.await("whep.frames > 5 && whep.video.videoWidth >= 640")
	if list := w.Live.Watching(w.node.ID); len(list) != 1 || list[0].Source != "camera" {
		t.Errorf("who watches: %+v", list)
	}
	var shown bytes.Buffer
	must(t, png.Encode(&shown, w.shown()))
	if uniform(t, shown.Bytes()) {
		t.Error("the camera's picture has no colours: Chrome's test pattern has")
	}
	w.over(at, "camera")

	w.Grant("ann", w.node, "tool.live.microphone")
	at = w.sense("microphone", "audio")
	must(t, w.run(hearing, nil))
	must(t, w.run("whep.listen()", nil))
	defer func() {
		var arrived string
		if t.Failed() && w.run("whep.arrived()", &arrived) == nil {
			t.Log(arrived)
		}
	}()
	w.await("whep.peak() > 0.01") // Chrome's made-up microphone beeps twice a second
	w.over(at, "microphone")
}
