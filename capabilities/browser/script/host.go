package script

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// Options of Run.
type Options struct {
	Launcher platform.Launcher // Required.
	// User is whom the guest runs as, or an account of its own where there is one.
	// Nil: as this process does.
	User *platform.User
	// Dir is where the guest's empty folder is made. Default: the system's.
	Dir string
	// Code is the script. Required.
	Code string
	// Tools are the names that the script may call, in the catalog's spelling
	// ("press-key"); it sees them in camel case ("page.pressKey").
	Tools []string
	// Memory bounds what the script has at once, in bytes. Default: 192 MiB.
	Memory uint64
	// Do carries out one step; its error is thrown in the script. Steps come one
	// after the other. Required.
	Do func(ctx context.Context, c Call) (json.RawMessage, error)
	// Ends reports whether a step's error ends the script instead of being thrown in it.
	// Default: none does.
	Ends func(error) bool
}

// Result is what a script returned.
type Result struct {
	Value json.RawMessage // null where it returned nothing
	Log   []string
	Kept  []Kept // what it had found, the latest of each name, in order
	Steps int
}

// Bounds of one script.
const (
	maxSteps    = 1000
	maxValue    = 1 << 20
	maxLogs     = 200
	maxLogEntry = 4 << 10
	maxLogBytes = 64 << 10
	maxKept     = 64
	maxKeptName = 100
	maxMemory   = 192 << 20
	maxMessage  = 500
)

// moreLogs ends a log that was cut.
const moreLogs = "(more was left out)"

var mainCalled atomic.Bool

// guest is one running script as this side sees it.
type guest struct {
	o      Options
	proc   platform.Process
	in     *bufio.Reader
	result Result
	logged int
	failed map[int]*capabilities.Error // by step
	names  map[int]string
	tools  map[string]bool
}

// Run starts a guest, answers its calls and returns its result. It ends the
// guest when ctx ends. Errors are *capabilities.Error, or ctx's; the result's log
// and steps are valid beside an error.
func Run(ctx context.Context, o Options) (Result, error) {
	if !mainCalled.Load() {
		// Without it the program started again would run as itself.
		return Result{}, errors.New("script.Main was not called first in main")
	}
	program, err := guestPath()
	if err != nil {
		return Result{}, err
	}
	proc, err := o.Launcher.Start(ctx, platform.Command{
		Path: program, Name: "script", ScratchBase: o.Dir, User: o.User, Alone: true,
		Build: func(string) (args, env []string) {
			return []string{guestArg, platform.PipeHandles}, []string{"GOMAXPROCS=2", "GOTRACEBACK=none"}
		},
	})
	if err != nil {
		if ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		return Result{}, capabilities.Wrap(capabilities.CodeExecutionFailed, err, "The script could not be started.").
			WithHint("The node's own program must be executable for the account its browser runs as.")
	}
	defer proc.Close()
	if o.Memory == 0 {
		o.Memory = maxMemory
	}
	// Closing unblocks the read below, whatever the guest is doing.
	defer context.AfterFunc(ctx, func() { proc.Close() })()
	g := &guest{
		o: o, proc: proc, in: bufio.NewReaderSize(proc.Out(), 64<<10),
		failed: map[int]*capabilities.Error{}, names: map[int]string{}, tools: map[string]bool{},
	}
	for _, t := range o.Tools {
		g.tools[t] = true
	}
	err = g.run(ctx)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return g.result, err
}

// guestPath returns the program that becomes the guest; see Unwatched.
var guestPath = selfPath

func selfPath() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil // the very same build, even if an update replaced the file
	}
	return os.Executable()
}

func (g *guest) run(ctx context.Context) error {
	if err := g.say(toGuest{Run: &run{Code: g.o.Code, Tools: g.o.Tools, Memory: g.o.Memory}}); err != nil {
		return g.died(err)
	}
	for {
		line, err := readLine(g.in)
		if err != nil {
			return g.died(err)
		}
		m, err := decode[toHost](line)
		if err != nil {
			return capabilities.Wrap(capabilities.CodeExecutionFailed, err, "The script's process broke its protocol and was ended.").
				WithHint("Try again with a simpler script.")
		}
		switch {
		case m.Log != nil:
			g.log(*m.Log)
		case m.Keep != nil:
			g.keep(*m.Keep)
		case m.Done != nil:
			return g.done(m.Done)
		default:
			a, err := g.step(ctx, *m.Call)
			if err != nil {
				return err
			}
			if err := g.say(toGuest{Answer: &a}); err != nil {
				return g.died(err)
			}
		}
	}
}

func (g *guest) say(m toGuest) error {
	line, err := encode(m)
	if err == nil {
		_, err = g.proc.In().Write(line)
	}
	return err
}

// step carries out one call. An error ends the script; a step's own failure is
// the script's to handle.
func (g *guest) step(ctx context.Context, c Call) (answer, error) {
	if !g.tools[c.Tool] {
		return answer{}, capabilities.Errorf(capabilities.CodeScriptFailed, "The script asked for a tool it was not offered.")
	}
	if g.result.Steps >= maxSteps {
		return answer{}, capabilities.Errorf(capabilities.CodeOverloaded, "The script took %d steps; no more are carried out.", maxSteps).
			WithHint("Do it in several calls, or wait with page.waitFor instead of asking again and again.")
	}
	g.result.Steps++
	value, err := g.o.Do(ctx, c)
	switch {
	case ctx.Err() != nil:
		return answer{}, ctx.Err()
	case err != nil && g.o.Ends != nil && g.o.Ends(err):
		return answer{}, err
	}
	if err == nil && len(value) > maxLine/2 {
		err = &capabilities.Error{Code: capabilities.CodeResultTooLarge}
	}
	if err != nil {
		e := capabilities.AsError(err)
		g.failed[c.ID], g.names[c.ID] = e, c.Tool
		return answer{ID: c.ID, Failure: &failure{Code: e.Code, Message: e.PublicMessage(), Hint: e.PublicHint()}}, nil
	}
	if len(value) == 0 {
		value = json.RawMessage("null")
	}
	return answer{ID: c.ID, Value: value}, nil
}

// done returns the script's end.
func (g *guest) done(d *done) error {
	if d.Failure == nil {
		if len(d.Value) > maxValue {
			return tooLarge()
		}
		g.result.Value = append(json.RawMessage(nil), d.Value...)
		return nil
	}
	f := d.Failure
	where := ""
	if f.Line > 0 {
		where = " (line " + itoa(f.Line) + ")"
	}
	switch e := g.failed[f.Call]; {
	case f.Large:
		return tooLarge()
	case f.Memory:
		return g.tooMuchMemory()
	case e != nil:
		return capabilities.Wrap(e.Code, e, "page."+camel(g.names[f.Call])+where+": "+capabilities.Clip(e.PublicMessage(), maxMessage)).
			WithHint(e.PublicHint())
	}
	message, _, _ := strings.Cut(f.Message, "\n")
	return capabilities.Errorf(capabilities.CodeScriptFailed, "%s%s", capabilities.Clip(message, maxMessage), where).
		WithHint("Correct the script; it can use page, console and plain JavaScript.")
}

func tooLarge() error {
	return capabilities.Errorf(capabilities.CodeResultTooLarge, "The script returned more than %d bytes of JSON.", maxValue).
		WithHint("Return less.")
}

func (g *guest) tooMuchMemory() error {
	return capabilities.Errorf(capabilities.CodeScriptFailed, "The script used more than %d MiB of memory and was ended.", g.o.Memory>>20).
		WithHint("Keep less at once.")
}

// died words the end of a guest that did not say why.
func (g *guest) died(err error) error {
	g.proc.Close() // so that its last words are all there
	if out := g.proc.Output(); strings.Contains(out, "out of memory") || strings.Contains(out, "cannot allocate memory") ||
		strings.Contains(out, "address space") {
		return g.tooMuchMemory()
	}
	if errors.Is(err, errLine) {
		return capabilities.Errorf(capabilities.CodeResultTooLarge, "The script passed on more than %d bytes at once.", maxLine)
	}
	hint := "Try again with a simpler script."
	if g.result.Steps > 0 {
		hint = "Steps of it were carried out: look at the page before you do them again."
	}
	return capabilities.Wrap(capabilities.CodeExecutionFailed, errors.Join(err, errors.New(g.proc.Output())),
		"The script's process ended unexpectedly.").
		WithHint(hint)
}

// keep takes a value in; the latest of a name counts.
func (g *guest) keep(k Kept) {
	k = Kept{capabilities.Clip(k.Name, maxKeptName), append(json.RawMessage(nil), k.Value...)}
	for i := range g.result.Kept {
		if g.result.Kept[i].Name == k.Name {
			g.result.Kept[i] = k
			return
		}
	}
	if len(g.result.Kept) < maxKept && len(k.Value) <= maxLogBytes {
		g.result.Kept = append(g.result.Kept, k)
	}
}

func (g *guest) log(text string) {
	text = capabilities.Clip(text, maxLogEntry)
	switch n := len(g.result.Log); {
	case n > 0 && g.result.Log[n-1] == moreLogs:
	case n >= maxLogs-1 || g.logged+len(text) > maxLogBytes:
		g.result.Log = append(g.result.Log, moreLogs)
	default:
		g.logged += len(text)
		g.result.Log = append(g.result.Log, text)
	}
}
