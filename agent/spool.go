package agent

import (
	"context"
	"time"

	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/agent/spool"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/artifact"
)

// sweepEvery is how often artifacts that the gateway never fetched are cleared away.
const sweepEvery = time.Minute

func openSpool(o Options) (*spool.Spool, error) {
	at := spool.At(o.Dir)
	at.Log = o.Log
	return spool.Open(at)
}

func (a *Agent) sweepSpool(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := a.spool.Sweep(); err != nil {
				a.opts.Log.Warn("spool.sweep", "err", err)
			}
		}
	}
}

// spooled is the spool as the link takes it.
type spooled struct{ *spool.Spool }

func (s spooled) Open(call capabilities.CallID, id [32]byte) (artifact.Manifest, link.Artifact, error) {
	m, stored, err := s.Spool.Open(call, id)
	if err != nil {
		return m, nil, err
	}
	return m, stored, nil
}
