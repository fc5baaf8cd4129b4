package gateway

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/opencalls"
	"github.com/handrail-dev/handrail/gateway/registry"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/gateway/subagent"
)

// A worker asks for jobs at any gateway of several. A job is taken in the store's one order, so by
// one worker. The job of a sub-agent's call may be taken at another gateway than the call's: its
// own calls are made there, inside that call.

// The words that gateways ask each other by.
const (
	wordAttends = "job.attends" // a worker asked for jobs
	wordInside  = "job.call"    // a call inside a sub-agent's

	wordTaskEnded = "task.ended" // a deferred call is cancelled, or dropped
)

type attends struct {
	Principal capabilities.PrincipalID `json:"principal"`
	Under     capabilities.LaneID      `json:"under,omitempty"`
}

// spreadAttends has the other gateways know that a worker is there. It does not block.
func (g *Gateway) spreadAttends(p capabilities.PrincipalID, under capabilities.LaneID) {
	if g.opts.Fleet == "" {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), heedWithin)
		defer cancel()
		g.Nodes.TellMembers(ctx, wordAttends, attends{p, under})
	}()
}

func (g *Gateway) toldAttends(_ context.Context, body []byte) (any, error) {
	var in attends
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInvalidRequest, err, "")
	}
	g.Jobs.Attends(in.Principal, in.Under)
	return struct{}{}, nil
}

type inside struct {
	Principal capabilities.PrincipalID `json:"principal"`
	Job       string                   `json:"job"`
	Claim     string                   `json:"claim"`
	Call      registry.Nested          `json:"call"`
}

// subAgents makes the calls of sub-agents' workers where the call is that they are inside of.
type subAgents struct {
	*subagent.Desk
	g *Gateway
}

// Call is the desk's, at the gateway whose call it is.
func (s subAgents) Call(ctx context.Context, p capabilities.PrincipalID, id, claim string, n registry.Nested) (capabilities.Result, error) {
	if s.g.opts.Fleet != "" {
		home, err := s.g.Jobs.Home(ctx, p, id)
		if err != nil {
			return capabilities.Result{}, err
		}
		if home != "" && home != s.g.Store.Member() {
			return s.g.callInside(ctx, home, inside{p, id, claim, n})
		}
	}
	return s.Desk.Call(ctx, p, id, claim, n)
}

func (g *Gateway) callInside(ctx context.Context, home string, in inside) (capabilities.Result, error) {
	var packed []byte
	if err := g.Nodes.AskMember(ctx, home, wordInside, in, &packed); err != nil {
		if errors.Is(err, nodes.ErrUnheard) {
			err = capabilities.Wrap(capabilities.CodeUnknownOutcome, err, "The gateway that makes this call does not answer.")
		}
		return capabilities.Result{}, err
	}
	r, err := opencalls.Unpack(packed)
	if err != nil {
		return capabilities.Result{}, err
	}
	return *r, nil
}

func (g *Gateway) toldInside(ctx context.Context, body []byte) (any, error) {
	var in inside
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInvalidRequest, err, "")
	}
	r, err := g.SubAgents.Call(ctx, in.Principal, in.Job, in.Claim, in.Call)
	if err != nil {
		return nil, err
	}
	return opencalls.Pack(&r)
}

type taskEnded struct {
	Task     string `json:"task"`
	Approval string `json:"approval,omitempty"`
}

// endTask has another gateway end a task that it carries out.
func (g *Gateway) endTask(ctx context.Context, member, id, approval string) error {
	ctx, cancel := context.WithTimeout(ctx, heedWithin)
	defer cancel()
	err := g.Nodes.AskMember(ctx, member, wordTaskEnded, taskEnded{id, approval}, nil)
	if errors.Is(err, nodes.ErrUnheard) {
		return capabilities.Errorf(capabilities.CodeOverloaded, "The gateway that carries this call out does not answer.").
			WithHint("Look at the call in some seconds: it goes on, or is another gateway's then.")
	}
	return err
}

func (g *Gateway) toldTaskEnded(_ context.Context, body []byte) (any, error) {
	var in taskEnded
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInvalidRequest, err, "")
	}
	g.Tasks.Ended(in.Task, in.Approval)
	return struct{}{}, nil
}

// againWorkers ends the connections to the bus of workers that another gateway put out.
func (g *Gateway) againWorkers(ctx context.Context) error {
	all, err := g.Workers.Views(ctx)
	if err != nil {
		return err
	}
	for _, w := range all {
		if w.State == route.StateRevoked {
			go g.Bus.PutOut(w.ID) // it may wait for the bus
		}
	}
	return nil
}

// tells reports whether this gateway is the one of several that tells people of what all of them
// read in the ledger: the first of those that serve.
func (g *Gateway) tells(ctx context.Context) bool {
	if g.opts.Fleet == "" {
		return true
	}
	all, err := g.Store.Members(ctx)
	return err != nil || len(all) == 0 || all[0] == g.Store.Member()
}
