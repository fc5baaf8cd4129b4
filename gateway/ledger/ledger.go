package ledger

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Migrations are the ledger's tables. packet_store keeps its name from S4-32.
var Migrations = []store.Migration{{Room: "ledger", Version: 1, SQL: `
CREATE TABLE packet_store (
	seq       INTEGER PRIMARY KEY,
	time_us   INTEGER NOT NULL,
	kind      TEXT NOT NULL,
	call_id   TEXT NOT NULL,
	tool_id   TEXT NOT NULL,
	principal TEXT NOT NULL,
	lane      TEXT NOT NULL,
	node_id   TEXT NOT NULL,
	body      TEXT NOT NULL,
	prev      BLOB NOT NULL,
	hash      BLOB NOT NULL
);
CREATE INDEX packet_store_call ON packet_store (call_id) WHERE call_id <> '';
CREATE TRIGGER packet_store_immutable BEFORE UPDATE ON packet_store
BEGIN SELECT RAISE(ABORT, 'packets are immutable'); END;
CREATE TABLE ledger_head (
	chain TEXT PRIMARY KEY,
	head  BLOB NOT NULL
);
CREATE TABLE ledger_segment (
	first   INTEGER PRIMARY KEY,
	last    INTEGER NOT NULL UNIQUE,
	prev    BLOB NOT NULL,
	hash    BLOB NOT NULL,
	since   INTEGER NOT NULL,
	until   INTEGER NOT NULL,
	key     BLOB NOT NULL,
	sig     BLOB NOT NULL,
	pruned  INTEGER NOT NULL
);
CREATE TABLE ledger_node_head (
	node_id TEXT PRIMARY KEY,
	head    BLOB NOT NULL,
	by      TEXT NOT NULL,
	at_seq  INTEGER NOT NULL,
	time_ms INTEGER NOT NULL,
	key     BLOB NOT NULL,
	sig     BLOB NOT NULL
);
`, Postgres: packetsOnPostgres}, {Room: "ledger", Version: 2, SQL: `
CREATE INDEX packet_store_parent ON packet_store (` + parentOf + `) WHERE ` + hasParent + `;`},
	{Room: "ledger", Version: 3, SQL: treeTable, Postgres: treeOnPostgres}}

// Options of Open.
type Options struct {
	Store          *store.Store       // required; opened with Migrations
	Chain          string             // required: the gateway's ID, the chain's name
	Key            ed25519.PrivateKey // required: signs heads and segments
	Log            *slog.Logger       // default: discards
	SegmentEntries uint64             // entries per segment; default 4096
	Retention      time.Duration      // Run prunes segments older than this; default 0: keep all
	Now            func() time.Time   // default time.Now
}

// signEvery is the number of entries after which Run signs the head without
// waiting for the second to end.
const signEvery = 1000

// Ledger is the gateway's chain. All methods are safe for concurrent use.
type Ledger struct {
	store          *store.Store
	chain          string
	key            ed25519.PrivateKey
	log            *slog.Logger
	now            func() time.Time
	segmentEntries uint64
	retention      time.Duration
	kick           chan struct{}

	// The writer's: touched only inside transactions.
	tail  tail
	epoch uint64 // tx.Epoch that tail belongs to
	buf   []byte
	args  []any

	mu        sync.Mutex
	committed tail
	signed    chain.Head    // the latest signature, in the store too
	changed   chan struct{} // closed at the next commit; nil if nobody asked

	growing sync.Mutex // one at a time makes the tree grow
}

// tail is where the chain ends.
type tail struct {
	seq  uint64
	time int64
	hash chain.Hash
}

// Open reads where the chain ends and checks that its end still fits the last
// signed head: a ledger that was cut or changed there is CodeLedgerCorrupt.
func Open(ctx context.Context, o Options) (*Ledger, error) {
	if o.Store == nil || o.Chain == "" || len(o.Key) != ed25519.PrivateKeySize {
		return nil, errors.New("ledger: Store, Chain and Key are required")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.SegmentEntries == 0 {
		o.SegmentEntries = 4096
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	l := &Ledger{
		store: o.Store, chain: o.Chain, key: o.Key, log: o.Log, now: o.Now,
		segmentEntries: o.SegmentEntries, retention: o.Retention,
		kick: make(chan struct{}, 1),
	}
	if err := l.load(ctx); err != nil {
		return nil, err
	}
	o.Store.Watch(l.readSigned, "ledger_head")
	return l, nil
}

type rower interface {
	QueryRow(query string, args ...any) *sql.Row
}

func (l *Ledger) readTail(db rower) (tail, error) {
	var t tail
	var hash []byte
	err := db.QueryRow("SELECT seq, time_us, hash FROM packet_store ORDER BY seq DESC LIMIT 1").Scan(&t.seq, &t.time, &hash)
	if errors.Is(err, sql.ErrNoRows) {
		return tail{hash: chain.Genesis(l.chain)}, nil
	}
	copy(t.hash[:], hash)
	return t, err
}

func (l *Ledger) load(ctx context.Context) error {
	db := l.store.Read()
	end, err := l.readTail(db)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	l.committed = end
	var encoded []byte
	switch err := db.QueryRowContext(ctx, "SELECT head FROM ledger_head WHERE chain = $1", l.chain).Scan(&encoded); {
	case errors.Is(err, sql.ErrNoRows):
		l.signed = chain.Head{Chain: l.chain, Hash: chain.Genesis(l.chain)}
	case err != nil:
		return fmt.Errorf("ledger: %w", err)
	default:
		if l.signed, err = chain.DecodeHead(encoded); err != nil || l.signed.Chain != l.chain {
			return corrupt("the signed head in the store is not valid")
		}
	}
	if end.seq < l.signed.Seq {
		return corrupt("the ledger ends at entry %d, before its signed head %d", end.seq, l.signed.Seq)
	}
	return l.checkEnd(ctx)
}

// checkEnd walks from the signed head to the end: what was recorded in the last
// moments before a crash, at most a second of it.
func (l *Ledger) checkEnd(ctx context.Context) error {
	walk := chain.Walker{Next: l.signed.Seq + 1, Prev: l.signed.Hash}
	return l.scan(ctx, "WHERE seq >= $1 ORDER BY seq", []any{int64(l.signed.Seq)}, func(p *Packet) error {
		if got := chain.Sum(p.appendPreimage(nil)); got != p.Hash {
			return corrupt("entry %d was changed", p.Seq)
		}
		if p.Seq == l.signed.Seq {
			if p.Hash != l.signed.Hash {
				return corrupt("entry %d is not the one whose head was signed", p.Seq)
			}
			return nil
		}
		if err := walk.Step(p.Seq, p.Prev, p.TimeUS, p.Hash); err != nil {
			return corrupt("%v", err)
		}
		return nil
	})
}

func corrupt(format string, args ...any) error {
	return capabilities.Errorf(capabilities.CodeLedgerCorrupt, format, args...)
}

// AppendIn puts packets at the end of the chain, as part of tx. They exist once
// the transaction is durable; their sequence numbers and hashes hold only then.
func (l *Ledger) AppendIn(tx *store.Tx, drafts ...Draft) ([]Packet, error) {
	if len(drafts) == 0 {
		return nil, nil
	}
	end := l.tail
	if tx.Epoch() != l.epoch {
		// Something was rolled back, perhaps with our packets in it.
		var err error
		if end, err = l.readTail(tx); err != nil {
			return nil, fmt.Errorf("ledger: %w", err)
		}
	}
	l.epoch = 0 // whatever fails from here on, the tail is read again
	packets := make([]Packet, len(drafts))
	now := max(l.now().UnixMicro(), end.time)
	for i := range drafts {
		d := &drafts[i]
		if err := d.check(); err != nil {
			return nil, err
		}
		body, err := Encode(d.Body)
		if err != nil {
			return nil, err
		}
		p := &packets[i]
		*p = Packet{
			Seq: end.seq + 1, TimeUS: now, Kind: d.Kind, Call: d.Call, Tool: d.Tool,
			Principal: d.Principal, Lane: d.Lane, Node: d.Node, Body: []byte(body), Prev: end.hash,
		}
		l.buf = p.appendPreimage(l.buf[:0])
		p.Hash = chain.Sum(l.buf)
		end = tail{seq: p.Seq, time: now, hash: p.Hash}
	}
	if err := l.insert(tx, packets); err != nil {
		return nil, err
	}
	l.tail, l.epoch = end, tx.Epoch()
	tx.OnCommit(func() { l.publish(end) })
	return packets, nil
}

const (
	columns   = "seq, time_us, kind, call_id, tool_id, principal, lane, node_id, body, prev, hash"
	width     = 11 // columns
	perInsert = 8  // most rows in one statement
)

// inserts holds the statement for each number of rows: one statement for the
// packets of a call costs much less than one each.
var inserts = func() (texts [perInsert + 1]string) {
	for n := 1; n <= perInsert; n++ {
		var b strings.Builder
		b.WriteString("INSERT INTO packet_store (" + columns + ") VALUES ")
		for i := range n {
			for c := range width {
				sep := ", "
				if c == 0 {
					sep = strings.Repeat(", ", min(i, 1)) + "("
				}
				fmt.Fprintf(&b, "%s$%d", sep, i*width+c+1)
			}
			b.WriteByte(')')
		}
		texts[n] = b.String()
	}
	return texts
}()

func (l *Ledger) insert(tx *store.Tx, packets []Packet) error {
	for rows := range slices.Chunk(packets, perInsert) {
		args := l.args[:0]
		// The packets of a call say the same in most columns; the boxed value of
		// the row before is used again instead of making a new one.
		above := func() any {
			if len(args) < width {
				return nil
			}
			return args[len(args)-width]
		}
		text := func(s string) {
			v := above()
			if was, ok := v.(string); !ok || was != s {
				v = s
			}
			args = append(args, v)
		}
		for i := range rows {
			p := &rows[i]
			args = append(args, int64(p.Seq))
			if i > 0 {
				args = append(args, above()) // one time for all
			} else {
				args = append(args, p.TimeUS)
			}
			text(string(p.Kind))
			text(string(p.Call))
			text(string(p.Tool))
			text(string(p.Principal))
			text(string(p.Lane))
			text(string(p.Node))
			args = append(args, string(p.Body))
			if i > 0 {
				args = append(args, args[len(args)-width+1]) // the hash of the row before
			} else {
				args = append(args, p.Prev[:])
			}
			args = append(args, p.Hash[:])
		}
		_, err := tx.Exec(inserts[len(rows)], args...)
		clear(args)
		l.args = args
		if err != nil {
			return fmt.Errorf("ledger: %w", err)
		}
	}
	return nil
}

// Append records packets in a transaction of their own and returns once they
// are durable. Packets that end calls may use the disk reserve.
func (l *Ledger) Append(ctx context.Context, drafts ...Draft) error {
	write := l.store.WriteTerminal
	for i := range drafts {
		body, err := Encode(drafts[i].Body)
		if err != nil {
			return err
		}
		if !drafts[i].Kind.usesReserve() {
			write = l.store.Write
		}
		drafts[i].Body = body
	}
	return write(ctx, func(tx *store.Tx) error {
		_, err := l.AppendIn(tx, drafts...)
		return err
	})
}

// publish makes the new end known; it runs in the writer.
func (l *Ledger) publish(end tail) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if end.seq <= l.committed.seq { // a reader was faster, where others append, too
		return
	}
	l.committed = end
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
	if end.seq-l.signed.Seq >= signEvery {
		select {
		case l.kick <- struct{}{}:
		default: // Run knows already
		}
	}
}

// Tip is the sequence number and hash of the last durable packet.
func (l *Ledger) Tip() (seq uint64, hash chain.Hash) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.committed.seq, l.committed.hash
}

// Head is the latest signed head; at most a second or 1,000 packets behind Tip
// while Run runs.
func (l *Ledger) Head() chain.Head {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.signed
}

// Key is the public key that signs now.
func (l *Ledger) Key() chain.Key { return chain.PublicKey(l.key) }

// Changed returns a channel that is closed when the next packet is durable. Take
// it before reading, so that nothing is missed.
func (l *Ledger) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}
