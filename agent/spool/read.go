package spool

import (
	"encoding/json"
	"os"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/artifact"
)

// maxHead bounds a head at rest: its hashes in base64, and what is beside them.
const maxHead = artifact.MaxChunks*32*4/3 + 4096

// Stored is a committed artifact, open for reading. Not safe for concurrent use.
type Stored struct {
	size int64
	file *os.File
	box  *artifact.Box
	buf  *artifact.Buffer // of the chunk that Chunk returned last

	// The next chunk is read and opened while the one before is on its way.
	ahead   *artifact.Buffer
	next    int
	pending chan error // of next; nil: nothing is read ahead
}

// Open opens a call's artifact. CodeArtifactUnavailable if there is none, or not any
// more.
func (s *Spool) Open(call capabilities.CallID, id [32]byte) (artifact.Manifest, *Stored, error) {
	base := nameOf(call, id)
	gone := func(err error) (artifact.Manifest, *Stored, error) {
		return artifact.Manifest{}, nil, capabilities.Wrap(capabilities.CodeArtifactUnavailable, err, "The node does not have the file any more.")
	}
	info, err := s.root.Lstat(base + headSuffix)
	if err != nil {
		return gone(err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxHead {
		return gone(errNotOurs)
	}
	sealed, err := s.root.ReadFile(base + headSuffix)
	if err != nil {
		return gone(err)
	}
	box, err := s.box(call, id)
	if err != nil {
		return artifact.Manifest{}, nil, err
	}
	plain, err := box.OpenHead(sealed)
	if err != nil {
		return gone(err)
	}
	var h stored
	if err := json.Unmarshal(plain, &h); err != nil {
		return gone(err)
	}
	m := artifact.Manifest{ID: id, Size: h.Size, Hashes: h.Hashes}
	if err := m.Check(); err != nil || h.Call != call || h.ID != capabilities.ArtifactIDOf(id) {
		return gone(errNotOurs)
	}
	f, err := s.root.Open(base + bodySuffix)
	if err != nil {
		return gone(err)
	}
	body, err := artifact.NewBox(s.key, "spool|"+h.Box)
	if err != nil {
		_ = f.Close()
		return artifact.Manifest{}, nil, err
	}
	return m, &Stored{size: m.Size, file: f, box: body, buf: artifact.NewBuffer(), ahead: artifact.NewBuffer()}, nil
}

var errNotOurs = capabilities.Errorf(capabilities.CodeInternal, "a file of the spool is not what it was written as")

// Chunk returns chunk i. The bytes are good until the next call.
func (a *Stored) Chunk(i int) ([]byte, error) {
	var err error
	if a.pending != nil && a.next == i {
		err = a.awaitAhead()
		a.buf, a.ahead = a.ahead, a.buf
	} else {
		_ = a.awaitAhead() // what was read ahead is not wanted
		err = a.box.ReadChunk(a.file, a.size, i, a.buf)
	}
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeArtifactUnavailable, err, "A part of the file cannot be read on the node any more.")
	}
	if i+1 < artifact.Chunks(a.size) {
		a.next, a.pending = i+1, make(chan error, 1)
		go func(i int, into *artifact.Buffer, done chan<- error) {
			done <- a.box.ReadChunk(a.file, a.size, i, into)
		}(a.next, a.ahead, a.pending)
	}
	return a.buf.Plain, nil
}

// awaitAhead waits for what is read ahead.
func (a *Stored) awaitAhead() error {
	if a.pending == nil {
		return nil
	}
	err := <-a.pending
	a.pending = nil
	return err
}

// Close closes it.
func (a *Stored) Close() error {
	_ = a.awaitAhead()
	return a.file.Close()
}
