package rest

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/pairing"
)

// NodeLogs reads a node's own log as 'handrail node log --out' writes it, and returns the key that
// signed it. The format is the edge's; who puts the gateway together knows it.
type NodeLogs func(io.Reader) (ledger.NodeLog, chain.Key, error)

// oneLook lets one verification run at a time: it reads the whole ledger.
func (s *Server) oneLook(ctx context.Context, look func(export io.Reader) error) error {
	select {
	case s.looking <- struct{}{}:
		defer func() { <-s.looking }()
	default:
		return capabilities.Errorf(capabilities.CodeOverloaded, "the ledger is being verified already").WithHint("Wait for it to end.")
	}
	out, in := io.Pipe()
	exported := make(chan error, 1)
	go func() {
		err := s.opts.Ledger.Export(ctx, in)
		_ = in.CloseWithError(err)
		exported <- err
	}()
	err := look(out)
	_ = out.CloseWithError(errors.New("the verifier ended"))
	if exportErr := <-exported; err == nil && exportErr != nil {
		return exportErr
	}
	return err
}

// pins are this gateway's own key: what its store holds must be signed with it.
func (s *Server) pins() ledger.Pins { return ledger.Pins{Keys: []chain.Key{s.opts.Ledger.Key()}} }

// verify checks the whole ledger as an offline verifier would.
func (s *Server) verify(c *visit, _ none) (report ledger.Report, err error) {
	err = s.oneLook(c.r.Context(), func(export io.Reader) error {
		report, err = ledger.Verify(export, s.pins())
		return err
	})
	return report, err
}

// compare holds the ledger against a node's own log.
func (s *Server) compare(c *visit, in api.CompareLedger) (out ledger.Comparison, err error) {
	if s.opts.NodeLogs == nil {
		return out, capabilities.Errorf(capabilities.CodeNotSupported, "this gateway reads no logs of nodes").
			WithAction(capabilities.Action{Key: capabilities.ActionCompareLedger}, "Compare it with the ledger instead.")
	}
	log, key, err := s.opts.NodeLogs(strings.NewReader(in.Log))
	if err != nil {
		return out, err
	}
	node, err := s.opts.Roster.View(log.Node)
	if err != nil {
		return out, err
	}
	if pairing.Fingerprint(key[:]) != node.Fingerprint {
		return out, capabilities.Errorf(capabilities.CodeLedgerCorrupt, "the log is not signed with the key of node %s", log.Node)
	}
	err = s.oneLook(c.r.Context(), func(export io.Reader) error {
		out, err = ledger.Compare(export, s.pins(), log)
		return err
	})
	return out, err
}
