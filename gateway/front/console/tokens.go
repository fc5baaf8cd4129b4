package console

import (
	"cmp"
	"net/http"
	"sort"

	view "github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// tokens shows who may call and sign in, and makes and revokes tokens.
func (c *Console) tokens(v *visit) { v.showTokens(nil, html{}) }

func (v *visit) showTokens(problem error, made html) {
	confirms := "token"
	if v.r.PostForm.Get("client") != "" {
		confirms = "client"
	}
	pg := page{title: "Agents and tokens", here: "/console/tokens", live: "packet", fault: problem, remedy: v.remedy(problem, "POST /v1/tokens", "/console/confirm/"+confirms), modules: []string{"passkey"},
		lead: text("Who may call and who may sign in. A token stands for one agent or person; what it may do follows from its role and from policy.")}
	var list struct {
		Tokens []view.Token `json:"tokens"`
	}
	if err := v.get(api("tokens"), &list); err != nil {
		pg.fault = err
		v.show(pg)
		return
	}
	now := v.con.opts.Now()
	good := func(t view.Token) bool {
		return t.RevokedAt.IsZero() && (t.ExpiresAt.IsZero() || now.Before(t.ExpiresAt))
	}
	var agents, people, sessions, ended []view.Token
	opener := "" // the token that opened this browser's session
	for _, t := range list.Tokens {
		if t.ID == v.who.TokenID {
			opener = t.Parent
		}
		switch {
		case !good(t):
			ended = append(ended, t)
		case t.Parent != "":
			sessions = append(sessions, t)
		case t.Role == principal.RoleAgent.String():
			agents = append(agents, t)
		default:
			people = append(people, t)
		}
	}
	part := func(name, say string, all []view.Token) html {
		if len(all) == 0 {
			return html{}
		}
		return group(el("h2", class("part"), text(name)), el("p", class("faint"), text(say)), v.tokenTable(name, opener, all))
	}
	pg.body = group(made,
		when(len(agents) == 0, empty("No agent has a token", text("Connect a client below."))),
		part("Agents", "They call tools, as far as policy and people let them. They can never approve.", agents),
		v.connectClient(),
		v.newToken(),
		part("People", "They use the command line, and sign in by its links. A role does what the one before it does, and more.", people),
		part("Signed-in browsers", "Sessions of these pages. Each ends with the token that opened it.", sessions),
		when(len(ended) > 0, el("details", attrs{"id", "ended"}, el("summary", nil, text(count(len(ended), "token that is over", "tokens that are over"))), v.tokenTable("Tokens that are over", "", ended))))
	v.show(pg)
}

// tokenTable lists tokens; revoking opener, by which this browser was signed in, is a step
// further away.
func (v *visit) tokenTable(name, opener string, all []view.Token) html {
	sort.Slice(all, func(i, j int) bool {
		return cmp.Or(cmp.Compare(all[i].Principal, all[j].Principal), all[j].CreatedAt.Compare(all[i].CreatedAt)) < 0
	})
	rows := make([][]html, 0, len(all))
	for _, t := range all {
		ends := text("never")
		switch {
		case !t.RevokedAt.IsZero():
			ends = group(span("state no", text("revoked ")), ago(t.RevokedAt))
		case !t.ExpiresAt.IsZero():
			ends = ago(t.ExpiresAt)
		}
		mine := when(t.ID == v.who.TokenID, span("state good", text(" this browser")))
		what := v.control("DELETE /v1/tokens/{token}", at("tokens", t.ID), nil, button("danger small", "Revoke", "aria-label", "Revoke: "+t.ID+" of "+string(t.Principal)))
		if t.ID == opener && what.s != "" {
			what = el("details", attrs{"id", "revoke-" + t.ID}, el("summary", nil, text("Revoke…")),
				el("p", class("small"), text("This browser was signed in with it. Its sessions and the commands that use it end at once. The gateway makes the one of its own data directory anew when it starts again.")), what)
		}
		rows = append(rows, []html{
			group(link("/console/calls?"+query("principal", string(t.Principal)), text(string(t.Principal))), mine), text(t.Role), code(string(t.Lane)), code(t.ID),
			group(ago(t.CreatedAt), text(" by "+string(t.CreatedBy))), ends, when(t.RevokedAt.IsZero(), what),
		})
	}
	return table(name, columns("Who", "Role", "Lane", "Token", "Made", "Ends", "Change"), rows)
}

// newToken is the form for one.
func (v *visit) newToken() html {
	if !v.offers("POST /v1/tokens") {
		return html{}
	}
	return card("new", "Make a token for anything else",
		v.control("POST /v1/tokens", "/console/tokens", attrs{"class", "grid"},
			input("t-who", "principal", "Name of the agent or person", "", "maxlength", "128", "required", ""),
			choice("t-role", "role", "Role", "agent", "agent", "agent: calls tools", "viewer", "viewer: looks", "operator", "operator: answers and stops", "admin", "admin: everything"),
			input("t-lane", "lane", "Lane (default: the name)", "", "maxlength", "128"),
			choice("t-days", "days", "Good for", "30", "1", "a day", "7", "a week", "30", "30 days", "365", "a year", "0", "until it is revoked"),
			button("main", "Create token")))
}

func (c *Console) newTokenMade(v *visit) {
	var made struct {
		view.Token
		Secret string `json:"token"`
	}
	if err := v.sends("token", &made); err != nil {
		v.showTokens(err, html{})
		return
	}
	ends := html{}
	if !made.ExpiresAt.IsZero() {
		ends = group(text(" Good until "), moment(made.ExpiresAt), text("."))
	}
	v.showTokens(nil, el("section", attrs{"class", "card once", "data-once", "", "aria-labelledby", "made-h"},
		el("h2", attrs{"id", "made-h"}, text("The token of "+string(made.Principal))),
		el("p", class("why"), text("It is shown this once. Whoever has it is "+string(made.Principal)+" here."), ends),
		shownOnce("made-token", "The token", made.Secret),
		el("p", class("faint"), text("A client sends it as "), code("Authorization: Bearer TOKEN"), text(" to /mcp. For clients on this machine, "), code("handrail connect"), text(" does all of it."))))
}

func (c *Console) revokeToken(v *visit) {
	id := v.r.PathValue("token")
	if err := v.ask(http.MethodDelete, api("tokens", id), nil, nil); err != nil {
		v.showTokens(err, html{})
		return
	}
	if id == v.who.TokenID { // it was this browser's own
		c.front.EndCookie(v.w, v.r)
		v.seeOther("/console/login", "")
		return
	}
	v.seeOther("/console/tokens", "revoked")
}
