package tooldoc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// typesFile declares what a script of run-code has; make lint has TypeScript check it with an
// example.
const typesFile = "../../docs/run-code.d.ts"

// The declarations are what the catalog says of the tools; they are written with -update.
func TestDeclarationsFitTheCatalog(t *testing.T) {
	made := declarations(t)
	if *update {
		if err := os.WriteFile(typesFile, made, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(typesFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, made) {
		t.Errorf("docs/run-code.d.ts is not what the catalog says; go test ./test/tooldoc -run Declarations -update\n%s", difference(have, made))
	}
}

// lone are the fields that a lone text stands for (capabilities/browser/script/api.js).
var lone = map[string]string{
	"navigate": "url", "evaluate": "expression", "press-key": "key", "click": "selector", "hover": "selector", "snapshot": "selector",
	"screenshot": "selector",
}

func declarations(t *testing.T) []byte {
	var b bytes.Buffer
	b.WriteString(`// What a script of tool.browser.run-code has. Made from the catalog: go test ./test/tooldoc -run Declarations -update

/** What a step returns: its tool's answer, which may be awaited, with what was seen of its effect. */
type Step<T> = T & PromiseLike<T> & { effect?: "confirmed" | "unverifiable" | "suspected_noop" | "partial"; evidence?: string };

interface Page {
  /** The ref of the one element that is called so, and has that role if one is given. */
  ref(name: string, role?: string): string;
  /** Ends the script where ok does not hold, and says what was expected. */
  expect(ok: unknown, what: string): void;
  /** Keeps a value: the details of an error have it under kept. */
  keep<T>(name: string, value: T): T;
`)
	for _, d := range tools(t).All() {
		if d.Tool.Family() != "browser" || !d.Step {
			continue
		}
		action := d.Tool.Action()
		args := shape(t, d.Input)
		from := typeOf(args, args, "  ")
		if lone[action] != "" {
			from = "string | " + from
		}
		if action == "evaluate" {
			from = "(() => unknown) | " + from
		}
		optional := "?"
		if required, _ := args["required"].([]any); len(required) > 0 {
			optional = ""
		}
		answer := "any"
		if action != "evaluate" {
			result := shape(t, d.Result)
			answer = "Step<" + typeOf(result, result, "  ") + ">"
		}
		fmt.Fprintf(&b, "  /** %s */\n  %s(args%s: %s): %s;\n", comment(d), camel(action), optional, from, answer)
	}
	b.WriteString(`}

declare const page: Page;
declare const console: Record<"log" | "info" | "debug" | "warn" | "error", (...values: unknown[]) => void>;
declare function setTimeout(run: (...rest: any[]) => void, ms?: number, ...rest: any[]): number;
declare function clearTimeout(id: number): void;
`)
	return b.Bytes()
}

// comment is a tool's description in a comment.
func comment(d *catalog.Descriptor) string { return strings.ReplaceAll(d.Description, "*/", "* /") }

func camel(action string) string {
	return regexp.MustCompile(`-[a-z]`).ReplaceAllStringFunc(action, func(s string) string { return strings.ToUpper(s[1:]) })
}

func shape(t *testing.T, schema json.RawMessage) (s map[string]any) {
	t.Helper()
	if err := json.Unmarshal(schema, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// typeOf is a JSON Schema as TypeScript has it; the tool checks what TypeScript has no word for.
func typeOf(s, root map[string]any, indent string) string {
	if ref, _ := s["$ref"].(string); ref != "" {
		defs, _ := root["$defs"].(map[string]any)
		if d, ok := defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any); ok {
			return typeOf(d, root, indent)
		}
		return "any"
	}
	if list, ok := s["enum"].([]any); ok {
		var all []string
		for _, v := range list {
			raw, _ := json.Marshal(v)
			all = append(all, string(raw))
		}
		return strings.Join(all, " | ")
	}
	switch kind := s["type"].(type) {
	case []any:
		var all []string
		for _, k := range kind {
			one := maps.Clone(s)
			one["type"] = k
			all = append(all, typeOf(one, root, indent))
		}
		return strings.Join(all, " | ")
	case string:
		switch kind {
		case "string", "boolean", "null":
			return kind
		case "integer", "number":
			return "number"
		case "array":
			items, _ := s["items"].(map[string]any)
			return "Array<" + typeOf(items, root, indent) + ">"
		case "object":
			return members(s, root, indent)
		}
	}
	return "any"
}

func members(s, root map[string]any, indent string) string {
	properties, _ := s["properties"].(map[string]any)
	if len(properties) == 0 {
		if values, ok := s["additionalProperties"].(map[string]any); ok {
			return "Record<string, " + typeOf(values, root, indent) + ">"
		}
		return "{}"
	}
	required, _ := s["required"].([]any)
	var all []string
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		of, _ := properties[name].(map[string]any)
		mark := "?"
		if slices.Contains(required, any(name)) {
			mark = ""
		}
		all = append(all, name+mark+": "+typeOf(of, root, indent))
	}
	return "{ " + strings.Join(all, "; ") + " }"
}
