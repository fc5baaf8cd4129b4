package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/oidc"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// oidcFlags are the OpenID provider at which people sign in.
type oidcFlags struct {
	issuer, client, secret, groups, name *string
	roles, scopes                        *[]string
}

func addOIDCFlags(cmd *cobra.Command) oidcFlags {
	f := cmd.Flags()
	return oidcFlags{
		issuer: f.String("oidc-issuer", "", "OpenID provider at which people sign in, such as https://id.example"),
		client: f.String("oidc-client", "", "client ID that the provider gave this gateway"),
		secret: f.String("oidc-secret", "", "name of the stored secret that holds the client's (default: it has none)"),
		roles: f.StringArray("oidc-role", nil,
			"GROUP=ROLE: people of that group come in, as viewer, operator or admin; the largest counts; repeatable"),
		groups: f.String("oidc-groups-claim", "groups", "claim with a person's groups"),
		name:   f.String("oidc-name-claim", "preferred_username", "claim by which people are called here, from their first sign-in on"),
		scopes: f.StringSlice("oidc-scope", nil, "scope to ask for besides openid; repeatable (default: profile and email)"),
	}
}

// config is what the flags say; nil: there is no provider.
func (f oidcFlags) config() (*oidc.Config, error) {
	if *f.issuer == "" {
		if *f.client != "" || *f.secret != "" || len(*f.roles) > 0 {
			return nil, terminal.UsageError("--oidc-client, --oidc-secret and --oidc-role go with --oidc-issuer")
		}
		return nil, nil
	}
	c := &oidc.Config{
		Issuer: *f.issuer, Client: *f.client, Secret: *f.secret, GroupsClaim: *f.groups, NameClaim: *f.name, Scopes: *f.scopes,
		Roles: map[string]principal.Role{},
	}
	for _, one := range *f.roles {
		at := strings.LastIndexByte(one, '=') // groups of a directory hold some themselves
		if at < 0 {
			return nil, terminal.UsageError("--oidc-role %s: want GROUP=ROLE, such as ops=operator", one)
		}
		c.Roles[one[:at]] = principal.Role(one[at+1:])
	}
	if err := c.Check(); err != nil {
		return nil, terminal.UsageError("%s", capabilities.AsError(err).PublicMessage())
	}
	return c, nil
}
