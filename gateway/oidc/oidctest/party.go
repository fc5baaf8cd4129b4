package oidctest

import (
	"bytes"
	"context"
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
)

// Secret is that of the client which Client registers.
const Secret = "the client's own secret"

const password = "verysecure"

// Party is a real OpenID provider. Its fields are set before a sign-in, not during one.
type Party struct {
	URL string // its issuer
	// Meta changes its metadata; nil: none.
	Meta func(map[string]any)
	// Forge changes the claims of an ID token, which is signed anew; nil: none.
	Forge func(map[string]any)
	// Alg is how an ID token is signed that Forge changed: "" by its own key, "none", "HS256" with
	// the client's secret, "other" by somebody else's key.
	Alg string
	// Info changes what it says at its userinfo endpoint; nil: none.
	Info func(map[string]any)

	mu      sync.Mutex
	groups  map[string][]string // by name
	people  map[string]*storage.User
	clients map[string]*storage.Client
	asked   []url.Values // of the token endpoint
	key     *rsa.PrivateKey
	keyID   string
}

// keeps is its storage, with groups.
type keeps struct {
	*storage.Storage
	p *Party
}

func (k keeps) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, tokenID, subject, origin string) error {
	if err := k.Storage.SetUserinfoFromToken(ctx, info, tokenID, subject, origin); err != nil {
		return err
	}
	k.p.mu.Lock()
	defer k.p.mu.Unlock()
	info.AppendClaims("groups", k.p.groups[strings.TrimPrefix(subject, "id-")])
	return nil
}

// ExampleClientID is of its storage's own tests.
func (p *Party) ExampleClientID() string { return "service" }

// GetUserByID is for its storage.
func (p *Party) GetUserByID(id string) *storage.User {
	return p.GetUserByUsername(strings.TrimPrefix(id, "id-"))
}

// GetUserByUsername is for its storage.
func (p *Party) GetUserByUsername(name string) *storage.User {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.people[name]
}

// Start starts it; it ends with the test.
func Start(t testing.TB) *Party {
	t.Helper()
	p := &Party{groups: map[string][]string{}, people: map[string]*storage.User{}, clients: map[string]*storage.Client{}}
	var whole http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { whole.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	p.URL = server.URL
	kept := storage.NewStorageWithClients(p, p.clients)
	signing, err := kept.SigningKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.key, p.keyID = signing.Key().(*rsa.PrivateKey), signing.ID()
	op := exampleop.SetupServer(p.URL, keeps{kept, p}, nil, false)
	mux := http.NewServeMux()
	mux.Handle("/", op)
	changed := func(w http.ResponseWriter, r *http.Request, change func(map[string]any)) {
		inner := httptest.NewRecorder()
		op.ServeHTTP(inner, r)
		said := map[string]any{}
		if json.Unmarshal(inner.Body.Bytes(), &said) == nil && inner.Code == http.StatusOK && change != nil {
			change(said)
			text, _ := json.Marshal(said)
			inner.Body = bytes.NewBuffer(text)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(inner.Code)
		_, _ = w.Write(inner.Body.Bytes())
	}
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) { changed(w, r, p.Meta) })
	mux.HandleFunc("GET /userinfo", func(w http.ResponseWriter, r *http.Request) { changed(w, r, p.Info) })
	mux.HandleFunc("POST /oauth/token", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		form, _ := url.ParseQuery(string(body))
		p.mu.Lock()
		p.asked = append(p.asked, form)
		p.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		changed(w, r, func(said map[string]any) {
			if raw, ok := said["id_token"].(string); ok && p.Forge != nil {
				said["id_token"] = p.forged(raw)
			}
		})
	})
	whole = mux
	return p
}

// Person adds somebody, or puts them into other groups.
func (p *Party) Person(name string, groups ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.people[name] = &storage.User{
		ID: "id-" + name, Username: name, Password: password, FirstName: name, LastName: "Person", Email: name + "@people.example",
		EmailVerified: true,
	}
	p.groups[name] = groups
}

// Rename has somebody be called otherwise; who they are stays.
func (p *Party) Rename(name, to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.people[name].Username = to
	p.people[to] = p.people[name]
}

// Client registers the gateway, which is sent back to an address.
func (p *Party) Client(id, back string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients[id] = storage.WebClient(id, Secret, back)
}

// Asked is what its token endpoint was asked.
func (p *Party) Asked() []url.Values {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]url.Values(nil), p.asked...)
}

// Enters is a person who signs in with a browser that was sent to address; it returns where the
// provider sends the browser back to.
func (p *Party) Enters(t testing.TB, address, name string) *url.URL {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	var sent *url.URL
	c := &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if !strings.HasPrefix(r.URL.String(), p.URL+"/") {
			sent = r.URL
			return http.ErrUseLastResponse
		}
		return nil
	}}
	page := func(resp *http.Response, err error) (at *url.URL, text string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.Request.URL, string(body)
	}
	at, text := page(c.Get(address))
	id := at.Query().Get("authRequestID")
	if id == "" {
		t.Fatalf("no page to sign in at: %s", text)
	}
	_, text = page(c.PostForm(at.String(), url.Values{"id": {id}, "username": {name}, "password": {password}}))
	if sent == nil {
		t.Fatalf("not sent back: %s", text)
	}
	return sent
}

// forged is an ID token with other claims, signed as Alg says.
func (p *Party) forged(raw string) string {
	parts := strings.Split(raw, ".")
	claims := map[string]any{}
	if text, err := base64.RawURLEncoding.DecodeString(parts[1]); err != nil || json.Unmarshal(text, &claims) != nil {
		panic(fmt.Sprintf("oidctest: not an ID token: %v", err))
	}
	p.Forge(claims)
	alg := p.Alg
	if alg == "" || alg == "other" {
		alg = "RS256"
	}
	header, _ := json.Marshal(map[string]string{"alg": alg, "kid": p.keyID, "typ": "JWT"})
	body, _ := json.Marshal(claims)
	text := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(body)
	sum := sha256.Sum256([]byte(text))
	var sig []byte
	switch p.Alg {
	case "none":
	case "HS256":
		mac := hmac.New(sha256.New, []byte(Secret))
		mac.Write([]byte(text))
		sig = mac.Sum(nil)
	default:
		key := p.key
		if p.Alg == "other" {
			key, _ = rsa.GenerateKey(rand.Reader, 2048)
		}
		sig, _ = rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(sig)
}
