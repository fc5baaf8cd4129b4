package front

import (
	"encoding/json"
	"net/http"

	"github.com/handrail-dev/handrail/capabilities"
)

// ErrorView is an error as every surface shows it in JSON.
type ErrorView struct {
	Code    capabilities.Code `json:"code"`
	Message string            `json:"message"`
	Hint    string            `json:"hint,omitempty"`
	// Action is what Hint asks for, for surfaces that have words of their own.
	Action    capabilities.Action `json:"action,omitempty"`
	Retryable bool                `json:"retryable"`
	Details   any                 `json:"details,omitempty"`
}

// ViewError returns the public side of err; the cause stays behind.
func ViewError(err error) ErrorView {
	e := capabilities.AsError(err)
	code := e.Code
	if !code.Known() {
		code = capabilities.CodeInternal
	}
	return ErrorView{Code: code, Message: e.PublicMessage(), Hint: e.PublicHint(), Action: e.PublicAction(), Retryable: e.Passing || code.Info().Retryable, Details: e.Details}
}

// WriteError answers with {"error":{…}} and the code's HTTP status. A response
// that has begun already stays as it is.
func WriteError(w http.ResponseWriter, err error) {
	view := ViewError(err)
	body, jerr := json.Marshal(map[string]ErrorView{"error": view})
	if jerr != nil { // details that are no JSON are a defect of their maker
		view.Details = nil
		body, _ = json.Marshal(map[string]ErrorView{"error": view})
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	switch view.Code {
	case capabilities.CodeUnauthenticated:
		h.Set("WWW-Authenticate", `Bearer realm="handrail"`) // RFC 6750 section 3
	case capabilities.CodeOverloaded:
		h.Set("Retry-After", "5")
	}
	w.WriteHeader(view.Code.Info().HTTP)
	_, _ = w.Write(append(body, '\n'))
}
