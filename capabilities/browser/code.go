package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/process"
	"github.com/handrail-dev/handrail/capabilities/browser/script"
	"github.com/handrail-dev/handrail/capabilities/egress"
)

// A script takes steps, which are calls (capabilities.StepCall): gateway and owner judge
// each, and it is carried out in the turn of the script's own call. The script runs in a
// process of its own that can do nothing else (see script).

const toolPrefix = "tool.browser."

// runCode carries out tyrum.browser.run-code.
func runCode(c *call) (capabilities.Output, error) {
	var args struct {
		Code string `json:"code"`
	}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	if c.inv.Step == nil {
		return capabilities.Output{},
			capabilities.Errorf(capabilities.CodeNotSupported, "This gateway is too old to judge the steps of a script.").
				WithHint("Update the gateway, or make the calls one by one.")
	}
	b, err := c.h.o.Finder.Find(c.ctx)
	if err != nil {
		return capabilities.Output{}, process.Missing(err)
	}
	o := script.Options{Launcher: c.h.o.Launcher, User: b.RunAs, Dir: c.h.o.Dir, Code: args.Code}
	for _, tool := range c.inv.StepTools {
		if name, mine := strings.CutPrefix(string(tool), toolPrefix); mine {
			o.Tools = append(o.Tools, name)
		}
	}
	var seen effects
	var given capabilities.Output
	last := ""
	o.Do = func(ctx context.Context, s script.Call) (json.RawMessage, error) {
		last = s.Tool
		seen.steps++
		c.inv.Progress(capabilities.Progress{Done: float64(seen.steps), Message: s.Tool})
		out, err := c.inv.Step(ctx, capabilities.StepCall{Tool: capabilities.ToolID(toolPrefix + s.Tool), Args: s.Args, Run: c.step})
		if err != nil {
			return nil, err
		}
		seen.add(s.Tool, out.Effect)
		if err := passOn(&given, out); err != nil {
			return nil, err
		}
		return stepResult(out)
	}
	o.Ends = capabilities.EndsParent
	res, err := script.Run(c.ctx, o)
	if err != nil {
		return capabilities.Output{}, c.scriptEnded(err, res, seen, last)
	}
	effect, evidence := seen.sum()
	given.Result = struct {
		Result json.RawMessage `json:"result"`
		Log    []string        `json:"log,omitempty"`
	}{res.Value, res.Log}
	given.Effect, given.Evidence, given.Untrusted = effect, evidence, true
	return given, nil
}

// maxCaptured bounds the pictures and files that a script's steps return; the catalog
// names a field for each.
const maxCaptured = 4

// passOn puts what a step captured into what the script's call returns.
func passOn(to *capabilities.Output, step capabilities.Output) error {
	n := len(to.Blobs) + len(to.Artifacts)
	if n+len(step.Blobs)+len(step.Artifacts) > maxCaptured {
		return capabilities.Errorf(capabilities.CodeResultTooLarge, "A script returns at most %d pictures and files.", maxCaptured).
			WithHint("Take the others in another call.")
	}
	for _, b := range step.Blobs {
		if n++; n > 1 {
			b.Field += "_" + strconv.Itoa(n)
		}
		to.Blobs = append(to.Blobs, b)
	}
	to.Artifacts = append(to.Artifacts, step.Artifacts...)
	return nil
}

// maxFailureLog is how much of a log, as JSON, goes into the details of an error: what
// a model reads of them is not much more.
const maxFailureLog = 3 << 10

// scriptEnded tells with a script's failure what it had done until then: its steps
// stay done, its log may say why it failed, and what it kept is there.
func (c *call) scriptEnded(err error, res script.Result, seen effects, last string) error {
	log := res.Log
	var e *capabilities.Error
	switch {
	case seen.steps > 0 && errors.Is(c.ctx.Err(), context.DeadlineExceeded):
		e = capabilities.Errorf(capabilities.CodeDeadlineExceeded, "The script did not finish in time; it had taken %d steps, the last was %s.",
			seen.steps, last)
	case errors.Is(c.ctx.Err(), context.DeadlineExceeded):
		e = capabilities.Errorf(capabilities.CodeDeadlineExceeded, "The script did not finish in time; it had taken no step.")
	case c.ctx.Err() == nil && capabilities.EndsParent(err):
		e = endedAt(err, last, seen)
	case seen.steps+len(log)+len(res.Kept) == 0 || c.ctx.Err() != nil || !errors.As(err, &e):
		return err
	default:
		e = capabilities.Wrap(e.Code, e, sentence(e.PublicMessage())+" "+seen.before()).WithHint(e.PublicHint())
	}
	kept := keptOf(res.Kept)
	from, size := len(log), len(kept) // its end tells the most
	for ; from > 0; from-- {
		log[from-1] = clipText(log[from-1], 1000)
		line, _ := json.Marshal(log[from-1])
		if size += len(line) + 1; size > maxFailureLog {
			break
		}
	}
	return e.WithDetails(struct {
		Done    int      `json:"done"`
		Act     int      `json:"act"`
		Log     []string `json:"log,omitempty"`
		Omitted int      `json:"log_omitted,omitempty"` // its first entries
		Waits   *waiting `json:"waits,omitempty"`

		Kept json.RawMessage `json:"kept,omitempty"`
	}{seen.done, seen.acted, log[from:], from, waitsFor(err, last), kept})
}

// keptOf is what a script kept, as one JSON object in its order; what would be too much is left
// out, and says so in its place.
func keptOf(list []script.Kept) json.RawMessage {
	if len(list) == 0 {
		return nil
	}
	all := []byte("{")
	for _, k := range list {
		name, err := json.Marshal(k.Name)
		if err != nil {
			continue
		}
		value := k.Value
		if len(all)+len(name)+len(value) > maxFailureLog {
			value = json.RawMessage(`"(left out: too long)"`)
		}
		if len(all) > 1 {
			all = append(all, ',')
		}
		all = append(append(append(all, name...), ':'), value...)
	}
	return append(all, '}')
}

// waiting is the step that a person has to answer about.
type waiting struct {
	Tool     string `json:"tool_id"`
	Approval string `json:"approval,omitempty"` // empty: it is asked on the device
}

func waitsFor(err error, tool string) *waiting {
	if capabilities.CodeOf(err) != capabilities.CodeApprovalPending {
		return nil
	}
	w := &waiting{Tool: toolPrefix + tool}
	if raw, ok := capabilities.AsError(err).Details.(json.RawMessage); ok {
		_ = json.Unmarshal(raw, w) // what is missing stays empty
		w.Tool = toolPrefix + tool
	}
	return w
}

// endedAt words the end of a script at a step that was not taken.
func endedAt(err error, last string, seen effects) *capabilities.Error {
	e := capabilities.AsError(err)
	said := capabilities.Wrap(e.Code, e, fmt.Sprintf("The script ended at %s: %s %s", last, sentence(e.PublicMessage()), seen.before())).
		WithHint(e.PublicHint())
	switch e.Code {
	case capabilities.CodeApprovalPending:
		return said.WithHint("Call again once a person has answered. The script then starts from its beginning: what it has done it does " +
			"again, unless it looks first.")
	case capabilities.CodeNodeDisconnected: // which says that nothing was done
		said.Code = capabilities.CodeExecutionFailed
		return said.WithHint("Look at the page before calling again: what the script has done stays done.")
	}
	return said
}

// sentence ends a text that another sentence follows.
func sentence(s string) string {
	if strings.HasSuffix(s, ".") || strings.HasSuffix(s, "!") || strings.HasSuffix(s, "?") {
		return s
	}
	return s + "."
}

// step carries out a step of a script, in the script's own turn.
func (c *call) step(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	defer c.lane.observeStep(&inv)()
	if hosts := egress.Granted(inv.Grants); hosts != nil {
		whole := c.lane.granted()
		if err := c.lane.narrow(egress.Both(whole, hosts)); err != nil {
			return capabilities.Output{}, err
		}
		defer c.lane.narrow(whole)
	}
	free := make(chan struct{})
	in := newCall(ctx, c.h, c.lane, inv, func() { close(free) })
	in.script = true
	defer func() {
		in.unbind()
		in.release()
		if len(in.hid) > 0 {
			c.hidIn("what its steps returned")
		}
		<-free // a page that hangs is freed before the next step
	}()
	run, err := tools().Find(inv.Capability)
	if err != nil {
		return capabilities.Output{}, err
	}
	return in.carryOut(run)
}

// stepResult returns a step's result with what was seen of its effect. Captured
// bytes go past it: a script could do nothing with them.
func stepResult(out capabilities.Output) (json.RawMessage, error) {
	raw := []byte("{}")
	if out.Result != nil {
		var err error
		if raw, err = json.Marshal(out.Result); err != nil {
			return nil, err
		}
	}
	if out.Effect == "" || len(raw) < 2 || raw[0] != '{' {
		return raw, nil
	}
	head, err := json.Marshal(struct {
		Effect   capabilities.Effect `json:"effect"`
		Evidence string              `json:"evidence"`
	}{out.Effect, out.Evidence})
	if err != nil {
		return nil, err
	}
	if string(raw) == "{}" {
		return head, nil
	}
	return append(append(head[:len(head)-1], ','), raw[1:]...), nil
}

// effects sums up what a script's steps were seen to do.
type effects struct {
	steps, done, acted, doubtful, unseen int
	last                                 []string // of those that were done, at most maxNamed
}

// maxNamed bounds the steps that are told by name.
const maxNamed = 12

func (e *effects) add(tool string, effect capabilities.Effect) {
	e.done++
	if e.last = append(e.last, tool); len(e.last) > maxNamed {
		e.last = e.last[1:]
	}
	switch effect {
	case "":
		return
	case capabilities.EffectConfirmed:
	case capabilities.EffectUnverifiable:
		e.unseen++
	default:
		e.doubtful++
	}
	e.acted++
}

// before says what was done before a script ended.
func (e *effects) before() string {
	if e.done == 0 {
		return "No step was done."
	}
	names := strings.Join(e.last, ", ")
	if e.done > len(e.last) {
		names = "…, " + names
	}
	return fmt.Sprintf("Steps done before: %d (%s), of them act: %d.", e.done, names, e.acted)
}

func (e *effects) sum() (capabilities.Effect, string) {
	switch {
	case e.acted == 0:
		return "", ""
	case e.doubtful > 0:
		return capabilities.EffectPartial, fmt.Sprintf("%d steps; of %d that act, %d did not do what they should", e.steps, e.acted, e.doubtful)
	case e.unseen > 0:
		return capabilities.EffectUnverifiable, fmt.Sprintf("%d steps; of %d that act, %d could not be verified", e.steps, e.acted, e.unseen)
	}
	return capabilities.EffectConfirmed, fmt.Sprintf("%d steps; the effect of each was seen", e.steps)
}
