package conformance

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/agent/provider"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/test/site"
)

// hosted has a node's host run one of the reference servers behind walls, all of its tools
// approved.
func hosted(t *testing.T, name string, write []string, args ...string) *provider.Host {
	t.Helper()
	dir := packages(t)
	walls, err := site.NewWalls()
	if err != nil {
		t.Skip(err)
	}
	cat, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	h, err := provider.New(provider.Options{Dir: t.TempDir(), Catalog: cat, Start: walls, Allowed: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	modules := filepath.Join(dir, "node_modules")
	record := tools.Provider{
		Name: name, Kind: tools.KindMCP, Read: []string{dir}, Write: write,
		Command: append([]string{filepath.Join(modules, ".bin", "node"), filepath.Join(modules, "@modelcontextprotocol", "server-"+name, "dist", "index.js")}, args...),
	}
	if name == "memory" { // its file is named by a variable, which no secret is
		record.Command = append([]string{"/usr/bin/env", "MEMORY_FILE_PATH=" + filepath.Join(write[0], "memory.jsonl")}, record.Command...)
	}
	if name == "files" {
		record.Command[1] = filepath.Join(modules, "@modelcontextprotocol", "server-filesystem", "dist", "index.js")
	}
	out := managed(t, h, "tyrum.provider.host", map[string]any{"provider": name, "record": record})
	var m tools.ToolManifest
	text, _ := out.Result.(map[string]any)["manifest"].(string)
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	list, refused := tools.Describe(&record, &m)
	if len(list) == 0 || len(refused) > 0 {
		t.Fatalf("%d tools, refused %+v", len(list), refused)
	}
	approved := map[string]string{}
	for _, d := range list {
		approved[d.Upstream] = d.Hash
	}
	managed(t, h, "tyrum.provider.offer", map[string]any{"provider": name, "approved": approved})
	return h
}

func managed(t *testing.T, h *provider.Host, c capabilities.CapabilityID, args any) capabilities.Output {
	t.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	out, err := called(h, c, string(text))
	if err != nil {
		t.Fatal(err, capabilities.AsError(err).Details)
	}
	return out
}

func called(h *provider.Host, c capabilities.CapabilityID, args string) (capabilities.Output, error) {
	return h.Handle(context.Background(), capabilities.Invocation{
		Call: "c1", Capability: c, Args: json.RawMessage(args), Progress: func(capabilities.Progress) {}, Observe: func(string, string) {},
	})
}

// answers wants a call's result, whose form its descriptor has, to hold a text.
func answers(t *testing.T, h *provider.Host, c capabilities.CapabilityID, args, want string) {
	t.Helper()
	out, err := called(h, c, args)
	if err != nil {
		t.Fatalf("%s: %v", c, err)
	}
	data, err := json.Marshal(out.Result)
	if err != nil {
		t.Fatal(err)
	}
	d, ok := h.Tool(c.Tool())
	if !ok {
		t.Fatalf("there is no %s", c.Tool())
	}
	if bad := d.ValidateResult(data); bad != nil {
		t.Errorf("%s: %v in %s", c, bad, data)
	}
	if !strings.Contains(string(data), want) {
		t.Errorf("%s: %s has no %q", c, data, want)
	}
}

// The reference servers of the protocol's own people run behind walls and are called.
func TestReferenceServerEverything(t *testing.T) {
	h := hosted(t, "everything", nil)
	answers(t, h, "tyrum.everything.echo", `{"message":"hello"}`, "hello")
	answers(t, h, "tyrum.everything.get-sum", `{"a":2,"b":3}`, "5")
	answers(t, h, "tyrum.everything.get-structured-content", `{"location":"Chicago"}`, `"data"`)
	answers(t, h, "tyrum.everything.get-resource-links", `{"count":2}`, `"links"`)
	out, err := called(h, "tyrum.everything.get-tiny-image", `{}`)
	if err != nil || len(out.Blobs) != 1 || out.Blobs[0].MIME != "image/png" {
		t.Errorf("%+v %v", out, err)
	}
	// It is given nothing of this process's environment.
	t.Setenv("HANDRAIL_CANARY", "bird")
	if out, err := called(h, "tyrum.everything.get-env", `{}`); err != nil || strings.Contains(textIn(out), "bird") {
		t.Errorf("%+v %v", out, err)
	}
}

// One call finds what another one stored, in the folder that the server may write.
func TestReferenceServerMemory(t *testing.T) {
	dir := t.TempDir()
	h := hosted(t, "memory", []string{dir})
	answers(t, h, "tyrum.memory.create-entities", `{"entities":[{"name":"Ada","entityType":"person","observations":["wrote notes"]}]}`, "Ada")
	answers(t, h, "tyrum.memory.search-nodes", `{"query":"notes"}`, "Ada")
	if data, err := os.ReadFile(filepath.Join(dir, "memory.jsonl")); err != nil || !strings.Contains(string(data), "Ada") {
		t.Errorf("%s %v", data, err)
	}
}

func textIn(out capabilities.Output) string {
	data, _ := json.Marshal(out.Result)
	return string(data)
}

func TestReferenceServerFilesystem(t *testing.T) {
	open, shut := t.TempDir(), t.TempDir()
	for dir, text := range map[string]string{open: "seen", shut: "unseen"} {
		if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The server itself is told that it may read both folders; the walls know of one.
	h := hosted(t, "files", []string{open}, open, shut)
	path := func(dir string) string { return `{"path":` + quote(filepath.Join(dir, "a.txt")) + `}` }
	answers(t, h, "tyrum.files.read-text-file", path(open), "seen")
	answers(t, h, "tyrum.files.write-file", `{"path":`+quote(filepath.Join(open, "b.txt"))+`,"content":"written"}`, "b.txt")
	if got, err := os.ReadFile(filepath.Join(open, "b.txt")); err != nil || string(got) != "written" {
		t.Errorf("%s %v", got, err)
	}
	if out, err := called(h, "tyrum.files.read-text-file", path(shut)); err == nil {
		t.Errorf("the walls let it read %s", textIn(out))
	}
}

func quote(s string) string {
	data, _ := json.Marshal(s)
	return string(data)
}
