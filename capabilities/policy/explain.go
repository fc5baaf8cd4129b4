package policy

import (
	cedar "github.com/cedar-policy/cedar-go"
)

// Explanation answers "would this call pass, and by which rule".
type Explanation struct {
	Decision Decision      `json:"decision"`
	Rules    []RuleOutcome `json:"rules"` // every rule that can apply to the tool, in file order
	// Derived is what policy saw of the arguments, as context.args.
	Derived map[string]any `json:"args,omitempty"`
}

// RuleOutcome is one rule under both values of consent.
type RuleOutcome struct {
	ID             string `json:"id"`
	Source         string `json:"source"`
	Line           int    `json:"line"`
	Effect         string `json:"effect"` // permit or forbid
	Why            string `json:"why,omitempty"`
	LogOnly        bool   `json:"log_only,omitempty"`
	Applies        bool   `json:"applies"`         // without a person's consent
	AppliesConsent bool   `json:"applies_consent"` // with it
	Error          string `json:"error,omitempty"`
}

// Says tells in words whether the rule applies.
func (o *RuleOutcome) Says() string {
	says := "no"
	switch {
	case o.Error != "":
		says = "error: " + o.Error
	case o.Applies && o.AppliesConsent:
		says = "yes"
	case o.Applies:
		says = "without a person's yes"
	case o.AppliesConsent:
		says = "with a person's yes"
	}
	if o.LogOnly {
		says += " (only reported)"
	}
	return says
}

// Explain judges a call and reports how each rule that can apply to its tool
// came out, with those for a weaker isolation if they were asked.
func (e *Engine) Explain(r Request) Explanation {
	x := Explanation{Decision: e.Decide(r), Rules: []RuleOutcome{}}
	t, ok := e.tools[r.Tool]
	if s := e.surfaces[string(r.Tool)]; s != nil {
		env := e.about(&r, s.action, false)
		env.tool = s.tool
		x.Decision, x.Rules = e.MayDo(r, string(r.Tool)), e.outcomes(x.Rules, e.bySurface[string(r.Tool)], env)
		return x
	}
	if !ok {
		return x
	}
	env, ok := e.environment(&r, t, true)
	if !ok {
		return x
	}
	if env.args.Len() > 0 {
		x.Derived = map[string]any{}
		for name, v := range env.args.All() {
			x.Derived[string(name)] = plain(v)
		}
	}
	p := e.byAction[r.Tool]
	x.Rules = e.outcomes(x.Rules, p, env)
	if t.onNode && r.short(t) {
		env.request.Action = cedar.NewEntityUID(typeAction, AcceptDegraded)
		env.withoutArgs()
		x.Rules = e.outcomes(x.Rules, e.degraded, env)
	}
	for _, key := range r.profile(t).Keys {
		if p := e.byKey[key]; p != nil {
			env.request.Action = keyAction(key)
			env.withoutArgs()
			x.Rules = e.outcomes(x.Rules, p, env)
		}
	}
	return x
}

func (e *Engine) outcomes(out []RuleOutcome, p *partition, env *environment) []RuleOutcome {
	for _, rules := range []list{p.enforced, p.logOnly} {
		for _, r := range rules {
			o := RuleOutcome{ID: string(r.id), Source: r.source, Line: r.line, Effect: "forbid", Why: r.why, LogOnly: r.logOnly}
			if r.permit {
				o.Effect = "permit"
			}
			for _, consent := range []bool{false, true} {
				_, diag := cedar.Authorize(list{r}, &env.entities, env.withConsent(consent))
				for _, failure := range diag.Errors {
					o.Error = failure.Message
				}
				if consent {
					o.AppliesConsent = len(diag.Reasons) > 0
				} else {
					o.Applies = len(diag.Reasons) > 0
				}
			}
			out = append(out, o)
		}
	}
	return out
}

func plain(v cedar.Value) any {
	switch v := v.(type) {
	case cedar.String:
		return string(v)
	case cedar.Boolean:
		return bool(v)
	case cedar.Long:
		return int64(v)
	case cedar.Set:
		list := make([]any, 0, v.Len())
		for item := range v.All() {
			list = append(list, plain(item))
		}
		return list
	}
	return nil
}
