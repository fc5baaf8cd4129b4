package fs

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/egress"
)

// Bounds of a command.
const (
	maxOutput      = 256 << 10 // bytes that are returned: the beginning and the end
	defaultCommand = 2 * time.Minute
)

// bash runs a command by bash, behind walls: it may write the workspace and nothing else, and
// reaches the hosts that the call was granted and no others.
func (h *Handler) bash(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	var args struct {
		Command   string `json:"command"`
		Cwd       string `json:"cwd"`
		TimeoutMS int    `json:"timeout_ms"`
	}
	if err := arguments(inv, &args); err != nil {
		return capabilities.Output{}, err
	}
	if h.opts.Start == nil {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeIsolationUnavailable, "commands cannot be confined on this system")
	}
	if err := h.opts.Whole(h.dir); err != nil { // readiness says so; this is the wall
		return capabilities.Output{}, err
	}
	if args.Cwd == "" {
		args.Cwd = "."
	}
	rel, err := h.local(args.Cwd)
	if err != nil {
		return capabilities.Output{}, err
	}
	if info, err := h.root.Stat(rel); err != nil || !info.IsDir() {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeNotFound, "there is no folder %.200q", args.Cwd)
	}
	limit := defaultCommand
	if args.TimeoutMS > 0 {
		limit = time.Duration(args.TimeoutMS) * time.Millisecond
	}
	net, err := h.way(&inv)
	if err != nil {
		return capabilities.Output{}, err
	}
	began, refused := time.Now(), &sockets{}
	own, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	// The folder is a word of its own: no name of one becomes a command.
	p, err := h.opts.Start.Start(own, Command{
		Argv: []string{"bash", "-c", `cd -- "$1" && eval "$2" 2>&1`, "bash", filepath.Join(h.dir, rel), args.Command}, Dir: h.dir,
		Keys: inv.Grants, Net: net, Wrote: func(path string) { inv.ReportRefused(capabilities.WriteKey(path), path) },
		Ran:     inv.ReportRan,
		Denied:  func(key, what string) { inv.ReportRefused(key, what) },
		Changed: func() { inv.Observe(capabilities.KeyWrite, ".") },
		Refused: func(socket string) { refused.told(&inv, socket) },
	})
	if err != nil && own.Err() != nil && ctx.Err() == nil {
		return h.timedOut(&inv, &output{}, began, net, refused), nil
	}
	if err != nil {
		return capabilities.Output{}, err
	}
	defer p.Kill()
	_ = p.Stdin().Close() // nobody types
	inv.Observe("execution.proc.spawn", "bash")
	kept := keep(p.Stdout(), inv.Progress)
	code, err := p.Wait()
	if err != nil {
		return capabilities.Output{}, err
	}
	if ctx.Err() != nil {
		return capabilities.Output{Effect: capabilities.EffectUnverifiable}, context.Cause(ctx)
	}
	if own.Err() != nil { // its own time, which the caller gave it
		return h.timedOut(&inv, kept, began, net, refused), nil
	}
	if code < 0 { // the shell had no say in its end
		return capabilities.Output{Effect: capabilities.EffectUnverifiable}, capabilities.Errorf(capabilities.CodeUnknownOutcome,
			"the shell was killed. Whether its command did what it was to do is not known").
			WithHint("Look at the workspace before you repeat the command.").
			WithDetails(killed{Output: capabilities.Clip(kept.text(), maxTold), Truncated: kept.cut})
	}
	out := capabilities.Output{Effect: capabilities.EffectUnverifiable, Evidence: "the command ended; what it did was not looked at"}
	return h.finished(&inv, out, net, refused, map[string]any{
		"output": kept.text(), "exit_code": code, "truncated": kept.cut, "duration_ms": time.Since(began).Milliseconds(),
	}), nil
}

// killed are the details of a command whose shell was killed.
type killed struct {
	Output    string `json:"output"`
	Truncated bool   `json:"truncated"`
}

// maxTold bounds what a killed command wrote, in bytes.
const maxTold = 4 << 10

// timedOut is the result of a command whose time was over.
func (h *Handler) timedOut(inv *capabilities.Invocation, o *output, began time.Time, net *egress.Way,
	refused *sockets) capabilities.Output {
	out := capabilities.Output{Effect: capabilities.EffectUnverifiable, Evidence: "the command was ended at its time"}
	return h.finished(inv, out, net, refused, map[string]any{
		"output": o.text(), "exit_code": nil, "timed_out": true, "truncated": o.cut, "duration_ms": time.Since(began).Milliseconds(),
	})
}

// output is the beginning and the end of what a command wrote.
type output struct {
	head, tail []byte
	cut        bool
}

func keep(r io.Reader, progress func(capabilities.Progress)) *output {
	o := &output{}
	buf := make([]byte, 32<<10)
	total := 0
	for {
		n, err := r.Read(buf)
		data := buf[:n]
		if room := maxOutput/2 - len(o.head); room > 0 {
			k := min(room, len(data))
			o.head, data = append(o.head, data[:k]...), data[k:]
		}
		o.tail = append(o.tail, data...)
		if over := len(o.tail) - maxOutput/2; over > 0 {
			o.tail, o.cut = o.tail[over:], true
		}
		if total += n; n > 0 {
			progress(capabilities.Progress{Done: float64(total), Message: lastLine(buf[:n])})
		}
		if err != nil {
			return o
		}
	}
}

func (o *output) text() string {
	middle := ""
	if o.cut {
		middle = "\n[…]\n"
	}
	return strings.ToValidUTF8(string(o.head)+middle+string(o.tail), "\uFFFD")
}

// lastLine is the last line of a piece of output, for the person who waits.
func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return capabilities.Clip(capabilities.Printable(strings.ToValidUTF8(lines[len(lines)-1], "")), 200)
}
