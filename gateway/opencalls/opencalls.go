package opencalls

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"log/slog"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Nodes are the devices that can tell what became of a call; gateway/nodes implements it.
type Nodes interface {
	// Snapshot returns every node of the roster as it stands now.
	Snapshot() []route.Node
	// Ask asks a node's journal what became of calls.
	Ask(ctx context.Context, node capabilities.NodeID, ask *wire.JournalAsk) ([]wire.JournalState, error)
	// Changed is closed at the next change of the snapshot.
	Changed() <-chan struct{}
}

// Options of New, all required but Log.
type Options struct {
	Store    *store.Store
	Ledger   *ledger.Ledger
	Outcomes *outcome.Store
	Nodes    Nodes
	// Reconcile takes a node's late word on a call whose caller has its answer, and the
	// pause after the last time that it could not be recorded.
	Reconcile func(ctx context.Context, c Call, e End, pause time.Duration)
	Log       *slog.Logger // default: discards
}

// Book is the open calls of a gateway. All methods are safe for concurrent use.
type Book struct {
	opts    Options
	open    marked
	settler *settler
}

// New makes a Book; it starts nothing.
func New(o Options) *Book {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Book{opts: o, open: marked{rows: map[capabilities.CallID]*Call{}}, settler: newSettler(o.Nodes, o.Reconcile)}
}

// End is how an ordered call ended: an answer of the node, or an error here.
type End struct {
	Answer wire.Answer
	Blobs  []capabilities.Blob
	// Artifacts are those of the answer, each there or with why not.
	Artifacts []capabilities.Artifact
	Err       *capabilities.Error // set: of Answer only Effect and Evidence count
	// Cut: Err ended it here after its ticket had left, and the node may have run it.
	Cut bool
	// Gone: the node says that it ended well, and its output is no longer there.
	Gone bool
	// Started: the node's journal has it started.
	Started bool
	// LeaveOpen: this process ends before the node told. Nothing is recorded; the next
	// process takes the open call up.
	LeaveOpen bool
}

// Fate is what the end of a call leaves of its request ID.
type Fate int

const (
	// FateEnded: the ID keeps this end.
	FateEnded Fate = iota
	// FateUnknown: nobody knows the end; the node may still tell.
	FateUnknown
	// FateCut: it was ended here after its ticket had left. The ID keeps that, and the node
	// may still tell what became of it.
	FateCut
	// FateFreed: it never started, so the same ID may run.
	FateFreed
)

// OpenIn notes c as open, in the commit of its intent.
func (b *Book) OpenIn(tx *store.Tx, c *Call) error {
	if b.several() {
		return b.insertIn(tx, c)
	}
	if c.Request == "" {
		tx.OnCommit(func() { b.open.add(c) })
		return nil
	}
	return insert(tx, c)
}

// Resume notes that this process has taken up c, which an earlier one left open.
func (b *Book) Resume(c *Call) {
	if c.Request == "" && !b.several() {
		b.open.add(c)
	}
}

// EndIn does for the row of c, which was in state from, what its fate is, in the commit of
// its end.
func (b *Book) EndIn(tx *store.Tx, c *Call, from State, f Fate) error {
	switch f {
	case FateUnknown, FateCut:
		return b.markUnknown(tx, c)
	case FateFreed:
		return b.freeRow(tx, c, from)
	}
	return b.endRow(tx, c, from, time.Now())
}

// Await has the node of c asked what became of it. The channel delivers its end;
// CodeUnknownOutcome when the node did not tell until then; it closes without one at
// Close.
func (b *Book) Await(c Call, until time.Time) <-chan End { return b.settler.add(c, until) }

// Watch has the node of c asked for a late word: its caller has the answer already.
func (b *Book) Watch(c Call) { b.settler.watch(c) }

// Rewatch is Watch for a call whose end could not be recorded; last is the pause after the
// failure before. It returns the pause this time.
func (b *Book) Rewatch(c Call, last time.Duration) time.Duration { return b.settler.rewatch(c, last) }

// Awaits reports whether a node's word on a call may still come.
func (b *Book) Awaits(call capabilities.CallID) bool { return b.settler.awaits(call) }

// Unsettled returns how many calls wait for their node's word.
func (b *Book) Unsettled() int { return b.settler.count() }

// Run asks nodes and moves the mark until ctx ends. Calls that still wait then stay open
// until Close: the next process takes them up.
func (b *Book) Run(ctx context.Context) {
	asked := make(chan struct{})
	go func() { defer close(asked); b.settler.run(ctx) }()
	defer func() { <-asked }()
	tick := time.NewTicker(markEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := b.mark(ctx); err != nil && ctx.Err() == nil {
				b.opts.Log.Warn("opencalls.mark", "err", err)
			}
		}
	}
}

// Close lets go of everyone who waits for a node's word.
func (b *Book) Close() { b.settler.close() }

// NewID makes the ID of a call that came in at now: 26 letters of base32, safe anywhere.
// 48 bits of time, so that calls of one moment lie together in every index, and 80 bits
// that nobody can guess.
func NewID(now time.Time) capabilities.CallID {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(now.UnixMilli())<<16)
	rand.Read(b[6:]) // never fails (crypto/rand)
	return capabilities.CallID("c" + idText.EncodeToString(b[:]))
}

// TimeOf returns the time in a call's ID, to the millisecond.
func TimeOf(id capabilities.CallID) (time.Time, bool) {
	b, err := idText.DecodeString(strings.TrimPrefix(string(id), "c"))
	if err != nil || len(b) != 16 {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b) >> 16)), true
}

// idText sorts as the bytes do (RFC 4648 section 7), in lower case.
var idText = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)
