package rest_test

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front/rest"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/stop"
)

// brake is a stop switch that ends nothing.
type brake struct {
	mu    sync.Mutex
	state stop.State
}

func (b *brake) State() stop.State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

func (b *brake) turn(on bool, by capabilities.PrincipalID, reason string) (rest.Halted, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state = stop.State{Epoch: b.state.Epoch + 1, Stopped: on, By: by, Reason: reason}
	return rest.Halted{State: b.state, Nodes: nodes.Heeded{Connected: 2, Confirmed: 1, Away: 3}}, nil
}

func (b *brake) Stop(_ context.Context, by capabilities.PrincipalID, reason string) (rest.Halted, error) {
	return b.turn(true, by, reason)
}

func (b *brake) Resume(_ context.Context, by capabilities.PrincipalID, reason string) (rest.Halted, error) {
	return b.turn(false, by, reason)
}

// A person stops and resumes; an agent does neither, nor learns of it.
func TestStopSwitch(t *testing.T) {
	a := start(t)
	for _, path := range []string{"/v1/stop", "/v1/resume"} {
		if status, answer := a.do(a.agent, http.MethodPost, path, `{}`); status != http.StatusForbidden {
			t.Errorf("an agent at %s: %d %s", path, status, answer)
		}
	}
	var h api.Halted
	a.ok(a.operator, http.MethodPost, "/v1/stop", `{"reason":"enough"}`, &h)
	if !h.Stopped || h.By != "op" || h.Reason != "enough" || h.Nodes.Away != 3 {
		t.Errorf("%+v", h)
	}
	var s api.Stop
	a.ok(a.operator, http.MethodGet, "/v1/stop", "", &s)
	if !s.Stopped || s.Epoch != 1 {
		t.Errorf("%+v", s)
	}
	a.ok(a.operator, http.MethodPost, "/v1/resume", `{}`, &h)
	if h.Stopped || h.Epoch != 2 {
		t.Errorf("%+v", h)
	}
}
