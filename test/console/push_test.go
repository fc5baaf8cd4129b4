//go:build unix

package console

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/push"
	"github.com/handrail-dev/handrail/gateway/push/pushtest"
	"github.com/handrail-dev/handrail/test/site"
)

// worker returns the page's service worker, which from now on remembers what it showed.
// Asking the browser for its notices while one is being shown loses that one (Chrome).
func (d *desk) worker() *browser {
	d.t.Helper()
	all := &browser{t: d.t, chrome: d.chrome}
	var list struct {
		Targets []struct {
			ID      string `json:"targetId"`
			Type    string `json:"type"`
			Context string `json:"browserContextId"`
		} `json:"targetInfos"`
	}
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		all.ask("Target.getTargets", object{}, &list)
		for _, at := range list.Targets {
			if at.Type != "service_worker" || at.Context != d.context {
				continue
			}
			var attached struct {
				SessionID string `json:"sessionId"`
			}
			all.ask("Target.attachToTarget", object{"targetId": at.ID, "flatten": true}, &attached)
			w := &browser{t: d.t, chrome: d.chrome, session: attached.SessionID}
			must(d.t, w.run(`{ self.shown = []; const show = ServiceWorkerRegistration.prototype.showNotification;
				ServiceWorkerRegistration.prototype.showNotification = async function (...a) { await show.apply(this, a); self.shown.push(a); } } 1`, nil))
			return w
		}
	}
	d.t.Fatal("the page has no worker")
	return nil
}

// delivered hands the page's worker what its push service would, and waits until it has
// shown a notice that says so.
func (d *desk) delivered(w *browser, text []byte, says string) {
	d.t.Helper()
	d.mu.Lock()
	id := d.works
	d.mu.Unlock()
	d.ask("ServiceWorker.deliverPushMessage", object{"origin": d.named(), "registrationId": id, "data": string(text)}, nil)
	for end := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
		now := w.value("JSON.stringify(self.shown)")
		if strings.Contains(now, says) {
			return
		}
		if time.Now().After(end) {
			d.t.Fatalf("no notice says %q: %s", says, now)
		}
	}
}

// A person has their browser told. A question reaches their push service sealed, and
// what the browser's worker makes of it is a notice without the call's arguments.
//
// The Chrome of tests has no push service of its own maker: what is real here is all but
// the way through that, which the test's own service stands in for.
func TestABrowserTellsWhatWaits(t *testing.T) {
	service, b := pushtest.NewService(t), pushtest.NewBrowser(t)
	d := startSite(t, func(o *gateway.Options) {
		o.PushServices, o.PushTransport = []string{service.Host()}, service.Client().Transport
	})
	d.Drifts = true
	d.handler.Stray = func(inv capabilities.Invocation, text string) {
		if text == "stray" {
			inv.Observe("network.egress.https", "evil.example")
		}
	}
	d.browser = startChromeAt(t, byName)
	_, token, err := d.Tokens.Create(t.Context(), principal.Site, principal.Spec{Principal: "ann", Role: principal.RoleOperator})
	must(t, err)
	ann, err := d.Tokens.Authenticate(token.Reveal())
	must(t, err)
	code, _, err := d.Tokens.Login(ann, "")
	must(t, err)
	d.browser.open(d.named() + "/console/login#" + code.Reveal())
	d.await(`location.pathname === "/console/" && document.readyState === "complete"`)
	d.browser.open(d.named() + "/console/account")
	d.shots("notices")
	press := func() {
		t.Helper()
		must(t, d.run(`document.querySelector("form[data-push] button").click()`, nil))
	}
	problem := `document.querySelector("form[data-push] [data-problem]").textContent`

	// Nobody is asked before they press, and a no is a no.
	d.ask("Browser.setPermission", object{"permission": object{"name": "notifications"}, "setting": "denied", "origin": d.named(), "browserContextId": d.context}, nil)
	d.fill("push-name", "phone")
	press()
	d.await(problem + `.includes("may not show notices")`)
	workers := -1
	must(t, d.run(`(async () => (await navigator.serviceWorker.getRegistrations()).length)()`, &workers))
	if workers != 0 {
		t.Errorf("%d workers before the person agreed", workers)
	}
	d.quiet()

	// This Chrome has no push service, in a context that shares nothing as little as without
	// a network, and the page says so.
	d.ask("Browser.setPermission", object{"permission": object{"name": "notifications"}, "setting": "granted", "origin": d.named(), "browserContextId": d.context}, nil)
	d.ask("ServiceWorker.enable", object{}, nil)
	press()
	d.await(`!` + problem + `.includes("may not show") && ` + problem)
	t.Logf("without a push service the page says: %s\n%q", d.value(problem), d.words())
	d.mu.Lock()
	d.said = nil // Chrome says why
	d.mu.Unlock()
	if list := d.Push.List("ann"); len(list) != 0 {
		t.Errorf("%+v", list)
	}

	// With one, the gateway has a first message taken, and the page says that it is done.
	standIn := fmt.Sprintf(`PushManager.prototype.subscribe = async function (o) {
		if (!o.userVisibleOnly || o.applicationServerKey.length !== 65) throw new Error("not asked as it should be");
		return { toJSON: () => ({ endpoint: %q, keys: { p256dh: %q, auth: %q } }) };
	}; 1`, service.URL+"/to/ann", b.P256dh(), b.Auth())
	must(t, d.run(standIn, nil))
	d.fill("push-name", "phone")
	press()
	d.await(`document.getElementById("outcome").textContent.includes("Notifications are on")`)
	d.says("phone", "through "+service.Host())
	first, _ := service.Next(b)
	w := d.worker()
	d.delivered(w, first, "when something waits for you")

	d.call("robot", string(site.ToolPress), `{"text":"my secret words"}`)
	d.waiting(1)
	text, _ := service.Next(b)
	var m push.Message
	must(t, json.Unmarshal(text, &m))
	if m.Approval != d.Consent.Approvals()[0].ID || strings.Contains(string(text), "secret words") {
		t.Errorf("told: %s", text)
	}
	d.delivered(w, text, "robot waits for you")
	d.delivered(w, text, `"data":"/console/approvals/`+m.Approval+`","actions":[{"action":"allow"`)
	d.delivered(w, []byte("nonsense"), "Something waits for you.")

	// Drift is told of, too, with nothing of its evidence (S1-49).
	d.result(d.call("robot", string(site.ToolEcho), `{"text":"stray"}`))
	text, _ = service.Next(b)
	must(t, json.Unmarshal(text, &m))
	if !strings.HasPrefix(m.Drift, "drift_") || strings.Contains(string(text), "evil.example") {
		t.Errorf("told: %s", text)
	}
	d.delivered(w, text, "Drift: violation")
	d.shots("notices-told")
	var kept []string
	must(t, d.run(`(async () => (await (await navigator.serviceWorker.ready).getNotifications()).map((n) => n.title))()`, &kept))
	if !slices.Contains(kept, "robot waits for you") {
		t.Errorf("the browser shows %q", kept)
	}

	// And no more, once it is removed.
	must(t, d.run(`document.querySelector("form[action^='/console/account/push/'] button").click()`, nil))
	d.await(`document.getElementById("outcome").textContent.includes("Notifications are off")`)
	if list := d.Push.List("ann"); len(list) != 0 {
		t.Errorf("%+v", list)
	}
	d.quiet()
}
