package console

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	view "github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
)

// people shows who signs in here under a name of their own.
func (c *Console) people(v *visit) { v.showPeople(nil, html{}) }

func (v *visit) showPeople(problem error, made html) {
	pg := page{title: "People", here: "/console/people", live: "packet", fault: problem,
		lead: text("Who signs in here. Each person has a name, a role, and ways in of their own: passkeys, a password, or a link that you make.")}
	var list struct {
		Users []view.User `json:"users"`
	}
	if err := v.get(api("users"), &list); err != nil {
		pg.fault = err
		v.show(pg)
		return
	}
	pg.body = group(made, v.newPerson(),
		when(len(list.Users) == 0, empty("Nobody has been added", text("So far, whoever signs in does it by a link of the gateway's own machine. Add a person above, and send them their link."))),
		when(len(list.Users) > 0, group(el("h2", class("part"), text("Added")), div("cards", each(list.Users, v.person)))))
	v.show(pg)
}

// newPerson is the form that adds one.
func (v *visit) newPerson() html {
	if !v.offers("POST /v1/users") {
		return html{}
	}
	return card("new", "Add a person",
		el("p", class("faint"), text("They get a link that signs them in once. There they add a passkey or a password of their own.")),
		v.control("POST /v1/users", "/console/people", attrs{"class", "grid"},
			input("p-name", "principal", "Name", "", "maxlength", "128", "required", "", "placeholder", "such as: ann"),
			choice("p-role", "role", "Role", "operator", "viewer", "viewer: looks", "operator", "operator: answers and stops", "admin", "admin: everything"),
			button("main", "Add and make a link")))
}

// person is one of them, with what can be changed.
func (v *visit) person(u view.User) html {
	id := "u-" + u.TokenID
	var ways []string
	if n := len(u.Passkeys); n > 0 {
		ways = append(ways, count(n, "passkey", "passkeys"))
	}
	if u.Password {
		ways = append(ways, "a password")
	}
	way := text(strings.Join(ways, ", "))
	if len(ways) == 0 {
		way = span("state busy", text("none yet"))
	}
	name := string(u.Principal)
	me := u.Principal == v.who.Principal
	return el("article", attrs{"class", "card", "id", id, "aria-labelledby", id + "-h"},
		el("header", nil, el("h2", attrs{"id", id + "-h"}, text(name)), span("tag", text(u.Role))),
		facts(fact{"Ways in", way}, fact{"Since", ago(u.CreatedAt)}),
		div("buttons",
			v.control("POST /v1/users/{user}/link", at("people", name), attrs{"class", "inline"}, button("plain", "Make a sign-in link", "name", "do", "value", "link", "aria-label", "Make a sign-in link for "+name)),
			v.control("DELETE /v1/users/{user}/sessions", at("people", name), attrs{"class", "inline"}, button("plain", "Sign out everywhere", "name", "do", "value", "out", "aria-label", "Sign out everywhere: "+name))),
		when(!me && v.offers("PUT /v1/users/{user}/role"), el("details", attrs{"id", id + "-role"}, el("summary", nil, text("Change role")),
			p(text("Sessions and tokens of theirs that may do more than the new role end at once.")),
			v.control("PUT /v1/users/{user}/role", at("people", name), attrs{"class", "grid"},
				choice(id+"-role-new", "role", "Role", u.Role, "viewer", "viewer: looks", "operator", "operator: answers and stops", "admin", "admin: everything"),
				button("plain", "Change role", "name", "do", "value", "role", "aria-label", "Change role: "+name)))),
		when(!me && v.offers("DELETE /v1/users/{user}"), el("details", attrs{"id", id + "-remove"}, el("summary", nil, text("Remove person")),
			p(text("Their sessions, their tokens and the grants that they have or gave end at once.")),
			v.control("DELETE /v1/users/{user}", at("people", name), nil, button("danger", "Remove person", "name", "do", "value", "remove", "aria-label", "Remove person: "+name)))))
}

// addPerson adds somebody and makes the link that lets them in.
func (c *Console) addPerson(v *visit) {
	f := v.r.PostForm
	name := strings.TrimSpace(f.Get("principal"))
	if err := v.ask(http.MethodPost, api("users"), map[string]any{"principal": name, "role": f.Get("role")}, nil); err != nil {
		v.showPeople(err, html{})
		return
	}
	v.welcome(name)
}

// changePerson does one thing to somebody who was added.
func (c *Console) changePerson(v *visit) {
	name := v.r.PathValue("user")
	var err error
	done := ""
	switch v.r.PostForm.Get("do") {
	case "link":
		v.welcome(name)
		return
	case "role":
		done, err = "changed", v.ask(http.MethodPut, api("users", name, "role"), map[string]any{"role": v.r.PostForm.Get("role")}, nil)
	case "out":
		done, err = "signedout", v.ask(http.MethodDelete, api("users", name, "sessions"), nil, nil)
	case "remove":
		done, err = "gone", v.ask(http.MethodDelete, api("users", name), nil, nil)
	default:
		err = capabilities.Errorf(capabilities.CodeInvalidRequest, "the form names no change")
	}
	if err != nil {
		v.showPeople(err, html{})
		return
	}
	v.seeOther("/console/people", done)
}

// welcome makes somebody's link and shows it, this once.
func (v *visit) welcome(name string) {
	var made struct {
		Code    string    `json:"code"`
		Public  string    `json:"public_url"`
		Expires time.Time `json:"expires_at"`
	}
	if err := v.ask(http.MethodPost, api("users", name, "link"), map[string]any{}, &made); err != nil {
		v.showPeople(err, html{})
		return
	}
	base := orElse(made.Public, front.Origin(v.r))
	v.showPeople(nil, el("section", attrs{"class", "card once", "data-once", "", "aria-labelledby", "made-h"},
		el("h2", attrs{"id", "made-h"}, text("The link of "+name)),
		p(text("Send it to "+name+" and to nobody else: whoever opens it first is "+name+" here. It works once, until "), moment(made.Expires), text(", is not shown again, and ends if the gateway starts anew.")),
		shownOnce("made-link", "The link", base+"/console/login#"+made.Code),
		when(onThisMachine(base), el("p", class("banner"), text("This address leads to the gateway's own machine only. For another device, open this page by an address that the device reaches ("), code("handrail gateway --http :7480 --tls-generated"), text("), or name one with "), code("--url"), text(".")))))
}

// onThisMachine reports whether an address leads nowhere but to the machine that follows it.
func onThisMachine(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
