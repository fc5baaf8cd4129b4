package rest

import (
	"net/http"

	"github.com/handrail-dev/handrail/gateway/principal"
)

// harmless is what changes something and can not widen what agents may do: it
// works from everywhere, always. Whatever is not here and not a GET has to come
// from elsewhere while an agent holds a device's mouse and keyboard.
var harmless = map[string]bool{
	"POST /v1/nodes/{node}/deny":           true,
	"POST /v1/nodes/{node}/revoke":         true,
	"DELETE /v1/invites/{invite}":          true,
	"DELETE /v1/lanes/{lane}/nodes/{node}": true,
	"DELETE /v1/grants/{grant}":            true,
	"DELETE /v1/tokens/{token}":            true,
	"DELETE /v1/tasks/{task}":              true,
	"DELETE /v1/webhooks/{webhook}":        true,
	"POST /v1/policy/explain":              true,
	"POST /v1/policy/replay":               true, // it only asks what would have been
	"POST /v1/stop":                        true,
	"POST /v1/tools/select":                true,
	"POST /v1/calls":                       true, // policy and consent judge those
	"POST /v1/approvals/{approval}":        true, // denying is; answer asks for allowing
}

// fromElsewhere refuses what widens from a device that an agent has in its hands.
func (s *Server) fromElsewhere(c *visit, e *endpoint) error {
	if e.method == http.MethodGet || e.action == "" || e.action == principal.ActCall || harmless[e.method+" "+e.path] || s.opts.Elsewhere == nil {
		return nil
	}
	return s.opts.Elsewhere(c.r)
}
