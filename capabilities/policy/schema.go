package policy

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	cedar "github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
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
	{name: "raised", kind: argLong},      // levels by which drift raises the tool's risk on the node
	{name: "isolation", kind: argString}, // the class the call needs
	{name: "given", kind: argString},     // the class the node gives; "" if none carries it out
	{name: "degraded", kind: argString},  // what the given class lacks; "" if nothing
	{name: "taint", kind: argSet},        // families whose untrusted content the lane has read
	{name: "time", kind: argLong},        // seconds since 1970
	{name: callsMinute, kind: argLong},   // calls of this tool by this principal that began lately
	{name: callsHour, kind: argLong},
	{name: callsDay, kind: argLong},
	{name: "wants", kind: argString}, // "host:port" that a running call was not granted; "" before it runs
}

// entityAttributes are the attributes of principals and nodes.
var entityAttributes = map[string]argKind{
	"role": argString, "label": argString, "platform": argString, "trust": argString, "labels": argSet,
}

// tool is what the engine knows of one tool.
type tool struct {
	profile  func() *Profile // made at the first call
	declared []string        // its keys, and those it has on some nodes
	class    string          // tools of one class differ in nothing but their ID to a rule that does not name them
	args     argSpec
	action   cedar.EntityUID
	groups   []cedar.EntityUID
	keys     cedar.Set
	wide     cedar.Set // keys on a node whose owner named hosts for it
	onNode   bool      // the resource is a node, else the gateway
}

func newTool(d *catalog.Descriptor) *tool {
	keys := d.Manifest.Keys()
	set := stringSet(keys)
	t := &tool{
		profile:  sync.OnceValue(func() *Profile { return NewProfile(d) }),
		declared: keys,
		args:     newArgSpec(d),
		action:   cedar.NewEntityUID(typeAction, cedar.String(d.Tool)),
		groups: []cedar.EntityUID{
			cedar.NewEntityUID(typeAction, groupAll),
			cedar.NewEntityUID(typeAction, cedar.String(groupFamilyPrefix+d.Tool.Family())),
			cedar.NewEntityUID(typeAction, cedar.String(groupEffectPrefix+string(d.SideEffects))),
			cedar.NewEntityUID(typeAction, readOrEffect(d)),
		},
		keys:   set,
		wide:   set,
		onNode: d.NodeCapability() != "",
	}
	if len(d.OwnerKeys) > 0 {
		t.declared = wideKeys(d)
		t.wide = stringSet(t.declared)
	}
	// Rules see no arguments of a provider's tool.
	if d.Provider != "" && len(t.args.args)+len(t.args.derived()) == 0 {
		t.class = fmt.Sprint(t.groups, t.onNode)
	}
	return t
}

func (t *tool) keysOn(hosts []string) cedar.Set {
	if len(hosts) > 0 {
		return t.wide
	}
	return t.keys
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
	tools    map[capabilities.ToolID]*tool
	entities map[cedar.EntityUID]cedar.Entity // actions
	typical  map[capabilities.ToolID]*tool    // without tools of a class but the first by ID
	first    map[string]*tool                 // that one, by class
	keys     []string                         // declared by any tool, sorted
	// Validators, made when they are first wanted: of typical, and of all tools.
	few, all func() (*validate.Validator, error)

	works        []work              // tools that are an admin's own work
	surfaces     map[string]*surface // what surfaces let callers do, by name
	surfaceRules func() (*validate.Validator, error)
}

func newVocabulary(from Tools) (*vocabulary, error) {
	v := &vocabulary{tools: map[capabilities.ToolID]*tool{}, entities: map[cedar.EntityUID]cedar.Entity{}}
	for _, d := range from.All() {
		v.add(d)
	}
	return v, v.complete()
}

// with is a vocabulary of these tools, too.
func (v *vocabulary) with(more map[capabilities.ToolID]*catalog.Descriptor) (*vocabulary, error) {
	all := &vocabulary{tools: maps.Clone(v.tools), entities: maps.Clone(v.entities), works: slices.Clone(v.works)}
	for _, d := range more {
		all.add(d)
	}
	return all, all.complete()
}

func (v *vocabulary) add(d *catalog.Descriptor) {
	t := newTool(d)
	if d.Surface != "" {
		t.args = noArgs
		v.works = append(v.works, work{t, d.Surface})
		return
	}
	v.tools[d.Tool] = t
	v.entities[t.action] = cedar.Entity{UID: t.action, Parents: cedar.NewEntityUIDSet(t.groups...)}
}

// complete adds what is no tool, and the schema of all.
func (v *vocabulary) complete() error {
	degraded := cedar.NewEntityUID(typeAction, AcceptDegraded)
	v.entities[degraded] = cedar.Entity{UID: degraded}
	if err := v.addSurfaces(); err != nil {
		return err
	}
	v.keys = declaredKeys(v.tools)
	v.addKeys()
	v.typical, v.first = typical(v.tools)
	v.few = sync.OnceValues(func() (*validate.Validator, error) { return v.validator(v.typical) })
	v.all = sync.OnceValues(func() (*validate.Validator, error) { return v.validator(v.tools) })
	if len(v.typical) == len(v.tools) {
		v.all = v.few
	}
	_, err := v.few()
	return err
}

// typical returns the tools without those of a class but the first by ID, and that one by class.
func typical(tools map[capabilities.ToolID]*tool) (few map[capabilities.ToolID]*tool, first map[string]*tool) {
	few, first = map[capabilities.ToolID]*tool{}, map[string]*tool{}
	for id, t := range tools {
		if t.class == "" {
			few[id] = t
		} else if other, ok := first[t.class]; !ok || t.action.ID < other.action.ID {
			first[t.class] = t
		}
	}
	for _, t := range first {
		few[capabilities.ToolID(t.action.ID)] = t
	}
	return few, first
}

// about returns a rule with the typical tools in its scope in place of those of their class that it
// names, which are thousands in the rules of a large provider. false: its conditions name actions,
// too, so that one of a class is not like another.
func (v *vocabulary) about(p *ast.Policy) (*ast.Policy, bool) {
	for _, c := range p.Conditions {
		if anyNode(c.Body, isAction) {
			return nil, false
		}
	}
	switch s := p.Action.(type) {
	case ast.ScopeTypeEq:
		return withAction(p, ast.ScopeTypeEq{Entity: v.like(s.Entity)}), true
	case ast.ScopeTypeIn:
		return withAction(p, ast.ScopeTypeIn{Entity: v.like(s.Entity)}), true
	case ast.ScopeTypeInSet:
		few := make([]cedar.EntityUID, 0, 8)
		seen := map[cedar.EntityUID]bool{}
		for _, uid := range s.Entities {
			if uid = v.like(uid); !seen[uid] {
				seen[uid] = true
				few = append(few, uid)
			}
		}
		return withAction(p, ast.ScopeTypeInSet{Entities: few}), true
	}
	return p, true
}

// like returns the action of the typical tool of a tool's class; what is no such tool is itself.
func (v *vocabulary) like(uid cedar.EntityUID) cedar.EntityUID {
	if uid.Type == typeAction {
		if t := v.tools[capabilities.ToolID(uid.ID)]; t != nil && v.first[t.class] != nil {
			return v.first[t.class].action
		}
	}
	return uid
}

func isAction(n ast.IsNode) bool {
	v, ok := n.(ast.NodeValue)
	if !ok {
		return false
	}
	uid, ok := v.Value.(cedar.EntityUID)
	return ok && uid.Type == typeAction
}

// validator checks rules against the schema of some tools.
func (v *vocabulary) validator(tools map[capabilities.ToolID]*tool) (*validate.Validator, error) {
	resolved, err := resolveSchema(schemaText(tools, v.keys))
	if err != nil {
		return nil, err
	}
	return validate.New(resolved), nil
}

// namedAction is how files name a tool. One that is written otherwise is judged by all tools.
var namedAction = regexp.MustCompile(`\bAction::"([^"\\]+)"`)

// validatorOf checks the rules of a file. The library goes through every action of its schema for
// each rule, and 10,000 tools of providers are a few kinds of tools to all rules that name none of
// them: it gets one of each class, and those that the file names.
func (v *vocabulary) validatorOf(text []byte) (*validate.Validator, error) {
	var named map[capabilities.ToolID]*tool
	for _, m := range namedAction.FindAllSubmatch(text, -1) {
		id := capabilities.ToolID(m[1])
		t, known := v.tools[id]
		if _, there := v.typical[id]; !known || there {
			continue
		}
		if named == nil {
			named = maps.Clone(v.typical)
		}
		named[id] = t
	}
	if named == nil {
		return v.few()
	}
	return v.validator(named)
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

// entityText is the part of the schema about who and where.
const entityText = `entity Role, Lane;
entity Agent, User in [Role, Lane] { role: String };
entity Node { label: String, platform: String, trust: String, labels: Set<String> };
entity Provider;

`

// schemaText writes the Cedar schema of these tools: every tool is an action, its
// allowlisted arguments are the type of context.args. keys are those of all tools.
func schemaText(tools map[capabilities.ToolID]*tool, keys []string) string {
	var b strings.Builder
	b.WriteString(entityText)
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
		fmt.Fprintf(&b, "\naction %q in [%s] appliesTo {\n  principal: [Agent, User],\n  resource: [%s],\n", id, strings.Join(parents, ", "),
			resource)
		writeContext(&b, &t.args)
		b.WriteString("};\n")
	}
	fmt.Fprintf(&b, "\naction %q appliesTo {\n  principal: [Agent, User],\n  resource: [Node],\n", AcceptDegraded)
	writeContext(&b, &noArgs)
	b.WriteString("};\n")
	writeKeys(&b, keys)
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
