package satellites

import (
	"bytes"
	"image"
	_ "image/jpeg"
	_ "image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// speaks runs an example of docs/satellites.md: it joins by the code on standard input, serves, and
// comes in again by its identity.
func (h *house) speaks(name string, program string, args ...string) {
	t := h.T.(*testing.T)
	t.Helper()
	dir := t.TempDir()
	begin := func(in string) *exec.Cmd {
		c := exec.Command(program, args...)
		c.Dir, c.Stdin, c.Stderr, c.Stdout = dir, strings.NewReader(in), testLog{t}, testLog{t}
		c.Env = append(os.Environ(), "NODE_PATH=")
		must(t, c.Start())
		t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
		return c
	}
	first := begin(h.invite(name))
	tool := capabilities.ToolID("tool." + name + ".echo")
	p := h.approve(name)
	h.callable(tool)
	r := h.call(tool, `{"text":"from elsewhere: ä"}`, "")
	want(t, r, capabilities.StatusOK, "")
	if !strings.Contains(string(r.Output), "from elsewhere: ä") {
		t.Errorf("%s", r.Output)
	}
	must(t, first.Process.Kill())
	_ = first.Wait()
	ended := time.Now()
	begin("")
	within(t, "it to come again", func() bool {
		v, err := h.Gateway.Bus.View(p.Host)
		return err == nil && v.Seen.After(ended)
	})
	want(t, h.call(tool, `{"text":"again"}`, ""), capabilities.StatusOK, "")
	within(t, "a heartbeat with a MAC", func() bool {
		v, err := h.Gateway.Bus.View(p.Host)
		return err == nil && v.Keyed
	})
}

// The wire format can be spoken from Python with nothing but a socket and a library for signatures.
func TestPythonSpeaks(t *testing.T) {
	t.Parallel()
	desk.Need(t, "python3")
	h := start(t, nil)
	script, err := filepath.Abs("../../examples/satellites/echo.py")
	must(t, err)
	h.speaks("python", "/usr/bin/python3", script, "python")
}

// The same from Node with NATS's own client, where '.ci/conformance' installed it.
func TestJavaScriptSpeaks(t *testing.T) {
	t.Parallel()
	packages := os.Getenv("HANDRAIL_CONFORMANCE")
	if packages == "" {
		t.Skip("needs Node.js packages: run make conformance")
	}
	h := start(t, nil)
	dir := t.TempDir()
	script, err := os.ReadFile("../../examples/satellites/echo.mjs")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "echo.mjs"), script, 0o600))
	must(t, os.Symlink(filepath.Join(packages, "node_modules"), filepath.Join(dir, "node_modules")))
	node := filepath.Join(packages, "node_modules", ".bin", "node")
	if _, err := os.Stat(node); err != nil {
		node = "node"
	}
	h.speaks("node-js", node, filepath.Join(dir, "echo.mjs"), "node-js")
}

// The domains that are shipped (S3-36): voice by espeak-ng, pictures by ImageMagick, each through
// the adapter of the built program, behind its walls.
func TestShippedSatellites(t *testing.T) {
	t.Parallel()
	desk.Need(t, "espeak-ng", "convert")
	program := filepath.Join(t.TempDir(), "handrail")
	site.Program(t, program)
	h := start(t, nil)
	data, pictures := t.TempDir(), t.TempDir()
	for _, s := range []struct {
		name string
		args []string
	}{
		{"voice", []string{"--", "espeak-ng"}},
		{"image", []string{"--read", pictures, "--", "/usr/bin/convert"}},
	} {
		join := exec.Command(program, "satellite", "join", s.name, "--data", data)
		join.Stdin, join.Stderr = strings.NewReader(h.invite(s.name)), testLog{t}
		must(t, join.Run())
		run := exec.Command(program, append([]string{"satellite", "run", s.name, "--data", data, "--manifest", "../../examples/satellites/" + s.name + ".json"}, s.args...)...)
		run.Stderr = testLog{t}
		must(t, run.Start())
		t.Cleanup(func() { _ = run.Process.Signal(os.Interrupt); _ = run.Wait() })
		h.approve(s.name)
	}
	h.callable("tool.voice.tts")
	sound := h.call("tool.voice.tts", `{"text":"Good morning","voice":"en","words_per_minute":160}`, "")
	want(t, sound, capabilities.StatusOK, "")
	if len(sound.Blobs) != 1 || !strings.HasPrefix(string(sound.Blobs[0].Bytes), "RIFF") || len(sound.Blobs[0].Bytes) < 10_000 || sound.Blobs[0].MIME != "audio/wav" {
		t.Errorf("speech: %d blobs", len(sound.Blobs))
	}
	h.callable("tool.image.generate")
	made := h.call("tool.image.generate", `{"width":320,"height":100,"from":"navy","to":"#ff8800","points":24,"text":"Handrail"}`, "")
	want(t, made, capabilities.StatusOK, "")
	if len(made.Blobs) != 1 {
		t.Fatalf("picture: %d blobs", len(made.Blobs))
	}
	size, kind, err := image.DecodeConfig(bytes.NewReader(made.Blobs[0].Bytes))
	if err != nil || kind != "png" || size.Width != 320 || size.Height != 100 {
		t.Errorf("a %s of %dx%d (%v)", kind, size.Width, size.Height, err)
	}
	must(t, os.WriteFile(filepath.Join(pictures, "a.png"), made.Blobs[0].Bytes, 0o600))
	turned := h.call("tool.image.convert", `{"file":"a.png","format":"jpeg","width":100,"height":100}`, "")
	want(t, turned, capabilities.StatusOK, "")
	if len(turned.Blobs) != 1 {
		t.Fatalf("converted: %d blobs", len(turned.Blobs))
	}
	if size, kind, err = image.DecodeConfig(bytes.NewReader(turned.Blobs[0].Bytes)); err != nil || kind != "jpeg" || size.Width != 100 {
		t.Errorf("a %s of %dx%d (%v)", kind, size.Width, size.Height, err)
	}
	// Words that ImageMagick would read a file by are refused before it runs.
	for _, bad := range []string{`"text":"@/etc/passwd","from":"blue"`, `"text":"%f","from":"blue"`, `"text":"a","from":"-write"`} {
		r := h.call("tool.image.generate", `{"width":320,"height":100,"to":"red","points":24,`+bad+`}`, "")
		want(t, r, capabilities.StatusError, capabilities.CodeInvalidArguments)
	}
	want(t, h.call("tool.image.convert", `{"file":"/etc/hostname","format":"png","width":1,"height":1}`, ""), capabilities.StatusError, capabilities.CodeInvalidArguments)
}
