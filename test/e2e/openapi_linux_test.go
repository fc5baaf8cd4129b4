package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/test/site"
)

const petstoreDocument = `openapi: 3.1.0
info: {title: Petstore, version: "1"}
servers: [{url: /v1}]
paths:
  /pets/{petId}:
    parameters: [{name: petId, in: path, required: true, schema: {type: integer}}]
    get: {operationId: getPet, summary: Get a pet, tags: [pets], responses: {"200": {description: The pet.}}}
    delete: {operationId: deletePet, tags: [pets], responses: {"204": {description: Gone.}}}
  /pets:
    post:
      operationId: createPet
      tags: [pets]
      requestBody: {required: true, content: {application/json: {schema: {$ref: "#/components/schemas/Pet"}}}}
      responses: {"201": {description: Created.}}
components:
  schemas:
    Pet: {type: object, required: [name], properties: {name: {type: string}, mother: {$ref: "#/components/schemas/Pet"}}}
`

// lostPet is one that the API's proxy has no answer about.
const lostPet = `{"name":"lost between two servers"}`

// petstore is an API with its document.
func petstore(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /openapi.yaml", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, petstoreDocument) })
	mux.HandleFunc("GET /v1/pets/{id}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("id") != "7" {
			http.Error(w, "no such pet", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":7,"name":"Rex"}`)
	})
	mux.HandleFunc("POST /v1/pets", func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == int64(len(lostPet)) {
			http.Error(w, "upstream", http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Location", "/v1/pets/8")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.Copy(w, r.Body)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// A new user has an HTTP API as tools in two commands of the built program: its tools are called by
// the command line and over MCP, are decided and recorded as every tool is, and say the same.
func TestAPetstoreByTheProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the program")
	}
	api := petstore(t)
	home := privateDir(t)
	p := &person{t: t, program: filepath.Join(home, "handrail"), env: append(os.Environ(), "HOME="+home, "HANDRAIL_DATA="+filepath.Join(home, "site"))}
	site.Program(t, p.program)
	var ready struct {
		HTTP string `json:"http"`
	}
	p.leaves(&ready, "up", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--no-task", "--json")

	if out := p.does("provider", "add", "openapi", "petstore", api.URL+"/openapi.yaml"); !strings.Contains(out, "sends GET "+api.URL+"/v1/pets/{petId}") || !strings.Contains(out, "proposed: ask") {
		t.Errorf("%s", out)
	}
	if out, code := p.tries("", "call", "tool.petstore.get-pet", "--arg", "petId=7"); code == 0 {
		t.Errorf("called before it was approved: %s", out)
	}
	p.does("provider", "approve", "petstore", "--allow", "all", "--yes")

	got := items[capabilities.Result](p, "call", "tool.petstore.get-pet", "--arg", "petId=7")[0]
	if got.Status != capabilities.StatusOK || string(got.Output) != `{"data":{"id":7,"name":"Rex"},"status":200}` || !got.Untrusted || got.Routing.Mode != capabilities.SelectHost {
		t.Errorf("%s %+v", got.Output, got)
	}
	if out := p.does("ledger", "show", "--call", string(got.Call)); !strings.Contains(out, "tool.petstore.get-pet") {
		t.Errorf("%s", out)
	}
	if out, code := p.tries("", "call", "tool.petstore.get-pet", "--arg", "petId=9", "--json"); code == 0 || !strings.Contains(out, `"not_found"`) {
		t.Errorf("%d %s", code, out)
	}

	token, err := os.ReadFile(filepath.Join(home, "site", "gateway", "agent.token"))
	must(t, err)
	url := ready.HTTP
	if !strings.HasPrefix(url, "http") {
		url = "http://" + url
	}
	c := newCaller(t, url, strings.TrimSpace(string(token)))
	mcp, err := sdk.NewClient(&sdk.Implementation{Name: "e2e", Version: "1"}, nil).Connect(ctx(), &sdk.StreamableClientTransport{
		Endpoint: url + "/mcp", MaxRetries: -1, DisableStandaloneSSE: true, HTTPClient: &http.Client{Transport: bearer{c}},
	}, nil)
	must(t, err)
	t.Cleanup(func() { _ = mcp.Close() })
	r, err := mcp.CallTool(t.Context(), &sdk.CallToolParams{Name: "tool_petstore_create_pet", Arguments: json.RawMessage(`{"body":{"name":"Ada","mother":{"name":"Rex"}}}`)})
	must(t, err)
	text, err := json.Marshal(r.StructuredContent)
	must(t, err)
	if want := fmt.Sprintf(`{"data":{"mother":{"name":"Rex"},"name":"Ada"},"links":[{"name":"location","uri":"%s/v1/pets/8"}],"status":201}`, api.URL); r.IsError || !strings.Contains(string(text), want[1:len(want)-1]) {
		t.Errorf("%s", text)
	}

	// A proxy's word that the API did not answer says nothing of what became of a change.
	lost, err := mcp.CallTool(t.Context(), &sdk.CallToolParams{Name: "tool_petstore_create_pet", Arguments: json.RawMessage(`{"body":` + lostPet + `}`)})
	must(t, err)
	text, err = json.Marshal(lost)
	must(t, err)
	if !lost.IsError || !strings.Contains(string(text), "unknown_outcome") {
		t.Errorf("%s", text)
	}

	// The same from a file, in part, with the server that somebody says.
	file := filepath.Join(home, "petstore.yaml")
	must(t, os.WriteFile(file, []byte(petstoreDocument), 0o600))
	if out, code := p.tries("", "provider", "add", "openapi", "from-file", file); code == 0 || !strings.Contains(out, "names no server") {
		t.Errorf("%d %s", code, out)
	}
	p.does("provider", "add", "openapi", "from-file", file, "--only", "getPet", "--server", api.URL+"/v1", "--yes")
	if got := items[capabilities.Result](p, "call", "tool.from-file.get-pet", "--arg", "petId=7"); got[0].Status != capabilities.StatusOK {
		t.Errorf("%+v", got)
	}
	if out := p.does("provider", "check", "petstore"); !strings.Contains(out, "active") {
		t.Errorf("%s", out)
	}
	p.does("provider", "remove", "petstore")
}
