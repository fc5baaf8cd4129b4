package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
)

// -args -recorded FILE measures what models read of recorded calls (suite/browser -record) in
// both forms, by the tokenizer o200k of the npm package gpt-tokenizer below HANDRAIL_CONFORMANCE.
var recordedFile = flag.String("recorded", "", "results that suite/browser kept by -record")

// tokenizer counts the tokens of each string of a JSON list.
const tokenizer = `const {countTokens} = require(process.argv[1] + '/gpt-tokenizer/cjs/encoding/o200k_base.js');
let text = ''; process.stdin.on('data', d => text += d).on('end', () =>
	console.log(JSON.stringify(JSON.parse(text).map(s => countTokens(s, {disallowedSpecial: new Set()})))));`

func TestTokens(t *testing.T) {
	if *recordedFile == "" {
		t.Skip("a measurement: make bench-tokens")
	}
	file, err := os.Open(*recordedFile)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var tools, structured, plain []string
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var message struct {
			Result struct {
				Content []struct {
					Type, Text string
				} `json:"content"`
				Structured json.RawMessage            `json:"structuredContent"`
				Meta       map[string]json.RawMessage `json:"_meta"`
				IsError    bool                       `json:"isError"`
			} `json:"result"`
		}
		if err := json.Unmarshal(lines.Bytes(), &message); err != nil {
			t.Fatal(err)
		}
		var about callMeta
		if err := json.Unmarshal(message.Result.Meta[metaCall], &about); err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, c := range message.Result.Content {
			if c.Type == "text" {
				texts = append(texts, c.Text)
			}
		}
		r := &capabilities.Result{Tool: about.Tool, Status: capabilities.StatusOK, Output: message.Result.Structured,
			Effect: about.Effect, Evidence: about.Evidence, Untrusted: about.Untrusted}
		if message.Result.IsError {
			continue // the same text in both
		}
		var now []string
		for _, c := range project(r, true).Content {
			if c, ok := c.(*sdk.TextContent); ok {
				now = append(now, c.Text)
			}
		}
		tools = append(tools, string(about.Tool))
		structured = append(structured, strings.Join(texts, "\n"))
		plain = append(plain, strings.Join(now, "\n"))
	}
	if err := lines.Err(); err != nil || len(tools) == 0 {
		t.Fatalf("%d calls: %v", len(tools), err)
	}
	type sum struct{ calls, structured, plain int }
	sums := map[string]sum{}
	before, after := countTokens(t, structured), countTokens(t, plain)
	for i, tool := range tools {
		for _, name := range []string{tool, "all"} {
			s := sums[name]
			sums[name] = sum{s.calls + 1, s.structured + before[i], s.plain + after[i]}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		s := sums[name]
		fmt.Printf("%-36s %5d calls  %7d tokens structured  %7d plain  %+.0f %%\n", name, s.calls, s.structured, s.plain, 100*float64(s.plain-s.structured)/float64(s.structured))
	}
}

func countTokens(t *testing.T, texts []string) []int {
	modules := filepath.Join(os.Getenv("HANDRAIL_CONFORMANCE"), "node_modules")
	in, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "-e", tokenizer, modules)
	cmd.Stdin = bytes.NewReader(in)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var counts []int
	if err := json.Unmarshal(out, &counts); err != nil || len(counts) != len(texts) {
		t.Fatalf("%v: %d counts of %d texts", err, len(counts), len(texts))
	}
	return counts
}
