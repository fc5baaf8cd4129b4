package nodes

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// hand sends the node of an exchange what seal returns for its key. Until it is sent whole, nothing
// was delivered: the node only waits for it.
func (c *exchange) hand(ctx context.Context, key []byte, seal func([]byte) ([]byte, error)) error {
	sealed, err := seal(key)
	if err != nil {
		return err // end resets the stream, and with that the node gives up
	}
	c.whole = false
	if err := wire.Write(c, &wire.Sealed{Bytes: sealed}); err != nil {
		if ended := ending(ctx); ended != nil {
			return ended
		}
		if !c.whole {
			return capabilities.Wrap(capabilities.CodeNodeDisconnected, err, "")
		}
		return c.lost(ctx, err)
	}
	_ = c.stream.Close()
	return nil
}

// Touch tells everyone who watches the snapshot to look again: what callers may use
// changed, although no node did.
func (n *Nodes) Touch() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notifyLocked()
}
