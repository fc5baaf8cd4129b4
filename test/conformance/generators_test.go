package conformance

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/handrail-dev/handrail/gateway/client"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// oapiCodegen is the generator for Go that most people use. It is run, not linked.
const oapiCodegen = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"

// The OpenAPI document of a gateway is taken by a linter and by generators for two
// languages, and what they make compiles.
func TestGeneratorsTakeTheDocument(t *testing.T) {
	bin := filepath.Join(packages(t), "node_modules", ".bin")
	s := site.Start(t, site.Options{})
	c, err := client.New(s.URL(), client.NewToken(s.MustToken("reader", principal.RoleAgent)))
	if err != nil {
		t.Fatal(err)
	}
	var doc json.RawMessage
	if err := c.Do(t.Context(), http.MethodGet, client.Path("openapi.json"), nil, &doc); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(t *testing.T, program string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true", "GOFLAGS=-mod=mod")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", filepath.Base(program), err, out[max(0, len(out)-4000):])
		}
	}
	write("openapi.json", string(doc))
	t.Run("redocly", func(t *testing.T) {
		run(t, filepath.Join(bin, "redocly"), "lint", "openapi.json", "--max-problems", "20")
	})
	t.Run("openapi-typescript", func(t *testing.T) {
		write("tsconfig.json", `{"compilerOptions":{"strict":true,"noEmit":true,"types":[]},"files":["api.ts"]}`)
		run(t, filepath.Join(bin, "openapi-typescript"), "openapi.json", "-o", "api.ts")
		run(t, filepath.Join(bin, "tsc"), "-p", ".")
	})
	t.Run("oapi-codegen", func(t *testing.T) {
		write("go.mod", "module api\n\ngo 1.26.0\n")
		run(t, "go", "run", oapiCodegen, "-generate", "types,client", "-package", "api", "-o", "api.go", "openapi.json")
		run(t, "go", "mod", "tidy")
		run(t, "go", "build", ".")
	})
}
