package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/client"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func as(t testing.TB, s *site.Site, p capabilities.PrincipalID, role principal.Role) *client.Client {
	t.Helper()
	return must(client.New(s.URL(), client.NewToken(s.MustToken(p, role))))(t)
}

// The examples are run against a real gateway, and print what their last comment says.
func TestExamples(t *testing.T) {
	s := site.Start(t, site.Options{ApprovalWait: site.Within})
	s.AddNode("desk", site.NewHandler())
	text := must(os.ReadFile("example_test.go"))(t)
	agent := s.MustToken("person", principal.RoleAgent)
	operator := s.MustToken("op", principal.RoleOperator)
	for name, example := range map[string]struct {
		run   func()
		token string
	}{
		"Client_Call": {ExampleClient_Call, agent}, "ResultError": {ExampleResultError, agent}, "Client_Answer": {ExampleClient_Answer, operator},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HANDRAIL_URL", s.URL())
			t.Setenv("HANDRAIL_TOKEN", example.token)
			result := make(chan capabilities.Result, 1)
			if name == "Client_Answer" {
				caller := must(client.New(s.URL(), client.NewToken(agent)))(t)
				go func() {
					r, err := caller.Call(context.Background(), client.Call{Tool: site.ToolPress, Args: map[string]any{"text": "x"}})
					if err != nil {
						r.Message = err.Error()
					}
					result <- r
				}()
			}
			body := regexp.MustCompile(`(?s)func Example` + name + `\(\) \{\n(.*?)\n\}\n`).FindSubmatch(text)[1]
			want := regexp.MustCompile(`((?:\n\t// [^\n]*)+)$`).FindSubmatch(body)[1]
			got := printed(t, example.run)
			if want := strings.TrimSpace(strings.ReplaceAll(string(want), "\n\t// ", "\n")); strings.TrimSpace(got) != want {
				t.Errorf("it prints\n%s\nwant\n%s", got, want)
			}
			if name == "Client_Answer" {
				if r := <-result; r.Status != capabilities.StatusOK {
					t.Errorf("the call that was allowed: %+v", r)
				}
			}
		})
	}
}

func printed(t *testing.T, run func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = w
	done := make(chan []byte)
	go func() { data, _ := io.ReadAll(r); done <- data }()
	run()
	os.Stdout = stdout
	w.Close()
	return string(<-done)
}

// The methods return what the gateway says, all the way.
func TestAgainstARealGateway(t *testing.T) {
	s := site.Start(t, site.Options{})
	n := s.AddNode("desk", site.NewHandler())
	ctx := t.Context()
	admin := as(t, s, "root", principal.RoleAdmin)

	if h := must(admin.Health(ctx))(t); h.Status != "ok" || h.SiteID == "" {
		t.Errorf("%+v", h)
	}
	rec, secret, err := admin.CreateToken(ctx, "bot", "agent", "", 0)
	if err != nil || rec.Principal != "bot" || rec.Lane != "bot" || !strings.HasPrefix(secret.Reveal(), "hrt_") {
		t.Fatal(rec, err)
	}
	bot := must(client.New(s.URL(), secret))(t)
	if tools := must(bot.Tools(ctx, ""))(t); !slices.ContainsFunc(tools, func(d api.Tool) bool { return d.ID == site.ToolEcho && len(d.Input) > 0 }) {
		t.Errorf("%d tools without the fixture", len(tools))
	}
	if tool := must(bot.Tool(ctx, "", site.ToolEcho))(t); tool.ID != site.ToolEcho || len(tool.Input) == 0 {
		t.Errorf("one tool: %+v", tool)
	}
	r := must(bot.Call(ctx, client.Call{Tool: site.ToolImage, Args: map[string]any{"text": "a", "size": 3}}))(t)
	if client.ResultError(r) != nil || len(r.Blobs) != 1 || len(r.Blobs[0].Bytes) != 3 || r.Routing.Selected != n.ID {
		t.Errorf("%+v", r)
	}
	if calls := must(bot.Calls(ctx, 10))(t); len(calls) != 1 || calls[0].ID != r.Call || calls[0].State != "ended" {
		t.Errorf("%+v", calls)
	}
	if nodes := must(admin.Nodes(ctx))(t); len(nodes) != 1 || !nodes[0].Connected || len(nodes[0].Capabilities) == 0 {
		t.Errorf("%+v", nodes)
	}
	label := "my desk"
	if v := must(admin.ChangeNode(ctx, n.ID, api.NodeChange{Label: &label}))(t); v.Label != label || v.State != "approved" {
		t.Errorf("%+v", v)
	}
	if l := must(admin.Attach(ctx, "bot", n.ID))(t); !slices.Equal(l.Nodes, []capabilities.NodeID{n.ID}) {
		t.Errorf("%+v", l)
	}
	if lanes := must(admin.Lanes(ctx))(t); !slices.ContainsFunc(lanes, func(l api.Lane) bool { return l.Lane == "bot" && l.Principal == "bot" }) {
		t.Errorf("%+v", lanes)
	}
	g := must(admin.Give(ctx, client.Lease{Principal: "bot", Tools: []string{string(site.ToolEcho)}, Node: n.ID, Scope: api.Scope{Apps: []string{"x"}}}))(t)
	if grants := must(admin.Grants(ctx))(t); len(grants) != 1 || grants[0].ID != g.ID || grants[0].Kind != "lease" {
		t.Errorf("%+v", grants)
	}
	if err := admin.RevokeGrant(ctx, g.ID); err != nil {
		t.Error(err)
	}
	if i := must(admin.Invite(ctx, api.NewInvite{Label: "phone"}))(t); !strings.HasPrefix(strings.ToLower(i.Paste), "hr1") {
		t.Errorf("%+v", i)
	}
	if p := must(admin.Packets(ctx, client.PacketQuery{Call: r.Call, Kind: "tool.call."}))(t); len(p) < 3 || p[0].Call != r.Call {
		t.Errorf("%+v", p)
	}
	var export bytes.Buffer
	if err := admin.ExportLedger(ctx, &export); err != nil || bytes.Count(export.Bytes(), []byte("\n")) < 5 {
		t.Errorf("%v: %d bytes", err, export.Len())
	}
	if e := must(admin.Explain(ctx, client.Question{Principal: "bot", Role: "agent", Tool: site.ToolPress, Node: n.ID}))(t); !bytes.Contains(e, []byte(`"ask"`)) {
		t.Errorf("%s", e)
	}
	if h := must(admin.Stop(ctx, "enough"))(t); !h.Stopped || h.Nodes.Connected != 1 {
		t.Errorf("%+v", h)
	}
	if st := must(admin.Stopped(ctx))(t); !st.Stopped || st.Reason != "enough" || st.By != "root" {
		t.Errorf("%+v", st)
	}
	if r := must(bot.Call(ctx, client.Call{Tool: site.ToolEcho, Args: map[string]any{"text": "b"}}))(t); capabilities.CodeOf(client.ResultError(r)) != capabilities.CodeStopped {
		t.Errorf("%+v", r)
	}
	if h := must(admin.Resume(ctx, ""))(t); h.Stopped {
		t.Errorf("%+v", h)
	}
	if _, err := bot.Nodes(ctx); capabilities.CodeOf(err) != capabilities.CodeForbidden {
		t.Errorf("an agent's list of nodes: %v", err)
	}
	if _, err := admin.RevokeToken(ctx, rec.ID); err != nil {
		t.Error(err)
	}
	if _, err := bot.Tools(ctx, ""); capabilities.CodeOf(err) != capabilities.CodeUnauthenticated {
		t.Errorf("a revoked token: %v", err)
	}
}

// Events resume after the number that was seen last, without a gap.
func TestEventsResume(t *testing.T) {
	s := site.Start(t, site.Options{})
	s.AddNode("desk", site.NewHandler())
	op := as(t, s, "op", principal.RoleOperator)
	bot := as(t, s, "bot", principal.RoleAgent)
	enough := errors.New("enough")
	call := func() error {
		_, err := bot.Call(t.Context(), client.Call{Tool: site.ToolEcho, Args: map[string]any{"text": "x"}})
		return err
	}
	var last uint64
	seen := 0
	for range 2 {
		after := last
		err := op.Events(t.Context(), after, call, func(e client.Event) error {
			if e.Seq != 0 && last != 0 && e.Seq != last+1 {
				return fmt.Errorf("after %d comes %d", last, e.Seq)
			}
			if e.Seq != 0 {
				last = e.Seq
			}
			var p api.Packet
			if e.Name != "call" {
				return nil
			}
			if err := json.Unmarshal(e.Data, &p); err != nil || p.Tool != site.ToolEcho {
				return fmt.Errorf("%s: %v", e.Data, err)
			}
			seen++
			return enough
		})
		if !errors.Is(err, enough) {
			t.Fatal(err)
		}
	}
	if seen != 2 {
		t.Errorf("%d calls seen", seen)
	}
}

func TestTokensGoNowhereElse(t *testing.T) {
	for _, address := range []string{"http://192.0.2.1:7480", "ftp://127.0.0.1", "https://u:p@example.com", "http://127.0.0.1:1/?a=b", "http://"} {
		if _, err := client.New(address, client.NewToken("hrt_x")); err == nil {
			t.Errorf("%s is accepted", address)
		}
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the redirect was followed, with %q", r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	here := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer here.Close()
	c := must(client.New(here.URL, client.NewToken("hrt_x")))(t)
	if _, err := c.Nodes(t.Context()); err == nil {
		t.Error("a redirect is taken for an answer")
	}
	req := must(http.NewRequest(http.MethodGet, elsewhere.URL, nil))(t)
	if resp, err := c.Send(req); err == nil {
		resp.Body.Close()
		t.Error("the token is sent to another address")
	}
	var out strings.Builder
	token := client.NewToken("hrt_secret")
	data, _ := json.Marshal(token)
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "token", token)
	fmt.Fprintf(&out, "%v %+v %#v %s %q %s", token, token, token, token, &token, data)
	if strings.Contains(out.String(), "secret") {
		t.Errorf("a token is printed: %s", &out)
	}
	here.Close()
	if _, err := c.Nodes(t.Context()); !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("nobody there: %v", err)
	}
}

// typed says which type of this package stands for the answer of each route; a list
// is named by the field that holds it.
var typed = map[string]struct {
	field string
	view  any
}{
	"get /healthz": {"", api.Health{}}, "post /v1/calls": {"", capabilities.Result{}}, "get /v1/calls": {"calls", api.Call{}},
	"get /v1/nodes": {"nodes", api.Node{}}, "get /v1/nodes/{node}": {"", api.Node{}}, "get /v1/lanes": {"lanes", api.Lane{}},
	"get /v1/approvals": {"approvals", api.Approval{}}, "get /v1/grants": {"grants", api.Grant{}}, "get /v1/tasks": {"tasks", api.Task{}},
	"post /v1/permissions/check": {"", api.Permission{}}, "get /v1/jobs": {"jobs", api.Job{}}, "post /v1/jobs": {"", api.Job{}},
	"get /v1/stop": {"", api.Stop{}}, "post /v1/stop": {"", api.Halted{}}, "get /v1/tokens": {"tokens", api.Token{}},
	"get /v1/ledger/packets": {"packets", api.Packet{}}, "get /v1/tools": {"tools", api.Tool{}}, "get /v1/tools/{tool}": {"", api.Tool{}}, "post /v1/invites": {"", api.Invited{}},
	"get /v1/satellites": {"satellites", api.Satellite{}}, "post /v1/satellites": {"", api.InvitedSatellite{}}, "get /v1/bus": {"", api.BusKeys{}},
	"get /v1/providers": {"providers", api.Provider{}}, "get /v1/tools/{tool}/diff": {"", api.ToolDiff{}}, "post /v1/tools/{tool}/state": {"", api.ProviderTool{}},
}

// Every field of ours is one that the gateway's own document names: a field that was
// renamed there would stay empty here, silently.
func TestTypesFitTheDocument(t *testing.T) {
	s := site.Start(t, site.Options{})
	type schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	doc := must(docOf(t, as(t, s, "root", principal.RoleAdmin)))(t)
	for route, want := range typed {
		method, path, _ := strings.Cut(route, " ")
		op, ok := doc.Paths[path][method]
		if !ok {
			t.Errorf("the gateway has no %s", route)
			continue
		}
		text := op.Responses["200"].Content["application/json"].Schema
		var of schema
		if err := json.Unmarshal(text, &of); err != nil {
			t.Fatal(err)
		}
		if want.field != "" {
			var list struct {
				Items schema `json:"items"`
			}
			if err := json.Unmarshal(of.Properties[want.field], &list); err != nil {
				t.Fatal(err)
			}
			of = list.Items
		}
		for _, name := range fieldsOf(reflect.TypeOf(want.view)) {
			if _, ok := of.Properties[name]; !ok {
				t.Errorf("%s: %T has the field %q, which the document does not name", route, want.view, name)
			}
		}
	}
}

type document struct {
	Paths map[string]map[string]struct {
		Responses map[string]struct {
			Content map[string]struct {
				Schema json.RawMessage `json:"schema"`
			} `json:"content"`
		} `json:"responses"`
	} `json:"paths"`
}

func docOf(t *testing.T, c *client.Client) (d document, err error) {
	return d, c.Do(t.Context(), http.MethodGet, client.Path("openapi.json"), nil, &d)
}

func fieldsOf(t reflect.Type) []string {
	var all []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			all = append(all, fieldsOf(f.Type)...)
		case name != "-" && f.IsExported():
			all = append(all, name)
		}
	}
	return all
}
