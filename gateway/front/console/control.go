package console

import (
	"encoding/json"
	"io"
	"net/http"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/front"
)

// Every control of every page names the route of the REST surface that it leads to in
// data-does, and is there exactly if that surface would take it from the visitor
// (policy.Visible, S1-33): no template is taken that shows one without asking Offers.
// surfaced.js tells the gateway what was shown.

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
	if err := v.ask(http.MethodPost, v1("surfaced"), json.RawMessage(body), nil); err != nil {
		front.WriteError(v.w, err)
		return
	}
	v.w.WriteHeader(http.StatusNoContent)
}
