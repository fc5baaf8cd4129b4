package policy

import (
	"fmt"
	"slices"
	"time"

	cedar "github.com/cedar-policy/cedar-go"

	"github.com/handrail-dev/handrail/capabilities"
)

// Effect is the outcome of a decision. The zero value denies.
type Effect int

// The effects, from strictest to most lenient.
const (
	Deny Effect = iota
	Ask
	Allow
)

var effectNames = [...]string{"deny", "ask", "allow"}

// String returns "deny", "ask" or "allow".
func (f Effect) String() string {
	if f < Deny || f > Allow {
		return "deny"
	}
	return effectNames[f]
}

// ParseEffect reads what String returns.
func ParseEffect(s string) (Effect, error) {
	if i := slices.Index(effectNames[:], s); i >= 0 {
		return Effect(i), nil
	}
	return Deny, capabilities.Errorf(capabilities.CodeInvalidRequest, "effect must be deny, ask or allow")
}

// MarshalText is String.
func (f Effect) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads what MarshalText returns.
func (f *Effect) UnmarshalText(text []byte) (err error) {
	*f, err = ParseEffect(string(text))
	return err
}

// Node is a node as policy sees it.
type Node struct {
	ID       capabilities.NodeID
	Label    string
	Platform string
	Trust    string
	Labels   []string
}

// Request is one call to be judged.
type Request struct {
	Principal capabilities.PrincipalID
	User      bool // the principal is a person, not an agent
	Role      string
	Taint     []string // what untrusted content the lane has read
	Tool      capabilities.ToolID
	// Node carries the call out. Left empty for tools of the gateway.
	Node Node
	Lane capabilities.LaneID
	// Args is the canonical JSON object of the business arguments; policy sees the
	// allowlisted ones only.
	Args []byte
	// Given is the class that the node has, Degraded what that class lacks; both from the node's
	// readiness. Ignored for tools of the gateway.
	Given    capabilities.IsolationClass
	Degraded string
	// Hosts are those that the node's owner named for the tool, from the node's readiness: with them
	// the call has the tool's owner keys, too.
	Hosts []string
	// Required raises the class the call needs (an escalation's envelope). Default:
	// what the declared keys derive to; a weaker one changes nothing.
	Required capabilities.IsolationClass
	// Raised is by how many levels what the tool did on the node before raises its risk (S1-05).
	Raised int
	// Wants is the target ("github.com:443") that a running call would connect to and was not granted:
	// the question is whether a person may be asked about it. Default: it is about the call itself.
	Wants string
	// Consented says that a live grant, bound to this snapshot, covers this call.
	// It turns an ask into an allow and nothing else: a deny stays one.
	Consented bool
	// Granted says that the gateway's ticket carries a person's grant: what always
	// asks is then not asked about once more. Rules that want consent still are.
	Granted bool
	Time    time.Time
	// Calls are those of this tool that this principal made lately, this one left out. Default: none,
	// as for a question that is about no call.
	Calls Calls
}

// Decision is the outcome for one call.
type Decision struct {
	Effect Effect `json:"effect"`
	// Determining are the IDs of the policies that made it so; empty for a deny that
	// rests on nothing permitting.
	Determining []string          `json:"determining_policies"`
	Code        capabilities.Code `json:"reason_code,omitempty"` // set for deny
	Reason      string            `json:"reason"`                // one plain sentence
	// Withheld are declared keys that this call does not get; Escalated those that it
	// gets only by a person's grant, as a one-time addition (S1-34, S1-38).
	Withheld  []string `json:"withheld_keys,omitempty"`
	Escalated []string `json:"escalated_keys,omitempty"`
	LogOnly   []string `json:"log_only_effects,omitempty"`
	Errors    []string `json:"errors,omitempty"`
	Snapshot  string   `json:"policy_snapshot_id"`
}

// Stricter returns the stricter of two decisions; of two equal ones the first,
// with the policies of both.
func Stricter(a, b Decision) Decision {
	switch {
	case a.Effect < b.Effect:
		return a
	case b.Effect < a.Effect:
		return b
	}
	a.Determining = merge(a.Determining, b.Determining)
	return a
}

func merge(a, b []string) []string {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// Decide judges a call. Each call is evaluated without a person's consent and,
// if that does not permit it, with it: permitted → allow, permitted only with
// consent → ask, else deny.
func (e *Engine) Decide(r Request) Decision { return e.judge(r, e.evaluate) }

// Possible judges a call whose arguments are not known yet, for lists: what the
// arguments could fulfil counts as fulfilled for permits and as not fulfilled
// for forbids. A call that Decide allows or asks about for some arguments, Possible does
// not deny.
func (e *Engine) Possible(r Request) Decision {
	r.Args = nil
	d := e.judge(r, e.evaluatePossible)
	d.LogOnly = nil // what is only watched says nothing without arguments
	return d
}

// evaluator judges the enforced rules of a partition.
type evaluator func(p *partition, env *environment, consent bool) outcome

// outcome is one evaluation.
type outcome struct {
	permits []string // permits that apply
	forbids []string // forbids that apply, or that failed
	errors  []string
	failed  bool // a forbid failed
}

func (o *outcome) permitted() bool { return len(o.permits) > 0 && len(o.forbids) == 0 }

// environment is a request in Cedar's terms. Entities and context are made when a
// rule looks at them: most rules name who and what, and look at neither.
type environment struct {
	request  cedar.Request // without context
	entities entities
	tool     *tool
	args     cedar.Record
	fields   cedar.RecordMap // of context; nil: not made yet
	contexts [2]cedar.Record // made of fields, without and with consent
	made     [2]bool
}

// withoutArgs makes context.args empty, for actions that are no tool.
func (env *environment) withoutArgs() {
	env.args = cedar.Record{}
	env.made = [2]bool{}
}

// entities serves the two entities of a request beside the engine's actions.
type entities struct {
	of        *Request
	principal cedar.EntityUID
	resource  cedar.EntityUID
	caller    *cedar.Entity // of principal; nil: not made yet
	node      *cedar.Entity // of resource, likewise
	actions   map[cedar.EntityUID]cedar.Entity
}

func (g *entities) Get(uid cedar.EntityUID) (cedar.Entity, bool) {
	switch uid {
	case g.principal:
		if g.caller == nil {
			g.caller = &cedar.Entity{
				UID:        uid,
				Attributes: cedar.NewRecord(cedar.RecordMap{"role": cedar.String(g.of.Role)}),
				Parents:    parents(g.of),
			}
		}
		return *g.caller, true
	case g.resource:
		if uid.Type != typeNode {
			return cedar.Entity{UID: uid}, true
		}
		if g.node == nil {
			g.node = nodeEntity(&g.of.Node)
		}
		return *g.node, true
	}
	entity, ok := g.actions[uid]
	return entity, ok
}

// about returns the environment of an action; r must stay as it is.
func (e *Engine) about(r *Request, action cedar.EntityUID, onNode bool) *environment {
	kind := typeAgent
	if r.User {
		kind = typeUser
	}
	resource := cedar.NewEntityUID(typeProvider, gatewayProvider)
	if onNode {
		resource = cedar.NewEntityUID(typeNode, cedar.String(r.Node.ID))
	}
	principal := cedar.NewEntityUID(kind, cedar.String(r.Principal))
	return &environment{
		request:  cedar.Request{Principal: principal, Action: action, Resource: resource},
		entities: entities{of: r, principal: principal, resource: resource, actions: e.entities},
	}
}

// environment translates a request, which must stay as it is; false means that its
// arguments cannot be read.
func (e *Engine) environment(r *Request, t *tool, withArgs bool) (*environment, bool) {
	env := e.about(r, t.action, t.onNode)
	env.tool = t
	if withArgs {
		args, ok := t.args.record(r.Args)
		if !ok {
			return nil, false
		}
		env.args = args
	}
	return env, true
}

// context returns the fields that every call's context has, but for args and consent.
func (env *environment) context() cedar.RecordMap {
	r, t := env.entities.of, env.tool
	given, degraded := string(r.Given), r.Degraded
	if !t.onNode {
		given, degraded = "", ""
	}
	return cedar.RecordMap{
		"tool":      cedar.String(r.Tool),
		"lane":      cedar.String(r.Lane),
		"keys":      t.keysOn(r.Hosts),
		"risk":      cedar.String(r.profile(t).Risk.Raise(r.Raised)),
		"raised":    cedar.Long(max(r.Raised, 0)),
		"isolation": cedar.String(r.required(t)),
		"given":     cedar.String(given),
		"degraded":  cedar.String(degraded),
		"taint":     stringSet(r.Taint),
		"time":      cedar.Long(r.Time.Unix()),
		callsMinute: cedar.Long(r.Calls.Minute),
		callsHour:   cedar.Long(r.Calls.Hour),
		callsDay:    cedar.Long(r.Calls.Day),
		"wants":     cedar.String(r.Wants),
	}
}

func (r *Request) required(t *tool) capabilities.IsolationClass {
	return strongerClass(r.profile(t).Isolation, r.Required)
}

// short reports whether the class that the node gives is not in full one that the call may run in.
func (r *Request) short(t *tool) bool {
	return r.Degraded != "" || !r.Given.Meets(r.required(t), t.profile().InSession)
}

// profile is that of the tool where the call is to run.
func (r *Request) profile(t *tool) *Profile { return t.profile().On(r.Hosts) }

// parents puts a principal into its role and into the lane it calls in.
func parents(r *Request) cedar.EntityUIDSet {
	lane := cedar.NewEntityUID(typeLane, cedar.String(r.Lane))
	if r.Role == "" {
		return cedar.NewEntityUIDSet(lane)
	}
	return cedar.NewEntityUIDSet(cedar.NewEntityUID(typeRole, cedar.String(r.Role)), lane)
}

func stringSet(list []string) cedar.Set {
	values := make([]cedar.Value, len(list))
	for i, s := range list {
		values[i] = cedar.String(s)
	}
	return cedar.NewSet(values...)
}

func nodeEntity(n *Node) *cedar.Entity {
	return &cedar.Entity{
		UID: cedar.NewEntityUID(typeNode, cedar.String(n.ID)),
		Attributes: cedar.NewRecord(cedar.RecordMap{
			"label":    cedar.String(n.Label),
			"platform": cedar.String(n.Platform),
			"trust":    cedar.String(n.Trust),
			"labels":   stringSet(n.Labels),
		}),
	}
}

// withConsent returns the request under one value of consent.
func (env *environment) withConsent(consent bool) cedar.Request {
	i := 0
	if consent {
		i = 1
	}
	if !env.made[i] {
		if env.fields == nil {
			env.fields = env.context()
		}
		env.fields["args"], env.fields["consent"] = env.args, cedar.Boolean(consent)
		env.contexts[i], env.made[i] = cedar.NewRecord(env.fields), true
	}
	r := env.request
	r.Context = env.contexts[i]
	return r
}

// seenBy is withConsent for the rules of p, without the context if none of them looks
// at it.
func (env *environment) seenBy(p *partition, consent bool) cedar.Request {
	if !p.consults.context {
		return env.request
	}
	return env.withConsent(consent)
}

// judge is the whole decision; only how rules are evaluated differs between a
// call and a list.
func (e *Engine) judge(r Request, evaluate evaluator) Decision {
	t, ok := e.tools[r.Tool]
	if !ok && e.surfaces[string(r.Tool)] != nil {
		return e.refusal(capabilities.CodeDeniedByPolicy, "It is an admin's own work, which is no call of anybody's.")
	}
	if !ok {
		return e.refusal(capabilities.CodeUnknownTool, "There is no such tool.")
	}
	p := e.byAction[r.Tool]
	env, ok := e.environment(&r, t, p.consults.args || len(p.logOnly) > 0)
	if !ok {
		return e.refusal(capabilities.CodeInvalidArguments, "The arguments do not fit the tool's schema, so policy cannot judge them.")
	}
	d := e.twoSteps(p, env, evaluate)
	d.Snapshot = e.snapshot
	d.LogOnly = e.observe(p, env, nil)
	if d.Effect == Deny {
		return d
	}
	// S1-22, S1-24, S1-64: no permit makes such a call plain; only a live grant does.
	if t.profile().Asks && d.Effect == Allow && !r.Granted {
		d.Effect = Ask
		d.Reason = t.profile().why()
	}
	if t.onNode {
		d = e.isolation(r, t, env, d, evaluate)
	}
	if d.Effect != Deny && len(e.byKey) > 0 {
		d = e.reduce(r.profile(t), env, d, evaluate)
	}
	if r.Consented && d.Effect == Ask {
		d.Effect = Allow
		d.Reason = "A person granted it, and policy permits it with that."
	}
	return d
}

// refusal is a denial that rests on no policy.
func (e *Engine) refusal(code capabilities.Code, reason string) Decision {
	return Decision{Effect: Deny, Code: code, Reason: reason, Determining: []string{}, Snapshot: e.snapshot}
}

// isolation denies a call whose class the node does not have in full, unless a policy accepts that
// by name (S1-37, S1-63).
func (e *Engine) isolation(r Request, t *tool, env *environment, d Decision, evaluate evaluator) Decision {
	need := r.required(t)
	if !r.short(t) {
		return d
	}
	env.request.Action = cedar.NewEntityUID(typeAction, AcceptDegraded)
	env.withoutArgs()
	accepted := e.twoSteps(e.degraded, env, evaluate)
	accepted.Snapshot = e.snapshot
	accepted.LogOnly = merge(d.LogOnly, e.observe(e.degraded, env, nil))
	accepted.Errors = merge(d.Errors, accepted.Errors)
	if accepted.Effect == Deny {
		accepted.Code = capabilities.CodeIsolationUnavailable
		accepted.Reason = fmt.Sprintf("The call needs isolation class %s, the node gives %s", need, orNone(r.Given))
		if r.Degraded != "" {
			accepted.Reason += " without " + r.Degraded
		}
		accepted.Reason += ", and no policy accepts that."
		return accepted
	}
	out := Stricter(d, accepted)
	out.Determining = merge(d.Determining, accepted.Determining)
	out.LogOnly, out.Errors = accepted.LogOnly, accepted.Errors
	return out
}

func orNone(c capabilities.IsolationClass) capabilities.IsolationClass {
	if c == "" {
		return capabilities.ClassNone
	}
	return c
}

// twoSteps evaluates without consent, then with it.
func (e *Engine) twoSteps(p *partition, env *environment, evaluate evaluator) Decision {
	first, second := e.bothSteps(p, env, evaluate)
	if first.permitted() {
		return Decision{Effect: Allow, Determining: first.permits, Errors: first.errors, Reason: "Policy permits it."}
	}
	errs := merge(first.errors, second.errors)
	// An erroring forbid denies in whichever step it failed: what it would have
	// said is not known.
	if second.permitted() && !first.failed {
		return Decision{
			Effect: Ask, Determining: merge(second.permits, first.forbids), Errors: errs, Reason: "Policy wants a person to confirm it.",
		}
	}
	d := Decision{Effect: Deny, Code: capabilities.CodeDeniedByPolicy, Determining: merge(second.forbids, nil), Errors: errs}
	switch {
	case first.failed:
		d.Determining = merge(first.forbids, second.forbids)
		d.Reason = "A policy that forbids could not be evaluated."
	case second.failed:
		d.Reason = "A policy that forbids could not be evaluated."
	case len(d.Determining) > 0:
		d.Reason = "Policy forbids it."
	default:
		d.Determining = []string{}
		d.Reason = "No policy permits it."
	}
	return d
}

// bothSteps evaluates without consent and with it; what does not look at consent
// only once.
func (e *Engine) bothSteps(p *partition, env *environment, evaluate evaluator) (first, second outcome) {
	switch {
	case !p.consults.consent:
		first = evaluate(p, env, false)
		return first, first
	case p.fixed == nil:
		first = evaluate(p, env, false)
		if first.permitted() {
			return first, first
		}
		return first, evaluate(p, env, true)
	}
	fixed := evaluate(p.fixed, env, false)
	first = e.join(fixed, evaluate(p.turning, env, false))
	if first.permitted() {
		return first, first
	}
	return first, e.join(fixed, evaluate(p.turning, env, true))
}

// join returns the outcome of the rules of two outcomes together, in file order.
func (e *Engine) join(a, b outcome) outcome {
	o := outcome{forbids: e.inOrder(a.forbids, b.forbids), errors: merge(a.errors, b.errors), failed: a.failed || b.failed}
	if len(o.forbids) == 0 {
		o.permits = e.inOrder(a.permits, b.permits)
	}
	return o
}

func (e *Engine) inOrder(a, b []string) []string {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	all := append(slices.Clone(a), b...)
	slices.SortFunc(all, func(x, y string) int { return e.byID[cedar.PolicyID(x)].order - e.byID[cedar.PolicyID(y)].order })
	return all
}

// evaluate is Cedar's own evaluation.
func (e *Engine) evaluate(p *partition, env *environment, consent bool) outcome {
	return e.outcome(cedar.Authorize(p.enforced, &env.entities, env.seenBy(p, consent)))
}

func (e *Engine) outcome(verdict cedar.Decision, diag cedar.Diagnostic) outcome {
	var o outcome
	ids := make([]string, len(diag.Reasons))
	for i, r := range diag.Reasons {
		ids[i] = string(r.PolicyID)
	}
	if verdict == cedar.Allow {
		o.permits = ids
	} else {
		o.forbids = ids
	}
	for _, failure := range diag.Errors {
		o.fail(e.ruleOf(failure.PolicyID), failure.Message)
	}
	return o
}

// ruleOf returns a rule of the set, or else of the shipped roles.
func (e *Engine) ruleOf(id cedar.PolicyID) *rule {
	if r, ok := e.byID[id]; ok {
		return r
	}
	for _, r := range shippedRoles() {
		if r.id == id {
			return r
		}
	}
	return &rule{id: id}
}

func (o *outcome) fail(r *rule, message string) {
	o.errors = append(o.errors, fmt.Sprintf("%s (%s:%d): %s", r.id, r.source, r.line, message))
	if !r.permit {
		o.failed = true
		o.forbids = append(o.forbids, string(r.id))
	}
}

// observe names the log-only rules that would have applied, as "forbid ID" or
// "permit ID"; they change nothing.
func (e *Engine) observe(p *partition, env *environment, seen []string) []string {
	for _, r := range p.logOnly {
		request := env.withConsent(false)
		_, diag := cedar.Authorize(list{r}, &env.entities, request)
		if len(diag.Reasons) > 0 {
			effect := "forbid "
			if r.permit {
				effect = "permit "
			}
			seen = append(seen, effect+string(r.id))
		}
	}
	return seen
}
