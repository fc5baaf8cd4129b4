package front

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/route"
)

// ViewError returns the public side of err, in the words of the command line; the cause stays
// behind.
func ViewError(err error) api.Error {
	e := capabilities.AsError(err)
	code := e.Code
	if !code.Known() {
		code = capabilities.CodeInternal
	}
	v := api.Error{Code: code, Message: e.PublicMessage(), Retryable: e.Passing || code.Info().
		Retryable, Details: WordDetails(e.Details, commandWords)}
	a := e.PublicAction()
	v.Hint, v.Action = a.Worded(e.PublicHint(), commandWords(a))
	return v
}

// ViewResult returns a result in the words of the command line.
func ViewResult(r capabilities.Result) capabilities.Result {
	r.Hint, r.Action = r.Action.Worded(r.Hint, commandWords(r.Action))
	r.Details = WordDetails(r.Details, commandWords)
	return r
}

func commandWords(a capabilities.Action) string { return command.Words(a) }

// WordDetails returns details whose fixes have a surface's words for what they ask for.
func WordDetails(details any, words func(capabilities.Action) string) any {
	word := func(c *route.Candidate) { c.Fix, c.Action = c.Action.Worded(c.Fix, words(c.Action)) }
	switch about := details.(type) {
	case route.Candidate:
		word(&about)
		return about
	case route.Ambiguity:
		about.Candidates = slices.Clone(about.Candidates) // others hold it, too
		for i := range about.Candidates {
			word(&about.Candidates[i])
		}
		return about
	}
	return details
}

// WriteError answers with {"error":{…}} and the code's HTTP status. A response
// that has begun already stays as it is.
func WriteError(w http.ResponseWriter, err error) {
	view := ViewError(err)
	body, jerr := json.Marshal(map[string]api.Error{"error": view})
	if jerr != nil { // details that are no JSON are a defect of their maker
		view.Details = nil
		body, _ = json.Marshal(map[string]api.Error{"error": view})
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	switch view.Code {
	case capabilities.CodeUnauthenticated:
		if h.Get("WWW-Authenticate") == "" {
			h.Set("WWW-Authenticate", `Bearer realm="handrail"`) // RFC 6750 section 3
		}
	case capabilities.CodeOverloaded:
		wait := 5 * time.Second
		if said, ok := view.Details.(interface{ RetryAfter() time.Duration }); ok {
			wait = said.RetryAfter()
		}
		h.Set("Retry-After", strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10))
	}
	w.WriteHeader(view.Code.Info().HTTP)
	_, _ = w.Write(append(body, '\n'))
}
