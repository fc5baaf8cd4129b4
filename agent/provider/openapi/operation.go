package openapi

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

const (
	maxParams   = 64      // of one operation
	maxManifest = 5 << 20 // bytes of all tools together
	maxNamed    = 20      // tags that an error names
)

// methods are those that become tools: TRACE echoes credentials, and CONNECT is for proxies.
var methods = []string{"delete", "get", "head", "options", "patch", "post", "put"}

// Manifest reads a document and returns what it says of the tools that p wants. at is where the
// document was read, nil for a file. CodeInvalidRequest says what is wrong with the document,
// CodeResultTooLarge that it has more operations than a provider has tools.
func Manifest(p *tools.Provider, data []byte, at *url.URL) (*tools.ToolManifest, error) {
	d, err := read(data, at)
	if err != nil {
		return nil, err
	}
	m := &tools.ToolManifest{
		Provider: p.Name, Version: capabilities.Clip(capabilities.Printable(textOf(mapOf(d.root["info"])["version"])), 64),
	}
	r := &reader{document: d, record: p, origin: tools.OriginOf(p, nil), tags: map[string]bool{}, size: 0}
	if err := r.check(); err != nil {
		return nil, err
	}
	if r.home, err = r.homeOf(); err != nil {
		return nil, err
	}
	paths := mapOf(d.root["paths"])
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if err := r.path(m, path, paths[path]); err != nil {
			return nil, err
		}
	}
	switch {
	case len(m.Tools) > 0 && !slices.ContainsFunc(m.Tools, func(t tools.RemoteTool) bool { return t.Unusable == "" }):
		return nil, bad("none of its operations can be called: %s: %s", m.Tools[0].Name, m.Tools[0].Unusable)
	case len(m.Tools) > 0:
	case len(p.Only) > 0 && r.seen > 0:
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the document has no operation or tag that is wanted").
			WithAction(capabilities.Action{Key: capabilities.ActionAddProvider, Name: p.Name}, r.hint())
	default:
		return nil, bad("it has no operations")
	}
	return m, nil
}

// reader makes tools of one document.
type reader struct {
	*document
	record *tools.Provider
	origin string
	home   string // the origin that credentials go to; "" for none
	tags   map[string]bool
	seen   int
	size   int
}

// homeOf is the origin of the server that the record or else the document names for all
// operations: the only one that gets credentials.
func (r *reader) homeOf() (string, error) {
	at := r.record.Server
	if at == "" {
		var err error
		if at, err = r.server(r.root["servers"]); err != nil {
			return "", nil // each operation says so itself
		}
	}
	u, err := url.Parse(at)
	if err != nil {
		return "", bad("its server's address cannot be read")
	}
	return originOf(u), nil
}

func (r *reader) hint() string {
	names := slices.Sorted(maps.Keys(r.tags))
	if len(names) > maxNamed {
		names = append(names[:maxNamed], "…")
	}
	return "Its tags: " + capabilities.Clip(capabilities.Printable(strings.Join(names, ", ")), 500)
}

func (r *reader) path(m *tools.ToolManifest, path string, v any) error {
	item, err := r.resolved(v)
	if err != nil || !strings.HasPrefix(path, "/") {
		return nil // an extension, or a path that is described elsewhere
	}
	for _, method := range methods {
		op := mapOf(item[method])
		if op == nil {
			continue
		}
		r.seen++
		t := r.named(method, path, op)
		if len(r.record.Only) > 0 { // before the work, and before there are too many
			if !r.record.Wants(&t) {
				continue
			}
		}
		if err := r.fill(&t, item, op); err != nil {
			t.Request, t.Input, t.Unusable = nil, nil, err.Error()
		}
		if r.work < 0 {
			return capabilities.Errorf(capabilities.CodeResultTooLarge, "the schemas of the document are too large together").
				WithAction(capabilities.Action{Key: capabilities.ActionAddProvider, Name: r.record.Name},
					"Name the tags or operations that are wanted. "+r.hint())
		}
		if len(m.Tools) == tools.MaxTools {
			return capabilities.Errorf(capabilities.CodeResultTooLarge,
				"the document has more than %d operations, which is what one provider may have as tools", tools.MaxTools).
				WithAction(capabilities.Action{Key: capabilities.ActionAddProvider, Name: r.record.Name},
					"Name the tags or operations that are wanted. "+r.hint())
		}
		data, err := canonical.Marshal(t)
		if err != nil {
			return bad("%s %.200q cannot be written down", strings.ToUpper(method), path)
		}
		if len(data) > tools.MaxToolBytes {
			t.Request, t.Input, t.Unusable = nil, nil, fmt.Sprintf("its description has more than %d bytes", tools.MaxToolBytes)
			t.Title, t.Description = "", ""
		} else {
			r.size += len(data)
		}
		if r.size > maxManifest {
			return capabilities.Errorf(capabilities.CodeResultTooLarge, "the tools of the document have more than %d bytes together", maxManifest).
				WithAction(capabilities.Action{Key: capabilities.ActionAddProvider, Name: r.record.Name},
					"Name the tags or operations that are wanted. "+r.hint())
		}
		m.Tools = append(m.Tools, t)
	}
	return nil
}

// named is an operation as --only sees it.
func (r *reader) named(method, path string, op map[string]any) tools.RemoteTool {
	t := tools.RemoteTool{
		Name: textOf(op["operationId"]), Title: textOf(op["summary"]), Description: textOf(op["description"]),
		Request: &tools.Request{Method: strings.ToUpper(method), Path: path}, Origin: r.origin,
	}
	if t.Name == "" {
		t.Name = method + " " + path
	}
	t.Name = capabilities.Clip(t.Name, 256)
	t.Description = capabilities.Clip(t.Description, 4096)
	t.Title = capabilities.Clip(t.Title, 256)
	if t.Description == "" {
		t.Description = t.Title
	}
	for _, tag := range listOf(op["tags"]) {
		if text := textOf(tag); text != "" && len(text) <= 64 && len(t.Tags) < 8 {
			t.Tags = append(t.Tags, text)
			if len(r.tags) < 1000 {
				r.tags[text] = true
			}
		}
	}
	yes, no := true, false
	switch method {
	case "get", "head", "options":
		t.ReadOnly, t.Destructive, t.Idempotent = &yes, &no, &yes
	case "put":
		t.ReadOnly, t.Idempotent = &no, &yes
	case "delete":
		t.ReadOnly, t.Destructive, t.Idempotent = &no, &yes, &yes
	default:
		t.ReadOnly = &no
	}
	if boolOf(op["deprecated"]) {
		t.Description = "Deprecated. " + t.Description
	}
	return t
}

// fill completes a tool: its request, its arguments, its credentials.
func (r *reader) fill(t *tools.RemoteTool, item, op map[string]any) (err error) {
	q := t.Request
	if q.Server = r.record.Server; q.Server == "" {
		q.Server, err = r.server(op["servers"], item["servers"], r.root["servers"])
	} else {
		var u *url.URL
		if u, err = url.Parse(q.Server); err == nil {
			q.Server, err = base(u)
		}
	}
	if err != nil {
		return err
	}
	args := newArguments(r.document)
	if err := r.params(q, args, item, op); err != nil {
		return err
	}
	if err := r.body(q, args, op); err != nil {
		return err
	}
	if err := r.auth(q, op); err != nil {
		return err
	}
	q.Params = slices.DeleteFunc(q.Params, func(p tools.Param) bool { // no caller writes what a credential does
		taken := slices.ContainsFunc(q.Auth, func(a tools.Auth) bool { return a.In == p.In && strings.EqualFold(a.Key, p.Name) })
		if taken {
			args.drop(p.Arg)
		}
		return taken
	})
	t.Input, err = args.schema()
	t.Runs = q.Line()
	return err
}

var templated = regexp.MustCompile(`\{([^{}]*)\}`)

// params takes over the parameters of an operation, and those of its path that it does not
// replace.
func (r *reader) params(q *tools.Request, args *arguments, item, op map[string]any) error {
	type place struct{ in, name string }
	var order []place
	found := map[place]map[string]any{}
	for _, list := range []any{item["parameters"], op["parameters"]} {
		for _, v := range listOf(list) {
			m, err := r.resolved(v)
			if err != nil {
				return err
			}
			at := place{textOf(m["in"]), textOf(m["name"])}
			if found[at] == nil {
				order = append(order, at)
			}
			found[at] = m
		}
		if len(order) > maxParams {
			return problem(fmt.Sprintf("it has more than %d parameters", maxParams))
		}
	}
	for _, at := range order {
		m := found[at]
		p := tools.Param{
			Name: at.name, In: at.in, Required: boolOf(m["required"]) || at.in == "path", Reserved: at.in == "query" && boolOf(m["allowReserved"]),
		}
		if at.name == "" || len(at.name) > 128 || capabilities.Printable(at.name) != at.name {
			return problem("a parameter has no name, or none that can be shown")
		}
		if at.in == "header" && !tools.HeaderAllowed(at.name) ||
			at.in == "header" && (strings.EqualFold(at.name, "accept") || strings.EqualFold(at.name, "authorization")) {
			continue // by the specification these are said elsewhere, and others are the client's own
		}
		if err := style(&p, m); err != nil {
			return err
		}
		schema := m["schema"]
		if content := mapOf(m["content"]); len(content) > 0 {
			media := slices.Sorted(maps.Keys(content))[0]
			if !isJSON(media) && media != "text/plain" {
				return problem(fmt.Sprintf("the parameter %.64q is %.64q, which is not written", at.name, media))
			}
			p.JSON = isJSON(media)
			schema = mapOf(content[media])["schema"]
		}
		p.Arg = args.name(at.name, at.in)
		args.add(p.Arg, schema, textOf(m["description"]), p.Required)
		q.Params = append(q.Params, p)
	}
	for _, m := range templated.FindAllStringSubmatch(q.Path, -1) {
		if found[place{"path", m[1]}] == nil {
			return problem(fmt.Sprintf("its path has {%.64s}, which no parameter is", capabilities.Printable(m[1])))
		}
	}
	fixed := templated.ReplaceAllString(q.Path, "x")
	if u, err := url.Parse(fixed); err != nil || u.RawQuery != "" || u.Fragment != "" || u.Host != "" || strings.ContainsAny(fixed, "{}\\") ||
		capabilities.Printable(q.Path) != q.Path || len(q.Path) > 1024 {
		return problem("its path is none that can be requested")
	}
	for segment := range strings.SplitSeq(fixed, "/") {
		if dots(segment) {
			return problem("its path has dots for a part")
		}
	}
	return nil
}

// styles are those of each place, the default first.
var styles = map[string][]string{
	"path": {"simple", "label", "matrix"}, "query": {"form", "spaceDelimited", "pipeDelimited", "deepObject"}, "header": {"simple"},
	"cookie": {"form"},
}

func style(p *tools.Param, m map[string]any) error {
	all := styles[p.In]
	if all == nil {
		return problem(fmt.Sprintf("the parameter %.64q stands neither in path, query, header nor cookie", p.Name))
	}
	p.Style = all[0]
	if s := textOf(m["style"]); s != "" {
		if !slices.Contains(all, s) {
			return problem(fmt.Sprintf("the parameter %.64q has a style that a %s parameter has not", p.Name, p.In))
		}
		p.Style = s
	}
	p.Explode = p.Style == "form"
	if v, ok := m["explode"].(bool); ok {
		p.Explode = v
	}
	return nil
}

func isJSON(media string) bool {
	media, _, _ = strings.Cut(strings.ToLower(media), ";")
	media = strings.TrimSpace(media)
	return media == "application/json" || strings.HasSuffix(media, "+json")
}

const (
	mimeForm = "application/x-www-form-urlencoded"
	mimeText = "text/plain"
)

// body takes over the body of an operation, as the first kind that can be written: JSON, a form,
// text.
func (r *reader) body(q *tools.Request, args *arguments, op map[string]any) error {
	if op["requestBody"] == nil {
		return nil
	}
	m, err := r.resolved(op["requestBody"])
	if err != nil {
		return err
	}
	content := mapOf(m["content"])
	kinds := slices.Sorted(maps.Keys(content))
	find := func(ok func(string) bool) string {
		if i := slices.IndexFunc(kinds, ok); i >= 0 {
			return kinds[i]
		}
		return ""
	}
	plain := func(kind string) func(string) bool {
		return func(media string) bool { return strings.HasPrefix(strings.ToLower(media), kind) }
	}
	media := ""
	for _, ok := range []func(string) bool{plain("application/json"), isJSON, plain(mimeForm), plain(mimeText)} {
		if media == "" {
			media = find(ok)
		}
	}
	if media == "" && find(func(m string) bool { return m == "*/*" || m == "application/*" }) != "" {
		media = find(func(m string) bool { return m == "*/*" || m == "application/*" })
	}
	required := boolOf(m["required"])
	switch {
	case media == "" && !required:
		return nil
	case media == "":
		return problem(fmt.Sprintf("its body is %.128q: JSON, forms and text are sent", strings.Join(kinds[:min(len(kinds), 4)], ", ")))
	case len(media) > 128 || capabilities.Printable(media) != media:
		return problem("its body is of a kind that cannot be named")
	}
	kind := mapOf(content[media])
	q.Body = &tools.Body{MIME: media, Required: required}
	if strings.HasSuffix(media, "/*") {
		q.Body.MIME = "application/json"
	}
	args.add(tools.ArgBody, kind["schema"], textOf(m["description"]), required)
	if !plain(mimeForm)(media) {
		return nil
	}
	encoding := mapOf(kind["encoding"])
	for _, name := range slices.Sorted(maps.Keys(encoding)) {
		e := mapOf(encoding[name])
		if len(q.Body.Fields) >= maxParams || len(name) > 128 {
			return problem("its form has too many fields of their own style")
		}
		f := tools.Field{
			Style: textOf(e["style"]), Reserved: boolOf(e["allowReserved"]), JSON: isJSON(textOf(e["contentType"])) && e["style"] == nil,
		}
		if f.Style != "" && !slices.Contains(styles["query"], f.Style) {
			return problem("its form has a field of a style that a form has not")
		}
		f.Explode = f.Style == "" || f.Style == "form"
		if v, ok := e["explode"].(bool); ok {
			f.Explode = v
		}
		if q.Body.Fields == nil {
			q.Body.Fields = map[string]tools.Field{}
		}
		q.Body.Fields[name] = f
	}
	return nil
}
