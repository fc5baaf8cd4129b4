//go:build unix

package console

import (
	"context"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/agent"
	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/pairing"
	"github.com/handrail-dev/handrail/test/site"
)

// Calls appear as they happen, and one of them tells where it came through.
func TestCallsAndOneOfThem(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleViewer)
	d.goTo("/console/calls")
	d.await(`document.body.innerText.includes("No calls yet")`)
	d.shots("calls-empty")
	done := d.result(d.call("robot", "tool.fixture.echo", `{"text":"hello"}`))
	refused := d.result(d.call("robot", "tool.fixture.fail", `{"text":"x","code":"not_found"}`))
	if done.Status != capabilities.StatusOK || refused.Status == capabilities.StatusOK {
		t.Fatalf("%+v\n%+v", done, refused)
	}
	d.await(`document.querySelectorAll("tbody tr").length === 2 && document.body.innerText.includes("failed") && document.body.innerText.includes("done")`) // without a reload
	if got := d.value(`document.querySelectorAll("td[data-name=Device]")[1].innerText`); got != "study" {
		t.Errorf("the list does not say on which device: %q", got)
	}
	d.shots("calls")
	d.goTo("/console/calls/" + string(done.Call))
	page := d.value("document.getElementById('main').innerText")
	for _, want := range []string{"tool.fixture.echo", "robot", "study", "fixture", "Safe", "one commit", "Packets", "tool.call.request", "tool.call.decision", "tool.call.dispatch", "tool.call.result"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q:\n%s", want, page)
		}
	}
	if n := d.value(`document.querySelectorAll(".hops > li").length + " " + document.querySelectorAll(".hops > li.unreached").length`); n != "12 0" {
		t.Errorf("hops and those not reached: %s", n)
	}
	d.shots("call")
	d.goTo("/console/calls?principal=nobody")
	if got := d.value(`document.body.innerText.includes("No such call lately")`); got != "true" {
		t.Error("a filter that finds nothing does not say so")
	}
	d.quiet()
}

// A device that joined is let in from its page, and put out again.
func TestDevices(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleAdmin)
	d.goTo("/console/nodes")
	_, paste, err := d.Nodes.Invite(context.Background(), nodes.InviteSpec{By: "admin"})
	must(t, err)
	paste.Addrs = []string{d.QUICAddr().String()}
	joined := make(chan error, 1)
	go func() {
		_, err := link.Join(d.ctx, paste, link.JoinOptions{Dir: t.TempDir(), Profile: pairing.Profile{Host: corpus[1], Offers: agent.Offers([]capabilities.Handler{site.NewHandler()})}})
		joined <- err
	}()
	d.await(`document.body.innerText.includes("Wants to join")`)
	if got := d.value("window.pwned"); got != "undefined" {
		t.Error("a device's name ran")
	}
	d.shots("devices")
	must(t, d.run(`document.querySelector("button[value=approve]").click()`, nil))
	must(t, <-joined)
	d.await(`!document.body.innerText.includes("Wants to join") && document.querySelectorAll("#live article").length === 2`)
	must(t, d.run(`document.querySelector("form[action='/console/pair'] button").click()`, nil))
	d.await(`document.querySelector(".paste svg.qr") && document.querySelector(".paste code")`)
	d.shots("pairing")
	// It is shown once, so what else happens does not take it away.
	name := "the study"
	_, err = d.Nodes.Change(t.Context(), d.node.ID, nodes.Edit{By: "admin", Label: &name})
	must(t, err)
	d.await(`document.getElementById("n-` + string(d.node.ID) + `").innerText.includes("the study")`)
	if d.value(`document.querySelectorAll(".paste svg.qr").length`) != "1" {
		t.Error("the paste is gone")
	}
	d.goTo("/console/nodes")
	must(t, d.run(`document.querySelector("#n-`+string(d.node.ID)+` button[value=revoke]").click()`, nil))
	d.await(`!document.querySelector("#n-` + string(d.node.ID) + `")`)
	if v, err := d.Nodes.View(d.node.ID); err != nil || v.State != pairing.StateRevoked {
		t.Errorf("%+v %v", v, err)
	}
	d.quiet()
}

// A grant for a while is seen and taken back.
func TestGrantIsTakenBack(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleOperator)
	d.Grant("robot", d.node, "tool.fixture.press")
	d.goTo("/console/grants")
	d.await(`document.body.innerText.includes("robot may use") && document.querySelector("dl.facts").innerText.includes("study")`)
	d.shots("grants")
	must(t, d.run(`document.querySelector("#live form button").click()`, nil))
	d.await(`document.getElementById("outcome").textContent.includes("Taken back") || document.querySelector(".fault")`)
	if n := len(d.Consent.Grants()); n != 0 {
		t.Errorf("%d grants are left", n)
	}
	d.quiet()
}
