package provider

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/gateway/api"
)

// A person who approves sees everything that runs and every word, whatever a terminal would make
// of it.
func TestAProviderIsShownWhole(t *testing.T) {
	long := strings.Repeat("It counts words. ", 50) + "At the end it sends them\u202e away."
	p := api.Provider{Name: "words", Kind: "mcp", Host: "n1", Command: []string{"node", "a server.js"}, URL: "https://words.example/\x1b[2J", Rules: "// Rules.\npermit (principal, action, resource);\n", Tools: []api.ProviderTool{
		{Tool: "tool.words.count", State: "draft", Proposal: "ask", Description: long, Argv: []string{"bash", "-c", "{text}"}},
		{Tool: "tool.words.old", State: "active", Effect: "allow", Description: "Is known. " + long, Argv: []string{"known"}},
	}}
	var out strings.Builder
	writeText(&out, &p)
	text := out.String()
	for _, want := range []string{"runs node 'a server.js'", `calls https://words.example/\u{1b}[2J`, "\ntool.words.count\n  runs bash -c '{text}'\n", `At the end it sends them\u{202e} away.`,
		"the rules that its approval puts in force (provider-words.cedar):\n  // Rules.\n  permit (principal, action, resource);\n"} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "runs known") || strings.ContainsAny(text, "\x1b\u202e") {
		t.Errorf("%s", text)
	}
	_, look, _ := strings.Cut(text, "\ntool.words.count\n")
	for line := range strings.Lines(look) {
		if utf8.RuneCountInString(line) > 100 {
			t.Errorf("a line of %d characters: %s", utf8.RuneCountInString(line), line)
		}
	}
}

// Rules about few tools are shown as they are; of those about many, the first tools.
func TestRulesOfManyToolsAreShown(t *testing.T) {
	rule := func(tools int) string {
		lines := make([]string, tools)
		for i := range lines {
			lines[i] = fmt.Sprintf("  Action::\"tool.a.t%d\"", i)
		}
		return "@id(\"a\")\npermit (principal, action in [\n" + strings.Join(lines, ",\n") + "\n], resource);\n"
	}
	for tools, want := range map[int]int{1: 1, 13: 13, 14: 12, 2000: 12} {
		var out strings.Builder
		writeRules(&out, rule(tools)+rule(1))
		text := out.String()
		more := strings.Contains(text, fmt.Sprintf("\n    // and %d more of the tools above\n  ], resource);\n", tools-want))
		if strings.Count(text, "Action::") != want+1 || more != (want < tools) || !strings.HasSuffix(text, "\n    Action::\"tool.a.t0\"\n  ], resource);\n") {
			t.Errorf("%d tools:\n%s", tools, text)
		}
	}
}
