package rest

import (
	"context"
	"encoding/json"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/admin"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// Works carries out what changes rights or secrets; gateway/admin implements it. The console asks
// for it here, too.
type Works interface {
	Do(ctx context.Context, a admin.Asked, fields map[string]json.RawMessage, work func(context.Context) error) error
}

// carryOut does what an endpoint does: admin work is decided on and recorded before.
func (c *visit) carryOut(e *endpoint, in any, do func() error) error {
	if e.does == "" {
		return do()
	}
	fields := map[string]json.RawMessage{}
	if e.in != nil {
		body, err := json.Marshal(in)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(body, &fields); err != nil {
			return err
		}
	}
	for _, m := range pathParam.FindAllStringSubmatch(e.path, -1) {
		value, err := json.Marshal(c.r.PathValue(m[1]))
		if err != nil {
			return err
		}
		fields[m[1]] = value
	}
	return c.works.Do(c.r.Context(),
		admin.Asked{Tool: e.does, By: c.who.Principal, Role: string(c.who.Role), Lane: c.who.Lane, Surface: "rest"}, fields,
		func(context.Context) error { return do() })
}

// judged is the name that rules have for an endpoint: that of its work, which is a part of its
// action, or of the action.
func (e *endpoint) judged() principal.Action {
	if e.does != "" {
		return principal.Action(e.does)
	}
	return e.action
}

// admits refuses who may not do what an endpoint does. Admin work that policy forbids is refused by
// its own decision, which is recorded.
func (e *endpoint) admits(who principal.Identity) error {
	if e.visible(who) { // what no page shows is refused here, by the same rule
		return nil
	}
	err := who.Require(e.judged())
	if err == nil {
		err = capabilities.Errorf(capabilities.CodeForbidden, "nobody may do that")
	}
	if (e.does != "" || e.decides) && capabilities.CodeOf(err) == capabilities.CodeDeniedByPolicy {
		return nil
	}
	return err
}
