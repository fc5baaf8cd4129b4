package policy

import (
	"encoding/binary"
	"slices"

	cedar "github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// partition holds the rules that can apply to one action, in file order.
type partition struct {
	enforced list
	logOnly  list
	consults uses
	// fixed are those of enforced that do not look at consent, turning those that do; nil where one
	// of them is all there is. A fixed part is evaluated once.
	fixed, turning *partition
}

// split makes fixed and turning of what was added.
func (p *partition) split() {
	fixed, turning := &partition{}, &partition{}
	for _, r := range p.enforced {
		if r.consults.consent {
			turning.add(r)
		} else {
			fixed.add(r)
		}
	}
	if len(fixed.enforced) > 0 && len(turning.enforced) > 0 {
		p.fixed, p.turning = fixed, turning
	}
}

func (p *partition) add(r *rule) {
	if r.logOnly {
		p.logOnly = append(p.logOnly, r)
		return
	}
	p.enforced = append(p.enforced, r)
	p.consults.context = p.consults.context || r.consults.context
	p.consults.args = p.consults.args || r.consults.args
	p.consults.consent = p.consults.consent || r.consults.consent
	p.consults.calls = p.consults.calls || r.consults.calls
}

// scopeIndex finds rules by the actions that their scopes name.
type scopeIndex struct {
	every list                        // those of any action
	named map[cedar.EntityUID][]*rule // actions and their groups
}

func newScopeIndex(rules []*rule) *scopeIndex {
	s := &scopeIndex{named: map[cedar.EntityUID][]*rule{}}
	for _, r := range rules {
		switch a := r.ast.Action.(type) {
		case ast.ScopeTypeEq:
			s.name(a.Entity, r)
		case ast.ScopeTypeIn:
			s.name(a.Entity, r)
		case ast.ScopeTypeInSet:
			for _, uid := range a.Entities {
				s.name(uid, r)
			}
		default:
			s.every = append(s.every, r)
		}
	}
	return s
}

func (s *scopeIndex) name(uid cedar.EntityUID, r *rule) { s.named[uid] = append(s.named[uid], r) }

// covering returns the rules whose scope covers an action by its name or by a group of it, in file
// order; every: those of any action, too.
func (s *scopeIndex) covering(every bool, action cedar.EntityUID, groups ...cedar.EntityUID) list {
	found := slices.Clone(s.named[action])
	for _, g := range groups {
		found = append(found, s.named[g]...)
	}
	if every {
		found = append(found, s.every...)
	}
	slices.SortFunc(found, func(a, b *rule) int { return a.order - b.order })
	return slices.Compact(found) // a set may name an action twice, or one and its group
}

// index sorts the rules into partitions by action, so that a decision only looks at rules that can
// apply. Tools of the same rules share one.
func (e *Engine) index() {
	s := newScopeIndex(e.rules)
	shared := map[string]*partition{}
	for id, t := range e.tools {
		rules := s.covering(true, t.action, t.groups...)
		var key []byte
		for _, r := range rules {
			key = binary.AppendUvarint(key, uint64(r.order))
		}
		p := shared[string(key)]
		if p == nil {
			p = partitionOf(rules)
			p.split()
			shared[string(key)] = p
		}
		e.byAction[id] = p
	}
	e.indexKeys(s)
	e.indexSurfaces(s)
	// A permit for everything is no acceptance of a weaker class: that has to be said in so many
	// words. A forbid of everything forbids that, too.
	degraded := s.covering(true, cedar.NewEntityUID(typeAction, AcceptDegraded))
	e.countsByKey = slices.ContainsFunc(e.rules, func(r *rule) bool { return r.consults.calls && namesKey(r.ast.Action) })
	e.degraded = partitionOf(slices.DeleteFunc(degraded, func(r *rule) bool { return r.permit && slices.Contains(s.every, r) }))
}

func partitionOf(rules list) *partition {
	p := &partition{}
	for _, r := range rules {
		p.add(r)
	}
	return p
}
