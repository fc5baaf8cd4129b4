package console

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
)

// people shows who signs in here under a name of their own.
func (c *Console) people(v *visit) { v.showPeople(nil, nil) }

func (v *visit) showPeople(problem error, made *welcome) {
	var list api.UserList
	if err := v.get(v1("users"), &list); err != nil {
		v.show(page{name: "problem", title: "People", here: "/console/people", fault: err})
		return
	}
	shown := peoplePage{visit: v, Made: made}
	for _, u := range list.Users {
		shown.People = append(shown.People, person{v, u})
	}
	v.show(page{name: "people", title: "People", here: "/console/people", live: "packet", fault: problem, data: shown})
}

type peoplePage struct {
	*visit
	Made   *welcome
	People []person
}

// person is somebody who was added, with what can be changed.
type person struct {
	*visit
	api.User
}

// Ways are how they can sign in; empty: not yet.
func (p person) Ways() string {
	if p.Issuer != "" {
		return "at " + hostOf(p.Issuer)
	}
	var ways []string
	if n := len(p.Passkeys); n > 0 {
		ways = append(ways, count(n, "passkey", "passkeys"))
	}
	if p.Password {
		ways = append(ways, "a password")
	}
	return strings.Join(ways, ", ")
}

// Here reports whether they sign in here: else their provider says whether and as what they do.
func (p person) Here() bool { return p.Issuer == "" }

// hostOf is the host of an address, or all of what is none.
func hostOf(address string) string {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return u.Host
	}
	return address
}

// Roles are those that they can have.
func (p person) Roles() choice {
	return choose("u-"+p.TokenID+"-role-new", "role", "Role", p.Role, "viewer", "viewer: looks", "operator", "operator: answers and stops",
		"admin", "admin: everything")
}

// Me reports whether it is the visitor.
func (p person) Me() bool { return p.Principal == p.who.Principal }

// welcome is a link that lets somebody in, shown once.
type welcome struct {
	Name     string
	Expires  time.Time
	Link     once
	HereOnly bool // the link leads to the gateway's own machine only
}

// addPerson adds somebody and makes the link that lets them in.
func (c *Console) addPerson(v *visit) {
	f := v.r.PostForm
	name := strings.TrimSpace(f.Get("principal"))
	in := api.AddUser{Principal: capabilities.PrincipalID(name), Role: f.Get("role")}
	if err := v.ask(http.MethodPost, v1("users"), in, nil); err != nil {
		v.showPeople(err, nil)
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
		done, err = "changed", v.ask(http.MethodPut, v1("users", name, "role"), api.SetRole{Role: v.r.PostForm.Get("role")}, nil)
	case "out":
		done, err = "signedout", v.ask(http.MethodDelete, v1("users", name, "sessions"), nil, nil)
	case "remove":
		done, err = "gone", v.ask(http.MethodDelete, v1("users", name), nil, nil)
	default:
		err = capabilities.Errorf(capabilities.CodeInvalidRequest, "the form names no change")
	}
	if err != nil {
		v.showPeople(err, nil)
		return
	}
	v.seeOther("/console/people", done)
}

// welcome makes somebody's link and shows it, this once.
func (v *visit) welcome(name string) {
	var made api.SignInLink
	if err := v.ask(http.MethodPost, v1("users", name, "link"), map[string]any{}, &made); err != nil {
		v.showPeople(err, nil)
		return
	}
	base := orElse(made.Public, front.Origin(v.r))
	v.showPeople(nil, &welcome{name, made.Expires, once{"made-link", "The link", base + "/console/login#" + made.Code}, onThisMachine(base)})
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
