package rest

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/api"
)

// anything is a schema that everything fits. With a description it is an object;
// without, it would be written as true, which generators of the 3.0 kind refuse.
var anything = &jsonschema.Schema{Description: "Any JSON value."}

// The schema of types whose JSON is not what their Go form suggests.
var schemas = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[json.RawMessage](): anything,
	reflect.TypeFor[any]():             anything,
	reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
	reflect.TypeFor[chain.Hash]():      {Type: "string"},
	reflect.TypeFor[chain.Key]():       {Type: "string"},
	reflect.TypeFor[chain.Sig]():       {Type: "string"},
	reflect.TypeFor[policy.Effect]():   {Type: "string", Enum: []any{"allow", "ask", "deny"}},
}

// schemaOf describes a body. Answers may grow, so they are left open; requests
// are closed, as decode closes them.
func schemaOf(t reflect.Type) (*jsonschema.Schema, error) {
	return jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: schemas})
}

// opened removes "no other properties" everywhere.
func opened(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Not != nil {
		s.AdditionalProperties = nil
	}
	for _, p := range s.Properties {
		opened(p)
	}
	opened(s.Items)
	opened(s.AdditionalProperties)
}

var pathParam = regexp.MustCompile(`\{([a-z_]+)\}`)

type object = map[string]any

// document makes the OpenAPI 3.1 document from the route table.
func (s *Server) document() []byte {
	paths := object{}
	for _, e := range s.routes {
		item, ok := paths[e.path].(object)
		if !ok {
			item = object{}
			paths[e.path] = item
		}
		item[strings.ToLower(e.method)] = operation(e)
	}
	doc := object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Handrail gateway", "version": s.opts.Site().Version,
			"description": "Everything the command line and the console do. Errors have one form; the codes are a closed list.",
			"license":     object{"name": "Apache 2.0", "identifier": "Apache-2.0"},
		},
		"servers":  []object{{"url": s.opts.Site().BaseURL}},
		"paths":    paths,
		"security": []object{{"token": []string{}}},
		"components": object{
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}},
			"schemas": object{"Error": object{
				"type": "object", "required": []string{"error"},
				"properties": object{"error": mustSchema(reflect.TypeFor[api.Error](), true)},
			}},
			"responses": object{"Error": object{
				"description": "An error: its cause, with a hint what to do. Codes: " + strings.Join(codes(), ", ") + ".",
				"content":     object{"application/json": object{"schema": object{"$ref": "#/components/schemas/Error"}}},
			}},
		},
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return []byte(`{}`) // the tests make sure that it is not
	}
	return text
}

func operation(e *endpoint) object {
	op := object{
		"operationId": e.id(),
		"summary":     e.summary,
		"responses": object{
			"200":     object{"description": "Done.", "content": object{e.contentType(): content(e.out)}},
			"4XX":     object{"$ref": "#/components/responses/Error"},
			"default": object{"$ref": "#/components/responses/Error"},
		},
	}
	if e.action == "" {
		op["security"] = []object{}
	} else {
		op["x-handrail-action"] = string(e.action)
	}
	var params []object
	for _, m := range pathParam.FindAllStringSubmatch(e.path, -1) {
		params = append(params, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for _, p := range e.query {
		params = append(params, object{"name": p.name, "in": "query", "description": p.about, "schema": object{"type": p.kind}})
	}
	if len(params) > 0 {
		op["parameters"] = params
	}
	if e.in != nil {
		op["requestBody"] = object{"content": object{"application/json": object{"schema": mustSchema(e.in, false)}}}
	}
	return op
}

// id names an operation for generators, from its method and path:
// "POST /v1/nodes/{node}/approve" is postNodesByNodeApprove.
func (e *endpoint) id() string {
	var b strings.Builder
	b.WriteString(strings.ToLower(e.method))
	for part := range strings.SplitSeq(strings.TrimPrefix(e.path, "/v1"), "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			part = "by" + strings.ToUpper(name[:1]) + strings.TrimSuffix(name[1:], "}")
		}
		part, _, _ = strings.Cut(part, ".") // openapi.json
		if part != "" {
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}

func (e *endpoint) contentType() string {
	if e.media == "" {
		return "application/json"
	}
	return e.media
}

func content(t reflect.Type) object {
	if t == nil {
		return object{}
	}
	return object{"schema": mustSchema(t, true)}
}

func mustSchema(t reflect.Type, open bool) *jsonschema.Schema {
	s, err := schemaOf(t)
	if err != nil { // a type of this package: the tests look at every one
		panic(err)
	}
	if open {
		opened(s)
	}
	return s
}

func codes() []string {
	all := make(map[string]bool)
	for _, c := range capabilities.Codes() {
		all[string(c)] = true
	}
	return slices.Sorted(maps.Keys(all))
}

func (s *Server) serveDocument(c *visit) error {
	c.began = true
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(http.StatusOK)
	_, _ = c.w.Write(s.openAPI())
	return nil
}
