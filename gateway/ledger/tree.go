package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/gateway/ledger/tree"
	"github.com/handrail-dev/handrail/gateway/store"
)

// treeTable keeps the nodes of the Merkle tree over the packets that package tree says. A packet
// may be pruned once the node above it is kept.
const treeTable = `
CREATE TABLE ledger_tree (
	level  INTEGER NOT NULL,
	number INTEGER NOT NULL,
	hash   BLOB NOT NULL,
	PRIMARY KEY (level, number)
) WITHOUT ROWID;`

const treeOnPostgres = `
CREATE TABLE ledger_tree (
	level  BIGINT NOT NULL,
	number BIGINT NOT NULL,
	hash   BYTEA NOT NULL,
	PRIMARY KEY (level, number)
);`

// growAtOnce is how many nodes one commit keeps.
const growAtOnce = 256

// errNoTree says that packets were pruned before their nodes were kept.
var errNoTree = capabilities.Errorf(capabilities.CodeNotSupported,
	"packets were pruned before the ledger kept a tree of them, so there are no checkpoints").
	WithHint("An export still verifies.")

// Checkpoint is the whole ledger as it stands, signed for anybody to keep: another that is made
// later must continue it.
type Checkpoint struct {
	tree.Checkpoint
	Text string // the signed note (C2SP tlog-checkpoint)
	Key  string // whose key it is signed with, as witnesses take it
	// Consistency says that the checkpoint begins with all of an earlier one (RFC 6962 section
	// 2.1.2); nil if none was named.
	Consistency []tlog.Hash
}

// Checkpoint makes one. With since it proves that an earlier one of that many packets is its
// beginning; 0 names none. CodeInvalidRequest: there are fewer packets.
func (l *Ledger) Checkpoint(ctx context.Context, since uint64) (Checkpoint, error) {
	end, _ := l.Tip()
	if since > end {
		return Checkpoint{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "the ledger has %d packets, fewer than %d", end, since)
	}
	if err := l.grow(ctx, end); err != nil {
		return Checkpoint{}, err
	}
	return l.checkpoint(ctx, end, since)
}

func (l *Ledger) checkpoint(ctx context.Context, size, since uint64) (Checkpoint, error) {
	kept := l.kept(ctx)
	root, err := tlog.TreeHash(int64(size), kept)
	if err != nil {
		return Checkpoint{}, err
	}
	c := Checkpoint{Checkpoint: tree.Checkpoint{Chain: l.chain, Size: size, Root: root}, Key: tree.KeyOf(l.chain, l.Key())}
	if c.Text, err = c.Sign(l.key); err != nil {
		return c, fmt.Errorf("ledger: %w", err)
	}
	if since > 0 {
		if c.Consistency, err = tlog.ProveTree(int64(size), int64(since), kept); err != nil {
			return c, err
		}
	}
	return c, nil
}

// Prove returns the proof that a packet is in the ledger as it stands. CodeNotFound: there is no
// such packet, or it was pruned.
func (l *Ledger) Prove(ctx context.Context, seq uint64) (*tree.Proof, error) {
	end, _ := l.Tip()
	var found *Packet
	err := l.scan(ctx, "WHERE seq = $1", []any{int64(seq)}, func(p *Packet) error {
		found = new(*p)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if found == nil || seq > end {
		return nil, capabilities.Errorf(capabilities.CodeNotFound, "the ledger has no packet %d", seq).
			WithHint("It has not been recorded, or it was pruned.")
	}
	if err := l.grow(ctx, end); err != nil {
		return nil, err
	}
	c, err := l.checkpoint(ctx, end, 0)
	if err != nil {
		return nil, err
	}
	hashes, err := tlog.ProveRecord(int64(end), int64(seq-1), l.kept(ctx))
	if err != nil {
		return nil, err
	}
	var line bytes.Buffer
	if err := appendLine(&line, found); err != nil {
		return nil, err
	}
	return &tree.Proof{Packet: bytes.TrimSpace(line.Bytes()), Index: seq - 1, Hashes: hashes, Checkpoint: c.Text}, nil
}

// VerifyProof judges the text of a proof by nothing but itself and the keys. It returns the packet,
// and the checkpoint that it is in. CodeLedgerCorrupt: it proves nothing.
func VerifyProof(text string, keys ...chain.Key) (*Packet, tree.Checkpoint, error) {
	proof, err := tree.ReadProof(text)
	if err != nil {
		return nil, tree.Checkpoint{}, corrupt("%v", err)
	}
	var p Packet
	if err := json.Unmarshal(proof.Packet, &p); err != nil {
		return nil, tree.Checkpoint{}, corrupt("the proof's packet: %v", err)
	}
	if p.Seq != proof.Index+1 || chain.Sum(p.appendPreimage(nil)) != p.Hash {
		return nil, tree.Checkpoint{}, corrupt("the proof's packet is not the one that it says")
	}
	c, err := proof.Judge(p.Hash, keys...)
	if err != nil {
		return nil, c, corrupt("%v", err)
	}
	return &p, c, nil
}

// kept reads the tree's nodes from the store.
func (l *Ledger) kept(ctx context.Context) tree.Kept {
	return func(level int, first, n int64) ([]tlog.Hash, error) {
		if level == 0 {
			return l.hashes(ctx, "SELECT hash FROM packet_store WHERE seq BETWEEN $1 AND $2 ORDER BY seq", n,
				func(h tlog.Hash) tlog.Hash { return tree.Leaf(chain.Hash(h)) }, first+1, first+n)
		}
		return l.hashes(ctx, "SELECT hash FROM ledger_tree WHERE level = $1 AND number BETWEEN $2 AND $3 ORDER BY number", n,
			func(h tlog.Hash) tlog.Hash { return h }, int64(level), first, first+n-1)
	}
}

// hashes reads n hashes, or says that the packets are gone.
func (l *Ledger) hashes(ctx context.Context, query string, n int64, as func(tlog.Hash) tlog.Hash, args ...any) ([]tlog.Hash, error) {
	rows, err := l.store.Read().QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	defer rows.Close()
	all := make([]tlog.Hash, 0, n)
	for rows.Next() {
		var b []byte
		if err := rows.Scan(&b); err != nil {
			return nil, fmt.Errorf("ledger: %w", err)
		}
		if len(b) != tlog.HashSize {
			return nil, corrupt("a hash of the tree is not well formed")
		}
		all = append(all, as(tlog.Hash(b)))
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	if int64(len(all)) != n {
		return nil, errNoTree
	}
	return all, nil
}

// grow keeps every node above the first packets that is whole and not kept yet.
func (l *Ledger) grow(ctx context.Context, packets uint64) error {
	l.growing.Lock()
	defer l.growing.Unlock()
	kept := l.kept(ctx)
	below := int64(packets)
	for level := 1; below/tree.Wide > 0; level++ {
		var next int64
		if err := l.store.Read().QueryRowContext(ctx, "SELECT COALESCE(MAX(number) + 1, 0) FROM ledger_tree WHERE level = $1", int64(level)).
			Scan(&next); err != nil {
			return fmt.Errorf("ledger: %w", err)
		}
		whole := below / tree.Wide
		for next < whole {
			n := min(growAtOnce, whole-next)
			made := make([]tlog.Hash, n)
			for i := range made {
				hashes, err := kept(level-1, (next+int64(i))*tree.Wide, tree.Wide)
				if err != nil {
					return err
				}
				made[i] = tree.Fold(hashes)
			}
			if err := l.keepNodes(ctx, level, next, made); err != nil {
				return err
			}
			next += n
		}
		below = whole
	}
	return nil
}

func (l *Ledger) keepNodes(ctx context.Context, level int, first int64, nodes []tlog.Hash) error {
	return l.store.Write(ctx, func(tx *store.Tx) error {
		for i := range nodes {
			// Another gateway of the site may have kept it: it made the same one.
			if _, err := tx.Exec("INSERT INTO ledger_tree (level, number, hash) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
				int64(level), first+int64(i), nodes[i][:]); err != nil {
				return err
			}
		}
		return nil
	})
}
