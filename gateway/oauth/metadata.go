package oauth

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

const (
	resourcePath = "/.well-known/oauth-protected-resource"
	serverPath   = "/.well-known/oauth-authorization-server"
)

// resourceMetadata is RFC 9728, section 2.
type resourceMetadata struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Methods  []string `json:"bearer_methods_supported"`
	Name     string   `json:"resource_name"`
}

// serverMetadata is RFC 8414, section 2, with RFC 9207 and Client ID Metadata Documents.
type serverMetadata struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Registration  string   `json:"registration_endpoint"`
	Revocation    string   `json:"revocation_endpoint"`
	Responses     []string `json:"response_types_supported"`
	Modes         []string `json:"response_modes_supported"`
	Grants        []string `json:"grant_types_supported"`
	TokenAuth     []string `json:"token_endpoint_auth_methods_supported"`
	RevokeAuth    []string `json:"revocation_endpoint_auth_methods_supported"`
	Challenges    []string `json:"code_challenge_methods_supported"`
	Iss           bool     `json:"authorization_response_iss_parameter_supported"`
	Documents     bool     `json:"client_id_metadata_document_supported"`
}

// isResource reports whether path is an address of MCP.
func isResource(path string) bool {
	return path == Resource || path == Resource+"/" || strings.HasPrefix(path, Resource+"/l/")
}

func (s *Server) resource(w http.ResponseWriter, r *http.Request) {
	base, path := s.opts.Base(r), Resource
	if rest := r.PathValue("path"); rest != "" {
		if path = "/" + rest; !isResource(path) {
			writeError(w, http.StatusNotFound, "not_found", "MCP is at "+Resource+".")
			return
		}
	}
	s.note(r, Step{What: ReadResource})
	write(w, http.StatusOK, resourceMetadata{
		Resource: base + path, Servers: []string{base}, Methods: []string{"header"}, Name: "Handrail",
	})
}

func (s *Server) server(w http.ResponseWriter, r *http.Request) {
	base := s.opts.Base(r)
	s.note(r, Step{What: ReadServer})
	write(w, http.StatusOK, serverMetadata{
		Issuer: base, Authorization: base + s.opts.Authorize, Token: base + "/oauth/token", Registration: base + "/oauth/register",
		Revocation: base + "/oauth/revoke", Responses: []string{"code"}, Modes: []string{"query"},
		Grants: []string{"authorization_code", "refresh_token"}, TokenAuth: []string{"none"}, RevokeAuth: []string{"none"},
		Challenges: []string{"S256"}, Iss: true, Documents: true,
	})
}

// Challenge is what a refused request at an address of MCP is told (RFC 6750, section 3, and RFC
// 9728, section 5.1): where to learn how a token is got.
func (s *Server) Challenge(r *http.Request, sent bool, refusal error) string {
	challenge := `Bearer realm="handrail", resource_metadata="` + s.opts.Base(r) + resourcePath + escapedPath(r) + `"`
	step := Step{What: Challenged}
	if sent {
		challenge += `, error="invalid_token"`
		step = Step{What: Refused, Fault: capabilities.AsError(refusal).PublicMessage()}
	}
	s.note(r, step)
	return challenge
}

// escapedPath is the path of a request as it may stand in a header.
func escapedPath(r *http.Request) string {
	path := r.URL.EscapedPath()
	if !isResource(r.URL.Path) || len(path) > 512 || strings.ContainsFunc(path, noHeader) {
		return Resource
	}
	return path
}

// noHeader reports whether a character may not stand in a quoted text of a header as it is.
func noHeader(c rune) bool { return c <= ' ' || c >= 0x7f || c == '"' || c == '\\' }

func write(w http.ResponseWriter, status int, answer any) {
	data, err := json.Marshal(answer)
	if err != nil {
		status, data = http.StatusInternalServerError, []byte(`{"error":"server_error"}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Pragma", "no-cache") // RFC 6749, section 5.1
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n'))
}

// writeError answers as RFC 6749, section 5.2, has it.
func writeError(w http.ResponseWriter, status int, code, about string) {
	write(w, status, map[string]string{"error": code, "error_description": about})
}
