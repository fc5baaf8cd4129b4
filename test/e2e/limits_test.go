package e2e

import (
	"context"
	"net/http"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// freed tells which lanes a node was told to free.
type freed struct {
	*site.Handler
	lanes chan capabilities.LaneID
}

func (f *freed) CloseLane(l capabilities.LaneID) { f.lanes <- l }

// A revoked token ends the calls that run for it, at the node too; another's go on.
func TestRevokedTokenEndsItsCalls(t *testing.T) {
	h, handler := start(t, site.Options{}), &counted{Handler: site.NewHandler(), ended: make(chan struct{}, 2)}
	h.AddNode("one", handler)
	token, secret, err := h.Tokens.Create(ctx(), principal.Site, principal.Spec{Principal: "gone", Role: principal.RoleAgent})
	must(t, err)
	answers := make(chan capabilities.Result, 1)
	c := newCaller(t, h.URL(), secret.Reveal())
	go func() {
		r, err := c.call(ctx(), site.ToolSlow, text("x"), "r1")
		if err != nil {
			t.Error(err)
		}
		answers <- r
	}()
	started(t, handler.Handler, "x")
	mine, leave := context.WithCancel(ctx())
	stays := h.calling(mine, site.ToolSlow, text("y"), "")
	started(t, handler.Handler, "y")
	h.client(principal.RoleAdmin).ok(http.MethodDelete, "/v1/tokens/"+token.ID, "", nil)
	want(t, await(t, "the answer", answers), capabilities.StatusError, capabilities.CodeUnauthenticated)
	await(t, "the handler's end", handler.ended)
	select {
	case r := <-stays:
		t.Errorf("another's call ended too: %+v", r)
	default:
	}
	leave()
	want(t, await(t, "the other call", stays), capabilities.StatusError, capabilities.CodeCancelled)
	await(t, "its handler's end", handler.ended)
}

// A node that is detached from a lane frees what the lane held on it.
func TestDetachFreesTheLane(t *testing.T) {
	h, handler := start(t, site.Options{}), &freed{Handler: site.NewHandler(), lanes: make(chan capabilities.LaneID, 4)}
	n := h.AddNode("one", handler)
	c := h.client(principal.RoleOperator)
	path := "/v1/lanes/main/nodes/" + string(n.ID)
	c.ok(http.MethodPut, path, "", nil)
	c.ok(http.MethodDelete, path, "", nil)
	if l := await(t, "the lane to be freed", handler.lanes); l != "main" {
		t.Errorf("freed %s", l)
	}
}
