package link

import (
	"io"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/artifact"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// artifactTimeout bounds each step of an artifact stream: a frame, a chunk. A whole
// artifact takes as long as it takes.
const artifactTimeout = 30 * time.Second

// Artifact is one artifact, open for reading.
type Artifact interface {
	// Chunk returns chunk i. The bytes are good until the next call.
	Chunk(i int) ([]byte, error)
	io.Closer
}

// Artifacts are what the gateway may fetch; agent/spool implements them.
type Artifacts interface {
	// Open opens a call's artifact. Errors carry the code that the gateway is told.
	Open(call capabilities.CallID, id [32]byte) (artifact.Manifest, Artifact, error)
	// Drop forgets it: the gateway has it, or wants it no more. Idempotent.
	Drop(call capabilities.CallID, id [32]byte)
}

// give serves one artifact stream: manifest, the chunks from where the gateway wants
// them, and its word that it has the whole. A stream that breaks leaves the artifact
// where it is, for the next one.
func (l *Link) give(stream *quic.Stream, reader *wire.Reader, ask *wire.ArtifactAsk) {
	log := l.log.With("call", ask.Call, "node", l.id.Node, "hop", capabilities.HopRecord, "artifact", capabilities.ArtifactIDOf(ask.ID))
	broken := func(err error) {
		log.Info("artifact.broken", "err", err)
		stream.CancelRead(wire.ResetCancelled)
		stream.CancelWrite(wire.ResetCancelled)
	}
	if ask.Drop {
		l.opts.Artifacts.Drop(ask.Call, ask.ID)
		_ = stream.Close()
		return
	}
	m, a, err := l.opts.Artifacts.Open(ask.Call, ask.ID)
	head := &wire.Artifact{Size: uint64(m.Size), Hashes: m.Hashes}
	if err != nil {
		head = &wire.Artifact{Code: capabilities.CodeOf(err)}
	} else {
		defer a.Close()
	}
	_ = stream.SetWriteDeadline(time.Now().Add(artifactTimeout))
	if err := wire.Write(stream, head); err != nil {
		broken(err)
		return
	}
	if err != nil {
		log.Warn("artifact.gone", "err", err)
		_ = stream.Close()
		return
	}
	reader.Accept(wire.KindArtifactFrom)
	_ = stream.SetReadDeadline(time.Now().Add(artifactTimeout))
	from, err := reader.Next()
	if err != nil {
		broken(err)
		return
	}
	for i := int(from.(*wire.ArtifactFrom).Chunk); i < artifact.Chunks(m.Size); i++ {
		chunk, err := a.Chunk(i)
		if err != nil {
			broken(err)
			return
		}
		_ = stream.SetWriteDeadline(time.Now().Add(artifactTimeout))
		if err := wire.WriteChunk(stream, chunk); err != nil {
			broken(err)
			return
		}
	}
	_ = stream.Close()
	reader.Accept(wire.KindArtifactDone)
	// The gateway makes it durable first, which a slow disk delays.
	_ = stream.SetReadDeadline(time.Now().Add(4 * artifactTimeout))
	if _, err := reader.Next(); err != nil {
		log.Info("artifact.unacknowledged", "err", err)
		stream.CancelRead(wire.ResetCancelled)
		return
	}
	l.opts.Artifacts.Drop(ask.Call, ask.ID)
}

// noArtifacts is a node that keeps none.
type noArtifacts struct{}

func (noArtifacts) Open(capabilities.CallID, [32]byte) (artifact.Manifest, Artifact, error) {
	return artifact.Manifest{}, nil, &capabilities.Error{Code: capabilities.CodeArtifactUnavailable}
}

func (noArtifacts) Drop(capabilities.CallID, [32]byte) {}
