package rest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/rules"
)

// The document is the table: every route is in it and answers, every answer fits
// its schema, and every role gets exactly what its row says.
func TestDocumentMatchesTheRoutes(t *testing.T) {
	a := start(t)
	recordCall(t, a, "alice", "c1")
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			Summary    string
			Action     principal.Action `json:"x-handrail-action"`
			Parameters []struct {
				Name, In string
				Required bool
			}
			RequestBody *struct {
				Content map[string]struct{ Schema *jsonschema.Schema }
			}
			Responses map[string]struct {
				Content map[string]struct{ Schema *jsonschema.Schema }
			}
		}
	}
	a.ok(a.agent, "GET", "/v1/openapi.json", "", &doc)
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("version %q", doc.OpenAPI)
	}
	_, err := a.consent.Await(t.Context(), consent.Ask{Principal: "alice", Tool: "tool.desktop.act", Node: "n2", Lane: "l1", Snapshot: a.snapshot, Longest: consent.KindCall})
	if capabilities.AsError(err).Code != capabilities.CodeApprovalPending {
		t.Fatal(err)
	}
	waits := a.consent.Approvals()[0].ID
	given, err := a.consent.Grant(t.Context(), consent.Spec{Principal: "alice", Tools: []string{"tool.desktop.act"}, Node: "n2", Lane: "l1", Approver: "op"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(a.policyDir, "more.cedar"), []byte(`forbid (principal, action == Action::"tool.desktop.act", resource);`), 0o600); err != nil {
		t.Fatal(err)
	}
	staged, err := a.rules.Load(t.Context(), rules.Staged)
	if err != nil {
		t.Fatal(err)
	}
	file := a.MustKeep(a.files, outcome.Kept{Call: "c1", Principal: "root", Lane: "root", Tool: "test.simple-text"}, []byte("x"))
	bodies := map[string]string{
		"POST /v1/policy/activate":      fmt.Sprintf(`{"from":%q,"to":%q}`, a.snapshot, staged.SnapshotID()),
		"POST /v1/approvals/{approval}": `{"answer":"allow","acknowledged":true}`,
		"POST /v1/grants":               `{"principal":"alice","tools":["tool.desktop.*"],"node":"n2"}`,
		"POST /v1/permissions/check":    `{"tool":"test.simple-text"}`, "POST /v1/jobs": `{"text":"x"}`, "POST /v1/jobs/take": `{"worker":"w"}`, "POST /v1/jobs/{job}/word": `{"claim":"x"}`,
		"POST /v1/calls": `{"tool":"test.simple-text"}`, "POST /v1/tokens": `{"principal":"x","role":"agent"}`, "POST /v1/invites": `{}`,
		"POST /v1/selections":            `{"intent":"take a screenshot"}`,
		"POST /v1/calls/{call}/replay":   `{}`,
		"POST /v1/tools/{tool}/validate": `{"args":{}}`,
		"POST /v1/policy/explain":        `{"principal":"p","role":"agent","tool":"tool.node.list"}`,
		"PATCH /v1/nodes/{node}":         `{"label":"x"}`,
		"POST /v1/surfaced":              `{"surface":"console","page":"/console/","controls":["POST /v1/stop"]}`,
		"POST /v1/ledger/compare":        `{"log":"log of n2"}`,
		"POST /v1/drift/resolve":         `{"events":["drift_1","drift_2"],"reason":"looked at"}`,
		"POST /v1/policy/drafts":         `{"files":[{"name":"mine.cedar","text":""}]}`,
		"POST /v1/users":                 `{"principal":"walt","role":"viewer","password":"four words in a row"}`, "PUT /v1/users/{user}/role": `{"role":"viewer"}`,
		"PUT /v1/users/{user}/password": `{"password":"four other words in a row"}`,
		"POST /v1/users/{user}/link":    `{}`,
		"PUT /v1/account/password":      `{"password":"four words in a row"}`, "POST /v1/approvals/{approval}/passkey": `{"answer":"allow","acknowledged":true}`,
	}
	// Routes that a session of the console may take and a token may not, or that need a browser.
	refused := map[string]capabilities.Code{
		"PUT /v1/account/password": capabilities.CodeForbidden, "POST /v1/account/passkey-options": capabilities.CodeInvalidRequest, "POST /v1/account/passkeys": capabilities.CodeInvalidRequest,
		"POST /v1/approvals/{approval}/passkey": capabilities.CodeInvalidRequest, "POST /v1/confirmations": capabilities.CodeInvalidRequest, "POST /v1/confirmations/answers": capabilities.CodeInvalidRequest, "POST /v1/approvals": capabilities.CodeInvalidRequest, "GET /v1/approvals/{approval}/frame": capabilities.CodeForbidden,
		"DELETE /v1/account/passkeys/{passkey}": capabilities.CodeNotFound, "POST /v1/account/push": capabilities.CodeNotFound, "DELETE /v1/account/push/{subscription}": capabilities.CodeNotFound, "DELETE /v1/account/sessions/{session}": capabilities.CodeNotFound,
		"POST /v1/control/{node}": capabilities.CodeNotSupported, "POST /v1/drain": capabilities.CodeNotSupported, "PUT /v1/control/{node}/{session}": capabilities.CodeNotFound,
		"POST /v1/control/{node}/{session}/{with}": capabilities.CodeNotFound, "DELETE /v1/control/{node}/{session}": capabilities.CodeNotFound,
		"POST /v1/recordings": capabilities.CodeNotFound, "GET /v1/recordings/{recording}": capabilities.CodeNotSupported, "DELETE /v1/recordings/{recording}": capabilities.CodeNotSupported,
	}
	var made struct {
		Token  string `json:"token_id"`
		Invite string `json:"invite_id"`
	}
	a.ok(a.admin, "POST", "/v1/tokens", `{"principal":"y","role":"agent"}`, &made)
	a.ok(a.admin, "POST", "/v1/invites", `{}`, &made)
	a.ok(a.admin, "POST", "/v1/users", `{"principal":"zoe","role":"operator","password":"four words in a row"}`, nil)
	param := regexp.MustCompile(`\{([a-z]+)\}`)
	served := 0
	// Routes that change much come last: revoke after approve, detach after attach.
	var order []string
	for path, item := range doc.Paths {
		for method := range item {
			rank := map[string]string{"get": "0", "put": "1", "patch": "1", "post": "2", "delete": "3"}[method]
			if strings.HasSuffix(path, "/extend") { // while the question waits
				rank = "1"
			}
			order = append(order, rank+" "+method+" "+path)
		}
	}
	slices.Sort(order)
	for _, row := range order {
		_, row, _ := strings.Cut(row, " ")
		method, path, _ := strings.Cut(row, " ")
		op := doc.Paths[path][method]
		name := strings.ToUpper(method) + " " + path
		if op.Summary == "" {
			t.Errorf("%s has no summary", name)
		}
		values := map[string]string{"packet": "1", "node": "n2", "lane": "l1", "invite": made.Invite, "token": made.Token, "approval": waits, "task": "t-1", "grant": given.ID, "tool": "tool.node.list", "set": "active", "secret": "mail", "call": "c1", "request": "q1", "user": "zoe", "passkey": "p", "session": "s", "recording": "r", "with": "mouse", "source": "screen", "subscription": "p", "artifact": string(file), "drift": "drift_1", "runner": "0123456789abcdef"}
		switch path {
		case "/v1/nodes/{node}/deny":
			values["node"] = "n3"
		case "/v1/nodes/{node}/revoke", "/v1/lanes/{lane}/nodes/{node}":
			values["node"] = "n1"
		}
		at := param.ReplaceAllStringFunc(path, func(p string) string {
			p = strings.Trim(p, "{}")
			if !slices.ContainsFunc(op.Parameters, func(q struct {
				Name, In string
				Required bool
			}) bool {
				return q.Name == p && q.In == "path" && q.Required
			}) {
				t.Errorf("%s: parameter %s is not documented", name, p)
			}
			return values[p]
		})
		if op.Action != "" {
			a.Clock.Advance(time.Minute) // the limiter is another test's
			a.fails("", strings.ToUpper(method), at, "", capabilities.CodeUnauthenticated)
		}
		for role, token := range map[principal.Role]string{principal.RoleAgent: a.agent, principal.RoleOperator: a.operator} {
			if op.Action != "" && !(principal.Identity{Role: role}).May(op.Action) {
				a.fails(token, strings.ToUpper(method), at, bodies[name], capabilities.CodeForbidden)
			}
		}
		if status, _ := a.do(a.admin, "OPTIONS", at, ""); status != http.StatusMethodNotAllowed {
			t.Errorf("OPTIONS %s gives %d", at, status)
		}
		served++
		if path == "/v1/events" { // never ends
			a.events(a.admin, "").resp.Body.Close()
			continue
		}
		a.fails(a.admin, strings.ToUpper(method), at+"?no_such=1", bodies[name], capabilities.CodeInvalidRequest)
		if strings.Contains(path, "/whep") {
			continue // it speaks SDP; test/console has a browser that does
		}
		if op.RequestBody != nil {
			a.fails(a.admin, strings.ToUpper(method), at, `{"no_such":1}`, capabilities.CodeInvalidRequest)
		}
		if code, ok := refused[name]; ok {
			a.fails(a.admin, strings.ToUpper(method), at, bodies[name], code)
			continue
		}
		answer := a.ok(a.admin, strings.ToUpper(method), at, bodies[name], nil)
		for media, content := range op.Responses["200"].Content {
			if content.Schema == nil {
				continue
			}
			if media != "application/json" {
				t.Errorf("%s: a schema for %s", name, media)
			}
			fits(t, name, content.Schema, answer)
		}
		if op.RequestBody != nil && bodies[name] != "" {
			fits(t, name+" (request)", op.RequestBody.Content["application/json"].Schema, bodies[name])
		}
	}
	if served < 25 {
		t.Errorf("only %d routes are documented", served)
	}
	a.fails(a.admin, "GET", "/v1/nothing", "", capabilities.CodeNotFound)
	if patterns := a.rest.Patterns(); len(patterns) != served {
		t.Errorf("%d routes are served, %d documented", len(patterns), served)
	}
}

func fits(t *testing.T, name string, schema *jsonschema.Schema, answer string) {
	t.Helper()
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	var value any
	dec := json.NewDecoder(bytes.NewReader([]byte(answer)))
	if err := dec.Decode(&value); err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	if err := resolved.Validate(value); err != nil {
		t.Errorf("%s does not fit its schema: %v\n%s", name, err, answer)
	}
}
