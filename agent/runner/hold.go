package runner

import (
	"context"
	"time"
)

// A held ticket came ahead of its commit at the gateway. It lies here, on disk as "held", and
// asks, shows and runs nothing. At the gateway's word, the commit, it goes on as every other,
// and its start waits for no disk, since the held record is there. Without the word it is
// withdrawn, and no ticket of that call runs later. A process that dies meanwhile says
// "unknown" of the call, as of one that had started. Its records are agent/journal/hold.go,
// the waiting for the word agent/link/hold.go. A gateway that sends none, and a node that does
// not say in its hello that it can hold, lose nothing but time.

// hold waits for the word that a held ticket may run. The caller calls withdraw at the call's
// end, whatever came of it: of a call that started it says nothing.
func (c *arrived) hold(ctx context.Context) (withdraw func(), err error) {
	if err := c.r.opts.Journal.Held(ctx, c.t); err != nil {
		c.log.Warn("call.unheld", "hop", "journal", "err", err) // start says what it means
	}
	withdraw = func() {
		if err := c.r.opts.Journal.Withdrawn(c.t.Call); err != nil {
			c.log.Error("call.journal", "err", err)
		}
	}
	if err := c.sink.Go(ctx); err != nil {
		c.log.Info("call.withdrawn", "hop", "link", "err", err)
		return withdraw, err
	}
	c.began = time.Now() // how long it lay is not the call's
	return withdraw, nil
}
