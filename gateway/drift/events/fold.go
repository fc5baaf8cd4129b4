package events

import (
	"encoding/json"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/drift"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
)

// responses are the kinds of packets that say something here, but for the ends of calls.
var responses = []ledger.Kind{
	ledger.KindDrift, ledger.KindDriftSurfaced, ledger.KindDriftResolved, ledger.KindQuarantined, ledger.KindLifted,
	ledger.KindRestricted, ledger.KindReviewed, ledger.KindRiskCleared,
}

// fold adds what one packet says to the tables, and returns what it changes in memory. A body that
// cannot be read says nothing.
func fold(tx *store.Tx, p *ledger.Packet) (apply func(*state), err error) {
	nothing := func(*state) {}
	at := time.UnixMicro(p.TimeUS).UTC()
	switch p.Kind {
	case ledger.KindDrift:
		var d packet.Drift
		if json.Unmarshal(p.Body, &d) != nil {
			return nothing, nil
		}
		if err := insert(tx, p, 0, &d, p.Call, raises(p, &d)); err != nil {
			return nothing, err
		}
		return weigh(tx, place{p.Tool, p.Node}, raises(p, &d) > 0)
	case ledger.KindDriftSurfaced:
		var s packet.Surfaced
		if json.Unmarshal(p.Body, &s) != nil {
			return nothing, nil
		}
		for i, one := range s.Signals {
			if one.ID == "" || i >= perPacket {
				continue
			}
			what := one.Key
			if what == "" {
				what = one.Control
			}
			d := packet.Drift{
				ID: one.ID, Key: what, Signal: drift.Shown, Severity: one.Severity, Evidence: one.Text + " " + s.Page, Count: 1,
				Response: drift.Recorded,
			}
			if err := insert(tx, p, i, &d, one.Call, 0); err != nil {
				return nothing, err
			}
		}
	case ledger.KindDriftResolved:
		var r packet.DriftResolved
		if json.Unmarshal(p.Body, &r) != nil {
			return nothing, nil
		}
		if _, err := tx.Exec("UPDATE drift_event SET resolved_us = $1, resolved_by = $2, reason = $3 WHERE drift_id = $4 AND resolved_us = 0",
			p.TimeUS, string(p.Principal), r.Reason, r.ID); err != nil {
			return nothing, err
		}
		return weigh(tx, place{p.Tool, p.Node}, false)
	case ledger.KindQuarantined:
		var q packet.DriftQuarantined
		if json.Unmarshal(p.Body, &q) != nil {
			return nothing, nil
		}
		_, err := tx.Exec("INSERT INTO drift_quarantine (runner, at_us, node, class, walls, program, tool, drift_id, lifted_us) VALUES ($1, "+
			"$2, $3, $4, $5, $6, $7, $8, 0) "+
			"ON CONFLICT (runner) DO UPDATE SET at_us = excluded.at_us, tool = excluded.tool, drift_id = excluded.drift_id, lifted_us = 0",
			q.Runner, p.TimeUS, string(p.Node), string(q.Class), q.Walls, q.Program, string(p.Tool), q.ID)
		is := Quarantine{
			Fingerprint: q.Runner, Runner: drift.Runner{Host: p.Node, Class: q.Class, Walls: q.Walls, Program: q.Program}, Since: at, Tool: p.Tool,
			Event: q.ID,
		}
		return func(s *state) { s.quarantined[q.Runner] = is }, err
	case ledger.KindLifted:
		var l packet.DriftLifted
		if json.Unmarshal(p.Body, &l) != nil {
			return nothing, nil
		}
		_, err := tx.Exec("UPDATE drift_quarantine SET lifted_us = $1 WHERE runner = $2", p.TimeUS, l.Runner)
		return func(s *state) { delete(s.quarantined, l.Runner) }, err
	case ledger.KindRestricted:
		var r packet.DriftRestricted
		if json.Unmarshal(p.Body, &r) != nil {
			return nothing, nil
		}
		_, err := tx.Exec("INSERT INTO drift_restricted (tool, at_us, manifest, drift_id) VALUES ($1, $2, $3, $4) ON CONFLICT (tool) DO NOTHING",
			string(p.Tool), p.TimeUS, r.Manifest, r.ID)
		tool := p.Tool
		return func(s *state) {
			if _, has := s.restricted[tool]; !has {
				s.restricted[tool] = Restriction{Tool: tool, Since: at, Manifest: r.Manifest, Event: r.ID}
			}
		}, err
	case ledger.KindReviewed:
		_, err := tx.Exec("DELETE FROM drift_restricted WHERE tool = $1", string(p.Tool))
		tool := p.Tool
		return func(s *state) { delete(s.restricted, tool) }, err
	case ledger.KindRiskCleared:
		if _, err := tx.Exec("UPDATE drift_event SET raises = 0 WHERE tool = $1 AND node = $2 AND raises > 0", string(p.Tool),
			string(p.Node)); err != nil {
			return nothing, err
		}
		return weigh(tx, place{p.Tool, p.Node}, false)
	case ledger.KindCallResult:
		_, err := tx.Exec("UPDATE drift_clean SET calls = calls + 1 WHERE tool = $1 AND node = $2", string(p.Tool), string(p.Node))
		return nothing, err
	}
	return nothing, nil
}

// raises is by how many levels an event raises the risk of its tool on its node (S1-05).
func raises(p *ledger.Packet, d *packet.Drift) int {
	if p.Tool == "" || p.Node == "" || len(d.Among) > 0 { // another tool's call may have done it
		return 0
	}
	switch d.Severity {
	case drift.Violation:
		return 1
	case drift.Critical:
		return 2
	}
	return 0
}

func insert(tx *store.Tx, p *ledger.Packet, at int, d *packet.Drift, call capabilities.CallID, raises int) error {
	_, err := tx.Exec("INSERT INTO drift_event ("+eventColumns+
		") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, 0, '', '') ON CONFLICT DO NOTHING",
		int64(p.Seq)*perPacket+int64(at), d.ID, p.TimeUS, string(call), string(p.Tool), string(p.Principal), string(p.Lane), string(p.Node),
		int(d.Signal), string(d.Severity), d.Key, d.Declared,
		d.Runner, d.Evidence, int64(d.Count), string(d.Response), d.EnvelopeHash, d.Profile, d.Snapshot, raises)
	return err
}

// weigh sums what open events raise the risk by at a place; anew: clean calls count from now.
func weigh(tx *store.Tx, at place, anew bool) (func(*state), error) {
	var levels int
	if err := tx.QueryRow("SELECT COALESCE(SUM(raises), 0) FROM drift_event WHERE tool = $1 AND node = $2 AND raises > 0 AND resolved_us = 0",
		string(at.tool), string(at.node)).Scan(&levels); err != nil {
		return nil, err
	}
	levels = min(levels, MaxRaise)
	var err error
	switch {
	case levels == 0:
		_, err = tx.Exec("DELETE FROM drift_clean WHERE tool = $1 AND node = $2", string(at.tool), string(at.node))
	case anew:
		_, err = tx.Exec("INSERT INTO drift_clean (tool, node, calls) VALUES ($1, $2, 0) ON CONFLICT (tool, node) DO UPDATE SET calls = 0",
			string(at.tool), string(at.node))
	}
	return func(s *state) {
		if levels == 0 {
			delete(s.raised, at)
		} else {
			s.raised[at] = levels
		}
	}, err
}
