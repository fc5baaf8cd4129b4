package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/gateway/store"
)

// fetcher is the nodes as the pipeline has artifacts from them. It embeds nothing: a
// type that has all the methods of another is 16 kB more.
type fetcher struct{ n *nodes.Nodes }

func (f fetcher) Fetch(ctx context.Context, node capabilities.NodeID, call capabilities.CallID, id [32]byte, in *outcome.Incoming) error {
	return f.n.Fetch(ctx, node, call, id, in)
}

func (f fetcher) Forget(ctx context.Context, node capabilities.NodeID, call capabilities.CallID, id [32]byte) {
	f.n.Forget(ctx, node, call, id)
}

// shelf is the artifacts with the ledger beside them.
type shelf struct {
	*outcome.Artifacts
	g *Gateway

	mu   sync.Mutex
	read map[reader]time.Time
}

// reader is who read what.
type reader struct {
	by capabilities.PrincipalID
	id capabilities.ArtifactID
}

const (
	// readAgain is how long one packet stands for what one principal reads of one
	// artifact: a player asks for hundreds of ranges.
	readAgain = 10 * time.Minute
	maxRead   = 4096
)

// artifactBody is the body of artifact.read and artifact.removed.
type artifactBody struct {
	ID   capabilities.ArtifactID `json:"artifact_id"`
	Size int64                   `json:"size"`
}

func (s *shelf) draft(kind ledger.Kind, by capabilities.PrincipalID, k outcome.Kept) ledger.Draft {
	return ledger.Draft{Kind: kind, Call: k.Call, Tool: k.Tool, Principal: by, Lane: k.Lane, Node: k.Node, Body: artifactBody{k.ID, k.Size}}
}

// Read records that somebody gets an artifact.
func (s *shelf) Read(ctx context.Context, by capabilities.PrincipalID, k outcome.Kept) error {
	who, now := reader{by, k.ID}, time.Now()
	s.mu.Lock()
	last, known := s.read[who]
	s.mu.Unlock()
	if known && now.Sub(last) < readAgain {
		return nil
	}
	if err := s.g.Ledger.Append(ctx, s.draft(ledger.KindArtifactRead, by, k)); err != nil {
		return capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "The ledger could not record it, so nothing is given out.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.read) >= maxRead {
		clear(s.read)
	}
	s.read[who] = now
	return nil
}

// Remove removes artifacts in the commit that records it.
func (s *shelf) Remove(ctx context.Context, by capabilities.PrincipalID, list []outcome.Kept) error {
	return s.g.Store.Write(ctx, func(tx *store.Tx) error {
		for _, k := range list {
			there, err := s.RemoveIn(tx, k.Call, k.ID)
			if err != nil {
				return err
			}
			if !there {
				continue
			}
			if _, err := s.g.Ledger.AppendIn(tx, s.draft(ledger.KindArtifactRemoved, by, k)); err != nil {
				return err
			}
		}
		return nil
	})
}
