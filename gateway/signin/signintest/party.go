package signintest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Party is a real authorization server, and an MCP server that takes its tokens for itself alone.
type Party struct {
	Auth, Server *httptest.Server
	Change       func(meta map[string]any) // of the authorization server's metadata; nil: none
	// Serves is what the MCP server does for whoever it lets in; nil: it answers with nothing.
	Serves http.Handler
	// Life is what the authorization server says of the life of a sign-in's first token, in seconds;
	// 0: the truth. Of those that it was refreshed by it says that.
	Life int

	Mu        sync.Mutex
	Asked     map[string]string // what each access token was asked for (RFC 8707)
	Refreshed []string          // refresh tokens that came, in order
	Revoked   []string
	over      bool
	clients   map[string]*storage.Client
	count     int
}

// Start starts both; they end with the test.
func Start(t *testing.T) *Party {
	t.Helper()
	p := &Party{Asked: map[string]string{}, clients: map[string]*storage.Client{}}
	var whole http.Handler
	p.Auth = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { whole.ServeHTTP(w, r) }))
	t.Cleanup(p.Auth.Close)
	op := exampleop.SetupServer(p.Auth.URL, storage.NewStorageWithClients(storage.NewUserStore(p.Auth.URL), p.clients), nil, false)
	mux := http.NewServeMux()
	mux.Handle("/", op)
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", func(w http.ResponseWriter, r *http.Request) {
		inner := httptest.NewRecorder()
		op.ServeHTTP(inner, httptest.NewRequest(http.MethodGet, "/.well-known/openid-configuration", nil))
		meta := map[string]any{}
		_ = json.Unmarshal(inner.Body.Bytes(), &meta)
		meta["registration_endpoint"] = p.Auth.URL + "/register"
		if p.Change != nil {
			p.Change(meta)
		}
		Answer(w, http.StatusOK, meta)
	})
	mux.HandleFunc("POST /register", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Redirect []string `json:"redirect_uris"`
		}
		_ = json.NewDecoder(r.Body).Decode(&in)
		p.Mu.Lock()
		defer p.Mu.Unlock()
		p.count++
		id := fmt.Sprintf("client-%d", p.count)
		p.clients[id] = storage.NativeClient(id, in.Redirect...)
		Answer(w, http.StatusCreated, map[string]any{"client_id": id, "redirect_uris": in.Redirect})
	})
	mux.HandleFunc("POST /oauth/token", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		form, _ := url.ParseQuery(string(body))
		r.Body = io.NopCloser(bytes.NewReader(body))
		inner := httptest.NewRecorder()
		p.Mu.Lock()
		over, life := p.over, p.Life
		p.Mu.Unlock()
		if over {
			Answer(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
			return
		}
		op.ServeHTTP(inner, r)
		var said map[string]any
		if err := json.Unmarshal(inner.Body.Bytes(), &said); err == nil && life > 0 && form.Get("grant_type") == "authorization_code" {
			said["expires_in"] = life
			text, _ := json.Marshal(said)
			inner.Body = bytes.NewBuffer(text)
		}
		var out struct {
			Access string `json:"access_token"`
		}
		_ = json.Unmarshal(inner.Body.Bytes(), &out)
		p.Mu.Lock()
		p.Asked[out.Access] = form.Get("resource")
		if t := form.Get("refresh_token"); t != "" {
			p.Refreshed = append(p.Refreshed, t)
		}
		p.Mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(inner.Code)
		_, _ = w.Write(inner.Body.Bytes())
	})
	mux.HandleFunc("POST /revoke", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		p.Mu.Lock()
		p.Revoked = append(p.Revoked, r.PostForm.Get("token"))
		p.Mu.Unlock()
		op.ServeHTTP(w, r)
	})
	whole = mux

	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.well-known/oauth-protected-resource") {
			Answer(w, http.StatusOK, map[string]any{
				"resource": p.Server.URL + "/mcp", "authorization_servers": []string{p.Auth.URL},
				"scopes_supported": []string{"openid", "offline_access"},
			})
			return
		}
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		p.Mu.Lock()
		is := token != "" && p.Asked[token] == p.Server.URL+"/mcp" && !slices.Contains(p.Revoked, token)
		p.Mu.Unlock()
		switch {
		case is && p.Serves != nil:
			p.Serves.ServeHTTP(w, r)
		case !is:
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+p.Server.URL+`/.well-known/oauth-protected-resource/mcp"`)
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(p.Server.Close)
	return p
}

// Revoke ends all tokens that it gave, and gives none until Allow.
func (p *Party) Revoke() {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	clear(p.Asked)
	p.over = true
}

// Allow has it give tokens again.
func (p *Party) Allow() {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.over = false
}

// Client registers a client as a person does by hand.
func (p *Party) Client(id string, redirect ...string) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.clients[id] = storage.NativeClient(id, redirect...)
}

// Answer writes JSON.
func Answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// Takes reports whether the MCP server takes a token.
func (p *Party) Takes(t *testing.T, token string) bool {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.Server.URL+"/mcp", nil)
	must(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	must(t, err)
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
