package gateway

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/backup"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/generation"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/pairing"
)

// Restored makes what a backup held, unpacked in dir, the latest copy of its site: it brings the
// store up to date, raises the generation, ends the grants of before and writes that down. It
// returns the generation.
func Restored(ctx context.Context, dir string, m backup.Manifest, log *slog.Logger) (raised uint64, err error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	g := &Gateway{opts: Options{Dir: dir, Log: log}, log: log}
	defer func() {
		if g.Store != nil {
			err = errors.Join(err, g.Store.Close())
		}
	}()
	if _, _, err := g.openStore(ctx); err != nil {
		return 0, err
	}
	if g.site.ID() != m.Site {
		return 0, capabilities.Errorf(capabilities.CodeBackupDamaged, "The backup says that it is of another site than its key.")
	}
	now := time.Now()
	err = g.Store.Write(ctx, func(tx *store.Tx) (err error) {
		if raised, err = generation.RaiseIn(tx, now); err != nil {
			return err
		}
		// A person allowed those then, for minutes or for a call.
		if err := consent.EndAllIn(tx); err != nil {
			return err
		}
		return g.recordBy(tx, "gateway.site.restored", principal.Site.Principal, packet.SiteRestored{
			Generation: raised, MadeAt: m.MadeAt, Version: m.Version,
		})
	})
	if err != nil {
		return 0, err
	}
	// The head is signed as at the end of a run, so that the first start finds it.
	return raised, g.Ledger.Sign(ctx)
}

// SchemaKnown returns an error if a backup's store has steps that this program does not know.
func SchemaKnown(a *backup.Archive) error { return a.Newer(Migrations()) }

// superseded is what ends a gateway that is not the latest copy of its site any more.
type superseded struct {
	node  capabilities.NodeID
	later pairing.Mark
}

// onSuperseded is told by the node plane.
func (g *Gateway) onSuperseded(node capabilities.NodeID, later pairing.Mark) {
	select {
	case g.later <- superseded{node, later}:
	default: // one such word is enough
	}
}

// heedSuperseded waits until a node proves that a later copy of the site was restored. It writes
// that down, so that this one does not start again, and ends the gateway.
func (g *Gateway) heedSuperseded(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case s := <-g.later:
		now := time.Now()
		err := g.Store.Write(context.WithoutCancel(ctx), func(tx *store.Tx) error {
			if err := generation.HeardIn(tx, s.node, s.later, now); err != nil {
				return err
			}
			_, err := g.Ledger.AppendIn(tx, ledger.Draft{Kind: "gateway.site.superseded", Node: s.node, Body: packet.SiteSuperseded{
				Generation: g.generation.Generation, Later: s.later.Generation,
			}})
			return err
		})
		told := generation.State{Generation: g.generation.Generation, Later: s.later.Generation, ToldBy: s.node, At: now}.Superseded()
		g.log.Error("gateway.superseded", "generation", g.generation.Generation, "later", s.later.Generation, "node", s.node,
			"hint", "a later copy of this site was restored elsewhere: this gateway ends", "not_kept", err)
		return told
	}
}
