package recent

import (
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/execution"
)

// maxCalls bounds what is remembered; what lies beyond runs again.
const maxCalls = 4096

// Calls is the calls whose results may be used again. The zero value is ready; all methods
// are safe for concurrent use.
type Calls struct {
	mu    sync.Mutex
	byKey map[execution.Key]entry
}

type entry struct {
	call  capabilities.CallID
	until time.Time
}

// Put remembers that the result of call stands for key until then.
func (c *Calls) Put(key execution.Key, call capabilities.CallID, now, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey == nil {
		c.byKey = map[execution.Key]entry{}
	}
	if _, known := c.byKey[key]; !known && len(c.byKey) >= maxCalls {
		for k, e := range c.byKey {
			if !now.Before(e.until) {
				delete(c.byKey, k)
			}
		}
		if len(c.byKey) >= maxCalls {
			return
		}
	}
	c.byKey[key] = entry{call, until}
}

// Get returns the call whose result stands for key now.
func (c *Calls) Get(key execution.Key, now time.Time) (capabilities.CallID, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if ok && !now.Before(e.until) {
		delete(c.byKey, key)
		return "", false
	}
	return e.call, ok
}
