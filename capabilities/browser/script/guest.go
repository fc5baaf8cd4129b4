package script

import (
	"bufio"
	"errors"
	"io"
	"os"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"

	"modernc.org/quickjs"

	"github.com/handrail-dev/handrail/capabilities"
)

// guestArg is the argument that makes a process a guest.
const guestArg = "__script"

// Main turns this process into a guest if it was started as one, and then does
// not return. Call it first in main, and in TestMain of packages that run
// scripts: a guest is a re-execution of the same binary. confine takes from the
// process what the system can take (files, sockets, memory beyond the bound); a
// guest that cannot be confined runs nothing.
func Main(confine func(memory uint64) error) {
	mainCalled.Store(true)
	if len(os.Args) < 2 || os.Args[1] != guestArg {
		return
	}
	in, out, err := pipes(os.Args[2:])
	if err != nil {
		os.Exit(1)
	}
	os.Exit(guestMain(in, out, confine))
}

// pipes returns the command pipe: see platform.Process.
func pipes(args []string) (in, out *os.File, err error) {
	r, w := uintptr(3), uintptr(4)
	if len(args) > 0 {
		a, b, ok := strings.Cut(args[0], ",")
		x, err1 := strconv.ParseUint(a, 10, 64)
		y, err2 := strconv.ParseUint(b, 10, 64)
		if !ok || err1 != nil || err2 != nil {
			return nil, nil, errors.New("script: pipe handles")
		}
		r, w = uintptr(x), uintptr(y)
	}
	return os.NewFile(r, "in"), os.NewFile(w, "out"), nil
}

// process is the guest's own side.
type process struct {
	in     *bufio.Reader
	out    io.Writer
	vm     *quickjs.VM
	source string // what was compiled
	calls  int
	threw  exception
	broken error // the pipe to the host
}

// guestMain runs the one script that comes over in.
func guestMain(in io.Reader, out io.Writer, confine func(uint64) error) int {
	p := &process{in: bufio.NewReaderSize(in, 64<<10), out: out}
	line, err := readLine(p.in)
	if err != nil {
		return 1
	}
	m, err := decode[toGuest](line)
	if err != nil || m.Run == nil {
		return 1
	}
	// Beside the engine's memory, which Go does not count, there are only lines.
	debug.SetMemoryLimit(64 << 20)
	if confine != nil {
		if err := confine(m.Run.Memory); err != nil {
			p.say(toHost{Done: &done{Failure: &failure{Message: "the process could not be confined: " + err.Error()}}})
			return 1
		}
	}
	d := p.run(*m.Run)
	err = p.say(toHost{Done: &d})
	if err != nil && p.broken == nil { // it is no line
		err = p.say(toHost{Done: &done{Failure: &failure{Message: "The script returned something that is nested too deep."}}})
	}
	if err != nil {
		return 1
	}
	return 0
}

func (p *process) say(m toHost) error {
	line, err := encode(m)
	if err != nil {
		return err
	}
	return p.write(line)
}

func (p *process) write(line []byte) error {
	if _, err := p.out.Write(line); err != nil {
		return p.fail(err)
	}
	return nil
}

// fail ends the script, which cannot catch it: nobody is there to hear it.
func (p *process) fail(err error) error {
	p.broken = err
	p.vm.Interrupt()
	return err
}

// lastWords is the memory that is there to tell of a script which used up its own.
const lastWords = 16 << 20

func (p *process) run(r run) done {
	var err error
	if p.vm, err = quickjs.NewVM(); err != nil {
		return done{Failure: &failure{Message: err.Error()}}
	}
	p.vm.SetMemoryLimit(uintptr(r.Memory))
	drive, err := p.globals(r.Tools)
	if err != nil {
		return p.failed(err)
	}
	script, err := p.compile(r.Code)
	if err != nil {
		return p.failed(err)
	}
	state, err := p.play(drive, script)
	if err != nil {
		return p.failed(err)
	}
	p.vm.SetMemoryLimit(uintptr(r.Memory + lastWords))
	switch state {
	case "memory":
		return done{Failure: &failure{Message: "out of memory", Memory: true}}
	case "stuck":
		return done{Failure: &failure{Message: "The script waits for a promise that nothing resolves."}}
	case "value":
		v, err := drive.Call(quickjs.UndefinedValue, "value")
		if err != nil {
			return p.failed(err)
		}
		switch text := v.(type) {
		case string:
			if len(text) > maxValue {
				return done{Failure: &failure{Message: "too large", Large: true}}
			}
			return done{Value: []byte(text)}
		case quickjs.Undefined:
			return done{Failure: &failure{Message: "The script returned a function, which has no JSON value."}}
		}
	}
	if _, err := drive.Call(quickjs.UndefinedValue, "thrown"); err != nil {
		return p.failed(err)
	}
	return p.thrown()
}

// play runs the script to its end, timers meanwhile, and returns how it ended.
func (p *process) play(drive, script quickjs.Value) (state string, err error) {
	if _, err = drive.Call(quickjs.UndefinedValue, "start", script); err != nil {
		return "", err
	}
	for {
		for {
			_, err = p.vm.ExecutePendingJobs()
			var e *quickjs.Error
			if err == nil || errors.As(err, &e) {
				break
			}
			// It stopped after very many jobs, as a pause.
		}
		if err != nil {
			return "", err
		}
		v, err := drive.Call(quickjs.UndefinedValue, "turn")
		if err != nil {
			return "", err
		}
		if state, _ = v.(string); state != "" {
			return state, nil
		}
	}
}

const outOfMemory = "InternalError: out of memory"

// failed words an error of the engine: the code is none, or api.js could not go on.
func (p *process) failed(err error) done {
	f := &failure{Message: capabilities.Clip(err.Error(), maxMessage), Memory: err.Error() == outOfMemory}
	var e *quickjs.Error
	if errors.As(err, &e) {
		if f.Line = e.LineNumber; f.Line == 0 {
			f.Line = lineIn(e.Stack)
		}
	}
	return done{Failure: f}
}

// exception is what the script threw, as api.js tells it.
type exception struct {
	text, stack string
	call        int
}

// thrown words the exception for the host.
func (p *process) thrown() done {
	e := p.threw
	f := &failure{Message: capabilities.Clip(e.text, maxMessage), Line: lineIn(e.stack), Call: e.call, Memory: e.text == outOfMemory}
	if e.text == noFunction {
		if name := called(p.source, e.stack); name != "" {
			f.Message = "TypeError: " + name + " is not a function"
		}
	}
	return done{Failure: f}
}

// noFunction is what the engine says whatever was called. A script's commonest
// mistake is a tool that is not there, so the source must tell.
const noFunction = "TypeError: not a function"

var (
	firstPlace = regexp.MustCompile(`^\s*at [^\n]*\(` + place + `(\d+):(\d+)\)`)
	calledName = regexp.MustCompile(`[\w$.?]+\s*$`)
)

// called returns the name before the parenthesis at which the stack begins.
func called(source, stack string) string {
	m := firstPlace.FindStringSubmatch(stack)
	if m == nil {
		return ""
	}
	line, _ := strconv.Atoi(m[1])
	column, _ := strconv.Atoi(m[2])
	lines := strings.Split(source, "\n")
	if line < 1 || line > len(lines) {
		return ""
	}
	text := []rune(lines[line-1])
	if column < 1 || column > len(text) || text[column-1] != '(' {
		return ""
	}
	return capabilities.Clip(strings.TrimSpace(calledName.FindString(string(text[:column-1]))), 100)
}

// lineIn finds the innermost line of the script in a stack.
func lineIn(stack string) int {
	_, after, ok := strings.Cut(stack, place)
	if !ok {
		return 0
	}
	digits := after
	for i, r := range after {
		if r < '0' || r > '9' {
			digits = after[:i]
			break
		}
	}
	n, _ := strconv.Atoi(digits)
	return n
}
