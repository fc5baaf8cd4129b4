package script

import (
	"bufio"
	"errors"
	"io"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"github.com/dop251/goja"
)

// guestArg is the argument that makes a process a guest.
const guestArg = "__script"

// Main turns this process into a guest if it was started as one, and then does
// not return. Call it first in main, and in TestMain of packages that run
// scripts: a guest is a re-execution of the same binary. confine takes from the
// process what the system can take (files, sockets, memory beyond the bound); a
// guest that can not be confined runs nothing.
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

// pipes gives the command pipe: see platform.Process.
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
	in  *bufio.Reader
	out io.Writer
	vm  *goja.Runtime
	// stringify is taken before the script could change it.
	stringify goja.Callable
	calls     int
	logs      int
	timers    timers
	broken    error // the pipe to the host
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
	// The collector works harder only beyond the bound at which the script ends.
	debug.SetMemoryLimit(int64(m.Run.Memory + m.Run.Memory/2))
	if confine != nil {
		if err := confine(m.Run.Memory); err != nil {
			p.say(toHost{Done: &done{Failure: &failure{Message: "the process could not be confined: " + err.Error()}}})
			return 1
		}
	}
	d := p.run(*m.Run)
	if p.say(toHost{Done: &d}) != nil {
		return 1
	}
	return 0
}

func (p *process) say(m toHost) error {
	line, err := encode(m)
	if err != nil {
		return err
	}
	if _, err := p.out.Write(line); err != nil {
		p.broken = err
	}
	return p.broken
}

var errMemory = errors.New("out of memory")

// watchMemory interrupts the script at the bound, so that it ends with a reason;
// what it takes in one gulp meets the system's bound and ends without one.
func (p *process) watchMemory(limit uint64, stop <-chan struct{}) {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			if metrics.Read(sample); sample[0].Value.Uint64() > limit {
				p.vm.Interrupt(errMemory)
				return
			}
		}
	}
}

func (p *process) run(r run) done {
	p.vm = goja.New()
	p.vm.SetMaxCallStackSize(2000)
	stop := make(chan struct{})
	defer close(stop)
	go p.watchMemory(r.Memory, stop)
	page, console, err := p.globals(r.Tools)
	if err != nil {
		return p.failed(err)
	}
	program, err := compile(r.Code)
	if err != nil {
		return p.failed(err)
	}
	v, err := p.vm.RunProgram(program)
	if err != nil {
		return p.failed(err)
	}
	main, ok := goja.AssertFunction(v)
	if !ok {
		return done{Failure: &failure{Message: "The code is no function body."}}
	}
	if v, err = main(goja.Undefined(), page, console); err == nil {
		v, err = p.settle(v)
	}
	if err != nil {
		return p.failed(err)
	}
	return p.value(v)
}

// value turns what the script returned into JSON.
func (p *process) value(v goja.Value) done {
	if v == nil || goja.IsUndefined(v) {
		v = goja.Null()
	}
	text, err := p.stringify(goja.Undefined(), v)
	if err != nil {
		return p.failed(err)
	}
	if goja.IsUndefined(text) {
		return done{Failure: &failure{Message: "The script returned a function, which has no JSON value."}}
	}
	s := text.String()
	if len(s) > maxValue {
		return done{Failure: &failure{Message: "too large", Large: true}}
	}
	return done{Value: []byte(s)}
}

// settle waits for a promise, running timers meanwhile.
func (p *process) settle(v goja.Value) (goja.Value, error) {
	for {
		promise, ok := v.Export().(*goja.Promise)
		if !ok {
			return v, nil
		}
		switch promise.State() {
		case goja.PromiseStateFulfilled:
			return promise.Result(), nil
		case goja.PromiseStateRejected:
			return nil, rejected{promise.Result()}
		}
		if p.broken != nil {
			return nil, p.broken
		}
		next, ok := p.timers.next()
		if !ok {
			return nil, errors.New("The script waits for a promise that nothing resolves.")
		}
		time.Sleep(time.Until(next.at))
		if _, err := next.do(goja.Undefined(), next.args...); err != nil {
			return nil, err
		}
	}
}

// rejected is the reason of a promise that was rejected.
type rejected struct{ reason goja.Value }

func (r rejected) Error() string { return "a promise was rejected" }

// failed words an error for the host.
func (p *process) failed(err error) done {
	f := &failure{Message: err.Error()}
	var exception *goja.Exception
	var interrupted *goja.InterruptedError
	var syntax *goja.CompilerSyntaxError
	var reason rejected
	switch {
	case errors.As(err, &interrupted):
		f.Memory = errors.Is(interrupted, errMemory) || interrupted.Value() == error(errMemory)
	case errors.As(err, &syntax):
		f.Message, f.Line = syntaxMessage(syntax)
	case errors.As(err, &exception):
		f.Message, f.Line, f.Call = p.thrown(exception.Value())
		if f.Line == 0 {
			f.Line = lineIn(exception.String())
		}
	case errors.As(err, &reason):
		f.Message, f.Line, f.Call = p.thrown(reason.reason)
	}
	return done{Failure: f}
}

// thrown reads a thrown value. Reading it may run the script's own getters.
func (p *process) thrown(v goja.Value) (message string, line, call int) {
	o, ok := v.(*goja.Object)
	if !ok {
		return "thrown: " + clip(v.String(), maxMessage), 0, 0
	}
	err := p.vm.Try(func() {
		if stack := o.Get("stack"); stack != nil {
			line = lineIn(stack.String())
		}
		if id := o.Get("call"); id != nil {
			call = int(id.ToInteger())
		}
		message = clip(o.String(), maxMessage)
	})
	if err != nil || message == "" {
		message = "The script threw something that can not be read."
	}
	return message, line, call
}

// lineIn finds the innermost line of the script in a stack.
func lineIn(stack string) int {
	_, after, ok := strings.Cut(stack, sourceName+":")
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
