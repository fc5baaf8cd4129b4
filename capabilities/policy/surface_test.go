package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// person asks for what a person does at a surface.
func person(who capabilities.PrincipalID, role string) Request {
	return Request{Principal: who, User: IsUser(role), Role: role, Lane: "lane", Time: testTime}
}

// The shipped role rules hold against the schema, and replace themselves without a difference.
func TestRoleRulesAreRules(t *testing.T) {
	own, err := Load([]Source{{Name: RolesName, Data: RolesSource()}}, testCatalog(t))
	if err != nil {
		t.Fatal(err)
	}
	shipped := mustLoad(t)
	for _, action := range SurfaceActions() {
		permitted := false
		for _, role := range []string{"", "agent", "viewer", "operator", "admin", "root"} {
			was, is := shipped.MayDo(person("ann", role), action), own.MayDo(person("ann", role), action)
			if was.Effect != is.Effect || !slices.Equal(was.Determining, is.Determining) {
				t.Errorf("%s: %s was %+v and is %+v", role, action, was, is)
			}
			permitted = permitted || is.Effect == Allow
			if is.Effect == Allow && len(is.Determining) != 1 {
				t.Errorf("%s may %s by %v", role, action, is.Determining)
			}
		}
		if !permitted {
			t.Errorf("no role may %s", action)
		}
	}
}

// Rules about surfaces count beside the shipped roles (S1-04): only rules that name an
// action, never for an agent what is a person's, and in place of the roles only by their file.
func TestRulesAboutSurfaces(t *testing.T) {
	for name, c := range map[string]struct {
		file, text   string
		who          capabilities.PrincipalID
		role, action string
		effect       Effect
		code         capabilities.Code
		rule         string
	}{
		"nothing":                       {"a.cedar", "", "ann", "admin", "tokens", Allow, "", "role-administers"},
		"not of the role":               {"a.cedar", "", "bob", "operator", "tokens", Deny, capabilities.CodeForbidden, ""},
		"a permit":                      {"a.cedar", `@id("more") permit (principal == User::"bob", action == Action::"tokens", resource);`, "bob", "operator", "tokens", Allow, "", "more"},
		"of another":                    {"a.cedar", `@id("more") permit (principal == User::"bob", action == Action::"tokens", resource);`, "eve", "operator", "tokens", Deny, capabilities.CodeForbidden, ""},
		"a forbid":                      {"a.cedar", `@id("less") forbid (principal, action == Action::"tokens", resource) unless { principal == User::"ann" };`, "eve", "admin", "tokens", Deny, capabilities.CodeDeniedByPolicy, "less"},
		"not of her":                    {"a.cedar", `@id("less") forbid (principal, action == Action::"tokens", resource) unless { principal == User::"ann" };`, "ann", "admin", "tokens", Allow, "", "role-administers"},
		"by the hour":                   {"a.cedar", `@id("late") forbid (principal, action == Action::"tokens", resource) when { context.time > 0 };`, "ann", "admin", "tokens", Deny, capabilities.CodeDeniedByPolicy, "late"},
		"one that fails":                {"a.cedar", `@id("bad") forbid (principal, action == Action::"tokens", resource) when { context.time + 9223372036854775807 > 0 };`, "ann", "admin", "tokens", Deny, capabilities.CodeDeniedByPolicy, "bad"},
		"a permit of everything":        {"a.cedar", `permit (principal, action, resource);`, "bob", "operator", "tokens", Deny, capabilities.CodeForbidden, ""},
		"a forbid of everything":        {"a.cedar", `forbid (principal, action, resource);`, "ann", "admin", "tokens", Allow, "", "role-administers"},
		"only watched":                  {"a.cedar", `@mode("log_only") forbid (principal, action == Action::"tokens", resource);`, "ann", "admin", "tokens", Allow, "", "role-administers"},
		"an agent's look":               {"a.cedar", `@id("look") permit (principal == Agent::"bot", action == Action::"metrics.read", resource);`, "bot", "agent", "metrics.read", Allow, "", "look"},
		"an agent is nobody to approve": {"a.cedar", `permit (principal, action == Action::"approvals", resource);`, "bot", "agent", "approvals", Deny, capabilities.CodeForbidden, ""},
		"roles of one's own":            {RolesName, `@id("mine") permit (principal == User::"ann", action in [Action::"tokens", Action::"policy.activate"], resource);`, "ann", "operator", "tokens", Allow, "", "mine"},
		"are in their place":            {RolesName, `@id("mine") permit (principal == User::"ann", action in [Action::"tokens", Action::"policy.activate"], resource);`, "eve", "admin", "tokens", Deny, capabilities.CodeForbidden, ""},
		"beside a tool": {"a.cedar", `@id("both") forbid (principal, action in [Action::"tokens", Action::"tool.browser.click"], resource);`,
			"ann", "admin", "tokens", Deny, capabilities.CodeDeniedByPolicy, "both"},
		"no such action": {"a.cedar", "", "ann", "admin", "no.such", Deny, capabilities.CodeForbidden, ""},
	} {
		e, err := Load([]Source{{Name: c.file, Data: []byte(c.text)}}, testCatalog(t))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		d := e.MayDo(person(c.who, c.role), c.action)
		if d.Effect != c.effect || d.Code != c.code || strings.Join(d.Determining, " ") != c.rule || d.Reason == "" || d.Snapshot != e.SnapshotID() {
			t.Errorf("%s: %+v", name, d)
		}
	}
	for name, text := range map[string]string{
		"an agent's approvals": `permit (principal == Agent::"bot", action == Action::"approvals", resource);`,
		"a misspelled action":  `permit (principal, action == Action::"token", resource);`,
		"an argument":          `forbid (principal, action == Action::"tokens", resource) when { context.args.url == "x" };`,
		"a node":               `forbid (principal, action == Action::"tokens", resource == Node::"n1");`,
	} {
		if _, err := tryLoad(t, text); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	both := mustLoad(t, permitAll, `@id("both") forbid (principal, action in [Action::"tokens", Action::"tool.browser.click"], resource);`)
	if d := both.Decide(request("tool.browser.click", `{"ref":"e1","element":"x"}`)); d.Effect != Deny {
		t.Errorf("the tool beside it: %+v", d)
	}
}

func BenchmarkMayDo(b *testing.B) {
	e := mustLoad(b, string(DefaultSource()))
	r := person("ann", "admin")
	b.ReportAllocs()
	for b.Loop() {
		if e.MayDo(r, "tokens").Effect != Allow {
			b.Fatal("not allowed")
		}
	}
}
