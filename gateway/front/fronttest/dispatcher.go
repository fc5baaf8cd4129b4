package fronttest

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/dispatch"
)

// Behaviour is what a tool does in a test.
type Behaviour func(ctx context.Context, r dispatch.Request) capabilities.Result

// Dispatcher validates arguments as the real one does and answers by Behaviour; a tool without one
// returns an empty output. Every tool but ToolHidden is visible until Show says otherwise.
type Dispatcher struct {
	Catalog *catalog.Catalog

	calls atomic.Int64

	mu      sync.RWMutex
	does    map[capabilities.ToolID]Behaviour
	visible []*catalog.Descriptor
	seen    []dispatch.Request
	refused []dispatch.Request
	changed chan struct{}
}

// NewDispatcher makes one over cat.
func NewDispatcher(cat *catalog.Catalog) *Dispatcher {
	d := &Dispatcher{Catalog: cat, does: make(map[capabilities.ToolID]Behaviour), changed: make(chan struct{})}
	for _, t := range cat.All() {
		if t.ModelFacing && t.Tool != ToolHidden {
			d.visible = append(d.visible, t)
		}
	}
	return d
}

// Do sets what a tool does.
func (d *Dispatcher) Do(id capabilities.ToolID, b Behaviour) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.does[id] = b
}

// Show makes exactly these tools visible and says that something changed.
func (d *Dispatcher) Show(ids ...capabilities.ToolID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.visible = nil
	for _, id := range ids {
		if t, ok := d.Catalog.Get(id); ok {
			d.visible = append(d.visible, t)
		}
	}
	close(d.changed)
	d.changed = make(chan struct{})
}

// Seen returns the requests that came, without their Progress.
func (d *Dispatcher) Seen() []dispatch.Request {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.Clone(d.seen)
}

// Refused returns the requests that a surface refused.
func (d *Dispatcher) Refused() []dispatch.Request {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.Clone(d.refused)
}

// Refuse implements the surfaces' Dispatcher.
func (d *Dispatcher) Refuse(_ context.Context, r dispatch.Request, e *capabilities.Error) capabilities.Result {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refused = append(d.refused, r)
	return Fail(e.Code, nil)
}

// Visible implements the surfaces' Dispatcher.
func (d *Dispatcher) Visible(context.Context, dispatch.Caller) []*catalog.Descriptor {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.Clone(d.visible)
}

// Asks implements the surfaces' Dispatcher: nobody is asked here.
func (d *Dispatcher) Asks(context.Context, dispatch.Caller, capabilities.ToolID) bool { return false }

// Covered implements the surfaces' Dispatcher: everything visible is allowed.
func (d *Dispatcher) Covered(ctx context.Context, r dispatch.Request) dispatch.Coverage {
	verdict, _ := d.Possible(ctx, r.Caller, r.Tool)
	return dispatch.Coverage{Effect: verdict.Effect, Rules: []string{"visible"}}
}

// Possible implements the surfaces' Dispatcher: everything visible is allowed whole.
func (d *Dispatcher) Possible(_ context.Context, _ dispatch.Caller, tool capabilities.ToolID) (policy.Decision, []string) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, one := range d.visible {
		if one.Tool == tool {
			return policy.Decision{Effect: policy.Allow}, one.Manifest.Keys()
		}
	}
	return policy.Decision{}, nil
}

// Changed implements the surfaces' Dispatcher.
func (d *Dispatcher) Changed() <-chan struct{} {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.changed
}

// Call implements the surfaces' Dispatcher.
func (d *Dispatcher) Call(ctx context.Context, r dispatch.Request) capabilities.Result {
	call := capabilities.CallID("c" + strconv.FormatInt(d.calls.Add(1), 10))
	out := d.call(ctx, r)
	out.Call, out.Tool = call, r.Tool
	return out
}

func (d *Dispatcher) call(ctx context.Context, r dispatch.Request) capabilities.Result {
	if r.Tool == ToolNoop { // the benchmark's: as little as can be
		return OK(`{}`)
	}
	d.mu.Lock()
	if len(d.seen) < 1000 {
		kept := r
		kept.Progress = nil
		d.seen = append(d.seen, kept)
	}
	does := d.does[r.Tool]
	allowed := slices.ContainsFunc(d.visible, func(t *catalog.Descriptor) bool { return t.Tool == r.Tool })
	d.mu.Unlock()
	t, ok := d.Catalog.Get(r.Tool)
	if !ok {
		return Fail(capabilities.CodeUnknownTool, nil)
	}
	if _, violations, err := t.SplitArgs(r.Args); err != nil {
		return Fail(capabilities.CodeOf(err), nil)
	} else if len(violations) > 0 {
		return Fail(capabilities.CodeInvalidArguments, map[string]any{"violations": violations})
	}
	if !allowed {
		res := Fail(capabilities.CodeDeniedByPolicy, nil)
		res.Status = capabilities.StatusDenied
		return res
	}
	if does == nil {
		return OK(`{}`)
	}
	return does(ctx, r)
}

// OK is a result with that output.
func OK(output string, blobs ...capabilities.Blob) capabilities.Result {
	return capabilities.Result{Status: capabilities.StatusOK, Output: json.RawMessage(output), Blobs: blobs}
}

// Fail is a result with that code.
func Fail(code capabilities.Code, details any) capabilities.Result {
	info := code.Info()
	return capabilities.Result{
		Status: capabilities.StatusError, Code: code, Message: info.Message, Hint: info.Hint, Retryable: info.Retryable, Details: details,
	}
}
