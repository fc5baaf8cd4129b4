package policy

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	cedar "github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// RolesName is the file of the role rules: a set that has a file of this name is without the
// shipped ones.
const RolesName = "roles.cedar"

//go:embed roles.cedar
var rolesSource []byte

// RolesSource is the shipped rules of what each role may do at a gateway's surfaces.
func RolesSource() []byte { return slices.Clone(rolesSource) }

// ActivatePolicy is the action by which a policy says who may replace it.
const ActivatePolicy = "policy.activate"

// ActivationTool is the work of putting a policy in force.
const ActivationTool capabilities.ToolID = "tool.policy.activate"

// surfaceActions is what surfaces let callers do, by name. true: rules can permit it to agents,
// too. Nothing else is ever permitted to them: an agent cannot answer for a person, nor change
// what anybody may do.
var surfaceActions = map[string]bool{
	"call": true, "tools.read": true, "tools.all": true, "calls.read": true, "calls.all": true, "calls.cancel": false,
	"lanes.read": true, "lanes.any": false, "lanes.manage": false, "artifacts.read": true, "artifacts.all": true, "artifacts.remove": true,
	"memory": true, "memory.all": false, "status.read": true, "metrics.read": true, "events.read": true, "nodes.read": true,
	"providers.read": true, "approvals.read": true, "approvals": false, "stop.read": true, "stop": false, "resume": false,
	"nodes.manage": false, "nodes.owner": false, "live": false, "live.control": false, "live.record": false, "ledger.read": true,
	"ledger.export": false, "policy.read": true, ActivatePolicy: false, "secrets": false, "invites": false, "providers": false, "drift": false,
	"tokens": false, "session": false, "surface": false,
}

// SurfaceActions returns the actions of surfaces, sorted.
func SurfaceActions() []string { return slices.Sorted(maps.Keys(surfaceActions)) }

// surface is one action of surfaces as the engine sees it.
type surface struct {
	action cedar.EntityUID
	agents bool // rules can permit it to agents
	tool   *tool
}

// plainSurface is what the context of an action says that is no tool: nothing.
var plainSurface = &tool{profile: func() *Profile { return &Profile{} }, args: noArgs}

// work is a tool that is an admin's own work, with the action that it is a part of.
type work struct {
	*tool
	surface string
}

// addSurfaces adds what surfaces let callers do, and the works that are parts of it.
func (v *vocabulary) addSurfaces() error {
	v.surfaces = make(map[string]*surface, len(surfaceActions))
	for name, agents := range surfaceActions {
		v.addSurface(name, &surface{agents: agents, tool: plainSurface})
	}
	for _, w := range v.works {
		group := v.surfaces[w.surface]
		if group == nil {
			return capabilities.Errorf(capabilities.CodeInternal, "%s is a part of %q, which surfaces do not know", w.action.ID, w.surface)
		}
		v.addSurface(string(w.action.ID), &surface{tool: w.tool}, group.action)
	}
	v.surfaceRules = sync.OnceValues(func() (*validate.Validator, error) {
		resolved, err := resolveSchema(entityText + v.surfaceText())
		if err != nil {
			return nil, err
		}
		return validate.New(resolved), nil
	})
	return nil
}

func (v *vocabulary) addSurface(name string, s *surface, groups ...cedar.EntityUID) {
	s.action = cedar.NewEntityUID(typeAction, cedar.String(name))
	v.surfaces[name] = s
	v.entities[s.action] = cedar.Entity{UID: s.action, Parents: cedar.NewEntityUIDSet(groups...)}
}

// surfaceText is the schema of what surfaces let callers do.
func (v *vocabulary) surfaceText() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(v.surfaces)) {
		s, who := v.surfaces[name], "User"
		if s.agents {
			who = "Agent, User"
		}
		groups := ""
		for uid := range v.entities[s.action].Parents.All() {
			groups = fmt.Sprintf(" in [%q]", string(uid.ID))
		}
		fmt.Fprintf(&b, "\naction %q%s appliesTo {\n  principal: [%s],\n  resource: [%s],\n", name, groups, who, typeProvider)
		writeContext(&b, &noArgs)
		b.WriteString("};\n")
	}
	return b.String()
}

// parts takes a rule apart: its part about tools and their keys, and its part about surfaces. nil:
// it says nothing of these.
func (v *vocabulary) parts(p *ast.Policy) (tools, surfaces *ast.Policy) {
	is := func(uid cedar.EntityUID) bool {
		return uid.Type == typeAction && v.surfaces[string(uid.ID)] != nil
	}
	switch s := p.Action.(type) {
	case ast.ScopeTypeEq:
		if is(s.Entity) {
			return nil, p
		}
	case ast.ScopeTypeIn:
		if is(s.Entity) {
			return nil, p
		}
	case ast.ScopeTypeInSet:
		if !slices.ContainsFunc(s.Entities, is) {
			return p, nil
		}
		of, others := slices.Clone(s.Entities), slices.Clone(s.Entities)
		of = slices.DeleteFunc(of, func(uid cedar.EntityUID) bool { return !is(uid) })
		if others = slices.DeleteFunc(others, is); len(others) > 0 {
			tools = withAction(p, ast.ScopeTypeInSet{Entities: others})
		}
		return tools, withAction(p, ast.ScopeTypeInSet{Entities: of})
	}
	return p, nil
}

// shippedRoles are the rules of roles.cedar. They come before all others, and tests hold them
// against the schema.
var shippedRoles = sync.OnceValue(func() []*rule {
	policies, err := cedar.NewPolicyListFromBytes(RolesName, rolesSource)
	if err != nil {
		panic(err) // only a file that the tests would have refused
	}
	rules := make([]*rule, len(policies))
	for i, p := range policies {
		rules[i] = newRule(RolesName, i, p)
		rules[i].order = i - len(policies)
		if id := rules[i].ast.Annotations; len(id) > 0 && id[0].Key == "id" {
			rules[i].id = cedar.PolicyID(id[0].Value)
		}
	}
	return rules
})

// works are the tools of a catalog that are admins' own work: all that role rules speak about.
type works struct{ *catalog.Catalog }

// All leaves other tools out.
func (w works) All() []*catalog.Descriptor {
	return slices.DeleteFunc(slices.Clone(w.Catalog.All()), func(d *catalog.Descriptor) bool { return d.Surface == "" })
}

// roles is the engine of Roles.
var roles = sync.OnceValue(func() *Engine {
	cat, err := catalog.Embedded()
	if err != nil {
		panic(err) // tests load it
	}
	engine, err := Load(nil, works{cat})
	if err != nil {
		panic(err) // no rule was read
	}
	return engine
})

// Roles is an engine of the shipped role rules and no others. It is made once.
func Roles() *Engine { return roles() }

// indexSurfaces finds the rules of each action of surfaces. Only those count that name it.
func (e *Engine) indexSurfaces(s *scopeIndex) {
	shipped := newScopeIndex(nil)
	if !slices.ContainsFunc(e.sources, func(s Source) bool { return s.Name == RolesName }) {
		shipped = newScopeIndex(shippedRoles())
	}
	e.bySurface = make(map[string]*partition, len(e.surfaces))
	for name, a := range e.surfaces {
		groups := slices.Collect(e.entities[a.action].Parents.All())
		e.bySurface[name] = partitionOf(append(shipped.covering(false, a.action, groups...), s.covering(false, a.action, groups...)...))
	}
}

// judged are the verdicts of an engine about surfaces so far, where rules look at nothing but who
// and what.
type judged struct {
	mu  sync.RWMutex
	all map[surfaceCase]Decision // at most maxJudged
}

// surfaceCase is what such a verdict depends on.
type surfaceCase struct {
	who    capabilities.PrincipalID
	user   bool
	role   string
	lane   capabilities.LaneID
	action string
}

const maxJudged = 4096

func (j *judged) get(c surfaceCase) (Decision, bool) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	d, ok := j.all[c]
	return d, ok
}

func (j *judged) keep(c surfaceCase, d Decision) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.all == nil || len(j.all) >= maxJudged {
		j.all = map[surfaceCase]Decision{}
	}
	j.all[c] = d
}

// MayDo judges what somebody does at a surface, as the set and the role rules have it: allow where
// a permit names the action and no forbid does. To send the request is to confirm it, so
// context.consent is true. The tool of r is not looked at. CodeForbidden: nothing permits it;
// CodeDeniedByPolicy: a forbid applies, or fails. Callers must not change the decision.
func (e *Engine) MayDo(r Request, action string) Decision {
	a := e.surfaces[action]
	if a == nil || !r.User && !a.agents {
		return e.refusal(capabilities.CodeForbidden, "Nobody may do that with such a token.")
	}
	p := e.bySurface[action]
	if p.consults.context || len(p.logOnly) > 0 {
		return e.mayDo(r, action)
	}
	c := surfaceCase{r.Principal, r.User, r.Role, r.Lane, action}
	d, known := e.judged.get(c)
	if !known {
		d = e.mayDo(r, action)
		e.judged.keep(c, d)
	}
	return d
}

func (e *Engine) mayDo(r Request, action string) Decision {
	a, p := e.surfaces[action], e.bySurface[action]
	r.Tool = capabilities.ToolID(action)
	env := e.about(&r, a.action, false)
	env.tool = a.tool
	o := e.outcome(cedar.Authorize(p.enforced, &env.entities, env.seenBy(p, true)))
	d := Decision{
		Effect: Allow, Determining: o.permits, Errors: o.errors, Reason: "A rule permits it.", Snapshot: e.snapshot,
		LogOnly: e.observe(p, env, nil),
	}
	switch {
	case len(o.forbids) > 0:
		d.Effect, d.Code, d.Determining, d.Reason = Deny, capabilities.CodeDeniedByPolicy, merge(o.forbids, nil),
			"The policy in force forbids it."
	case len(o.permits) == 0:
		d.Effect, d.Code, d.Determining, d.Reason = Deny, capabilities.CodeForbidden, []string{}, "No rule permits it."
	}
	return d
}
