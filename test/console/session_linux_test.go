package console

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"image/png"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger"
	screen "github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

const (
	// heardFor is how long the agent records: ten seconds would show nothing more.
	heardFor = 2 * time.Second
	// roomTone is what sounds in the room, in Hz.
	roomTone = 440
)

// records runs a command with --json, and returns the objects that it printed.
func records[T any](w *walk, args ...string) []T {
	w.t.Helper()
	var all []T
	for line := range strings.Lines(w.command("", append(args, "--json")...)) {
		var one T
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			w.t.Fatalf("handrail %s printed %q: %v", strings.Join(args, " "), line, err)
		}
		all = append(all, one)
	}
	return all
}

// paired is a node as the command line lists it.
type paired struct {
	ID           capabilities.NodeID `json:"node_id"`
	Label        string              `json:"label"`
	State        string              `json:"state"`
	Capabilities []struct {
		Tool      capabilities.ToolID `json:"tool_id"`
		Available bool                `json:"available"`
	} `json:"capabilities"`
}

// pairs lets a device in whose data is in that folder, writes its owner's settings, and has
// it run with those flags; it returns once these tools of it can be used.
func (w *walk) pairs(device, settings string, flags []string, tools ...capabilities.ToolID) capabilities.NodeID {
	w.t.Helper()
	label := filepath.Base(device)
	paste := records[struct{ Paste string }](w, "pair", "--label", label, "--trust", "local", "--no-wait")[0].Paste
	join := exec.Command(w.program, "node", "join", "--data", device)
	join.Env, join.Stdin = w.env, strings.NewReader(paste+"\n")
	joined := make(chan error, 1)
	go func() { joined <- join.Run() }()
	var one paired
	here := func(state string) bool {
		all := records[paired](w, "nodes")
		i := slices.IndexFunc(all, func(n paired) bool { return n.Label == label && n.State == state })
		if i >= 0 {
			one = all[i]
		}
		return i >= 0
	}
	screen.Await(w.t, label+" to join", func() bool { return here("pending") })
	w.command("", "node", "approve", string(one.ID))
	select {
	case err := <-joined:
		must(w.t, err)
	case <-time.After(within):
		w.t.Fatalf("%s was let in and does not know", label)
	}
	if settings != "" {
		must(w.t, os.WriteFile(filepath.Join(device, "node", "node.json"), []byte(settings), 0o600))
	}
	w.start(append([]string{"node", "--data", device, "--json"}, flags...)...)
	screen.Await(w.t, label+" to be ready", func() bool {
		if !here("approved") {
			return false
		}
		usable := 0
		for _, c := range one.Capabilities {
			if c.Available && slices.Contains(tools, c.Tool) {
				usable++
			}
		}
		return usable == len(tools)
	})
	return one.ID
}

// file returns the one file of a result, by MCP, and its hash.
func file(t *testing.T, bot *site.Agent, r site.Told) (data []byte, sum string) {
	t.Helper()
	if r.Code != "" || len(r.Links) != 1 {
		t.Fatalf("%+v", r)
	}
	got, err := bot.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: r.Links[0].URI})
	must(t, err)
	data = got.Contents[0].Blob
	hash := sha256.Sum256(data)
	if sum = hex.EncodeToString(hash[:]); r.Links[0].URI != "handrail://artifact/"+sum {
		t.Errorf("%s has the hash %s", r.Links[0].URI, sum)
	}
	return data, sum
}

// allows answers the one question that waits, which has to be about that tool and device.
func (w *walk) allows(tool capabilities.ToolID, label string, flags ...string) {
	w.t.Helper()
	type question struct {
		ID    string              `json:"approval"`
		Who   string              `json:"principal"`
		Tool  capabilities.ToolID `json:"tool"`
		Label string              `json:"node_label"`
	}
	var all []question
	screen.Await(w.t, "the question about "+string(tool), func() bool {
		all = records[question](w, "approvals")
		return len(all) == 1
	})
	if q := all[0]; q.Who != "bot" || q.Tool != tool || q.Label != label {
		w.t.Errorf("the owner is asked %+v, of %s on %s", q, tool, label)
	}
	w.command("", append([]string{"approve", all[0].ID, "--acknowledge", "--reason", "the walk"}, flags...)...)
}

// loud is how strong a frequency is in a WAV file of 16 bits and one channel, as a part of
// all that is in it.
func loud(t *testing.T, wav []byte, hz float64) (part float64, length time.Duration) {
	t.Helper()
	at := bytes.Index(wav, []byte("data"))
	if !bytes.HasPrefix(wav, []byte("RIFF")) || at < 36 {
		t.Fatalf("no WAV: %.40q", wav)
	}
	rate := float64(binary.LittleEndian.Uint32(wav[24:]))
	samples := wav[at+8:]
	var s1, s2, all float64
	n := len(samples) / 2
	k := 2 * math.Cos(2*math.Pi*hz/rate)
	for i := range n {
		v := float64(int16(binary.LittleEndian.Uint16(samples[2*i:])))
		s1, s2 = v+k*s1-s2, s1
		all += v * v
	}
	return 2 * (s1*s1 + s2*s2 - k*s1*s2) / (all*float64(n) + 1), time.Duration(float64(n) / rate * float64(time.Second))
}

// This is the purpose of camera, microphone, position and live view, as one walk by the built
// program: an agent asks through MCP for a photo, for sound and for where the device is; the owner
// approves each; the files arrive and are what their hashes say; an operator watches the desktop
// live, sees where the agent acts, takes over, hands back; and the ledger tells all of it, hashes
// included. There is no camera here, so a second device makes one up; the sound is a real
// PulseAudio's.
func TestADeviceSeesHearsAndIsWatched(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a desktop, a Chrome, PulseAudio and the program")
	}
	d := screen.StartX(t, screen.Options{})
	sound, _ := startRoom(t, roomTone)
	home := t.TempDir()
	w := &walk{program: filepath.Join(home, "handrail"), env: append(d.Env, "HOME="+home, "HANDRAIL_DATA="+filepath.Join(home, "site"), "PATH="+os.Getenv("PATH"), "PULSE_SERVER="+sound,
		"TMPDIR="+os.TempDir())} // where root runs a node its browsers have an account of their own, which has to get there
	w.browser = &browser{t: t}
	site.Program(t, w.program)
	gateway := exec.Command(w.program, "gateway", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--json")
	gateway.Env = w.env
	screen.Stay(t, gateway)
	// The operator signs in before the agent has the desktop from which they do.
	link := w.command("", "login")
	w.browser = startChrome(t)
	w.open(link)
	w.await(`location.pathname === "/console/" && document.readyState === "complete"`)
	const photo, record, position = capabilities.ToolID("tool.camera.capture-photo"), capabilities.ToolID("tool.audio.record"), capabilities.ToolID("tool.location.get")
	const mouse, keyboard = capabilities.ToolID("tool.desktop.mouse"), capabilities.ToolID("tool.desktop.keyboard")
	laptop := w.pairs(filepath.Join(home, "laptop"), `{"version": 1, "location": {"enabled": true, "fixed": {"latitude": 48.8566, "longitude": 2.3522, "accuracy_m": 20}}}`, nil, record, position, mouse, keyboard)
	tablet := w.pairs(filepath.Join(home, "tablet"), "", []string{"--fake-sensors", "--desktop", "off"}, photo)

	bot := site.StartAgent(t, w.program, w.env, w.command("", "token", "create", "bot"))

	// A photo, sound and the position: each asked for, each approved, each arrives.
	seeing := bot.Asks("tool_camera_capture_photo", map[string]any{"format": "png", "node_id": string(tablet)})
	w.allows(photo, "tablet")
	saw := bot.Ends("the photo", seeing)
	picture, pictureHash := file(t, bot, saw)
	if _, err := png.DecodeConfig(bytes.NewReader(picture)); err != nil || uniform(t, picture) {
		t.Errorf("the photo shows nothing: %v", err)
	}
	hearing := bot.Asks("tool_audio_record", map[string]any{"duration_ms": heardFor.Milliseconds(), "node_id": string(laptop)})
	w.allows(record, "laptop")
	heard := bot.Ends("the sound", hearing)
	wav, wavHash := file(t, bot, heard)
	if part, length := loud(t, wav, roomTone); part < .9 || length < heardFor-50*time.Millisecond || length > heardFor+time.Second {
		t.Errorf("%v of sound, %.2f of it the tone of the room", length, part)
	}
	asking := bot.Asks("tool_location_get", map[string]any{"node_id": string(laptop)})
	w.allows(position, "laptop")
	where := bot.Ends("the position", asking)
	if where.Code != "" || !strings.Contains(where.Output, "48.8566") || !strings.Contains(where.Output, `"fixed"`) {
		t.Errorf("the position: %+v", where)
	}
	for hash, want := range map[string][]byte{pictureHash: picture, wavHash: wav} {
		file := filepath.Join(home, hash)
		w.command("", "artifacts", "get", hash, "--out", file)
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("the owner gets %d other bytes than the agent (%v)", len(got), err)
		}
	}

	// The laptop is the operator's own: while no agent has hands on it, their press is the
	// word that policy asks for.
	w.command("", "node", "owner", string(laptop), "admin")
	w.open(w.value("location.origin") + "/console/live/" + string(laptop))
	must(t, w.run(`document.getElementById("watch").click()`, nil))
	w.await(`document.getElementById("screen").videoWidth > 0 && document.getElementById("watch-state").textContent === "Live."`)
	screen.Await(t, "the person at the device to be told", func() bool {
		return strings.Contains(w.command("", "node", "status", "--data", filepath.Join(home, "laptop")), " watches your screen, live")
	})

	// The agent works on the desktop; they see where.
	window, lines := d.Xterm()
	d.Activate(window.Window.ID)
	typing := bot.Asks("tool_desktop_keyboard", map[string]any{"action": "type", "text": "from the agent\n", "node_id": string(laptop)})
	w.allows(keyboard, "laptop", "--for", "15m", "--family")
	if r := bot.Ends("the typing", typing); r.Code != "" {
		t.Fatalf("the typing: %+v", r)
	}
	screen.Await(t, "what the agent typed", func() bool { return slices.Equal(lines(), []string{"from the agent"}) })
	moving := bot.Asks("tool_desktop_mouse", map[string]any{"action": "move", "x": 200, "y": 120, "duration_ms": 600_000, "node_id": string(laptop)})
	w.await(marked(200, 120, 0, 0, "bot: tool.desktop.mouse"))

	// They take over from it, type a line, and hand back.
	must(t, w.run(`document.getElementById("take").click()`, nil))
	moved := bot.Ends("the agent's move", moving)
	if moved.Code != capabilities.CodeTakenOver {
		t.Errorf("the agent's move ended as %+v", moved)
	}
	w.await(`document.activeElement.id === "surface" && document.querySelectorAll(".mark").length === 0`)
	for _, key := range []string{"h", "a", "n", "d", "Enter"} {
		w.key(key)
	}
	screen.Await(t, "what the operator typed", func() bool { return slices.Equal(lines(), []string{"from the agent", "hand"}) })
	waiting := bot.Asks("tool_desktop_keyboard", map[string]any{"action": "type", "text": "again\n", "node_id": string(laptop)})
	must(t, w.run(`document.getElementById("take").click()`, nil))
	again := bot.Ends("the agent's typing after that", waiting)
	if again.Code != "" {
		t.Errorf("after it was handed back: %+v", again)
	}
	screen.Await(t, "what the agent typed after that", func() bool { return slices.Equal(lines(), []string{"from the agent", "hand", "again"}) })
	must(t, w.run(`document.getElementById("watch").click()`, nil))
	w.quiet()

	// The ledger tells it.
	var packets []ledger.Packet
	told := func(call capabilities.CallID, kind string) string {
		t.Helper()
		i := slices.IndexFunc(packets, func(p ledger.Packet) bool { return p.Call == call && string(p.Kind) == kind })
		if i < 0 {
			t.Errorf("the ledger has no %s of call %q", kind, call)
			return ""
		}
		if packets[i].Principal != "bot" {
			t.Errorf("%s of call %s is told of %s", kind, call, packets[i].Principal)
		}
		return string(packets[i].Body)
	}
	kinds := func(principal capabilities.PrincipalID, tool capabilities.ToolID) (all []string) {
		for _, p := range packets {
			if p.Tool == tool && (principal == "" || p.Principal == principal) && strings.HasPrefix(string(p.Kind), "tool.call.") {
				all = append(all, string(p.Kind))
			}
		}
		return all
	}
	screen.Await(t, "the end of the view in the ledger", func() bool {
		packets = records[ledger.Packet](w, "ledger", "show", "--limit", "1000")
		return slices.Contains(kinds("", "tool.live.screen"), "tool.call.failed") && slices.Contains(kinds("", "tool.live.control"), "tool.call.failed")
	})
	for _, call := range []struct {
		of   site.Told
		hash string
		size int
	}{{saw, pictureHash, len(picture)}, {heard, wavHash, len(wav)}} {
		if got := told(call.of.Call, "tool.call.result"); !strings.Contains(got, fmt.Sprintf(`"artifact_id":"%s"`, call.hash)) || !strings.Contains(got, fmt.Sprintf(`"size":%d`, call.size)) {
			t.Errorf("the ledger says of the file %s of %d bytes: %s", call.hash, call.size, got)
		}
	}
	if got := told(where.Call, "tool.call.result"); !strings.Contains(got, `"output_digest":"`) || strings.Contains(got, "48.8566") {
		t.Errorf("the ledger says of the position: %s", got)
	}
	for _, call := range []site.Told{saw, heard, where, again} {
		told(call.Call, "tool.call.request")
		told(call.Call, "tool.call.dispatch")
		if got := told(call.Call, "tool.call.decision"); !strings.Contains(got, `"effect":"allow"`) || !strings.Contains(got, `"grant":"`) {
			t.Errorf("call %s was decided %s", call.Call, got)
		}
	}
	if got := told(moved.Call, "tool.call.failed"); !strings.Contains(got, string(capabilities.CodeTakenOver)) {
		t.Errorf("the agent's move ended as %s", got)
	}
	count := map[string]int{}
	taken, returned := -1, -1
	for i, p := range packets {
		count[string(p.Kind)]++
		switch p.Kind {
		case "gateway.node.taken":
			taken = i
		case "gateway.node.returned":
			returned = i
		}
	}
	if count["gateway.approval.asked"] != 4 || count["gateway.approval.answered"] != 4 || count["artifact.read"] < 2 {
		t.Errorf("the ledger counts %v", count)
	}
	if taken < 0 || returned < taken {
		t.Fatalf("taken at %d, returned at %d", taken, returned)
	}
	byHand := 0
	for _, p := range packets[taken:returned] {
		if p.Kind != ledger.KindCallDispatch {
			continue
		}
		if p.Principal == "bot" {
			t.Errorf("dispatched for the agent while the operator had it: %+v", p)
		} else if p.Tool == keyboard {
			byHand++
		}
	}
	if byHand == 0 {
		t.Error("what the operator typed is not in the ledger")
	}
	if text := w.command("", "ledger", "show", "--limit", "1000", "--json"); strings.Contains(text, `"hand"`) || strings.Contains(text, "from the agent") {
		t.Error("what was typed is in the ledger")
	}
	w.command("", "ledger", "verify")
}
