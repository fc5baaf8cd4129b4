package workers

import (
	"context"

	"github.com/google/uuid"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// A worker that calls a sub-agent does its task itself, if no other worker of the same agent takes
// it first: an engine of its own works at it while the call waits. So no worker waits for one that
// does not run.

// isSubAgent reports whether a tool is a sub-agent (S3-16).
func isSubAgent(tool capabilities.ToolID) bool { return tool.Family() == "sub-agent" }

// serve does the tasks of sub-agents that are called in a lane until the returned function is
// called, which returns when it has ended.
func (g *workerGateway) serve(ctx context.Context, lane capabilities.LaneID) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	o := g.opts
	o.wait, o.lane, o.session, o.requests, o.told, o.editor = false, "", "", nil, nil, nil
	s := &jobService{cmd: g.cmd, opts: o, gateway: g.remote, name: "sub-agent-" + uuid.NewString(), under: lane, quiet: true}
	first, err := s.take(ctx, true) // before the call, which ends at once where no worker is
	go func() {
		defer close(done)
		one := first
		for ctx.Err() == nil && err == nil { // else the call ends without it, or by another worker
			if one != nil && s.do(ctx, one) != nil {
				return
			}
			one, err = s.take(ctx, false)
		}
	}()
	return func() { cancel(); <-done }
}

// uses reports whether a sub-agent's job may call a tool; every job that is none may.
func uses(j *api.Job, tool capabilities.ToolID) bool {
	if j == nil || j.Parent == "" {
		return true
	}
	for _, id := range j.Uses {
		if id == tool {
			return true
		}
	}
	return false
}
