package oauth

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Times and bounds.
const (
	codeLife    = time.Minute
	keepCode    = 10 * time.Minute // a code that was used, to know it when it comes again
	accessLife  = time.Hour
	refreshTwin = 10 * time.Second // an answer that was lost is given once more
	maxQuery    = 6 << 10
	maxBody     = 32 << 10
	maxCodes    = 1000
)

// Resource is the path of what access tokens are for.
const Resource = "/mcp"

// Migrations are the table of this room: which refresh token of a client is the latest.
func Migrations() []store.Migration {
	return []store.Migration{{Room: "oauth", Version: 1, SQL: `
		CREATE TABLE oauth_client (
			token_id   TEXT PRIMARY KEY,
			client     BLOB NOT NULL,
			generation INTEGER NOT NULL,
			rotated_at INTEGER NOT NULL
		) STRICT`}}
}

// Tokens are the tokens that clients stand for; gateway/principal implements it.
type Tokens interface {
	Connect(context.Context, principal.Identity, principal.ClientSpec, func(*store.Tx, principal.Token) error) (principal.Token, error)
	Identify(tokenID string) (principal.Token, principal.Identity, error)
	Withdraw(ctx context.Context, tokenID string) error
	List() []principal.Token
}

// Options of New; all are required unless a default is named.
type Options struct {
	Store  *store.Store // opened with Migrations
	Tokens Tokens
	Key    []byte // makes codes and tokens; 32 bytes
	// Authorize is the path where clients send a person's browser.
	Authorize string
	// Base returns the address of the gateway by which a request came, such as
	// "https://handrail.example".
	Base func(*http.Request) string
	// Record writes a packet in the same transaction as a change; default: none.
	Record func(tx *store.Tx, kind string, by capabilities.PrincipalID, body any) error
	// Hosts are those beside public ones where clients' documents may lie, as "host:port"; there
	// http will do. Default: none.
	Hosts []string
	Log   *slog.Logger     // default: discards
	Now   func() time.Time // default time.Now
}

// Server is the authorization server. Its methods are safe for concurrent use.
type Server struct {
	opts      Options
	documents *documents
	recorder  recorder

	mu    sync.Mutex
	codes map[[sha256.Size]byte]*code
	met   map[string]bool // tokens whose client has called since the start

	rotating sync.Mutex // one refresh at a time: which token is the latest is read and written
}

// New makes one; it starts nothing.
func New(o Options) (*Server, error) {
	if o.Store == nil || o.Tokens == nil || len(o.Key) != sha256.Size || o.Authorize == "" || o.Base == nil {
		return nil, errors.New("oauth: Options.Store, Tokens, Key, Authorize and Base are required")
	}
	if o.Record == nil {
		o.Record = func(*store.Tx, string, capabilities.PrincipalID, any) error { return nil }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{opts: o, codes: map[[sha256.Size]byte]*code{}, met: map[string]bool{}}
	s.opts.Key = append([]byte(nil), o.Key...)
	var err error
	if s.documents, err = newDocuments(o.Hosts, o.Now); err != nil {
		return nil, err
	}
	return s, nil
}

// Load ends the clients whose code was never fetched: an earlier process ended in between.
func (s *Server) Load(ctx context.Context) error {
	err := s.opts.Store.Tidy(ctx, func(tx *store.Tx) error {
		_, err := tx.Exec(`DELETE FROM oauth_client WHERE token_id NOT IN (SELECT token_id FROM token)`)
		return err
	})
	if err != nil {
		return err
	}
	for _, t := range s.opts.Tokens.List() {
		if t.Client == "" || !t.RevokedAt.IsZero() {
			continue
		}
		if row, err := s.row(ctx, t.ID); err == nil && row.generation > 0 {
			continue
		}
		if err := s.opts.Tokens.Withdraw(ctx, t.ID); err != nil {
			return err
		}
	}
	return nil
}

// Endpoint is one address of the server, open to everybody.
type Endpoint struct {
	Pattern string // of http.ServeMux
	Handler http.Handler
}

// Endpoints are all but that for people's browsers, which leads to a page of the console.
func (s *Server) Endpoints() []Endpoint {
	at := func(pattern string, h http.HandlerFunc) Endpoint { return Endpoint{pattern, h} }
	return []Endpoint{
		at("GET "+resourcePath, s.resource),
		at("GET "+resourcePath+"/{path...}", s.resource),
		at("GET "+serverPath, s.server),
		at("POST /oauth/register", s.register),
		at("POST /oauth/token", s.token),
		at("POST /oauth/revoke", s.revoke),
	}
}

// Access returns the identity that an access token stands for, at the address that a request came
// to. Errors are CodeUnauthenticated. It does no I/O.
func (s *Server) Access(r *http.Request, token string) (principal.Identity, error) {
	id, err := s.readAccess(token)
	if err != nil {
		return principal.Identity{}, err
	}
	rec, who, err := s.opts.Tokens.Identify(id)
	if err != nil {
		return principal.Identity{}, err
	}
	if rec.Audience != s.opts.Base(r)+Resource {
		return principal.Identity{}, capabilities.Errorf(capabilities.CodeUnauthenticated, "the access token is for another address: %.200s",
			rec.Audience)
	}
	s.mu.Lock()
	first := !s.met[id]
	if first && len(s.met) < maxCodes*10 {
		s.met[id] = true
	}
	s.mu.Unlock()
	if first {
		s.note(r, Step{What: Called, Client: rec.Client})
	}
	return who, nil
}

// Is reports whether a bearer token is an access token of this server's kind.
func (s *Server) Is(token string) bool { return isAccess(token) }

// row is what is kept of a client.
type row struct {
	client     []byte // the SHA-256 of its client ID
	generation int64  // of its latest refresh token; 0: it fetched none yet
	rotated    time.Time
}

func (s *Server) row(ctx context.Context, tokenID string) (r row, err error) {
	var at int64
	err = s.opts.Store.Read().QueryRowContext(ctx, `SELECT client, generation, rotated_at FROM oauth_client WHERE token_id = $1`, tokenID).
		Scan(&r.client, &r.generation, &at)
	r.rotated = time.UnixMilli(at)
	return r, err
}

// packetOf is the body of a packet about a client's tokens.
func packetOf(t *principal.Token) packet.Token {
	return packet.Token{
		ID: t.ID, Principal: t.Principal, Role: t.Role.String(), Lane: t.Lane, CreatedAt: t.CreatedAt, CreatedBy: t.CreatedBy,
		ExpiresAt: t.ExpiresAt, Client: t.Client, Audience: t.Audience, Tools: t.Tools,
	}
}
