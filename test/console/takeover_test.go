//go:build linux

package console

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/agent/media"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/desktop"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	session "github.com/handrail-dev/handrail/platform/desktop"
	x "github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// startHeld is startWatched with the whole desktop family, and an agent, robot, that
// has mouse and keyboard of it.
func startHeld(t *testing.T) *watched {
	t.Helper()
	screen := x.StartX(t, x.Options{Size: "800x608", NoBus: true})
	s := site.Start(t, site.Options{ApprovalWait: 10 * time.Minute, Door: atThePlace(t)})
	opener := session.New(session.Options{Log: slog.New(slog.DiscardHandler), Getenv: screen.Getenv})
	t.Cleanup(func() { _ = opener.Close() })
	live, err := media.New(media.Options{Opener: opener})
	must(t, err)
	hands, err := desktop.New(desktop.Options{Opener: opener, QuietTime: time.Millisecond, HotKey: "off", Control: true, Acting: live.Acting})
	must(t, err)
	w := &watched{desk: &desk{Site: s, t: t, ctx: t.Context()}, screen: screen, opener: opener}
	w.node = s.AddNode("study", live, hands)
	w.node.AwaitReady("tyrum.live.screen", "tyrum.live.record", "tyrum.live.control", "tyrum.desktop.screenshot", "tyrum.desktop.mouse", "tyrum.desktop.keyboard")
	w.token = s.MustToken("ann", principal.RoleOperator)
	w.Grant("robot", w.node, "tool.desktop.*")
	w.Grant("ann", w.node, "tool.live.screen")
	return w
}

// robot makes a call as the agent; told has what it is told meanwhile.
func (w *watched) robot(tool, args string) (end chan capabilities.Result, told chan string) {
	end, told = make(chan capabilities.Result, 1), make(chan string, 64)
	go func() {
		end <- w.Dispatcher.Call(w.ctx, dispatch.Request{
			Caller: dispatch.Caller{Principal: "robot", Role: "agent", Lane: "robot"}, Tool: capabilities.ToolID(tool), Args: []byte(args), Surface: "test",
			Progress: func(p capabilities.Progress) { told <- p.Message },
		})
	}()
	return end, told
}

// told waits until a call is told that it waits.
func (w *watched) kept(end chan capabilities.Result, told chan string) {
	w.t.Helper()
	late := time.After(within)
	for {
		select {
		case word := <-told:
			if strings.Contains(word, "taken over") {
				return
			}
		case r := <-end:
			w.t.Fatalf("the agent's call did not wait: %+v", r)
		case <-late:
			w.t.Fatal("the agent's call is told nothing")
		}
	}
}

// between returns the packets of the node from its being taken to its return.
func (w *watched) between() []ledger.Packet {
	w.t.Helper()
	all, err := w.Ledger.Packets(w.ctx, ledger.Query{Node: w.node.ID, Limit: 1000})
	must(w.t, err)
	from := slices.IndexFunc(all, func(p ledger.Packet) bool { return p.Kind == "gateway.node.taken" })
	to := slices.IndexFunc(all, func(p ledger.Packet) bool { return p.Kind == "gateway.node.returned" })
	if from < 0 || to < from {
		w.t.Fatalf("taken at %d, returned at %d of %d", from, to, len(all))
	}
	return all[from : to+1]
}

// on is the page's expression for the point of the picture that shows a pixel of the
// screen.
func (b *browser) on(px, py int) (cx, cy float64) {
	b.t.Helper()
	var at []float64
	must(b.t, b.run(fmt.Sprintf(`(() => { const v = document.getElementById("screen"); v.scrollIntoView({block: "center"}); const r = v.getBoundingClientRect(); return [r.left + (%d + .5) * r.width / v.videoWidth, r.top + (%d + .5) * r.height / v.videoHeight] })()`, px, py), &at))
	return at[0], at[1]
}

// press clicks a point of the page as a person's mouse does.
func (b *browser) press(cx, cy float64) {
	b.t.Helper()
	for _, kind := range []string{"mousePressed", "mouseReleased"} {
		b.ask("Input.dispatchMouseEvent", object{"type": kind, "x": cx, "y": cy, "button": "left", "clickCount": 1}, nil)
	}
}

// watchesHere has an operator watch the screen, 800 pixels wide, in the console.
func (w *watched) watchesHere() {
	w.t.Helper()
	w.enter(principal.RoleOperator)
	w.goTo("/console/live/" + string(w.node.ID))
	must(w.t, w.run(`document.getElementById("watch").click()`, nil))
	w.await(`document.getElementById("screen").videoWidth === 800`)
}

// An operator watches, takes over from an agent in the middle of its typing, works there
// by mouse and keyboard, and hands back; the window itself and the ledger tell who did
// what.
func TestTakeOverInTheConsole(t *testing.T) {
	w := startHeld(t)
	app := w.screen.Fixture(x.GTK3, 5)
	w.watchesHere()

	entry, button := app.Box("entry"), app.Box("button")
	middle := func(b x.Box) (int, int) { return b.X + b.Width/2, b.Y + b.Height/2 }
	ex, ey := middle(entry)
	if r := w.result(first(w.robot("tool.desktop.mouse", fmt.Sprintf(`{"action":"click","x":%d,"y":%d}`, ex, ey)))); r.Status != capabilities.StatusOK {
		t.Fatalf("the agent's click: %+v", r)
	}
	x.Await(t, "the page to hear of calls", func() bool {
		w.result(first(w.robot("tool.desktop.mouse", fmt.Sprintf(`{"action":"move","x":%d,"y":%d}`, ex, ey))))
		return w.value(`document.getElementById("latest").textContent`) == "robot: tool.desktop.mouse"
	})
	typing, _ := w.robot("tool.desktop.keyboard", fmt.Sprintf(`{"action":"type","text":%q}`, strings.Repeat("robot ", 5000)))
	app.Await("the agent to type", func(e x.Event) bool { return e.Kind == "text" && strings.Contains(e.Text, "robot") })
	w.await(`((call) => call.textContent === "robot: tool.desktop.keyboard" && call.checkVisibility())(document.getElementById("call"))`)

	// Keyboard alone: to the button, and on it.
	w.tabTo("#take")
	w.key("Enter")
	if r := w.result(typing); r.Code != capabilities.CodeTakenOver {
		t.Errorf("the agent's typing: %+v", r)
	}
	w.await(`document.activeElement.id === "surface" && document.getElementById("take").textContent === "Hand back"`)
	w.await(`document.getElementById("taken").textContent === "ann"`)
	typed := app.Read("entry").Text
	bx, by := middle(button)
	clicking, told := w.robot("tool.desktop.mouse", fmt.Sprintf(`{"action":"click","x":%d,"y":%d}`, bx, by))
	w.kept(clicking, told)

	// The operator's mouse: into the entry, at its end; then keys.
	before := len(app.Events())
	w.press(w.on(ex, ey))
	w.key("x")
	w.key("y")
	app.AwaitAfter(before, "the operator's keys", func(e x.Event) bool { return e.Kind == "text" && strings.Contains(e.Text, "xy") })
	if now := app.Read("entry").Text; len(now) != len(typed)+2 {
		t.Errorf("somebody else typed meanwhile: %d characters became %d", len(typed), len(now))
	}
	for _, e := range app.Events()[before:] {
		if e.Kind == "clicked" {
			t.Errorf("the agent's click was carried out: %+v", e)
		}
	}
	w.shots("takeover")

	// A drag goes as it is made: the pointer is there while the button is down.
	pointer := func(kind string, px, py, buttons int) {
		cx, cy := w.on(px, py)
		w.ask("Input.dispatchMouseEvent", object{"type": kind, "x": cx, "y": cy, "button": "left", "buttons": buttons, "clickCount": 1}, nil)
	}
	pointer("mousePressed", entry.X+4, ey, 1)
	for i := 1; i <= 8; i++ {
		pointer("mouseMoved", entry.X+4+4*i, ey, 1)
	}
	x.Await(t, "the pointer to go with the drag", func() bool {
		pointer("mouseMoved", entry.X+36, ey, 1) // a hand is never quite still
		px, py := w.screen.Pointer()
		return px > entry.X+20 && py == ey
	})
	for _, p := range w.packets("tool.desktop.mouse") {
		if strings.Contains(string(p.Body), `"up"`) {
			t.Errorf("the button came up by itself: %s", p.Body)
		}
	}
	pointer("mouseReleased", entry.X+36, ey, 0)
	x.Await(t, "the drag's end in the ledger", func() bool {
		text := ""
		for _, p := range w.packets("tool.desktop.mouse") {
			text += string(p.Kind) + string(p.Body)
		}
		return strings.Contains(text, `"down"`) && strings.Contains(text, `"up"`)
	})

	// The chord that leaves the picture, and hands back.
	w.ask("Input.dispatchKeyEvent", object{"type": "keyDown", "key": "Home", "code": "Home", "windowsVirtualKeyCode": 36, "modifiers": 1 | 2}, nil)
	w.await(`document.activeElement.id === "take"`)
	w.key("Enter")
	if r := w.result(clicking); r.Status != capabilities.StatusOK {
		t.Errorf("the agent's click after it was handed back: %+v", r)
	}
	app.AwaitAfter(before, "the agent's click", func(e x.Event) bool { return e.Kind == "clicked" && e.Widget == "button" })
	w.await(`document.getElementById("take").textContent === "Take over"`)

	mouse, keys := 0, 0
	for _, p := range w.between() {
		if p.Kind != ledger.KindCallDispatch && p.Kind != ledger.KindCallRequest {
			continue
		}
		if p.Kind == ledger.KindCallDispatch && p.Principal != "ann" {
			t.Errorf("dispatched meanwhile: %+v", p)
		}
		if p.Kind == ledger.KindCallRequest && p.Principal == "ann" {
			switch p.Tool {
			case "tool.desktop.mouse":
				mouse++
				if !strings.Contains(string(p.Body), `"frame_id":"f`) {
					t.Errorf("the operator's mouse quotes no frame: %s", p.Body)
				}
			case "tool.desktop.keyboard":
				keys++
				if strings.Contains(string(p.Body), `"xy"`) || strings.Contains(string(p.Body), `"x"`) {
					t.Errorf("what was typed is in the ledger: %s", p.Body)
				}
			}
		}
	}
	if mouse == 0 || keys == 0 {
		t.Errorf("%d of mouse, %d of keyboard are recorded", mouse, keys)
	}
	if grants := w.Consent.Grants(); slices.ContainsFunc(grants, func(g consent.Grant) bool {
		return g.Principal == "ann" && slices.Contains(g.Tools, "tool.desktop.mouse")
	}) {
		t.Errorf("the operator's grant outlives the take-over: %+v", grants)
	}
	w.quiet()
}

// Agents wait from a press on the page on, which gives nobody the mouse, and go on at the
// next.
func TestPauseInTheConsole(t *testing.T) {
	w := startHeld(t)
	app := w.screen.Fixture(x.GTK3, 5)
	w.watchesHere()
	w.tabTo("#pause")
	w.key("Enter")
	w.await(`document.getElementById("pause").textContent === "Let agents go on" && !document.getElementById("pause").disabled`)
	w.await(`document.getElementById("taken").textContent === "ann (agents are paused)"`)

	button, before := app.Box("button"), len(app.Events())
	bx, by := button.X+button.Width/2, button.Y+button.Height/2
	clicking, told := w.robot("tool.desktop.mouse", fmt.Sprintf(`{"action":"click","x":%d,"y":%d}`, bx, by))
	w.kept(clicking, told)
	w.press(w.on(bx, by))
	w.tabTo("#pause")
	w.key("Enter")
	if r := w.result(clicking); r.Status != capabilities.StatusOK {
		t.Errorf("the agent's click after the pause: %+v", r)
	}
	app.AwaitAfter(before, "the agent's click", func(e x.Event) bool { return e.Kind == "clicked" && e.Widget == "button" })
	w.await(`document.getElementById("pause").textContent === "Pause agents"`)
	for _, p := range w.between() {
		if p.Kind == ledger.KindCallDispatch && strings.HasPrefix(string(p.Tool), "tool.desktop.") {
			t.Errorf("dispatched meanwhile: %+v", p)
		}
	}
	w.quiet()
}

func first[A, B any](a A, _ B) A { return a }

// taken asks for the node by the API; it returns the status, and the session's ID.
func (w *watched) take(token, body string) (int, string, string) {
	w.t.Helper()
	was := w.token
	w.token = token
	defer func() { w.token = was }()
	answer, text := w.whep("POST", "/v1/control/"+string(w.node.ID), "application/json", body)
	var got struct {
		Session string `json:"session_id"`
	}
	_ = json.Unmarshal([]byte(text), &got)
	return answer.StatusCode, got.Session, text
}

// A user who may not take over does not; a take-over ends with the console that falls
// silent, with its token and with the site's stop, and agents go on.
func TestTakeOverEnds(t *testing.T) {
	w := startHeld(t)
	here := `{"args":{"action":"move","x":300,"y":300}}`
	for role, name := range map[principal.Role]capabilities.PrincipalID{principal.RoleAgent: "robot", principal.RoleViewer: "vic"} {
		if status, _, body := w.take(w.MustToken(name, role), `{}`); status != 403 {
			t.Errorf("a token of role %s: %d %s", role, status, body)
		}
	}

	// Silence.
	status, id, body := w.take(w.token, `{}`)
	if status != 200 || !strings.Contains(body, `"frame_id":"f`) || !strings.Contains(body, `"width":800`) {
		t.Fatalf("take over: %d %s", status, body)
	}
	if status, _, body := w.take(w.MustToken("ben", principal.RoleOperator), `{}`); status != 409 || !strings.Contains(body, "taken_over") || !strings.Contains(body, "ann") {
		t.Errorf("a second operator: %d %s", status, body)
	}
	at := "/v1/control/" + string(w.node.ID) + "/" + id
	answer, body := w.whep("POST", at+"/mouse", "application/json", here)
	if answer.StatusCode != 200 || !strings.Contains(body, `"status":"ok"`) {
		t.Errorf("the operator's mouse: %d %s", answer.StatusCode, body)
	}
	if px, py := w.screen.Pointer(); px != 300 || py != 300 {
		t.Errorf("the pointer is at %d, %d", px, py)
	}
	if answer, body = w.whep("POST", at+"/mouse", "application/json", `{"args":{"action":"click","x":1,"y":1,"frame_id":"f0-none"}}`); !strings.Contains(body, "stale_frame") {
		t.Errorf("a frame that is none: %d %s", answer.StatusCode, body)
	}
	moving, told := w.robot("tool.desktop.mouse", `{"action":"move","x":30,"y":40}`)
	w.kept(moving, told)
	if r := w.result(moving); r.Status != capabilities.StatusOK {
		t.Errorf("after the console fell silent: %+v", r)
	}
	if last := w.between(); !strings.Contains(string(last[len(last)-1].Body), "not heard of") {
		t.Errorf("returned: %s", last[len(last)-1].Body)
	}
	if answer, _ = w.whep("PUT", at, "", ""); answer.StatusCode != 404 {
		t.Errorf("it is still held: %d", answer.StatusCode)
	}

	// A pause gives nobody the mouse.
	status, id, body = w.take(w.token, `{"pause":true}`)
	at = "/v1/control/" + string(w.node.ID) + "/" + id
	if status != 200 || strings.Contains(body, "frame_id") {
		t.Fatalf("pause: %d %s", status, body)
	}
	if answer, body = w.whep("POST", at+"/mouse", "application/json", here); answer.StatusCode != 409 {
		t.Errorf("a mouse while paused: %d %s", answer.StatusCode, body)
	}
	moving, told = w.robot("tool.desktop.mouse", `{"action":"move","x":50,"y":60}`)
	w.kept(moving, told)
	if answer, body = w.whep("DELETE", at, "", ""); answer.StatusCode != 200 {
		t.Errorf("let go on: %d %s", answer.StatusCode, body)
	}
	if r := w.result(moving); r.Status != capabilities.StatusOK {
		t.Errorf("after the pause: %+v", r)
	}

	// The token.
	made, secret, err := w.Tokens.Create(w.ctx, principal.Site, principal.Spec{Principal: "cat", Role: principal.RoleOperator})
	must(t, err)
	if status, _, body = w.take(secret.Reveal(), `{}`); status != 200 {
		t.Fatalf("take over: %d %s", status, body)
	}
	moving, told = w.robot("tool.desktop.mouse", `{"action":"move","x":70,"y":80}`)
	w.kept(moving, told)
	_, err = w.Tokens.Revoke(w.ctx, principal.Site, made.ID)
	must(t, err)
	if r := w.result(moving); r.Status != capabilities.StatusOK {
		t.Errorf("after the token was revoked: %+v", r)
	}

	// The site's stop ends it, and what waits.
	if status, _, body = w.take(w.token, `{}`); status != 200 {
		t.Fatalf("take over: %d %s", status, body)
	}
	moving, told = w.robot("tool.desktop.mouse", `{"action":"move","x":90,"y":99}`)
	w.kept(moving, told)
	_, err = w.Stop(w.ctx, "ann", "enough")
	must(t, err)
	if r := w.result(moving); r.Code != capabilities.CodeStopped {
		t.Errorf("what waited when the site was stopped: %+v", r)
	}
	x.Await(t, "the take-over to end", func() bool { return len(w.Live.Taken(w.node.ID)) == 0 })
	if px, py := w.screen.Pointer(); px != 70 || py != 80 {
		t.Errorf("the pointer is at %d, %d", px, py)
	}
}

// Everything that ends calls ends a view that runs, at once: its token, the gateway's end, the
// device's own stop switch; and putting the device out.
func TestViewEndsWithWhatAllowsIt(t *testing.T) {
	for name, last := range map[string]func(*watched){
		"stopped":   func(w *watched) { w.node.Halt("enough") },
		"restarted": func(w *watched) { w.Restart() },
		"revoked": func(w *watched) {
			if answer, body := w.whep("POST", "/v1/nodes/"+string(w.node.ID)+"/revoke", "", ""); answer.StatusCode != 200 {
				t.Errorf("revoke: %d %s", answer.StatusCode, body)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits until a peer has missed enough
			w := startWatched(t, "640x480")
			w.browser = startChrome(t)
			w.Grant("ann", w.node, "tool.live.screen")
			dark := func(what string) {
				t.Helper()
				w.await(`["closed", "failed", "disconnected"].includes(whep.pc.connectionState)`)
				x.Await(t, "the session to end with "+what, func() bool { return len(w.Live.Watching(w.node.ID)) == 0 })
			}
			was := w.token
			made, secret, err := w.Tokens.Create(w.ctx, principal.Site, principal.Spec{Principal: "ann", Role: principal.RoleOperator, Lane: "ann"})
			must(t, err)
			w.token = secret.Reveal()
			w.play()
			_, err = w.Tokens.Revoke(w.ctx, principal.Site, made.ID)
			must(t, err)
			dark("its token")

			w.token = was
			w.play()
			last(w)
			dark(name)
		})
	}
}
