package rest

import (
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/front"
)

// permission finds out what covers a call of the visitor's own (S2-27, S2-28).
func (s *Server) permission(c *visit, in api.CheckPermission) (api.Permission, error) {
	if in.Tool == "" || len(in.Tool) > 128 {
		return api.Permission{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "tool is required, and has at most 128 characters")
	}
	if in.Lane == "" {
		in.Lane = c.who.Lane
	}
	if err := s.opts.Lanes.Enter(c.r.Context(), c.who, in.Lane); err != nil {
		return api.Permission{}, err
	}
	r := dispatch.Request{Caller: front.Caller(c.who, in.Lane), Tool: in.Tool, Args: in.Args, Surface: "rest", Token: c.who.TokenID}
	return front.ViewPermission(&r, s.opts.Dispatcher.Covered(c.r.Context(), r)), nil
}
