package link

import (
	"sync"

	"github.com/quic-go/quic-go"
)

// creditBatch is how many served streams are given back to the gateway at once.
const creditBatch = 64

// credit tells the gateway that it may open streams in place of those that are served
// (RFC 9000 4.6), for many at once: told for each, it is a packet of its own after
// every call, which the gateway acknowledges and which keeps both awake while the
// call's result is recorded. Those that are not given back yet come on top of
// maxCalls, so that so many calls can always run.
type credit struct {
	mu     sync.Mutex
	served []*quic.Stream
}

func (c *credit) done(stream *quic.Stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.served = append(c.served, stream); len(c.served) < creditBatch {
		return
	}
	for _, s := range c.served {
		s.ReleaseStreamCredit()
	}
	clear(c.served)
	c.served = c.served[:0]
}
