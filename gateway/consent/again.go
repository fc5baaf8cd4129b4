package consent

import (
	"context"
	"encoding/json"

	"github.com/handrail-dev/handrail/capabilities"
)

// Tables are those that the room keeps in memory, and reads again once another gateway wrote them.
// A grant for one call is known to the gateway alone that asked.
var Tables = []string{"grant_store"}

// Again reads the grants as they stand now.
func (c *Consent) Again(ctx context.Context) error {
	rows, err := c.opts.Store.Read().QueryContext(ctx, `SELECT body, used FROM grant_store WHERE expires_ms > $1`, c.opts.Now().UnixMilli())
	if err != nil {
		return capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	defer rows.Close()
	now := map[string]*Grant{}
	snapshot := c.opts.Snapshot()
	for rows.Next() {
		var body string
		var used int
		g := &Grant{}
		if err := rows.Scan(&body, &used); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(body), g); err != nil {
			return capabilities.Wrap(capabilities.CodeInternal, err, "a grant in the store cannot be read")
		}
		if g.Used = used; g.Snapshot == snapshot && g.Manifest == c.manifest(g.Tools) {
			now[g.ID] = g
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, g := range c.grants {
		switch have := now[id]; {
		case have != nil:
			have.lastUsed = g.lastUsed
		case g.Kind == KindCall:
			now[id] = g
		default:
			c.letGoLocked(g)
		}
	}
	c.grants = now
	return nil
}

func (c *Consent) dropGrants(which func(*Grant) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, g := range c.grants {
		if which(g) {
			delete(c.grants, id)
		}
	}
}
