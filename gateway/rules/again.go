package rules

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

// Tables are those that the room keeps in memory, and reads again once another gateway wrote them.
var Tables = []string{"policy_history"}

// Again puts the set in force that another gateway activated.
func (b *Book) Again(ctx context.Context) error {
	last, found, err := b.last(ctx)
	if err != nil || !found || last.Snapshot == b.Engine().SnapshotID() {
		return err
	}
	sources, err := b.sources(ctx, last.Snapshot)
	if err != nil {
		return err
	}
	b.swapping.Lock()
	defer b.swapping.Unlock()
	engine, err := b.load(sources)
	past := err != nil
	if past { // tools of a provider that another gateway has already, or has no more: nobody calls them here
		engine, err = b.loader.Load().LoadPast(sources)
	}
	if err != nil {
		return capabilities.Wrap(capabilities.CodeInvalidRequest, err,
			"The policy that another gateway put in force does not fit this program: "+capabilities.AsError(err).PublicMessage())
	}
	b.turnedLocked(engine, past)
	b.opts.Log.Warn("policy.activated", "snapshot", last.Snapshot, "before", last.Before, "by", last.By, "at", "another gateway")
	return nil
}

// turnedLocked puts a set in force, and says so; past: it names tools that are not known here.
func (b *Book) turnedLocked(engine *policy.Engine, past bool) {
	b.engine.Store(engine)
	b.past = past
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.changed)
	b.changed = make(chan struct{})
}

func superseded() error {
	return capabilities.Errorf(capabilities.CodeConflict, "another policy is in force by now").
		WithAction(capabilities.Action{Key: capabilities.ActionReviewPolicy}, "Look at the difference again.")
}
