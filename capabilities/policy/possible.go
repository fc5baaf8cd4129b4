package policy

import (
	cedar "github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/eval"
)

// truth is the value of a condition when the arguments are not known.
type truth int

const (
	no truth = iota
	yes
	unknown
	failed
)

// evaluatePossible evaluates rules without arguments: a permit applies if some
// arguments could make it apply, a forbid only if it applies whatever they are.
func (e *Engine) evaluatePossible(p *partition, env *environment, consent bool) outcome {
	request := env.seenBy(p, consent)
	known := list(p.enforced)
	var open list
	if p.consults.args {
		known = make(list, 0, len(p.enforced))
		for _, r := range p.enforced {
			if r.consults.args {
				open = append(open, r)
			} else {
				known = append(known, r)
			}
		}
	}
	// Not Authorize over all of them: when a forbid applies it does not say which
	// permits would have.
	o := e.outcome(cedar.Authorize(known, &env.entities, request))
	cedarEnv := eval.Env{
		Entities: &env.entities, Principal: request.Principal, Action: request.Action,
		Resource: request.Resource, Context: request.Context,
	}
	for _, r := range open {
		switch applies(r.judged, cedarEnv) {
		case yes:
			o.apply(r)
		case unknown:
			if r.permit {
				o.apply(r)
			}
		case failed:
			o.fail(r, "cannot be evaluated, whatever the arguments are")
		}
	}
	return o
}

func (o *outcome) apply(r *rule) {
	if r.permit {
		o.permits = append(o.permits, string(r.id))
	} else {
		o.forbids = append(o.forbids, string(r.id))
	}
}

// applies evaluates scope and conditions of a policy in three-valued logic.
func applies(p *ast.Policy, env eval.Env) truth {
	scope := *p
	scope.Conditions = nil
	result := known(eval.PolicyToNode(&scope).AsIsNode(), env)
	for _, c := range p.Conditions {
		if result == no || result == failed {
			return result
		}
		v := truthOf(c.Body, env)
		if c.Condition == ast.ConditionUnless {
			v = not(v)
		}
		result = and(result, v)
	}
	return result
}

// truthOf is Kleene's logic over what does not depend on the arguments.
func truthOf(n ast.IsNode, env eval.Env) truth {
	if !mentionsArgs(n) {
		return known(n, env)
	}
	switch n := n.(type) {
	case ast.NodeTypeAnd:
		left := truthOf(n.Left, env)
		if left == no || left == failed {
			return left
		}
		return and(left, truthOf(n.Right, env))
	case ast.NodeTypeOr:
		left := truthOf(n.Left, env)
		if left == yes || left == failed {
			return left
		}
		return or(left, truthOf(n.Right, env))
	case ast.NodeTypeNot:
		return not(truthOf(n.Arg, env))
	case ast.NodeTypeIfThenElse:
		switch truthOf(n.If, env) {
		case yes:
			return truthOf(n.Then, env)
		case no:
			return truthOf(n.Else, env)
		case failed:
			return failed
		}
		then, other := truthOf(n.Then, env), truthOf(n.Else, env)
		if then == other {
			return then
		}
	}
	return unknown
}

// known evaluates what does not depend on the arguments.
func known(n ast.IsNode, env eval.Env) truth {
	v, err := eval.Eval(n, env)
	if err != nil {
		return failed
	}
	switch v {
	case cedar.True:
		return yes
	case cedar.False:
		return no
	}
	return failed
}

// and, or and not: a failure behind something unknown may or may not happen.
func and(a, b truth) truth {
	switch {
	case a == yes:
		return b
	case a == unknown && b == no:
		return no
	case a == unknown:
		return unknown
	}
	return a
}

func or(a, b truth) truth {
	switch {
	case a == no:
		return b
	case a == unknown && b == yes:
		return yes
	case a == unknown:
		return unknown
	}
	return a
}

func not(a truth) truth {
	switch a {
	case yes:
		return no
	case no:
		return yes
	}
	return a
}

// mentionsArgs reports whether the value of n can depend on the arguments.
func mentionsArgs(n ast.IsNode) bool {
	return mentionsBareContext(n) || anyNode(n, func(n ast.IsNode) bool {
		access, ok := n.(ast.NodeTypeAccess)
		return ok && access.Value == "args"
	})
}

// mentionsBareContext reports whether n uses context as a whole, not one of its
// fields.
func mentionsBareContext(n ast.IsNode) bool {
	fields, all := 0, 0
	anyNode(n, func(n ast.IsNode) bool {
		switch n := n.(type) {
		case ast.NodeTypeAccess:
			if isContext(n.Arg) {
				fields++
			}
		case ast.NodeTypeHas:
			if isContext(n.Arg) {
				fields++
			}
		}
		if isContext(n) {
			all++
		}
		return false
	})
	return all > fields
}

func isContext(n ast.IsNode) bool {
	v, ok := n.(ast.NodeTypeVariable)
	return ok && v.Name == "context"
}

func anyNode(n ast.IsNode, match func(ast.IsNode) bool) bool {
	found := false
	ast.Inspect(ast.NewNode(n), func(n ast.IsNode) bool {
		found = found || match(n)
		return !found
	})
	return found
}
