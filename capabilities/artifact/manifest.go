package artifact

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"

	"github.com/handrail-dev/handrail/capabilities"
)

// ChunkSize is how many bytes of an artifact are hashed, sealed, sent and checked at
// once; the last chunk has what is left.
const ChunkSize = 256 << 10

// MaxChunks is how many chunks the largest artifact has.
const MaxChunks = capabilities.MaxArtifact / ChunkSize

// Manifest says what an artifact's bytes are before any of them is seen.
type Manifest struct {
	ID   [32]byte // SHA-256 of all bytes
	Size int64    // 0 to capabilities.MaxArtifact
	// Hashes are the chunks' SHA-256, one after the other.
	Hashes []byte
}

// Chunks is how many chunks an artifact of that size has.
func Chunks(size int64) int { return int((size + ChunkSize - 1) / ChunkSize) }

// ChunkLen is how many bytes chunk i of an artifact of that size has.
func ChunkLen(size int64, i int) int { return int(min(ChunkSize, size-int64(i)*ChunkSize)) }

// Check reports whether size and hashes go together.
func (m *Manifest) Check() error {
	if m.Size < 0 || m.Size > capabilities.MaxArtifact {
		return fmt.Errorf("size must be 0 to %d", capabilities.MaxArtifact)
	}
	if want := Chunks(m.Size) * sha256.Size; len(m.Hashes) != want {
		return fmt.Errorf("hashes must be %d bytes for %d bytes of content", want, m.Size)
	}
	return nil
}

// Hash returns the hash of chunk i.
func (m *Manifest) Hash(i int) [32]byte { return [32]byte(m.Hashes[i*sha256.Size:]) }

// ErrChunk is the error of a chunk that is not the one announced.
var ErrChunk = errors.New("artifact: a chunk is not the one that was announced")

// ErrWhole is the error of an artifact whose hash is not its ID.
var ErrWhole = errors.New("artifact: the whole is not what its ID says")

// CheckChunk refuses data that is not chunk i.
func (m *Manifest) CheckChunk(i int, data []byte) error {
	if i < 0 || i >= Chunks(m.Size) || len(data) != ChunkLen(m.Size, i) || sha256.Sum256(data) != m.Hash(i) {
		return ErrChunk
	}
	return nil
}

// Hasher makes a manifest of bytes that come in whole chunks.
type Hasher struct {
	whole  hash.Hash
	hashes []byte
	size   int64
}

// NewHasher makes a Hasher.
func NewHasher() *Hasher { return &Hasher{whole: sha256.New()} }

// Add takes the next chunk; only the last may be shorter than ChunkSize.
func (h *Hasher) Add(chunk []byte) {
	sum := sha256.Sum256(chunk)
	h.hashes = append(h.hashes, sum[:]...)
	h.whole.Write(chunk)
	h.size += int64(len(chunk))
}

// Manifest returns what was added.
func (h *Hasher) Manifest() Manifest {
	m := Manifest{Size: h.size, Hashes: h.hashes}
	h.whole.Sum(m.ID[:0])
	return m
}
