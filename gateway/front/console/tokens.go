package console

import (
	"cmp"
	"net/http"
	"sort"
	"time"

	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/mcpclient"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// tokens shows who may call and sign in, and makes and revokes tokens.
func (c *Console) tokens(v *visit) { v.showTokens(nil, tokensPage{}) }

// tokensPage is who may call and sign in, and what was just made for one of them.
type tokensPage struct {
	*visit
	Token *madeToken
	Entry *madeEntry
	// Joined is a client of this machine that was connected just now.
	Joined *api.LocalConnection

	Agents, People, Sessions, Ended tokenPart
	Clients                         []mcpclient.Client
	Here                            []localClient // those that were found on the gateway's machine
	Client, Way                     choice
	MCP                             string // its address
}

// tokenPart is some of the tokens under a heading.
type tokenPart struct {
	Name, Says string
	Tokens     []token
}

type token struct {
	*visit
	api.Token
	Opener bool // this browser was signed in by it: revoking it is a step further away
}

// Here reports whether it is this browser's session.
func (t token) Here() bool { return t.ID == t.who.TokenID }

// Revocable reports whether the visitor may revoke it.
func (t token) Revocable() bool { return t.RevokedAt.IsZero() && t.Offers("DELETE /v1/tokens/{token}") }

// Calls leads to what was called with it.
func (t token) Calls() string { return "/console/calls?" + query("principal", string(t.Principal)) }

func (t token) good(now time.Time) bool {
	return t.RevokedAt.IsZero() && (t.ExpiresAt.IsZero() || now.Before(t.ExpiresAt))
}

// madeToken is a token that was just made: its secret is shown this once.
type madeToken struct {
	api.Token
	Secret once
}

func (v *visit) showTokens(problem error, shown tokensPage) {
	confirms := "token"
	if v.r.PostForm.Get("client") != "" {
		confirms = "client"
	}
	var list api.TokenList
	if err := v.get(v1("tokens"), &list); err != nil {
		v.show(page{name: "problem", title: "Agents and tokens", here: "/console/tokens", fault: err})
		return
	}
	opener := "" // the token that opened this browser's session
	for _, t := range list.Tokens {
		if t.ID == v.who.TokenID {
			opener = t.Parent
		}
	}
	shown.visit = v
	shown.Agents = tokenPart{Name: "Agents", Says: "They call tools, as far as policy and people let them. They can never approve."}
	shown.People = tokenPart{
		Name: "People", Says: "They use the command line, and sign in by its links. A role does what the one before it does, and more.",
	}
	shown.Sessions = tokenPart{Name: "Signed-in browsers", Says: "Sessions of these pages. Each ends with the token that opened it."}
	shown.Ended = tokenPart{Name: "Tokens that are over"}
	sort.Slice(list.Tokens, func(i, j int) bool {
		a, b := list.Tokens[i], list.Tokens[j]
		return cmp.Or(cmp.Compare(a.Principal, b.Principal), b.CreatedAt.Compare(a.CreatedAt)) < 0
	})
	for _, one := range list.Tokens {
		t := token{v, one, one.ID == opener}
		part := &shown.People
		switch {
		case !t.good(v.con.opts.Now()):
			part, t.Opener = &shown.Ended, false
		case t.Parent != "":
			part = &shown.Sessions
		case t.Role == principal.RoleAgent.String():
			part = &shown.Agents
		}
		part.Tokens = append(part.Tokens, t)
	}
	shown.connectable()
	v.show(page{
		name: "tokens", title: "Agents and tokens", here: "/console/tokens", live: "packet", fault: problem,
		remedy: v.remedy(problem, "POST /v1/tokens", "/console/confirm/"+confirms), modules: []string{"passkey"}, data: shown,
	})
}

func (c *Console) newTokenMade(v *visit) {
	var made api.MadeToken
	if err := v.sends("token", &made); err != nil {
		v.showTokens(err, tokensPage{})
		return
	}
	v.showTokens(nil, tokensPage{Token: &madeToken{made.Token, once{"made-token", "The token", made.Secret}}})
}

func (c *Console) revokeToken(v *visit) {
	id := v.r.PathValue("token")
	if err := v.ask(http.MethodDelete, v1("tokens", id), nil, nil); err != nil {
		v.showTokens(err, tokensPage{})
		return
	}
	if id == v.who.TokenID { // it was this browser's own
		c.front.EndCookie(v.w, v.r)
		v.seeOther("/console/login", "")
		return
	}
	v.seeOther("/console/tokens", "revoked")
}
