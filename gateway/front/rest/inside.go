package rest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// The console is a client of this surface inside the process: its requests pass the
// same table with the same authorisation, the same strictness and the same rule
// about where they come from.

// Ask serves one request of the table for whoever sent r, and decodes the answer
// into out (nil: discarded). Target is a path with its query; in is the body, or nil.
// Refusals and failures are the errors that a client would get. The visitor's
// identity, address and headers are r's own.
func (s *Server) Ask(r *http.Request, method, target string, in, out any) error {
	body := []byte(nil)
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return capabilities.Wrap(capabilities.CodeInternal, err, "")
		}
	}
	answer := &answerBuffer{header: http.Header{}, status: http.StatusOK}
	if err := s.inside(answer, r, method, target, body); err != nil {
		return err
	}
	if answer.status >= 300 {
		var form api.Failed
		if err := json.Unmarshal(answer.body.Bytes(), &form); err != nil || form.Error.Code == "" {
			return capabilities.Errorf(capabilities.CodeInternal, "%s %s answered %d", method, target, answer.status)
		}
		return form.Error.Err()
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer.body.Bytes(), out); err != nil {
		return capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	return nil
}

// Pass serves one request of the table for whoever sent r and lets the answer through
// as it is: for streams and exports.
func (s *Server) Pass(w http.ResponseWriter, r *http.Request, target string) {
	if err := s.inside(w, r, http.MethodGet, target, nil); err != nil {
		front.WriteError(w, err)
	}
}

// Relay is Pass for any method, with the body that r brought: for what is not JSON.
func (s *Server) Relay(w http.ResponseWriter, r *http.Request, method, target string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		front.WriteError(w, front.BodyError(err))
		return
	}
	if err := s.inside(w, r, method, target, body); err != nil {
		front.WriteError(w, err)
	}
}

func (s *Server) inside(w http.ResponseWriter, r *http.Request, method, target string, body []byte) error {
	u, err := url.Parse(target)
	if err != nil {
		return capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	in := r.Clone(r.Context())
	in.Method, in.URL, in.RequestURI = method, u, target
	in.Body, in.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	in.Form, in.PostForm = nil, nil
	s.within.ServeHTTP(w, in)
	return nil
}

// Answer serves one request of the table whose visitor stands in its context (front.As). A stream
// or an export, which is no JSON, is refused.
func (s *Server) Answer(r *http.Request) (status int, kind string, body []byte) {
	answer := &answerBuffer{header: http.Header{}, status: http.StatusOK}
	if _, pattern := s.within.Handler(r); pattern != "" && s.row(pattern).media != "" {
		front.WriteError(answer, capabilities.Errorf(capabilities.CodeInvalidRequest, "this is asked over HTTPS alone"))
	} else {
		s.within.ServeHTTP(answer, r)
	}
	return answer.status, answer.header.Get("Content-Type"), answer.body.Bytes()
}

// Offers reports whether a surface shows who what a route of the table does. Route is
// such as "POST /v1/approvals/{approval}".
func (s *Server) Offers(who principal.Identity, route string) bool { return s.row(route).visible(who) }

// row returns the row of a route; nil if the table has none.
func (s *Server) row(route string) *endpoint {
	for _, e := range s.routes {
		if e.method+" "+e.path == route {
			return e
		}
	}
	return nil
}

// visible is the one answer to "may who do this", by which serve refuses and pages
// show (S1-33): the table declares it, the role's policy allows it, and it maps to
// something that carries it out.
func (e *endpoint) visible(who principal.Identity) bool {
	return e != nil && policy.Visible(true, e.action == "" || who.May(e.judged()), e.run != nil)
}

// answerBuffer keeps an answer that is small and JSON.
type answerBuffer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answerBuffer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answerBuffer) WriteHeader(status int) { a.status = status }

// Write implements http.ResponseWriter.
func (a *answerBuffer) Write(b []byte) (int, error) { return a.body.Write(b) }
