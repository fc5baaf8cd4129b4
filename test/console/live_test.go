//go:build linux

package console

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/agent"
	"github.com/handrail-dev/handrail/agent/media"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/platform"
	session "github.com/handrail-dev/handrail/platform/desktop"
	x "github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// receiver is WebRTC as Chrome does it: our pages' own code is not part of it.
const receiver = `window.whep = {
  async offer(config) {
    const pc = this.pc = new RTCPeerConnection(config);
    const got = pc.addTransceiver(this.kind ?? "video", { direction: "recvonly" });
    this.found = []; this.gathered = false;
    pc.onicecandidate = (e) => { if (e.candidate?.candidate) this.found.push("a=" + e.candidate.candidate); else this.gathered = true; };
    const v = this.video = document.createElement("video");
    v.muted = true; v.autoplay = true; v.playsInline = true;
    pc.ontrack = (e) => { v.srcObject = new MediaStream([e.track]); };
    document.body.append(v);
    this.frames = 0;
    const next = () => { this.frames++; v.requestVideoFrameCallback(next); };
    v.requestVideoFrameCallback(next);
    if (config) return (this.made = await pc.createOffer()).sdp; // it looks for addresses later
    await pc.setLocalDescription();
    return pc.localDescription.sdp;
  },
  async take(sdp) { await this.pc.setRemoteDescription({ type: "answer", sdp }); await this.video.play(); return true; },
  picture() {
    const c = document.createElement("canvas");
    c.width = this.video.videoWidth; c.height = this.video.videoHeight;
    c.getContext("2d").drawImage(this.video, 0, 0);
    return c.toDataURL("image/png").split(",")[1];
  },
}; true`

// watched is a site with a node that has an X screen, and an operator's token.
type watched struct {
	*desk
	screen *x.Desk
	opener platform.DesktopOpener
	token  string
}

const watchRules = `@id("live") permit (principal, action in Action::"family:live", resource) when { context.consent };
@id("ask") permit (principal, action == Action::"tool.fixture.press", resource) when { context.consent };`

func startWatched(t *testing.T, size string) *watched { return startWatchedBy(t, size, nil) }

// startWatchedBy is startWatched with the gateway's options changed.
func startWatchedBy(t *testing.T, size string, change func(*gateway.Options)) *watched {
	t.Helper()
	screen := x.StartX(t, x.Options{Size: size, NoBus: true})
	there := atThePlace(t)
	s := site.Start(t, site.Options{ApprovalWait: 10 * time.Minute, Rules: watchRules, Door: func(o *gateway.Options) {
		there(o)
		if change != nil {
			change(o)
		}
	}})
	opener := session.New(session.Options{Log: slog.New(slog.DiscardHandler), Getenv: screen.Getenv})
	t.Cleanup(func() { _ = opener.Close() })
	h, err := media.New(media.Options{Opener: opener})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	w := &watched{desk: &desk{Site: s, t: t, ctx: ctx}, screen: screen, opener: opener}
	w.node = s.AddNode("study", h, site.NewHandler())
	w.node.AwaitReady("tyrum.live.screen")
	w.token = s.MustToken("ann", principal.RoleOperator)
	return w
}

// whep sends one request of WHEP with the operator's token.
func (w *watched) whep(method, path, kind, body string) (*http.Response, string) {
	w.t.Helper()
	return w.whepOf("", method, path, kind, body)
}

// whepOf is whep of the session with that entity tag; empty: it names none.
func (w *watched) whepOf(tag, method, path, kind, body string) (*http.Response, string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.ctx, method, w.URL()+path, strings.NewReader(body))
	must(w.t, err)
	r.Header.Set("Authorization", "Bearer "+w.token)
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	if tag != "" {
		r.Header.Set("If-Match", tag)
	}
	answer, err := http.DefaultClient.Do(r)
	must(w.t, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	must(w.t, err)
	return answer, string(data)
}

func (w *watched) door() string { return fmt.Sprintf("/v1/live/%s/screen/whep", w.node.ID) }

// play has Chrome watch, and returns the session's address.
func (w *watched) play() string {
	w.t.Helper()
	return w.playBy(func(answer string) string { return answer })
}

// playBy is play with an answer that was changed on its way.
func (w *watched) playBy(change func(answer string) string) string {
	w.t.Helper()
	w.browser.open(w.URL() + "/healthz") // some page; what it is does not matter
	var offer string
	must(w.t, w.run(receiver, nil))
	must(w.t, w.run("whep.offer()", &offer))
	answer, body := w.whep("POST", w.door(), "application/sdp", offer)
	if answer.StatusCode != 201 || answer.Header.Get("Content-Type") != "application/sdp" || answer.Header.Get("ETag") == "" {
		w.t.Fatalf("POST: %d %v\n%s", answer.StatusCode, answer.Header, body)
	}
	must(w.t, w.run(fmt.Sprintf("whep.take(%q)", change(body)), nil))
	w.await("whep.frames > 0 && whep.video.videoWidth > 0")
	return answer.Header.Get("Location")
}

// shown is the picture that Chrome shows.
func (w *watched) shown() image.Image {
	w.t.Helper()
	data, err := base64.StdEncoding.DecodeString(w.value("whep.picture()"))
	must(w.t, err)
	m, err := png.Decode(bytes.NewReader(data))
	must(w.t, err)
	return m
}

// real is what the X screen shows.
func (w *watched) real() *platform.Frame {
	w.t.Helper()
	d, err := w.opener.Open(w.ctx)
	must(w.t, err)
	l, err := d.Screen.Layout(w.ctx)
	must(w.t, err)
	f, err := d.Screen.Frame(w.ctx, l.Whole(), true)
	must(w.t, err)
	return f
}

// likeness is the mean SSIM of luma in blocks of 8x8.
func likeness(m image.Image, f *platform.Frame) float64 {
	if m.Bounds().Dx() != f.Area.Width || m.Bounds().Dy() != f.Area.Height {
		return 0
	}
	var sum, blocks float64
	for by := 0; by+8 <= f.Area.Height; by += 8 {
		for bx := 0; bx+8 <= f.Area.Width; bx += 8 {
			var a, b, aa, bb, ab float64
			for y := by; y < by+8; y++ {
				for x := bx; x < bx+8; x++ {
					r, g, bl, _ := m.At(x, y).RGBA()
					p := f.Pix[y*f.Stride+x*4:]
					v := 0.299*float64(r>>8) + 0.587*float64(g>>8) + 0.114*float64(bl>>8)
					u := 0.299*float64(p[2]) + 0.587*float64(p[1]) + 0.114*float64(p[0])
					a, b, aa, bb, ab = a+v, b+u, aa+v*v, bb+u*u, ab+u*v
				}
			}
			a, b = a/64, b/64
			va, vb, cov := aa/64-a*a, bb/64-b*b, ab/64-a*b
			sum += (2*a*b + 6.5) * (2*cov + 58.5) / ((a*a + b*b + 6.5) * (va + vb + 58.5))
			blocks++
		}
	}
	return sum / math.Max(blocks, 1)
}

// packets of the calls of a tool, oldest first.
func (w *watched) packets(tool capabilities.ToolID) []ledger.Packet {
	w.t.Helper()
	all, err := w.Ledger.Packets(w.ctx, ledger.Query{Kind: "tool.call.", Tool: tool, Limit: 100})
	must(w.t, err)
	return all
}

// An operator watches a real X screen in a real Chrome: asked for, allowed, shown as
// it is, written down, and over at once when the site is stopped.
func TestWatchAScreenLive(t *testing.T) {
	w := startWatched(t, "800x608")
	w.screen.Xterm()
	w.browser = startChrome(t)

	// Without a person's word there is no view.
	type reply struct {
		code int
		body string
	}
	asked := make(chan reply, 1)
	go func() {
		answer, body := w.whep("POST", w.door(), "application/sdp", "v=0\r\n")
		asked <- reply{answer.StatusCode, body}
	}()
	w.waiting(1)
	_, err := w.Consent.Answer(w.ctx, w.Consent.Approvals()[0].ID, consent.Answer{By: "ben", Reason: "not now"})
	must(t, err)
	if r := <-asked; r.code != 403 || !strings.Contains(r.body, "consent_denied") {
		t.Errorf("a view that was denied: %d %s", r.code, r.body)
	}

	w.Grant("ann", w.node, "tool.live.screen")
	if answer, body := w.whep("POST", w.door(), "text/plain", "v=0"); answer.StatusCode != 400 {
		t.Errorf("an offer that is none: %d %s", answer.StatusCode, body)
	}
	if answer, body := w.whep("POST", w.door(), "application/sdp", "nonsense"); answer.StatusCode != 400 || !strings.Contains(body, "invalid_arguments") {
		t.Errorf("nonsense for an offer: %d %s", answer.StatusCode, body)
	}

	at := w.play()
	empty := w.real()
	w.screen.Xdotool("type", "what is written here is seen far away\n")
	x.Await(t, "the screen to change", func() bool { return w.real().Seq != empty.Seq })
	for i := range 12 {
		w.screen.Xdotool("type", fmt.Sprintf("line %d of what is seen far away\n", i))
	}
	like := 0.0
	x.Await(t, "the picture to be that of the screen", func() bool { like = likeness(w.shown(), w.real()); return like > 0.97 })
	if before := likeness(w.shown(), empty); before > like-0.02 {
		t.Errorf("the picture is as like the empty screen (%.4f) as the written one (%.4f)", before, like)
	}
	t.Logf("SSIM %.4f", like)

	var list struct {
		Watching []struct {
			Principal string `json:"principal"`
		} `json:"watching"`
	}
	answer, body := w.whep("GET", fmt.Sprintf("/v1/live/%s", w.node.ID), "", "")
	must(t, json.Unmarshal([]byte(body), &list))
	if answer.StatusCode != 200 || len(list.Watching) != 1 || list.Watching[0].Principal != "ann" {
		t.Errorf("who watches: %d %s", answer.StatusCode, body)
	}
	if answer, _ := w.whepOf("*", "PATCH", at, "application/trickle-ice-sdpfrag", "a=end-of-candidates\r\n"); answer.StatusCode != 204 {
		t.Errorf("PATCH: %d", answer.StatusCode)
	}

	if answer, body := w.whep("DELETE", at, "", ""); answer.StatusCode != 200 {
		t.Fatalf("DELETE: %d %s", answer.StatusCode, body)
	}
	if answer, _ := w.whep("DELETE", at, "", ""); answer.StatusCode != 404 {
		t.Errorf("a second DELETE: %d", answer.StatusCode)
	}
	x.Await(t, "the ledger to have the session's beginning and end", func() bool {
		kinds := ""
		for _, p := range w.packets("tool.live.screen") {
			kinds += string(p.Kind) + " "
		}
		return strings.HasSuffix(kinds, "tool.call.dispatch tool.call.failed ")
	})

	// The site's stop switch ends a view like every call.
	w.play()
	_, err = w.Stop(w.ctx, "ann", "enough")
	must(t, err)
	w.await(`whep.pc.connectionState === "closed" || whep.pc.connectionState === "failed" || whep.pc.connectionState === "disconnected"`)
	if n := len(w.Live.Watching(w.node.ID)); n != 0 {
		x.Await(t, "the session to end", func() bool { return len(w.Live.Watching(w.node.ID)) == 0 })
	}
}

// The console's page shows the screen, who watches, and what an agent does there.
func TestWatchInTheConsole(t *testing.T) {
	w := startWatched(t, "800x608")
	w.screen.Xterm()
	w.enter(principal.RoleOperator)
	w.Grant("ann", w.node, "tool.live.screen")
	w.goTo("/console/nodes")
	w.await(`document.querySelector('a[href="/console/live/` + string(w.node.ID) + `"]')`)
	w.goTo("/console/live/" + string(w.node.ID))
	must(t, w.run(`document.getElementById("watch").click()`, nil))
	w.await(`document.getElementById("screen").videoWidth === 800`)
	w.await(`document.getElementById("watching").textContent === "ann"`)
	w.await(`document.getElementById("network").textContent.endsWith("ms")`)
	for i := range 8 {
		w.screen.Xdotool("type", fmt.Sprintf("line %d, seen in the console\n", i))
	}
	w.await(`document.getElementById("delay").textContent.includes(" ms since ")`)
	must(t, w.run(`window.whep = { video: document.getElementById("screen"), `+strings.Split(receiver, "return true; },\n")[1], nil))
	last := 0.0
	x.Await(t, "the page to show what the screen shows", func() bool { last = likeness(w.shown(), w.real()); return last > 0.99 })
	w.shots("live")
	if last = likeness(w.shown(), w.real()); last < 0.99 {
		t.Errorf("the page's picture is %.4f like the screen's", last)
	}
	must(t, w.run(`document.getElementById("watch").click()`, nil))
	x.Await(t, "the session to end", func() bool { return len(w.Live.Watching(w.node.ID)) == 0 })
	// A view that the viewer ended is no failure, on no page.
	w.goTo("/console/calls")
	w.await(`document.querySelector("tbody").innerText.includes("ended")`)
	if got := w.value(`[...document.querySelectorAll("tbody tr")].find((r) => r.innerText.includes("tool.live.screen")).querySelector("td[data-name=State]").innerText.replace(/\s+/g, " ")`); got != "ended by the viewer" {
		t.Errorf("the list of calls says %q", got)
	}
	w.goTo("/console/calls?state=failed")
	w.says("No such call lately")
	w.goTo("/console/calls?state=ended")
	must(t, w.run(`document.querySelector("tbody a").click(); 1`, nil))
	w.await(`location.pathname.startsWith("/console/calls/") && document.readyState === "complete"`)
	w.says("Recorded ended by the viewer", "Answered ended by the viewer")
	w.quiet()
}

// A question about a device is answered where the device is watched.
func TestQuestionsAreAnsweredOnTheLivePage(t *testing.T) {
	w := startWatched(t, "800x608")
	w.enter(principal.RoleOperator)
	w.Grant("ann", w.node, "tool.live.screen")
	w.goTo("/console/live/" + string(w.node.ID))
	must(t, w.run(`document.getElementById("watch").click()`, nil))
	w.await(`document.getElementById("watch-state").textContent === "Live."`)
	asked := w.call("robot", string(site.ToolPress), `{"text":"x"}`)
	w.await(`document.querySelectorAll("#live [data-question]").length === 1 && !("settling" in document.body.dataset)`)
	w.shots("live-question")
	must(t, w.run(`document.querySelector("#live [data-question] button[value=deny]").click()`, nil))
	if got := w.result(asked); got.Status == capabilities.StatusOK {
		t.Errorf("%+v", got)
	}
	w.await(`document.getElementById("outcome").textContent.includes("Denied") && document.querySelectorAll("#live [data-question]").length === 0`)
	if at := w.value(`location.pathname`); at != "/console/live/"+string(w.node.ID) {
		t.Errorf("the answer leads to %s", at)
	}
	if got := w.value(`document.getElementById("watch-state").textContent`); got != "Live." {
		t.Errorf("the view ended: %q", got)
	}
	w.quiet()
}

// A device that was stopped at the device does not look live: the last picture is dimmed and says
// so.
func TestAStoppedDeviceDoesNotLookLive(t *testing.T) {
	w := startWatched(t, "800x608")
	w.screen.Xterm()
	w.enter(principal.RoleOperator)
	w.Grant("ann", w.node, "tool.live.screen")
	w.goTo("/console/live/" + string(w.node.ID))
	must(t, w.run(`document.getElementById("watch").click()`, nil))
	w.await(`document.getElementById("screen").videoWidth === 800 && document.getElementById("watch-state").textContent === "Live."`)
	w.node.Halt("the owner had enough")
	w.await(`document.getElementById("gone").textContent === "Stopped at the device" && document.getElementById("surface").classList.contains("dim")`)
	if got := w.value(`document.getElementById("watch-state").textContent`); got == "Live." {
		t.Error("it still says that it is live")
	}
	w.shots("live-stopped")
	must(t, agent.SetStop(w.node.Dir, false))
	w.await(`document.getElementById("watch-state").textContent === "The device is back. Press Watch to go on."`)
	if got := w.value(`document.getElementById("screen").srcObject === null && !document.getElementById("surface").classList.contains("dim") && !document.getElementById("watch").disabled`); got != "true" {
		t.Error("the old picture stands there as if it were live, or nobody can watch again")
	}
}
