package catalog

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// Our verdict on random values, near and far from every schema of the catalog,
// is that of an independent implementation; and what does not fit is explained.
func TestVerdictsAgreeWithJSONSchemaGo(t *testing.T) {
	type pair struct {
		name   string
		doc    map[string]any
		ours   *schema
		theirs *jsonschema.Resolved
		listed *jsonschema.Resolved
	}
	var pairs []pair
	add := func(name string, text, listed []byte, ours *schema) {
		var doc map[string]any
		var parsed jsonschema.Schema
		if json.Unmarshal(text, &doc) != nil || json.Unmarshal(text, &parsed) != nil {
			t.Fatalf("%s: %s", name, text)
		}
		theirs, err := parsed.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
		if err != nil {
			t.Fatalf("%s is no schema to others: %v", name, err)
		}
		pairs = append(pairs, pair{name, doc, ours, theirs, resolve(t, name, listed)})
	}
	for _, d := range embeddedCatalog(t).All() {
		input, result, err := d.validators()
		if err != nil {
			t.Fatal(err)
		}
		add(string(d.Tool)+" input", d.FullInput(true), d.ModelInput(true), input)
		add(string(d.Tool)+" result", d.Result, d.ModelResult(), result)
	}
	fits, misfits := 0, 0
	for _, p := range pairs {
		rapid.Check(t, func(t *rapid.T) {
			text, err := json.Marshal(near(t, p.doc, p.doc, 4))
			if err != nil {
				t.Fatal(err)
			}
			v, err := canonical.Decode(text, canonical.Limits{MaxBytes: 64 << 20, MaxValues: 1 << 20, Foreign: true})
			if err != nil {
				t.Fatal(err)
			}
			var plain any
			if err := json.Unmarshal(text, &plain); err != nil {
				t.Fatal(err)
			}
			bad, theirs := p.ours.violations(v), p.theirs.Validate(plain)
			if (bad == nil) != (theirs == nil) {
				t.Fatalf("%s: %s\n ours:   %v\n theirs: %v", p.name, text, bad, theirs)
			}
			if bad == nil {
				// A listed schema may say less, but never refuse: clients check by it.
				if err := p.listed.Validate(plain); err != nil {
					t.Fatalf("%s: %s fits, but not what is listed: %v", p.name, text, err)
				}
				fits++
				return
			}
			misfits++
			for _, b := range bad {
				if b.Message == "does not fit the schema" {
					t.Fatalf("%s: %s: refused without a reason", p.name, text)
				}
			}
		})
	}
	t.Logf("%d fit, %d do not", fits, misfits)
	if fits < misfits/20 || misfits < fits/20 {
		t.Errorf("%d fit and %d do not: the comparison says little", fits, misfits)
	}
}

// near draws a value that a schema might take: usually almost right.
func near(t *rapid.T, node any, root map[string]any, depth int) any {
	s, _ := node.(map[string]any)
	if ref, ok := s["$ref"].(string); ok {
		defs, _ := root["$defs"].(map[string]any)
		s, _ = defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
	}
	if depth == 0 || s == nil || rapid.IntRange(0, 19).Draw(t, "stray") == 0 {
		return rapid.SampledFrom([]any{nil, true, "", "x", "a:b", 0, -1, 1.5, 600001, []any{}, []any{1, 1}, map[string]any{}, map[string]any{"op": 1}}).Draw(t, "junk")
	}
	if enum, ok := s["enum"].([]any); ok {
		return rapid.SampledFrom(enum).Draw(t, "enum")
	}
	if c, ok := s["const"]; ok {
		return c
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if branches, ok := s[key].([]any); ok && s["type"] == nil {
			return near(t, rapid.SampledFrom(branches).Draw(t, key), root, depth)
		}
	}
	kind, _ := s["type"].(string)
	if kinds, ok := s["type"].([]any); ok {
		kind, _ = rapid.SampledFrom(kinds).Draw(t, "type").(string)
	}
	number := func(key string, other float64) float64 {
		if f, ok := s[key].(float64); ok {
			return f
		}
		return other
	}
	switch kind {
	case "string":
		return rapid.SampledFrom([]string{"", " ", "x", "tool.a.b", "https://example.com/", "é", strings.Repeat("é", 33),
			strings.Repeat("y", int(min(number("maxLength", 8), 70000))), strings.Repeat("ü", int(min(number("maxLength", 8), 70000))+1)}).Draw(t, "string")
	case "integer", "number":
		low, high := number("minimum", -3), number("maximum", 5000)
		return rapid.SampledFrom([]float64{low, high, low - 1, high + 1, low + 1, low + 0.5, (low + high) / 2}).Draw(t, "number")
	case "boolean":
		return rapid.Bool().Draw(t, "bool")
	case "array":
		items := make([]any, rapid.SampledFrom([]int{0, 1, 2, 5, 33}).Draw(t, "length"))
		for i := range items {
			items[i] = near(t, s["items"], root, depth-1)
		}
		return items
	case "object":
		out := map[string]any{}
		properties, _ := s["properties"].(map[string]any)
		required, _ := s["required"].([]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) { // so that a draw can be repeated
			if rapid.IntRange(0, 9).Draw(t, "keep") < 5 {
				out[name] = near(t, properties[name], root, depth-1)
			}
		}
		for _, name := range required {
			if rapid.IntRange(0, 19).Draw(t, "need") > 0 {
				out[name.(string)] = near(t, properties[name.(string)], root, depth-1)
			}
		}
		return out
	default:
		return map[string]any{"a": 1, "A": []any{nil}}
	}
}

func TestCompilerRefuses(t *testing.T) {
	for _, c := range []struct{ schema, says string }{
		{`{"type":"object"}`, "additionalProperties:false"},
		{`{"type":"string","maxLength":1}`, "the root"},
		{`{"type":"object","additionalProperties":true}`, "admits anything"},
		{`{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string"}}}`, "/a: a string without maxLength"},
		{`{"type":"object","additionalProperties":false,"properties":{"a":{"type":"array","items":{"type":"null"}}}}`, "without maxItems"},
		{`{"type":"object","additionalProperties":false,"properties":{"a":{"type":"array","maxItems":2}}}`, "items"},
		{`{"type":"object","additionalProperties":false,"properties":{"a":{"type":"array","maxItems":300,"uniqueItems":true,"items":{"type":"null"}}}}`, "uniqueItems"},
		{`{"type":"object","additionalProperties":false,"properties":{"a":{"type":"object"}}}`, "/a: an object"},
		{`{"type":"object","additionalProperties":false,"properties":{"a":{}}}`, "says nothing"},
		{`{"type":"object","additionalProperties":false,"properties":{"a":true}}`, "admits anything"},
		{`{"type":"object","additionalProperties":false,"allOf":[]}`, `"allOf" is not supported`},
		{`{"type":"object","additionalProperties":false,"not":{}}`, "not supported"},
		{`{"type":"object","additionalProperties":false,"maxlength":1}`, "not supported"},
		{`{"type":"object","additionalProperties":false,"properties":{"a":{"$ref":"#/$defs/x"}}}`, "leads nowhere"},
		{`{"type":"object","additionalProperties":false,"$defs":{"x":{"$ref":"#/$defs/x"}}}`, "bare reference"},
		{`{"type":"object","additionalProperties":false,"properties":{"a":{"type":"integer","maximum":1,"default":2}}}`, "default"},
		{`{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string","maxLength":1,"pattern":"("}}}`, "pattern"},
		{`{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string","maxLength":-1}}}`, "maxLength"},
		{`{"type":"object","additionalProperties":false,"properties":{"a":{"type":"thing"}}}`, "type"},
		{`{"type":"object","additionalProperties":false,"properties":{"a":{"enum":[]}}}`, "enum"},
		{`{"type":"object","additionalProperties":false,"properties":{"a":{"type":"number","minimum":"1"}}}`, "number"},
		{`{"type":"object","additionalProperties":false,"required":"a"}`, "required must be"},
	} {
		doc, err := canonical.Decode([]byte(c.schema), canonical.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if judged, err := checkSchema(doc, false); err == nil && judged {
			t.Errorf("%s would be refused by its first call, not before", c.schema)
		}
		if _, err := compileSchema(doc, false); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.schema, err, c.says)
		}
	}
}

// FuzzSchema: a schema that checkSchema judges compiles, so that what registers can be called.
func FuzzSchema(f *testing.F) {
	c, err := Embedded()
	if err != nil {
		f.Fatal(err)
	}
	for _, d := range c.All() {
		f.Add([]byte(d.Input), false)
		f.Add([]byte(d.Result), true)
	}
	f.Add([]byte(`{"type":"object","additionalProperties":false,"properties":{"a":{"anyOf":[{"type":["integer","null"],"minimum":1},{"const":{"b":[]}}]}},"required":["a"]}`), false)
	f.Add([]byte(`{"type":"object","additionalProperties":{"description":"any value"},"maxProperties":9,"title":"x","examples":[1]}`), true)
	f.Fuzz(func(t *testing.T, text []byte, open bool) {
		doc, err := canonical.Decode(text, canonical.Limits{})
		if err != nil {
			return
		}
		judged, err := checkSchema(doc, open)
		if err != nil || !judged {
			return
		}
		if _, err := compileSchema(doc, open); err != nil {
			t.Fatalf("%s is judged to be a schema, and does not compile: %v", text, err)
		}
	})
}

// Compiled schemas are bounded, shared by tools that say the same, and compiled again when they
// are wanted again.
func TestCompiledSchemasAreBounded(t *testing.T) {
	set := &schemas{most: 2, all: map[schemaKey]func() (*schema, error){}}
	get := func(n int) *schema {
		t.Helper()
		doc, err := canonical.Decode(fmt.Appendf(nil, `{"type":"object","additionalProperties":false,"properties":{"a":{"type":"integer","maximum":%d}}}`, n), canonical.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		v := newValidator("input", doc, false)
		s, err := set.get(v.key, v.text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := get(1)
	if get(1) != first {
		t.Error("the same schema was compiled twice")
	}
	for n := range 10 {
		get(n + 2)
	}
	if len(set.all) != 2 || get(1) == first {
		t.Errorf("%d are held; the first one still: %v", len(set.all), get(1) == first)
	}
	if bad := get(1).violations(canonical.Value{Kind: canonical.Object, Members: []canonical.Member{{Key: "a", Value: canonical.Value{Kind: canonical.Number, Num: 2}}}}); len(bad) != 1 {
		t.Errorf("%v", bad)
	}
}

// A tool of a provider registers without its schemas compiled, one of which has a bad shape not at
// all (S4-14).
func TestSettleCompilesNothing(t *testing.T) {
	tool := func(input string) *Descriptor {
		return &Descriptor{
			Capability: "tyrum.lazy.do", Tool: "tool.lazy.do", Title: "Do", Description: "Does.", Version: "1.0.0", Tags: []string{"lazy"}, SideEffects: EffectsLocal, ModelFacing: true,
			Nature: NatureTool, Layer: LayerRemote, Provider: "lazy", Input: json.RawMessage(input), Result: json.RawMessage(`{"type":"object","additionalProperties":false}`),
			Defaults: Defaults{Isolation: "t0"}, Routing: Routing{Target: TargetNode, Implicit: []capabilities.SelectionMode{capabilities.SelectHost}},
			Idempotency: Idempotency{Mode: IdempotencyGuard}, Limits: Limits{TimeoutMS: 1, MaxTimeoutMS: 1, MaxResultBytes: 100}, Consent: ConsentLease,
		}
	}
	d, err := Settle(tool(`{"type":"object","additionalProperties":false,"properties":{"lazy":{"type":"integer","maximum":77}}}`))
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.schemas()
	if err != nil {
		t.Fatal(err)
	}
	if _, compiled := held.all[c.input.key]; compiled {
		t.Error("it was compiled before it was called")
	}
	if _, bad, err := d.SplitArgs([]byte(`{"lazy":78}`)); err != nil || len(bad) != 1 {
		t.Errorf("%v %v", bad, err)
	}
	if _, compiled := held.all[c.input.key]; !compiled {
		t.Error("its first call did not keep what it compiled")
	}
	for _, bad := range []string{
		`{"type":"object"}`, `{"type":"object","additionalProperties":false,"properties":{"a":{"type":"thing"}}}`,
		`{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string","maxLength":1,"pattern":"("}}}`,
		`{"type":"object","additionalProperties":false,"properties":{"a":{"type":"integer","maximum":1,"default":2}}}`,
	} {
		if _, err := Settle(tool(bad)); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

// FuzzSplitArgs: no panic; what passes is canonical, passes again unchanged, has
// no routing field left, and is never given beside a violation.
func FuzzSplitArgs(f *testing.F) {
	c, err := Embedded()
	if err != nil {
		f.Fatal(err)
	}
	all := c.All()
	for i, d := range all {
		for _, e := range d.Examples {
			f.Add(uint8(i), []byte(e.Args))
		}
	}
	f.Add(uint8(0), []byte(`{"node_id":"n1","timeout_ms":5}`))
	f.Fuzz(func(t *testing.T, which uint8, raw []byte) {
		d := all[int(which)%len(all)]
		args, bad, err := d.SplitArgs(raw)
		if err != nil || bad != nil {
			if args.Canonical != nil || (err != nil && bad != nil) || len(bad) > maxViolations {
				t.Fatalf("%s %q: %s %v %v", d.Tool, raw, args.Canonical, bad, err)
			}
			return
		}
		if args.Timeout <= 0 || args.Timeout > d.Limits.MaxTimeout() {
			t.Fatalf("%s %q: timeout %v", d.Tool, raw, args.Timeout)
		}
		v, err := canonical.Decode(args.Canonical, canonical.Limits{})
		if err != nil || v.Kind != canonical.Object || string(v.Append(nil)) != string(args.Canonical) {
			t.Fatalf("%s: %q is not canonical: %v", d.Tool, args.Canonical, err)
		}
		if _, ok := v.Get(nodeField); ok {
			t.Fatalf("%s: %q holds the node", d.Tool, args.Canonical)
		}
		again, bad, err := d.SplitArgs(args.Canonical)
		if err != nil || bad != nil || string(again.Canonical) != string(args.Canonical) || again.NodeID != "" {
			t.Fatalf("%s: %q does not pass again: %v %v", d.Tool, args.Canonical, bad, err)
		}
		for name := range d.EvidenceArgs(args.Canonical) {
			for _, secret := range d.Evidence.Secret {
				if evidenceName(secret) == name {
					t.Fatalf("%s would record %s", d.Tool, secret)
				}
			}
		}
	})
}

// A list that is far too long costs no more than its bound: the library makes an error for
// each item that it looks at.
func TestLongListsCostLittle(t *testing.T) {
	const items = 100_000
	result := []byte(`{"windows":[` + strings.Repeat("1,", items) + `1]}`)
	d := mustGet(t, "tool.desktop.snapshot")
	var bad []Violation
	n := testing.AllocsPerRun(1, func() { bad = d.ValidateResult(result) })
	if len(bad) == 0 || n > items/2 {
		t.Errorf("%v allocations for %v", n, bad)
	}
}
