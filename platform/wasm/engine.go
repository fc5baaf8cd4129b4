package wasm

import (
	"context"
	"crypto/sha256"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/handrail-dev/handrail/capabilities"
)

// maxKept is how many compiled modules are kept, by the digests of their bytes.
const maxKept = 16

// Engine runs modules. Its methods are safe for concurrent use.
type Engine struct {
	places  chan struct{} // held by each run
	running sync.WaitGroup
	//lint:ignore containedctx the life of the engine
	over context.Context // done when it is closed
	stop context.CancelFunc

	compiling sync.Mutex // held while the compiler works; above mu
	mu        sync.Mutex // above what follows
	runtime   wazero.Runtime
	offers    map[string]bool // the functions of WASI
	kept      map[[sha256.Size]byte]*compiled
	count     uint64
	closed    bool
}

// New makes an Engine; it starts nothing.
func New() *Engine {
	over, stop := context.WithCancel(context.Background())
	return &Engine{places: make(chan struct{}, max(4, runtime.GOMAXPROCS(0))), over: over, stop: stop, kept: map[[sha256.Size]byte]*compiled{}}
}

// features are those of WebAssembly 2 without references: with them tables grow, and a table that
// grows is memory that no bound of a memory counts.
const features = api.CoreFeaturesV2 &^ api.CoreFeatureReferenceTypes

// openLocked makes what compiles and runs modules.
func (e *Engine) openLocked() error {
	if e.closed {
		return &capabilities.Error{Code: capabilities.CodeCancelled}
	}
	if e.runtime != nil {
		return nil
	}
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().
		WithCoreFeatures(features).WithMemoryLimitPages(memoryPages).WithCloseOnContextDone(true).WithDebugInfoEnabled(false))
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, r); err != nil {
		_ = r.Close(ctx)
		return capabilities.Wrap(capabilities.CodeExecutionFailed, err, "")
	}
	e.runtime, e.offers = r, map[string]bool{}
	for name := range r.Module(wasi_snapshot_preview1.ModuleName).ExportedFunctionDefinitions() {
		e.offers[name] = true
	}
	return nil
}

// Check compiles a module and says why it cannot run here: CodeInvalidRequest.
func (e *Engine) Check(ctx context.Context, code []byte) error {
	c, err := e.take(ctx, code)
	if err != nil {
		return err
	}
	e.leave(c)
	return nil
}

// take returns a module that is compiled, which its taker leaves.
func (e *Engine) take(ctx context.Context, code []byte) (*compiled, error) {
	sum := sha256.Sum256(code)
	e.mu.Lock()
	if err := e.openLocked(); err != nil {
		e.mu.Unlock()
		return nil, err
	}
	c := e.kept[sum]
	if c == nil {
		c = &compiled{ready: make(chan struct{})}
		e.kept[sum] = c
		e.running.Go(func() {
			e.compiling.Lock()
			defer e.compiling.Unlock()
			c.module, c.err = e.compile(code)
			close(c.ready)
		})
	}
	c.users++
	e.count++
	c.used = e.count
	e.mu.Unlock()
	select {
	case <-c.ready:
	case <-ctx.Done():
		e.leave(c)
		return nil, context.Cause(ctx)
	}
	if c.err != nil {
		e.leave(c)
		return nil,
			capabilities.Wrap(capabilities.CodeInvalidRequest, c.err, fmt.Sprintf("The module cannot run here: %s.", firstLine(c.err.Error()))).
				WithHint("Compile a command for WASI preview 1, such as with GOOS=wasip1 GOARCH=wasm.")
	}
	return c, nil
}

// leave lets a module go that was taken. Of those that nobody uses the ones used last are kept.
func (e *Engine) leave(c *compiled) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c.users--
	idle := map[[sha256.Size]byte]*compiled{}
	for sum, one := range e.kept {
		if one.users == 0 && settled(one) {
			idle[sum] = one
		}
	}
	for sum, one := range idle {
		if one.err != nil {
			delete(e.kept, sum)
			delete(idle, sum)
		}
	}
	for len(e.kept) > maxKept && len(idle) > 0 {
		var oldest [sha256.Size]byte
		for sum, one := range idle {
			if idle[oldest] == nil || one.used < idle[oldest].used {
				oldest = sum
			}
		}
		_ = idle[oldest].module.Close(context.Background())
		delete(e.kept, oldest)
		delete(idle, oldest)
	}
}

func settled(c *compiled) bool {
	select {
	case <-c.ready:
		return true
	default:
		return false
	}
}

// Program is one run of a module.
type Program struct {
	Code []byte   // the module. Required.
	Args []string // its own name first
	Keys []string // effective keys of the call that it is of, which decide its time
}

// Start runs a module; ctx bounds its run. CodeInvalidArguments for words that no program can be
// given; a module that cannot run is told of by Wait.
func (e *Engine) Start(ctx context.Context, p Program) (*Process, error) {
	if slices.ContainsFunc(p.Args, func(word string) bool { return strings.ContainsRune(word, 0) }) {
		return nil, capabilities.Errorf(capabilities.CodeInvalidArguments, "an argument has a zero byte, at which arguments end").
			WithHint("Leave it out, or hand it over by standard input.")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, &capabilities.Error{Code: capabilities.CodeCancelled}
	}
	process := newProcess(ctx)
	e.running.Go(func() {
		defer context.AfterFunc(e.over, process.Kill)()
		process.end(e.run(process, p))
	})
	return process, nil
}

// Close ends what runs, and frees what was compiled. Idempotent.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.closed = true
	e.stop()
	e.mu.Unlock()
	e.running.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.runtime == nil {
		return nil
	}
	err := e.runtime.Close(context.Background())
	e.runtime, e.kept = nil, map[[sha256.Size]byte]*compiled{}
	return err
}

// firstLine is an error of the engine without its trace.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return capabilities.Clip(capabilities.Printable(line), 300)
}
