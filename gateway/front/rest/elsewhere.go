package rest

import (
	"net/http"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// harmless is what changes something and cannot widen what agents may do: it
// works from everywhere, always, as do all paths that end in deny or revoke. All else that is not
// a GET has to come from elsewhere while an agent holds a device's mouse and keyboard.
var harmless = map[string]bool{
	"DELETE /v1/providers/{provider}":      true,
	"DELETE /v1/sign-ins/{sign_in}":        true,
	"DELETE /v1/invites/{invite}":          true,
	"DELETE /v1/lanes/{lane}/nodes/{node}": true,
	"DELETE /v1/grants/{grant}":            true,
	"DELETE /v1/tokens/{token}":            true,
	"DELETE /v1/tasks/{task}":              true,
	"DELETE /v1/artifacts/{artifact}":      true,
	"DELETE /v1/webhooks/{webhook}":        true,
	"POST /v1/policy/explain":              true,
	"POST /v1/permissions/check":           true, // it only looks
	// A job is a caller's own: policy and consent judge each call of it.
	"POST /v1/clients/refuse":  true,
	"POST /v1/jobs":            true,
	"POST /v1/jobs/take":       true,
	"POST /v1/jobs/{job}/word": true,
	"DELETE /v1/jobs/{job}":    true,
	"POST /v1/policy/replay":   true, // it only asks what would have been
	"POST /v1/stop":            true,
	// Looking on widens nothing, and who watches an agent has to be able to.
	"POST /v1/live/{node}/{source}/whep":             true,
	"PATCH /v1/live/{node}/{source}/whep/{session}":  true,
	"DELETE /v1/live/{node}/{source}/whep/{session}": true,
	// Policy and a person's word for this very recording judge it, as they do calls.
	"POST /v1/recordings":               true,
	"DELETE /v1/recordings/{recording}": true,
	// These look themselves where they come from: of the node that is taken over they may.
	"POST /v1/control/{node}":                  true,
	"PUT /v1/control/{node}/{session}":         true,
	"POST /v1/control/{node}/{session}/{with}": true,
	"DELETE /v1/control/{node}/{session}":      true,
	"POST /v1/calls/{call}/replay":             true, // policy and consent judge what is run again
	"POST /v1/selections":                      true,
	"POST /v1/tools/{tool}/validate":           true, // it only looks
	"POST /v1/logins":                          true, // looking on is; login asks for more than that
	"POST /v1/calls":                           true, // policy and consent judge those
	"DELETE /v1/calls/{call}":                  true,
	"POST /v1/ledger/compare":                  true, // it only reads
	"POST /v1/surfaced":                        true,
	"POST /v1/policy/drafts":                   true, // in force only by an activation
	"POST /v1/approvals/{approval}/extend":     true, // time, and no answer
	"POST /v1/approvals/{approval}":            true, // denying is; answer asks for allowing
	"POST /v1/approvals":                       true, // the same
	// It only asks; what the passkey says counts above.
	"POST /v1/approvals/{approval}/passkey": true,
	"POST /v1/confirmations":                true,
	"POST /v1/confirmations/answers":        true,
	"DELETE /v1/users/{user}":               true,
	"DELETE /v1/users/{user}/sessions":      true,
	"DELETE /v1/account/passkeys/{passkey}": true,
	"DELETE /v1/account/sessions":           true,
	"DELETE /v1/account/sessions/{session}": true,
}

// takesAway reports whether a request cannot widen what agents may do.
func takesAway(e *endpoint) bool {
	return harmless[e.method+" "+e.path] || strings.HasSuffix(e.path, "/deny") || strings.HasSuffix(e.path, "/revoke")
}

// fromElsewhere refuses what widens from a device that an agent has in its hands, unless it
// can be confirmed by a passkey and is. Letting a client in is confirmed so from anywhere.
func (s *Server) fromElsewhere(c *visit, e *endpoint) error {
	if e.method == http.MethodGet || e.action == "" || e.action == principal.ActCall || takesAway(e) {
		return nil
	}
	if !confirmable[e.method+" "+e.path] {
		if s.opts.Elsewhere == nil {
			return nil
		}
		return s.opts.Elsewhere(c.r, "")
	}
	err := s.elsewhere(c)
	if err == nil && e.method+" "+e.path == letsClientIn && s.confirmsClients(c) {
		err = offersPasskey(capabilities.Errorf(capabilities.CodeForbidden, "You have a passkey here, and a client is let in with it.").
			WithHint("Confirm with your passkey. Letting a client in begins with a link, which anybody may have sent you."))
	}
	if answer := c.r.Header.Get(front.PasskeyHeader); err != nil && answer != "" {
		return s.confirmedRequest(c, e, []byte(answer))
	}
	return err
}
