package wire

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"testing"

	"github.com/handrail-dev/handrail/capabilities/artifact"
)

// artifactStream is what a node sends for content.
func artifactStream(t testing.TB, content []byte) []byte {
	h := artifact.NewHasher()
	var chunks bytes.Buffer
	for rest := content; len(rest) > 0; {
		n := min(len(rest), artifact.ChunkSize)
		h.Add(rest[:n])
		if err := WriteChunk(&chunks, rest[:n]); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	m := h.Manifest()
	head, err := Encode(&Artifact{Size: uint64(m.Size), Hashes: m.Hashes})
	if err != nil {
		t.Fatal(err)
	}
	return append(head, chunks.Bytes()...)
}

// receive reads an artifact stream as the gateway does.
func receive(stream []byte, id [32]byte) ([]byte, error) {
	r := NewReader(bytes.NewReader(stream), KindArtifact)
	head, err := r.Next()
	if err != nil {
		return nil, err
	}
	m := head.(*Artifact).Manifest(id)
	buf := make([]byte, artifact.ChunkSize)
	var out []byte
	for i := range artifact.Chunks(m.Size) {
		n, err := r.Chunk(buf[:artifact.ChunkLen(m.Size, i)])
		if err != nil {
			return nil, err
		}
		if err := m.CheckChunk(i, buf[:n]); err != nil {
			return nil, err
		}
		out = append(out, buf[:n]...)
	}
	if sha256.Sum256(out) != id {
		return nil, artifact.ErrWhole
	}
	return out, nil
}

func TestArtifactStream(t *testing.T) {
	for _, size := range []int{0, 1, artifact.ChunkSize, artifact.ChunkSize + 1, 3*artifact.ChunkSize - 1} {
		content := bytes.Repeat([]byte{7, 8, 9}, size/3+1)[:size]
		stream := artifactStream(t, content)
		got, err := receive(stream, sha256.Sum256(content))
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d bytes: %d, %v", size, len(got), err)
		}
		if size > 0 {
			if _, err := receive(stream[:len(stream)-1], sha256.Sum256(content)); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%d bytes, cut off: %v", size, err)
			}
		}
	}
	if err := WriteChunk(io.Discard, nil); err == nil {
		t.Error("an empty chunk was written")
	}
	if err := WriteChunk(io.Discard, make([]byte, MaxChunk+1)); err == nil {
		t.Error("a chunk that is too large was written")
	}
}

// FuzzArtifactStream: whatever a node sends, what is taken is what the ID names.
func FuzzArtifactStream(f *testing.F) {
	content := []byte("what the camera saw")
	good := artifactStream(f, content)
	id := sha256.Sum256(content)
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(artifactStream(f, []byte("what the camera saw!")))
	f.Add(artifactStream(f, nil))
	f.Add(append(bytes.Clone(good), good...))
	f.Fuzz(func(t *testing.T, stream []byte) {
		got, err := receive(stream, id)
		if err != nil && got != nil {
			t.Fatalf("bytes came with %v", err)
		}
		if err == nil && !bytes.Equal(got, content) {
			t.Fatalf("%q was taken for %x", got, id)
		}
	})
}
