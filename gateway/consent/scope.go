package consent

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

// Scope narrows a lease beyond its tools, node and lane. An empty field does not narrow. A call
// whose arguments do not say what it reaches is not covered by a scope that wants to know.
type Scope struct {
	// Domains are hosts, in punycode; *.example.com is that domain and all below it.
	Domains []string `json:"domains,omitempty"`
	Apps    []string `json:"apps,omitempty"` // applications by their names; case does not matter
	// Paths are absolute folders or files of the device; everything below counts.
	Paths []string `json:"paths,omitempty"`
	// Starts is when the window of time opens that the grant's expiry closes; zero:
	// at once.
	Starts time.Time `json:"starts_at,omitzero"`
}

// IsZero reports whether s narrows nothing.
func (s Scope) IsZero() bool {
	return len(s.Domains) == 0 && len(s.Apps) == 0 && len(s.Paths) == 0 && s.Starts.IsZero()
}

// Reach is what the arguments of one call reach, as far as they tell.
type Reach struct {
	Hosts []string // in punycode; "" for an address without one
	Apps  []string
	Paths []string
	// Confined says that the call names no address and works in pages that are open:
	// the node confines those to the domains that the envelope names.
	Confined bool
}

// Bounds of a scope.
const (
	maxScope     = 32
	maxScopeText = 512
)

// check says what is wrong with a scope, and returns its canonical form.
func (s Scope) check() (Scope, error) {
	for name, list := range map[string][]string{"domains": s.Domains, "apps": s.Apps, "paths": s.Paths} {
		if len(list) > maxScope {
			return s, capabilities.Errorf(capabilities.CodeInvalidRequest, "scope.%s must have at most %d entries", name, maxScope)
		}
		for _, v := range list {
			if v == "" || len(v) > maxScopeText || Plain(v) != v && len(v) <= maxPlain {
				return s, capabilities.Errorf(capabilities.CodeInvalidRequest, "each of scope.%s must be plain text of 1 to %d bytes", name,
					maxScopeText)
			}
		}
	}
	out := Scope{Apps: slices.Clone(s.Apps), Starts: s.Starts}
	for _, d := range s.Domains {
		host, below := strings.CutPrefix(d, "*.")
		to := policy.ClassifyURL("https://" + host + "/")
		if to.Host == "" || strings.ContainsAny(host, `/\@?#:%*`) || below && strings.Trim(to.Host, "0123456789.") == "" {
			return s, capabilities.Errorf(capabilities.CodeInvalidRequest, "%q is no host such as example.com or *.example.com", d)
		}
		if below {
			to.Host = "*." + to.Host
		}
		out.Domains = append(out.Domains, to.Host)
	}
	for _, p := range s.Paths {
		clean, ok := cleanPath(p)
		if !ok {
			return s, capabilities.Errorf(capabilities.CodeInvalidRequest, "%q is no absolute path without '..'", p)
		}
		out.Paths = append(out.Paths, clean)
	}
	return out, nil
}

// covers reports whether a call that reaches r lies inside the scope.
func (s *Scope) covers(r *Reach, at time.Time) bool {
	if at.Before(s.Starts) {
		return false
	}
	if len(s.Domains) > 0 && !r.Confined {
		if len(r.Hosts) == 0 || slices.ContainsFunc(r.Hosts, func(h string) bool { return !s.host(h) }) {
			return false
		}
	}
	if len(s.Apps) > 0 {
		named := func(app string) bool {
			return slices.ContainsFunc(s.Apps, func(a string) bool { return strings.EqualFold(a, app) })
		}
		if len(r.Apps) == 0 || slices.ContainsFunc(r.Apps, func(a string) bool { return !named(a) }) {
			return false
		}
	}
	if len(s.Paths) > 0 {
		if len(r.Paths) == 0 || slices.ContainsFunc(r.Paths, func(p string) bool { return !s.path(p) }) {
			return false
		}
	}
	return true
}

func (s *Scope) host(h string) bool {
	return h != "" && slices.ContainsFunc(s.Domains, func(d string) bool {
		base, below := strings.CutPrefix(d, "*.")
		return h == base || below && strings.HasSuffix(h, "."+base)
	})
}

func (s *Scope) path(p string) bool {
	clean, ok := cleanPath(p)
	return ok && slices.ContainsFunc(s.Paths, func(root string) bool {
		return clean == root || strings.HasPrefix(clean, strings.TrimSuffix(root, "/")+"/")
	})
}

// cleanPath returns a device's path with slashes. Whether links lead elsewhere is
// the node's to find out; one that climbs is refused here already.
func cleanPath(p string) (string, bool) {
	p = strings.ReplaceAll(p, `\`, "/")
	if slices.Contains(strings.Split(p, "/"), "..") || strings.ContainsRune(p, 0) {
		return "", false
	}
	drive := len(p) > 2 && p[1] == ':' && p[2] == '/'
	if !strings.HasPrefix(p, "/") && !drive {
		return "", false
	}
	return path.Clean(p), true
}
