package rest

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/task"
)

// Tasks is the deferred calls; gateway/task implements it. An empty owner is
// everybody.
type Tasks interface {
	Tasks(ctx context.Context, owner capabilities.PrincipalID) ([]task.Task, error)
	DropTask(ctx context.Context, owner capabilities.PrincipalID, id string, by capabilities.PrincipalID) error
}

// ownerOf is whose tasks a caller sees: its own, or everybody's.
func ownerOf(c *visit) capabilities.PrincipalID {
	if c.who.May(principal.ActReadAllCalls) {
		return ""
	}
	return c.who.Principal
}

func (s *Server) tasks(c *visit, _ none) (api.TaskList, error) {
	all, err := s.opts.Tasks.Tasks(c.r.Context(), ownerOf(c))
	if err != nil {
		return api.TaskList{}, err
	}
	s.refresh(all)
	list := api.TaskList{Tasks: make([]api.Task, 0, len(all))}
	for i := range all {
		list.Tasks = append(list.Tasks, front.ViewTask(&all[i]))
	}
	return list, nil
}

// refresh names the question that each task waits for now. A restart forgets the one
// that was kept with it; while the task is asked for anew, it is another one.
func (s *Server) refresh(all []task.Task) {
	asked := map[string]string{}
	for _, a := range s.opts.Consent.Approvals() {
		if a.Task != "" {
			asked[a.Task] = a.ID
		}
	}
	for i := range all {
		t := &all[i]
		if t.State.Over() {
			continue
		}
		if id := asked[t.ID]; id != "" {
			t.State, t.Approval = task.Waiting, id
		} else if _, err := s.opts.Consent.Approval(t.Approval); err != nil {
			t.Approval = ""
		}
	}
}

func (s *Server) dropTask(c *visit, _ none) (api.DroppedTask, error) {
	id := c.r.PathValue("task")
	return api.DroppedTask{Task: id}, s.opts.Tasks.DropTask(c.r.Context(), ownerOf(c), id, c.who.Principal)
}
