package escape

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/handrail-dev/handrail/platform/wasm"
)

// hostileModule compiles the program of testdata for WASI.
func hostileModule(t *testing.T) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "module.wasm")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", file, "./testdata/module")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	code, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// modules runs it as the node runs users' modules.
func modules(t *testing.T, code []byte) jail {
	t.Helper()
	e := wasm.New()
	t.Cleanup(func() { _ = e.Close() })
	return jail{"module", func(ctx context.Context, _ *ground, argv ...string) (string, error) {
		p, err := e.Start(ctx, wasm.Program{Code: code, Args: append([]string{"module"}, argv[2:]...)})
		if err != nil {
			return "", err
		}
		_ = p.Stdin().Close()
		text, _ := io.ReadAll(p.Stdout())
		status, err := p.Wait()
		if err == nil && status != 0 {
			err = fmt.Errorf("it ended with %d: %s", status, p.Stderr())
		}
		return string(text), err
	}}
}

// bare runs it with every file of this machine, and the environment, as WASI can have them.
func bare(t *testing.T, code []byte) jail {
	t.Helper()
	r := wazero.NewRuntime(t.Context())
	t.Cleanup(func() { _ = r.Close(context.Background()) })
	if _, err := wasi_snapshot_preview1.Instantiate(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	module, err := r.CompileModule(t.Context(), code)
	if err != nil {
		t.Fatal(err)
	}
	return jail{"bare", func(ctx context.Context, _ *ground, argv ...string) (string, error) {
		var said bytes.Buffer
		config := wazero.NewModuleConfig().WithArgs(append([]string{"module"}, argv[2:]...)...).WithStdout(&said).WithSysWalltime().WithSysNanotime()
		config = config.WithEnv("SECRET", canary).WithFSConfig(wazero.NewFSConfig().WithDirMount("/", "/"))
		_, err := r.InstantiateModule(ctx, module, config.WithName(""))
		return said.String(), err
	}}
}

// moduleTries lists what the module can try.
func moduleTries(t *testing.T, j jail) []string {
	t.Helper()
	said, err := j.run(t.Context(), nil, "", "hostile", "tries")
	names := strings.Split(strings.TrimSpace(said), "\n")
	if err != nil || len(names) < 16 {
		t.Fatalf("%v: %s", err, said)
	}
	slices.Sort(names)
	return names
}

// withoutWASI are tries that WASI has no way for, whatever it is given; and one that this machine
// would pay for.
var withoutWASI = []string{"connect to a service", "send a datagram", "start a program", "take memory without end"}

// A WebAssembly module gets at nothing, and would at most things if it were given what WASI knows.
func TestModulesDoNotEscape(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a program for WASI; run without -short")
	}
	t.Setenv("SECRET", canary)
	g, code := newGround(t), hostileModule(t)
	j, control := modules(t, code), bare(t, code)
	for _, name := range moduleTries(t, j) {
		if escaped, said, _ := g.tries(t, j, name); escaped != "" {
			t.Errorf("%s: %s: %s", name, escaped, said)
		}
		if slices.Contains(withoutWASI, name) || name == "read the account's password hashes" && os.Geteuid() != 0 {
			continue
		}
		if escaped, said, err := g.tries(t, control, name); escaped == "" {
			t.Errorf("%s does no harm where all is open: %v: %s", name, err, said)
		}
	}
}

// moduleRow is the row of the table. Others run no modules.
func moduleRow(t *testing.T, g *ground, others int) string {
	t.Helper()
	j := modules(t, hostileModule(t))
	names := moduleTries(t, j)
	cell := "refused"
	for _, name := range names {
		if escaped, _, _ := g.tries(t, j, name); escaped != "" {
			cell = "**" + name + ": " + escaped + "**"
		}
	}
	return fmt.Sprintf("| a WebAssembly module, %d tries | %s | %s |%s\n", len(names), cell, cell, strings.Repeat(" – |", others))
}
