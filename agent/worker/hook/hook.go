package hook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Bounds.
const (
	MaxFile   = 256 << 10
	maxAnswer = 64 << 10
	maxHooks  = 64
	patience  = time.Minute // default, as others have it
	most      = 10 * time.Minute
)

// When is the moment of a hook.
type When string

// The moments.
const (
	Before When = "PreToolUse"
	After  When = "PostToolUse"
)

// Hooks are those of one file.
type Hooks struct{ list []one }

type one struct {
	when    When
	match   *regexp.Regexp // nil: every tool
	command string
	within  time.Duration
}

// Event is what a hook is told.
type Event struct {
	Session string              `json:"session_id"`
	Folder  string              `json:"cwd"`
	When    When                `json:"hook_event_name"`
	Tool    string              `json:"tool_name"` // as models see it
	ID      capabilities.ToolID `json:"tool_id"`
	Input   json.RawMessage     `json:"tool_input"`
	Output  json.RawMessage     `json:"tool_response,omitempty"`
}

// Read reads a file of hooks. Its errors are invalid_arguments, with what is wrong.
func Read(data []byte) (*Hooks, error) {
	bad := func(format string, args ...any) error {
		return capabilities.Errorf(capabilities.CodeInvalidArguments, "hooks: "+format, args...)
	}
	if len(data) > MaxFile {
		return nil, bad("the file has more than %d bytes", MaxFile)
	}
	var file struct {
		Hooks map[When][]struct {
			Matcher string `json:"matcher"`
			Hooks   []struct {
				Type    string  `json:"type"`
				Command string  `json:"command"`
				Timeout float64 `json:"timeout"` // seconds
			} `json:"hooks"`
		} `json:"hooks"`
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, bad("%v", err)
	}
	var h Hooks
	for _, when := range []When{Before, After} {
		for _, group := range file.Hooks[when] {
			var match *regexp.Regexp
			if group.Matcher != "" && group.Matcher != "*" {
				var err error
				if match, err = regexp.Compile("^(?:" + group.Matcher + ")$"); err != nil {
					return nil, bad("the matcher %q: %v", group.Matcher, err)
				}
			}
			for _, c := range group.Hooks {
				if c.Type != "command" || c.Command == "" {
					return nil, bad("a hook of %s is no command", when)
				}
				within := patience
				if c.Timeout != 0 {
					within = time.Duration(c.Timeout * float64(time.Second))
				}
				if within <= 0 || within > most {
					return nil, bad("a timeout is more than 0 and at most %d seconds", int(most.Seconds()))
				}
				h.list = append(h.list, one{when, match, c.Command, within})
			}
		}
		delete(file.Hooks, when)
	}
	for when := range file.Hooks {
		return nil, bad("%q is neither %s nor %s", string(when), Before, After)
	}
	if len(h.list) > maxHooks {
		return nil, bad("there are more than %d", maxHooks)
	}
	return &h, nil
}

// Run runs the hooks of an event's moment, one after the other, and returns why one of them
// refuses; empty: none does. Its error is the context's.
func (h *Hooks) Run(ctx context.Context, e Event) (refused string, err error) {
	if h == nil {
		return "", nil
	}
	e.Tool = e.ID.WireName()
	e.Folder, _ = os.Getwd()
	input, err := json.Marshal(e)
	if err != nil {
		return "its hook cannot be told of the call", nil
	}
	for _, o := range h.list {
		if o.when != e.When || o.match != nil && !o.match.MatchString(e.Tool) && !o.match.MatchString(string(e.ID)) {
			continue
		}
		if refused, err := o.run(ctx, input); refused != "" || err != nil {
			return refused, err
		}
	}
	return "", nil
}

func (o *one) run(ctx context.Context, input []byte) (refused string, _ error) {
	within, over := context.WithTimeout(ctx, o.within)
	defer over()
	cmd := exec.CommandContext(within, "/bin/sh", "-c", o.command)
	if runtime.GOOS == "windows" {
		cmd = exec.CommandContext(within, "cmd", "/c", o.command)
	}
	cmd.WaitDelay = time.Second
	cmd.Env = without(os.Environ())
	cmd.Stdin = bytes.NewReader(input)
	var out, said bounded
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	var ended *exec.ExitError
	switch {
	case within.Err() != nil:
		return fmt.Sprintf("a hook did not answer within %s", capabilities.Spoken(o.within)), nil
	case errors.As(err, &ended) && ended.ExitCode() == 2:
		return cmp.Or(plain(said.text()), "a hook refused"), nil
	case err != nil:
		return plain(fmt.Sprintf("a hook failed: %v %s", err, said.text())), nil
	case out.more:
		return "a hook said more than can be read", nil
	}
	return judge(out.data)
}

// judge reads what a hook that ended well says. Words that are no JSON object say nothing.
func judge(data []byte) (refused string, _ error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 || data[0] != '{' {
		return "", nil
	}
	var answer struct {
		Continue *bool  `json:"continue"`
		Stop     string `json:"stopReason"`
		Decision string `json:"decision"`
		Reason   string `json:"reason"`
		Specific struct {
			Decision string          `json:"permissionDecision"`
			Reason   string          `json:"permissionDecisionReason"`
			Input    json.RawMessage `json:"updatedInput"`
		} `json:"hookSpecificOutput"`
	}
	if json.Unmarshal(data, &answer) != nil {
		return "a hook said what cannot be read", nil
	}
	s := answer.Specific
	switch {
	case answer.Continue != nil && !*answer.Continue:
		return cmp.Or(plain(answer.Stop), "a hook stopped it"), nil
	case len(s.Input) > 0 && string(s.Input) != "null":
		return "a hook wanted other arguments, and may only refuse", nil
	case s.Decision != "" && s.Decision != "allow":
		return cmp.Or(plain(s.Reason), "a hook refused"), nil
	case answer.Decision != "" && answer.Decision != "approve" && answer.Decision != "allow":
		return cmp.Or(plain(answer.Reason), "a hook refused"), nil
	}
	return "", nil
}

func plain(text string) string {
	return capabilities.Escape(capabilities.Clip(strings.TrimSpace(text), 500))
}

// without leaves out what a hook has no need to know.
func without(env []string) (left []string) {
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, "HANDRAIL_") && name != "HANDRAIL_DATA" {
			continue
		}
		left = append(left, v)
	}
	return left
}

// bounded keeps the beginning of what is written to it.
type bounded struct {
	data []byte
	more bool
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), maxAnswer-len(b.data))
	b.data = append(b.data, p[:n]...)
	b.more = b.more || n < len(p)
	return len(p), nil
}

func (b *bounded) text() string { return strings.ToValidUTF8(string(b.data), "") }
