package front

import (
	"strings"

	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/dispatch"
)

// ViewPermission is what covers a call of r.
func ViewPermission(r *dispatch.Request, c dispatch.Coverage) api.Permission {
	p := api.Permission{
		Tool: r.Tool, State: api.PermissionDenied, Node: c.Node, Label: c.Label, Lane: r.Lane, Principal: r.Principal, Longest: string(c.Longest),
		Asks: c.Reachable,
	}
	switch {
	case c.Refused != nil:
		p.Code, p.Message = c.Refused.Code, c.Refused.PublicMessage()
	case c.Grant != nil:
		p.State, p.By, p.Grant, p.Expires = api.PermissionCovered, c.Grant.ID, c.Grant.ID, c.Grant.Expires
	case c.Effect == policy.Allow:
		p.State, p.By = api.PermissionCovered, strings.Join(c.Rules, ", ")
	case c.Effect == policy.Ask:
		p.State = api.PermissionAsk
	}
	return p
}
