package artifact

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"golang.org/x/crypto/chacha20poly1305"
)

// KeySize is the size of a key that boxes are made of.
const KeySize = chacha20poly1305.KeySize

// Overhead is what sealing adds to a chunk.
const Overhead = chacha20poly1305.NonceSizeX + chacha20poly1305.Overhead

// SealedChunk is the size of a whole chunk at rest.
const SealedChunk = ChunkSize + Overhead

// A sealed file is its chunks, one after the other:
//
//	nonce(24) | XChaCha20-Poly1305(chunk) with tag(16) | nonce(24) | …
//
// Each is bound to its place and to the name that its Box was made for, so that
// neither a chunk nor a file can stand for another. Nonces are random: a chunk that
// is written anew, after a cut, never meets its old one.

// Box seals the chunks of one artifact. Safe for concurrent use.
type Box struct {
	aead cipher.AEAD
	name string
}

// DeriveKey makes a key for one purpose of a longer-lived one.
func DeriveKey(master []byte, purpose string) ([]byte, error) {
	return hkdf.Key(sha256.New, master, nil, purpose, KeySize)
}

// NewBox makes a Box for what is known by name, with a key of KeySize bytes.
func NewBox(key []byte, name string) (*Box, error) {
	aead, err := chacha20poly1305.NewX(key)
	if err != nil {
		return nil, fmt.Errorf("artifact: a key has %d bytes", KeySize)
	}
	return &Box{aead: aead, name: name}, nil
}

func (b *Box) bind(place uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte("handrail artifact 1|"+b.name+"|"), place)
}

// Seal appends the sealed form of chunk i to dst.
func (b *Box) Seal(dst []byte, i int, chunk []byte) []byte { return b.seal(dst, uint64(i), chunk) }

// Open appends the bytes of chunk i to dst.
func (b *Box) Open(dst []byte, i int, sealed []byte) ([]byte, error) {
	return b.open(dst, uint64(i), sealed)
}

// head is a place that no chunk has.
const head = ^uint64(0)

// SealHead and OpenHead are for what is known about an artifact beside its bytes.
func (b *Box) SealHead(data []byte) []byte { return b.seal(nil, head, data) }

// OpenHead returns what SealHead sealed.
func (b *Box) OpenHead(sealed []byte) ([]byte, error) { return b.open(nil, head, sealed) }

func (b *Box) seal(dst []byte, place uint64, data []byte) []byte {
	var nonce [chacha20poly1305.NonceSizeX]byte
	rand.Read(nonce[:]) // never fails
	return b.aead.Seal(append(dst, nonce[:]...), nonce[:], data, b.bind(place))
}

var errSealed = errors.New("artifact: sealed bytes are too short")

func (b *Box) open(dst []byte, place uint64, sealed []byte) ([]byte, error) {
	if len(sealed) < Overhead {
		return nil, errSealed
	}
	return b.aead.Open(dst, sealed[:chacha20poly1305.NonceSizeX], sealed[chacha20poly1305.NonceSizeX:], b.bind(place))
}

// SealedSize is how large the sealed form of an artifact is.
func SealedSize(size int64) int64 { return size + int64(Chunks(size))*Overhead }

// Buffer holds a chunk and its sealed form.
type Buffer struct{ Plain, sealed []byte }

// NewBuffer makes one that never grows.
func NewBuffer() *Buffer {
	return &Buffer{Plain: make([]byte, 0, ChunkSize), sealed: make([]byte, 0, SealedChunk)}
}

// ReadChunk reads chunk i of an artifact of that size into buf.Plain.
func (b *Box) ReadChunk(f io.ReaderAt, size int64, i int, buf *Buffer) error {
	n := ChunkLen(size, i) + Overhead
	buf.sealed = buf.sealed[:n]
	if _, err := f.ReadAt(buf.sealed, int64(i)*SealedChunk); err != nil {
		return err
	}
	var err error
	buf.Plain, err = b.Open(buf.Plain[:0], i, buf.sealed)
	return err
}

// WriteChunk seals data as chunk i and writes it to its place; data may be buf.Plain.
func (b *Box) WriteChunk(f io.WriterAt, i int, data []byte, buf *Buffer) error {
	buf.sealed = b.Seal(buf.sealed[:0], i, data)
	_, err := f.WriteAt(buf.sealed, int64(i)*SealedChunk)
	return err
}

// Reader reads an artifact from its sealed form, at any place of it. Not safe for
// concurrent use.
type Reader struct {
	box  *Box
	file io.ReaderAt
	size int64
	at   int64
	buf  *Buffer
	have int // the chunk in buf; -1: none
}

// NewReader makes a Reader of an artifact of that size.
func NewReader(box *Box, file io.ReaderAt, size int64) *Reader {
	return &Reader{box: box, file: file, size: size, buf: NewBuffer(), have: -1}
}

// Size is the artifact's size.
func (r *Reader) Size() int64 { return r.size }

// Read implements io.Reader. Bytes that were changed at rest are an error, never
// given out.
func (r *Reader) Read(p []byte) (int, error) {
	if r.at >= r.size {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	i := int(r.at / ChunkSize)
	if i != r.have {
		r.have = -1
		if err := r.box.ReadChunk(r.file, r.size, i, r.buf); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // a file that was cut off is not an end
			}
			return 0, err
		}
		r.have = i
	}
	n := copy(p, r.buf.Plain[r.at-int64(i)*ChunkSize:])
	r.at += int64(n)
	return n, nil
}

var errSeek = errors.New("artifact: no such place")

// Seek implements io.Seeker.
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.size
	default:
		return 0, errSeek
	}
	if offset < 0 {
		return 0, errSeek
	}
	r.at = offset
	return offset, nil
}
