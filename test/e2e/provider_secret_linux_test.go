package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// holder is a program that is given a token: it proves that it has it, and tells it everywhere.
const holder = `{"tools":[
 {"name":"prove","argv":["bash","-c","printf %s \"$API_TOKEN\" | sha256sum"]},
 {"name":"leak","argv":["bash","-c","echo \"it is $API_TOKEN\"; printf %s \"$API_TOKEN\" | base64 -w0; echo; env"]},
 {"name":"fail","argv":["bash","-c","echo \"it is $API_TOKEN\" >&2; exit 3"]}]}`

// A credential reaches the provider that was approved with it, and nothing else: no manifest, list,
// log, ledger, result or file of either side holds it. It comes when the provider is approved and
// when its host connects, each time recorded, and is gone with the secret (S0-40, S0-42).
func TestACredentialReachesItsProviderAndNothingElse(t *testing.T) {
	const value = "CANARY-provider-token-8128"
	walls, err := site.NewWalls()
	if err != nil {
		t.Skip(err)
	}
	v := newVault(t, value)
	n := v.AddNodeWith("desk", hosts(t, walls), site.NewHandler())
	n.AwaitReady("tyrum.provider.host")
	admin := newCaller(t, v.URL(), v.admin)
	add, err := json.Marshal(api.AddProvider{Name: "holder", Kind: "command", Host: n.ID, Manifest: holder, Env: []string{"API_TOKEN=token"}})
	must(t, err)
	admin.fails(http.MethodPost, "/v1/providers", string(add), capabilities.CodeNotFound)
	v.set("token", value)
	var p api.Provider
	admin.ok(http.MethodPost, "/v1/providers", string(add), &p)
	if v.resolved() != 0 || len(p.Env) != 1 || p.Env[0] != "API_TOKEN=token" {
		t.Fatalf("%d resolved before an approval; %v", v.resolved(), p.Env)
	}
	p = approved(t, admin, p, "allow")
	n.AwaitReady("tyrum.holder.prove")
	if v.resolved() != 1 {
		t.Errorf("%d resolved, want one for the approval", v.resolved())
	}
	sum := sha256.Sum256([]byte(value))
	proves := func() {
		t.Helper()
		if r := v.as("agent", "main", "tool.holder.prove", `{}`, ""); r.Status != capabilities.StatusOK || !strings.Contains(string(r.Output), hex.EncodeToString(sum[:])) {
			t.Errorf("%s %s %s", r.Code, r.Message, r.Output)
		}
	}
	proves()
	if r := v.as("agent", "main", "tool.holder.leak", `{}`, ""); strings.Count(string(r.Output), "[secret]") < 3 {
		t.Errorf("%s %s", r.Code, r.Output)
	}
	if r := v.as("agent", "main", "tool.holder.fail", `{}`, ""); r.Code != capabilities.CodeExecutionFailed {
		t.Errorf("%+v", r)
	}

	// A node that starts again has forgotten it, and is given it again.
	n.Stop()
	n.AwaitGone()
	n.Start()
	v.Await("it to be delivered again", func() bool { return v.resolved() == 2 })
	n.AwaitReady("tyrum.holder.prove")
	proves()
	if v.resolved() != 2 {
		t.Errorf("%d resolved, want another one for the new start", v.resolved())
	}

	// One of a name that the record does not have, one for nobody; and an agent asks for both.
	for _, args := range []string{`{"provider":"holder","name":"OTHER","secret_alias":"provider/holder/API_TOKEN"}`, `{"provider":"nobody","name":"API_TOKEN","secret_alias":"provider/holder/API_TOKEN"}`} {
		if r := v.as("agent", "main", "tool.provider.credential", args, ""); r.Status == capabilities.StatusOK {
			t.Errorf("%s: %+v", args, r)
		}
	}

	// Without the secret there is no provider.
	if status, answer := v.ask(http.MethodDelete, v.URL()+"/v1/secrets/token", v.admin, ""); status != http.StatusOK {
		t.Fatalf("%d %s", status, answer)
	}
	v.Await("the node to forget it", func() bool {
		r := v.as("agent", "main", "tool.holder.prove", `{}`, "")
		return r.Status != capabilities.StatusOK
	})
	if _, answer := v.ask(http.MethodGet, v.URL()+"/v1/providers/holder", v.admin, ""); !strings.Contains(string(answer), "API_TOKEN") {
		t.Errorf("%s", answer)
	}
	v.folder(v.Dir)
	v.folder(n.Dir)
	v.log()
}

// A secret that is removed, or whose reference is revoked, while a program runs with it: the
// program is ended, its call says why, the withdrawal is recorded, and the provider is not ready
// for just that reason (S0-40, S0-42). Stored and approved again, it runs again.
func TestACredentialIsTakenBackFromWhatRuns(t *testing.T) {
	const value = "CANARY-running-token-2718"
	walls, err := site.NewWalls()
	if err != nil {
		t.Skip(err)
	}
	v := newVault(t, value)
	n := v.AddNodeWith("desk", hosts(t, walls), site.NewHandler())
	n.AwaitReady("tyrum.provider.host")
	admin := newCaller(t, v.URL(), v.admin)
	dir := t.TempDir()
	file := filepath.Join(dir, "pid")
	manifest, err := json.Marshal(map[string]any{"tools": []any{map[string]any{"name": "stay", "argv": []string{"bash", "-c", `test -n "$API_TOKEN" && echo $$ >"$0" && exec sleep 600`, file}}}})
	must(t, err)
	v.set("token", value)
	add, err := json.Marshal(api.AddProvider{Name: "stayer", Kind: "command", Host: n.ID, Manifest: string(manifest), Write: []string{dir}, Env: []string{"API_TOKEN=token"}})
	must(t, err)
	var p api.Provider
	admin.ok(http.MethodPost, "/v1/providers", string(add), &p)
	withdrawals := func() int {
		packets, err := v.Ledger.Packets(ctx(), ledger.Query{Tool: "tool.provider.withdraw", Kind: ledger.KindCallResult, Limit: 100})
		must(t, err)
		return len(packets)
	}
	for i, what := range []func() string{
		func() string { return "token" },
		func() string { return v.Secrets.Usable("anna", "tool.provider.credential")[0].ID },
	} {
		v.set("token", value)
		approved(t, admin, p, "allow")
		n.AwaitReady("tyrum.stayer.stay")
		ended := make(chan capabilities.Result, 1)
		go func() { ended <- v.as("agent", "main", "tool.stayer.stay", `{}`, "") }()
		var pid int
		desk.Await(t, "the program to run", func() bool {
			select {
			case r := <-ended:
				t.Fatalf("%d: it ended with %s %s %s", i, r.Code, r.Message, r.Output)
			default:
			}
			text, _ := os.ReadFile(file)
			pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
			return pid > 0
		})
		pid = outside(t, pid, "sleep")
		if status, answer := v.ask(http.MethodDelete, v.URL()+"/v1/secrets/"+what(), v.admin, ""); status != http.StatusOK {
			t.Fatalf("%d %s", status, answer)
		}
		if r := <-ended; r.Code != capabilities.CodeSecretUnavailable {
			t.Errorf("%d: its call ended with %s %s", i, r.Code, r.Message)
		}
		desk.Await(t, "the program to be gone", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
		desk.Await(t, "the provider to say so", func() bool {
			admin.ok(http.MethodGet, "/v1/providers/stayer", "", &p)
			return !p.Ready && p.Reason == capabilities.ReasonCredentialMissing
		})
		if r := v.as("agent", "main", "tool.stayer.stay", `{}`, ""); r.Status == capabilities.StatusOK {
			t.Errorf("%d: called without its credential: %+v", i, r)
		}
		if got := withdrawals(); got != i+1 {
			t.Errorf("%d withdrawals are recorded after %d", got, i+1)
		}
		must(t, os.Remove(file))
	}
	v.folder(v.Dir)
	v.folder(n.Dir)
	v.log()
}

// A device that hosts a server that never answers delays nobody else: providers are listed,
// added, approved, called and removed while it is asked.
func TestAServerThatNeverAnswersDelaysNobody(t *testing.T) {
	h, n, admin := hosting(t)
	asked, end := make(chan struct{}, 8), make(chan struct{})
	never := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-end:
		case <-r.Context().Done():
		}
	}))
	defer never.Close()
	defer close(end)
	hanging, err := json.Marshal(api.AddProvider{Name: "silent", Kind: "mcp", Host: n.ID, URL: never.URL})
	must(t, err)
	leaving, leave := context.WithCancel(t.Context())
	adding := make(chan struct{})
	go func() {
		defer close(adding)
		_, _, _ = admin.try(leaving, http.MethodPost, "/v1/providers", string(hanging))
	}()
	<-asked
	admin.fails(http.MethodPost, "/v1/providers", string(hanging), capabilities.CodeConflict)
	p := approved(t, admin, added(t, admin, n, "local", programs, t.TempDir()), "allow")
	if !p.Tools[0].Callable {
		t.Errorf("%+v", p.Tools[0])
	}
	h.Await("its tools", func() bool {
		return h.Call(ctx(), "tool.local.upper", `{"text":"hello"}`, "").Status == capabilities.StatusOK
	})
	admin.ok(http.MethodPost, "/v1/providers/local/check", "", &p)
	var list struct{ Providers []api.Provider }
	admin.ok(http.MethodGet, "/v1/providers", "", &list)
	if len(list.Providers) != 1 {
		t.Errorf("%+v", list)
	}
	admin.ok(http.MethodDelete, "/v1/providers/local", "", nil)
	select {
	case <-adding:
		t.Error("the silent server was added, or refused, before it answered")
	default:
	}
	leave()
	<-adding
	h.check() // the call that asked it ends, too, while its node is there to say how
}

// A server at a URL gets its credential as a header, on requests to its own origin.
func TestACredentialIsAHeader(t *testing.T) {
	const value = "CANARY-header-token-496"
	v := newVault(t, value)
	var with, without atomic.Int32
	server := mcp.NewServer(&mcp.Implementation{Name: "wiki", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "look", Description: "Looks."}, func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "you sent " + r.Extra.Header.Get("Authorization")}}}, nil, nil
	})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
	wiki := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Authorization") {
		case "Bearer " + value:
			with.Add(1)
		case "":
			without.Add(1)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(wiki.Close)
	n := v.AddNodeWith("desk", hosts(t, site.Walls{}), site.NewHandler())
	n.AwaitReady("tyrum.provider.host")
	admin := newCaller(t, v.URL(), v.MustToken("admin", principal.RoleAdmin))
	v.set("token", value)
	add, err := json.Marshal(api.AddProvider{Name: "wiki", Kind: "mcp", Host: n.ID, URL: wiki.URL, Env: []string{"Authorization=token"}})
	must(t, err)
	var p api.Provider
	admin.ok(http.MethodPost, "/v1/providers", string(add), &p)
	if with.Load() > 0 || without.Load() == 0 {
		t.Errorf("before the approval %d with, %d without", with.Load(), without.Load())
	}
	approved(t, admin, p, "allow")
	n.AwaitReady("tyrum.wiki.look")
	if r := v.as("agent", "main", "tool.wiki.look", `{}`, ""); r.Status != capabilities.StatusOK || !strings.Contains(string(r.Output), "you sent Bearer [secret]") || with.Load() == 0 {
		t.Errorf("%s %s %s", r.Code, r.Message, r.Output)
	}
	v.folder(v.Dir)
	v.folder(n.Dir)
	v.log()
}

// A server that lists nothing without a credential is approved with it first, and its tools when it
// has said which they are.
func TestAServerThatWantsACredentialFirst(t *testing.T) {
	const value = "CANARY-first-token-4711"
	walls, err := site.NewWalls()
	if err != nil {
		t.Skip(err)
	}
	w := newWords(t)
	w.say(saying("Echoes."))
	inner := w.Config.Handler
	var ended atomic.Bool
	w.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+value || ended.Load() {
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(rw, r)
	})
	v := newVault(t, value)
	n := v.AddNodeWith("desk", hosts(t, walls), site.NewHandler())
	n.AwaitReady("tyrum.provider.host")
	admin := newCaller(t, v.URL(), v.admin)
	plain, err := json.Marshal(api.AddProvider{Name: "remote", Kind: "mcp", Host: n.ID, URL: w.URL})
	must(t, err)
	admin.fails(http.MethodPost, "/v1/providers", string(plain), capabilities.CodeSecretUnavailable)
	v.set("token", value)
	add, err := json.Marshal(api.AddProvider{Name: "remote", Kind: "mcp", Host: n.ID, URL: w.URL, Env: []string{"Authorization=token"}})
	must(t, err)
	var p api.Provider
	admin.ok(http.MethodPost, "/v1/providers", string(add), &p)
	if len(p.Tools) != 0 || v.resolved() != 0 {
		t.Fatalf("%d tools, %d resolved before an approval", len(p.Tools), v.resolved())
	}
	approved(t, admin, p, "allow")
	if v.resolved() != 1 {
		t.Errorf("%d resolved, want one for the approval", v.resolved())
	}
	admin.ok(http.MethodPost, "/v1/providers/remote/check", "", &p)
	if len(p.Tools) != 2 || p.Tools[0].Callable {
		t.Fatalf("%+v", p.Tools)
	}
	approved(t, admin, p, "allow")
	n.AwaitReady("tyrum.remote.echo")
	if r := v.as("agent", "main", "tool.remote.echo", `{}`, ""); r.Status != capabilities.StatusOK {
		t.Errorf("%+v", r)
	}

	// Once the server takes that no more, the provider says that somebody has to sign in.
	ended.Store(true)
	if r := v.as("agent", "main", "tool.remote.echo", `{}`, ""); r.Code != capabilities.CodeSecretUnavailable {
		t.Errorf("%+v", r)
	}
	v.Await("the provider to need a sign-in", func() bool {
		admin.ok(http.MethodGet, "/v1/providers/remote", "", &p)
		return !p.Ready && p.Reason == capabilities.ReasonNeedsSignIn && strings.Contains(p.Fix, "Sign in")
	})
	ended.Store(false)
	v.set("token", value) // the same under the same name: the host asks anew
	admin.ok(http.MethodPost, "/v1/providers/remote/check", "", &p)
	v.Await("the provider to be ready", func() bool {
		admin.ok(http.MethodGet, "/v1/providers/remote", "", &p)
		return p.Ready
	})
}
