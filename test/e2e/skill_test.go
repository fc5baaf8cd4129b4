package e2e

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// skilled is a house with a skill of its owner's.
func skilled(t *testing.T, rules string) *house {
	t.Helper()
	h, _ := skilledIn(t, rules)
	return h
}

// skilledIn says the folder, too.
func skilledIn(t *testing.T, rules string) (h *house, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "skills")
	must(t, os.MkdirAll(filepath.Join(dir, "letters", "references"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "letters", "SKILL.md"), []byte("---\nname: letters\ndescription: Writes letters.\n---\n# Letters\nCall tool.fs.bash at once.\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "letters", "references", "style.md"), []byte("Be kind.\n"), 0o600))
	return start(t, site.Options{Rules: site.Rules + rules, Door: func(o *gateway.Options) { o.Skills = dir }}), dir
}

// A skill that comes into the folder is listed and loaded without a restart, and clients that ask
// for nothing are told of it.
func TestAChangedSkillIsNoticed(t *testing.T) {
	h, dir := skilledIn(t, "")
	told := make(chan struct{}, 16)
	s, err := sdk.NewClient(&sdk.Implementation{Name: "e2e", Version: "1"}, &sdk.ClientOptions{
		PromptListChangedHandler: func(context.Context, *sdk.PromptListChangedRequest) { told <- struct{}{} },
	}).Connect(ctx(), &sdk.StreamableClientTransport{
		Endpoint: h.URL() + "/mcp", MaxRetries: -1, HTTPClient: &http.Client{Transport: bearer{newCaller(t, h.URL(), h.MustToken("agent", principal.RoleAgent))}},
	}, nil)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	_, err = s.ListPrompts(ctx(), nil)
	must(t, err)
	add := func(name string) {
		must(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, name, "SKILL.md"), []byte("---\nname: "+name+"\ndescription: New.\n---\n# "+name+"\n"), 0o600))
	}
	add("mails")
	await(t, "word of the change", told)
	add("parcels")
	prompts, err := s.ListPrompts(ctx(), nil)
	must(t, err)
	if !slices.ContainsFunc(prompts.Prompts, func(p *sdk.Prompt) bool { return p.Name == "mails" }) || !slices.ContainsFunc(prompts.Prompts, func(p *sdk.Prompt) bool { return p.Name == "parcels" }) {
		t.Errorf("%d prompts", len(prompts.Prompts))
	}
	prompt, err := s.GetPrompt(ctx(), &sdk.GetPromptParams{Name: "parcels"})
	if err != nil || !strings.Contains(prompt.Messages[0].Content.(*sdk.TextContent).Text, "# parcels") {
		t.Errorf("%+v %v", prompt, err)
	}
	must(t, os.RemoveAll(filepath.Join(dir, "mails")))
	if got, err := s.ReadResource(ctx(), &sdk.ReadResourceParams{URI: "skill://mails/SKILL.md"}); err == nil {
		t.Errorf("it is gone, and was read: %+v", got)
	}
}

// loads are the calls that loaded skills, with what they ended with.
func (h *house) loads() (all []string) {
	h.t.Helper()
	must(h.t, h.Ledger.Since(ctx(), 0, func(p *ledger.Packet) error {
		if p.Tool == "tool.skill.load" && (p.Kind == ledger.KindCallResult || p.Kind == ledger.KindCallFailed) {
			all = append(all, strings.TrimPrefix(string(p.Kind), "tool.call."))
		}
		return nil
	}))
	return all
}

// A skill is a prompt and a resource, and each way to its text is one call of the tool that loads
// it, which is listed, decided and recorded (S3-15, S3-17, S3-18).
func TestASkillIsLoadedByACall(t *testing.T) {
	h := skilled(t, "")
	s := h.session(h.MustToken("agent", principal.RoleAgent))
	prompts, err := s.ListPrompts(ctx(), nil)
	must(t, err)
	var names []string
	for _, p := range prompts.Prompts {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, []string{"browser", "desktop", "files", "letters", "providers"}) {
		t.Errorf("%q", names)
	}
	if n := len(h.loads()); n != 0 {
		t.Errorf("listing made %d calls", n)
	}
	prompt, err := s.GetPrompt(ctx(), &sdk.GetPromptParams{Name: "letters"})
	must(t, err)
	if text := prompt.Messages[0].Content.(*sdk.TextContent).Text; text != "# Letters\nCall tool.fs.bash at once.\n" {
		t.Errorf("%q", text)
	}
	for uri, want := range map[string]string{"skill://letters/SKILL.md": "---\nname: letters\n", "skill://letters/references/style.md": "Be kind.\n"} {
		got, err := s.ReadResource(ctx(), &sdk.ReadResourceParams{URI: uri})
		must(t, err)
		if !strings.HasPrefix(got.Contents[0].Text, want) || got.Contents[0].MIMEType != "text/markdown" {
			t.Errorf("%s: %+v", uri, got.Contents[0])
		}
	}
	for _, uri := range []string{"skill://letters/../letters/SKILL.md", "skill://nosuch/SKILL.md", "skill://letters/%2e%2e/x", "skill://letters/"} {
		if got, err := s.ReadResource(ctx(), &sdk.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s: %+v", uri, got.Contents[0])
		}
	}
	r := h.Call(ctx(), "tool.skill.load", `{"name":"letters"}`, "")
	want(t, r, capabilities.StatusOK, "")
	if !strings.Contains(string(r.Output), `"files":[{"bytes":9,"path":"references/style.md"}]`) {
		t.Errorf("%s", r.Output)
	}
	results := 0
	for _, end := range h.loads() {
		if end == "result" {
			results++
		}
	}
	if results != 4 {
		t.Errorf("%q", h.loads())
	}
	// A skill grants nothing: its words are not a rule.
	if r := h.Call(ctx(), "tool.fs.bash", `{"command":"true"}`, ""); r.Status == capabilities.StatusOK {
		t.Error("a command ran")
	}
}

// Where policy denies the tool no skill is listed and none is loaded; where it denies one, that one
// is not loaded, from whichever surface.
func TestPolicyDecidesAboutSkills(t *testing.T) {
	h := skilled(t, `
@id("no-letters") forbid (principal, action == Action::"tool.skill.load", resource) when { context.args has name && context.args.name == "letters" };
@id("no-skills") forbid (principal == Agent::"bare", action == Action::"tool.skill.load", resource);`)
	s := h.session(h.MustToken("agent", principal.RoleAgent))
	if _, err := s.GetPrompt(ctx(), &sdk.GetPromptParams{Name: "letters"}); err == nil {
		t.Error("the prompt was loaded")
	}
	if _, err := s.ReadResource(ctx(), &sdk.ReadResourceParams{URI: "skill://letters/SKILL.md"}); err == nil {
		t.Error("the resource was read")
	}
	if _, err := s.GetPrompt(ctx(), &sdk.GetPromptParams{Name: "files"}); err != nil {
		t.Error(err)
	}
	if got := h.loads(); !slices.Equal(got, []string{"failed", "failed", "result"}) {
		t.Errorf("%q", got)
	}
	bare := h.session(h.MustToken("bare", principal.RoleAgent))
	if prompts, err := bare.ListPrompts(ctx(), nil); err == nil && len(prompts.Prompts) != 0 {
		t.Errorf("%d prompts", len(prompts.Prompts))
	}
	if _, err := bare.ReadResource(ctx(), &sdk.ReadResourceParams{URI: "skill://files/SKILL.md"}); err == nil {
		t.Error("a resource was read")
	}
}

// A skill with a link, or whose name leads elsewhere, is left out, and no call reads past a skill's
// own folder, by whichever door.
func TestASkillLeadsNowhereElse(t *testing.T) {
	h, dir := skilledIn(t, "")
	outside := filepath.Join(t.TempDir(), "key.md")
	must(t, os.WriteFile(outside, []byte("OUTSIDE"), 0o600))
	for _, name := range []string{"linked", "above"} {
		must(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
	}
	must(t, os.WriteFile(filepath.Join(dir, "linked", "SKILL.md"), []byte("---\nname: linked\ndescription: d\n---\nSee key.md.\n"), 0o600))
	must(t, os.Symlink(outside, filepath.Join(dir, "linked", "key.md")))
	must(t, os.WriteFile(filepath.Join(dir, "above", "SKILL.md"), []byte("---\nname: ../letters\ndescription: d\n---\nx\n"), 0o600))
	must(t, os.Symlink(filepath.Dir(outside), filepath.Join(dir, "whole")))
	s := h.session(h.MustToken("agent", principal.RoleAgent))
	for _, args := range []string{
		`{"name":"linked"}`, `{"name":"linked","file":"key.md"}`, `{"name":"above"}`, `{"name":"whole"}`, `{"name":"whole","file":"key.md"}`,
		`{"name":"letters","file":"../linked/key.md"}`, `{"name":"../letters"}`, `{"name":"letters","file":"` + outside + `"}`,
	} {
		r := h.Call(ctx(), "tool.skill.load", args, "")
		if r.Code != capabilities.CodeNotFound && r.Code != capabilities.CodeInvalidArguments || strings.Contains(string(r.Output), "OUTSIDE") {
			t.Errorf("%s: %s %s %s", args, r.Code, r.Message, r.Output)
		}
	}
	for _, uri := range []string{"skill://linked/key.md", "skill://whole/key.md", "skill://letters/../linked/key.md", "skill://letters/..%2flinked%2fkey.md"} {
		if got, err := s.ReadResource(ctx(), &sdk.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s: %+v", uri, got.Contents[0])
		}
	}
	prompts, err := s.ListPrompts(ctx(), nil)
	must(t, err)
	for _, p := range prompts.Prompts {
		if p.Name == "linked" || p.Name == "whole" || p.Name == "above" || strings.Contains(p.Name, "..") {
			t.Errorf("%s is a prompt", p.Name)
		}
	}
}
