package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/fxamacker/cbor/v2"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/artifact"
	"github.com/handrail-dev/handrail/capabilities/form"
	"github.com/handrail-dev/handrail/capabilities/sealed"
)

// ALPN is the application protocol of every connection between a node and a
// gateway.
const ALPN = "handrail/1"

// ALPNStream is the application protocol of TLS on TCP in which QUIC's packets go where UDP is
// dropped (capabilities/tunnel).
const ALPNStream = "handrail-stream/1"

// StreamPath is where the gateway's HTTPS takes the same packets in a WebSocket, with ALPNStream as
// its subprotocol; MaxStreamMessage bounds a message of it.
const (
	StreamPath       = "/nodes"
	MaxStreamMessage = 256 << 10
)

// Versions of the protocol. A gateway serves nodes one version older.
const (
	Version    = 1
	MinVersion = 1
)

// A frame:
//
//	 0               4      5
//	+---------------+------+----------------------+
//	| length uint32 | kind | body, length bytes   |
//	| big endian    | u8   | CBOR (Chunk: raw)    |
//	+---------------+------+----------------------+
//
// length counts the body alone, so a header is always five bytes. The body is
// one definite-length CBOR map with small integer keys; no tags, no duplicate
// keys, no NaN.
const headerLen = 5

// Kind says what a frame carries. Zero is no kind.
type Kind uint8

// Control stream, node to gateway: Hello, Heartbeat, Readiness, Rotate, Stop, Verdict. Control
// stream, gateway to node: HelloAck, HeartbeatAck, Allowlist, Approved, RotateAnswer, Stop,
// LaneClosed, SecretsDone, Questions, VerdictTaken. Call stream, gateway to node: one Ticket or
// one JournalAsk. Call stream, node to gateway: Progress*, Answer, Chunk*, or one JournalState for
// each call that was asked about. After a Ticket with Steps the node's Step and StepEnd come
// between Progress, and the gateway's StepOrder for each Step; after one with Elicits the node's
// Elicit, and the gateway's Elicited for each; after one with AsksHosts HostAsk and HostAnswer in
// the same way. Where a secret is delivered, the
// node's Accept and the gateway's Sealed come between Ticket and Progress. Artifact stream, opened
// by the gateway: ArtifactAsk; Artifact from the node; ArtifactFrom; Chunk* from the node;
// ArtifactDone.
const (
	KindHello        Kind = 1
	KindHelloAck     Kind = 2
	KindHeartbeat    Kind = 3
	KindHeartbeatAck Kind = 4
	KindReadiness    Kind = 5
	KindAllowlist    Kind = 6
	KindApproved     Kind = 7
	KindStop         Kind = 8
	KindRotate       Kind = 9
	KindRotateAnswer Kind = 10
	KindLaneClosed   Kind = 11
	KindSecretsDone  Kind = 12
	KindQuestions    Kind = 13
	KindVerdict      Kind = 14
	KindVerdictTaken Kind = 15
	KindTicket       Kind = 32
	KindProgress     Kind = 33
	KindAnswer       Kind = 34
	KindChunk        Kind = 35
	KindJournalAsk   Kind = 36
	KindJournalState Kind = 37
	KindAccept       Kind = 38
	KindSealed       Kind = 39
	KindArtifactAsk  Kind = 40
	KindArtifact     Kind = 41
	KindArtifactFrom Kind = 42
	KindArtifactDone Kind = 43
	// 44 is taken: it let such a ticket run as key 21 of Ticket marked.
	KindStep      Kind = 45
	KindStepOrder Kind = 46
	KindStepEnd   Kind = 47
	KindSceneAsk  Kind = 48
	KindScene     Kind = 49
	KindElicit    Kind = 50
	KindElicited  Kind = 51

	KindHostAsk    Kind = 52
	KindHostAnswer Kind = 53
)

// Bounds on parts of frames, in bytes or entries.
const (
	MaxArgs      = 1 << 20   // Ticket.Args; the front's own gate is the same
	MaxEnvelope  = 64 << 10  // Ticket.Envelope
	MaxOutput    = 8 << 20   // Answer.Output
	MaxDetails   = 16 << 10  // Answer.Details
	MaxNews      = 32 << 10  // Progress.Data
	MaxChunk     = 256 << 10 // body of one Chunk
	MaxBlobBytes = 64 << 20  // all blobs of one answer together
	MaxBlobs     = 16
	MaxJournal   = 256 // calls asked about at once
	MaxSceneArgs = 256 << 10
	MaxAddrs     = 128 // of a device
	// MaxCapabilities are those in Readiness and Allowlist: a device's own, and the tools of the
	// providers that it hosts, of which one may have 2,000.
	MaxCapabilities = 4096
	maxGrants       = 128
	maxObserved     = 256
	maxTyped        = MaxArgs
	maxFields       = 1000
	maxText         = 2 << 10 // messages, hints
	maxName         = 256     // identifiers, labels, versions
	maxCert         = 8 << 10
	maxFix          = 300
	maxRecall       = 64
)

type kindInfo struct {
	name string
	max  int
	make func() Message
}

// kinds holds the cap of every frame; a kind that is not here is refused.
var kinds = map[Kind]kindInfo{
	KindHello:        {"hello", 8 << 10, func() Message { return new(Hello) }},
	KindHelloAck:     {"hello-ack", 8 << 10, func() Message { return new(HelloAck) }},
	KindHeartbeat:    {"heartbeat", 1 << 10, func() Message { return new(Heartbeat) }},
	KindHeartbeatAck: {"heartbeat-ack", 1 << 10, func() Message { return new(HeartbeatAck) }},
	KindReadiness:    {"readiness", 2 << 20, func() Message { return new(Readiness) }},
	KindAllowlist:    {"allowlist", 96 << 10, func() Message { return new(Allowlist) }},
	KindApproved:     {"approved", 128 << 10, func() Message { return new(Approved) }},
	KindStop:         {"stop", 64, func() Message { return new(Stop) }},
	KindRotate:       {"rotate", 1 << 10, func() Message { return new(Rotate) }},
	KindRotateAnswer: {"rotate-answer", 16 << 10, func() Message { return new(RotateAnswer) }},
	KindLaneClosed:   {"lane-closed", 512, func() Message { return new(LaneClosed) }},
	KindSecretsDone:  {"secrets-done", 512, func() Message { return new(SecretsDone) }},
	KindQuestions: {
		"questions", MaxQuestions*((MaxQuestionLines+2)*(MaxQuestionText+4)+1<<10) + 64, func() Message { return new(Questions) },
	},
	KindVerdict:      {"verdict", 512, func() Message { return new(Verdict) }},
	KindVerdictTaken: {"verdict-taken", 4 << 10, func() Message { return new(VerdictTaken) }},
	KindTicket:       {"ticket", MaxArgs + MaxEnvelope + 32<<10, func() Message { return new(Ticket) }},
	KindStep:         {"step", MaxArgs + 1<<10, func() Message { return new(Step) }},
	KindStepOrder:    {"step-order", MaxArgs + MaxEnvelope + 64<<10, func() Message { return new(StepOrder) }},
	KindStepEnd:      {"step-end", 256 << 10, func() Message { return new(StepEnd) }},
	KindElicit:       {"elicit", form.MaxBytes + 1<<10, func() Message { return new(Elicit) }},
	KindElicited:     {"elicited", sealed.MaxSize + 4<<10, func() Message { return new(Elicited) }},
	KindHostAsk:      {"host-ask", 1 << 10, func() Message { return new(HostAsk) }},
	KindHostAnswer:   {"host-answer", MaxEnvelope + 1<<10, func() Message { return new(HostAnswer) }},
	KindProgress:     {"progress", MaxNews + 1<<10, func() Message { return new(Progress) }},
	KindAnswer:       {"answer", MaxOutput + 256<<10, func() Message { return new(Answer) }},
	KindSceneAsk:     {"scene-ask", MaxSceneArgs + 2<<10, func() Message { return new(SceneAsk) }},
	KindScene:        {"scene", 4<<10 + capabilities.MaxSceneElements*(3*maxName+16), func() Message { return new(Scene) }},
	KindChunk:        {"chunk", MaxChunk, nil},
	KindJournalAsk:   {"journal-ask", 64 << 10, func() Message { return new(JournalAsk) }},
	KindAccept:       {"accept", 1 << 10, func() Message { return new(Accept) }},
	KindSealed:       {"sealed", sealed.MaxSize + 64, func() Message { return new(Sealed) }},
	KindArtifactAsk:  {"artifact-ask", 1 << 10, func() Message { return new(ArtifactAsk) }},
	KindArtifact:     {"artifact", artifact.MaxChunks*32 + 4<<10, func() Message { return new(Artifact) }},
	KindArtifactFrom: {"artifact-from", 64, func() Message { return new(ArtifactFrom) }},
	KindArtifactDone: {"artifact-done", 64, func() Message { return new(ArtifactDone) }},
	KindJournalState: {"journal-state", MaxOutput + 272<<10, func() Message { return new(JournalState) }},
}

// String returns the kind's name for logs and errors.
func (k Kind) String() string {
	if info, ok := kinds[k]; ok {
		return info.name
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Message is a frame's content: one of the types of this package.
type Message interface {
	// Kind returns the frame kind that carries the message.
	Kind() Kind
	// check refuses what is out of bounds; it runs before encoding and after
	// decoding, so that neither side can put such a value on the wire.
	check() error
}

var (
	encMode cbor.UserBufferEncMode
	// decMode ignores keys it does not know: a newer peer of the same version
	// may add advisory fields.
	decMode cbor.DecMode
	// strictMode refuses them: a limit in a ticket that this side does not know
	// must not be ignored.
	strictMode cbor.DecMode
)

// The modes are fixed data; the options cannot fail at run time unless this
// table is wrong, which every test would show.
var _ = func() struct{} {
	var err error
	if encMode, err = (cbor.EncOptions{
		Sort: cbor.SortNone, IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
	}).UserBufferEncMode(); err != nil {
		panic(err)
	}
	opts := cbor.DecOptions{
		DupMapKey:        cbor.DupMapKeyEnforcedAPF,
		IndefLength:      cbor.IndefLengthForbidden,
		TagsMd:           cbor.TagsForbidden,
		UTF8:             cbor.UTF8RejectInvalid,
		NaN:              cbor.NaNDecodeForbidden,
		Inf:              cbor.InfDecodeForbidden,
		MaxNestedLevels:  8,
		MaxArrayElements: MaxCapabilities, // the longest array of any frame; each checks its own
		MaxMapPairs:      64,
	}
	if decMode, err = opts.DecMode(); err != nil {
		panic(err)
	}
	opts.ExtraReturnErrors = cbor.ExtraDecErrorUnknownField
	if strictMode, err = opts.DecMode(); err != nil {
		panic(err)
	}
	return struct{}{}
}()

// Decode returns the message in body. On an error it returns no message.
func Decode(kind Kind, body []byte) (Message, error) {
	info, ok := kinds[kind]
	if !ok || info.make == nil {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "frame of unknown kind %d", uint8(kind))
	}
	if len(body) > info.max {
		return nil, tooLarge(kind, len(body), info.max)
	}
	m := info.make()
	mode := decMode
	if kind == KindTicket || kind == KindStepOrder {
		mode = strictMode
	}
	if err := mode.Unmarshal(body, m); err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInvalidRequest, err, "frame "+info.name+" is not well formed")
	}
	if err := m.check(); err != nil {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "frame %s: %v", info.name, err)
	}
	return m, nil
}

func tooLarge(kind Kind, n, limit int) error {
	return capabilities.Errorf(capabilities.CodeBodyTooLarge, "frame %s of %d bytes is larger than its cap of %d", kind, n, limit)
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// keepBuffer is the largest buffer that goes back to the pool: a rare large
// frame must not pin its memory.
const keepBuffer = 64 << 10

func putBuffer(b *bytes.Buffer) {
	if b.Cap() <= keepBuffer {
		b.Reset()
		buffers.Put(b)
	}
}

// Write sends m as one frame in one call of w.Write. A message that is out of
// bounds is an error and nothing is written.
func Write(w io.Writer, m Message) error {
	b := buffers.Get().(*bytes.Buffer)
	defer putBuffer(b)
	if err := encode(b, m); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Encode returns m as one frame.
func Encode(m Message) ([]byte, error) {
	b := new(bytes.Buffer)
	if err := encode(b, m); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func encode(b *bytes.Buffer, m Message) error {
	kind := m.Kind()
	if err := m.check(); err != nil {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "frame %s: %v", kind, err)
	}
	var header [headerLen]byte
	b.Write(header[:])
	if err := encMode.MarshalToBuffer(m, b); err != nil {
		return capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	n := b.Len() - headerLen
	if limit := kinds[kind].max; n > limit {
		return tooLarge(kind, n, limit)
	}
	binary.BigEndian.PutUint32(b.Bytes(), uint32(n))
	b.Bytes()[4] = byte(kind)
	return nil
}

// WriteBlobs sends the bytes of an answer's blobs after its Answer frame, in
// order, as chunks. The bytes are not copied here.
func WriteBlobs(w io.Writer, blobs [][]byte) error {
	for _, blob := range blobs {
		for len(blob) > 0 {
			n := min(len(blob), MaxChunk)
			var header [headerLen]byte
			binary.BigEndian.PutUint32(header[:], uint32(n))
			header[4] = byte(KindChunk)
			if _, err := w.Write(header[:]); err != nil {
				return err
			}
			if _, err := w.Write(blob[:n]); err != nil {
				return err
			}
			blob = blob[n:]
		}
	}
	return nil
}

// Reader reads frames of the kinds it was told to accept. It holds no buffer
// between frames, so an idle stream costs nothing. Not safe for concurrent use.
type Reader struct {
	r      io.Reader
	accept uint64
	header [headerLen]byte
}

// NewReader returns a Reader that refuses every kind but these.
func NewReader(r io.Reader, accept ...Kind) *Reader {
	fr := &Reader{r: r}
	fr.Accept(accept...)
	return fr
}

// Accept replaces the set of kinds that are accepted from now on.
func (f *Reader) Accept(accept ...Kind) {
	f.accept = 0
	for _, k := range accept {
		f.accept |= 1 << k
	}
}

// Next reads one frame. It returns io.EOF if the stream ends between frames, io.ErrUnexpectedEOF if
// it ends inside one, and an *capabilities.Error for a frame that is refused; after that the stream
// cannot be read on.
func (f *Reader) Next() (Message, error) {
	kind, n, err := f.next()
	if err != nil {
		return nil, err
	}
	b := buffers.Get().(*bytes.Buffer)
	defer putBuffer(b)
	// A short claim is taken at its word; a long one has to arrive before it
	// gets memory, so that a header alone allocates little.
	b.Grow(min(n, keepBuffer))
	if _, err := io.CopyN(b, f.r, int64(n)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return Decode(kind, b.Bytes())
}

func (f *Reader) next() (Kind, int, error) {
	if _, err := io.ReadFull(f.r, f.header[:]); err != nil {
		return 0, 0, err
	}
	kind := Kind(f.header[4])
	n := binary.BigEndian.Uint32(f.header[:])
	if kind > 63 || f.accept&(1<<kind) == 0 {
		return 0, 0, capabilities.Errorf(capabilities.CodeInvalidRequest, "frame %s is not expected here", kind)
	}
	if limit := kinds[kind].max; uint64(n) > uint64(limit) {
		return 0, 0, capabilities.Errorf(capabilities.CodeBodyTooLarge, "frame %s of %d bytes is larger than its cap of %d", kind, n, limit)
	}
	return kind, int(n), nil
}

// Blob reads chunks until size bytes are there. Memory grows with what arrives,
// not with what was announced. size must be at most MaxBlobBytes.
func (f *Reader) Blob(size int) ([]byte, error) {
	if size < 0 || size > MaxBlobBytes {
		return nil, capabilities.Errorf(capabilities.CodeBodyTooLarge, "blob of %d bytes is larger than %d", size, MaxBlobBytes)
	}
	f.Accept(KindChunk)
	out := make([]byte, 0, min(size, MaxChunk))
	for len(out) < size {
		_, n, err := f.next()
		if err == nil && (n == 0 || n > size-len(out)) {
			err = capabilities.Errorf(capabilities.CodeInvalidRequest, "chunk of %d bytes where %d are missing", n, size-len(out))
		}
		if err != nil {
			return nil, noEOF(err)
		}
		at := len(out)
		if free := cap(out) - at; free < n {
			grown := make([]byte, at, min(size, max(2*cap(out), at+n)))
			copy(grown, out)
			out = grown
		}
		out = out[:at+n]
		if _, err := io.ReadFull(f.r, out[at:]); err != nil {
			return nil, noEOF(err)
		}
	}
	return out, nil
}

// Chunk reads one chunk of at most len(buf) bytes into buf and returns its length. The end of the
// stream is io.ErrUnexpectedEOF: whoever asks for a chunk is owed one.
func (f *Reader) Chunk(buf []byte) (int, error) {
	f.Accept(KindChunk)
	_, n, err := f.next()
	if err == nil && (n == 0 || n > len(buf)) {
		err = capabilities.Errorf(capabilities.CodeInvalidRequest, "chunk of %d bytes where at most %d are due", n, len(buf))
	}
	if err == nil {
		_, err = io.ReadFull(f.r, buf[:n])
	}
	if err != nil {
		return 0, noEOF(err)
	}
	return n, nil
}

// WriteChunk sends one chunk of 1 to MaxChunk bytes, which are not copied here.
func WriteChunk(w io.Writer, chunk []byte) error {
	if len(chunk) == 0 || len(chunk) > MaxChunk {
		return capabilities.Errorf(capabilities.CodeInternal, "a chunk has 1 to %d bytes", MaxChunk)
	}
	return WriteBlobs(w, [][]byte{chunk})
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
