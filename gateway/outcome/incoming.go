package outcome

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"os"
	"sync/atomic"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/artifact"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Incoming is an artifact on its way from its node. It goes on where an earlier
// stream, or an earlier process, ended: what is on the disk is checked against the
// manifest again, chunk by chunk. One goroutine at a time.
type Incoming struct {
	in   *Artifacts
	kept Kept
	sum  [32]byte
	name string
	box  *artifact.Box
	file *os.File
	buf  *artifact.Buffer

	manifest artifact.Manifest
	whole    hash.Hash
	next     int // the chunk that is due
	done     bool
	unsynced int           // chunks since the last early sync began
	synced   chan struct{} // closed when it has ended; nil: there was none

	received atomic.Int64 // bytes that are here and checked
}

// Receive prepares for an artifact and takes room for it: what expires first makes
// way. The caller calls Close at the end. CodeArtifactSpace where there is no room.
func (a *Artifacts) Receive(ctx context.Context, k Kept) (*Incoming, error) {
	sum, err := k.ID.Sum()
	if err != nil {
		return nil, err
	}
	in := &Incoming{in: a, kept: k, sum: sum, name: fileOf(k.Call, k.ID)}
	if have, err := a.find(ctx, k.Call, k.ID); err == nil {
		in.done, in.kept = true, have
		in.received.Store(have.Size)
		return in, nil
	}
	if in.box, err = a.box(in.name); err != nil {
		return nil, err
	}
	if err := a.makeRoom(ctx, in.name, artifact.SealedSize(k.Size)); err != nil {
		return nil, err
	}
	if in.file, err = a.root.OpenFile(in.name, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		a.free(in.name)
		return nil, capabilities.Wrap(capabilities.CodeArtifactSpace, err, "")
	}
	in.buf = artifact.NewBuffer()
	return in, nil
}

// makeRoom takes room for a file, or refuses.
func (a *Artifacts) makeRoom(ctx context.Context, name string, need int64) error {
	full := capabilities.Errorf(capabilities.CodeArtifactSpace, "the gateway keeps at most %d MiB of files", a.opts.Quota>>20)
	if need > a.opts.Quota {
		return full
	}
	a.mu.Lock()
	if _, twice := a.incoming[name]; twice {
		a.mu.Unlock()
		return capabilities.Errorf(capabilities.CodeConflict, "this file is on its way already")
	}
	a.incoming[name] = need
	coming := int64(0)
	for _, n := range a.incoming {
		coming += n
	}
	a.mu.Unlock()
	err := error(full)
	if coming <= a.opts.Quota {
		err = a.drop(ctx, func(tx *store.Tx) ([]Kept, error) {
			var used int64
			if err := tx.QueryRow("SELECT COALESCE(SUM(size), 0) FROM artifact").Scan(&used); err != nil {
				return nil, fmt.Errorf("outcome: %w", err)
			}
			if used+coming <= a.opts.Quota {
				return nil, nil
			}
			return victims(tx, "ORDER BY expires_ms LIMIT 1")
		})
	}
	if err != nil {
		a.free(name)
	}
	return err
}

func (a *Artifacts) free(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.incoming, name)
}

// Done reports whether the artifact is there, whole; Kept then is it.
func (in *Incoming) Done() bool { return in.done }

// Kept is the artifact as it is kept; only once Done.
func (in *Incoming) Kept() Kept { return in.kept }

// Received is how many bytes are here and checked. Safe from any goroutine.
func (in *Incoming) Received() int64 { return in.received.Load() }

// Begin takes the manifest and returns the chunk to go on with. A manifest of another size than the
// answer named is refused.
func (in *Incoming) Begin(m artifact.Manifest) (from int, err error) {
	if err := m.Check(); err != nil || m.ID != in.sum || m.Size != in.kept.Size {
		return 0, capabilities.Wrap(capabilities.CodeArtifactUnavailable, errors.Join(err, artifact.ErrWhole),
			"The node offers another file than the one it named.")
	}
	in.manifest, in.whole, in.next = m, sha256.New(), 0
	for ; in.next < artifact.Chunks(m.Size); in.next++ {
		if in.box.ReadChunk(in.file, m.Size, in.next, in.buf) != nil || m.CheckChunk(in.next, in.buf.Plain) != nil {
			break
		}
		in.whole.Write(in.buf.Plain)
	}
	in.received.Store(min(int64(in.next)*artifact.ChunkSize, m.Size))
	if err := in.file.Truncate(artifact.SealedSize(in.received.Load())); err != nil {
		return 0, capabilities.Wrap(capabilities.CodeArtifactSpace, err, "")
	}
	return in.next, nil
}

// Chunk takes the chunk that is due.
func (in *Incoming) Chunk(i int, data []byte) error {
	if i != in.next {
		return capabilities.Wrap(capabilities.CodeArtifactUnavailable, artifact.ErrChunk, "")
	}
	if err := in.manifest.CheckChunk(i, data); err != nil {
		return capabilities.Wrap(capabilities.CodeArtifactUnavailable, err, "The node sent other bytes than it announced.")
	}
	hashed := make(chan struct{})
	go func() { // beside the sealing: it is as much work
		in.whole.Write(data)
		close(hashed)
	}()
	err := in.box.WriteChunk(in.file, i, data, in.buf)
	<-hashed
	if err != nil {
		return capabilities.Wrap(capabilities.CodeArtifactSpace, err, "")
	}
	in.next++
	in.received.Add(int64(len(data)))
	in.syncEarly()
	return nil
}

// earlySync is how many chunks (32 MiB) come before what is there is sent to the disk,
// so that little is left to wait for at the end. Only Finish's own sync counts.
const earlySync = 128

func (in *Incoming) syncEarly() {
	if in.unsynced++; in.unsynced < earlySync {
		return
	}
	if in.synced != nil {
		select {
		case <-in.synced:
		default:
			return // the disk is busy with what came before
		}
	}
	in.unsynced = 0
	done, file := make(chan struct{}), in.file
	in.synced = done
	go func() {
		_ = file.Sync() // an error comes again at the end
		close(done)
	}()
}

// settled waits for an early sync.
func (in *Incoming) settled() {
	if in.synced != nil {
		<-in.synced
	}
}

// Finish makes the artifact durable, if it is what its ID says.
func (in *Incoming) Finish(ctx context.Context) error {
	if in.next != artifact.Chunks(in.manifest.Size) {
		return capabilities.Wrap(capabilities.CodeArtifactUnavailable, artifact.ErrWhole, "")
	}
	if got := in.whole.Sum(nil); [32]byte(got) != in.sum {
		in.discard()
		return capabilities.Wrap(capabilities.CodeArtifactUnavailable, artifact.ErrWhole, "The node sent another file than the one it named.")
	}
	in.settled()
	if err := in.file.Sync(); err != nil {
		return capabilities.Wrap(capabilities.CodeArtifactSpace, err, "")
	}
	if dir, err := in.in.root.Open("."); err == nil {
		_ = dir.Sync() // where folders cannot be synced, the name is the system's own affair
		_ = dir.Close()
	}
	name, err := json.Marshal(sealedName{Name: in.kept.Name, Field: in.kept.Field})
	if err != nil {
		return err
	}
	now := in.in.opts.Now()
	k := &in.kept
	k.Created, k.Expires = now, now.Add(in.in.opts.TTL)
	extended := 0
	if k.Extended {
		k.Expires, extended = now.Add(in.in.opts.Extended), 1
	}
	sealed := in.box.SealHead(name)
	err = in.in.opts.Store.Write(ctx, func(tx *store.Tx) error {
		_, err := tx.Exec(`INSERT INTO artifact (`+artifactColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
			ON CONFLICT (call_id, artifact_id) DO NOTHING`,
			string(k.Call), string(k.ID), string(k.Principal), string(k.Lane), string(k.Node), string(k.Tool), k.MIME, k.Size,
			k.Created.UnixMilli(), k.Expires.UnixMilli(), sealed, extended)
		return err
	})
	if err != nil {
		return capabilities.Wrap(capabilities.CodeArtifactSpace, err, "The gateway could not write the file down.")
	}
	in.done = true
	return nil
}

// Close ends it. A transfer that is not done is given up when abandon is set, and else left for a
// later Receive.
func (in *Incoming) Close(abandon bool) {
	if in.file == nil {
		return
	}
	in.settled()
	if abandon && !in.done {
		in.discard()
	}
	_ = in.file.Close()
	if abandon && !in.done {
		in.in.unlink(in.name)
	}
	in.file = nil
	in.in.free(in.name)
}

// discard empties the file: what is in it is no artifact.
func (in *Incoming) discard() {
	_ = in.file.Truncate(0)
	in.received.Store(0)
}
