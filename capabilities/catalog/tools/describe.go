package tools

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// Bounds of what a descriptor of a provider's tool says.
const (
	maxTitle       = 60
	maxDescription = 1024
	defaultTimeout = 60_000
	mostTimeout    = 600_000
	mostResult     = 1 << 20
	mostBlobs      = 16 << 20
)

// Described is one tool of a provider, ready for a registry.
type Described struct {
	*catalog.Descriptor
	Upstream string   // what the provider calls it
	Plan     []string // the steps of a macro
	Runs     []string // the words of a command, as its template has them; a request's method and address
	Request  *Request // of an HTTP API
	Hash     string   // of the provider's own words
	Flags    []Flag   // what a person should look at
}

// Refused is a tool that cannot be taken, and why.
type Refused struct {
	Upstream string `json:"upstream"`
	Reason   string `json:"reason"`
}

// MaxTried bounds the list of what a provider tried.
const MaxTried = 64

// Tried is a host that a provider wanted to connect to, and was not let.
type Tried struct {
	Target string `json:"target"` // "host:port"
	Why    string `json:"why"`
	Flag   string `json:"flag,omitempty"` // what allows it, such as "--net example.com"
	Count  int    `json:"count"`
}

// Describe makes descriptors of what a provider offers. The tools that cannot be taken are in
// refused; two whose names meet are both refused, and the rest is taken.
func Describe(p *Provider, m *ToolManifest) (list []Described, refused []Refused) {
	no := func(t *RemoteTool, format string, args ...any) {
		refused = append(refused, Refused{Upstream: capabilities.Clip(capabilities.Printable(t.Name), 256), Reason: fmt.Sprintf(format, args...)})
	}
	ids := map[capabilities.ToolID][]string{}
	for i := range m.Tools {
		if i < MaxTools {
			id := p.toolID(m.Tools[i].Name)
			ids[id] = append(ids[id], m.Tools[i].Name)
		}
	}
	for i := range m.Tools {
		t := &m.Tools[i]
		switch others := ids[p.toolID(t.Name)]; {
		case i >= MaxTools:
			no(t, "a provider has at most %d tools", MaxTools)
			continue
		case len(others) > 1:
			no(t, "its ID would be %s, as that of %s", p.toolID(t.Name), quoted(others))
			continue
		case !p.Wants(t):
			continue
		}
		d, err := describe(p, t)
		if err != nil {
			no(t, "%v", err)
			continue
		}
		list = append(list, *d)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Tool < list[j].Tool })
	return list, refused
}

func quoted(names []string) string {
	var out []string
	for _, n := range names[:min(len(names), 4)] {
		out = append(out, fmt.Sprintf("%.64q", n))
	}
	return strings.Join(out, " and ")
}

func describe(p *Provider, t *RemoteTool) (*Described, error) {
	switch {
	case t.Name == "" || len(t.Name) > 256:
		return nil, fmt.Errorf("a name has 1 to 256 bytes")
	case t.Unusable != "":
		return nil, fmt.Errorf("%s", capabilities.Clip(capabilities.Printable(t.Unusable), 500))
	}
	hash := t.Hash()
	if hash == "" {
		return nil, fmt.Errorf("its schema is no JSON, or has more than %d bytes", MaxToolBytes)
	}
	schema, err := readSchema(t.Input)
	if err != nil {
		return nil, err
	}
	flags := schemaFlags(schema)
	input, lostInput, err := safeSchema(schema)
	if err != nil {
		return nil, err
	}
	result, err := resultSchema(t)
	if err != nil {
		return nil, err
	}
	id := p.toolID(t.Name)
	title, titled := clean(t.Title, maxTitle)
	description, described := clean(t.Description, maxDescription)
	if title == "" {
		title, _ = clean(t.Name, maxTitle)
	}
	if description == "" {
		description = title
	}
	flags = append(append(flags, titled...), described...)
	if lostInput {
		flags = append(flags, FlagSchema)
	}
	d := &catalog.Descriptor{
		Capability: capabilities.CapabilityID("tyrum" + strings.TrimPrefix(string(id), "tool")), Tool: id,
		Title: title, Description: description, Version: "1.0.0", Tags: tags(p, t), ModelFacing: true,
		Nature: catalog.NatureTool, Layer: p.Kind.Layer(), Provider: p.Name,
		Input: input, Result: result, Manifest: manifest(p, t),
		Routing: catalog.Routing{Target: catalog.TargetNode, Implicit: []capabilities.SelectionMode{capabilities.SelectHost}},
		Limits:  catalog.Limits{TimeoutMS: timeout(t), MaxTimeoutMS: mostTimeout, MaxResultBytes: mostResult, MaxBlobBytes: mostBlobs},
	}
	d.Elicits = p.Kind == KindMCP
	if p.Kind.Composed() {
		d.Capability, d.Routing = "", catalog.Routing{Target: catalog.TargetGateway}
		for _, use := range t.Uses {
			d.Steps = append(d.Steps, string(use))
		}
	}
	if slices.Contains(d.Manifest.Keys(), capabilities.KeyRetained) {
		d.Limits.MaxArtifactBytes = mostBlobs
	}
	for _, key := range t.OptionalKeys {
		if slices.Contains(d.Manifest.Keys(), key) {
			d.Optional = append(d.Optional, key)
		}
	}
	if Plumbing(p.Name) {
		d.Nature = catalog.NaturePlumbing
	}
	if t.ReadOnly != nil && *t.ReadOnly && t.Destructive != nil && *t.Destructive {
		flags = append(flags, FlagContradicts)
	}
	slices.Sort(flags)
	flags = slices.Compact(flags)
	d.Defaults = catalog.Defaults{Isolation: isolation(d.Manifest)}
	effects(d, t)
	if err := catalog.SettleOwn(d); err != nil {
		return nil, err
	}
	return &Described{Descriptor: d, Upstream: t.Name, Runs: t.Runs, Plan: t.Plan, Request: t.Request, Hash: hash, Flags: flags}, nil
}

// effects says what a tool leaves behind. A hint that it only reads is taken for the words
// that people and clients see; what it may do is the business of policy.
func effects(d *catalog.Descriptor, t *RemoteTool) {
	yes := func(b *bool) bool { return b != nil && *b }
	reads := yes(t.ReadOnly)
	d.SideEffects, d.Idempotency, d.Consent = catalog.EffectsLocal, catalog.Idempotency{Mode: catalog.IdempotencyGuard}, catalog.ConsentLease
	if len(d.Manifest.Network) > 0 {
		d.SideEffects = catalog.EffectsExternal
	}
	if reads {
		d.SideEffects, d.Idempotency = catalog.EffectsNone, catalog.Idempotency{Mode: catalog.IdempotencyNone}
	}
	d.Annotations = catalog.Annotations{
		ReadOnly: reads, Destructive: !reads && (t.Destructive == nil || *t.Destructive), Idempotent: yes(t.Idempotent),
		OpenWorld: t.OpenWorld == nil || *t.OpenWorld,
	}
}

func timeout(t *RemoteTool) int {
	if t.TimeoutMS > 0 {
		return min(t.TimeoutMS, mostTimeout)
	}
	return defaultTimeout
}

var tagForm = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

func tags(p *Provider, t *RemoteTool) []string {
	list := []string{p.Name}
	for _, tag := range t.Tags {
		if s := segment(tag); tagForm.MatchString(s) && !slices.Contains(list, s) && len(list) < 16 {
			list = append(list, s)
		}
	}
	return list
}

// Declared are the capability keys of a tool: those of its provider, and its own.
func Declared(p *Provider, t *RemoteTool) []string {
	keys := append(p.Keys(), t.Keys...)
	if t.Alone {
		keys = slices.DeleteFunc(keys, func(k string) bool { return k == capabilities.KeySpawn })
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Isolation is the least class that a tool of a provider runs in, by its keys.
func Isolation(p *Provider, t *RemoteTool) capabilities.IsolationClass {
	return isolation(manifest(p, t))
}

// manifest sorts the keys of a tool into their categories. A key of no category is none: what
// a provider declares can only add to what its record says.
func manifest(p *Provider, t *RemoteTool) catalog.Categories {
	var c catalog.Categories
	by := map[string]*[]string{"execution": &c.Execution, "ui": &c.UI, "data": &c.Data, "network": &c.Network, "privileged": &c.Privileged}
	for _, key := range Declared(p, t) {
		name, rest, _ := strings.Cut(key, ".")
		if list := by[name]; list != nil && rest != "" && !slices.Contains(*list, rest) {
			*list = append(*list, rest)
		}
	}
	for _, list := range by {
		slices.Sort(*list)
	}
	return c
}

// isolation is the derived minimum (S1-35); package policy derives it again and has the say.
func isolation(c catalog.Categories) capabilities.IsolationClass {
	switch {
	case len(c.Privileged) > 0:
		return capabilities.ClassT3
	case len(c.Network) > 0:
		return capabilities.ClassT2
	case len(c.Data) > 0, slices.Contains(c.Execution, "proc.spawn"):
		return capabilities.ClassT1
	}
	return capabilities.ClassT0
}

// Fields of a result that has no schema of its own, and of pictures beside any.
const (
	FieldText  = "text"        // what the provider said in words
	FieldData  = "data"        // a structured result
	FieldLinks = "links"       // resources that it points at
	FieldBytes = "bytesBase64" // of a picture or sound, which travels as bytes
	// FieldStatus is the status of an HTTP API's answer, and of no other provider's.
	FieldStatus = "status"
)

// usualResult is the schema of a tool whose provider says nothing of its results.
var usualResult = sync.OnceValues(func() (json.RawMessage, error) { return resultOf(anything("the structured result"), false) })

// resultSchema is one shape for every provider: words, a structured part, links, and bytes.
func resultSchema(t *RemoteTool) (json.RawMessage, error) {
	if len(t.Output) > 0 && string(t.Output) != "null" {
		schema, err := readSchema(t.Output)
		if err != nil {
			return nil, err
		}
		safe, _, err := safeSchema(schema)
		if err != nil {
			return nil, err
		}
		return resultOf(safe, t.Request != nil)
	}
	if t.Request != nil {
		return resultOf(anything("the structured result"), true)
	}
	return usualResult()
}

func resultOf(data any, status bool) (json.RawMessage, error) {
	fields := map[string]any{
		FieldText: map[string]any{"type": "string", "maxLength": maxString},
		FieldData: data,
		FieldLinks: map[string]any{"type": "array", "maxItems": 100, "items": map[string]any{
			"type": "object", "additionalProperties": false, "required": []string{"uri"},
			"properties": map[string]any{
				"uri":  map[string]any{"type": "string", "maxLength": 2048},
				"name": map[string]any{"type": "string", "maxLength": 256}, "mime": map[string]any{"type": "string", "maxLength": 128},
			},
		}},
		FieldBytes: map[string]any{"type": "string", "contentEncoding": "base64", "maxLength": mostBlobs * 2},
		"mime":     map[string]any{"type": "string", "maxLength": 128},
	}
	if status {
		fields[FieldStatus] = map[string]any{"type": "integer", "minimum": 100, "maximum": 599}
	}
	return canonical.Marshal(map[string]any{"type": "object", "additionalProperties": false, "properties": fields})
}
