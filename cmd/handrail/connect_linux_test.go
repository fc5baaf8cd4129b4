package main

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/cmd/handrail/connect"
	"github.com/handrail-dev/handrail/cmd/handrail/connect/clientfile"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// Each client, over each way that it has, gets the file that it had kept beside it, and
// calls the node that it was bound to without naming one; unbound, with two nodes, it
// would have to name one.
func TestEachClientCallsItsOwnNode(t *testing.T) {
	s := site.Start(t, site.Options{})
	other, bound := site.NewHandler(), site.NewHandler()
	s.AddNode("other", other)
	node := s.AddNode("bound", bound)
	home, data, bin := t.TempDir(), t.TempDir(), t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// By this name the test binary is the program.
	if err := os.Symlink(self, filepath.Join(bin, "handrail")); err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + t.TempDir()}
	admin := append(slices.Clone(env), "HANDRAIL_DATA="+data, "HANDRAIL_URL="+s.URL(), "HANDRAIL_TOKEN="+s.MustToken("boss", principal.RoleAdmin))
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "handrail"), append([]string{"connect"}, args...)...)
		cmd.Env = admin
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("connect %q: %v\n%s", args, err, out)
		}
	}
	// use does what the client would with its entry, in the client's own environment.
	use := func(kind connect.Client, file, text string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		content, err := clientfile.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		entry, _, err := clientfile.Get(kind.Form(), content, kind.Path...)
		if err != nil {
			t.Fatal(err)
		}
		var transport mcp.Transport
		if command, _ := entry["command"].(string); command != "" {
			program := exec.CommandContext(ctx, command, texts(t, entry["args"])...)
			program.Env = env
			transport = &mcp.CommandTransport{Command: program}
		} else {
			address := cmp.Or(entry["url"], entry["httpUrl"]).(string)
			headers, _ := cmp.Or[any](entry["headers"], entry["http_headers"]).(map[string]any)
			transport = &mcp.StreamableClientTransport{Endpoint: address, HTTPClient: &http.Client{Transport: sending(headers)}, MaxRetries: -1, DisableStandaloneSSE: true}
		}
		session, err := mcp.NewClient(&mcp.Implementation{Name: kind.Name, Version: "1"}, nil).Connect(ctx, transport, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: site.ToolEcho.WireName(), Arguments: map[string]any{"text": text}})
		if err != nil {
			t.Fatal(err)
		}
		said, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(said)
	}
	for _, kind := range connect.Clients() {
		ways := []string{"stdio", "http"}
		if !kind.Remote() {
			ways = ways[:1]
		}
		for _, way := range ways {
			t.Run(kind.Name+" over "+way, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "settings")
				before := map[clientfile.Format]string{clientfile.TOML: "mine = 1\n"}[kind.Form()]
				if before == "" {
					before = "{\"mine\": 1}\n"
				}
				if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
					t.Fatal(err)
				}
				args := []string{kind.Name, "--file", file, "--node", string(node.ID)}
				if way == "http" {
					args = append(args, "--http")
				}
				run(args...)
				copies, err := filepath.Glob(file + ".*.bak")
				if err != nil || len(copies) != 1 {
					t.Fatalf("copies of the file as it was: %q %v", copies, err)
				}
				if kept, err := os.ReadFile(copies[0]); err != nil || string(kept) != before {
					t.Errorf("the copy holds %q (%v)", kept, err)
				}
				text := kind.Name + " " + way
				if said := use(kind, file, text); bound.Runs(text) != 1 || other.Runs(text) != 0 {
					t.Errorf("it ran %d times where it is bound, %d times elsewhere: %s", bound.Runs(text), other.Runs(text), said)
				}
				run(kind.Name, "--file", file, "--check")
			})
		}
	}
	file := filepath.Join(t.TempDir(), "settings")
	run("cursor", "--file", file, "--as", "stray")
	kind, _ := connect.Named("cursor")
	if said := use(kind, file, "stray"); !strings.Contains(said, "ambiguous_node_selection") {
		t.Errorf("without a node: %s", said)
	}
}

// texts are the words of an entry's list.
func texts(t *testing.T, list any) []string {
	t.Helper()
	var all []string
	for _, word := range list.([]any) {
		all = append(all, word.(string))
	}
	return all
}

// sending adds an entry's headers to every request.
type sending map[string]any

func (h sending) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range h {
		r.Header.Set(name, value.(string))
	}
	return http.DefaultTransport.RoundTrip(r)
}
