package journal

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/platform/boot"
)

// Options of Open.
type Options struct {
	Dir          string             // required: a folder of the journal's own; made if missing
	Chain        string             // required: the node's ID, the chain's name
	Key          ed25519.PrivateKey // required: signs the head; see SetKey
	Log          *slog.Logger       // default: discards
	SegmentBytes int64              // size of a file; default 4 MiB, at least 256 KiB
	Segments     int                // files kept; default 8 (the last 25,000 calls at least), at least 2
	AnswerBytes  int                // recent answers kept in memory; default 64 MiB
	AnswerTTL    time.Duration      // and for how long; default 10 min
	Now          func() time.Time   // default time.Now
	Boot         func() string      // default boot.ID; where it returns "", each start waits for the disk
}

// Kinds of entries and their fields, in order. Fields may be added at the end: a
// reader takes what is there.
const (
	// KindHeld, written by earlier versions: the fields of KindStarted. The ticket waited for
	// the gateway's word; of those that ran, KindStarted follows.
	KindHeld = "call.held"
	// KindWithdrawn, written by earlier versions: call. A held one that never ran.
	KindWithdrawn = "call.withdrawn"
	// KindStarted: call, tool, lane, sequence (uint64 BE), SHA-256 of the envelope,
	// keyed digest of the arguments, principal, the gateway's grant of a person's; of a
	// step the call that took it.
	KindStarted = "call.started"
	// KindFinished: call, status, code, effect, keyed digest of the output.
	KindFinished = "call.finished"
	// KindRefused: call, tool, lane, principal, code. A call that the guard did not let run.
	KindRefused = "call.refused"
	// KindAnswered: call, tool, lane, principal, "approve" or "deny", by, seconds it holds. An
	// answer that a person gave on the device.
	KindAnswered = "owner.answered"
	// KindOwner: address of the owner's rules in force from here on.
	KindOwner = "owner.rules"
	// KindStopped and KindResumed: whose switch, "device" or "gateway".
	KindStopped = "node.stopped"
	KindResumed = "node.resumed"
	// KindGap: no fields. The system or the disk ended without warning, and records that came before
	// it may be lost: those of the last moments.
	KindGap = "node.gap"
)

// farBack is how far the journal must reach back to say of a call it does not
// know that it never started. Gateways ask about nothing older.
const farBack = 7 * 24 * time.Hour

// Journal is an open journal. All methods are safe for concurrent use.
type Journal struct {
	opts  Options
	lock  *flock.Flock  // ends with the process, whatever ends it
	fault chan struct{} // closed when poisoned
	heads heads
	mac   *macKey

	recall recall
	began  time.Time // when this process opened it

	mu      sync.Mutex
	closed  bool
	poison  *capabilities.Error
	file    *os.File
	off     int64
	files   []segment
	tail    position // last record written
	durable position // last record known to be on disk
	buf     []byte
	index   index
	answers answers
	notes   budget
	ruled   string // the owner's rules that the last record of them names
	// unsynced is when the oldest record was written that the disk may not have, µs; 0: it has all.
	unsynced int64

	syncing bool
	batch   *batch     // of those who wait for the next sync
	last    int        // waiters of the last batch
	retired []*os.File // rotated out while a sync ran on them
}

// segment is one file.
type segment struct {
	first uint64
	since int64 // time of its first record, µs; 0: none yet
}

// position is a place in the chain.
type position struct {
	seq  uint64
	time int64
	hash chain.Hash
}

// batch is a group of those who wait that share one sync.
type batch struct {
	waiters int
	lead    chan struct{} // one token: its taker runs the sync
	done    chan struct{}
	err     error
}

func newBatch() *batch {
	return &batch{lead: make(chan struct{}, 1), done: make(chan struct{})}
}

// Open reads the journal in Dir, or begins one, and cuts off a torn tail. Any other entry that does
// not fit is CodeLedgerCorrupt. It starts nothing.
func Open(o Options) (*Journal, error) {
	if o.Dir == "" || o.Chain == "" || len(o.Key) != ed25519.PrivateKeySize {
		return nil, errors.New("journal: Dir, Chain and Key are required")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = 4 << 20
	}
	o.SegmentBytes = max(o.SegmentBytes, 4*spare)
	if o.Segments <= 0 {
		o.Segments = 8
	}
	o.Segments = max(o.Segments, 2) // the new one has to have one to build on
	if o.AnswerBytes <= 0 {
		o.AnswerBytes = 64 << 20
	}
	if o.AnswerTTL <= 0 {
		o.AnswerTTL = 10 * time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Boot == nil {
		o.Boot = boot.ID
	}
	j := &Journal{
		opts: o, fault: make(chan struct{}), batch: newBatch(),
		answers: answers{limit: o.AnswerBytes, ttl: o.AnswerTTL},
	}
	if err := j.open(); err != nil {
		j.release()
		var e *capabilities.Error
		if errors.As(err, &e) {
			return nil, e
		}
		return nil, unavailable(err)
	}
	return j, nil
}

func unavailable(err error) *capabilities.Error {
	return capabilities.Wrap(capabilities.CodeLedgerUnavailable, err,
		"The node's journal could not record the call, so it was not carried out.").
		WithHint("The owner of the device should look at its disk.")
}

func corrupt(format string, args ...any) error {
	return capabilities.Errorf(capabilities.CodeLedgerCorrupt, format, args...)
}

func (j *Journal) open() error {
	if err := os.MkdirAll(j.opts.Dir, 0o700); err != nil {
		return err
	}
	var err error
	j.lock = flock.New(filepath.Join(j.opts.Dir, "lock"))
	switch alone, err := j.lock.TryLock(); {
	case err != nil:
		return err
	case !alone:
		return capabilities.Wrap(capabilities.CodeConflict, nil, "Another node process uses this data directory.").
			WithAction(capabilities.Action{Key: capabilities.ActionChooseData}, "Stop it, or give this one another directory.")
	}
	if j.mac, err = openMACKey(filepath.Join(j.opts.Dir, "digest.key"), j.opts.Now); err != nil {
		return err
	}
	j.heads.load(filepath.Join(j.opts.Dir, "heads.json"), j.opts.Log)
	if err := j.recover(); err != nil {
		return err
	}
	own, ok := j.heads.get(j.opts.Chain)
	if ok && own.Seq > j.tail.seq {
		// Heads are signed for what is on disk only: this is no torn tail.
		return corrupt("the journal ends at entry %d, before its signed head %d", j.tail.seq, own.Seq)
	}
	return j.begin()
}

// recover reads all segments.
func (j *Journal) recover() error {
	firsts, err := segments(j.opts.Dir)
	if err != nil {
		return err
	}
	walk := chain.NewWalker(j.opts.Chain)
	for i, first := range firsts {
		data, err := os.ReadFile(segmentPath(j.opts.Dir, first))
		if err != nil {
			return err
		}
		if i == 0 && first != walk.Next {
			// Older segments were removed: the first entry's Prev is taken as it is.
			walk.Next = first
			if e, _, _, err := nextRecord(data); err == nil {
				walk.Prev = e.Prev
			}
		}
		if first != walk.Next {
			return corrupt("segment %d of the journal begins at entry %d, not %d", i+1, first, walk.Next)
		}
		file := segment{first: first}
		off, err := j.replay(data, &walk, &file)
		j.files = append(j.files, file)
		switch {
		case i == len(firsts)-1:
			return j.resume(first, off, data[off:], err)
		case err != nil:
			return corrupt("entry %d of the journal cannot be read: %v", walk.Next, err)
		}
	}
	j.tail.hash = chain.Genesis(j.opts.Chain)
	j.durable = j.tail
	j.files = []segment{{first: 1}}
	j.file, err = createSegment(j.opts.Dir, 1, j.opts.SegmentBytes)
	return err
}

// replay takes in the records of one segment and returns the offset where they end.
func (j *Journal) replay(data []byte, walk *chain.Walker, file *segment) (off int64, err error) {
	rest := data
	for {
		entry, payload, next, err := nextRecord(rest)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return int64(len(data) - len(rest)), err
		}
		hash := chain.Sum(payload)
		if err := walk.Step(entry.Seq, entry.Prev, entry.Time, hash); err != nil {
			return int64(len(data) - len(rest)), err
		}
		if file.since == 0 {
			file.since = entry.Time
		}
		j.tail = position{seq: entry.Seq, time: entry.Time, hash: hash}
		if entry.Kind == KindOwner && len(entry.Fields) > 0 {
			j.ruled = string(entry.Fields[0])
		} else if len(entry.Fields) > 0 {
			call := capabilities.CallID(entry.Fields[0])
			switch entry.Kind {
			case KindWithdrawn: // written by earlier versions, as is KindHeld
				j.index.set(call, known{state: wire.StateNeverStarted, segment: file.first})
			case KindStarted, KindHeld:
				// If no end follows, it died with its process.
				j.index.set(call, known{state: wire.StateUnknown, segment: file.first})
			case KindFinished:
				j.index.set(call, known{state: wire.StateFinished, segment: file.first, failed: failureOf(entry.Fields)})
			}
		}
		rest = next
	}
}

// failureOf reads a finished record, as Finished writes it.
func failureOf(fields [][]byte) *wire.Answer {
	if len(fields) < 4 {
		return nil
	}
	return failure(capabilities.Status(fields[1]), capabilities.Code(fields[2]), capabilities.Effect(fields[3]))
}

func failure(status capabilities.Status, code capabilities.Code, effect capabilities.Effect) *wire.Answer {
	if status == capabilities.StatusOK {
		return nil
	}
	return &wire.Answer{Status: status, Code: code, Effect: effect}
}

// resume opens the last segment for writing at off. bad says why the rest of it
// is no record, if it is not all zeros.
func (j *Journal) resume(first uint64, off int64, rest []byte, bad error) error {
	f, err := os.OpenFile(segmentPath(j.opts.Dir, first), os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	j.file, j.off = f, off
	if bad != nil {
		if !errors.Is(bad, errTorn) {
			return corrupt("entry %d of the journal cannot be read: %v", j.tail.seq+1, bad)
		}
		j.opts.Log.Warn("journal.torn_tail", "segment", first, "offset", off, "bytes", len(trimZeros(rest)))
	}
	// A torn part becomes zeros again, and a file cut short gets its full size.
	if bad != nil || off+int64(len(rest)) < j.opts.SegmentBytes {
		if err := fillZeros(f, off, max(off+int64(len(rest)), j.opts.SegmentBytes)); err != nil {
			return err
		}
	}
	// The bytes that were read may still be in the kernel's memory only.
	if err := f.Sync(); err != nil {
		j.spoil()
		return err
	}
	if j.tail.seq == 0 {
		// An empty journal, or one whose only segment has no record left.
		j.tail = position{seq: first - 1, hash: chain.Genesis(j.opts.Chain)}
		if first != 1 {
			return corrupt("the journal has lost what came before entry %d", first)
		}
	}
	j.durable = j.tail
	return nil
}

// Started records that a call begins. The record is with the kernel on return, so that no end of
// the process loses it, and on disk with the next sync, at most a second later while Run runs; it
// waits for the disk where nothing tells one run of the system from the next, or syncs do not come.
// A call that the journal knows already is CodeTicketReplayed; a disk that fails is
// CodeLedgerUnavailable.
func (j *Journal) Started(ctx context.Context, t *wire.Ticket) error {
	if err := ctx.Err(); err != nil {
		return capabilities.Wrap(capabilities.CodeCancelled, err, "")
	}
	envelope := sha256.Sum256(t.Envelope)
	args := j.mac.digest(t.Call, "args", t.Args)
	var sequence [8]byte
	binary.BigEndian.PutUint64(sequence[:], t.Sequence)
	principal, grant := policy.PrincipalIn(t.Envelope), grantIn(t.Grants)

	j.mu.Lock()
	if err := j.usableLocked(); err != nil {
		j.mu.Unlock()
		return err
	}
	if _, ok := j.index.get(t.Call); ok {
		j.mu.Unlock()
		return &capabilities.Error{Code: capabilities.CodeTicketReplayed}
	}
	err := j.appendLocked(spare, KindStarted, func(b []byte) []byte {
		b = chain.AppendField(b, t.Call)
		b = chain.AppendField(b, t.Tool)
		b = chain.AppendField(b, t.Lane)
		b = chain.AppendField(b, sequence[:])
		b = chain.AppendField(b, envelope[:])
		b = chain.AppendField(b, args)
		b = chain.AppendField(b, principal)
		b = chain.AppendField(b, grant)
		if t.Parent != "" {
			b = chain.AppendField(b, t.Parent)
		}
		return b
	})
	if err != nil {
		j.mu.Unlock()
		return err
	}
	j.index.set(t.Call, known{state: wire.StateRunning, segment: j.files[len(j.files)-1].first})
	if j.waitsLocked() {
		return j.awaitSync() // unlocks
	}
	j.mu.Unlock()
	return nil
}

// Finished records how a call ended. It is with the kernel on return and on disk
// with the next sync, at most a second later while Run runs. A copy of the answer
// is kept in memory for a while, if it is one that can be sent.
func (j *Journal) Finished(call capabilities.CallID, answer *wire.Answer) error {
	given := answer.Output
	if len(given) == 0 {
		given = answer.OutputSum // of a step
	}
	output := j.mac.digest(call, "output", given)
	frame, _ := wire.Encode(answer)
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, ok := j.index.get(call); !ok {
		return capabilities.Errorf(capabilities.CodeInternal, "the journal has not seen call %q start", call)
	}
	j.answers.add(call, frame, j.opts.Now())
	err := j.usableLocked()
	if err == nil {
		err = j.appendLocked(0, KindFinished, func(b []byte) []byte {
			b = chain.AppendField(b, call)
			b = chain.AppendField(b, answer.Status)
			b = chain.AppendField(b, answer.Code)
			b = chain.AppendField(b, answer.Effect)
			return chain.AppendField(b, output)
		})
	}
	// Even unrecorded it is finished, as long as this process lives.
	j.index.set(call,
		known{state: wire.StateFinished, segment: j.files[len(j.files)-1].first, failed: failure(answer.Status, answer.Code, answer.Effect)})
	return err
}

func (j *Journal) usableLocked() error {
	if j.poison != nil {
		return j.poison
	}
	if j.closed {
		return unavailable(os.ErrClosed)
	}
	return nil
}
