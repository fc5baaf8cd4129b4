package link

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

const (
	// ticketTimeout bounds how long a ticket may take to arrive whole.
	ticketTimeout = 30 * time.Second
	// answerTimeout bounds how long an answer may take to leave.
	answerTimeout = 60 * time.Second
	// progressEvery is the closest two progress frames follow each other.
	progressEvery = 50 * time.Millisecond
)

// serve takes one call stream from its first frame to its end.
func (l *Link) serve(ctx context.Context, conn *quic.Conn, stream *quic.Stream) {
	_ = stream.SetReadDeadline(time.Now().Add(ticketTimeout))
	in := &ending{Reader: stream}
	reader := wire.NewReader(in, wire.KindTicket, wire.KindJournalAsk, wire.KindArtifactAsk, wire.KindSceneAsk)
	m, err := reader.Next()
	if err != nil {
		code := quic.StreamErrorCode(wire.ResetRefused)
		var refused *capabilities.Error
		if errors.As(err, &refused) {
			l.log.Warn("node.protocol", "hop", capabilities.HopSend, "err", err)
			code = wire.ResetProtocol
		}
		stream.CancelRead(code)
		stream.CancelWrite(code)
		return
	}
	switch m := m.(type) {
	case *wire.JournalAsk:
		l.tell(ctx, stream, m)
	case *wire.SceneAsk:
		l.describe(ctx, stream, m)
	case *wire.ArtifactAsk:
		l.give(stream, reader, m)
	case *wire.Ticket:
		l.call(ctx, conn, stream, reader, m)
	}
	in.finish(stream)
}

func (l *Link) tell(ctx context.Context, stream *quic.Stream, ask *wire.JournalAsk) {
	_ = stream.SetWriteDeadline(time.Now().Add(answerTimeout))
	for _, state := range l.opts.Journal(ctx, ask) {
		if err := wire.Write(stream, &state); err != nil {
			stream.CancelWrite(wire.ResetProtocol)
			return
		}
	}
	_ = stream.Close()
}

// sceneTimeout bounds how long a device may take to say what a call would meet.
const sceneTimeout = 2 * time.Second

// describe says what a call would meet here.
func (l *Link) describe(ctx context.Context, stream *quic.Stream, ask *wire.SceneAsk) {
	ctx, cancel := context.WithTimeout(ctx, sceneTimeout)
	defer cancel()
	scene := wire.Scene{}
	if l.opts.Scene != nil {
		scene = l.opts.Scene(ctx, ask)
	}
	scene.Clip()
	_ = stream.SetWriteDeadline(time.Now().Add(answerTimeout))
	if err := wire.Write(stream, &scene); err != nil {
		stream.CancelWrite(wire.ResetProtocol)
		return
	}
	_ = stream.Close()
}

// call runs one ticket. Its context ends when the gateway resets the stream or
// puts the node out. A lost connection ends only what is attached to it: of others the
// gateway asks the journal later, and deadline and stop switch bound them.
func (l *Link) call(ctx context.Context, conn *quic.Conn, stream *quic.Stream, reader *wire.Reader, t *wire.Ticket) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	unwatch := context.AfterFunc(stream.Context(), func() {
		cause := context.Cause(stream.Context())
		switch {
		case givenUp(cause) || givenUp(context.Cause(conn.Context())):
			cancel(capabilities.Wrap(capabilities.CodeCancelled, cause, ""))
		case l.opts.Attached(t.Tool):
			cancel(capabilities.Wrap(capabilities.CodeCancelled, errors.Join(capabilities.ErrCut, cause), ""))
		}
	})
	l.active.Add(1)
	defer func() {
		l.ended.Store(int64(time.Since(l.started)))
		l.active.Add(-1)
	}()
	sink := &sink{stream: stream, reader: reader, log: func(err error) {
		l.log.Warn("call.answer_lost", "call", t.Call, "node", t.Node, "hop", capabilities.HopRecord, "err", err)
	}, before: func() { unwatch() }, steps: t.Steps, elicits: t.Elicits, hosts: t.AsksHosts}
	l.opts.Serve(ctx, t, sink)
	// A call without an answer would leave the gateway waiting.
	sink.Answer(wire.Answer{Status: capabilities.StatusError, Code: capabilities.CodeInternal}, nil)
	sink.endReplies()
}

// givenUp tells "nobody wants this call any more" from "the network failed".
func givenUp(cause error) bool {
	var reset *quic.StreamError
	if errors.As(cause, &reset) && reset.Remote {
		return true
	}
	code, closed := refusal(cause)
	return closed && code.Permanent()
}

// sink writes a call's progress and its answer to the stream.
type sink struct {
	stream  *quic.Stream
	reader  *wire.Reader // of the gateway's direction
	log     func(error)
	before  func() // runs before the answer: the stream's end is ours from then on
	steps   bool   // the call may ask for steps
	elicits bool   // the call may ask people
	hosts   bool   // the call may ask about hosts

	mu       sync.Mutex
	answered bool
	accepted bool
	numbered uint32   // steps, or forms and hosts, that were asked for
	forms    uint32   // of those
	replies  *replies // of the gateway, once something was asked for
	last     time.Time
}

func (s *sink) Progress(p wire.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.answered || now.Sub(s.last) < progressEvery && len(p.Data) == 0 {
		return
	}
	s.last = now
	p.Clip()
	_ = s.stream.SetWriteDeadline(now.Add(writeTimeout))
	_ = wire.Write(s.stream, &p) // progress is news, not a record
}

func (s *sink) Answer(a wire.Answer, blobs [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered {
		return
	}
	s.answered = true
	s.before()
	a.Clip()
	if len(a.Blobs) == 0 {
		blobs = nil // clipped, or none
	}
	if !announced(a.Blobs, blobs) {
		a, blobs = wire.Answer{Status: capabilities.StatusError, Code: capabilities.CodeInternal}, nil
	}
	_ = s.stream.SetWriteDeadline(time.Now().Add(answerTimeout))
	err := wire.Write(s.stream, &a)
	var refused *capabilities.Error
	if errors.As(err, &refused) { // not an answer a frame can carry, and nothing was written
		s.log(err)
		blobs = nil
		err = wire.Write(s.stream, &wire.Answer{Status: capabilities.StatusError, Code: capabilities.CodeInternal, Isolation: a.Isolation})
	}
	if err == nil {
		err = wire.WriteBlobs(s.stream, blobs)
	}
	if err != nil {
		s.log(err)
		s.stream.CancelWrite(wire.ResetCancelled)
		return
	}
	_ = s.stream.Close()
	// The connection's goroutine sends it; what is left to do here can follow.
	runtime.Gosched()
}

// announced reports whether the bytes are those that the heads speak of.
func announced(heads []wire.BlobHead, blobs [][]byte) bool {
	if len(heads) != len(blobs) {
		return false
	}
	for i, h := range heads {
		if int(h.Size) != len(blobs[i]) {
			return false
		}
	}
	return true
}

// ending notes whether the gateway's direction was read to its end.
type ending struct {
	io.Reader
	seen bool
}

func (e *ending) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if err == io.EOF {
		e.seen = true
	}
	return n, err
}

// finish reads the end of the gateway's direction, which mostly came with the
// ticket; the stream would stay otherwise. More than the end is refused.
func (e *ending) finish(stream *quic.Stream) {
	if e.seen {
		return
	}
	_ = stream.SetReadDeadline(time.Now().Add(writeTimeout))
	var b [1]byte
	if _, err := e.Read(b[:]); err != io.EOF {
		stream.CancelRead(wire.ResetDone)
	}
}
