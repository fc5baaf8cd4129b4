package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// leads is an HTTP API and an MCP server at listed.example whose answers lead to other hosts.
const leads = `{"openapi":"3.1.0","info":{"title":"leads","version":"1"},"servers":[{"url":"http://listed.example:8080"}],"paths":{
 "/to/{host}":{"get":{"operationId":"get","parameters":[{"name":"host","in":"path","required":true,"schema":{"type":"string"}}],"responses":{"200":{"description":"ok"}}},
  "post":{"operationId":"post","parameters":[{"name":"host","in":"path","required":true,"schema":{"type":"string"}}],"responses":{"200":{"description":"ok"}}}}},
 "components":{"securitySchemes":{"key":{"type":"apiKey","in":"header","name":"X-Key"}}},"security":[{"key":[]}]}`

// greeting says which host was asked, and whether with a credential.
func greeting(r *http.Request) string {
	host, _, _ := net.SplitHostPort(r.Host)
	if r.Header.Get("X-Key") == "" {
		return host + " is here, without a key"
	}
	return host + " is here, with a key"
}

func (b *blocked) leads() {
	serve := func(at string, h http.HandlerFunc) {
		l, err := net.Listen("tcp", at)
		must(b.t, err)
		s := &http.Server{Handler: h}
		go func() { _ = s.Serve(l) }()
		b.t.Cleanup(func() { _ = s.Close() })
	}
	mcp := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Arguments struct{ Host string } `json:"arguments"`
			} `json:"params"`
		}
		if err != nil || json.Unmarshal(body, &m) != nil || len(m.ID) == 0 {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		result := `{}`
		switch m.Method {
		case "initialize":
			result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"leads","version":"1"}}`
		case "tools/list":
			result = `{"tools":[{"name":"get","inputSchema":{"type":"object","properties":{"host":{"type":"string"}},"required":["host"]}}]}`
		case "tools/call":
			if host := m.Params.Arguments.Host; strings.HasPrefix(r.Host, "listed.example") && host != "listed.example" {
				http.Redirect(w, r, "http://"+host+":81/mcp", http.StatusTemporaryRedirect)
				return
			}
			result = fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, greeting(r))
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}
	here := func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, greeting(r)) }
	serve(public+"1:8080", func(w http.ResponseWriter, r *http.Request) {
		switch host, to := strings.CutPrefix(r.URL.Path, "/to/"); {
		case r.Header.Get("X-Key") != "canary-0123456789":
			http.Error(w, "no key", http.StatusUnauthorized)
		case to && host == "listed.example":
			here(w, r)
		case to:
			http.Redirect(w, r, "http://"+host+":81/file", http.StatusTemporaryRedirect)
		default:
			mcp(w, r)
		}
	})
	serve(public+"2:81", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/mcp":
			mcp(w, r)
		default:
			here(w, r)
		}
	})
}

// An HTTP API or a server at a URL sends a call to a host that nobody named: a person is asked as
// for a program. With a yes that call goes on there, without the provider's credentials; with a no
// the caller is told where it was led. A request that changes something no API sends elsewhere.
func TestARedirectElsewhereIsAskedAbout(t *testing.T) {
	b := newBlocked(t)
	if b == nil {
		return
	}
	b.leads()
	document := filepath.Join(b.home, "leads.json")
	must(t, os.WriteFile(document, []byte(leads), 0o600))
	if out, code := b.tries("canary-0123456789", "secret", "set", "leads-key"); code != 0 {
		t.Fatal(out)
	}
	b.does("provider", "add", "openapi", "api", document, "--header", "X-Key=leads-key", "--yes")
	b.does("provider", "add", "mcp", "server", "--http", "http://listed.example:8080/mcp", "--env", "X-Key=leads-key", "--yes")
	b.does("provider", "check", "server") // with its credential it says what it offers
	b.does("provider", "approve", "server", "--yes", "--allow", "all")
	call := func(tool, host string) <-chan capabilities.Result {
		return b.begins(tool, map[string]any{"host": host})
	}
	if r := <-call("tool.api.get", "listed.example"); !strings.Contains(string(r.Output), "listed.example is here, with a key") {
		t.Fatalf("%s %+v", r.Output, r)
	}
	if r := <-call("tool.server.get", "listed.example"); r.Status != capabilities.StatusOK {
		t.Fatalf("%s %+v", r.Output, r)
	}
	for _, tool := range []string{"tool.api.get", "tool.server.get"} {
		for range 2 { // a yes is for one call
			ended := call(tool, "asked.example")
			a := b.asked("asked.example:81")
			if string(a.Tool) != tool || a.Longest != "call" {
				t.Errorf("%+v", a)
			}
			b.does("approve", a.ID)
			r := <-ended
			if !strings.Contains(string(r.Output), "asked.example is here, without a key") {
				t.Fatalf("%s: %s %+v", tool, r.Output, r)
			}
			if p := b.packets(r.Call); len(p["tool.call.escalated"]) != 1 || len(p["gateway.drift.event"]) != 0 {
				t.Errorf("%s: %+v", tool, p)
			}
		}
		ended := call(tool, "shut.example")
		b.does("deny", b.asked("shut.example:81").ID)
		for i := range 2 { // a no holds for a while
			if i > 0 {
				ended = call(tool, "shut.example")
			}
			r := <-ended
			if said := string(r.Output) + r.Message; !strings.Contains(said, map[string]string{"tool.api.get": "http://shut.example:81/file", "tool.server.get": "shut.example:81 may not be reached: the server sends the call there"}[tool]) {
				t.Errorf("%s: %s %+v", tool, r.Output, r)
			}
		}
	}
	// Inside nobody is asked, nor for a request that changes something.
	for _, tool := range []string{"tool.api.get", "tool.api.post"} {
		host := map[string]string{"tool.api.get": "127.0.0.1", "tool.api.post": "asked.example"}[tool]
		if r := <-call(tool, host); !strings.Contains(string(r.Output), `"status":307`) {
			t.Errorf("%s: %s %+v", tool, r.Output, r)
		}
	}
	var drifted api.DriftList
	must(t, json.Unmarshal([]byte(b.does("drift", "list", "--json")), &drifted))
	if len(drifted.Events) != 0 { // whoever answered led there; the call attempted nothing
		t.Errorf("%+v", drifted.Events)
	}
}
