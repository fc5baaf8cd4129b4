package principal

import (
	"context"
	"crypto/sha256"

	"github.com/handrail-dev/handrail/capabilities"
)

// Tables are those that the room keeps in memory, and reads again once another gateway wrote them.
var Tables = []string{"token", "user", "passkey"}

// Again reads tokens and people as they stand now, and tells its watchers of tokens that ended.
func (t *Tokens) Again(ctx context.Context) error {
	now := &Tokens{
		opts: t.opts, byHash: map[[sha256.Size]byte]*Token{}, hashes: map[string][sha256.Size]byte{}, users: map[capabilities.PrincipalID]*user{},
	}
	if err := now.read(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	good := map[string]bool{}
	for hash, rec := range t.byHash {
		good[rec.ID] = t.refusalLocked(t.byHash[hash]) == nil
	}
	t.byHash, t.hashes, t.users = now.byHash, now.hashes, now.users
	var ended []string
	for id, was := range good {
		if was && t.refusalLocked(t.byHash[t.hashes[id]]) != nil {
			ended = append(ended, id)
		}
	}
	watchers := make([]func(string), 0, len(t.watchers))
	for _, fn := range t.watchers {
		watchers = append(watchers, fn)
	}
	t.mu.Unlock()
	if len(ended) > 0 {
		go func() { // they may write, and the writer is here
			for _, fn := range watchers {
				for _, id := range ended {
					fn(id)
				}
			}
		}()
	}
	return nil
}
