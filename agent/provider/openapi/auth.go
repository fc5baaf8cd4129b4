package openapi

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

// auth says where the record's credentials go in requests of an operation. Only requests to the
// API's own origin get any; an operation at another server is called without.
func (r *reader) auth(q *tools.Request, op map[string]any) error {
	at, err := url.Parse(q.Server)
	if err != nil || r.home == "" || originOf(at) != r.home {
		return nil
	}
	for _, h := range r.record.Headers {
		q.Auth = append(q.Auth, tools.Auth{Name: h.Name, In: "header", Key: h.Name})
	}
	security, said := op["security"]
	if !said {
		security = r.root["security"]
	}
	for _, v := range listOf(security) {
		wanted := mapOf(v)
		if !r.given(wanted) {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(wanted)) {
			a, err := r.scheme(name)
			if err != nil {
				return err
			}
			q.Auth = append(q.Auth, a)
		}
		return nil // the first of the alternatives that can be met
	}
	return nil
}

func (r *reader) schemes() map[string]any {
	return mapOf(mapOf(r.root["components"])["securitySchemes"])
}

// check refuses a credential that has no place: its name is none of a security scheme's.
func (r *reader) check() error {
	for _, c := range r.record.Env {
		if r.schemes()[c.Name] == nil {
			return capabilities.Errorf(capabilities.CodeInvalidRequest, "%.64q is no security scheme of the document, and no header",
				c.Name).
				WithHint("Its schemes: " + capabilities.Clip(capabilities.Printable(strings.Join(slices.Sorted(maps.Keys(r.schemes())), ", ")), 500))
		}
	}
	return nil
}

// given reports whether the record has a credential for every scheme of one alternative.
func (r *reader) given(wanted map[string]any) bool {
	for name := range wanted {
		if !slices.ContainsFunc(r.record.Env, func(c tools.Credential) bool { return c.Name == name }) {
			return false
		}
	}
	return true
}

// scheme is where a credential goes by the document.
func (r *reader) scheme(name string) (tools.Auth, error) {
	m, err := r.resolved(r.schemes()[name])
	if err != nil {
		return tools.Auth{}, problem(fmt.Sprintf("its security scheme %.64q is not described", name))
	}
	a := tools.Auth{Name: name, In: "header", Key: "Authorization"}
	switch kind, scheme := textOf(m["type"]), strings.ToLower(textOf(m["scheme"])); {
	case kind == "apiKey":
		a.Scheme, a.In, a.Key = "apiKey", textOf(m["in"]), textOf(m["name"])
		ok := a.Key != "" && len(a.Key) <= 64
		switch a.In {
		case "header":
			ok = tools.HeaderAllowed(a.Key)
		case "cookie":
			ok = ok && token(a.Key)
		case "query":
		default:
			ok = false
		}
		if !ok {
			return a, problem(fmt.Sprintf("its security scheme %.64q names no place for the key", name))
		}
	case kind == "http" && scheme == "basic":
		a.Scheme = "basic"
	case kind == "http" && scheme == "bearer", kind == "oauth2", kind == "openIdConnect":
		a.Scheme = "bearer" // a token that somebody got elsewhere
	default:
		return a, problem(fmt.Sprintf("its security scheme %.64q is of a kind that is not supported", name))
	}
	return a, nil
}

// token reports whether s is one of RFC 9110, of which names of cookies are made.
func token(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", c))
	})
}
