package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
)

// appendLocked writes one record behind the last. It leaves at least keep bytes
// of the segment free.
func (j *Journal) appendLocked(keep int64, kind string, fields func([]byte) []byte) error {
	now := j.opts.Now().UnixMicro()
	at := max(now, j.tail.time)
	record := append(j.buf[:0], make([]byte, recordHead)...)
	record = fields(chain.AppendEntry(record, j.tail.seq+1, j.tail.hash, at, kind))
	payload := record[recordHead:]
	if len(payload) > maxRecord {
		return capabilities.Errorf(capabilities.CodeInternal, "a journal record of %d bytes", len(payload))
	}
	sealRecord(record)
	if size := int64(len(record)); j.off+size > j.opts.SegmentBytes-spare {
		if err := j.rotateLocked(); err != nil {
			if j.poison != nil {
				return j.poison
			}
			j.opts.Log.Error("journal.rotate.failed", "err", err)
			if j.off+size > j.opts.SegmentBytes-keep {
				return unavailable(err)
			}
		}
	}
	j.buf = wholePages(record, j.off)
	if _, err := j.file.WriteAt(j.buf, j.off); err != nil {
		// Nothing else stands behind it yet: the next record takes its place. But if
		// part of it stays, a reader must not stop at it.
		if clear := fillZeros(j.file, j.off, j.off+int64(len(record))); clear != nil {
			return j.poisonLocked(errors.Join(err, clear))
		}
		return unavailable(err)
	}
	j.off += int64(len(record))
	j.tail = position{seq: j.tail.seq + 1, time: at, hash: chain.Sum(payload)}
	if last := &j.files[len(j.files)-1]; last.since == 0 {
		last.since = at
	}
	if j.unsynced == 0 {
		j.unsynced = now
	}
	return nil
}

// wholePages adds zeros to a record that reaches into a page of the file where nothing
// stands yet, up to that page's end: a page that is written as a whole need not be
// read from the disk first, if the kernel has dropped it since the segment was made.
func wholePages(record []byte, off int64) []byte {
	first, end := int(off%pageSize), int(off%pageSize)+len(record)
	if first != 0 && end <= pageSize {
		return record
	}
	return append(record, zeroBlock[:(pageSize-end%pageSize)%pageSize]...)
}

// rotateLocked begins a new segment. The old one is on disk before the new one
// holds anything, so that only the last segment can have a torn tail.
func (j *Journal) rotateLocked() error {
	if err := syncData(j.file); err != nil {
		return j.poisonLocked(err)
	}
	j.durable, j.unsynced = j.tail, 0
	first := j.tail.seq + 1
	f, err := createSegment(j.opts.Dir, first, j.opts.SegmentBytes)
	if err != nil {
		return err
	}
	if j.syncing {
		j.retired = append(j.retired, j.file)
	} else {
		j.file.Close() // synced: nothing is lost
	}
	j.file, j.off = f, 0
	j.files = append(j.files, segment{first: first})
	for len(j.files) > j.opts.Segments {
		if err := os.Remove(segmentPath(j.opts.Dir, j.files[0].first)); err != nil && !errors.Is(err, os.ErrNotExist) {
			j.opts.Log.Warn("journal.prune.failed", "err", err)
			break
		}
		j.index.prune(j.files[0].first)
		j.files = j.files[1:]
	}
	return nil
}

// awaitSync waits until everything written so far is on disk. One of those who
// wait does the work for all. It is called locked and returns unlocked.
func (j *Journal) awaitSync() error {
	b := j.batch
	b.waiters++
	if j.syncing {
		j.mu.Unlock()
		select {
		case <-b.done:
			return b.err
		case <-b.lead:
		}
	} else {
		j.syncing = true
		j.mu.Unlock()
	}
	return j.sync(b)
}

func (j *Journal) sync(b *batch) error {
	j.mu.Lock()
	if j.last > 1 {
		// The last batch's callers were just woken; let those join this sync.
		j.mu.Unlock()
		runtime.Gosched()
		j.mu.Lock()
	}
	j.batch = newBatch()
	f, upTo, began := j.file, j.tail, j.opts.Now().UnixMicro()
	err := error(nil)
	if j.poison != nil {
		err = j.poison
	}
	j.mu.Unlock()

	if err == nil {
		err = syncData(f)
	}

	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.poison != nil:
		err = j.poison
	case err != nil:
		err = j.poisonLocked(err)
	case upTo.seq > j.durable.seq:
		if j.durable, j.unsynced = upTo, 0; j.tail.seq > upTo.seq {
			j.unsynced = began
		}
	}
	for _, old := range j.retired {
		old.Close() // synced by rotateLocked
	}
	j.retired = nil
	j.last = b.waiters
	b.err = err
	close(b.done)
	if j.batch.waiters > 0 {
		j.batch.lead <- struct{}{}
	} else {
		j.syncing = false
	}
	return err
}

// poisonLocked ends all recording: after a failed sync nobody knows what the disk
// holds.
func (j *Journal) poisonLocked(err error) error {
	if j.poison == nil {
		j.poison = unavailable(err)
		j.opts.Log.Error("journal.poisoned", "err", err)
		j.spoil()
		close(j.fault)
	}
	return j.poison
}

// flush puts what was written without waiting on disk.
func (j *Journal) flush() error {
	j.mu.Lock()
	if err := j.usableLocked(); err != nil || j.durable.seq == j.tail.seq {
		j.mu.Unlock()
		return err
	}
	return j.awaitSync()
}

// Run syncs and signs the head each second while there is something new, and
// drops old answers, until ctx ends. It returns an error if the journal is
// poisoned: the process should end.
func (j *Journal) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return j.tick()
		case <-j.fault:
			j.mu.Lock()
			defer j.mu.Unlock()
			return j.poison
		case <-tick.C:
			if err := j.tick(); err != nil {
				return err
			}
		}
	}
}

func (j *Journal) tick() error {
	if err := j.flush(); err != nil {
		if errors.Is(err, os.ErrClosed) {
			return nil
		}
		return err
	}
	j.mu.Lock()
	j.answers.drop(j.opts.Now())
	durable, key := j.durable, j.opts.Key
	j.mu.Unlock()
	if own, _ := j.heads.get(j.opts.Chain); own.Seq != durable.seq || own.Key != chain.PublicKey(key) {
		j.heads.put(chain.SignHead(key, chain.Head{
			Chain: j.opts.Chain, Seq: durable.seq, Hash: durable.hash, Time: j.opts.Now().UnixMilli(),
		}))
	}
	if err := j.heads.save(); err != nil {
		j.opts.Log.Warn("journal.heads.unsaved", "err", err)
	}
	if err := j.mac.rotate(); err != nil {
		j.opts.Log.Warn("journal.digest_key.kept", "err", err)
	}
	return nil
}

// Close puts everything on disk, notes that it has done so, and closes the files. Idempotent.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}
	j.closed = true
	poison := j.poison
	var err error
	if poison == nil {
		if err = j.awaitSync(); err == nil { // after everybody who waits already
			j.settled()
		}
	} else {
		j.mu.Unlock()
	}
	return errors.Join(err, j.release())
}

func (j *Journal) release() error {
	var errs []error
	if j.file != nil {
		errs = append(errs, j.file.Close())
	}
	if j.lock != nil {
		errs = append(errs, j.lock.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}
