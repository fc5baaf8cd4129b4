package stop

import (
	"context"
	"database/sql"
	"errors"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Tables are those that the room keeps in memory, and reads again once another gateway wrote them.
var Tables = []string{"stop_switch", "stop_node"}

// Again reads the switch as it stands now, and tells turned of a turn that another gateway made.
// turned does not block.
func (s *Switch) Again(ctx context.Context, turned func(State)) error {
	now := &Switch{opts: s.opts, nodes: map[capabilities.NodeID]Own{}}
	if err := now.readLocked(ctx); err != nil { // nobody else has it
		return err
	}
	s.mu.Lock()
	later := now.state.Epoch > s.state.Epoch
	if later {
		s.state = now.state
	}
	for node, own := range now.nodes {
		if own.Epoch > s.nodes[node].Epoch {
			s.nodes[node] = own
		}
	}
	s.mu.Unlock()
	if later {
		turned(now.state)
	}
	return nil
}

// Told takes a stop that another gateway says it made, before that one has written it down, and
// tells turned of it if it is news. A release is heard of by Again alone: it counts once it is
// durable.
func (s *Switch) Told(now State, turned func(State)) {
	if !now.Stopped {
		return
	}
	s.mu.Lock()
	later := now.Epoch > s.state.Epoch
	if later {
		s.state = now
	}
	s.mu.Unlock()
	if later {
		turned(now)
	}
}

// latestIn has a turn follow what another gateway turned meanwhile. A stop is the later one then;
// a release does not end a stop that its person did not know.
func (s *Switch) latestIn(tx *store.Tx, next *State) error {
	if s.opts.Store.Member() == "" {
		return nil
	}
	var epoch uint64
	var stopped bool
	err := tx.QueryRow(`SELECT epoch, stopped FROM stop_switch WHERE one = 1`).Scan(&epoch, &stopped)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	switch {
	case err != nil:
		return err
	case epoch < next.Epoch:
	case next.Stopped || !stopped:
		next.Epoch = epoch + 1
	default:
		return capabilities.Errorf(capabilities.CodeConflict, "Everything was stopped anew meanwhile, at another gateway of the site.").
			WithHint("Look at who stopped it and why, and repeat it.")
	}
	return nil
}
