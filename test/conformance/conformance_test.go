package conformance

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/front/fronttest"
	"github.com/handrail-dev/handrail/gateway/front/mcp"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// packages is where .ci/conformance installed the npm packages.
func packages(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("HANDRAIL_CONFORMANCE")
	if dir == "" {
		t.Skip("needs Node.js packages: run make conformance")
	}
	return dir
}

// Programs of the npm packages; two versions of the suite, because only the next
// one knows the newest revision.
const (
	released  = "@modelcontextprotocol/conformance/dist/index.js"
	next      = "conformance-next/dist/index.js"
	inspector = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
)

// run starts a program of the npm packages and returns what it printed.
func run(t *testing.T, dir, program string, args ...string) (string, error) {
	t.Helper()
	modules := filepath.Join(dir, "node_modules")
	bin := filepath.Join(modules, ".bin")
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "node"), append([]string{filepath.Join(modules, filepath.FromSlash(program))}, args...)...)
	cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		out = append(out, exit.Stderr...)
	}
	return string(out), err
}

// png is one red pixel, wav one sample: what a model would see and hear.
var (
	png, _ = base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==")
	wav, _ = base64.StdEncoding.DecodeString("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAA")
)

// surface is the real MCP surface over fixture tools.
func surface(t *testing.T) (f *fronttest.Front, token string) {
	t.Helper()
	f = fronttest.Prepare(t)
	blob := func(mime string, data []byte) capabilities.Blob {
		return capabilities.Blob{Field: "bytesBase64", MIME: mime, Bytes: data}
	}
	give := func(id capabilities.ToolID, result capabilities.Result) {
		f.Dispatcher.Do(id, func(context.Context, dispatch.Request) capabilities.Result { return result })
	}
	give(fronttest.ToolText, fronttest.OK(`{"text":"This is a simple text response for testing."}`))
	give(fronttest.ToolImage, fronttest.OK(`{}`, blob("image/png", png)))
	give(fronttest.ToolAudio, fronttest.OK(`{}`, blob("audio/wav", wav)))
	note := blob("text/plain", []byte("This is an embedded resource content."))
	give(fronttest.ToolResource, fronttest.OK(`{}`, note))
	give(fronttest.ToolMixed, fronttest.OK(`{"text":"Multiple content types test:"}`, blob("image/png", png), note))
	give(fronttest.ToolFailing, fronttest.Fail(capabilities.CodeExecutionFailed, nil))
	f.Dispatcher.Do(fronttest.ToolProgress, func(_ context.Context, r dispatch.Request) capabilities.Result {
		for _, done := range []float64{0, 50, 100} {
			r.Progress(capabilities.Progress{Done: done, Total: 100})
			time.Sleep(50 * time.Millisecond) // what the suite says this tool does
		}
		return fronttest.OK(`{}`)
	})
	token = f.Token("conformance", principal.RoleAgent)
	tools, err := fronttest.Catalog()
	if err != nil {
		t.Fatal(err)
	}
	server, err := mcp.New(mcp.Options{Dispatcher: f.Dispatcher, Tools: tools, Lanes: f.Lanes, Tokens: f.Tokens})
	if err != nil {
		t.Fatal(err)
	}
	f.Start(server)
	return f, token
}

// open returns the suite, which cannot send a token, a way in that adds one and
// changes nothing else: a foreign Host or Origin stays foreign. It is no proxy, so
// that nothing stands between the suite and the surface that could lose a stream.
func open(t *testing.T, f *fronttest.Front, token string) string {
	t.Helper()
	return way(t, f.URL, f.Server.ServeHTTP, token)
}

// way is such a way to whatever serves at an address.
func way(t *testing.T, address string, serve http.HandlerFunc, token string) string {
	t.Helper()
	target := strings.TrimPrefix(address, "http://")
	door := httptest.NewUnstartedServer(nil)
	own := door.Listener.Addr().String()
	door.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host = strings.ReplaceAll(r.Host, own, target)
		if origin := r.Header.Get("Origin"); origin != "" {
			r.Header.Set("Origin", strings.ReplaceAll(origin, own, target))
		}
		r.Header.Set("Authorization", "Bearer "+token)
		serve(w, r)
	})
	door.Start()
	t.Cleanup(door.Close)
	return door.URL
}

// leftOut is an entry of testdata/baseline.txt: what the suite expects of servers
// that are more than tools.
type leftOut struct{ scenario, check, reason string }

func (l leftOut) covers(scenario, check string) bool {
	is := func(pattern, name string) bool { ok, _ := path.Match(pattern, name); return ok }
	return is(l.scenario, scenario) && is(l.check, check)
}

func readBaseline(t *testing.T) []leftOut {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "baseline.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var all []leftOut
	for i, line := range strings.Split(string(data), "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, "|")
		if len(cells) != 3 || strings.TrimSpace(cells[2]) == "" {
			t.Fatalf("baseline.txt:%d is not: scenario | check | reason", i+1)
		}
		all = append(all, leftOut{strings.TrimSpace(cells[0]), strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])})
	}
	return all
}

// check is one line of the suite's own record of a scenario.
type check struct {
	ID      string `json:"id"`
	Status  string `json:"status"`
	Message string `json:"errorMessage"`
}

// readChecks returns the checks of each scenario that ran.
func readChecks(t *testing.T, dir string) map[string][]check {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "server-*", "checks.json"))
	if err != nil {
		t.Fatal(err)
	}
	folder := regexp.MustCompile(`^server-(.*)-\d{4}-\d\d-\d\dT[0-9-]+Z$`)
	all := map[string][]check{}
	for _, file := range files {
		m := folder.FindStringSubmatch(filepath.Base(filepath.Dir(file)))
		if m == nil {
			t.Fatalf("the suite keeps results elsewhere now: %s", file)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var checks []check
		if err := json.Unmarshal(data, &checks); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[m[1]] = checks
	}
	return all
}

func TestConformance(t *testing.T) {
	dir := packages(t)
	baseline := readBaseline(t)
	used := make([]bool, len(baseline))
	suites := []struct {
		name, program string
		which         []string
	}{
		{"2025-06-18", released, []string{"--spec-version", "2025-06-18"}},
		{"2025-11-25", released, []string{"--spec-version", "2025-11-25"}},
		{"2025-11-25 next", next, []string{"--spec-version", "2025-11-25"}},
		{"2026-07-28", next, []string{"--requirements", "2026-07-28"}},
	}
	ran := 0
	for _, suite := range suites {
		t.Run(suite.name, func(t *testing.T) {
			ran++
			f, token := surface(t)
			results := t.TempDir()
			out, _ := run(t, dir, suite.program, append([]string{"server", "--url", open(t, f, token) + "/mcp", "-o", results}, suite.which...)...)
			scenarios, passed, left := readChecks(t, results), 0, 0
			if len(scenarios) < 20 {
				t.Fatalf("only %d scenarios ran:\n%s", len(scenarios), out)
			}
			for scenario, checks := range scenarios {
				for _, c := range checks {
					entry := slices.IndexFunc(baseline, func(l leftOut) bool { return l.covers(scenario, c.ID) })
					switch {
					case c.Status == "SUCCESS":
						passed++
						if entry >= 0 && !strings.Contains(baseline[entry].check, "*") {
							t.Errorf("%s %s passes now: take it out of the baseline", scenario, c.ID)
						}
					case c.Status == "FAILURE" && entry < 0:
						t.Errorf("%s %s: %s", scenario, c.ID, c.Message)
					case c.Status == "FAILURE":
						used[entry] = true
						left++
					}
				}
			}
			t.Logf("%d scenarios, %d checks passed, %d left out", len(scenarios), passed, left)
		})
	}
	for i, l := range baseline {
		if !used[i] && ran == len(suites) && !t.Failed() {
			t.Errorf("the baseline leaves out %s %s, which no longer fails", l.scenario, l.check)
		}
	}
}

// The inspector is the client most people try a server with first.
func TestInspector(t *testing.T) {
	dir := packages(t)
	f, token := surface(t)
	program := filepath.Join(t.TempDir(), "handrail")
	site.Program(t, program)
	t.Setenv("HANDRAIL_URL", f.URL)
	t.Setenv("HANDRAIL_TOKEN", token)
	for name, target := range map[string][]string{
		"http":  {f.URL + "/mcp", "--transport", "http", "--header", "Authorization: Bearer " + token},
		"stdio": {"-e", "HANDRAIL_URL=" + f.URL, "-e", "HANDRAIL_TOKEN=" + token, program, "mcp"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := run(t, dir, inspector, append([]string{"--cli"}, append(target, "--method", "tools/list")...)...)
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			var list struct {
				Tools []struct {
					Name string `json:"name"`
				} `json:"tools"`
			}
			if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Tools) == 0 {
				t.Fatalf("tools/list gave %s (%v)", out, err)
			}
			out, err = run(t, dir, inspector, append([]string{"--cli"}, append(target, "--method", "tools/call", "--tool-name", "test_simple_text")...)...)
			if err != nil || !strings.Contains(out, "This is a simple text response for testing.") {
				t.Errorf("tools/call gave %s (%v)", out, err)
			}
		})
	}
}
