package artifact

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
)

// file is a sealed file in memory.
type file struct{ data []byte }

func (f *file) WriteAt(p []byte, at int64) (int, error) {
	if end := int(at) + len(p); end > len(f.data) {
		f.data = append(f.data, make([]byte, end-len(f.data))...)
	}
	return copy(f.data[at:], p), nil
}

func (f *file) ReadAt(p []byte, at int64) (int, error) {
	return bytes.NewReader(f.data).ReadAt(p, at)
}

func box(t testing.TB, name string) *Box {
	t.Helper()
	b, err := NewBox(bytes.Repeat([]byte{3}, KeySize), name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func content(size int) []byte {
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	return data
}

// seal returns the sealed form of data and its manifest.
func seal(t testing.TB, b *Box, data []byte) (*file, Manifest) {
	t.Helper()
	f, h, buf := new(file), NewHasher(), NewBuffer()
	for i := range Chunks(int64(len(data))) {
		chunk := data[i*ChunkSize:][:ChunkLen(int64(len(data)), i)]
		h.Add(chunk)
		if err := b.WriteChunk(f, i, chunk, buf); err != nil {
			t.Fatal(err)
		}
	}
	return f, h.Manifest()
}

var sizes = []int{0, 1, ChunkSize - 1, ChunkSize, ChunkSize + 1, 2*ChunkSize + 12345}

func TestSealAndRead(t *testing.T) {
	b := box(t, "one")
	for _, size := range sizes {
		data := content(size)
		f, m := seal(t, b, data)
		if err := m.Check(); err != nil || int64(len(f.data)) != SealedSize(int64(size)) {
			t.Fatalf("%d: %v, %d at rest", size, err, len(f.data))
		}
		if err := iotest.TestReader(NewReader(b, f, int64(size)), data); err != nil {
			t.Errorf("%d: %v", size, err)
		}
		if size > 32 && bytes.Contains(f.data, data[:32]) {
			t.Errorf("%d: clear at rest", size)
		}
	}
}

// Every way of getting at other bytes than those that were sealed is an error.
func TestChangedAtRest(t *testing.T) {
	data := content(2*ChunkSize + 100)
	b := box(t, "one")
	for name, change := range map[string]func(f *file){
		"a bit": func(f *file) { f.data[SealedChunk+5000] ^= 1 },
		"chunks swap": func(f *file) {
			f.data = append(append(bytes.Clone(f.data[SealedChunk:2*SealedChunk]), f.data[:SealedChunk]...), f.data[2*SealedChunk:]...)
		},
		"cut":        func(f *file) { f.data = f.data[:2*SealedChunk] },
		"cut inside": func(f *file) { f.data = f.data[:len(f.data)-1] },
		"another's":  func(f *file) { other, _ := seal(t, box(t, "two"), data); f.data = other.data },
	} {
		f, _ := seal(t, b, data)
		change(f)
		got, err := io.ReadAll(NewReader(b, f, int64(len(data))))
		if err == nil {
			t.Errorf("%s: read %d bytes", name, len(got))
		}
		if !bytes.HasPrefix(data, got) {
			t.Errorf("%s: other bytes were given out", name)
		}
	}
}

func TestManifest(t *testing.T) {
	data := content(ChunkSize + 7)
	_, m := seal(t, box(t, "one"), data)
	if m.CheckChunk(0, data[:ChunkSize]) != nil || m.CheckChunk(1, data[ChunkSize:]) != nil {
		t.Error("its own chunks are refused")
	}
	for name, err := range map[string]error{
		"another place": m.CheckChunk(1, data[:7]), "no place": m.CheckChunk(2, nil), "before the first": m.CheckChunk(-1, nil),
		"shorter": m.CheckChunk(0, data[:10]), "empty": m.CheckChunk(1, nil),
	} {
		if !errors.Is(err, ErrChunk) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []Manifest{{Size: -1}, {Size: 1}, {Size: 1, Hashes: make([]byte, 33)}, {Size: int64(MaxChunks)*ChunkSize + 1}} {
		if bad.Check() == nil {
			t.Errorf("%+v passes", bad.Size)
		}
	}
}

func TestSeek(t *testing.T) {
	r := NewReader(box(t, "one"), new(file), 10)
	for _, c := range []struct {
		offset int64
		whence int
		want   int64
	}{{4, io.SeekStart, 4}, {2, io.SeekCurrent, 6}, {-1, io.SeekEnd, 9}, {5, io.SeekEnd, 15}, {-20, io.SeekEnd, -1}, {0, 9, -1}} {
		got, err := r.Seek(c.offset, c.whence)
		if (err != nil) != (c.want < 0) || err == nil && got != c.want {
			t.Errorf("%+v: %d, %v", c, got, err)
		}
	}
}

// FuzzSealed: what does not open is nothing, what opens is what was sealed.
func FuzzSealed(f *testing.F) {
	b := box(f, "one")
	f.Add(b.Seal(nil, 0, []byte("chunk")), 0)
	f.Add(b.Seal(nil, 1, []byte("chunk")), 0)
	f.Add(b.SealHead([]byte("head")), 0)
	f.Add([]byte{}, 3)
	f.Add(make([]byte, Overhead), 0)
	f.Fuzz(func(t *testing.T, sealed []byte, i int) {
		plain, err := b.Open(nil, i, sealed)
		if err != nil && plain != nil {
			t.Fatalf("bytes came with %v", err)
		}
		if err == nil && len(plain) != len(sealed)-Overhead {
			t.Fatalf("%d bytes of %d", len(plain), len(sealed))
		}
	})
}
