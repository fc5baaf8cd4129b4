package console

import (
	"bytes"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/gateway/ledger"
	screen "github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// A person alone with one machine, by the built program: they see their own camera in the
// console at once, and what they ask for on the command line, as the documents show it, they
// allow there themselves. The ledger says that it was the owner, and how they were known.
func TestAPersonAloneUsesTheirOwnDevice(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a Chrome and the program")
	}
	d := screen.StartX(t, screen.Options{})
	home := t.TempDir()
	w := &walk{program: filepath.Join(home, "handrail"), env: append(d.Env, "HOME="+home, "HANDRAIL_DATA="+filepath.Join(home, "site"), "PATH="+os.Getenv("PATH"), "TMPDIR="+os.TempDir())}
	w.browser = &browser{t: t}
	site.Program(t, w.program)
	must(t, os.MkdirAll(filepath.Join(home, "site", "node"), 0o700))
	must(t, os.WriteFile(filepath.Join(home, "site", "node", "node.json"), []byte(`{"version": 1, "location": {"enabled": true, "fixed": {"latitude": 48.8566, "longitude": 2.3522, "accuracy_m": 20}}}`), 0o600))
	w.start("up", "--browser-sandbox", "auto", "--no-task", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--fake-sensors", "--json")
	type own struct {
		ID    string `json:"node_id"`
		Owner string `json:"owner"`
		paired
	}
	var device own
	screen.Await(t, "the machine's own node", func() bool {
		if _, err := os.Stat(filepath.Join(home, "site", "gateway", "gateway.json")); err != nil {
			return false
		}
		ready := 0
		for _, n := range records[own](w, "nodes") {
			device = n
			for _, c := range n.Capabilities {
				if c.Available && (c.Tool == "tool.camera.capture-photo" || c.Tool == "tool.live.camera" || c.Tool == "tool.location.get") {
					ready++
				}
			}
		}
		return ready == 3
	})
	if device.Owner != "admin" {
		t.Errorf("it is %q's", device.Owner)
	}
	link := w.command("", "login")
	w.browser = startChrome(t)
	w.open(link)
	w.await(`location.pathname === "/console/" && document.readyState === "complete"`)
	origin := w.value("location.origin")

	// Live, in the console: their press is the word.
	w.open(origin + "/console/live/" + device.ID + "?source=camera")
	must(t, w.run(`document.getElementById("watch").click()`, nil))
	w.await(`document.getElementById("screen").videoWidth > 0 && document.getElementById("watch-state").textContent === "Live."`)
	if n := w.value(`document.querySelectorAll("[data-question]").length`); n != "0" {
		t.Errorf("%s questions wait", n)
	}
	must(t, w.run(`document.getElementById("watch").click()`, nil))

	// On the command line: what waits says where to answer it, and its owner does.
	asks := func(args ...string) (*bytes.Buffer, <-chan error) {
		cmd := exec.Command(w.program, append([]string{"call"}, args...)...)
		var out bytes.Buffer
		said := filepath.Join(t.TempDir(), "said")
		errs, err := os.Create(said)
		must(t, err)
		defer errs.Close()
		cmd.Env, cmd.Stdout, cmd.Stderr = w.env, &out, errs
		must(t, cmd.Start())
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		screen.Await(t, "the command to say who answers", func() bool {
			text, err := os.ReadFile(said)
			return err == nil && strings.Contains(string(text), "the device is yours, so allow it in the console, http://localhost:")
		})
		return &out, done
	}
	allow := func(name string, done <-chan error) {
		t.Helper()
		w.open(origin + "/console/approvals")
		w.await(`document.querySelectorAll("[data-question]").length === 1 && !("settling" in document.body.dataset)`)
		page := w.value(`document.querySelector("[data-question]").innerText`)
		if !strings.Contains(page, "You asked for this yourself, and the device is yours") || strings.Contains(page, "5 minutes") {
			t.Errorf("the question says: %s", page)
		}
		for _, width := range []int{1280, 390} {
			w.look(width, 844, false)
			w.shot("own-" + name + map[int]string{1280: "-wide", 390: "-narrow"}[width])
		}
		w.look(1280, 800, false)
		w.await(`document.querySelectorAll("[data-question] button[value=call]").length === 1 && !("settling" in document.body.dataset)`)
		must(t, w.run(acknowledged+`document.querySelector("[data-question] button[value=call]").click()`, nil))
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(within):
			t.Fatalf("the call does not end: %s", w.value("document.body.innerText"))
		}
	}
	shots := filepath.Join(home, "shots")
	_, done := asks("tool.camera.capture-photo", "--arg", "format=png", "--out", shots)
	allow("photo", done)
	files, err := filepath.Glob(filepath.Join(shots, "*"))
	must(t, err)
	if len(files) != 1 {
		t.Fatalf("files: %v", files)
	}
	picture, err := os.ReadFile(files[0])
	must(t, err)
	if _, err := png.DecodeConfig(bytes.NewReader(picture)); err != nil {
		t.Errorf("the photo: %v", err)
	}
	out, done := asks("tool.location.get", "--arg", "enable_high_accuracy=true")
	allow("place", done)
	if !strings.Contains(out.String(), "48.8566") {
		t.Errorf("the position: %s", out)
	}

	grants := 0
	for _, p := range records[ledger.Packet](w, "ledger", "show", "--limit", "1000") {
		if string(p.Kind) != "gateway.grant.made" || strings.Contains(string(p.Body), "tool.live.trickle") || // that goes with the view
			strings.Contains(string(p.Body), "tool.admin.") || strings.Contains(string(p.Body), "tool.policy.") { // admin work
			continue
		}
		if body := string(p.Body); p.Principal != "admin" || !strings.Contains(body, `"via":"owner"`) || !strings.Contains(body, `"known_by":"link"`) || !strings.Contains(body, `"kind":"call"`) {
			t.Errorf("the ledger says of %s: %s", p.Principal, body)
		}
		grants++
	}
	if grants != 3 {
		t.Errorf("%d grants", grants)
	}
	w.command("", "ledger", "verify")

	// While an agent has the mouse of this machine, nobody can tell who presses here: the camera
	// stays off, and the page offers no way to allow it.
	w.command("", "grant", "give", "agent", "tool.desktop.*", "--for", "10m")
	w.open(origin + "/console/live/" + device.ID + "?source=camera")
	must(t, w.run(`document.getElementById("watch").click()`, nil))
	w.await(`document.querySelectorAll("[data-question]").length === 1 && !("settling" in document.body.dataset)`)
	if page := w.value(`document.querySelector("[data-question]").innerText`); !strings.Contains(page, "gent may use mouse, keyboard or browser of this machine") || strings.Contains(page, "Allow") {
		t.Errorf("the question says: %s", page)
	}
	w.shot("own-lent")
	if seen := w.value(`document.getElementById("screen").videoWidth`); seen != "0" {
		t.Errorf("there is a picture, %s wide", seen)
	}
	must(t, w.run(`document.querySelector("[data-question] button[value=deny]").click()`, nil))
	w.await(`document.querySelectorAll("[data-question]").length === 0`)
}
