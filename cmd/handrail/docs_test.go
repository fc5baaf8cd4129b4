package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
)

// Documents and hints must name only what exists. The commands live here, so the
// test does too; the import rules are in test/arch.

// cited finds commands in text: in code spans and code blocks of documents,
// between single quotes in hints and messages.
var (
	span  = regexp.MustCompile("`((?:\\$ )?handrail [^`\n]+)`")
	quote = regexp.MustCompile(`'(handrail [^'\n]+)'`)
	block = regexp.MustCompile(`(?m)^\s*(?:\$ |sudo )?((?:bin/)?handrail [^\n#|&;]+)`)
	fence = regexp.MustCompile("(?s)```[a-z]*\n(.*?)```")
	names = regexp.MustCompile(`\b(tool|tyrum)\.([a-z]+(?:\.[a-z][a-z0-9-]*)+)`)
)

func citations(file, text string) []string {
	var all []string
	add := func(r *regexp.Regexp, text string) {
		for _, m := range r.FindAllStringSubmatch(text, -1) {
			all = append(all, strings.TrimSpace(strings.TrimPrefix(m[1], "$ ")))
		}
	}
	if strings.HasSuffix(file, ".go") {
		add(quote, text)
		return all
	}
	add(span, text)
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		add(block, m[1])
	}
	return all
}

// checkCommand reports what is wrong with a cited command line: a command or a
// flag that does not exist. Words in capitals, in angle brackets or after the
// command are placeholders or arguments.
func checkCommand(root *cobra.Command, line string) error {
	cmd := root
	words := strings.Fields(line)[1:]
	inArgs := false
	for i, word := range words {
		if word == "--" { // the rest is a command of its own, which may be ours
			rest := words[i+1:]
			if len(rest) == 0 || filepath.Base(rest[0]) != "handrail" {
				return nil
			}
			return checkCommand(root, strings.Join(rest, " "))
		}
		word = strings.Trim(word, "[](),.:…\"")
		switch {
		case word == "" || word == "\\":
		case strings.HasPrefix(word, "-"):
			name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
			if name == "" {
				continue // a lone dash: standard input
			}
			if cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil && name != "help" && name != "h" {
				return fmt.Errorf("%q has no flag --%s", cmd.CommandPath(), name)
			}
			inArgs = true // what follows may be the flag's value
		case inArgs:
		case strings.Contains(word, "|"):
			for one := range strings.SplitSeq(word, "|") {
				if find(cmd, one) == nil {
					return fmt.Errorf("%q has no command %q", cmd.CommandPath(), one)
				}
			}
			inArgs = true
		default:
			if sub := find(cmd, word); sub != nil {
				cmd = sub
				continue
			}
			if cmd.HasSubCommands() && strings.ToLower(word) == word && cmd.Args != nil && cmd.Args(cmd, []string{word}) != nil {
				return fmt.Errorf("%q has no command %q", cmd.CommandPath(), word)
			}
			inArgs = true
		}
	}
	return nil
}

func find(cmd *cobra.Command, name string) *cobra.Command {
	for _, sub := range cmd.Commands() {
		if sub.Name() == name || sub.HasAlias(name) {
			return sub
		}
	}
	return nil
}

func completeTree() *cobra.Command {
	root := newRootCmd()
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	return root
}

// eachText calls do with every document and Go file of the project.
func eachText(t *testing.T, do func(name, text string)) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, file)
		name = filepath.ToSlash(name)
		if d.IsDir() {
			if d.Name() != ".." && strings.HasPrefix(d.Name(), ".") && name != "." && name != ".ci" || name == "bin" || name == "dist" {
				return fs.SkipDir
			}
			return nil
		}
		switch filepath.Ext(name) {
		case ".go", ".md", ".json", ".txtar", ".cedar", ".yaml", ".yml", "":
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			do(name, string(data))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDocumentsNameOnlyCommandsThatExist(t *testing.T) {
	root := completeTree()
	count := 0
	eachText(t, func(name, text string) {
		if !strings.HasSuffix(name, ".md") && !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return
		}
		for _, line := range citations(name, text) {
			count++
			if err := checkCommand(root, line); err != nil {
				t.Errorf("%s: `%s`: %v", name, line, err)
			}
		}
	})
	if count < 20 {
		t.Errorf("only %d commands found in the documents and hints: the search is broken", count)
	}
	for line, ok := range map[string]bool{
		"handrail up --json":                        true,
		"handrail node approve NODE --trust owner":  true,
		"handrail node|nodes":                       true,
		"handrail ledger show|export":               true,
		"handrail ledger burn":                      false,
		"handrail nosuch":                           false,
		"handrail nodes --nosuch":                   false,
		"handrail node|nosuch":                      false,
		"handrail call tool.browser.click --args -": true,
		"handrail completion bash":                  true,
		"handrail ci -- npm test --anything":        true,
		"handrail ci -- handrail nodes --json":      true,
		"handrail ci -- handrail nodes --nosuch":    false,
		"handrail ci --nosuch -- npm test":          false,
	} {
		if err := checkCommand(root, line); (err == nil) != ok {
			t.Errorf("checkCommand(%q) = %v, want no error: %v", line, err, ok)
		}
	}
}

func TestDocumentsNameOnlyToolsThatExist(t *testing.T) {
	tools, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	eachText(t, func(name, text string) {
		if !strings.HasSuffix(name, ".md") {
			return
		}
		for _, m := range names.FindAllStringSubmatch(text, -1) {
			if strings.HasPrefix(m[2], "call.") || strings.HasPrefix(m[2], "select.") {
				continue // kinds of packets (S4-34)
			}
			if family, _, _ := strings.Cut(m[2], "."); slices.Contains([]string{"words", "files", "petstore", "playwright", "macro", "voice", "image", "text", "sub-agent"}, family) {
				continue // providers of docs/providers.md and docs/satellites.md, macros of docs/macros.md, sub-agents of docs/worker.md
			}
			if m[2] == "web.search" {
				continue // a provider brings it, or there is no search (docs/worker.md)
			}
			id := capabilities.ToolID("tool." + m[2])
			d, ok := tools.Get(id)
			if !ok || (m[1] == "tyrum" && d.Capability == "") {
				t.Errorf("%s names %s, which is not in the catalog", name, m[0])
			}
		}
	})
}

// S0-45: nothing tells an agent to use a generic node call. A line that cites the
// rule may name one, and so may a test that has it refused.
func TestNothingNamesGenericNodeCalls(t *testing.T) {
	forbidden := []string{"node." + "dispatch", "node." + "inspect", "node_" + "dispatch", "node_" + "inspect"}
	eachText(t, func(name, text string) {
		lines := strings.Split(text, "\n")
		for i, line := range lines {
			around := line
			if strings.HasSuffix(name, "_test.go") {
				around = strings.Join(lines[i:min(len(lines), i+4)], "\n")
			}
			for _, f := range forbidden {
				if strings.Contains(line, f) && !strings.Contains(line, "S0-08") && !strings.Contains(line, "S0-45") && !(around != line && strings.Contains(around, "UnknownTool")) {
					t.Errorf("%s:%d names %s (S0-45)", name, i+1, f)
				}
			}
		}
	})
}

// docs/cli.md is the contract scripts rely on: it names every command, every
// flag of it, and every exit code.
func TestCLIDocumentIsWhole(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			if sub.Hidden || sub.Name() == "help" || (cmd.Name() == "completion" && cmd.HasParent()) {
				continue
			}
			heading := regexp.MustCompile("(?m)^#+ .*`" + regexp.QuoteMeta(sub.CommandPath()) + `\b`)
			at := heading.FindStringIndex(text)
			if at == nil {
				t.Errorf("docs/cli.md has no heading for `%s`", sub.CommandPath())
			} else {
				section := text[at[1]:]
				if end := regexp.MustCompile(`(?m)^#+ `).FindStringIndex(section); end != nil {
					section = section[:end[0]]
				}
				for _, f := range localFlags(sub) {
					if !strings.Contains(section, "--"+f) {
						t.Errorf("docs/cli.md: the section of `%s` does not name --%s", sub.CommandPath(), f)
					}
				}
			}
			walk(sub)
		}
	}
	walk(completeTree())
	for _, code := range []int{terminal.ExitOK, terminal.ExitFailed, terminal.ExitUsage, terminal.ExitDenied, terminal.ExitUnreachable, terminal.ExitForbidden, terminal.ExitPending, terminal.ExitIntegrity, terminal.ExitInterrupted} {
		if !strings.Contains(text, fmt.Sprintf("| %d |", code)) {
			t.Errorf("docs/cli.md does not list exit code %d", code)
		}
	}
}

func localFlags(cmd *cobra.Command) []string {
	var all []string
	for line := range strings.Lines(cmd.LocalNonPersistentFlags().FlagUsages()) {
		if m := regexp.MustCompile(`--([a-z-]+)`).FindStringSubmatch(line); m != nil && m[1] != "help" {
			all = append(all, m[1])
		}
	}
	return all
}
