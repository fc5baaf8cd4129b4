package wire

import (
	"errors"
	"fmt"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/artifact"
)

// ArtifactHead names an artifact in the answer of the call that made it.
type ArtifactHead struct {
	ID    [32]byte `cbor:"1,keyasint"` // SHA-256 of its bytes
	Name  string   `cbor:"2,keyasint"`
	MIME  string   `cbor:"3,keyasint"`
	Size  uint64   `cbor:"4,keyasint"`
	Field string   `cbor:"5,keyasint,omitempty"` // the result field it stands for
}

// ArtifactAsk opens an artifact stream. The gateway asks only for what an answer of
// this node named. Drop says that it is wanted no more: the stream then ends.
type ArtifactAsk struct {
	Call capabilities.CallID `cbor:"1,keyasint"`
	ID   [32]byte            `cbor:"2,keyasint"`
	Drop bool                `cbor:"3,keyasint,omitempty"`
}

// Artifact is the manifest, which comes before any byte: or the code that says why
// there is none, and then nothing follows.
type Artifact struct {
	Size   uint64            `cbor:"1,keyasint"`
	Hashes []byte            `cbor:"2,keyasint,omitempty"` // SHA-256 of each chunk of artifact.ChunkSize
	Code   capabilities.Code `cbor:"3,keyasint,omitempty"`
}

// ArtifactFrom says which chunk the gateway wants first: those before it are there
// from an earlier stream, and were checked against this manifest.
type ArtifactFrom struct {
	Chunk uint32 `cbor:"1,keyasint"` // 0 to the number of chunks
}

// ArtifactDone is the gateway's last word on the stream: it has the whole, verified
// and durable, and the node may forget it.
type ArtifactDone struct{}

// Kind is KindArtifactAsk.
func (*ArtifactAsk) Kind() Kind { return KindArtifactAsk }

// Kind is KindArtifact.
func (*Artifact) Kind() Kind { return KindArtifact }

// Kind is KindArtifactFrom.
func (*ArtifactFrom) Kind() Kind { return KindArtifactFrom }

// Kind is KindArtifactDone.
func (*ArtifactDone) Kind() Kind { return KindArtifactDone }

func checkArtifacts(list []ArtifactHead) error {
	if len(list) > capabilities.MaxArtifacts {
		return fmt.Errorf("more than %d artifacts", capabilities.MaxArtifacts)
	}
	for i, h := range list {
		switch {
		case h.Name == "" || len(h.Name) > capabilities.MaxArtifactName || strings.ContainsAny(h.Name, "/\\\x00"):
			return fmt.Errorf("an artifact's name must be a plain file name of at most %d bytes", capabilities.MaxArtifactName)
		case h.MIME == "" || len(h.MIME) > maxName || len(h.Field) > maxName:
			return fmt.Errorf("an artifact's media type must be 1 to %d bytes, its field at most that", maxName)
		case h.Size > capabilities.MaxArtifact:
			return fmt.Errorf("an artifact must have at most %d bytes", capabilities.MaxArtifact)
		}
		for _, other := range list[:i] {
			if other.ID == h.ID {
				return errors.New("an artifact is named twice")
			}
		}
	}
	return nil
}

func (a *ArtifactAsk) check() error {
	if a.Call == "" || len(a.Call) > maxName {
		return fmt.Errorf("call must be 1 to %d bytes", maxName)
	}
	return nil
}

func (a *Artifact) check() error {
	if a.Code != "" {
		if !a.Code.Known() { // a newer node's
			a.Code = capabilities.CodeInternal
		}
		if a.Size != 0 || len(a.Hashes) != 0 {
			return errors.New("a manifest has a code or content")
		}
		return nil
	}
	if a.Size > capabilities.MaxArtifact {
		return fmt.Errorf("an artifact must have at most %d bytes", capabilities.MaxArtifact)
	}
	m := artifact.Manifest{Size: int64(a.Size), Hashes: a.Hashes}
	return m.Check()
}

// Manifest returns the manifest for the artifact that was asked for.
func (a *Artifact) Manifest(id [32]byte) artifact.Manifest {
	return artifact.Manifest{ID: id, Size: int64(a.Size), Hashes: a.Hashes}
}

func (a *ArtifactFrom) check() error {
	if a.Chunk > artifact.MaxChunks {
		return fmt.Errorf("chunk must be at most %d", artifact.MaxChunks)
	}
	return nil
}

func (*ArtifactDone) check() error { return nil }
