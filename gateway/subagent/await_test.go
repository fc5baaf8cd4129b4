package subagent_test

import (
	"context"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/job"
	"github.com/handrail-dev/handrail/gateway/registry"
	"github.com/handrail-dev/handrail/gateway/subagent"
)

// unattended is a queue that no worker asks.
type unattended struct {
	subagent.Jobs
	one       api.Job
	cancelled bool
}

func (q *unattended) PutInside(_ context.Context, p capabilities.PrincipalID, in job.Inside) (api.Job, error) {
	q.one = api.Job{ID: "j1", Principal: p, State: job.Queued, Text: in.Text}
	return q.one, nil
}

func (q *unattended) Get(context.Context, capabilities.PrincipalID, string) (api.Job, error) {
	return q.one, nil
}

func (q *unattended) Cancel(context.Context, capabilities.PrincipalID, capabilities.PrincipalID, string) (api.Job, error) {
	q.cancelled = true
	return q.one, nil
}

func (*unattended) Changed() <-chan struct{} { return nil }

func (*unattended) Attended(capabilities.PrincipalID, capabilities.LaneID) bool { return false }

// TestNobodyTakesIt: a call of a sub-agent whose caller has no worker ends at once, says what to
// do, and leaves no job behind.
func TestNobodyTakesIt(t *testing.T) {
	desk, queue := subagent.NewDesk(), &unattended{}
	desk.Serve(queue)
	data, err := subagent.JSON([]byte("description: Reads files.\ntools: [tool.fs.read]\n"))
	if err != nil {
		t.Fatal(err)
	}
	agent, err := subagent.Read("reader", data)
	if err != nil {
		t.Fatal(err)
	}
	order := registry.Order{
		Call: "c1", Args: []byte(`{"task":"read a.txt"}`), Caller: registry.Context{Principal: "alice", Lane: "l"},
		Progress: func(capabilities.Progress) {},
		Step:     func(context.Context, registry.Nested) capabilities.Result { return capabilities.Result{} },
	}
	_, err = subagent.Runner{Agent: agent, Desk: desk}.Execute(t.Context(), order)
	if e := capabilities.AsError(err); e.Code != capabilities.CodeExecutionFailed || e.Action.Key != capabilities.ActionRunWorker {
		t.Errorf("%v", err)
	}
	if !queue.cancelled {
		t.Error("the job is still queued")
	}
}
