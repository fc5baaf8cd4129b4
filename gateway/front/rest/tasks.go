package rest

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// Tasks is the deferred calls; gateway/dispatch implements it. An empty owner is
// everybody.
type Tasks interface {
	Tasks(ctx context.Context, owner capabilities.PrincipalID) ([]dispatch.Task, error)
	DropTask(ctx context.Context, owner capabilities.PrincipalID, id string, by capabilities.PrincipalID) error
}

type taskList struct {
	Tasks []dispatch.Task `json:"tasks"`
}

// ownerOf is whose tasks a caller sees: its own, or everybody's.
func ownerOf(c *visit) capabilities.PrincipalID {
	if principal.Allow(c.who.Role, principal.ActReadAllCalls) {
		return ""
	}
	return c.who.Principal
}

func (s *Server) tasks(c *visit, _ none) (taskList, error) {
	all, err := s.opts.Tasks.Tasks(c.r.Context(), ownerOf(c))
	return taskList{all}, err
}

type droppedView struct {
	Task string `json:"task"`
}

func (s *Server) dropTask(c *visit, _ none) (droppedView, error) {
	id := c.r.PathValue("task")
	return droppedView{id}, s.opts.Tasks.DropTask(c.r.Context(), ownerOf(c), id, c.who.Principal)
}
