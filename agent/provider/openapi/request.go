package openapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

// Bounds of a request.
const (
	maxTarget = 16 << 10 // bytes of its address
	maxHeader = 8 << 10  // of one header's value
)

// Secret returns the value of a credential of the record, for the moment of one request.
type Secret func(a tools.Auth) (string, error)

// NewRequest makes the request of a call. args fit the tool's schema: CodeInvalidArguments names
// the one that cannot be written. secret is asked for the credentials that q has places for; nil
// for none.
func NewRequest(ctx context.Context, q *tools.Request, args json.RawMessage, secret Secret) (*http.Request, error) {
	var given map[string]any
	dec := json.NewDecoder(bytes.NewReader(args))
	dec.UseNumber()
	if err := dec.Decode(&given); err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInvalidArguments, err, "")
	}
	w := writer{path: q.Path, header: http.Header{}}
	for i := range q.Params {
		p := &q.Params[i]
		v, ok := given[p.Arg]
		if !ok || v == nil {
			if p.In == "path" {
				return nil, invalid(p.Arg, "is required")
			}
			continue
		}
		if err := w.param(p, v); err != nil {
			return nil, err
		}
	}
	body, mime, err := bodyOf(q.Body, given)
	if err != nil {
		return nil, err
	}
	if err := w.credentials(q.Auth, secret); err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(w.path, "/") { // parts may meet in dots that no part has
		if dots(part) {
			return nil, capabilities.Errorf(capabilities.CodeInvalidArguments, "dots lead to another path")
		}
	}
	target := q.Server + w.path
	if len(w.query) > 0 {
		target += "?" + strings.Join(w.query, "&")
	}
	if len(target) > maxTarget {
		return nil, capabilities.Errorf(capabilities.CodeInvalidArguments, "the address of the request would have more than %d bytes", maxTarget)
	}
	r, err := http.NewRequestWithContext(ctx, q.Method, target, body)
	if err != nil {
		return nil, capabilities.Errorf(capabilities.CodeInvalidArguments, "no address can be made of these arguments")
	}
	at, err := url.Parse(q.Server)
	// No value in a path or query moves a request elsewhere; this is the wall behind that.
	if err != nil || r.URL.Host != at.Host || r.URL.Scheme != at.Scheme || r.URL.User != nil || r.URL.Fragment != "" ||
		!strings.HasPrefix(r.URL.EscapedPath(), at.EscapedPath()) {
		return nil, capabilities.Errorf(capabilities.CodeInvalidArguments, "no address can be made of these arguments")
	}
	maps.Copy(r.Header, w.header)
	if mime != "" {
		r.Header.Set("Content-Type", mime)
	}
	if len(w.cookies) > 0 {
		r.Header.Set("Cookie", strings.Join(w.cookies, "; "))
	}
	if r.Header.Get("Accept") == "" {
		r.Header.Set("Accept", "application/json, text/plain;q=0.8, */*;q=0.5")
	}
	r.Header.Set("User-Agent", "handrail")
	return r, nil
}

func invalid(arg, format string, args ...any) error {
	return capabilities.Errorf(capabilities.CodeInvalidArguments, "%s: %s", arg, fmt.Sprintf(format, args...))
}

// writer collects the parts of a request. Those of query and cookies are encoded.
type writer struct {
	path    string
	query   []string
	cookies []string
	header  http.Header
}

func (w *writer) param(p *tools.Param, v any) error {
	text := func() (string, error) { return simple(v, p.Explode) }
	if p.JSON {
		text = func() (string, error) { return plainJSON(v) }
	}
	switch p.In {
	case "path":
		part, err := w.segment(p, v)
		if err != nil {
			return invalid(p.Arg, "%v", err)
		}
		w.path = strings.ReplaceAll(w.path, "{"+p.Name+"}", part)
		return nil
	case "query":
		pairs, err := pairsOf(p.Name, v, tools.Field{Style: p.Style, Explode: p.Explode, Reserved: p.Reserved, JSON: p.JSON})
		if err != nil {
			return invalid(p.Arg, "%v", err)
		}
		w.query = append(w.query, pairs...)
		return nil
	case "header":
		s, err := text()
		if err != nil {
			return invalid(p.Arg, "%v", err)
		}
		if !headerValue(s) {
			return invalid(p.Arg, "a header cannot hold this text")
		}
		w.header.Set(p.Name, s)
		return nil
	}
	pairs, err := pairsOf(p.Name, v, tools.Field{Style: "form", Explode: p.Explode, JSON: p.JSON})
	if err != nil {
		return invalid(p.Arg, "%v", err)
	}
	w.cookies = append(w.cookies, pairs...)
	return nil
}

// segment is a path parameter, by RFC 6570: simple is a,b; label is .a.b; matrix is ;name=a,b.
func (w *writer) segment(p *tools.Param, v any) (string, error) {
	if p.JSON {
		s, err := plainJSON(v)
		return escape(s, false), err
	}
	plain, err := simple(v, true) // what is in it, whatever stands between
	if err != nil {
		return "", err
	}
	for part := range strings.FieldsFuncSeq(plain, func(c rune) bool { return c == '/' || c == '\\' || c == ',' || c == '=' }) {
		if dots(part) {
			return "", fmt.Errorf("dots lead to another path")
		}
	}
	if plain == "" {
		return "", fmt.Errorf("is empty")
	}
	item := func(s string) string { return escape(s, false) }
	join := func(sep string) (string, error) { return joined(v, p.Explode, sep, item) }
	switch p.Style {
	case "label":
		sep := ","
		if p.Explode {
			sep = "."
		}
		s, err := join(sep)
		return "." + s, err
	case "matrix":
		if !p.Explode {
			s, err := join(",")
			return ";" + item(p.Name) + "=" + s, err
		}
		switch v := v.(type) {
		case []any:
			var b strings.Builder
			for _, one := range v {
				s, err := scalarText(one)
				if err != nil {
					return "", err
				}
				b.WriteString(";" + item(p.Name) + "=" + item(s))
			}
			return b.String(), nil
		case map[string]any:
			s, err := join(";")
			return ";" + s, err
		}
		s, err := join(",")
		return ";" + item(p.Name) + "=" + s, err
	}
	s, err := join(",")
	if dots(s) {
		return "", fmt.Errorf("dots lead to another path")
	}
	return s, err
}

// dots reports whether a part of a path is "." or "..", encoded or not.
func dots(part string) bool {
	plain, err := url.PathUnescape(part)
	return err == nil && (plain == "." || plain == "..") || part == "." || part == ".."
}

// simple is style simple without encoding: a,b; with explode a=1,b=2 for objects.
func simple(v any, explode bool) (string, error) {
	return joined(v, explode, ",", func(s string) string { return s })
}

// joined writes a value whose parts item encodes: lists by sep, objects as name,value or, with
// explode, name=value.
func joined(v any, explode bool, sep string, item func(string) string) (string, error) {
	var parts []string
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			s, err := scalarText(one)
			if err != nil {
				return "", err
			}
			parts = append(parts, item(s))
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			s, err := scalarText(v[name])
			switch {
			case err != nil:
				return "", err
			case explode:
				parts = append(parts, item(name)+"="+item(s))
			default:
				parts = append(parts, item(name), item(s))
			}
		}
	default:
		s, err := scalarText(v)
		return item(s), err
	}
	return strings.Join(parts, sep), nil
}

// pairsOf writes a parameter as parts of a query, encoded.
func pairsOf(name string, v any, f tools.Field) ([]string, error) {
	key := escape(name, false)
	item := func(s string) string { return escape(s, f.Reserved) }
	if f.JSON {
		s, err := plainJSON(v)
		return []string{key + "=" + escape(s, false)}, err
	}
	one := func(key, sep string, v any) ([]string, error) {
		s, err := joined(v, false, sep, item)
		return []string{key + "=" + s}, err
	}
	list, isList := v.([]any)
	object, isObject := v.(map[string]any)
	if isList && len(list) == 0 || isObject && len(object) == 0 {
		return nil, nil
	}
	switch {
	case f.Style == "deepObject" && isObject:
		return deep(key, object, item, 0)
	case f.Style == "deepObject" && isList: // as those who invented the style write them
		return deep(key, map[string]any{"": list}, item, 0)
	case f.Style == "spaceDelimited" && !f.Explode:
		return one(key, "%20", v)
	case f.Style == "pipeDelimited" && !f.Explode:
		return one(key, "%7C", v)
	case f.Explode && isList:
		pairs := make([]string, 0, len(list))
		for _, v := range list {
			s, err := scalarText(v)
			if err != nil {
				return nil, err
			}
			pairs = append(pairs, key+"="+item(s))
		}
		return pairs, nil
	case f.Explode && isObject:
		pairs := make([]string, 0, len(object))
		for _, name := range slices.Sorted(maps.Keys(object)) {
			s, err := scalarText(object[name])
			if err != nil {
				return nil, err
			}
			pairs = append(pairs, escape(name, false)+"="+item(s))
		}
		return pairs, nil
	}
	return one(key, ",", v)
}

// deep writes name[key]=value, and name[key][] for lists inside.
func deep(key string, m map[string]any, item func(string) string, depth int) ([]string, error) {
	if depth > 8 {
		return nil, fmt.Errorf("is nested too deep")
	}
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		at := key + "%5B" + escape(name, false) + "%5D"
		switch v := m[name].(type) {
		case map[string]any:
			more, err := deep(at, v, item, depth+1)
			if err != nil {
				return nil, err
			}
			pairs = append(pairs, more...)
		case []any:
			if name != "" {
				at += "%5B%5D"
			}
			for _, one := range v {
				s, err := scalarText(one)
				if err != nil {
					return nil, err
				}
				pairs = append(pairs, at+"="+item(s))
			}
		default:
			s, err := scalarText(v)
			if err != nil {
				return nil, err
			}
			pairs = append(pairs, at+"="+item(s))
		}
	}
	return pairs, nil
}

// scalarText writes one value. One that is nested deeper than a style has is written as JSON.
func scalarText(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case json.Number:
		return number(v), nil
	}
	return plainJSON(v)
}

// number writes 3.0 as 3, and 1e3 as 1000.
func number(n json.Number) string {
	if f, err := n.Float64(); err == nil {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return n.String()
}

func plainJSON(v any) (string, error) {
	data, err := canonical.Marshal(v)
	return string(data), err
}

const unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"

// escape encodes all but unreserved characters (RFC 3986 2.3) or, with reserved, those that a query
// can have besides: "&", "=", "+" and "#" never stay, so that a value remains one.
func escape(s string, reserved bool) string {
	stays := unreserved
	if reserved {
		stays += ":/?[]@!$'()*,;"
	}
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; strings.IndexByte(stays, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// headerValue reports whether a header can hold a text as it is.
func headerValue(s string) bool {
	return len(s) <= maxHeader && strings.TrimSpace(s) == s && !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c > '~' })
}

// bodyOf writes the body; no kind: there is none.
func bodyOf(b *tools.Body, given map[string]any) (io.Reader, string, error) {
	if b == nil {
		return nil, "", nil
	}
	v, ok := given[tools.ArgBody]
	if !ok {
		return nil, "", nil
	}
	switch {
	case isJSON(b.MIME):
		s, err := plainJSON(v)
		if err != nil {
			return nil, "", invalid(tools.ArgBody, "cannot be written as JSON")
		}
		return strings.NewReader(s), b.MIME, nil
	case strings.HasPrefix(strings.ToLower(b.MIME), mimeForm):
		m, ok := v.(map[string]any)
		if !ok {
			return nil, "", invalid(tools.ArgBody, "a form is an object")
		}
		var pairs []string
		for _, name := range slices.Sorted(maps.Keys(m)) {
			f, said := b.Fields[name]
			if _, isObject := m[name].(map[string]any); !said {
				f = tools.Field{Style: "form", Explode: true, JSON: isObject}
			}
			if f.Style == "" {
				f.Style = "form"
			}
			more, err := pairsOf(name, m[name], f)
			if err != nil {
				return nil, "", invalid(tools.ArgBody+"."+name, "%v", err)
			}
			pairs = append(pairs, more...)
		}
		return strings.NewReader(strings.Join(pairs, "&")), mimeForm, nil
	}
	s, err := scalarText(v)
	return strings.NewReader(s), b.MIME, err
}

// credentials puts each where it goes. No value of one is in an error.
func (w *writer) credentials(places []tools.Auth, secret Secret) error {
	if secret == nil {
		return nil
	}
	for _, a := range places {
		value, err := secret(a)
		if err != nil {
			return err
		}
		switch a.Scheme {
		case "bearer":
			value = "Bearer " + value
		case "basic":
			value = "Basic " + base64.StdEncoding.EncodeToString([]byte(value))
		}
		switch a.In {
		case "query":
			w.query = append(w.query, escape(a.Key, false)+"="+escape(value, false))
		case "cookie":
			w.cookies = append(w.cookies, a.Key+"="+escape(value, false))
		default:
			if !headerValue(value) {
				return capabilities.Errorf(capabilities.CodeSecretUnavailable, "the secret of %s holds what a header cannot", a.Name)
			}
			w.header.Set(a.Key, value)
		}
	}
	return nil
}
