package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/mcpclient"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// The ways in which a client calls.
const (
	byAddress = "address"
	byProgram = "program"
)

// connectable fills in the clients that can be connected.
func (p *tokensPage) connectable() {
	p.Clients, p.MCP, p.Here = mcpclient.All(), front.Origin(p.r)+"/mcp", p.clientsHere()
	var options []string
	for _, c := range p.Clients {
		options = append(options, c.Name, c.Title)
	}
	p.Client = choose("c-client", "client", "Client", "claude-code", options...)
	p.Way = choose("c-way", "way", "How it calls", byAddress, byAddress, "this address", byProgram, "the program handrail mcp")
}

// localClient is an MCP client on the gateway's machine, of the visitor's.
type localClient struct {
	*visit
	api.LocalClient
}

// clientsHere are those, if the visitor may connect them.
func (v *visit) clientsHere() (all []localClient) {
	var list api.LocalClientList
	if !v.Offers("POST /v1/clients/here/{client}") || v.get(v1("clients", "here"), &list) != nil {
		return nil
	}
	for _, c := range list.Clients {
		all = append(all, localClient{v, c})
	}
	return all
}

// Word is how it stands.
func (c localClient) Word() string {
	if c.Connected {
		return "connected as " + string(c.Principal)
	}
	return "not connected"
}

// Mood is the class of its word.
func (c localClient) Mood() string {
	if c.Connected {
		return "good"
	}
	return "no"
}

// connectHere connects a client of the gateway's machine, and says what was done.
func (c *Console) connectHere(v *visit) {
	var made api.LocalConnection
	if err := v.ask(http.MethodPost, v1("clients", "here", v.r.PathValue("client")), nil, &made); err != nil {
		v.showTokens(err, tokensPage{})
		return
	}
	v.showTokens(nil, tokensPage{Joined: &made})
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
	return request{v1("tokens"), api.CreateToken{
		Principal: capabilities.PrincipalID(as), Role: string(principal.RoleAgent),
	}}, nil
}

// connected makes a client's token and shows its entry, this once.
func (c *Console) connected(v *visit) {
	var made api.MadeToken
	if err := v.sends("client", &made); err != nil {
		v.showTokens(err, tokensPage{})
		return
	}
	f := v.r.PostForm
	client, _ := mcpclient.Named(f.Get("client"))
	var site api.Status
	_ = v.get(v1("status"), &site) // without it the entry is as good where a certificate authority stands behind the address
	base := front.Origin(v.r)
	fields, program := client.HTTP(base, made.Secret), f.Get("way") == byProgram
	if program {
		env := map[string]string{"HANDRAIL_URL": base, "HANDRAIL_TOKEN": made.Secret}
		if site.Fingerprint != "" {
			env["HANDRAIL_FINGERPRINT"] = site.Fingerprint
		}
		fields = client.Stdio("handrail", []string{"mcp", "--structured=" + strconv.FormatBool(client.Structured)}, env)
	}
	v.showTokens(nil, tokensPage{Entry: &madeEntry{
		Client: client, Principal: made.Principal, Text: once{"made-entry", "The entry for " + client.Title, client.Entry(fields)},
		Program: program, Fingerprint: site.Fingerprint, HereOnly: onThisMachine(base),
	}})
}

// madeEntry is what goes into a client's settings: it holds a token, and is shown this once.
type madeEntry struct {
	mcpclient.Client
	Principal   capabilities.PrincipalID
	Text        once
	Program     bool   // it starts the program; else it names this address
	Fingerprint string // of the gateway's own certificate; empty if it has none
	HereOnly    bool   // the address leads to the gateway's own machine only
}
