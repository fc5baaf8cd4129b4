package dispatch

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/execution"
)

// repeatKey is what a repetition of v is recognised by (S4-28): its request ID, or, where its
// descriptor lets a result be used again, everything that it asks for: asker, lane, tool
// as it is defined now, node and canonical arguments. A call that a person is asked about is
// recognised by a request ID alone. false: nothing repeats it.
func (v *decided) repeatKey() (execution.Key, bool) {
	switch {
	case v.req.RequestID != "":
		return execution.Key{Asker: v.asker(), Request: v.req.RequestID}, true
	case !v.desc.Reuses() || v.verdict.Effect != policy.Allow || v.req.Task != "" || v.unroutable != nil:
		return execution.Key{}, false
	}
	h := sha256.New()
	manifest := v.desc.Hash()
	for _, part := range [][]byte{[]byte(v.lane), []byte(v.tool), manifest[:], []byte(v.args.NodeID), []byte(v.trail.node), v.args.Canonical} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write(part)
	}
	key := execution.Key{Asker: v.asker()}
	h.Sum(key.Same[:0])
	return key, true
}

// earlierResult returns the result that stands for v under key; nil, nil: v runs.
func (d *Dispatcher) earlierResult(ctx context.Context, v *decided,
	key execution.Key) (r *capabilities.Result, how string, _ *capabilities.Error) {
	if key.Request != "" {
		r, err := d.replay(ctx, v)
		return r, repeatReplayed, err
	}
	call, ok := d.recent.Get(key, time.Now())
	if !ok {
		return nil, "", nil
	}
	r, err := d.open.Kept(ctx, call)
	if err != nil {
		return nil, "", nil // it is gone, and nothing is lost by doing it again
	}
	return r, repeatReused, nil
}

// reusable notes that the recorded result r of c stands for the same call made again.
func (d *Dispatcher) reusable(c *openCall, r *capabilities.Result) {
	if now := time.Now(); c.again != (execution.Key{}) && r.Status == capabilities.StatusOK {
		d.recent.Put(c.again, c.id, now, now.Add(time.Duration(c.desc.Idempotency.WindowMS)*time.Millisecond))
	}
}
