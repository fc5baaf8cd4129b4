//go:build linux

package console

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/agent"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	x "github.com/handrail-dev/handrail/test/desk"
)

// asked begins a recording by the API; the answer comes once a person has given theirs.
func (w *watched) asked(body string) (answer chan api.Recording, refused chan string) {
	w.t.Helper()
	answer, refused = make(chan api.Recording, 1), make(chan string, 1)
	go func() {
		got, text := w.whep("POST", "/v1/recordings", "application/json", body)
		var r api.Recording
		if got.StatusCode != 200 || json.Unmarshal([]byte(text), &r) != nil {
			refused <- fmt.Sprint(got.StatusCode, " ", text)
			return
		}
		answer <- r
	}()
	return answer, refused
}

func (w *watched) answer(allow bool) {
	w.t.Helper()
	w.waiting(1)
	_, err := w.Consent.Answer(w.ctx, w.Consent.Approvals()[0].ID, consent.Answer{By: "ben", Allow: allow})
	must(w.t, err)
}

// kinds returns the packets of a tool's calls, in words.
func (w *watched) kinds(tool capabilities.ToolID) string {
	var all []string
	for _, p := range w.packets(tool) {
		all = append(all, strings.TrimPrefix(string(p.Kind), "tool.call."))
	}
	return strings.Join(all, " ")
}

// A lane is recorded while its agent works: asked for each time, seen by the person at
// the device, in the ledger with beginning and end; and the file, fetched through the
// gateway, plays in Chrome and has the calls as chapters and nothing that was typed.
func TestRecordALane(t *testing.T) {
	w := startHeld(t)
	app := w.screen.Fixture(x.GTK3, 5)
	_, err := w.Lanes.Attach(w.ctx, principal.Identity{Principal: "ann", Role: principal.RoleOperator}, "robot", w.node.ID)
	must(t, err)
	for body, want := range map[string]int{`{"lane":"nobody"}`: 404, `{"lane":"robot","duration_ms":10}`: 400, `{"lane":"robot","duration_ms":900001}`: 400} {
		if answer, text := w.whep("POST", "/v1/recordings", "application/json", body); answer.StatusCode != want {
			t.Errorf("%s: %d %s", body, answer.StatusCode, text)
		}
	}
	own := w.token
	for role, name := range map[principal.Role]capabilities.PrincipalID{principal.RoleAgent: "robot", principal.RoleViewer: "vic"} {
		w.token = w.MustToken(name, role)
		if answer, _ := w.whep("POST", "/v1/recordings", "application/json", `{"lane":"robot"}`); answer.StatusCode != 403 {
			t.Errorf("a token of role %s: %d", role, answer.StatusCode)
		}
	}
	w.token = own

	// Asked for, and denied: nothing reaches the device.
	_, refused := w.asked(`{"lane":"robot","duration_ms":60000}`)
	w.answer(false)
	if text := w.first(refused); !strings.Contains(text, "consent_denied") {
		t.Errorf("a recording that was denied: %s", text)
	}
	if kinds := w.kinds("tool.live.record"); strings.Contains(kinds, "dispatch") {
		t.Errorf("it was dispatched: %s", kinds)
	}
	w.enter(principal.RoleOperator)
	w.goTo("/console/live/" + string(w.node.ID))
	must(t, w.run(`document.getElementById("record").click()`, nil))
	w.answer(true)
	w.await(`document.getElementById("record").textContent === "Stop recording"`)
	film := w.Live.Recordings()[0]
	if film.Node != w.node.ID || film.Principal != "ann" || film.Result != nil {
		t.Errorf("%+v", film)
	}
	if kinds := w.kinds("tool.live.record"); !strings.HasSuffix(kinds, " dispatch") {
		t.Errorf("it runs, and the ledger has %s", kinds)
	}
	x.Await(t, "the person to be shown it", func() bool {
		text, _ := os.ReadFile(filepath.Join(w.node.Dir, agent.StatusFile))
		return strings.Contains(string(text), "ann records your screen")
	})

	entry := app.Box("entry")
	click := fmt.Sprintf(`{"action":"click","x":%d,"y":%d}`, entry.X+entry.Width/2, entry.Y+entry.Height/2)
	if r := w.result(first(w.robot("tool.desktop.mouse", click))); r.Status != capabilities.StatusOK {
		t.Fatalf("the agent's click: %+v", r)
	}
	if r := w.result(first(w.robot("tool.desktop.keyboard", `{"action":"type","text":"swordfish"}`))); r.Status != capabilities.StatusOK {
		t.Fatalf("the agent's typing: %+v", r)
	}
	if r := w.result(first(w.robot("tool.desktop.mouse", `{"action":"click","x":1,"y":1,"frame_id":"f0-none"}`))); r.Code != "stale_frame" {
		t.Errorf("a click on what is not there: %+v", r)
	}
	app.Await("the text", func(e x.Event) bool { return e.Kind == "text" && strings.Contains(e.Text, "swordfish") })

	must(t, w.run(`document.getElementById("record").click()`, nil))
	w.await(`document.querySelector("#record-state a")?.textContent.endsWith(".webm")`)
	answer, text := w.whep("GET", "/v1/recordings/"+film.ID, "", "")
	must(t, json.Unmarshal([]byte(text), &film))
	if answer.StatusCode != 200 || film.Result == nil || film.Result.Status != capabilities.StatusOK || film.Result.Effect != capabilities.EffectConfirmed || len(film.Result.Artifacts) != 1 ||
		!strings.Contains(string(film.Result.Output), `"whole":true`) {
		t.Fatalf("%d %s", answer.StatusCode, text)
	}
	if kinds := w.kinds("tool.live.record"); !strings.HasSuffix(kinds, "dispatch result") {
		t.Errorf("it is over, and the ledger has %s", kinds)
	}
	// The page looks by itself, too, and may have the file before the press has its answer.
	x.Await(t, "its end in the ledger", func() bool { return strings.HasSuffix(w.kinds("tool.live.record-stop"), "dispatch result") })
	answer, file := w.whep("GET", "/v1/artifacts/"+string(film.Result.Artifacts[0].ID), "", "")
	if answer.StatusCode != 200 || answer.Header.Get("Content-Type") != "video/webm" {
		t.Fatalf("the file: %d %v", answer.StatusCode, answer.Header)
	}
	if strings.Contains(file, "swordfish") {
		t.Error("what was typed is in the file")
	}

	// ffprobe is one who reads it, Chrome another.
	ffprobe, err := exec.LookPath("ffprobe")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(w.ctx, ffprobe, "-v", "error", "-of", "json", "-show_chapters", "-")
	cmd.Stdin = strings.NewReader(file)
	out, err := cmd.Output()
	must(t, err)
	var got struct {
		Chapters []struct {
			Tags map[string]string `json:"tags"`
		} `json:"chapters"`
	}
	must(t, json.Unmarshal(out, &got))
	want := []string{"tool.desktop.mouse action=click", "tool.desktop.keyboard action=type", "tool.desktop.mouse action=click"}
	if len(got.Chapters) != len(want) {
		t.Fatalf("%s", out)
	}
	for i, c := range got.Chapters {
		if title := c.Tags["title"]; !strings.HasPrefix(title, want[i]) || strings.HasSuffix(title, "error stale_frame") != (i == 2) {
			t.Errorf("chapter %d: %q", i, title)
		}
	}
	var size int
	must(t, w.run(`fetch(document.querySelector("#record-state a").href).then((r) => r.arrayBuffer()).then((b) => b.byteLength)`, &size))
	if size != len(file) {
		t.Errorf("the page gives %d of %d bytes", size, len(file))
	}
	w.quiet()
	w.browser.open(w.URL() + "/healthz")
	must(t, w.run(receiver, nil))
	must(t, w.run(`const v = window.whep.video = document.createElement("video"); v.muted = true; document.body.append(v); v.src = "data:video/webm;base64,`+base64.StdEncoding.EncodeToString([]byte(file))+`"; true`, nil))
	w.await(`whep.video.readyState >= 2 && whep.video.videoWidth === 800 && Number.isFinite(whep.video.duration)`)
	must(t, w.run(`whep.video.currentTime = whep.video.duration; true`, nil))
	w.await(`!whep.video.seeking && whep.video.readyState >= 2`)
	last := 0.0
	x.Await(t, "its last picture to be the screen's", func() bool { last = likeness(w.shown(), w.real()); return last > 0.9 })
	t.Logf("%d bytes, SSIM of the last picture %.4f", len(file), last)
}

// first takes what comes first, within the bound of a test.
func (w *watched) first(c <-chan string) string {
	w.t.Helper()
	got := ""
	x.Await(w.t, "an answer", func() bool {
		select {
		case got = <-c:
			return true
		default:
			return false
		}
	})
	return got
}

// The person at the device ends a recording, and nothing of it is kept.
func TestRecordingThePersonStops(t *testing.T) {
	w := startHeld(t)
	_, err := w.Lanes.Attach(w.ctx, principal.Identity{Principal: "ann", Role: principal.RoleOperator}, "robot", w.node.ID)
	must(t, err)
	began, refused := w.asked(`{"lane":"robot"}`)
	w.answer(true)
	select {
	case <-began:
	case text := <-refused:
		t.Fatal(text)
	}
	w.node.Halt("enough")
	x.Await(t, "the recording to end", func() bool {
		all := w.Live.Recordings()
		return len(all) == 1 && all[0].Result != nil
	})
	if r := w.Live.Recordings()[0].Result; r.Status == capabilities.StatusOK || len(r.Artifacts) != 0 {
		t.Errorf("what the person stopped: %+v", r)
	}
	var packets []ledger.Packet
	for _, p := range w.packets("tool.live.record") {
		if p.Kind == ledger.KindCallFailed {
			packets = append(packets, p)
		}
	}
	if len(packets) != 1 {
		t.Errorf("%d ends are recorded", len(packets))
	}
}

// An answer about a recording that comes after its end does not have it begin again on
// the page.
func TestALateAnswerAboutARecording(t *testing.T) {
	w := startHeld(t)
	_, err := w.Lanes.Attach(w.ctx, principal.Identity{Principal: "ann", Role: principal.RoleOperator}, "robot", w.node.ID)
	must(t, err)
	w.enter(principal.RoleOperator)
	w.goTo("/console/live/" + string(w.node.ID))
	// A request that comes while it runs is answered, and the answer is on its way for long.
	must(t, w.run(`window.held = window.read = 0; window.late = new Promise((go) => { window.release = go; }); const real = window.fetch;
		window.fetch = async (...a) => {
			const answer = await real(...a);
			if (String(a[0]).startsWith("/console/recordings/") && a[1].method === "GET") {
				const json = answer.json.bind(answer);
				answer.json = async () => { const said = await json(); setTimeout(() => { read++; }); return said; };
				held++;
				await late;
			}
			return answer;
		}; 1`, nil))
	must(t, w.run(`document.getElementById("record").click()`, nil))
	w.answer(true)
	w.await(`document.getElementById("record").textContent === "Stop recording" && held > 0`)
	must(t, w.run(`document.getElementById("record").click()`, nil))
	w.await(`document.querySelector("#record-state a")?.textContent.endsWith(".webm")`)
	must(t, w.run(`release(); 1`, nil))
	w.await("read > 0") // and what the page makes of it is made
	if got := w.value(`document.getElementById("record").textContent + " " + Boolean(document.querySelector("#record-state a"))`); got != "Record true" {
		t.Errorf("the page says %s", got)
	}
	w.quiet()
}
