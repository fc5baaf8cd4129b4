package rest_test

import (
	"context"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/task"
)

// deferred is one deferred call of alice's.
type deferred struct{}

func (deferred) Tasks(_ context.Context, owner capabilities.PrincipalID) ([]task.Task, error) {
	if owner != "" && owner != "alice" {
		return []task.Task{}, nil
	}
	return []task.Task{{ID: "t-1", State: task.Waiting, Principal: "alice", Tool: "tool.desktop.act", Approval: "a-of-an-earlier-process"}}, nil
}

func (d deferred) DropTask(ctx context.Context, owner capabilities.PrincipalID, id string, _ capabilities.PrincipalID) error {
	if all, _ := d.Tasks(ctx, owner); len(all) == 0 || all[0].ID != id {
		return capabilities.Errorf(capabilities.CodeNotFound, "there is no such task")
	}
	return nil
}

// An agent sees and drops its own deferred calls, an operator everybody's.
func TestTasks(t *testing.T) {
	a := start(t)
	other := a.Token("bob", "agent")
	for token, want := range map[string]int{a.agent: 1, other: 0, a.operator: 1} {
		var list struct{ Tasks []api.Task }
		a.ok(token, "GET", "/v1/tasks", "", &list)
		if len(list.Tasks) != want {
			t.Errorf("%+v", list)
		}
	}
	var list struct{ Tasks []api.Task }
	if a.ok(a.agent, "GET", "/v1/tasks", "", &list); list.Tasks[0].Approval != "" {
		t.Errorf("a question that nobody can answer any more is named: %+v", list.Tasks[0])
	}
	a.fails(other, "DELETE", "/v1/tasks/t-1", "", capabilities.CodeNotFound)
	a.ok(a.agent, "DELETE", "/v1/tasks/t-1", "", nil)
	a.ok(a.operator, "DELETE", "/v1/tasks/t-1", "", nil)
}

// Cancel ends the calls that run: c1 of somebody, of request q1, and own.
func (deferred) Cancel(_ context.Context, _ dispatch.Caller, c dispatch.Cancelling) (capabilities.CallID, error) {
	switch {
	case c.Request == "q1" && c.Call == "", c.Call == "c1" && c.Others:
		return "c1", nil
	case c.Call == "own" && !c.Others:
		return "own", nil
	}
	return "", capabilities.Errorf(capabilities.CodeNotFound, "no such call runs now")
}
