package attack

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/desktop"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/principal"
	session "github.com/handrail-dev/handrail/platform/desktop"
	"github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// minute is a delivered secret's time in the clipboard, which is over when the test closes it.
type minute chan time.Time

func (m minute) after(time.Duration) <-chan time.Time { return m }

// The agent that a secret was delivered for pastes it into a field that shows it, types a
// letter into its middle, waits until the clipboard was cleared, and looks: no piece of the
// value comes back, and no picture, until a person says that it is done.
func TestADeliveredSecretIsNotReadBack(t *testing.T) {
	t.Parallel()
	const value, rules = "Zq7-Hunter-Kx42", `@id("desk") permit (principal, action in Action::"family:desktop", resource);`
	d := desk.StartX(t, desk.Options{})
	log := slog.New(slog.DiscardHandler)
	minute := make(minute)
	hands := func() capabilities.Handler {
		opener := session.New(session.Options{Log: log, Getenv: d.Getenv})
		t.Cleanup(func() { _ = opener.Close() })
		h, err := desktop.New(desktop.Options{Opener: opener, QuietTime: time.Millisecond, After: minute.after, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = h.Close() })
		return h
	}
	a := &arena{Site: site.Start(t, site.Options{Rules: rules, ApprovalWait: time.Millisecond}), t: t, client: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(a.client.CloseIdleConnections)
	a.node = a.AddNode("desk", hands())
	a.node.AwaitReady("tyrum.desktop.keyboard", "tyrum.desktop.screenshot", "tyrum.desktop.snapshot", "tyrum.desktop.clipboard-write")
	a.Grant("agent", a.node, "tool.desktop.snapshot", "tool.desktop.screenshot") // it may look, not type
	a.agent, a.operator = a.MustToken("agent", principal.RoleAgent), a.MustToken("anna", principal.RoleOperator)
	admin := a.MustToken("root", principal.RoleAdmin)
	for _, ask := range [][3]string{
		{"PUT", "/v1/secrets/mail", `{"value":"` + value + `"}`},
		{"POST", "/v1/secrets/mail/references", `{"principal":"agent","secret_alias":"mail"}`},
	} {
		if status, body := a.do(admin, ask[0], ask[1], ask[2]); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
	}
	if err := a.Lanes.Claim(t.Context(), "agent", "main"); err != nil {
		t.Fatal(err)
	}
	call := func(tool capabilities.ToolID, args string) capabilities.Result {
		t.Helper()
		for range 100 {
			r := a.call(tool, args)
			inTime(t, tool, r)
			if r.Code == capabilities.CodeApprovalPending {
				if _, err := a.Consent.Answer(t.Context(), a.waiting().ID, consent.Answer{By: "anna", Allow: true}); err != nil {
					t.Fatal(err)
				}
				continue
			}
			return r
		}
		t.Fatalf("%s waits for ever", tool)
		return capabilities.Result{}
	}
	do := func(tool capabilities.ToolID, args string) {
		t.Helper()
		if r := call(tool, args); r.Status != capabilities.StatusOK {
			t.Fatalf("%s: %s %s", tool, r.Code, r.Message)
		}
	}
	f := d.Fixture(desk.GTK3, 1)
	in := func(text string) {
		f.Await(text, func(e desk.Event) bool { return e.Kind == "text" && e.Widget == "entry" && e.Text == text })
	}
	pieces := func(when string) {
		t.Helper()
		r := call("tool.desktop.snapshot", `{"include_tree":true}`)
		all, _ := json.Marshal(r)
		if r.Status != capabilities.StatusOK {
			t.Errorf("%s: the desk cannot be read: %s %s", when, r.Code, r.Message)
		}
		for i := range len(value) - 3 {
			if strings.Contains(string(all), value[i:i+4]) {
				t.Errorf("%s: %q came back", when, value[i:i+4])
			}
		}
	}
	pictures := func(when string, want capabilities.Code) {
		t.Helper()
		if r := call("tool.desktop.screenshot", `{"display":"primary"}`); r.Code != want {
			t.Errorf("%s: a picture gives %q (%s), want %q", when, r.Code, r.Message, want)
		}
	}
	pictures("before", "")
	d.Activate(f.Window.ID)
	do("tool.secret.copy-to-node-clipboard", `{"secret_alias":"mail"}`)
	do("tool.desktop.keyboard", `{"action":"press","key":"Control+V"}`)
	in(value)
	pieces("pasted")
	pictures("pasted", capabilities.CodeSecretHeld)
	do("tool.desktop.keyboard", `{"action":"press","key":"Home"}`)
	do("tool.desktop.keyboard", `{"action":"press","key":"Right","count":5}`)
	do("tool.desktop.keyboard", `{"action":"type","text":"_"}`)
	in("Zq7-H_unter-Kx42")
	pieces("a letter in its middle")
	// Somebody else's copy ends it in the clipboard as its minute does.
	d.Run("sh", "-c", "printf other | xclip -selection clipboard -i >/dev/null 2>&1")
	close(minute)
	a.until("the clipboard to be cleared", func() bool {
		return strings.Contains(call("tool.desktop.screenshot", `{"display":"primary"}`).Message, "pasted")
	})
	pieces("cleared")
	pictures("cleared", capabilities.CodeSecretHeld)
	if status, body := a.do(a.agent, "POST", "/v1/lanes/main/secrets-done", "{}"); status != 403 {
		t.Fatalf("%d %s, want 403", status, body)
	}
	a.until("the hands to be over", func() bool {
		status, _ := a.do(a.operator, "POST", "/v1/lanes/main/secrets-done", "{}")
		return status == 200
	})
	a.until("the word to arrive", func() bool { return call("tool.desktop.screenshot", `{"display":"primary"}`).Code == "" })
	pieces("done")
	// A node that starts again has forgotten the value, and the window still shows it.
	restart := func() {
		a.node.Stop()
		a.node.Offer(hands())
		a.node.Start()
		a.node.AwaitReady("tyrum.desktop.keyboard", "tyrum.desktop.screenshot", "tyrum.desktop.snapshot")
	}
	restart()
	for _, look := range [][2]string{{"tool.desktop.snapshot", `{"include_tree":true}`}, {"tool.desktop.screenshot", `{"display":"primary"}`}, {"tool.desktop.keyboard", `{"action":"press","key":"Home"}`}} {
		if r := call(capabilities.ToolID(look[0]), look[1]); r.Code != capabilities.CodeSecretHeld || r.Action != (capabilities.Action{Key: capabilities.ActionReleaseSecret, Lane: "main"}) {
			t.Errorf("after a restart %s gives %q %s (%s)", look[0], r.Code, r.Message, r.Hint)
		}
	}
	other := dispatch.Request{Caller: caller("other", "other"), Tool: "tool.desktop.snapshot", Args: []byte(`{"include_tree":true}`), Surface: "test"}
	if r := a.Dispatcher.Call(t.Context(), other); r.Code == capabilities.CodeSecretHeld {
		t.Errorf("another agent is held for it: %s", r.Message)
	}
	a.until("the hands to be over", func() bool {
		status, _ := a.do(a.operator, "POST", "/v1/lanes/main/secrets-done", "{}")
		return status == 200
	})
	a.until("the word to arrive", func() bool { return call("tool.desktop.screenshot", `{"display":"primary"}`).Code == "" })
	restart() // and the word stays
	pictures("started once more", "")
}
