package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/suite"
	"github.com/handrail-dev/handrail/suite/browser"
	"github.com/handrail-dev/handrail/test/bench/figures"
)

// The comparison stands between these lines of a document.
const beginPeers, endPeers = "<!-- peers -->", "<!-- end of peers -->"

// side is what one of two did with the same behaviours.
type side struct {
	called   string
	outcomes map[string]suite.Outcome
	calls    map[string][]*suite.Call // but for the judge's own questions
}

// texts are what a model reads of the answers.
func (s *side) texts(id string) []string {
	list := make([]string, 0, len(s.calls[id]))
	for _, c := range s.calls[id] {
		list = append(list, c.Text)
	}
	return list
}

// sampled returns every n-th behaviour by ID: nobody chose them.
func sampled(chosen []*suite.Behaviour, n int) []*suite.Behaviour {
	if n <= 1 {
		return chosen
	}
	var part []*suite.Behaviour
	for i, b := range chosen {
		if i%n == 0 {
			part = append(part, b)
		}
	}
	return part
}

// compare has the same behaviours done by us and by the peer, one whole after the other.
func compare(ctx context.Context, o options, chosen []*suite.Behaviour) error {
	if o.figures != "" {
		if err := figures.Check(o.figures, beginPeers, endPeers); err != nil {
			return err
		}
	}
	peer, err := peerVersion(o.peer)
	if err != nil {
		return err
	}
	chosen = slices.DeleteFunc(sampled(chosen, o.sample), func(b *suite.Behaviour) bool { return strings.HasSuffix(b.ID, ".covered") })
	ours, theirs := side{called: "Handrail"}, side{called: peer}
	for _, s := range []*side{&ours, &theirs} {
		b := o.browser(chosen)
		s.outcomes, s.calls = map[string]suite.Outcome{}, map[string][]*suite.Call{}
		b.Untraced = true
		b.Called = func(id string, c *suite.Call) {
			if c.Tool != "evaluate" {
				s.calls[id] = append(s.calls[id], c)
			}
		}
		b.Done = func(x suite.Outcome) {
			s.outcomes[x.ID] = x
			fmt.Printf("%s %d/%d  %-7s %6d ms  %s  %.160s\n", s.called, len(s.outcomes), len(chosen), x.Status,
				x.Duration.Milliseconds(), x.ID, firstLine(x.Error))
		}
		if s == &theirs {
			b.Open = openPlaywright(o.peer)
		}
		if _, err := browser.Run(ctx, b); err != nil {
			return err
		}
	}
	tell := told
	if o.of == "tasks" {
		tell = toldTasks
	}
	text, err := tell(chosen, ours, theirs, o.peer)
	if err != nil {
		return err
	}
	fmt.Print(text)
	if o.figures == "" {
		return nil
	}
	return figures.Save(o.figures, beginPeers, endPeers, []byte(text))
}

func firstLine(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	return first
}

// unnamed reports that the steps found no line with their words in the peer's outline. Those are
// our outline's words: such a failure says nothing of what the peer can do.
func unnamed(x suite.Outcome) bool {
	return strings.HasPrefix(x.Error, "no ref on a line with") || strings.HasPrefix(x.Error, "no line with")
}

// told words the comparison.
func told(chosen []*suite.Behaviour, ours, theirs side, folder string) (string, error) {
	var out strings.Builder
	fmt.Fprintf(&out, "Measured on %s, %s. %d behaviours.\n\n", time.Now().UTC().Format("2006-01-02"), figures.Machine(), len(chosen))
	out.WriteString("| | passed | failed | words not found | no tool | seconds of all that both passed | tokens of all that both passed |\n")
	out.WriteString("|---|---|---|---|---|---|---|\n")
	both := map[string]bool{}
	for _, b := range chosen {
		both[b.ID] = ours.outcomes[b.ID].Status == suite.Passed && theirs.outcomes[b.ID].Status == suite.Passed
	}
	for _, s := range []side{ours, theirs} {
		var passed, failed, words, lacks int
		var took time.Duration
		var texts []string
		for _, b := range chosen {
			switch x := s.outcomes[b.ID]; {
			case x.Status == suite.Passed:
				passed++
			case unnamed(x):
				words++
			case strings.Contains(x.Error, errNoTool.Error()):
				lacks++
			default:
				failed++
			}
			if both[b.ID] {
				took += s.outcomes[b.ID].Duration
				texts = append(texts, s.texts(b.ID)...)
			}
		}
		tokens, err := countTokens(folder, texts)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "| %s | %d | %d | %d | %d | %.1f | %d |\n", s.called, passed, failed, words, lacks, took.Seconds(), tokens)
	}
	fmt.Fprintf(&out, "\n| behaviour | %s | %s |\n|---|---|---|\n", ours.called, theirs.called)
	for _, b := range chosen {
		fmt.Fprintf(&out, "| `%s` | %s | %s |\n", b.ID, ended(ours.outcomes[b.ID]), ended(theirs.outcomes[b.ID]))
	}
	return out.String(), nil
}

// ended is how a behaviour ended, in a cell.
func ended(x suite.Outcome) string {
	switch {
	case x.Status == suite.Passed:
		return "passed"
	case unnamed(x):
		return "words not found"
	case strings.Contains(x.Error, errNoTool.Error()):
		return "no tool"
	}
	return "**fails**"
}

// tokenizer counts the tokens of a JSON list of strings.
const tokenizer = `const {countTokens} = require(process.argv[1] + '/gpt-tokenizer/cjs/encoding/o200k_base.js')
let text = ''; process.stdin.on('data', d => text += d).on('end', () =>
	console.log(JSON.parse(text).reduce((n, s) => n + countTokens(s, {disallowedSpecial: new Set()}), 0)))`

// countTokens counts by o200k, of the npm package gpt-tokenizer that lies beside the peer.
func countTokens(folder string, texts []string) (n int, err error) {
	in, err := json.Marshal(append([]string{}, texts...))
	if err != nil {
		return 0, err
	}
	cmd := exec.Command("node", "-e", tokenizer, filepath.Join(folder, "node_modules"))
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("gpt-tokenizer: %w", err)
	}
	return n, json.Unmarshal(out, &n)
}
