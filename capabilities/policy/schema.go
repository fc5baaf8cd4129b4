package policy

import (
	"fmt"
	"slices"
	"strings"

	cedar "github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/schema"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// The names that policies use.
const (
	typeAgent    cedar.EntityType = "Agent"
	typeUser     cedar.EntityType = "User"
	typeRole     cedar.EntityType = "Role"
	typeLane     cedar.EntityType = "Lane"
	typeNode     cedar.EntityType = "Node"
	typeProvider cedar.EntityType = "Provider"
	typeAction   cedar.EntityType = "Action"

	// gatewayProvider is the resource of tools that no node carries out.
	gatewayProvider cedar.String = "gateway"

	groupAll          = "all"
	groupFamilyPrefix = "family:"
	groupEffectPrefix = "effect:"
	groupRead         = "read"   // tools that only read
	groupEffect       = "effect" // tools that change something

	// AcceptDegraded is the action by which policy accepts that a node has less isolation than a
	// call needs. Only a permit that names it counts.
	AcceptDegraded = "isolation.accept-degraded"
	// GrantPrefix is what an entry of a ticket's grants begins with that names a
	// person's grant; the rest is its ID.
	GrantPrefix = "grant:"
)

// contextFields are the fields of context that every call has, beside args.
var contextFields = []arg{
	{name: "consent", kind: argBool},     // a person confirms this call
	{name: "tool", kind: argString},      // the tool ID, also under AcceptDegraded
	{name: "lane", kind: argString},      // the conversation
	{name: "keys", kind: argSet},         // declared capability keys
	{name: "risk", kind: argString},      // low, medium, high, critical
	{name: "isolation", kind: argString}, // the class the call needs
	{name: "given", kind: argString},     // the class the node gives; "" if none carries it out
	{name: "degraded", kind: argString},  // what the given class lacks; "" if nothing
	{name: "taint", kind: argSet},        // families whose untrusted content the lane has read
	{name: "time", kind: argLong},        // seconds since 1970
}

// entityAttributes are the attributes of principals and nodes.
var entityAttributes = map[string]argKind{
	"role": argString, "label": argString, "platform": argString, "trust": argString, "labels": argSet,
}

// tool is what the engine knows of one tool.
type tool struct {
	profile *Profile
	args    argSpec
	action  cedar.EntityUID
	groups  []cedar.EntityUID
	keys    cedar.Set
	onNode  bool // the resource is a node, else the gateway
}

func newTool(d *catalog.Descriptor) *tool {
	keys := d.Manifest.Keys()
	values := make([]cedar.Value, len(keys))
	for i, k := range keys {
		values[i] = cedar.String(k)
	}
	return &tool{
		profile: NewProfile(d),
		args:    newArgSpec(d),
		action:  cedar.NewEntityUID(typeAction, cedar.String(d.Tool)),
		groups: []cedar.EntityUID{
			cedar.NewEntityUID(typeAction, groupAll),
			cedar.NewEntityUID(typeAction, cedar.String(groupFamilyPrefix+d.Tool.Family())),
			cedar.NewEntityUID(typeAction, cedar.String(groupEffectPrefix+string(d.SideEffects))),
			cedar.NewEntityUID(typeAction, readOrEffect(d)),
		},
		keys:   cedar.NewSet(values...),
		onNode: d.NodeCapability() != "",
	}
}

func readOrEffect(d *catalog.Descriptor) cedar.String {
	if d.SideEffects == catalog.EffectsNone {
		return groupRead
	}
	return groupEffect
}

// vocabulary is what policies can speak about: tools as Cedar sees them. It never
// changes.
type vocabulary struct {
	tools     map[capabilities.ToolID]*tool
	entities  map[cedar.EntityUID]cedar.Entity // actions
	schema    string
	validator *validate.Validator
}

func newVocabulary(from Tools) (*vocabulary, error) {
	v := &vocabulary{tools: map[capabilities.ToolID]*tool{}, entities: map[cedar.EntityUID]cedar.Entity{}}
	for _, d := range from.All() {
		t := newTool(d)
		v.tools[d.Tool] = t
		v.entities[t.action] = cedar.Entity{UID: t.action, Parents: cedar.NewEntityUIDSet(t.groups...)}
	}
	degraded := cedar.NewEntityUID(typeAction, AcceptDegraded)
	v.entities[degraded] = cedar.Entity{UID: degraded}
	activate := cedar.NewEntityUID(typeAction, ActivatePolicy)
	v.entities[activate] = cedar.Entity{UID: activate}
	v.addKeys()
	v.schema = schemaText(v.tools)
	resolved, err := resolveSchema(v.schema)
	if err != nil {
		return nil, err
	}
	v.validator = validate.New(resolved)
	return v, nil
}

// knownNames are all attribute names a policy can look at.
func (v *vocabulary) knownNames() map[string]bool {
	names := map[string]bool{"args": true}
	for name := range entityAttributes {
		names[name] = true
	}
	for _, f := range contextFields {
		names[f.name] = true
	}
	for _, t := range v.tools {
		for _, a := range append(t.args.derived(), t.args.args...) {
			names[a.name] = true
		}
	}
	return names
}

// schemaText writes the Cedar schema of these tools: every tool is an action, its
// allowlisted arguments are the type of context.args. It is what files are
// checked against.
func schemaText(tools map[capabilities.ToolID]*tool) string {
	var b strings.Builder
	b.WriteString("entity Role, Lane;\n")
	b.WriteString("entity Agent, User in [Role, Lane] { role: String };\n")
	b.WriteString("entity Node { label: String, platform: String, trust: String, labels: Set<String> };\n")
	b.WriteString("entity Provider;\n\n")
	b.WriteString("action \"" + groupAll + "\";\n")
	groups := map[string]bool{groupRead: true, groupEffect: true}
	for _, e := range []catalog.SideEffects{catalog.EffectsNone, catalog.EffectsLocal, catalog.EffectsExternal} {
		groups[groupEffectPrefix+string(e)] = true
	}
	ids := make([]string, 0, len(tools))
	for id, t := range tools {
		ids = append(ids, string(id))
		for _, g := range t.groups {
			groups[string(g.ID)] = true
		}
	}
	delete(groups, groupAll)
	names := make([]string, 0, len(groups))
	for g := range groups {
		names = append(names, g)
	}
	slices.Sort(names)
	for _, g := range names {
		fmt.Fprintf(&b, "action %q;\n", g)
	}
	slices.Sort(ids)
	for _, id := range ids {
		t := tools[capabilities.ToolID(id)]
		parents := make([]string, len(t.groups))
		for i, g := range t.groups {
			parents[i] = fmt.Sprintf("%q", string(g.ID))
		}
		resource := typeProvider
		if t.onNode {
			resource = typeNode
		}
		fmt.Fprintf(&b, "\naction %q in [%s] appliesTo {\n  principal: [Agent, User],\n  resource: [%s],\n", id, strings.Join(parents, ", "), resource)
		writeContext(&b, &t.args)
		b.WriteString("};\n")
	}
	fmt.Fprintf(&b, "\naction %q appliesTo {\n  principal: [Agent, User],\n  resource: [Node],\n", AcceptDegraded)
	writeContext(&b, &noArgs)
	b.WriteString("};\n")
	fmt.Fprintf(&b, "\naction %q appliesTo {\n  principal: [Agent, User],\n  resource: [Provider],\n", ActivatePolicy)
	writeContext(&b, &noArgs)
	b.WriteString("};\n")
	writeKeys(&b, declaredKeys(tools))
	return b.String()
}

// noArgs is the specification of actions that are no tool.
var noArgs = argSpec{url: -1, files: -1}

func writeContext(b *strings.Builder, spec *argSpec) {
	b.WriteString("  context: {\n")
	for _, f := range contextFields {
		fmt.Fprintf(b, "    %s: %s,\n", f.name, f.kind)
	}
	b.WriteString("    args: {")
	sep := ""
	for _, a := range spec.args {
		fmt.Fprintf(b, "%s %q?: %s", sep, a.name, a.kind)
		sep = ","
	}
	for _, a := range spec.derived() {
		fmt.Fprintf(b, "%s %s: %s", sep, a.name, a.kind)
		sep = ","
	}
	b.WriteString(" },\n  },\n")
}

func resolveSchema(text string) (*resolved.Schema, error) {
	var s schema.Schema
	if err := s.UnmarshalCedar([]byte(text)); err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInternal, err, "policy: the schema of this catalog does not parse")
	}
	r, err := s.Resolve()
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInternal, err, "policy: the schema of this catalog does not resolve")
	}
	return r, nil
}
