package provider

import (
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
)

// State is where a tool of a provider is in its life. The zero value is invalid.
type State string

// The states, in their order.
const (
	Draft      State = "draft"      // its provider was added, and nobody looked yet
	Review     State = "review"     // it changed since somebody looked, or never was approved
	Canary     State = "canary"     // called by the named principals only
	Active     State = "active"     // called by whom policy lets
	Restricted State = "restricted" // a person is asked about every call
	Deprecated State = "deprecated" // as active; lists say that it goes
	Retired    State = "retired"    // gone for good
)

// States returns every state, in order.
func States() []State {
	return []State{Draft, Review, Canary, Active, Restricted, Deprecated, Retired}
}

// next is which states may follow which.
var next = map[State][]State{
	Draft:      {Review, Canary, Active, Restricted, Retired},
	Review:     {Canary, Active, Restricted, Deprecated, Retired},
	Canary:     {Review, Active, Restricted, Deprecated, Retired},
	Active:     {Review, Canary, Restricted, Deprecated, Retired},
	Restricted: {Review, Canary, Active, Deprecated, Retired},
	Deprecated: {Review, Active, Restricted, Retired},
	Retired:    nil,
}

// Callable reports whether a tool in this state is registered.
func (s State) Callable() bool {
	return s == Canary || s == Active || s == Restricted || s == Deprecated
}

// Withheld says why a tool that a provider has cannot be called; nil for one that can, and for one
// that no provider has. It is for those who may see providers.
func (b *Book) Withheld(id capabilities.ToolID) *capabilities.Error {
	p, t, err := b.Tool(id)
	if err != nil || t.Callable() {
		return nil
	}
	action, hint := capabilities.Action{Key: capabilities.ActionApproveProvider, Name: p.Name}, "An admin approves it."
	why := "is in review: it changed, and nobody has approved it since"
	switch t.State {
	case Draft:
		why = "is a draft: nobody has approved it yet"
	case Retired:
		why, action.Key, hint = "is retired, for good", capabilities.ActionShowProvider, "Use another tool of its provider."
	}
	return capabilities.Errorf(capabilities.CodeUnknownTool, "%s %s", id, why).WithAction(action, hint)
}

// Next returns the states to which a decision can move a tool from this one, in order.
func (s State) Next() []State {
	list := slices.DeleteFunc(slices.Clone(next[s]), func(to State) bool { return to == Review })
	slices.SortFunc(list, func(a, b State) int { return slices.Index(States(), a) - slices.Index(States(), b) })
	return list
}

// become refuses a step that the life of a tool does not have: CodeConflict.
func (s State) become(to State) error {
	if s == to || slices.Contains(next[s], to) {
		return nil
	}
	return capabilities.Errorf(capabilities.CodeConflict, "a tool that is %s does not become %s", s, to)
}

// review has a tool wait for a look. The approval that follows finds the state that it had, a
// canary's principals, and that a person was asked.
func (t *Tool) review() {
	if t.State == Restricted {
		t.Effect = stricter(t.Effect, EffectAsk)
	}
	t.Was, t.State = t.State, Review
}

// again is the state that an approval brings about which names none: what the tool was.
func (t *Tool) again() State {
	switch was := t.before(); {
	case was == Restricted, was == Deprecated, was == Canary && len(t.Canary) > 0:
		return was
	}
	return Active
}

// before is the state of a tool, or the one that it had before it came into review.
func (t *Tool) before() State {
	if t.State == Review {
		return t.Was
	}
	return t.State
}
