package rest

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/fact"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/knowledge"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// Memory is what workers remember of their persons; gateway/knowledge implements it.
type Memory interface {
	Put(context.Context, knowledge.Fact) (knowledge.Fact, error)
	Get(ctx context.Context, p capabilities.PrincipalID, id string) (knowledge.Fact, error)
	List(ctx context.Context, p capabilities.PrincipalID, limit int) ([]knowledge.Fact, error)
	Search(ctx context.Context, p capabilities.PrincipalID, text string, limit int) ([]knowledge.Fact, error)
	Edit(ctx context.Context, p, by capabilities.PrincipalID, id string, e knowledge.Edit) (knowledge.Fact, error)
	Forget(ctx context.Context, p capabilities.PrincipalID, id string) error
	Owners(ctx context.Context) (map[capabilities.PrincipalID]int, error)
}

func (s *Server) memoryTable() []*endpoint {
	if s.opts.Memory == nil {
		return nil
	}
	whose := param{"principal", "of this principal; for admins", "string"}
	return []*endpoint{
		serveJSON(endpoint{method: get, path: "/v1/memory", action: principal.ActMemory,
			summary: "Facts that one's worker remembers, the newest first, or the best first with q",
			query:   []param{{"q", "that have words of this text", "string"}, limitParam, whose}}, s.facts),
		serveJSON(endpoint{
			method: post, path: "/v1/memory", action: principal.ActMemory,
			summary: "Remember a fact, in place of the one of the same subject and attribute; its words are not recorded",
		}, s.keepFact),
		serveJSON(endpoint{
			method: get, path: "/v1/memory/principals", action: principal.ActAllMemory, summary: "Principals that have facts, and how many",
		}, s.memoryOwners),
		serveJSON(endpoint{method: get, path: "/v1/memory/{fact}", action: principal.ActMemory, summary: "One fact", query: []param{whose}},
			s.fact),
		serveJSON(endpoint{
			method: patch, path: "/v1/memory/{fact}", action: principal.ActMemory,
			summary: "Give a fact other words or another end", query: []param{whose},
		}, s.editFact),
		serveJSON(endpoint{
			method: remove, path: "/v1/memory/{fact}", action: principal.ActMemory, summary: "Forget a fact: it is overwritten on the disk",
			query: []param{whose},
		}, s.forgetFact),
	}
}

// whose returns whose memory a visitor means: their own, or, for admins, anybody's.
func whose(c *visit) (capabilities.PrincipalID, error) {
	p := capabilities.PrincipalID(c.param("principal"))
	if p == "" || p == c.who.Principal {
		return c.who.Principal, nil
	}
	return p, c.who.Require(principal.ActAllMemory)
}

func (s *Server) facts(c *visit, _ none) (out api.FactList, err error) {
	p, err := whose(c)
	if err != nil {
		return out, err
	}
	limit, err := c.number("limit", 100, knowledge.MaxFacts)
	if err != nil {
		return out, err
	}
	var list []knowledge.Fact
	if q := c.param("q"); q != "" {
		list, err = s.opts.Memory.Search(c.r.Context(), p, q, int(limit))
	} else {
		list, err = s.opts.Memory.List(c.r.Context(), p, int(limit))
	}
	out.Facts = viewAll(list, front.ViewFact)
	return out, err
}

func (s *Server) memoryOwners(c *visit, _ none) (out api.MemoryOwners, err error) {
	all, err := s.opts.Memory.Owners(c.r.Context())
	out.Principals = []api.MemoryOwner{}
	for _, p := range slices.Sorted(maps.Keys(all)) {
		out.Principals = append(out.Principals, api.MemoryOwner{Principal: p, Facts: all[p]})
	}
	return out, err
}

func (s *Server) keepFact(c *visit, in api.KeepFact) (api.Fact, error) {
	f, err := s.opts.Memory.Put(c.r.Context(), knowledge.Fact{
		Principal: c.who.Principal, Subject: in.Subject, Attribute: in.Attribute, Text: in.Text, Source: in.Source,
		Confidence: cmp.Or(in.Confidence, 1), Sensitivity: fact.Sensitivity(cmp.Or(in.Sensitivity, string(fact.Low))), Agreed: in.Agreed,
		Expires: in.Expires,
	})
	return front.ViewFact(&f), err
}

func (s *Server) fact(c *visit, _ none) (api.Fact, error) {
	p, err := whose(c)
	if err != nil {
		return api.Fact{}, err
	}
	f, err := s.opts.Memory.Get(c.r.Context(), p, c.r.PathValue("fact"))
	return front.ViewFact(&f), err
}

func (s *Server) editFact(c *visit, in api.EditFact) (api.Fact, error) {
	p, err := whose(c)
	if err != nil {
		return api.Fact{}, err
	}
	f, err := s.opts.Memory.Edit(c.r.Context(), p, c.who.Principal, c.r.PathValue("fact"), knowledge.Edit(in))
	return front.ViewFact(&f), err
}

func (s *Server) forgetFact(c *visit, _ none) (api.Forgotten, error) {
	p, err := whose(c)
	if err != nil {
		return api.Forgotten{}, err
	}
	id := c.r.PathValue("fact")
	return api.Forgotten{ID: id, Status: "forgotten"}, s.opts.Memory.Forget(c.r.Context(), p, id)
}
