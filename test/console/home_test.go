//go:build unix

package console

import (
	"context"
	"fmt"
	"testing"

	"github.com/handrail-dev/handrail/agent"
	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/pairing"
	"github.com/handrail-dev/handrail/test/site"
)

// focusSeen reports whether what has the focus is within the page's width and shows it.
func (b *browser) focusSeen() bool {
	b.t.Helper()
	return b.value(`(() => { const e = document.activeElement, r = e.getBoundingClientRect(); return e.matches(":focus-visible") && r.width > 0 && r.left >= 0 && r.right <= innerWidth + 1 && getComputedStyle(e).outlineStyle !== "none"; })()`) == "true"
}

// tabTo goes on by Tab, as a person without a mouse, until what a selector names has
// the focus, and is seen to have it.
func (d *desk) tabTo(selector string) {
	d.t.Helper()
	d.await(fmt.Sprintf("document.querySelector(%q)", selector))
	for range 120 {
		d.key("Tab")
		if d.value(fmt.Sprintf("document.activeElement.matches(%q)", selector)) == "true" {
			if !d.focusSeen() {
				d.t.Errorf("the focus on %s is not seen: %s", selector, d.value("document.activeElement.outerHTML.slice(0, 200)"))
			}
			return
		}
	}
	d.t.Fatalf("the keyboard does not reach %s; it is at %s", selector, d.value("document.activeElement.outerHTML.slice(0, 200)"))
}

// The person at home, with a phone's width and a keyboard alone: pair a device, let an
// agent in, allow it five minutes, watch each call appear, open one and understand it,
// stop everything.
func TestAtHome(t *testing.T) {
	d := startSite(t)
	d.node.Stop() // what it had before; the person pairs another
	_, err := d.Nodes.Revoke(t.Context(), d.node.ID, "ann", "")
	must(t, err)
	d.browser = startChrome(t)
	d.look(360, 740, false)
	_, token, err := d.Tokens.Create(t.Context(), principal.Site, principal.Spec{Principal: "ann", Role: principal.RoleAdmin})
	must(t, err)
	ann, err := d.Tokens.Authenticate(token.Reveal())
	must(t, err)
	code, _, err := d.Tokens.Login(ann, "")
	must(t, err)
	d.browser.open(d.URL() + "/console/login#" + code.Reveal())
	d.await("location.pathname === '/console/' && document.readyState === 'complete'")

	// A device is paired by the paste that the page shows, and let in.
	d.tabTo(`nav a[href="/console/nodes"]`)
	d.key("Enter")
	d.await(`location.pathname === "/console/nodes" && document.readyState === "complete"`)
	d.says("No device is paired")
	d.tabTo(`form[action="/console/pair"] button`)
	d.key("Enter")
	d.await(`document.querySelector(".paste code + code, .paste pre code")`)
	paste, err := pairing.ParsePaste(d.value(`document.querySelector(".paste pre code").textContent`))
	must(t, err)
	paste.Addrs = []string{d.QUICAddr().String()}
	dir, handlers := t.TempDir(), []capabilities.Handler{d.handler}
	joined := make(chan error, 1)
	go func() {
		_, err := link.Join(d.ctx, paste, link.JoinOptions{Dir: dir, Profile: pairing.Profile{Host: "kitchen", Offers: agent.Offers(handlers)}})
		joined <- err
	}()
	d.tabTo(`button[value=approve]`)
	d.key("Enter")
	must(t, <-joined)
	cat, err := site.Catalog()
	must(t, err)
	node, err := agent.New(agent.Options{Dir: dir, Handlers: handlers, Catalog: cat, Addrs: []string{d.QUICAddr().String()}, Version: "test", Log: d.Log})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	d.await(`[...document.querySelectorAll("article")].some((a) => a.innerText.includes("connected"))`)

	// An agent gets a token, which is shown once.
	d.tabTo(`nav a[href="/console/tokens"]`)
	d.key("Enter")
	d.await(`location.pathname === "/console/tokens" && document.readyState === "complete"`)
	d.tabTo("#t-who")
	d.typed("helper")
	d.key("Enter")
	d.await(`document.getElementById("made-token")`)
	if who, err := d.Tokens.Authenticate(d.value(`document.getElementById("made-token").textContent`)); err != nil || who.Principal != "helper" {
		t.Fatalf("%+v %v", who, err)
	}

	// It asks; the person allows five minutes with one key, and the next call runs unasked.
	d.tabTo(`nav a[href="/console/approvals"]`)
	d.key("Enter")
	d.await(`location.pathname === "/console/approvals" && document.readyState === "complete"`)
	first := d.call("helper", string(site.ToolPress), `{"text":"one"}`)
	d.waiting(1)
	d.await(`document.querySelectorAll("[data-question]").length === 1 && !("settling" in document.body.dataset)`)
	d.key("j")
	d.await(`document.activeElement.matches("[data-question]")`)
	d.key("5")
	d.await(`document.activeElement.name === "acknowledged"`)
	must(t, d.run(acknowledged+`document.querySelector("[data-question]").focus()`, nil))
	d.key("5")
	if got := d.result(first); got.Status != capabilities.StatusOK {
		t.Fatalf("%+v", got)
	}
	if got := d.result(d.call("helper", string(site.ToolPress), `{"text":"two"}`)); got.Status != capabilities.StatusOK {
		t.Fatalf("it asks again: %+v", got)
	}

	// Each call appears; one is opened and says what happened.
	d.tabTo(`nav a[href="/console/calls"]`)
	d.key("Enter")
	d.await(`document.querySelectorAll("tbody tr").length === 2`)
	running := d.call("helper", string(site.ToolSlow), `{"text":"long"}`)
	d.await(`document.querySelectorAll("tbody tr").length === 3 && document.querySelector("tbody").innerText.includes("running")`)
	d.tabTo(`tbody tr:nth-child(2) a`)
	d.key("Enter")
	d.await(`location.pathname.startsWith("/console/calls/c") && document.readyState === "complete"`)
	d.says("tool.fixture.press", "By helper", "Elevated", "privileged.input.inject", "allowed by a grant", "in one commit")

	// And everything is stopped.
	d.key("s")
	d.await(`document.activeElement.id === "stop"`)
	d.key("Enter")
	if got := d.result(running); got.Status == capabilities.StatusOK {
		t.Errorf("%+v", got)
	}
	d.await(`document.getElementById("stopped").innerText.includes("Everything is stopped")`)
	if n := len(d.Consent.Grants()); n != 0 {
		t.Errorf("%d grants are left", n)
	}
	d.quiet()
}
