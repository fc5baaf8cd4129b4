package console

import (
	"net/url"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	view "github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/mcpclient"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// The ways in which a client calls.
const (
	byAddress = "address"
	byProgram = "program"
)

// connectClient offers to connect an MCP client: on the gateway's machine by one command, and
// elsewhere by an entry with a token of its own.
func (v *visit) connectClient() html {
	if !v.offers("POST /v1/tokens") {
		return html{}
	}
	var options []string
	rows := make([][]html, 0, len(mcpclient.All()))
	for _, c := range mcpclient.All() {
		options = append(options, c.Name, c.Title)
		id := "connect-" + c.Name
		rows = append(rows, []html{text(c.Title), group(el("code", attrs{"id", id}, text("handrail connect "+c.Name)), text(" "), copyButton(id, "the command for "+c.Title)), text(c.File)})
	}
	return card("connect", "Connect a client",
		el("p", nil, text("On the machine that runs the gateway, one command writes the client's settings, makes a token of its own, and tests it:")),
		table("Commands that connect a client", columns("Client", "Command", "Its settings"), rows),
		el("h3", nil, text("On another machine")),
		el("p", class("faint"), text("Make the entry here, and paste it there. The client gets a token and a lane of its own; policy and people decide what it may do.")),
		v.control("POST /v1/tokens", "/console/connect", attrs{"class", "grid"},
			choice("c-client", "client", "Client", "claude-code", options...),
			choice("c-way", "way", "How it calls", byAddress, byAddress, "this address", byProgram, "the program handrail mcp"),
			input("c-as", "principal", "It calls as (default: the client's name)", "", "maxlength", "128"),
			button("main", "Make its token and entry")))
}

// clientWanted is the token of a client that is connected.
func clientWanted(f url.Values) (request, error) {
	c, ok := mcpclient.Named(f.Get("client"))
	if !ok {
		return request{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "there is no client %.64q", f.Get("client"))
	}
	if !c.Remote() && f.Get("way") != byProgram {
		return request{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "%s only starts programs", c.Title).
			WithHint("Choose the program handrail mcp.")
	}
	as := orElse(strings.TrimSpace(f.Get("principal")), c.Name)
	return request{api("tokens"), map[string]any{"principal": as, "role": principal.RoleAgent}}, nil
}

// connected makes a client's token and shows its entry, this once.
func (c *Console) connected(v *visit) {
	var made struct {
		view.Token
		Secret string `json:"token"`
	}
	if err := v.sends("client", &made); err != nil {
		v.showTokens(err, html{})
		return
	}
	f := v.r.PostForm
	client, _ := mcpclient.Named(f.Get("client"))
	var site struct {
		Fingerprint string `json:"fingerprint"`
	}
	_ = v.get(api("status"), &site) // without it the entry is as good where a certificate authority stands behind the address
	base := front.Origin(v.r)
	fields, note := client.HTTP(base, made.Secret), html{}
	if f.Get("way") == byProgram {
		env := map[string]string{"HANDRAIL_URL": base, "HANDRAIL_TOKEN": made.Secret}
		if site.Fingerprint != "" {
			env["HANDRAIL_FINGERPRINT"] = site.Fingerprint
		}
		fields = client.Stdio("handrail", []string{"mcp", "--structured=" + map[bool]string{true: "true", false: "false"}[client.Structured]}, env)
		note = p(text("It starts "), code("handrail"), text(", which has to be installed on that machine."))
	} else if site.Fingerprint != "" {
		note = p(text("If this page's certificate was made by the gateway itself, the client does not take it: choose "), el("strong", nil, text("the program handrail mcp")), text(" instead, which knows it by its fingerprint."))
	}
	v.showTokens(nil, el("section", attrs{"class", "card once", "data-once", "", "aria-labelledby", "made-h"},
		el("h2", attrs{"id", "made-h"}, text("The entry for "+client.Title)),
		el("p", class("why"), text("It goes into "+client.File+", beside what is there. It holds the token of "+string(made.Principal)+", is shown this once, and whoever has it is "+string(made.Principal)+" here.")),
		shownOnce("made-entry", "The entry for "+client.Title, client.Entry(fields)),
		note,
		p(text(client.Reload)),
		when(onThisMachine(base), el("p", class("banner"), text("This address leads to the gateway's own machine only; there, "), code("handrail connect "+client.Name), text(" does all of it.")))))
}
