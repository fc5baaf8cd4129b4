//go:build unix

package console

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/gateway/principal"
)

// An admin adds a person and makes the link that lets them in; it works once, as them, and
// is shown once. Their role can be changed, and they can be removed again.
func TestAPersonIsAdded(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleAdmin)
	d.goTo("/console/people")
	d.says("Nobody has been added")
	d.shots("people-empty")
	d.fill("p-name", "zoe")
	must(t, d.run(`document.getElementById("p-role").value = "viewer"; 1`, nil))
	d.click("Add and make a link")
	d.await(`document.getElementById("made-link")`)
	d.says("The link of zoe", "none yet", "viewer")
	link := d.value(`document.getElementById("made-link").textContent`)
	d.shots("people")
	d.goTo("/console/people")
	if got := d.value(`document.documentElement.outerHTML.includes("#hrl_")`); got != "false" {
		t.Error("the link is shown again")
	}
	code := link[strings.Index(link, "#")+1:]
	session, _, err := d.Tokens.Redeem(t.Context(), code)
	if err != nil || session.Principal != "zoe" || session.Role != principal.RoleViewer {
		t.Fatalf("%s opens %+v: %v", link, session, err)
	}
	if _, _, err := d.Tokens.Redeem(t.Context(), code); err == nil {
		t.Error("the link works twice")
	}
	d.click("Sign out everywhere")
	d.await(`document.getElementById("outcome").innerText.includes("Signed out everywhere")`)
	if n := len(d.Tokens.Sessions("zoe")); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
	must(t, d.run(`document.querySelector("details[id$=-role]").open = true; document.querySelector("details[id$=-role] select").value = "operator"; document.querySelector("button[value=role]").click(); 1`, nil))
	d.await(`document.getElementById("outcome").innerText.includes("Saved")`)
	if u, err := d.Tokens.User("zoe"); err != nil || u.Role != principal.RoleOperator {
		t.Errorf("zoe is %s: %v", u.Role, err)
	}
	must(t, d.run(`document.querySelector("details[id$=-remove]").open = true; document.querySelector("button[value=remove]").click(); 1`, nil))
	d.await(`document.getElementById("outcome").innerText.includes("cannot sign in any more")`)
	if _, err := d.Tokens.User("zoe"); err == nil {
		t.Error("zoe is still a user")
	}
	d.quiet()
}

// Somebody who is no admin sees neither the page's entry nor the page.
func TestPeopleAreAnAdminsMatter(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleOperator)
	if got := d.value(`document.querySelector("nav a[href='/console/people']") === null`); got != "true" {
		t.Error("an operator is offered the page")
	}
	if got := d.fetch("/console/people", "principal=eve&role=admin"); got != "403" {
		t.Errorf("an operator adds a person: %s", got)
	}
}

// A client is connected: its entry is shown once, holds the address and a token of its own,
// and what is in it works.
func TestAClientIsConnected(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleAdmin)
	d.goTo("/console/tokens")
	d.says("Connect a client", "handrail connect claude-code")
	d.shots("connect")
	make := func(client, way string) string {
		t.Helper()
		must(t, d.run(`document.getElementById("c-client").value = "`+client+`"; document.getElementById("c-way").value = "`+way+`"; 1`, nil))
		d.click("Make its token and entry")
		d.await(`document.getElementById("made-entry") || document.querySelector(".fault")`)
		return d.value(`document.getElementById("made-entry")?.textContent ?? ""`)
	}
	var http struct {
		Servers map[string]struct {
			Type, URL string
			Headers   map[string]string
		} `json:"mcpServers"`
	}
	text := make("claude-code", "address")
	must(t, json.Unmarshal([]byte(text), &http))
	d.shots("connected")
	entry := http.Servers["handrail"]
	who, err := d.Tokens.Authenticate(strings.TrimPrefix(entry.Headers["Authorization"], "Bearer "))
	if err != nil || who.Principal != "claude-code" || who.Role != principal.RoleAgent || who.Lane != "claude-code" {
		t.Errorf("its token is %+v: %v", who, err)
	}
	if entry.URL != d.URL()+"/mcp?structured=0" || entry.Type != "http" {
		t.Errorf("it calls %s %s", entry.Type, entry.URL)
	}
	d.goTo("/console/tokens")
	if got := d.value(`document.documentElement.outerHTML.includes("hrt_")`); got != "false" {
		t.Error("the token is shown again")
	}
	if got := make("claude", "address"); got != "" {
		t.Errorf("Claude Desktop starts programs only: %s", got)
	}
	d.says("only starts programs")
	var program struct {
		Servers map[string]struct {
			Command string
			Args    []string
			Env     map[string]string
		} `json:"mcpServers"`
	}
	d.goTo("/console/tokens")
	must(t, json.Unmarshal([]byte(make("claude", "program")), &program))
	started := program.Servers["handrail"]
	if who, err := d.Tokens.Authenticate(started.Env["HANDRAIL_TOKEN"]); err != nil || who.Principal != "claude" || started.Env["HANDRAIL_URL"] != d.URL() || started.Command != "handrail" || started.Args[0] != "mcp" {
		t.Errorf("%+v: %+v %v", started, who, err)
	}
	d.quiet("/console/connect")
}

// A person from outside is shown with their provider, and with nothing that the provider's word
// undoes or that is refused.
func TestAPersonFromOutsideOnThePage(t *testing.T) {
	d := startSite(t)
	me := d.session(principal.RoleAdmin)
	_, _, err := d.Tokens.SignInOutside(t.Context(), principal.Outside{Issuer: "https://idp.example/realm", Subject: "1", Name: "olga", Role: principal.RoleOperator})
	must(t, err)
	_, err = d.Tokens.AddUser(t.Context(), principal.Site, "zoe", principal.RoleViewer, principal.Password{})
	must(t, err)
	page := read(t, d.URL()+"/console/people", me)
	if !strings.Contains(page, "at idp.example") || !strings.Contains(page, "Make a sign-in link for zoe") || !strings.Contains(page, "Change role: zoe") || !strings.Contains(page, "Remove person: olga") {
		t.Errorf("the page lacks something: %s", page)
	}
	for _, no := range []string{"Make a sign-in link for olga", "Change role: olga"} {
		if strings.Contains(page, no) {
			t.Errorf("it offers %q", no)
		}
	}
}
