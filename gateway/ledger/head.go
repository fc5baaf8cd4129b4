package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Run signs the head each second or 1,000 packets, seals segments and prunes what
// is past retention, until ctx ends. It signs once more on the way out.
func (l *Ledger) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	prune := time.NewTicker(time.Hour)
	defer prune.Stop()
	var others <-chan time.Time // nil: nobody else appends
	if l.store.Member() != "" {
		look := time.NewTicker(lookEvery)
		defer look.Stop()
		others = look.C
	}
	for {
		var err error
		select {
		case <-others:
			err = l.look()
		case <-ctx.Done():
			return l.ignoreClosed(l.Sign(context.WithoutCancel(ctx)))
		case <-tick.C:
			err = l.signAndSeal(ctx)
		case <-l.kick:
			err = l.signAndSeal(ctx)
		case <-prune.C:
			if l.retention > 0 {
				_, err = l.Prune(ctx, l.now().Add(-l.retention))
			}
		}
		if err != nil && ctx.Err() == nil {
			// The store ends the process if it must; a full disk passes.
			l.log.Error("ledger.upkeep.failed", "err", err)
		}
	}
}

// lookEvery is how long it may take to see what another gateway appended.
const lookEvery = 200 * time.Millisecond

// look makes the end known that others made.
func (l *Ledger) look() error {
	end, err := l.readTail(l.store.Read())
	if err == nil {
		l.publish(end)
	}
	return err
}

// readSigned takes over a later head that another gateway signed: nodes and readers are never told
// of one before it.
func (l *Ledger) readSigned(ctx context.Context) error {
	if err := l.look(); err != nil {
		return err
	}
	var encoded []byte
	err := l.store.Read().QueryRowContext(ctx, "SELECT head FROM ledger_head WHERE chain = $1", l.chain).Scan(&encoded)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	head, err := chain.DecodeHead(encoded)
	if err != nil || head.Chain != l.chain || head.Verify() != nil {
		return corrupt("the signed head in the store is not valid")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if head.Seq > l.signed.Seq {
		l.signed = head
	}
	return nil
}

func (l *Ledger) ignoreClosed(err error) error {
	if capabilities.CodeOf(err) == capabilities.CodeLedgerUnavailable {
		l.log.Warn("ledger.head.unsigned", "err", err)
		return nil
	}
	return err
}

func (l *Ledger) signAndSeal(ctx context.Context) error {
	if err := l.Sign(ctx); err != nil {
		return err
	}
	return l.seal(ctx)
}

// Sign signs the head as it stands and makes the signature durable.
func (l *Ledger) Sign(ctx context.Context) error {
	l.mu.Lock()
	end, signed := l.committed, l.signed
	l.mu.Unlock()
	if end.seq == signed.Seq {
		return nil
	}
	head := l.signTail(end)
	err := l.store.Write(ctx, func(tx *store.Tx) error {
		if l.Head().Seq >= head.Seq { // another gateway was faster
			return nil
		}
		_, err := tx.Exec("INSERT INTO ledger_head (chain, head) VALUES ($1, $2) ON CONFLICT (chain) DO UPDATE SET head = excluded.head",
			l.chain, head.Encode())
		return err
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if head.Seq > l.signed.Seq {
		l.signed = head
	}
	return nil
}

func (l *Ledger) signTail(end tail) chain.Head {
	return chain.SignHead(l.key, chain.Head{Chain: l.chain, Seq: end.seq, Hash: end.hash, Time: l.now().UnixMilli()})
}

const segmentColumns = "first, last, prev, hash, since, until, key, sig"

func scanSegment(row interface{ Scan(...any) error }) (chain.Segment, error) {
	var s chain.Segment
	var prev, hash, key, sig []byte
	if err := row.Scan(&s.First, &s.Last, &prev, &hash, &s.Since, &s.Until, &key, &sig); err != nil {
		return s, err
	}
	if len(prev) != len(s.Prev) || len(hash) != len(s.Hash) || len(key) != len(s.Key) || len(sig) != len(s.Sig) {
		return s, corrupt("segment %d to %d is not well formed", s.First, s.Last)
	}
	copy(s.Prev[:], prev)
	copy(s.Hash[:], hash)
	copy(s.Key[:], key)
	copy(s.Sig[:], sig)
	return s, nil
}

// seal closes every segment that is full.
func (l *Ledger) seal(ctx context.Context) error {
	for {
		sealed, err := l.sealNext(ctx)
		if err != nil || !sealed {
			return err
		}
	}
}

func (l *Ledger) sealNext(ctx context.Context) (bool, error) {
	db := l.store.Read()
	segment := chain.Segment{First: 1, Prev: chain.Genesis(l.chain)}
	last, err := scanSegment(db.QueryRowContext(ctx, "SELECT "+segmentColumns+" FROM ledger_segment ORDER BY last DESC LIMIT 1"))
	if err == nil {
		segment.First, segment.Prev = last.Last+1, last.Hash
	} else if !errors.Is(err, sql.ErrNoRows) {
		return false, fmt.Errorf("ledger: %w", err)
	}
	segment.Last = segment.First + l.segmentEntries - 1
	if seq, _ := l.Tip(); seq < segment.Last {
		return false, nil
	}
	var hash []byte
	const at = "SELECT time_us, hash FROM packet_store WHERE seq = $1"
	if err := db.QueryRowContext(ctx, at, int64(segment.First)).Scan(&segment.Since, &hash); err != nil {
		return false, fmt.Errorf("ledger: sealing at %d: %w", segment.First, err)
	}
	if err := db.QueryRowContext(ctx, at, int64(segment.Last)).Scan(&segment.Until, &hash); err != nil {
		return false, fmt.Errorf("ledger: sealing at %d: %w", segment.Last, err)
	}
	copy(segment.Hash[:], hash)
	if err := l.grow(ctx, segment.Last); err != nil && !errors.Is(err, errNoTree) {
		return false, err
	}
	segment = chain.SignSegment(l.key, l.chain, segment)
	return true, l.store.Write(ctx, func(tx *store.Tx) error {
		_, err := tx.Exec("INSERT INTO ledger_segment ("+segmentColumns+", pruned) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0) "+
			"ON CONFLICT DO NOTHING",
			int64(segment.First), int64(segment.Last), segment.Prev[:], segment.Hash[:], segment.Since, segment.Until, segment.Key[:],
			segment.Sig[:])
		return err
	})
}

// prunedBody is the body of gateway.ledger.pruned: everything up to Through is
// gone, and the last packet of it had that hash.
type prunedBody struct {
	Through uint64     `json:"through"`
	Hash    chain.Hash `json:"hash"`
	Packets uint64     `json:"packets"`
}

// Prune removes the sealed segments whose newest packet is older than before. A segment's sum stays
// as proof of what stood there, and a packet says that it was removed. It returns the number of
// packets removed.
func (l *Ledger) Prune(ctx context.Context, before time.Time) (uint64, error) {
	var total uint64
	for {
		s, err := scanSegment(l.store.Read().QueryRowContext(ctx,
			"SELECT "+segmentColumns+" FROM ledger_segment WHERE pruned = 0 ORDER BY first LIMIT 1"))
		if errors.Is(err, sql.ErrNoRows) || err == nil && s.Until >= before.UnixMicro() {
			return total, nil
		}
		if err != nil {
			return total, fmt.Errorf("ledger: %w", err)
		}
		// Proofs of later packets need the tree above these.
		if err := l.grow(ctx, s.Last); err != nil && !errors.Is(err, errNoTree) {
			return total, err
		}
		// The sum becomes the only witness: it must be good before it does.
		if err := l.checkSegment(ctx, s); err != nil {
			return total, err
		}
		err = l.store.Write(ctx, func(tx *store.Tx) error {
			n, err := tx.Exec("UPDATE ledger_segment SET pruned = 1 WHERE first = $1 AND pruned = 0", int64(s.First))
			if err != nil || n == 0 {
				return err // somebody else pruned it meanwhile
			}
			if _, err := tx.Exec("DELETE FROM packet_store WHERE seq BETWEEN $1 AND $2", int64(s.First), int64(s.Last)); err != nil {
				return err
			}
			_, err = l.AppendIn(tx, Draft{Kind: KindPruned, Body: prunedBody{s.Last, s.Hash, s.Last - s.First + 1}})
			return err
		})
		if err != nil {
			return total, err
		}
		l.log.Info("ledger.pruned", "first", s.First, "last", s.Last)
		total += s.Last - s.First + 1
	}
}

// checkSegment walks a segment's packets and compares them with its sum.
func (l *Ledger) checkSegment(ctx context.Context, s chain.Segment) error {
	if err := s.Verify(l.chain); err != nil {
		return corrupt("segment %d to %d is not properly signed", s.First, s.Last)
	}
	walk := chain.Walker{Next: s.First, Prev: s.Prev, Time: s.Since}
	err := l.scan(ctx, "WHERE seq BETWEEN $1 AND $2 ORDER BY seq", []any{int64(s.First), int64(s.Last)}, func(p *Packet) error {
		if err := walk.Step(p.Seq, p.Prev, p.TimeUS, chain.Sum(p.appendPreimage(nil))); err != nil {
			return corrupt("%v", err)
		}
		return nil
	})
	if err == nil && (walk.Next != s.Last+1 || walk.Prev != s.Hash) {
		err = corrupt("segment %d to %d does not sum up its packets", s.First, s.Last)
	}
	return err
}

// KeepNodeHead keeps the latest signed head of a node's journal and countersigns
// it. A journal that became shorter or another is
// CodeLedgerCorrupt: that is recorded, and the earlier head stays as the proof.
func (l *Ledger) KeepNodeHead(ctx context.Context, node capabilities.NodeID, head chain.Head) error {
	if head.Chain != string(node) {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "the head is of chain %q, not of node %q", head.Chain, node)
	}
	if err := head.Verify(); err != nil {
		return capabilities.Wrap(capabilities.CodeInvalidRequest, err, "The node's head is not properly signed.")
	}
	had, err := l.nodeHead(l.store.Read(), node)
	if err == nil && had.Seq == head.Seq && had.Hash == head.Hash && had.Key == head.Key {
		return nil // nothing new: not a reason to write
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	seq, _ := l.Tip()
	w := chain.SignWitness(l.key, chain.Witness{Head: head, By: l.chain, At: seq, Time: l.now().UnixMilli()})
	var broken error
	err = l.store.Write(ctx, func(tx *store.Tx) error {
		broken = nil
		had, err := l.nodeHead(tx, node)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if err == nil {
			if broken = had.Follows(head); broken != nil {
				_, err := l.AppendIn(tx, Draft{Kind: KindNodeRegressed, Node: node, Body: packet.NodeRegressed{
					HadSeq: had.Seq, HadHash: had.Hash.String(), Seq: head.Seq, Hash: head.Hash.String(),
				}})
				return err
			}
		}
		_, err = tx.Exec(`INSERT INTO ledger_node_head (node_id, head, by, at_seq, time_ms, key, sig) VALUES ($1, $2, $3, $4, $5, $6, $7)
			ON CONFLICT (node_id) DO UPDATE SET head = excluded.head, by = excluded.by, at_seq = excluded.at_seq,
			time_ms = excluded.time_ms, key = excluded.key, sig = excluded.sig`,
			string(node), head.Encode(), w.By, int64(w.At), w.Time, w.Key[:], w.Sig[:])
		return err
	})
	if err == nil && broken != nil {
		l.log.Error("ledger.node.regressed", "node", node, "err", broken)
		return capabilities.Wrap(capabilities.CodeLedgerCorrupt, broken, "The node's journal is not a continuation of what it was.")
	}
	return err
}

func (l *Ledger) nodeHead(db rower, node capabilities.NodeID) (chain.Head, error) {
	var encoded []byte
	if err := db.QueryRow("SELECT head FROM ledger_node_head WHERE node_id = $1", string(node)).Scan(&encoded); err != nil {
		return chain.Head{}, err
	}
	head, err := chain.DecodeHead(encoded)
	if err != nil {
		return chain.Head{}, corrupt("the kept head of node %q is not valid", node)
	}
	return head, nil
}
