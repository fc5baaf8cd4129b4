package ledger

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
)

// The export is text, one JSON object per line, exactly as appendLine writes it:
//
//	header    format, chain, keys that signed anything below
//	segment*  the sums of pruned segments, oldest first
//	packet*   every packet that is kept, in order
//	witness*  the nodes' heads, countersigned
//	head      the end of the chain, signed at the export
//	end       number of lines before it, and the SHA-256 of them, signed
//
// Everything that a reader needs to check it is inside, except the answer to
// whose keys these are: that is what pins are for.
const exportFormat = "handrail-ledger/1"

type (
	headerLine struct {
		Type   string      `json:"type"` // "header"
		Format string      `json:"format"`
		Chain  string      `json:"chain"`
		Keys   []chain.Key `json:"keys"`
	}
	segmentLine struct {
		Type string `json:"type"` // "segment"
		chain.Segment
	}
	packetLine struct {
		Type string `json:"type"` // "packet"
		Packet
	}
	witnessLine struct {
		Type string `json:"type"` // "witness"
		chain.Witness
	}
	headLine struct {
		Type string `json:"type"` // "head"
		chain.Head
	}
	endLine struct {
		Type   string     `json:"type"` // "end"
		Lines  uint64     `json:"lines"`
		Digest chain.Hash `json:"sha256"`
		Sig    chain.Sig  `json:"sig"` // by the key of the head
	}
)

// endText is what the end line's signature covers.
func endText(name string, lines uint64, digest chain.Hash) []byte {
	b := chain.AppendField(nil, "handrail/export/1")
	b = chain.AppendField(b, name)
	b = chain.AppendField(b, fmt.Sprint(lines))
	return chain.AppendField(b, digest[:])
}

// exporter writes lines and sums them up.
type exporter struct {
	w     *bufio.Writer
	sum   hash.Hash
	lines uint64
	buf   bytes.Buffer
}

func newExporter(w io.Writer) *exporter {
	return &exporter{w: bufio.NewWriterSize(w, 64<<10), sum: sha256.New()}
}

func (e *exporter) line(v any) error {
	e.buf.Reset()
	if err := appendLine(&e.buf, v); err != nil {
		return err
	}
	e.lines++
	e.sum.Write(e.buf.Bytes())
	_, err := e.w.Write(e.buf.Bytes())
	return err
}

// Export writes the whole ledger as it stands at one moment.
func (l *Ledger) Export(ctx context.Context, w io.Writer) error {
	// Before the transaction: what is not in it is younger than its head says.
	taken := l.now()
	// One read transaction: what is written meanwhile is not in it.
	tx, err := l.store.Read().BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	defer tx.Rollback() // nothing to keep
	e := newExporter(w)
	if err := l.export(ctx, tx, e, taken); err != nil {
		return fmt.Errorf("ledger: export: %w", err)
	}
	return e.w.Flush()
}

func (l *Ledger) export(ctx context.Context, tx *sql.Tx, e *exporter, taken time.Time) error {
	keys, err := exportKeys(ctx, tx, l.Key())
	if err != nil {
		return err
	}
	if err := e.line(headerLine{"header", exportFormat, l.chain, keys}); err != nil {
		return err
	}
	err = each(ctx, tx, "SELECT "+segmentColumns+" FROM ledger_segment WHERE pruned = 1 ORDER BY first", func(rows *sql.Rows) error {
		s, err := scanSegment(rows)
		if err != nil {
			return err
		}
		return e.line(segmentLine{"segment", s})
	})
	if err != nil {
		return err
	}
	end := tail{hash: chain.Genesis(l.chain)}
	err = each(ctx, tx, "SELECT "+columns+" FROM packet_store ORDER BY seq", func(rows *sql.Rows) error {
		var p Packet
		if err := scanPacket(rows, &p); err != nil {
			return err
		}
		end = tail{seq: p.Seq, hash: p.Hash}
		return e.line(packetLine{"packet", p})
	})
	if err != nil {
		return err
	}
	err = each(ctx, tx, "SELECT head, by, at_seq, time_ms, key, sig FROM ledger_node_head ORDER BY node_id", func(rows *sql.Rows) error {
		var w chain.Witness
		var head, key, sig []byte
		if err := rows.Scan(&head, &w.By, &w.At, &w.Time, &key, &sig); err != nil {
			return err
		}
		if w.Head, err = chain.DecodeHead(head); err != nil {
			return err
		}
		copy(w.Key[:], key)
		copy(w.Sig[:], sig)
		return e.line(witnessLine{"witness", w})
	})
	if err != nil {
		return err
	}
	if err := e.line(headLine{
		"head", chain.SignHead(l.key, chain.Head{Chain: l.chain, Seq: end.seq, Hash: end.hash, Time: taken.UnixMilli()}),
	}); err != nil {
		return err
	}
	return l.end(e)
}

// end writes the end line.
func (l *Ledger) end(e *exporter) error {
	last := endLine{Type: "end", Lines: e.lines, Digest: chain.Hash(e.sum.Sum(nil))}
	last.Sig = chain.Sig(ed25519.Sign(l.key, endText(l.chain, last.Lines, last.Digest)))
	return e.line(last)
}

// exportKeys returns every key of ours that signed something exported, the present
// one first.
func exportKeys(ctx context.Context, tx *sql.Tx, present chain.Key) ([]chain.Key, error) {
	keys := []chain.Key{present}
	const all = "SELECT key FROM ledger_segment WHERE pruned = 1 UNION SELECT key FROM ledger_node_head ORDER BY 1"
	err := each(ctx, tx, all, func(rows *sql.Rows) error {
		var b []byte
		if err := rows.Scan(&b); err != nil {
			return err
		}
		if len(b) != len(present) {
			return corrupt("a key is not well formed")
		}
		if k := chain.Key(b); k != present {
			keys = append(keys, k)
		}
		return nil
	})
	return keys, err
}

func each(ctx context.Context, tx *sql.Tx, query string, f func(*sql.Rows) error) error {
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Report says what Verify read and found good.
type Report struct {
	Chain    string                `json:"chain"`
	First    uint64                `json:"first"`   // of the packets present; 0 if there are none
	Last     uint64                `json:"last"`    // the chain's end
	Packets  uint64                `json:"packets"` // present
	Pruned   uint64                `json:"pruned"`  // gone, with proof
	Segments int                   `json:"pruned_segments"`
	Kinds    map[Kind]uint64       `json:"kinds"`
	Nodes    []capabilities.NodeID `json:"nodes"` // whose heads are countersigned
	Head     chain.Head            `json:"head"`
	Pinned   bool                  `json:"pinned"` // the head's key is one of the pinned keys
	// Heads is how many of the given heads are in the chain. HeadsPruned is how
	// many fall among pruned packets, where nobody can tell any more.
	Heads       int `json:"heads_checked"`
	HeadsPruned int `json:"heads_pruned"`
}

// Verify exports the ledger to the verifier, and nowhere else.
func (l *Ledger) Verify(ctx context.Context, pins Pins) (Report, error) {
	return l.Judged(ctx, func(r io.Reader) (Report, error) { return Verify(r, pins) })
}

// Judged is Verify with a verifier of the caller's.
func (l *Ledger) Judged(ctx context.Context, judge func(io.Reader) (Report, error)) (Report, error) {
	out, in := io.Pipe()
	exported := make(chan error, 1)
	go func() {
		err := l.Export(ctx, in)
		_ = in.CloseWithError(err)
		exported <- err
	}()
	report, err := judge(out)
	_ = out.CloseWithError(errors.New("the verifier ended"))
	if exportErr := <-exported; err == nil && exportErr != nil {
		err = exportErr
	}
	return report, err
}
