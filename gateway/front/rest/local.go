package rest

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// LocalClients are the MCP clients on the gateway's machine, of the person who started the gateway
// there. The gateway itself writes nobody's settings: whoever starts it hands this in.
type LocalClients interface {
	// Owner is who that person is here: nobody else touches their settings.
	Owner() capabilities.PrincipalID
	Found() ([]api.LocalClient, error)
	// Connect writes a client's settings, makes it a token, and tries the result.
	Connect(ctx context.Context, client string) (api.LocalConnection, error)
}

func (s *Server) localTable() []*endpoint {
	if s.opts.LocalClients == nil {
		return nil
	}
	return []*endpoint{
		serveJSON(endpoint{
			method: get, path: "/v1/clients/here", action: principal.ActTokens,
			summary: "The MCP clients on the gateway's own machine, to whoever started it there",
		}, s.localClients),
		serveJSON(endpoint{
			method: post, path: "/v1/clients/here/{client}", action: principal.ActTokens,
			summary: "Connect one of them: its settings are written, beside a copy, it gets a token of its own, and the result is tried",
		}, s.connectLocal),
	}
}

func (s *Server) localClients(c *visit, _ none) (api.LocalClientList, error) {
	if c.who.Principal != s.opts.LocalClients.Owner() {
		return api.LocalClientList{Clients: []api.LocalClient{}}, nil
	}
	found, err := s.opts.LocalClients.Found()
	return api.LocalClientList{Clients: found}, err
}

func (s *Server) connectLocal(c *visit, _ none) (api.LocalConnection, error) {
	if c.who.Principal != s.opts.LocalClients.Owner() {
		return api.LocalConnection{}, capabilities.Errorf(capabilities.CodeForbidden,
			"the settings of clients on this machine are of the person who started the gateway").
			WithAction(capabilities.Action{Key: capabilities.ActionCreateToken}, "Give the client a token of its own instead.")
	}
	return s.opts.LocalClients.Connect(c.r.Context(), c.r.PathValue("client"))
}
