package wasm

import (
	"context"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/capabilities"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// words compiles the program of testdata once.
var words = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "words")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "words.wasm"), "./testdata/words")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return out, err
	}
	return os.ReadFile(filepath.Join(dir, "words.wasm"))
})

func mustWords(t *testing.T) []byte {
	t.Helper()
	if testing.Short() {
		t.Skip("compiles a program for WASI; run without -short")
	}
	code, err := words()
	if err != nil {
		t.Fatalf("%v\n%s", err, code)
	}
	return code
}

func newEngine(t *testing.T) *Engine {
	t.Helper()
	e := New()
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

type ended struct {
	out, err string
	code     int
	why      error
}

func run(t *testing.T, e *Engine, p Program, stdin string) ended {
	t.Helper()
	process, err := e.Start(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = io.WriteString(process.Stdin(), stdin)
		_ = process.Stdin().Close()
	}()
	out, err := io.ReadAll(process.Stdout())
	if err != nil {
		t.Error(err)
	}
	code, why := process.Wait()
	return ended{string(out), process.Stderr(), code, why}
}

// A program that Go compiled for WASI reads its arguments and standard input, writes standard
// output, says how it ended, and is the same each time.
func TestAProgramOfGo(t *testing.T) {
	code, e := mustWords(t), newEngine(t)
	if err := e.Check(t.Context(), code); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args  []string
		stdin string
		want  ended
	}{
		{[]string{"upper"}, "grüße", ended{out: strings.ToUpper("grüße")}},
		{[]string{"args", "a b", "", "--c"}, "", ended{out: "a b  --c\n"}},
		{[]string{"fail"}, "", ended{err: "it fails\n", code: 3}},
		{nil, "", ended{code: 64}},
	} {
		if got := run(t, e, Program{Code: code, Args: append([]string{"words"}, tt.args...)}, tt.stdin); got != tt.want {
			t.Errorf("%q: %+v", tt.args, got)
		}
	}
	if got := run(t, e, Program{Code: code, Args: []string{"words", "panic"}}, ""); got.code != 2 || !strings.Contains(got.err, "a fault of mine") {
		t.Errorf("%+v", got)
	}
	chance := Program{Code: code, Args: []string{"words", "chance"}}
	if first, again := run(t, e, chance, ""), run(t, e, chance, ""); first != again || first.code != 0 || first.out == "" {
		t.Errorf("not alike: %+v, %+v", first, again)
	}
	if e.count < 3 || len(e.kept) != 1 {
		t.Errorf("compiled %d times for %d uses", len(e.kept), e.count)
	}
}

// A module reaches no file, no variable and no program of its host (S1-35, class t0).
func TestAModuleReachesNothing(t *testing.T) {
	code, e := mustWords(t), newEngine(t)
	got := run(t, e, Program{Code: code, Args: []string{"words", "reach"}}, "")
	want := "env 0\n/etc/passwd false\n/ false\n. false\n../../../etc/passwd false\n/dev/stdin false\nwrite false\nexec false\n"
	if got.out != want || got.code != 0 {
		t.Errorf("%+v", got)
	}
}

// A module that takes memory, time or output without end is ended, by its bound or with its call.
func TestAModuleHasBounds(t *testing.T) {
	code, e := mustWords(t), newEngine(t)
	if got := run(t, e, Program{Code: code, Args: []string{"words", "memory"}}, ""); got.code != 2 || !strings.Contains(got.err, "out of memory") {
		t.Errorf("%+v", got)
	}
	for _, what := range []string{"flood", "stay", "sleep", "upper"} { // the last waits for what nobody writes
		ctx, cancel := context.WithCancel(t.Context())
		process, err := e.Start(ctx, Program{Code: code, Args: []string{"words", what}, Keys: []string{capabilities.KeyBurst}})
		if err != nil {
			t.Fatal(err)
		}
		if what == "flood" {
			if _, err := io.ReadFull(process.Stdout(), make([]byte, 1<<20)); err != nil {
				t.Error(err)
			}
			process.Kill()
		} else {
			cancel()
		}
		if code, err := process.Wait(); code != -1 || err != nil {
			t.Errorf("%s: %d %v", what, code, err)
		}
		cancel()
	}
}

// The assembler of the small modules below.

func leb(n uint64) []byte { return binary.AppendUvarint(nil, n) }

func list(items ...[]byte) []byte { return append(leb(uint64(len(items))), slices.Concat(items...)...) }

func sized(b []byte) []byte { return append(leb(uint64(len(b))), b...) }

func section(id byte, body []byte) []byte { return append([]byte{id}, sized(body)...) }

func name(s string) []byte { return sized([]byte(s)) }

// small is a module whose _start has that body, in the WebAssembly of a person who counts bytes.
type small struct {
	types   [][]byte // beside the first, of a function without parameters
	imports [][]byte
	table   []byte
	memory  []byte // limits; default: one page
	begin   bool   // it runs when the module is made, too
	locals  byte   // i32
	body    []byte
	data    string // from address 0 on
}

func (s small) code() []byte {
	memory := s.memory
	if memory == nil {
		memory = []byte{0, 1}
	}
	at := leb(uint64(len(s.imports)))
	locals := []byte{0}
	if s.locals > 0 {
		locals = []byte{1, s.locals, 0x7f}
	}
	out := slices.Concat(header, section(1, list(append([][]byte{{0x60, 0, 0}}, s.types...)...)), section(2, list(s.imports...)), section(3, list([]byte{0})))
	if s.table != nil {
		out = append(out, section(4, s.table)...)
	}
	out = append(out, section(5, list(memory))...)
	out = append(out, section(7, list(slices.Concat(name("_start"), []byte{0}, at), slices.Concat(name("memory"), []byte{2, 0})))...)
	if s.begin {
		out = append(out, section(8, at)...)
	}
	out = append(out, section(10, list(sized(slices.Concat(locals, s.body, []byte{0x0b}))))...)
	if s.data != "" {
		out = append(out, section(11, list(slices.Concat([]byte{0, 0x41, 0, 0x0b}, name(s.data))))...)
	}
	return out
}

func imported(from, function string, kind byte) []byte {
	return slices.Concat(name(from), name(function), []byte{0, kind})
}

var forever = []byte{0x03, 0x40, 0x0c, 0, 0x0b} // loop, br 0, end

// A module that its maker meant badly ends alone, with a reason, and the engine goes on.
func TestHostileModules(t *testing.T) {
	const wasi = "wasi_snapshot_preview1"
	open := []byte{0x60, 9, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7e, 0x7e, 0x7f, 0x7f, 1, 0x7f} // path_open
	accept := []byte{0x60, 3, 0x7f, 0x7f, 0x7f, 1, 0x7f}                                   // sock_accept
	exit := []byte{0x60, 1, 0x7f, 0}                                                       // proc_exit
	leave := imported(wasi, "proc_exit", 2)
	// each tries a call with the descriptors from 0 to 255 in local 0, and exits with 7 if one worked.
	each := func(call ...byte) []byte {
		return slices.Concat([]byte{0x03, 0x40}, call, []byte{
			0x45, 0x04, 0x40, 0x41, 7, 0x10, 1, 0x0b, // i32.eqz, if, proc_exit(7), end
			0x20, 0, 0x41, 1, 0x6a, 0x22, 0, 0x41, 0x80, 2, 0x49, 0x0d, 0, 0x0b, // next, br_if < 256, end
		})
	}
	for what, tt := range map[string]struct {
		small
		code capabilities.Code // "": it runs to its end
		says string
	}{
		"does nothing":             {small{}, "", ""},
		"loops":                    {small{body: forever}, capabilities.CodeDeadlineExceeded, "ran longer than 5s"},
		"loops before its start":   {small{body: forever, begin: true}, capabilities.CodeDeadlineExceeded, "ran longer than 5s"},
		"fills its memory forever": {small{memory: []byte{0, 16}, body: []byte{0x03, 0x40, 0x41, 0, 0x41, 1, 0x41, 0x80, 0x80, 0xc0, 0, 0xfc, 11, 0, 0x0c, 0, 0x0b}}, capabilities.CodeDeadlineExceeded, ""},
		"takes all memory": {small{body: []byte{
			0x03, 0x40, 0x41, 1, 0x40, 0, 0x41, 0x7f, 0x47, 0x0d, 0, 0x0b, // while memory.grow(1) != -1
			0x3f, 0, 0x41, 0x80, 16, 0x4b, 0x04, 0x40, 0x00, 0x0b, // if memory.size > 2048, unreachable
		}}, "", ""},
		"begins with too much memory":   {small{memory: append([]byte{0}, leb(2049)...)}, capabilities.CodeInvalidRequest, "2048 pages"},
		"has a table of 1 GiB":          {small{table: list(slices.Concat([]byte{funcref, 0}, leb(1<<27)))}, capabilities.CodeInvalidRequest, "more than 1048576 entries"},
		"has many tables":               {small{table: list([]byte{funcref, 0, 1}, []byte{funcref, 0, 1})}, capabilities.CodeInvalidRequest, "more than one table"},
		"has a table of other things":   {small{table: list([]byte{0x6f, 0, 1})}, capabilities.CodeInvalidRequest, "cannot be read"},
		"lets a table grow":             {small{table: list([]byte{funcref, 0, 1}), body: []byte{0xd2, 0, 0x41, 1, 0xfc, 15, 0, 0x1a}}, capabilities.CodeInvalidRequest, ""},
		"calls itself":                  {small{body: []byte{0x10, 0}}, capabilities.CodeExecutionFailed, "stack overflow"},
		"does what it must not":         {small{body: []byte{0x00}}, capabilities.CodeExecutionFailed, "unreachable"},
		"reads past its memory":         {small{body: []byte{0x41, 0x7f, 0x28, 2, 0, 0x1a}}, capabilities.CodeExecutionFailed, "out of bounds"},
		"imports what is not there":     {small{imports: [][]byte{imported("env", "system", 0)}}, capabilities.CodeInvalidRequest, `"system" of "env"`},
		"imports what WASI has not":     {small{imports: [][]byte{imported(wasi, "sock_connect", 0)}}, capabilities.CodeInvalidRequest, "sock_connect"},
		"imports WASI in another shape": {small{imports: [][]byte{imported(wasi, "proc_exit", 0)}}, capabilities.CodeExecutionFailed, "proc_exit"},
		"imports a memory":              {small{imports: [][]byte{slices.Concat(name("env"), name("memory"), []byte{2, 0, 1})}}, capabilities.CodeInvalidRequest, ""},
		"opens a file": {small{
			types: [][]byte{open, exit}, imports: [][]byte{imported(wasi, "path_open", 1), leave}, data: "etc/passwd", locals: 1,
			body: each(0x20, 0, 0x41, 0, 0x41, 0, 0x41, 10, 0x41, 0, 0x42, 0x7f, 0x42, 0x7f, 0x41, 0, 0x41, 0xc0, 0, 0x10, 0),
		}, "", ""},
		"takes a connection": {small{
			types: [][]byte{accept, exit}, imports: [][]byte{imported(wasi, "sock_accept", 1), leave}, locals: 1,
			body: each(0x20, 0, 0x41, 0, 0x41, 0xc0, 0, 0x10, 0),
		}, "", ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t)
			got := run(t, e, Program{Code: tt.small.code(), Args: []string{"small"}}, "")
			if capabilities.CodeOf(got.why) != tt.code || got.why == nil && got.code != 0 {
				t.Errorf("%+v", got)
			}
			if got.why != nil && !strings.Contains(capabilities.AsError(got.why).PublicMessage(), tt.says) {
				t.Errorf("says %q", capabilities.AsError(got.why).PublicMessage())
			}
			if tt.code == capabilities.CodeInvalidRequest && capabilities.CodeOf(e.Check(t.Context(), tt.small.code())) != tt.code {
				t.Error("Check takes it")
			}
			if got := run(t, e, Program{Code: small{}.code(), Args: []string{"small"}}, ""); got.why != nil || got.code != 0 {
				t.Errorf("after it: %+v", got)
			}
		})
	}
}

// An argument with a zero byte would be two arguments to the module, or none.
func TestAnArgumentHasNoZeroByte(t *testing.T) {
	_, err := newEngine(t).Start(t.Context(), Program{Code: small{}.code(), Args: []string{"small", "a\x00b"}})
	if capabilities.CodeOf(err) != capabilities.CodeInvalidArguments || capabilities.AsError(err).PublicHint() == "" {
		t.Error(err)
	}
}

// The compiled modules that are kept are bounded, and a module that cannot be compiled is not kept.
func TestFewModulesAreKept(t *testing.T) {
	e := newEngine(t)
	for i := range 3 * maxKept {
		code := append(small{}.code(), section(0, append(name("n"), byte(i)))...)
		if err := e.Check(t.Context(), code); err != nil {
			t.Fatal(err)
		}
		if err := e.Check(t.Context(), append(code, 0xff)); err == nil {
			t.Fatal("a module that ends in the middle is taken")
		}
	}
	if len(e.kept) != maxKept {
		t.Errorf("%d are kept", len(e.kept))
	}
}

// Nothing runs in an engine that is closed, and closing ends what runs.
func TestClosed(t *testing.T) {
	e := New()
	process, err := e.Start(t.Context(), Program{Code: small{body: forever}.code(), Args: []string{"small"}, Keys: []string{capabilities.KeyBurst}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if code, err := process.Wait(); code != -1 || err != nil {
		t.Errorf("%d %v", code, err)
	}
	if _, err := e.Start(t.Context(), Program{Code: small{}.code()}); capabilities.CodeOf(err) != capabilities.CodeCancelled {
		t.Error(err)
	}
	if err := e.Check(t.Context(), small{}.code()); capabilities.CodeOf(err) != capabilities.CodeCancelled {
		t.Error(err)
	}
}

// FuzzModules holds that bytes of anybody's end in an error or a run that ends.
func FuzzModules(f *testing.F) {
	f.Add(small{}.code())
	f.Add(small{body: []byte{0x00}}.code())
	f.Add(small{table: list([]byte{funcref, 0, 1}), begin: true}.code())
	f.Add([]byte("\x00asm\x01\x00\x00\x00\x01\x04\x01`\x00\x00\x02\x13\xf3\xff\xff\xff\x01\x05+\x01\x00\x01\a\x01\x00\x06\x00\x01tart\x00\x00\x06mem\x04\x00")) // 500 million imports
	e := New()
	f.Cleanup(func() { _ = e.Close() })
	f.Fuzz(func(t *testing.T, code []byte) {
		process, err := e.Start(t.Context(), Program{Code: code, Args: []string{"fuzz"}})
		if err != nil {
			t.Fatal(err)
		}
		_ = process.Stdin().Close()
		_, _ = io.Copy(io.Discard, process.Stdout())
		_, _ = process.Wait()
	})
}

// BenchmarkRun is one run of a program of Go, compiled before.
func BenchmarkRun(b *testing.B) {
	code, err := words()
	if err != nil {
		b.Fatal(err)
	}
	e := New()
	defer e.Close()
	if err := e.Check(b.Context(), code); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		process, err := e.Start(b.Context(), Program{Code: code, Args: []string{"words", "args"}})
		if err != nil {
			b.Fatal(err)
		}
		_ = process.Stdin().Close()
		_, _ = io.Copy(io.Discard, process.Stdout())
		if code, err := process.Wait(); code != 0 || err != nil {
			b.Fatal(code, err)
		}
	}
}
