package oidc

import (
	"context"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"sync"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/address"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// Times and bounds.
const (
	// Life is how long a person has at their provider.
	Life = 10 * time.Minute

	metadataLife = time.Hour
	metadataRest = 5 * time.Second // after a try to read it that failed
	maxSpent     = 10_000
	maxCode      = 4 << 10
)

// People lets persons in for whom a provider vouches; gateway/principal implements it.
type People interface {
	SignInOutside(context.Context, principal.Outside) (principal.Token, principal.Secret, error)
}

// Config is what the admin says of the provider.
type Config struct {
	Issuer string // required: its address, as it names itself
	Client string // required: the client ID that it gave the gateway
	// Secret is the name of the stored secret that holds the client's; empty: it has none.
	Secret string
	// Roles are the groups that may come in, and as what; required.
	Roles map[string]principal.Role
	// GroupsClaim names the claim with a person's groups; default "groups".
	GroupsClaim string
	// NameClaim names the claim by which persons are called here; default "preferred_username".
	NameClaim string
	// Scopes are asked for besides openid; default profile and email.
	Scopes []string
}

// Options of New; all are required unless a default is named.
type Options struct {
	Config
	People People
	// Secrets returns the value of a stored secret; required where Config names one.
	Secrets func(ctx context.Context, name string) (capabilities.Secret, error)
	Log     *slog.Logger     // default: discards
	Now     func() time.Time // default time.Now
}

// Provider is an OpenID provider. Its methods are safe for concurrent use.
type Provider struct {
	opts   Options
	issuer *url.URL
	aead   cipher.AEAD // seals what browsers keep, for as long as this process runs

	meeting sync.Mutex // one reads the metadata at a time; guards the next three
	known   *met
	until   time.Time
	failed  error

	mu    sync.Mutex
	spent map[[sha256.Size]byte]time.Time // states that came back, until they are late anyway
}

// Check refuses a Config that cannot work, by the names of the flags.
func (c *Config) Check() error {
	bad := func(format string, args ...any) error {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, format, args...)
	}
	u, ok := address.Web(c.Issuer)
	switch {
	case !ok || u.RawQuery != "" || u.Scheme == "http" && !isLoopback(u):
		return bad("--oidc-issuer: an https address without a user, a query and a fragment, as the provider names itself")
	case c.Client == "" || len(c.Client) > 256:
		return bad("--oidc-client: the client ID that the provider gave this gateway")
	case len(c.Roles) == 0:
		return bad("--oidc-role: at least one GROUP=ROLE, or nobody could come in")
	case slices.Contains(c.Scopes, "offline_access"):
		return bad("--oidc-scope: the gateway keeps no tokens of people, so it asks for none that last")
	}
	for group, role := range c.Roles {
		if group == "" || role != principal.RoleViewer && role != principal.RoleOperator && role != principal.RoleAdmin {
			return bad("--oidc-role %.200s=%s: a person's role is viewer, operator or admin", group, role)
		}
	}
	return nil
}

func isLoopback(u *url.URL) bool {
	return slices.Contains([]string{"127.0.0.1", "::1", "localhost"}, u.Hostname())
}

// New makes one; it asks the provider nothing yet.
func New(o Options) (*Provider, error) {
	if o.People == nil || o.Secret != "" && o.Secrets == nil {
		return nil, errors.New("oidc: Options.People, and Secrets with a Secret, are required")
	}
	if err := o.Check(); err != nil {
		return nil, err
	}
	if o.GroupsClaim == "" {
		o.GroupsClaim = "groups"
	}
	if o.NameClaim == "" {
		o.NameClaim = "preferred_username"
	}
	if len(o.Scopes) == 0 {
		o.Scopes = []string{"profile", "email"}
	}
	if !slices.Contains(o.Scopes, gooidc.ScopeOpenID) {
		o.Scopes = append([]string{gooidc.ScopeOpenID}, o.Scopes...)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	issuer, _ := address.Web(o.Issuer) // Check has read it
	key := make([]byte, chacha20poly1305.KeySize)
	rand.Read(key) // never fails (crypto/rand)
	aead, err := chacha20poly1305.NewX(key)
	if err != nil {
		return nil, err
	}
	return &Provider{opts: o, issuer: issuer, aead: aead, spent: map[[sha256.Size]byte]time.Time{}}, nil
}

// Host is where people sign in, for the button.
func (p *Provider) Host() string { return p.issuer.Host }
