package runner

import (
	"context"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// readinessAge is how old a cached truth may be when a call is checked: a call
// must not pay for a probe, and a host does not change by the second.
const readinessAge = 5 * time.Second

// readiness caches what each handler says about itself.
type readiness struct {
	mu    sync.Mutex
	known map[capabilities.Handler]snapshot
}

type snapshot struct {
	at   time.Time
	list []capabilities.Readiness
}

// of returns the readiness of one capability, from the cache if it is fresh.
func (r *readiness) of(ctx context.Context, h capabilities.Handler, c capabilities.CapabilityID) capabilities.Readiness {
	r.mu.Lock()
	s, ok := r.known[h]
	r.mu.Unlock()
	list := s.list
	if !ok || time.Since(s.at) > readinessAge {
		list = r.refresh(ctx, h)
	}
	for _, e := range list {
		if e.Capability == c {
			return e
		}
	}
	return capabilities.Readiness{Capability: c, Reason: capabilities.ReasonNotAdvertised}
}

func (r *readiness) refresh(ctx context.Context, h capabilities.Handler) []capabilities.Readiness {
	list := h.Readiness(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = make(map[capabilities.Handler]snapshot)
	}
	r.known[h] = snapshot{at: time.Now(), list: list}
	return list
}
