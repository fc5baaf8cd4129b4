package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// A file that does not load is named, with its line and what is wrong.
func TestLoadRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"no Cedar", "permit everything;", "a.cedar:1: "},
		{"broken third line", "permit (principal, action, resource);\n\npermit (principal, action, resource) when { 1 + };", "a.cedar:3: "},
		{"cut off", "permit (", `a.cedar:1: column 9: the file ends where "principal" was expected`},
		{"another word", "permit (principle, action, resource);", `"principle" where "principal" was expected`},
		{"unknown tool", "// one\npermit (principal, action == Action::\"tool.browser.clik\", resource);", "a.cedar:2: unrecognized action `Action::\"tool.browser.clik\"`"},
		{"unknown tool in a list", `permit (principal, action in [Action::"tool.browser.click", Action::"family:brwser"], resource);`, "family:brwser"},
		{"unknown tool in a condition", `permit (principal, action, resource) when { action == Action::"tool.x.y" };`, "tool.x.y"},
		{"unknown entity type", `permit (principal == Robot::"a", action, resource);`, "unrecognized entity type"},
		{"unknown context field", `permit (principal, action, resource) when { context.consnt };`, "consnt"},
		{"unknown context field behind has", `permit (principal, action, resource) when { context has consnt && context.consnt };`, "consnt"},
		{"unknown argument", `permit (principal, action == Action::"tool.browser.navigate", resource) when { context.args.hots == "x" };`, "hots"},
		{"unknown argument behind has", `permit (principal, action, resource) when { context.args has hots && context.args.hots == "x" };`, `no tool, node or principal has "hots"`},
		{"secret argument", `permit (principal, action == Action::"tool.browser.type", resource) when { context.args has text && context.args.text == "x" };`, "text"},
		{"argument that other tools do not have", `permit (principal, action in Action::"family:browser", resource) when { context.args.host == "x" };`, "host"},
		{"wrong type", `permit (principal, action, resource) when { context.consent == "yes" };`, "not compatible"},
		{"no condition", `permit (principal, action, resource) when { context.lane };`, "expected Bool"},
		{"unknown annotation", `@mod("log_only") forbid (principal, action, resource);`, "annotation @mod is unknown"},
		{"unknown mode", `@mode("log-only") forbid (principal, action, resource);`, "the only mode is log_only"},
		{"bad ID", `@id("a b") permit (principal, action, resource);`, "@id"},
		{"empty ID", `@id("") permit (principal, action, resource);`, "@id"},
		{"bad why", "@why(\"a\\nb\") permit (principal, action, resource);", "@why"},
		{"ID twice", "@id(\"x\") permit (principal, action, resource);\n@id(\"x\") forbid (principal, action, resource);", `a.cedar:2: @id("x") is used at a.cedar:1 already`},
		{"an impossible resource", `permit (principal, action == Action::"tool.node.list", resource == Node::"n");`, "a.cedar:1: unable to find an applicable action"},
		{"nested too deeply", strings.Repeat("(", 200), "nested deeper"},
		{"too large", strings.Repeat("// x\n", MaxSourceBytes/5+1), "larger than"},
		{"invalid UTF-8", "// \xff\xfe\npermit (principal, action, resource) when { context.lane == \"\xff\" };", "a.cedar"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := tryLoad(t, c.text)
			if err == nil || e != nil {
				t.Fatalf("it loaded")
			}
			if capabilities.CodeOf(err) != capabilities.CodeInvalidRequest || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v\nwant %s", err, c.want)
			}
		})
	}
	t.Run("an ID of two files", func(t *testing.T) {
		_, err := tryLoad(t, `@id("x") permit (principal, action, resource);`, `@id("x") permit (principal, action, resource);`)
		if err == nil || !strings.Contains(err.Error(), `b.cedar:1: @id("x") is used at a.cedar:1 already`) {
			t.Fatal(err)
		}
	})
	t.Run("two files of one name", func(t *testing.T) {
		if _, err := Load([]Source{{Name: "a.cedar"}, {Name: "a.cedar"}}, testCatalog(t)); err == nil {
			t.Fatal("it loaded")
		}
	})
	t.Run("every complaint, bounded", func(t *testing.T) {
		_, err := tryLoad(t, strings.Repeat("@x(\"\") permit (principal, action, resource);\n", 50))
		details := err.(*capabilities.Error).Details.([]string)
		if len(details) != maxComplaints+1 || details[maxComplaints] != "and 30 more" || !strings.HasPrefix(details[1], "a.cedar:2: ") {
			t.Fatalf("%q", details)
		}
	})
	t.Run("too many", func(t *testing.T) {
		if _, err := tryLoad(t, strings.Repeat("permit (principal, action, resource);\n", MaxPolicies+1)); err == nil {
			t.Fatal("it loaded")
		}
		if _, err := Load(make([]Source, MaxSources+1), testCatalog(t)); err == nil {
			t.Fatal("it loaded")
		}
	})
}

func TestSnapshotID(t *testing.T) {
	cat := testCatalog(t)
	load := func(sources ...Source) string {
		e, err := Load(sources, cat)
		if err != nil {
			t.Fatal(err)
		}
		return e.SnapshotID()
	}
	a := Source{Name: "a.cedar", Data: []byte(permitAll)}
	b := Source{Name: "b.cedar", Data: []byte(`forbid (principal, action, resource);`)}
	ids := map[string]string{}
	for name, id := range map[string]string{
		"none": load(), "a": load(a), "b": load(b), "ab": load(a, b),
		"a renamed": load(Source{Name: "c.cedar", Data: a.Data}),
		"a changed": load(Source{Name: "a.cedar", Data: append([]byte("//\n"), a.Data...)}),
	} {
		if other, ok := ids[id]; ok {
			t.Errorf("%s and %s share %s", name, other, id)
		}
		ids[id] = name
	}
	if load(a, b) != load(b, a) {
		t.Error("the order of the files counts")
	}
}

// A caller's copy of the sources does not reach into the engine.
func TestEngineIsImmutable(t *testing.T) {
	data := []byte(permitAll)
	e, err := Load([]Source{{Name: "a.cedar", Data: data}}, testCatalog(t))
	if err != nil {
		t.Fatal(err)
	}
	copy(data, "forbid")
	e.Sources()[0].Name = "other"
	if got := e.Sources()[0]; got.Name != "a.cedar" || string(got.Data) != permitAll {
		t.Fatalf("%s %s", got.Name, got.Data)
	}
	if got := e.Decide(request("tool.browser.close", `{}`)); got.Effect != Allow {
		t.Fatal(got)
	}
}

func TestUnnamedPoliciesAreNamedAfterTheirFile(t *testing.T) {
	e := mustLoad(t, permitAll+permitAll)
	if got := e.Decide(request("tool.browser.close", `{}`)); fmt.Sprint(got.Determining) != "[a.cedar#1 a.cedar#2]" {
		t.Fatal(got.Determining)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(permitAll)
	f.Add(string(DefaultSource()))
	f.Add(`@id("x") @mode("log_only") forbid (principal is Agent, action in [Action::"all"], resource) unless { context.args has host && context.args.host like "*.a" };`)
	f.Fuzz(func(t *testing.T, text string) {
		e, err := tryLoad(t, text)
		if (err == nil) == (e == nil) {
			t.Fatalf("engine %v with error %v", e, err)
		}
		if err == nil {
			e.Decide(request("tool.browser.navigate", `{"url":"https://example.com/"}`))
			e.Possible(request("tool.browser.navigate", ``))
		}
	})
}
