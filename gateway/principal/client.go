package principal

import (
	"context"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/store"
)

// A client that speaks OAuth is a token that nobody holds: a person let it in, and access tokens
// stand for it, for as long as it is good. It is listed and revoked like any other.

const clientColumns = `ALTER TABLE token ADD COLUMN client TEXT NOT NULL DEFAULT '';
	ALTER TABLE token ADD COLUMN audience TEXT NOT NULL DEFAULT '';
	ALTER TABLE token ADD COLUMN tools TEXT NOT NULL DEFAULT ''`

// maxReach is how many families of tools a client's token names.
const maxReach = 64

// ClientSpec is what the token of a client is to be.
type ClientSpec struct {
	Spec              // its role is RoleAgent
	Client   string   // required: in words, at most 200 bytes
	Audience string   // required: the address that access tokens are for
	Tools    []string // required: families of tools
}

// Connect lets a client in: it makes the token that its access tokens stand for. with is written in
// the same transaction.
func (t *Tokens) Connect(ctx context.Context, by Identity, spec ClientSpec, with func(*store.Tx, Token) error) (Token, error) {
	if spec.Client == "" || len(spec.Client) > 200 || spec.Audience == "" {
		return Token{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "a client has a name and an address that its tokens are for")
	}
	spec.Role = RoleAgent
	tools := slices.Clone(spec.Tools)
	slices.Sort(tools)
	if tools = slices.Compact(tools); len(tools) == 0 || len(tools) > maxReach {
		return Token{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "choose 1 to %d families of tools", maxReach)
	}
	for _, family := range tools {
		if err := capabilities.ValidateName("each family of tools", family, 64); err != nil {
			return Token{}, err
		}
	}
	if t.person(spec.Principal) {
		return Token{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "%s is a person here, and no client acts under a person's name",
			spec.Principal).WithHint("Choose another name for the client.")
	}
	rec, _, err := t.create(ctx, by, spec.Spec, Token{Client: spec.Client, Audience: spec.Audience, Tools: strings.Join(tools, ",")}, with)
	return rec, err
}

// person reports whether somebody who signs in, or calls as a person, has that name.
func (t *Tokens) person(who capabilities.PrincipalID) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.users[who] != nil {
		return true
	}
	for _, rec := range t.byHash {
		if rec.Principal == who && rec.Role.signsIn() && t.refusalLocked(rec) == nil {
			return true
		}
	}
	return false
}

// Identify returns the identity that the access tokens of a client stand for. Errors are
// CodeUnauthenticated. It does no I/O.
func (t *Tokens) Identify(tokenID string) (Token, Identity, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	rec := t.byHash[t.hashes[tokenID]]
	if rec == nil || rec.Client == "" {
		return Token{}, Identity{}, capabilities.Errorf(capabilities.CodeUnauthenticated, "the token is not valid")
	}
	if err := t.refusalLocked(rec); err != nil {
		return Token{}, Identity{}, err
	}
	who := rec.identity()
	who.authority = t.opts.Authority
	return *rec, who, nil
}

// Holder returns the identity that a token stands for, where its holder is known by something else
// than its secret. Errors are CodeUnauthenticated. It does no I/O.
func (t *Tokens) Holder(tokenID string) (Identity, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	rec := t.byHash[t.hashes[tokenID]]
	if rec == nil || rec.Role != RoleAgent || rec.Client != "" {
		return Identity{}, capabilities.Errorf(capabilities.CodeUnauthenticated, "the token is not valid")
	}
	if err := t.refusalLocked(rec); err != nil {
		return Identity{}, err
	}
	who := rec.identity()
	who.authority = t.opts.Authority
	return who, nil
}

// Withdraw ends a client's token because of what the client did: it gave it up, or a token of it
// was used that somebody else had used.
func (t *Tokens) Withdraw(ctx context.Context, tokenID string) error {
	rec, err := t.Get(tokenID)
	if err != nil {
		return err
	}
	if rec.Client == "" {
		return capabilities.Errorf(capabilities.CodeNotFound, "there is no client with that token")
	}
	_, err = t.revoke(ctx, Identity{Principal: rec.Principal}, tokenID)
	return err
}

// Reaches reports whether a tool is one of those that the token is for; policy judges the call.
func (id Identity) Reaches(tool capabilities.ToolID) bool {
	if id.Tools == "" {
		return true
	}
	for family := range strings.SplitSeq(id.Tools, ",") {
		if family == tool.Family() {
			return true
		}
	}
	return false
}
