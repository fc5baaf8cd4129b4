package rest

import (
	"context"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/lane"
	"github.com/handrail-dev/handrail/gateway/secret"
)

// Secrets is what agents may name and never see; gateway/secret implements it.
type Secrets interface {
	Set(ctx context.Context, by capabilities.PrincipalID, name string, value capabilities.Secret) error
	List(context.Context) ([]secret.Entry, error)
	Allow(ctx context.Context, by capabilities.PrincipalID, s secret.Spec) (secret.Reference, error)
	Remove(ctx context.Context, by capabilities.PrincipalID, what string) error
	// Done takes a person's word that nothing of the secrets which a lane pasted is to be
	// seen; left are the nodes that could not be told.
	Done(ctx context.Context, by capabilities.PrincipalID, lane capabilities.LaneID) (told int, left []capabilities.NodeID, err error)
}

func (s *Server) secrets(c *visit, _ none) (api.SecretList, error) {
	all, err := s.opts.Secrets.List(c.r.Context())
	list := api.SecretList{Secrets: make([]api.Secret, 0, len(all))}
	for i := range all {
		list.Secrets = append(list.Secrets, front.ViewSecret(&all[i]))
	}
	return list, err
}

func (s *Server) setSecret(c *visit, in api.SetSecret) (api.SecretDone, error) {
	name := c.r.PathValue("secret")
	err := s.opts.Secrets.Set(c.r.Context(), c.who.Principal, name, capabilities.NewSecret([]byte(in.Value)))
	return api.SecretDone{Name: name, Status: "set"}, err
}

func (s *Server) allowSecret(c *visit, in api.AllowSecret) (api.Reference, error) {
	delivering := []capabilities.ToolID{}
	for _, d := range s.opts.Tools.All() {
		if d.Delivery != nil && d.ModelFacing {
			delivering = append(delivering, d.Tool)
		}
	}
	for _, t := range in.Tools {
		if d, ok := s.opts.Tools.Get(t); !ok || d.Delivery == nil {
			return api.Reference{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "%.128q is no tool that takes secrets", t)
		}
	}
	if len(in.Tools) == 0 {
		in.Tools = delivering
	}
	made, err := s.opts.Secrets.Allow(c.r.Context(), c.who.Principal, secret.Spec{
		Name: c.r.PathValue("secret"), Principal: in.Principal, Alias: in.Alias, Display: in.Display, Tools: in.Tools,
	})
	return front.ViewReference(&made), err
}

func (s *Server) removeSecret(c *visit, _ none) (api.SecretDone, error) {
	what := c.r.PathValue("secret")
	return api.SecretDone{Name: what, Status: "removed"}, s.opts.Secrets.Remove(c.r.Context(), c.who.Principal, what)
}

func (s *Server) secretsDone(c *visit, _ none) (api.SecretsDone, error) {
	name := capabilities.LaneID(c.r.PathValue("lane"))
	if !slices.ContainsFunc(s.opts.Lanes.List(""), func(l lane.Lane) bool { return l.Lane == name }) {
		return api.SecretsDone{}, capabilities.Errorf(capabilities.CodeNotFound, "there is no lane %.128q", name).
			WithHint("GET /v1/lanes lists the lanes there are.")
	}
	told, left, err := s.opts.Secrets.Done(c.r.Context(), c.who.Principal, name)
	return api.SecretsDone{Lane: name, Status: "done", Nodes: told, Left: left}, err
}
