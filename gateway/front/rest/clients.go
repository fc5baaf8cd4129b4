package rest

import (
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/oauth"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// Clients are the clients that speak OAuth; gateway/oauth implements it.
type Clients interface {
	Asked(r *http.Request, query string) (*oauth.Ask, error)
	Allow(r *http.Request, by principal.Identity, w oauth.Wish) (principal.Token, string, error)
	Refuse(r *http.Request, by principal.Identity, query string) (string, error)
	Steps() []oauth.Step
}

func (s *Server) clientTable() []*endpoint {
	if s.opts.Clients == nil {
		return nil
	}
	return []*endpoint{
		serveJSON(endpoint{
			method: get, path: "/v1/clients/asked", action: principal.ActTokens,
			summary: "Read what an OAuth client asks of a person, by what it sent their browser with",
			query:   []param{{"request", "the query of the address that the browser was sent to", "string"}},
		}, s.clientAsked),
		serveJSON(endpoint{
			method: post, path: "/v1/clients", action: principal.ActTokens, does: "tool.admin.client-allow",
			summary: "Let an OAuth client in, with a name, a lane and the families of tools that it may use",
		}, s.allowClient),
		serveJSON(endpoint{
			method: post, path: "/v1/clients/refuse", action: principal.ActTokens, summary: "Do not let an OAuth client in",
		}, s.refuseClient),
		serveJSON(endpoint{
			method: get, path: "/v1/clients/steps", action: principal.ActTokens,
			summary: "The latest steps of OAuth clients on their way in, and what went wrong; the latest first, of this start of the gateway",
		}, s.clientSteps),
	}
}

func (s *Server) clientAsked(c *visit, _ none) (api.ClientAsk, error) {
	a, err := s.opts.Clients.Asked(c.r, c.param("request"))
	if err != nil {
		return api.ClientAsk{}, err
	}
	out := api.ClientAsk{
		Name: a.Client.Name, Host: a.Client.Host, Place: a.Place, Redirect: a.Redirect, Audience: a.Audience, Scopes: a.Scopes,
		As: s.freeName(a),
	}
	if a.Fault != "" {
		out.Refused, out.Back = a.About, a.Back(a.Fault, a.About)
		return out, nil
	}
	out.Families, out.Passkey = s.families(c, out.As, a.Scopes), s.confirmsClients(c)
	return out, nil
}

// families are the groups of tools that models are shown, with what policy says of each today.
func (s *Server) families(c *visit, as capabilities.PrincipalID, scopes []string) []api.ToolFamily {
	all := map[string]*api.ToolFamily{}
	for _, d := range s.opts.Tools.All() {
		if !d.ModelFacing {
			continue
		}
		f := all[d.Tool.Family()]
		if f == nil {
			f = &api.ToolFamily{Name: d.Tool.Family(), Wants: slices.Contains(scopes, d.Tool.Family())}
			all[f.Name] = f
		}
		f.Tools++
	}
	caller := dispatch.Caller{Principal: as, Role: principal.RoleAgent.String(), Lane: capabilities.LaneID(as)}
	for _, d := range s.opts.Dispatcher.Visible(c.r.Context(), caller) {
		f := all[d.Tool.Family()]
		switch {
		case f == nil || !d.ModelFacing:
		case s.opts.Dispatcher.Asks(c.r.Context(), caller, d.Tool):
			f.Asks++
		default:
			f.Runs++
		}
	}
	list := make([]api.ToolFamily, 0, len(all))
	for _, f := range all {
		list = append(list, *f)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list
}

// freeName is a name that no token of today has, like the client's own.
func (s *Server) freeName(a *oauth.Ask) capabilities.PrincipalID {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		}
		return '-'
	}, strings.ToLower(capabilities.Clip(a.Client.Name, 40)))
	if name = strings.Trim(name, "-"); name == "" {
		name = "client"
	}
	for strings.Contains(name, "--") {
		name = strings.ReplaceAll(name, "--", "-")
	}
	taken := map[capabilities.PrincipalID]bool{}
	for _, t := range s.opts.Tokens.List() {
		taken[t.Principal] = true
	}
	free := capabilities.PrincipalID(name)
	for n := 2; taken[free]; n++ {
		free = capabilities.PrincipalID(name + "-" + strconv.Itoa(n))
	}
	return free
}

func (s *Server) allowClient(c *visit, in api.AllowClient) (api.AnsweredClient, error) {
	ttl, err := seconds("ttl_s", in.TTLSeconds)
	if err != nil {
		return api.AnsweredClient{}, err
	}
	if in.Lane == "" {
		in.Lane = capabilities.LaneID(in.Principal)
	}
	if err := capabilities.ValidateName("principal", string(in.Principal), 128); err != nil {
		return api.AnsweredClient{}, err
	}
	if err := s.opts.Lanes.Claim(c.r.Context(), in.Principal, in.Lane); err != nil {
		return api.AnsweredClient{}, err
	}
	a, err := s.opts.Clients.Asked(c.r, in.Request)
	if err != nil {
		return api.AnsweredClient{}, err
	}
	rec, to, err := s.opts.Clients.Allow(c.r, c.who, oauth.Wish{
		Query: in.Request, Principal: in.Principal, Lane: in.Lane, Face: principal.Face(in.Face), TTL: ttl, Tools: in.Tools,
	})
	if err != nil {
		return api.AnsweredClient{}, err
	}
	view := front.ViewToken(&rec)
	return api.AnsweredClient{Redirect: to, Place: a.Place, Token: &view}, nil
}

func (s *Server) refuseClient(c *visit, in api.RefuseClient) (api.AnsweredClient, error) {
	a, err := s.opts.Clients.Asked(c.r, in.Request)
	if err != nil {
		return api.AnsweredClient{}, err
	}
	to, err := s.opts.Clients.Refuse(c.r, c.who, in.Request)
	return api.AnsweredClient{Redirect: to, Place: a.Place}, err
}

type clientSteps struct {
	Steps []api.ClientStep `json:"steps"`
}

func (s *Server) clientSteps(*visit, none) (clientSteps, error) {
	list := clientSteps{Steps: []api.ClientStep{}}
	for _, st := range s.opts.Clients.Steps() {
		list.Steps = append(list.Steps, api.ClientStep{
			At: st.At, From: st.From, Client: st.Client, What: string(st.What), Fault: st.Fault, Times: st.Times,
		})
	}
	return list, nil
}
