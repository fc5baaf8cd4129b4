package conformance

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/agent/provider"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/test/site"
)

// hello is an MCP server of a few lines, as a package brings it.
const hello = `#!/usr/bin/env node
const out = m => process.stdout.write(JSON.stringify({jsonrpc: '2.0', ...m}) + '\n')
require('readline').createInterface({input: process.stdin}).on('line', line => {
  const {id, method, params} = JSON.parse(line)
  if (id === undefined) return
  if (method === 'initialize') out({id, result: {protocolVersion: params.protocolVersion, capabilities: {tools: {}}, serverInfo: {name: 'hello', version: '1.0.0'}}})
  else if (method === 'tools/list') out({id, result: {tools: [{name: 'greet', description: 'Greets.', inputSchema: {type: 'object', properties: {}}}]}})
  else if (method === 'tools/call') out({id, result: {content: [{type: 'text', text: 'hello from a package'}]}})
  else out({id, error: {code: -32601, message: 'no such method'}})
})
`

// registry is a stand-in for the place that packages come from: it has one.
func registry(t *testing.T) *httptest.Server {
	t.Helper()
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	files := tar.NewWriter(zip)
	for name, text := range map[string]string{"package/package.json": `{"name":"hello-mcp","version":"1.0.0","bin":{"hello-mcp":"index.js"}}`, "package/index.js": hello} {
		if err := files.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha512.Sum512(packed.Bytes())
	server := httptest.NewUnstartedServer(nil)
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/hello-mcp":
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{
				"name": "hello-mcp", "dist-tags": map[string]any{"latest": "1.0.0"},
				"versions": map[string]any{"1.0.0": map[string]any{
					"name": "hello-mcp", "version": "1.0.0", "bin": map[string]any{"hello-mcp": "index.js"},
					"dist": map[string]any{"tarball": server.URL + "/hello-mcp/-/hello-mcp-1.0.0.tgz", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])},
				}},
			})
		case strings.HasSuffix(r.URL.Path, ".tgz"):
			_, _ = w.Write(packed.Bytes())
		default:
			http.NotFound(w, r)
		}
	})
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// A server that fetches itself when it starts runs behind walls, with the one host that its package
// comes from; without it the refusal names the flag that it needs.
func TestNpx(t *testing.T) {
	packages(t) // it says whether npm has to be here
	npx, err := exec.LookPath("npx")
	if err != nil {
		t.Fatal(err)
	}
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
	from := registry(t)
	at := strings.TrimPrefix(from.URL, "http://")
	record := tools.Provider{Name: "hello", Kind: tools.KindMCP, Command: []string{npx, "--registry", from.URL, "-y", "hello-mcp"}}
	host := func() (capabilities.Output, error) {
		text, err := json.Marshal(map[string]any{"provider": "hello", "record": record})
		if err != nil {
			t.Fatal(err)
		}
		return called(h, "tyrum.provider.host", string(text))
	}
	if _, err := host(); err == nil || !strings.Contains(capabilities.AsError(err).PublicHint(), "--net "+at) {
		t.Errorf("without a network: %v, %s", err, capabilities.AsError(err).PublicHint())
	}
	record.Net = []string{at}
	out, err := host()
	if err != nil {
		t.Fatal(err, capabilities.AsError(err).PublicHint(), capabilities.AsError(err).Details)
	}
	var m tools.ToolManifest
	text, _ := out.Result.(map[string]any)["manifest"].(string)
	if err := json.Unmarshal([]byte(text), &m); err != nil || len(m.Tools) != 1 {
		t.Fatal(err, text)
	}
	list, _ := tools.Describe(&record, &m)
	managed(t, h, "tyrum.provider.offer", map[string]any{"provider": "hello", "approved": map[string]string{"greet": list[0].Hash}})
	answers(t, h, "tyrum.hello.greet", `{}`, "hello from a package")
}
