package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// An answer beyond all bounds, in no UTF-8, or nested 10,000 deep has its exact code or comes as it
// can be read, of whichever kind the provider is. Nothing ends of it, and no other provider is
// delayed.
func TestProvidersThatAnswerBadly(t *testing.T) {
	t.Parallel()
	providersAnswerBadly(t, "mcp huge", "mcp broken", "url nested", "cmd deep", "cmd latin", "sat endless", "api huge", "api latin")
}

// Every kind of provider has every kind of answer that it can have.
func TestProvidersThatAnswerBadlyAtLength(t *testing.T) {
	t.Parallel()
	providersAnswerBadly(t)
}

// providersAnswerBadly tries the cases of those names; none: all.
func providersAnswerBadly(t *testing.T, only ...string) {
	b := newBuilt(t, "")
	const ok, failed, large = capabilities.Code(""), capabilities.CodeExecutionFailed, capabilities.CodeResultTooLarge
	readable := `caf\ufffd`
	for _, c := range []struct {
		tool, what string
		code       capabilities.Code
		says       string // in the output, or in the message
	}{
		{"mcp", "huge", large, "524288 bytes"},
		{"mcp", "endless", failed, ""},
		{"mcp", "deep", failed, ""}, // deeper than any decoder goes: no answer
		{"mcp", "nested", large, "structured"},
		{"mcp", "latin", ok, readable},
		{"mcp", "broken", failed, ""},
		{"url", "huge", large, "524288 bytes"},
		{"url", "deep", failed, ""},
		{"url", "nested", large, "structured"},
		{"url", "latin", ok, readable},
		{"url", "broken", failed, ""},
		{"cmd", "huge", large, "1048576 bytes"},
		{"cmd", "endless", large, "1048576 bytes"},
		{"cmd", "deep", failed, "no JSON"},
		{"cmd", "latin", ok, readable},
		{"sat", "huge", large, "1048576 bytes"},
		{"sat", "endless", large, "1048576 bytes"},
		{"sat", "deep", failed, "no JSON"},
		{"sat", "latin", ok, readable},
		{"api", "huge", large, "524288 bytes"},
		{"api", "deep", ok, "[[[["},
		{"api", "latin", ok, readable},
	} {
		if len(only) > 0 && !slices.Contains(only, c.tool+" "+c.what) {
			continue
		}
		t.Run(c.tool+" "+c.what, func(t *testing.T) {
			b.t = t
			r := b.call("tool."+c.tool+"."+c.what, "{}", "")
			said := r.Message
			if r.Code == "" {
				said = string(r.Output)
			}
			if r.Code != c.code || !strings.Contains(said, c.says) && !strings.Contains(said, strings.ReplaceAll(c.says, `\ufffd`, "\uFFFD")) {
				t.Errorf("%s %.300q, want %q and %q", r.Code, said, c.code, c.says)
			}
			if c.code == "" && !r.Untrusted {
				t.Error("it is trusted")
			}
			if kinds, _ := b.packets(r.Call); len(kinds) != 4 {
				t.Errorf("the ledger has %q", kinds)
			}
			if r := b.call("tool.good.say", "{}", ""); r.Status != capabilities.StatusOK {
				t.Errorf("the good one: %s %s", r.Code, r.Message)
			}
			b.await("it to answer again", func() bool { return b.call("tool."+c.tool+".say", "{}", "").Status == capabilities.StatusOK })
		})
	}
}
