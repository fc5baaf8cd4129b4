package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// reader is a person who does what a page of docs has, with the built program and a shell.
type reader struct {
	*person
	home string
	page string
}

func newReader(t *testing.T, page string) *reader {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the program")
	}
	home := privateDir(t)
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
	must(t, err)
	env := append(os.Environ(), "HOME="+home, "HANDRAIL_DATA="+filepath.Join(home, "site"), "PATH="+home+":"+os.Getenv("PATH"))
	r := &reader{person: &person{t: t, program: filepath.Join(home, "handrail"), env: env}, home: home, page: string(text)}
	site.Program(t, r.program)
	return r
}

// blocks are the page's examples, in order.
func (r *reader) blocks() (all []string) {
	for _, m := range regexp.MustCompile("(?ms)^```\n(.*?)^```$").FindAllStringSubmatch(r.page, -1) {
		all = append(all, m[1])
	}
	return all
}

// step is one command of an example, with the lines that stand below it.
type step struct{ command, below string }

// steps reads an example as a person does: "$ " begins a command, "#" a remark behind it.
func steps(block string) (all []step) {
	for line := range strings.Lines(block) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			command, _, _ = strings.Cut(strings.TrimSpace(command), " #")
			all = append(all, step{command: strings.TrimSpace(command)})
		} else if len(all) > 0 {
			all[len(all)-1].below += line
		}
	}
	return all
}

// shell runs a command of the page in the folder where the person is.
func (r *reader) shell(command string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "sh", "-c", command)
	cmd.Env, cmd.Dir = r.env, r.home
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s: %v: %s", command, err, out)
	}
	return string(out)
}

// follow does as one step says, and returns what it printed. The answer of a person who is asked is
// --yes here; 'handrail up' goes on in another terminal, at addresses of the test's own.
func (r *reader) follow(s step) string {
	r.t.Helper()
	switch {
	case strings.HasPrefix(s.command, "cat ") && !strings.Contains(s.command, "<"):
		must(r.t, os.WriteFile(filepath.Join(r.home, strings.TrimPrefix(s.command, "cat ")), []byte(s.below), 0o600))
		return ""
	case strings.HasPrefix(s.command, "handrail up"):
		cmd := exec.Command("sh", "-c", "exec "+s.command+" --http 127.0.0.1:0 --quic 127.0.0.1:0 --no-task --json")
		cmd.Env, cmd.Dir = r.env, r.home
		desk.Stay(r.t, cmd)
		return ""
	case strings.HasPrefix(s.command, "handrail provider approve"):
		return r.shell(s.command + " --yes")
	}
	return r.shell(s.command + "\n" + s.below)
}

// The beginning of docs/macros.md runs as it stands there: the file is written, added, approved and
// called, and the call shows those that it made. Its examples are taken, too.
func TestMacrosAsTheirPageHasThem(t *testing.T) {
	r := newReader(t, "macros.md")
	must(t, os.Mkdir(filepath.Join(r.home, "notes"), 0o700))
	for name, text := range map[string]string{"a.md": "alpha\n", "b.md": "beta\n", "c.txt": "no note\n"} {
		must(t, os.WriteFile(filepath.Join(r.home, "notes", name), []byte(text), 0o600))
	}
	called, seen := false, false
	for _, s := range steps(r.blocks()[0]) {
		switch {
		case strings.HasPrefix(s.command, "handrail call "):
			if out := r.follow(s); !strings.Contains(out, "alpha") || !strings.Contains(out, "beta") || strings.Contains(out, "no note") {
				t.Errorf("%s: %s", s.command, out)
			}
			called = true
		case strings.HasPrefix(s.command, "handrail calls show CALL"):
			made := items[api.Call](r.person, "calls", "--tool", "tool.macro.read-all")
			if len(made) == 0 {
				t.Fatal("no call is listed")
			}
			s.command = strings.Replace(s.command, "CALL", string(made[0].ID), 1)
			if out := r.follow(s); strings.Count(out, "read the file") != 2 || !strings.Contains(out, "found files") {
				t.Errorf("%s: %s", s.command, out)
			}
			seen = true
		default:
			r.follow(s)
		}
	}
	if !called || !seen {
		t.Error("the page calls nothing")
	}
	shipped, err := filepath.Glob("../../examples/macros/*.yaml")
	must(t, err)
	for _, file := range shipped {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if name != "read-all" {
			r.does("provider", "add", "macro", name, file)
		}
		if out := r.does("provider", "show", name); !strings.Contains(out, "tool.macro."+name) {
			t.Errorf("%s: %s", file, out)
		}
	}
	if len(shipped) < 2 {
		t.Errorf("%d examples", len(shipped))
	}
}

// The beginning of docs/skills.md runs as it stands there: a skill is written, listed, shown and
// loaded by a call; and its rule keeps agents from that skill and from no other.
func TestSkillsAsTheirPageHasThem(t *testing.T) {
	r := newReader(t, "skills.md")
	blocks := r.blocks()
	loaded := false
	for _, s := range steps(blocks[0]) {
		out := r.follow(s)
		switch {
		case s.command == "handrail skills list" && (!strings.Contains(out, "letters") || !strings.Contains(out, "Writes letters of our company.")),
			strings.HasPrefix(s.command, "handrail skills show") && !strings.Contains(out, "Begin with the customer's name."):
			t.Errorf("%s: %s", s.command, out)
		case strings.HasPrefix(s.command, "handrail call"):
			loaded = strings.Contains(out, "Begin with the customer's name.")
			if !loaded {
				t.Errorf("%s: %s", s.command, out)
			}
		}
	}
	if !loaded {
		t.Error("the page loads nothing")
	}
	built := r.does("skills", "list")
	for _, name := range regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(r.sentence("are built in"), -1) {
		if !strings.Contains(built, name[1]) {
			t.Errorf("%s is not built in: %s", name[1], built)
		}
	}
	rule := blocks[len(blocks)-1]
	if !strings.Contains(rule, "tool.skill.load") {
		t.Fatalf("the page has no rule: %s", rule)
	}
	must(t, os.WriteFile(filepath.Join(r.home, "site", "gateway", "policy", "letters.cedar"), []byte(rule), 0o600))
	r.does("policy", "activate", "--yes")
	for name, code := range map[string]capabilities.Code{"letters": capabilities.CodeDeniedByPolicy, "files": ""} {
		out, _ := r.tries("", "call", "--agent", "tool.skill.load", "--arg", "name="+name, "--json")
		first, _, _ := strings.Cut(out, "\n")
		var got capabilities.Result
		must(t, json.Unmarshal([]byte(first), &got))
		if got.Code != code {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// sentence is the line of the page that has these words.
func (r *reader) sentence(words string) string {
	r.t.Helper()
	for line := range strings.Lines(r.page) {
		if strings.Contains(line, words) {
			return line
		}
	}
	r.t.Fatalf("the page does not say %q", words)
	return ""
}
