package console

import (
	"encoding/json"
	"io"
	"net/http"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/front"
)

// Every control of every page is made here. It names the route of the REST surface
// that it leads to, and is there exactly if that surface would take it from the
// visitor (policy.Visible, S1-33); surfaced.js tells the gateway what was shown.

// offers reports whether the visitor could use a route of the REST surface.
func (v *visit) offers(route string) bool { return v.con.opts.API.Offers(v.who, route) }

// control is a form that does what a route does.
func (v *visit) control(route, action string, a attrs, kids ...html) html {
	if !v.offers(route) {
		return html{}
	}
	return v.form(action, append(attrs{"data-does", route}, a...), kids...)
}

// way is a link to a page that is there for a route only.
func (v *visit) way(route, href string, a attrs, kids ...html) html {
	if !v.offers(route) {
		return html{}
	}
	return el("a", append(attrs{"href", href, "data-does", route}, a...), kids...)
}

// keysOf shows keys that a call was granted; what is shown is told the gateway, which
// holds it against the envelope.
func keysOf(call capabilities.CallID, keys []string) html {
	out := html{}
	for i, k := range keys {
		if i > 0 {
			out = group(out, text(", "))
		}
		out = group(out, el("code", attrs{"data-call", string(call), "data-grant", k}, text(k)))
	}
	return out
}

// surfaced passes on what a page says that it offers.
func (c *Console) surfaced(v *visit) {
	body, err := io.ReadAll(v.r.Body)
	if err != nil {
		front.WriteError(v.w, front.BodyError(err))
		return
	}
	if !json.Valid(body) {
		front.WriteError(v.w, capabilities.Errorf(capabilities.CodeInvalidRequest, "the body must be a JSON object"))
		return
	}
	if err := v.ask(http.MethodPost, api("surfaced"), json.RawMessage(body), nil); err != nil {
		front.WriteError(v.w, err)
		return
	}
	v.w.WriteHeader(http.StatusNoContent)
}
