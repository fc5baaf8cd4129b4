package provider

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// writeText is a provider for people.
func writeText(out io.Writer, p *api.Provider) {
	if p.Host == "" {
		fmt.Fprintf(out, "%s (%s)\n", terminal.Plain(p.Name), terminal.Plain(p.Kind))
	} else {
		fmt.Fprintf(out, "%s (%s) on %s\n", terminal.Plain(p.Name), terminal.Plain(p.Kind), terminal.Plain(string(p.Host)))
	}
	if len(p.Command) > 0 {
		fmt.Fprintf(out, "  runs %s\n", shellWords(p.Command))
	}
	if p.URL != "" {
		word := "calls"
		if p.Kind == "openapi" {
			word = "is described by"
		}
		fmt.Fprintf(out, "  %s %s\n", word, terminal.Plain(p.URL))
	}
	if p.Server != "" {
		fmt.Fprintf(out, "  calls %s\n", terminal.Plain(p.Server))
	}
	for _, reach := range []struct {
		name string
		list []string
	}{{"reads", p.Read}, {"writes", p.Write}, {"reaches", p.Net}, {"gets", append(slices.Clone(p.Env), p.Headers...)}} {
		if len(reach.list) > 0 {
			fmt.Fprintf(out, "  %s %s\n", reach.name, terminal.Plain(strings.Join(reach.list, ", ")))
		}
	}
	t := terminal.NewTable(out, "TOOL", "STATE", "AGENTS", "LOOK AT", "WHAT IT SAYS OF ITSELF")
	waits := 0
	for _, tool := range p.Tools {
		effect := tool.Effect
		if tool.State == "draft" || tool.State == "review" {
			effect = "proposed: " + tool.Proposal
			waits++
		}
		look := strings.Join(tool.Flags, ", ")
		if look == "" {
			look = "-"
		}
		t.Row(string(tool.Tool), tool.State, effect, look, capabilities.Brief(tool.Description, 60))
	}
	t.Flush()
	for i := range p.Tools {
		if t := &p.Tools[i]; t.State == "draft" || t.State == "review" {
			writeLook(out, p.Kind, t)
		}
	}
	if p.Rules != "" {
		when := "the rules in force by its approval"
		if waits > 0 {
			when = "the rules that its approval puts in force"
		}
		fmt.Fprintf(out, "\n%s (provider-%s.cedar):\n", when, terminal.Plain(p.Name))
		writeRules(out, p.Rules)
		fmt.Fprintln(out)
	}
	if !p.Ready && p.Reason != "" {
		fmt.Fprintf(out, "not ready: %s. %s\n", stateWord(p.Reason), terminal.Plain(p.Fix))
		if p.Reason == capabilities.ReasonNeedsSignIn {
			fmt.Fprintf(out, "sign in: handrail provider sign-in %s\n", terminal.Plain(p.Name))
		}
	}
	for _, r := range p.Refused {
		fmt.Fprintf(out, "refused: %s: %s\n", terminal.Plain(r.Upstream), terminal.Plain(r.Reason))
	}
	for _, t := range p.Tried {
		if t.Flag != "" {
			fmt.Fprintf(out, "tried %s; allow it with %s\n", terminal.Plain(t.Target), terminal.Plain(t.Flag))
		} else {
			fmt.Fprintf(out, "tried %s, which may not be reached: %s\n", terminal.Plain(t.Target), terminal.Plain(t.Why))
		}
	}
	if waits > 0 {
		fmt.Fprintf(out, "%d to look at: handrail provider approve %s\n", waits, terminal.Plain(p.Name))
	}
}

// shownActions is how many tools of a rule are shown, if it names more than one more.
const shownActions = 12

// writeRules is Cedar for people. Of a rule about many tools it shows the first: which tools are
// allowed and which ask stands beside each of them.
func writeRules(out io.Writer, rules string) {
	lines := slices.Collect(strings.Lines(rules))
	action := func(line string) bool { return strings.HasPrefix(line, "  Action::") }
	for i := 0; i < len(lines); i++ {
		named := 0
		for i+named < len(lines) && action(lines[i+named]) {
			named++
		}
		if more := named - shownActions; more > 1 {
			for _, line := range lines[i : i+shownActions] {
				fmt.Fprintf(out, "  %s\n", terminal.Plain(strings.TrimRight(line, "\n")))
			}
			fmt.Fprintf(out, "    // and %d more of the tools above\n", more)
			i += named - 1
			continue
		}
		fmt.Fprintf(out, "  %s\n", terminal.Plain(strings.TrimRight(lines[i], "\n")))
	}
}

// writeLook is what an approval of a tool lets run, and all that the tool says of itself: no end of
// a line hides a part.
func writeLook(out io.Writer, kind string, t *api.ProviderTool) {
	fmt.Fprintf(out, "\n%s\n", terminal.Plain(string(t.Tool)))
	if len(t.Argv) > 0 {
		if kind == "openapi" {
			fmt.Fprintf(out, "  sends %s\n", terminal.Plain(strings.Join(t.Argv, " ")))
		} else {
			fmt.Fprintf(out, "  runs %s\n", shellWords(t.Argv))
		}
	}
	for _, step := range t.Plan {
		fmt.Fprintf(out, "  step %s\n", terminal.Plain(step))
	}
	for _, line := range wrapped(terminal.Plain(t.Description), 96) {
		fmt.Fprintf(out, "  %s\n", line)
	}
}

// shellWords is a command as a shell would read it.
func shellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = command.Word(runtime.GOOS, terminal.Plain(w))
	}
	return strings.Join(quoted, " ")
}

// wrapped is a text in lines of at most most characters; a word that is longer has one of its own.
func wrapped(text string, most int) (lines []string) {
	line, n := "", 0
	for _, word := range strings.Fields(text) {
		length := utf8.RuneCountInString(word)
		if n > 0 && n+1+length > most {
			lines = append(lines, line)
			line, n = "", 0
		}
		if n > 0 {
			line, n = line+" ", n+1
		}
		line, n = line+word, n+length
	}
	if n > 0 {
		lines = append(lines, line)
	}
	return lines
}
