package agent

import (
	"context"
	"time"

	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// scene says what a call would meet here, for the person who is asked about it: nothing
// while the device is stopped, or where the owner's rules deny the call.
func (a *Agent) scene(ctx context.Context, ask *wire.SceneAsk) wire.Scene {
	if a.stop.Stopped() {
		return wire.Scene{}
	}
	d := a.rules.Judge(policy.Request{
		Principal: ask.Principal, User: policy.IsUser(ask.Role), Role: ask.Role, Tool: ask.Tool, Node: *a.node.Load(), Lane: ask.Lane,
		Args: ask.Args, Time: time.Now(),
	})
	if d.Effect == policy.Deny {
		return wire.Scene{}
	}
	return a.runner.Scene(ctx, ask)
}
