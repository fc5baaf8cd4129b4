package principal

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

// Authority says what callers may do: by the role rules and those of the policy in force.
type Authority struct{ engine func() *policy.Engine }

// NewAuthority makes one of the policy in force.
func NewAuthority(engine func() *policy.Engine) *Authority { return &Authority{engine} }

// decide is the one authorisation function of the surfaces.
func (id Identity) decide(what Action) policy.Decision {
	engine := policy.Roles
	if id.authority != nil {
		engine = id.authority.engine
	}
	return engine().MayDo(policy.Request{
		Principal: id.Principal, User: policy.IsUser(string(id.Role)), Role: string(id.Role), Lane: id.Lane, Time: time.Now(),
	}, string(what))
}

// May reports whether the identity may do what. Unknown roles and unknown actions may not.
func (id Identity) May(what Action) bool { return id.decide(what).Effect == policy.Allow }

// Require returns CodeForbidden if nothing permits the identity to do what, and CodeDeniedByPolicy
// if a rule forbids it.
func (id Identity) Require(what Action) error {
	d := id.decide(what)
	switch {
	case d.Effect == policy.Allow:
		return nil
	case d.Code == capabilities.CodeDeniedByPolicy:
		return capabilities.Errorf(d.Code, "%s", d.Reason)
	}
	refused := capabilities.Errorf(capabilities.CodeForbidden, "a token of role %s may not do that", id.Role)
	for _, r := range []Role{RoleAgent, RoleOperator, RoleAdmin} {
		other := id
		if other.Role = r; other.May(what) {
			return refused.WithHint("Use a token whose role is " + string(r) + ".")
		}
	}
	return capabilities.Errorf(capabilities.CodeForbidden, "nobody may do that")
}

// As is a principal of a role as the same policy judges them: for questions about somebody else.
func (id Identity) As(who capabilities.PrincipalID, role Role) Identity {
	return Identity{Principal: who, Role: role, Lane: capabilities.LaneID(who), authority: id.authority}
}

// Is is a principal of a role: for questions about what they may do.
func (t *Tokens) Is(who capabilities.PrincipalID, role Role) Identity {
	return Identity{authority: t.opts.Authority}.As(who, role)
}

// Persons returns those who sign in, or call as people, each as what they may do is judged.
func (t *Tokens) Persons() []Identity {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var all []Identity
	seen := map[Identity]bool{}
	for _, rec := range t.byHash {
		who := Identity{Principal: rec.Principal, Role: rec.Role, Lane: rec.Lane, authority: t.opts.Authority}
		if rec.Role.signsIn() && !seen[who] && t.refusalLocked(rec) == nil {
			seen[who] = true
			all = append(all, who)
		}
	}
	return all
}

// Actions returns every action, sorted.
func Actions() []Action {
	var all []Action
	for _, name := range policy.SurfaceActions() {
		all = append(all, Action(name))
	}
	return all
}
