package principal

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
)

// MaxHashing is how many passwords wait for their turn.
const MaxHashing = maxHashing

// Hashed is how many passwords were worked on.
func Hashed(t *Tokens) int64 { return t.hasher.done.Load() }

// HoldHasher takes the hasher's turn.
func HoldHasher(t *Tokens) (release func(), err error) {
	return t.hasher.awaitTurn(context.Background())
}

// ReadPasswordRecord reads a record and writes it again.
func ReadPasswordRecord(text string) (string, bool) {
	k, err := parseKept(text)
	if err != nil {
		return "", false
	}
	return k.String(), true
}

// Cheap has passwords cost next to nothing from now on.
func Cheap(t *Tokens) *Tokens {
	t.hasher.cost = kept{time: 1, memory: 64, threads: 1}
	return t
}

// PasswordRecord is what is kept of a user's password.
func PasswordRecord(t *Tokens, who string) string {
	return t.users[capabilities.PrincipalID(who)].password
}
