package tools

import (
	"regexp"
	"slices"
	"strings"
)

// Request is how a call of an HTTP API's tool becomes one request. It is part of what a person
// approves, and holds no secret.
type Request struct {
	Method string  `json:"method"` // in capitals
	Server string  `json:"server"` // http or https, without a slash at its end, query or fragment
	Path   string  `json:"path"`   // a template, such as "/pets/{petId}"
	Params []Param `json:"params,omitempty"`
	Body   *Body   `json:"body,omitempty"`
	Auth   []Auth  `json:"auth,omitempty"`
}

// Param is one argument that does not stand in the body.
type Param struct {
	Arg      string `json:"arg"`  // the argument's name
	Name     string `json:"name"` // what the API calls it
	In       string `json:"in"`   // path, query, header or cookie
	Style    string `json:"style"`
	Explode  bool   `json:"explode,omitempty"`
	Reserved bool   `json:"reserved,omitempty"` // reserved characters stay as they are
	JSON     bool   `json:"json,omitempty"`     // its value is written as JSON
	Required bool   `json:"required,omitempty"`
}

// Body is the argument ArgBody.
type Body struct {
	MIME     string `json:"mime"` // application/json or another JSON, application/x-www-form-urlencoded, text/plain
	Required bool   `json:"required,omitempty"`
	// Fields says how fields of a form are written, where it is not the default.
	Fields map[string]Field `json:"fields,omitempty"`
}

// Field is one field of a form.
type Field struct {
	Style    string `json:"style,omitempty"`
	Explode  bool   `json:"explode,omitempty"`
	Reserved bool   `json:"reserved,omitempty"`
	JSON     bool   `json:"json,omitempty"`
}

// ArgBody is the argument that is the body of a request.
const ArgBody = "body"

// Auth is a credential's place in a request.
type Auth struct {
	// Name is that of the credential in Provider.Headers or, with Scheme, in Provider.Env.
	Name   string `json:"name"`
	Scheme string `json:"scheme,omitempty"` // apiKey, bearer or basic; "": the header as it is
	In     string `json:"in"`               // header, query or cookie
	Key    string `json:"key"`              // of the header, parameter or cookie
}

// Line is the request in words: its method and its address as a template.
func (r *Request) Line() []string { return []string{r.Method, r.Server + r.Path} }

// Wants reports whether the record asks for a tool: by its name, its ID's action, a tag, or the
// method and path of a request.
func (p *Provider) Wants(t *RemoteTool) bool {
	return len(p.Only) == 0 || slices.ContainsFunc(p.Only, func(o string) bool {
		return o == t.Name || o == p.toolID(t.Name).Action() || slices.Contains(t.Tags, o) ||
			t.Request != nil && o == t.Request.Method+" "+t.Request.Path
	})
}

var headerFormat = regexp.MustCompile(`^[A-Za-z0-9!#$%&'*+.^_|~-]{1,64}$`)

// kept are headers that say where a request goes or ends, which nobody but the client writes.
var kept = []string{
	"accept-encoding", "connection", "content-encoding", "content-length", "content-type", "cookie", "expect", "forwarded", "host",
	"keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
}

// HeaderAllowed reports whether a parameter or credential may be a header of that name.
func HeaderAllowed(name string) bool {
	return headerFormat.MatchString(name) && !slices.Contains(kept, strings.ToLower(name))
}
