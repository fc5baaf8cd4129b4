package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image/png"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/desktop"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/principal"
	session "github.com/handrail-dev/handrail/platform/desktop"

	"github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// On a real desktop a question says which window a call would meet, what typing into a
// terminal means, and shows the place in the picture that the agent saw: to who may watch
// that screen, and without a new picture.
func TestAQuestionSaysWhereItGoes(t *testing.T) {
	d := desk.StartX(t, desk.Options{})
	for _, e := range d.Env {
		if name, value, _ := strings.Cut(e, "="); name != "TMPDIR" {
			t.Setenv(name, value)
		}
	}
	log := slog.New(slog.DiscardHandler)
	opener := session.New(session.Options{Log: log})
	t.Cleanup(func() { _ = opener.Close() })
	hands, err := desktop.New(desktop.Options{Opener: opener, QuietTime: time.Millisecond, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hands.Close() })
	s := site.Start(t, site.Options{ApprovalWait: time.Minute})
	a := &arena{Site: s, t: t, h: site.NewHandler(), client: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(a.client.CloseIdleConnections)
	a.node = s.AddNode("desk", a.h, hands)
	a.node.AwaitReady("tyrum.desktop.keyboard", "tyrum.desktop.mouse", "tyrum.desktop.screenshot")
	s.Grant("root", a.node, "tool.live.screen")
	root, anna := s.MustToken("root", principal.RoleAdmin), s.MustToken("anna", principal.RoleOperator)
	term := d.AppTitled("shell", "xterm", "-T", "shell", "-geometry", "80x24+0+0", "-e", "cat")
	d.Activate(term.Window.ID)

	ask := func(tool capabilities.ToolID, args string) (api.Approval, api.Told, <-chan capabilities.Result) {
		t.Helper()
		said := make(chan capabilities.Result, 1)
		go func() {
			said <- a.Dispatcher.Call(context.Background(), dispatch.Request{Caller: caller("agent", "main"), Tool: tool, Args: []byte(args), Surface: "test"})
		}()
		w := a.waiting()
		var view api.Approval
		// The device is asked beside the question, for a second at the most.
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			_, body := a.do(root, "GET", "/v1/approvals/"+w.ID, "")
			if err := json.Unmarshal([]byte(body), &view); err != nil {
				t.Fatal(err)
			}
			if view.Question != nil && view.Question.Where != nil || tool == "tool.desktop.screenshot" {
				break
			}
		}
		if view.Question == nil {
			t.Fatalf("nothing is told of %s", tool)
		}
		return view, *view.Question, said
	}
	answer := func(id string, allow bool) {
		t.Helper()
		if _, err := a.Consent.Answer(t.Context(), id, consent.Answer{Allow: allow, By: "anna"}); err != nil {
			t.Fatal(err)
		}
	}

	w, _, said := ask("tool.desktop.screenshot", `{"display":"primary"}`)
	if w.Risk != "medium" {
		t.Errorf("looking is %s risk", w.Risk)
	}
	answer(w.ID, true)
	shot := <-said
	var frame struct {
		ID string `json:"frame_id"`
	}
	if err := json.Unmarshal(shot.Output, &frame); err != nil || frame.ID == "" {
		t.Fatalf("%+v %v", shot, err)
	}

	w, told, said := ask("tool.desktop.keyboard", `{"action":"type","text":"rm -rf x\n"}`)
	if told.Where == nil || !strings.EqualFold(told.Where.App, "xterm") || told.Where.Window != "shell" || !told.Where.Terminal || w.Risk != "critical" {
		t.Errorf("typing: %s risk, %+v", w.Risk, told.Where)
	}
	answer(w.ID, false)
	<-said

	w, told, said = ask("tool.desktop.mouse", fmt.Sprintf(`{"action":"click","x":100,"y":60,"frame_id":%q}`, frame.ID))
	if told.Does != "clicks at 100, 60" || told.Where == nil || told.Where.Window != "shell" || told.Frame == nil || !told.Frame.Available {
		t.Errorf("clicking: %+v %+v %+v", told, told.Where, told.Frame)
	}
	if status, _ := a.do(anna, "GET", "/v1/approvals/"+w.ID+"/frame", ""); status != 403 {
		t.Errorf("who may not watch the screen gets the picture: %d", status)
	}
	status, body := a.do(root, "GET", "/v1/approvals/"+w.ID+"/frame", "")
	picture, err := png.Decode(bytes.NewReader([]byte(body)))
	if status != 200 || err != nil {
		t.Fatalf("%d %v", status, err)
	}
	if b := picture.Bounds(); b.Dx() != 640 || b.Dy() != 360 {
		t.Errorf("the part is %v", b)
	}
	if r, g, _, _ := picture.At(100, 60-18).RGBA(); r>>8 != 0xe0 || g>>8 != 0x10 {
		t.Errorf("the place is not marked: %x %x", r>>8, g>>8)
	}
	answer(w.ID, false)
	<-said
	calls := 0
	for _, c := range []string{"tool.desktop.screenshot", "tool.live.screen"} {
		_, body := a.do(root, "GET", "/v1/calls?tool="+c, "")
		calls += strings.Count(body, `"call_id"`)
	}
	if calls != 1 {
		t.Errorf("%d pictures were asked for", calls)
	}
}
