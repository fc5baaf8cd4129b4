package catalog

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// The routing fields of the model-facing schema (S0-04).
const (
	nodeField       = "node_id"
	purposeField    = "purpose"
	bytesField      = "bytesBase64"
	maxDescription  = 500
	maxProvided     = 2000 // a description that a provider wrote
	maxTitle        = 60
	maxWireName     = 64 // the shortest limit among clients
	maxBlobCeiling  = 1 << 30
	maxTimeoutTotal = 900_000
)

// forbiddenFields are transport details that agents never send (S0-05).
var forbiddenFields = []string{"capability", "action_name", "op"}

var (
	semver    = regexp.MustCompile(`^\d+\.\d+\.\d+$`)
	keyFormat = regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$`)
	tagFormat = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)
	// providerFormat is one segment of an ID.
	providerFormat = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)
)

// routingField is a field that SplitArgs takes from a call's arguments.
type routingField struct {
	name   string
	schema string
}

var (
	nodeRouting    = routingField{nodeField, `{"type":"string","minLength":1,"maxLength":128,"pattern":"^[^:]+$"}`}
	purposeRouting = routingField{
		purposeField, `{"type":"string","maxLength":200,"description":"Why, in a sentence, for the person who is asked."}`,
	}
)

func timeoutRouting(name string) routingField {
	return routingField{name, `{"type":"integer","minimum":1,"maximum":600000}`}
}

// routed is a descriptor's schemas as calls are checked against them, made when it is first
// called or listed.
type routed struct {
	input, result validator
	routing       []string // the names of the routing fields to split off
	shown         func() listed
}

// listed is a descriptor's schemas as callers read them, made when it is first listed.
type listed struct {
	full, model json.RawMessage
	// The same with purpose, for callers whose calls a person is asked about.
	fullAsking, modelAsking json.RawMessage
	// modelResult is result as a model or its client may read it.
	modelResult json.RawMessage
}

// schemas makes them on first use. Load has tried the documents of what it returns; a
// Descriptor made by hand pays here and keeps its error.
func (d *Descriptor) schemas() (*routed, error) {
	d.routeOnce.Do(func() { d.routed, d.routeErr = d.route() })
	return d.routed, d.routeErr
}

// validators compiles what checks values.
func (d *Descriptor) validators() (input, result *schema, err error) {
	c, err := d.schemas()
	if err == nil {
		input, err = c.input.schema(d)
	}
	if err == nil {
		result, err = c.result.schema(d)
	}
	return input, result, err
}

func (d *Descriptor) documents() (input, result canonical.Value, err error) {
	if input, err = canonical.Decode(d.Input, canonical.Limits{}); err != nil {
		return input, result, refuse(d, "input: %v", err)
	}
	if result, err = canonical.Decode(d.Result, canonical.Limits{}); err != nil {
		return input, result, refuse(d, "result: %v", err)
	}
	return input, result, nil
}

func (d *Descriptor) route() (*routed, error) {
	input, result, err := d.documents()
	if err != nil {
		return nil, err
	}
	asking, routing, err := d.withRouting(input, true)
	if err != nil {
		return nil, refuse(d, "input: %v", err)
	}
	return &routed{
		input: newValidator("input", asking, d.opens()), result: newValidator("result", result, true), routing: routing,
		shown: sync.OnceValue(d.listed),
	}, nil
}

// opens: a provider's schema may be open; the provider checks it itself.
func (d *Descriptor) opens() bool { return d.Provider != "" }

// listed decodes again what route has decoded: few tools of many are ever listed.
func (d *Descriptor) listed() listed {
	input, result, err := d.documents()
	if err != nil {
		return listed{}
	}
	full, _, _ := d.withRouting(input, false)
	asking, _, _ := d.withRouting(input, true)
	return listed{
		full: full.Append(nil), model: shownInput(full, d.Routing.TimeoutArg).Append(nil),
		fullAsking: asking.Append(nil), modelAsking: shownInput(asking, d.Routing.TimeoutArg).Append(nil),
		modelResult: shownResult(withoutBytes(result), 0).Append(nil),
	}
}

// withRouting adds the routing fields to the input schema, and returns their names, sorted;
// asking: purpose, too.
func (d *Descriptor) withRouting(input canonical.Value, asking bool) (canonical.Value, []string, error) {
	if input.Kind != canonical.Object {
		return input, nil, fmt.Errorf("an object was expected")
	}
	properties, _ := input.Get("properties")
	var add []routingField
	if d.NodeCapability() != "" && d.Provider == "" {
		add = append(add, nodeRouting)
	}
	// A provider's own field of that name is the provider's.
	if _, own := properties.Get(purposeField); asking && (!own || d.Provider == "") {
		add = append(add, purposeRouting)
	}
	if d.Routing.TimeoutArg != "" {
		add = append(add, timeoutRouting(d.Routing.TimeoutArg))
	}
	if len(add) == 0 {
		return input, nil, nil
	}
	names := make([]string, 0, len(add))
	for _, f := range add {
		if _, taken := properties.Get(f.name); taken {
			return input, nil, fmt.Errorf("the action owns %s, so routing cannot", f.name)
		}
		schema, err := canonical.Decode([]byte(f.schema), canonical.Limits{})
		if err != nil {
			return input, nil, err
		}
		properties = properties.With(f.name, schema)
		names = append(names, f.name)
	}
	slices.Sort(names)
	input = input.With("properties", properties)
	if add[0].name == nodeField && len(d.Routing.Implicit) == 0 {
		required, _ := input.Get("required")
		required.Kind = canonical.Array
		required.Items = append(slices.Clone(required.Items), canonical.Value{Kind: canonical.String, Str: nodeField})
		input = input.With("required", required)
	}
	return input, names, nil
}

// Validate refuses a descriptor that breaks a rule of the catalog. Load has done
// so for what it returns.
func (d *Descriptor) Validate() error {
	for _, check := range []func() error{
		d.validateIdentity, d.validateText, d.validateManifest, d.validateRouting, d.validateLimits, d.validateSchemas, d.validateDelivery,
		d.validateUpload, d.validateReach, d.validateReuse,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (d *Descriptor) validateIdentity() error {
	if err := d.Tool.Validate(); err != nil {
		return refuse(d, "%v", err)
	}
	if len(d.Tool.WireName()) > maxWireName {
		return refuse(d, "its wire name is longer than %d", maxWireName)
	}
	if d.Capability == "" {
		return nil
	}
	if err := d.Capability.Validate(); err != nil {
		return refuse(d, "%v", err)
	}
	if d.Tool != d.Capability.Tool() { // S0-01, S0-13
		return refuse(d, "the tool ID must mirror %s: %s", d.Capability, d.Capability.Tool())
	}
	return nil
}

func (d *Descriptor) validateText() error {
	most := maxDescription
	if d.Provider != "" {
		most = maxProvided
	}
	switch {
	case d.Title == "" || len(d.Title) > maxTitle || !plain(d.Title):
		return refuse(d, "title must be 1 to %d plain characters", maxTitle)
	case d.Description == "" || len(d.Description) > most || !plain(d.Description):
		return refuse(d, "description must be 1 to %d plain characters", most)
	case !semver.MatchString(d.Version):
		return refuse(d, "version %q is not x.y.z", d.Version)
	case len(d.Tags) == 0:
		return refuse(d, "tags are required (S4-38)")
	}
	for _, tag := range d.Tags {
		if !tagFormat.MatchString(tag) {
			return refuse(d, "tag %q must match %s", tag, tagFormat)
		}
	}
	return nil
}

// plain is text without control, bidirectional, zero-width or private
// characters, in which an instruction could hide from a reviewer's eyes.
func plain(s string) bool {
	return capabilities.Printable(s) == s
}

// foul finds a string in a schema that is not plain.
func foul(node canonical.Value) (string, bool) {
	if node.Kind == canonical.String {
		return node.Str, !plain(node.Str)
	}
	for _, child := range node.Items {
		if text, bad := foul(child); bad {
			return text, true
		}
	}
	for _, m := range node.Members {
		if !plain(m.Key) {
			return m.Key, true
		}
		if text, bad := foul(m.Value); bad {
			return text, true
		}
	}
	return "", false
}

func (d *Descriptor) validateManifest() error {
	for _, k := range d.Optional {
		if !slices.Contains(d.Manifest.Keys(), k) {
			return refuse(d, "optional key %q is not declared", k)
		}
	}
	for _, k := range d.OwnerKeys {
		switch {
		case slices.Contains(d.Manifest.Keys(), k):
			return refuse(d, "owner key %q is declared for every node", k)
		case k != capabilities.KeyEgress:
			return refuse(d, "owner key %q: an owner names hosts, which is %s", k, capabilities.KeyEgress)
		case d.Routing.Target != TargetNode || d.Provider != "" || d.Narrows() != "":
			return refuse(d, "owner keys are for tools of a node that have no network of their own")
		}
	}
	for _, cat := range d.Manifest.all() {
		for _, key := range cat.keys {
			if !keyFormat.MatchString(key) || strings.HasPrefix(key, cat.name+".") {
				return refuse(d, "categories.%s: the key %q must match %s without the category", cat.name, key, keyFormat)
			}
		}
	}
	switch {
	case d.Defaults.Isolation.Rank() == 0:
		return refuse(d, "defaults.isolation_class %q is no class", d.Defaults.Isolation)
	case d.Defaults.Session && d.Defaults.Isolation == capabilities.ClassSession:
		return refuse(d, "defaults.session says again what isolation_class says")
	case !slices.Contains([]SideEffects{EffectsNone, EffectsLocal, EffectsExternal}, d.SideEffects):
		return refuse(d, "side_effects %q", d.SideEffects)
	case d.Nature != NatureTool && d.Nature != NaturePlumbing:
		return refuse(d, "nature %q", d.Nature)
	case !slices.Contains([]Consent{ConsentNone, ConsentCall, ConsentLease, ConsentSession}, d.Consent):
		return refuse(d, "consent %q", d.Consent)
	case len(d.Manifest.Privileged) > 0 && d.Defaults.CacheEligible: // S1-23
		return refuse(d, "a privileged tool is not cacheable")
	case d.Step && (d.TakesSteps() || d.Delivery != nil || d.Exclusive || !d.ModelFacing):
		return refuse(d, "a step takes no steps, delivers nothing, keeps no node and is model-facing")
	case d.Elicits && (d.TakesSteps() || d.Delivery != nil || d.Provider == "" || d.Routing.Target != TargetNode):
		return refuse(d, "a tool that asks people is a provider's on a node, takes no steps and delivers nothing")
	case d.TakesSteps() && (d.Delivery != nil || d.Exclusive):
		return refuse(d, "a tool that takes steps delivers nothing and keeps no node")
	case d.Surface != "" &&
		(d.ModelFacing || d.Nature != NaturePlumbing || d.Provider != "" || d.Routing.Target != TargetGateway || len(d.Manifest.Privileged) == 0):
		return refuse(d, "an admin's own work is privileged plumbing of the gateway")
	case d.Annotations.ReadOnly && d.SideEffects != EffectsNone:
		return refuse(d, "annotations.read_only with side_effects %s", d.SideEffects)
	case d.Annotations.ReadOnly && d.Annotations.Destructive:
		return refuse(d, "annotations.read_only and destructive")
	}
	return nil
}

func (d *Descriptor) validateRouting() error {
	switch d.Routing.Target {
	case TargetNode:
		if d.Capability == "" || d.Routing.Via != "" {
			return refuse(d, "a tool that nodes carry out has a capability of its own")
		}
	case TargetGateway:
		if d.Capability != "" {
			return refuse(d, "a gateway tool has no capability")
		}
	default:
		return refuse(d, "routing.target %q", d.Routing.Target)
	}
	if err := d.validateModes(); err != nil {
		return err
	}
	switch d.Idempotency.Mode {
	case IdempotencyGuard, IdempotencyCached:
	case IdempotencyNone:
		if d.SideEffects != EffectsNone {
			return refuse(d, "a tool with side effects is guarded")
		}
	default:
		return refuse(d, "idempotency.mode %q", d.Idempotency.Mode)
	}
	return nil
}

// validateModes: the node of a provider's tool is the provider's host, and no other tool's
// node is chosen in that way (S0-20).
func (d *Descriptor) validateModes() error {
	if d.Provider != "" {
		switch {
		case !providerFormat.MatchString(d.Provider):
			return refuse(d, "provider %q must match %s", d.Provider, providerFormat)
		case d.Layer == LayerMacro || d.Layer == LayerSubAgent: // the gateway makes its calls (S3-14, S3-16)
			if d.Routing.Target != TargetGateway || d.Routing.Via != "" || len(d.Routing.Implicit) > 0 || !d.TakesSteps() {
				return refuse(d, "a macro or a sub-agent is carried out by the gateway, and has steps")
			}
		case d.Routing.Target != TargetNode || !slices.Equal(d.Routing.Implicit, []capabilities.SelectionMode{capabilities.SelectHost}):
			return refuse(d, "a provider's tool is carried out by the node that hosts it")
		}
		return nil
	}
	for _, mode := range d.Routing.Implicit { // S0-20
		if mode != capabilities.SelectAttached && mode != capabilities.SelectSole {
			return refuse(d, "routing.implicit %q", mode)
		}
	}
	return nil
}

func (d *Descriptor) validateLimits() error {
	l := d.Limits
	switch {
	case l.TimeoutMS <= 0 || l.MaxTimeoutMS < l.TimeoutMS || l.MaxTimeoutMS > maxTimeoutTotal:
		return refuse(d, "limits: 0 < timeout_ms <= max_timeout_ms <= %d", maxTimeoutTotal)
	case l.MaxResultBytes <= 0 || l.MaxResultBytes > maxBlobCeiling:
		return refuse(d, "limits.max_result_bytes")
	case l.MaxBlobBytes < 0 || l.MaxBlobBytes > maxBlobCeiling:
		return refuse(d, "limits.max_blob_bytes")
	case l.MaxArtifactBytes < 0 || l.MaxArtifactBytes > capabilities.MaxArtifacts*capabilities.MaxArtifact:
		return refuse(d, "limits.max_artifact_bytes")
	}
	return nil
}

// validateSchemas compiles nothing of a provider's tool whose schemas checkSchema can judge by
// itself: a start registers thousands of them.
func (d *Descriptor) validateSchemas() error {
	in, result, err := d.documents()
	if err != nil {
		return err
	}
	asking, _, err := d.withRouting(in, true)
	if err != nil {
		return refuse(d, "input: %v", err)
	}
	compile := d.Provider == "" || len(d.Evidence.Args)+len(d.Evidence.Secret)+len(d.Examples) > 0 || d.Limits.DurationArg != ""
	for _, one := range []struct {
		name string
		doc  canonical.Value
		open bool
	}{{"input", asking, d.opens()}, {"result", result, true}} {
		if text, ok := foul(one.doc); ok {
			return refuse(d, "a schema holds the text %+q", text)
		}
		judged, err := checkSchema(one.doc, one.open)
		if err != nil {
			return refuse(d, "%s: %v", one.name, err)
		}
		compile = compile || !judged
	}
	if !compile {
		return d.validatePhrase()
	}
	input, _, err := d.validators()
	if err != nil {
		return err
	}
	if name, ok := transportField(input); ok && d.Provider == "" {
		return refuse(d, "the input field %s is a transport detail (S0-05)", name)
	}
	for _, pointer := range append(slices.Clone(d.Evidence.Args), d.Evidence.Secret...) {
		if !input.has(strings.Split(strings.TrimPrefix(pointer, "/"), "/")) {
			return refuse(d, "evidence names %s, which the input does not have", pointer)
		}
	}
	for _, pointer := range d.Evidence.Args {
		if slices.ContainsFunc(d.Evidence.Secret, func(s string) bool { return covers(s, pointer) }) {
			return refuse(d, "evidence would record the secret %s", pointer)
		}
	}
	if err := d.validatePhrase(); err != nil {
		return err
	}
	if arg := d.Limits.DurationArg; arg != "" && !input.has(strings.Split(strings.TrimPrefix(arg, "/"), "/")) {
		return refuse(d, "limits.duration_arg names %s, which the input does not have", arg)
	}
	for _, example := range d.Examples {
		if _, bad, err := d.SplitArgs(example.Args); err != nil || bad != nil {
			return refuse(d, "the example %q does not fit: %v %v", example.Title, err, bad)
		}
	}
	return nil
}

// covers reports whether the pointer is below (or is) the secret one.
func covers(secret, pointer string) bool {
	return pointer == secret || strings.HasPrefix(pointer, secret+"/")
}

// transportField finds a forbidden field at any depth.
func transportField(s *schema) (string, bool) {
	for _, n := range s.at {
		for name := range n.Properties {
			if slices.Contains(forbiddenFields, name) {
				return name, true
			}
		}
	}
	return "", false
}

// has reports whether some value that fits has something at the steps.
func (s *schema) has(steps []string) bool { return reaches(s.root, steps) }

func reaches(n *jsonschema.Schema, steps []string) bool {
	if n = resolved(n); len(steps) == 0 {
		return true
	}
	if prop, ok := n.Properties[steps[0]]; ok && reaches(prop, steps[1:]) {
		return true
	}
	if n.Items2020 != nil && steps[0] == "*" && reaches(n.Items2020, steps[1:]) {
		return true
	}
	return slices.ContainsFunc(append(slices.Clone(n.AnyOf), n.OneOf...), func(b *jsonschema.Schema) bool { return reaches(b, steps) })
}
