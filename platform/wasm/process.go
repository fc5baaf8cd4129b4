package wasm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/sys"

	"github.com/handrail-dev/handrail/capabilities"
)

// Process is a module that runs. Its methods are safe for concurrent use.
type Process struct {
	//lint:ignore containedctx the life of the module
	ctx    context.Context // done when it is to end
	cancel context.CancelFunc
	in     *io.PipeReader
	stdin  *io.PipeWriter
	out    *io.PipeWriter
	stdout *io.PipeReader
	stderr tail
	over   chan struct{} // closed when what follows is known
	code   int
	err    error
}

func newProcess(ctx context.Context) *Process {
	p := &Process{over: make(chan struct{}), code: -1}
	p.ctx, p.cancel = context.WithCancel(ctx)
	p.in, p.stdin = io.Pipe()
	p.stdout, p.out = io.Pipe()
	// A module that waits for its streams hears of its end there.
	context.AfterFunc(p.ctx, func() {
		_ = p.in.Close()
		_ = p.out.Close()
	})
	return p
}

// end says how it ended. Its output until then can still be read.
func (p *Process) end(code int, err error) {
	p.code, p.err = code, err
	_ = p.in.Close()
	_ = p.out.Close()
	close(p.over)
	p.cancel()
}

// Stdin is its standard input; closing ends it.
func (p *Process) Stdin() io.WriteCloser { return p.stdin }

// Stdout is its standard output. A module whose output nobody reads waits.
func (p *Process) Stdout() io.Reader { return p.stdout }

// Stderr returns the end of what it wrote there, at most 16 KiB.
func (p *Process) Stderr() string { return p.stderr.text() }

// Scratch returns "": a module has no folder.
func (p *Process) Scratch() string { return "" }

// Wait returns its exit code after its end; -1 if it was killed. The error says why it had no exit
// code of its own: CodeExecutionFailed for a fault of the module, CodeDeadlineExceeded if its time
// was over, CodeInvalidRequest if it cannot run.
func (p *Process) Wait() (int, error) {
	<-p.over
	return p.code, p.err
}

// Kill ends it. Idempotent.
func (p *Process) Kill() { p.cancel() }

// run carries a module out, once there is a place for it.
func (e *Engine) run(p *Process, program Program) (code int, err error) {
	select {
	case e.places <- struct{}{}:
		defer func() { <-e.places }()
	case <-p.ctx.Done():
		return -1, nil
	}
	c, err := e.take(p.ctx, program.Code)
	if err != nil {
		if p.ctx.Err() != nil || e.over.Err() != nil {
			return -1, nil
		}
		return -1, err
	}
	defer e.leave(c)
	ctx, most := p.ctx, timeOf(program.Keys)
	if most > 0 {
		var done context.CancelFunc
		ctx, done = context.WithTimeout(ctx, most)
		defer done()
	}
	defer func() {
		if r := recover(); r != nil { // a fault of the engine costs its run
			code, err = -1, capabilities.Wrap(capabilities.CodeExecutionFailed, fmt.Errorf("%v", r), "The engine of modules failed.")
		}
	}()
	linear, err := reserve()
	if err != nil {
		return -1, capabilities.Wrap(capabilities.CodeOverloaded, err, "")
	}
	defer linear.release()
	// Nothing of this configuration opens a folder or a socket. Clocks and random numbers are the
	// library's own, which are alike in each run.
	m, err := e.runtime.InstantiateModule(experimental.WithMemoryAllocator(ctx, linear), c.module,
		wazero.NewModuleConfig().WithName("").WithArgs(program.Args...).WithStartFunctions(begins).
			WithStdin(p.in).WithStdout(p.out).WithStderr(&p.stderr))
	if m != nil {
		_ = m.Close(context.Background())
	}
	var exit *sys.ExitError
	switch {
	case p.ctx.Err() != nil:
		return -1, nil
	case ctx.Err() != nil && err != nil:
		return -1, overtime(most)
	case err == nil:
		return 0, nil
	case errors.As(err, &exit):
		return int(exit.ExitCode()), nil
	}
	return -1, capabilities.Wrap(capabilities.CodeExecutionFailed, err, "The module failed: "+fault(err)+".").
		WithDetails(map[string]any{"stderr": p.Stderr()})
}

func overtime(most time.Duration) error {
	return capabilities.Errorf(capabilities.CodeDeadlineExceeded, "the module ran longer than %s", most).
		WithHint("Its manifest asks for more with the key " + capabilities.KeyExtended + ".")
}

// fault is what a module did wrong, in the engine's words.
func fault(err error) string {
	text := firstLine(err.Error())
	if _, after, ok := strings.Cut(text, "wasm error: "); ok {
		return after
	}
	return text
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	end []byte
}

const maxStderr = 16 << 10

func (t *tail) Write(data []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, data[max(0, len(data)-maxStderr):]...)
	if extra := len(t.end) - maxStderr; extra > maxStderr {
		t.end = append(t.end[:0], t.end[extra:]...)
	}
	return len(data), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.end[max(0, len(t.end)-maxStderr):]), "\uFFFD")
}
