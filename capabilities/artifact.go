package capabilities

import (
	"encoding/hex"
	"io"
	"slices"
	"strings"
)

// ArtifactID names an artifact by its content: SHA-256 of its bytes, in 64 lower-case
// hexadecimal digits. The zero value names none.
type ArtifactID string

// ArtifactIDOf returns the ID for a SHA-256.
func ArtifactIDOf(sum [32]byte) ArtifactID { return ArtifactID(hex.EncodeToString(sum[:])) }

// Sum returns the SHA-256 that the ID names; CodeInvalidRequest if it names none.
func (id ArtifactID) Sum() (sum [32]byte, err error) {
	if len(id) != 2*len(sum) || strings.ToLower(string(id)) != string(id) {
		return sum, Errorf(CodeInvalidRequest, "an artifact ID has 64 digits of lower-case hexadecimal")
	}
	if _, err := hex.Decode(sum[:], []byte(id)); err != nil {
		return [32]byte{}, Errorf(CodeInvalidRequest, "an artifact ID has 64 digits of lower-case hexadecimal")
	}
	return sum, nil
}

// MaxArtifact bounds one artifact in bytes, and MaxArtifacts those of one call.
const (
	MaxArtifact  = 2 << 30
	MaxArtifacts = 16
)

// Artifact is captured bytes that are kept apart from the result that names them: a
// photo, a recording, a download. They are whole and verified against ID wherever an
// Artifact without a Code stands.
type Artifact struct {
	ID   ArtifactID `json:"artifact_id"`
	Name string     `json:"name"` // a plain file name, at most MaxArtifactName bytes
	MIME string     `json:"mime"`
	Size int64      `json:"size"` // bytes
	// Field names the result field it stands for in the contract (such as
	// "bytesBase64"); a surface fills that field where the artifact is small.
	Field string `json:"field,omitempty"`
	// Code says why the bytes are not there; empty means that they are. A part of an
	// artifact is never kept as one.
	Code Code `json:"code,omitempty"`
}

// MaxArtifactName bounds a name in bytes.
const MaxArtifactName = 200

// ArtifactSpec is what a handler says about an artifact before its first byte.
type ArtifactSpec struct {
	Name  string // required: a plain file name such as "photo.jpg", at most MaxArtifactName bytes
	MIME  string // required, such as "video/webm"
	Field string // the result field it stands for, or ""
	// Limit is how many bytes it may have; 0 is what the tool's descriptor allows
	// (limits.max_artifact_bytes), which bounds it anyway.
	Limit int64
}

// ArtifactWriter takes the bytes of one artifact as they come, in any portions. They
// are sealed and on the node's disk, not in its memory. Not safe for concurrent use.
type ArtifactWriter interface {
	// Write takes more bytes. CodeResultTooLarge beyond the limit, CodeArtifactSpace
	// where the node has no room; the writer then takes nothing more.
	io.Writer
	// Commit ends it and returns what Output.Artifacts names. Without Commit there is no artifact:
	// what a handler abandons is never whole.
	Commit() (Artifact, error)
	// Abort forgets it; after Commit it does nothing. Idempotent.
	Abort()
}

// ArtifactSpool is where a handler leaves artifacts for one call.
type ArtifactSpool interface {
	// Create begins an artifact. The handler calls Commit or Abort.
	Create(ArtifactSpec) (ArtifactWriter, error)
}

// CreateArtifact begins an artifact of this call:
//
//	w, err := inv.CreateArtifact(capabilities.ArtifactSpec{Name: "photo.jpg", MIME: "image/jpeg", Field: "bytesBase64"})
//	if err != nil { return capabilities.Output{}, err }
//	defer w.Abort()
//	// … w.Write …
//	kept, err := w.Commit()
//	if err != nil { return capabilities.Output{}, err }
//	return capabilities.Output{Result: …, Artifacts: []capabilities.Artifact{kept}}, nil
//
// An artifact that is committed and not named in the output is dropped, and so is everything if the
// call fails. CodeNotSupported where the call has no spool.
func (i Invocation) CreateArtifact(spec ArtifactSpec) (ArtifactWriter, error) {
	if i.Spool == nil {
		return nil, Errorf(CodeNotSupported, "this node keeps no artifacts")
	}
	return i.Spool.Create(spec)
}

// InlineBytes is up to what size captured bytes come with the result itself; clients
// of models take little more.
const InlineBytes = 4 << 20

// Give puts captured bytes into out: with the result while they are small, else as an
// artifact with that name. A call without a spool has them with the result anyway; one whose
// artifacts are kept for longer has all of them as artifacts.
func (i Invocation) Give(out *Output, b Blob, name string) error {
	if len(b.Bytes) <= InlineBytes && !slices.Contains(i.Grants, KeyRetained) || i.Spool == nil {
		out.Blobs = append(out.Blobs, b)
		return nil
	}
	w, err := i.CreateArtifact(ArtifactSpec{Name: name, MIME: b.MIME, Field: b.Field})
	if err != nil {
		return err
	}
	defer w.Abort()
	if _, err := w.Write(b.Bytes); err != nil {
		return err
	}
	kept, err := w.Commit()
	if err != nil {
		return err
	}
	out.Artifacts = append(out.Artifacts, kept)
	return nil
}
