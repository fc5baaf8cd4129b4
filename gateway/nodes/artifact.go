package nodes

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/artifact"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// artifactTimeout bounds the wait for each frame of an artifact stream.
const artifactTimeout = 30 * time.Second

// Taker takes one artifact as it comes; gateway/outcome implements it.
type Taker interface {
	// Begin takes the manifest and says which chunk it wants first. An error ends the
	// stream, and says whether trying again could help by its code.
	Begin(m artifact.Manifest) (from int, err error)
	// Chunk takes chunk i, in order. The bytes are good until it returns.
	Chunk(i int, data []byte) error
	// Finish checks the whole and makes it durable: only then may the node forget it.
	Finish(ctx context.Context) error
}

// buffered is how many chunks are on their way from the stream to the disk.
const buffered = 4

// Fetch fetches a call's artifact from its node into t, from the chunk on that t
// wants. The node forgets it once t has finished.
//
// Errors: CodeArtifactUnavailable if the node does not have it (trying again is in
// vain), CodeNodeDisconnected if the way to it broke (the next Fetch goes on where
// this one ended), t's own, ctx's.
func (n *Nodes) Fetch(ctx context.Context, node capabilities.NodeID, call capabilities.CallID, id [32]byte, t Taker) error {
	s := n.reach(node)
	if s == nil {
		return disconnected(nil)
	}
	c, err := n.open(ctx, s)
	if err != nil {
		return err
	}
	defer c.end()
	lost := func(err error) error {
		if ended := ending(ctx); ended != nil {
			return ended
		}
		return disconnected(err)
	}
	if err := wire.Write(c, &wire.ArtifactAsk{Call: call, ID: id}); err != nil {
		return lost(err)
	}
	c.reader.Accept(wire.KindArtifact)
	_ = c.stream.SetReadDeadline(time.Now().Add(artifactTimeout))
	m, err := c.reader.Next()
	if err != nil {
		return lost(err)
	}
	head := m.(*wire.Artifact)
	if head.Code != "" {
		_ = c.stream.Close()
		c.done = true
		return &capabilities.Error{Code: capabilities.CodeArtifactUnavailable, Message: "The node does not have the file any more."}
	}
	manifest := head.Manifest(id)
	from, err := t.Begin(manifest)
	if err != nil {
		return err
	}
	if err := wire.Write(c, &wire.ArtifactFrom{Chunk: uint32(from)}); err != nil {
		return lost(err)
	}
	took, read := c.chunks(&manifest, from, t)
	if took != nil {
		return took
	}
	if read != nil {
		return lost(read)
	}
	if err := t.Finish(ctx); err != nil {
		return err
	}
	// It is ours whatever becomes of this word.
	_ = c.stream.SetWriteDeadline(time.Now().Add(writeTimeout))
	if err := wire.Write(c, &wire.ArtifactDone{}); err == nil {
		_ = c.stream.Close()
		c.done = true
	}
	return nil
}

// chunks reads chunks from the stream while t works on those before: took is t's
// error, read the stream's.
func (c *exchange) chunks(m *artifact.Manifest, from int, t Taker) (took, read error) {
	type piece struct {
		i    int
		data []byte
	}
	free, full := make(chan []byte, buffered), make(chan piece, buffered)
	for range buffered {
		free <- nil
	}
	failed := make(chan struct{})
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for p := range full {
			if took == nil {
				if took = t.Chunk(p.i, p.data); took != nil {
					close(failed)
				}
			}
			free <- p.data
		}
	}()
	for i := from; i < artifact.Chunks(m.Size) && read == nil; i++ {
		var buf []byte
		select {
		case buf = <-free:
		case <-failed:
			read = errors.New("the artifact's receiver takes no more bytes")
			continue
		}
		if buf == nil {
			buf = make([]byte, artifact.ChunkSize)
		}
		buf = buf[:artifact.ChunkLen(m.Size, i)]
		_ = c.stream.SetReadDeadline(time.Now().Add(artifactTimeout))
		var n int
		if n, read = c.reader.Chunk(buf); read == nil && n != len(buf) {
			read = io.ErrUnexpectedEOF
		}
		if read == nil {
			full <- piece{i, buf}
		}
	}
	close(full)
	<-finished
	return took, read
}

// Forget tells a node that an artifact is wanted no more. A node that is away keeps
// it until it expires there.
func (n *Nodes) Forget(ctx context.Context, node capabilities.NodeID, call capabilities.CallID, id [32]byte) {
	s := n.reach(node)
	if s == nil {
		return
	}
	c, err := n.open(ctx, s)
	if err != nil {
		return
	}
	defer c.end()
	if wire.Write(c, &wire.ArtifactAsk{Call: call, ID: id, Drop: true}) == nil {
		_ = c.stream.Close()
		c.done = true
	}
}
