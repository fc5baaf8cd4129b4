package openapi

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// document is a tree that is an OpenAPI document.
type document struct {
	root map[string]any
	at   *url.URL // where it was read; nil for a file
	work int      // steps that its schemas may still take
}

// maxWork bounds the steps that all schemas of a document take. One that many operations refer to
// is read for each of them.
const maxWork = 10_000_000

// spend takes steps, and reports whether there were as many.
func (d *document) spend(steps int) bool {
	d.work -= steps
	return d.work >= 0
}

var version = regexp.MustCompile(`^3\.[01](\.[0-9]+)?$`)

func read(data []byte, at *url.URL) (*document, error) {
	root, err := tree(data)
	if err != nil {
		return nil, err
	}
	switch v, _ := root["openapi"].(string); {
	case root["swagger"] != nil:
		return nil, bad("it is one of Swagger 2.0, which is not read; a converter makes OpenAPI 3 of it")
	case !version.MatchString(v):
		return nil, bad("openapi: 3.0 or 3.1, not %.32q", v)
	case mapOf(root["paths"]) == nil:
		return nil, bad("it has no paths")
	}
	return &document{root: root, at: at, work: maxWork}, nil
}

// problem is why something of a document cannot be used. It holds no word of the document that
// is not quoted.
type problem string

func (p problem) Error() string { return string(p) }

// resolved follows references of an object until there is none.
func (d *document) resolved(v any) (map[string]any, error) {
	for range maxRefs {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, problem("something of it is no object")
		}
		ref, ok := m["$ref"].(string)
		if !ok {
			return m, nil
		}
		if !strings.HasPrefix(ref, "#/") {
			return nil, problem("it refers to another document, which is not read")
		}
		if v = d.pointer(ref); v == nil {
			return nil, problem("it refers to what is not there")
		}
	}
	return nil, problem("its references lead in a circle")
}

var unescaped = strings.NewReplacer("~1", "/", "~0", "~")

// steps are the keys of a reference inside the document; nil for any other reference.
func steps(ref string) []string {
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok || len(ref) > 1024 {
		return nil
	}
	keys := strings.Split(path, "/")
	for i, key := range keys {
		if plain, err := url.PathUnescape(key); err == nil {
			key = plain
		}
		keys[i] = unescaped.Replace(key)
	}
	return keys
}

// pointer is what a reference inside the document leads to; nil for nothing.
func (d *document) pointer(ref string) any {
	keys := steps(ref)
	if keys == nil {
		return nil
	}
	var at any = d.root
	for _, key := range keys {
		at = mapOf(at)[key]
	}
	return at
}

// server is the base address of requests, from the first list of servers that there is.
func (d *document) server(lists ...any) (string, error) {
	raw := "/" // the document's own host, by the specification
	for _, list := range lists {
		if all, ok := list.([]any); ok && len(all) > 0 {
			one := mapOf(all[0])
			text, ok := one["url"].(string)
			if !ok || text == "" {
				return "", problem("its server has no url")
			}
			raw = text
			break
		}
	}
	if strings.ContainsAny(raw, "{}") {
		return "", problem("its server's address has variables, and the provider names no server")
	}
	at, err := url.Parse(raw)
	if err != nil || len(raw) > 2048 || capabilities.Printable(raw) != raw {
		return "", problem("its server's address cannot be read, and the provider names no other")
	}
	if !at.IsAbs() {
		if d.at == nil {
			return "", problem("its server's address is relative, the document comes from a file, and the provider names no server")
		}
		at = d.at.ResolveReference(at)
	}
	return base(at)
}

// base is an address in one spelling, without a slash at its end.
func base(at *url.URL) (string, error) {
	switch {
	case at.Scheme != "http" && at.Scheme != "https":
		return "", problem("its server's address is neither http nor https")
	case at.Hostname() == "" || at.User != nil || at.Opaque != "":
		return "", problem("its server's address names no host, or a user")
	case at.RawQuery != "" || at.Fragment != "":
		return "", problem("its server's address has a query or fragment")
	}
	path := at.EscapedPath()
	for segment := range strings.SplitSeq(path, "/") {
		if dots(segment) {
			return "", problem("its server's address has dots for a path")
		}
	}
	return strings.ToLower(at.Scheme) + "://" + strings.ToLower(at.Host) + strings.TrimRight(path, "/"), nil
}

// originOf is a web address's scheme, host and port in one spelling.
func originOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[strings.ToLower(u.Scheme)]
	}
	return strings.ToLower(u.Scheme + "://" + strings.TrimSuffix(u.Hostname(), ".") + ":" + port)
}

func mapOf(v any) map[string]any { m, _ := v.(map[string]any); return m }

func listOf(v any) []any { l, _ := v.([]any); return l }

func textOf(v any) string { s, _ := v.(string); return s }

func boolOf(v any) bool { b, _ := v.(bool); return b }
