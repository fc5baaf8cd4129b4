package outcome

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/artifact"
)

func openArtifacts(t *testing.T, tune func(*ArtifactOptions)) *Artifacts {
	t.Helper()
	o := ArtifactOptions{
		Store: openStore(t, filepath.Join(t.TempDir(), "store.db")), Dir: filepath.Join(t.TempDir(), "artifacts"), Key: bytes.Repeat([]byte{5}, artifact.KeySize),
	}
	if tune != nil {
		tune(&o)
	}
	a, err := OpenArtifacts(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// cut returns data as a node would: its manifest, and its chunks.
func cut(data []byte) (artifact.Manifest, [][]byte) {
	h := artifact.NewHasher()
	var chunks [][]byte
	for rest := data; len(rest) > 0; {
		n := min(len(rest), artifact.ChunkSize)
		h.Add(rest[:n])
		chunks, rest = append(chunks, rest[:n]), rest[n:]
	}
	return h.Manifest(), chunks
}

func kept(call capabilities.CallID, data []byte) Kept {
	return Kept{Artifact: capabilities.Artifact{ID: capabilities.ArtifactIDOf(sha256.Sum256(data)), Name: "secret-name.bin", MIME: "a/b", Size: int64(len(data))},
		Call: call, Principal: "p", Lane: "l", Node: "n", Tool: "t"}
}

// feed sends chunks from where Begin says, at most so many.
func feed(in *Incoming, data []byte, most int) (from int, err error) {
	m, chunks := cut(data)
	if from, err = in.Begin(m); err != nil {
		return from, err
	}
	for i := from; i < len(chunks) && i < from+most; i++ {
		if err := in.Chunk(i, chunks[i]); err != nil {
			return from, err
		}
	}
	return from, nil
}

func keep(t *testing.T, a *Artifacts, call capabilities.CallID, data []byte) {
	t.Helper()
	in, err := a.Receive(t.Context(), kept(call, data))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close(true)
	if _, err := feed(in, data, 1<<20); err != nil {
		t.Fatal(err)
	}
	if err := in.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func bytesOf(t *testing.T, a *Artifacts, q ArtifactQuery) ([]byte, bool) {
	t.Helper()
	list, err := a.List(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		return nil, false
	}
	c, err := a.Open(list[0])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	data, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return data, true
}

// An artifact that is cut again and again, over processes, ends whole; before that it
// is not there, and at rest nothing of it is clear.
func TestGoesOnAfterACut(t *testing.T) {
	a := openArtifacts(t, nil)
	data := bytes.Repeat([]byte("canary-4711-"), artifact.ChunkSize/2)
	_, chunks := cut(data)
	froms := 0
	for step := 0; ; step++ {
		in, err := a.Receive(t.Context(), kept("c", data))
		if err != nil {
			t.Fatal(err)
		}
		from, err := feed(in, data, 2)
		if err != nil {
			t.Fatal(err)
		}
		if from != min(2*step, len(chunks)) {
			t.Errorf("step %d goes on at %d", step, from)
		}
		froms += from
		if from+2 >= len(chunks) {
			if err := in.Finish(t.Context()); err != nil {
				t.Fatal(err)
			}
			in.Close(true)
			break
		}
		if err := in.Finish(t.Context()); err == nil {
			t.Fatal("a part is whole")
		}
		in.Close(false)
		if _, there := bytesOf(t, a, ArtifactQuery{}); there {
			t.Fatal("a part is listed")
		}
	}
	if got, there := bytesOf(t, a, ArtifactQuery{Call: "c"}); !there || !bytes.Equal(got, data) || froms == 0 {
		t.Errorf("%d other bytes", len(got))
	}
	again, err := a.Receive(t.Context(), kept("c", data))
	if err != nil || !again.Done() {
		t.Errorf("what is there is asked for again: %v", err)
	}
	again.Close(true)
	for _, dir := range []string{a.opts.Dir, filepath.Dir(storePath(t, a))} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			b, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil || bytes.Contains(b, []byte("canary-4711-")) || bytes.Contains(b, []byte("secret-name")) {
				t.Errorf("%s holds it in clear (%v)", e.Name(), err)
			}
		}
	}
}

func storePath(t *testing.T, a *Artifacts) string {
	t.Helper()
	var n int
	var name, path string
	if err := a.opts.Store.Read().QueryRow("PRAGMA database_list").Scan(&n, &name, &path); err != nil {
		t.Fatal(err)
	}
	return path
}

// Other bytes than those named never become the artifact, whatever a node sends.
func TestHostileNode(t *testing.T) {
	a := openArtifacts(t, nil)
	data, other := bytes.Repeat([]byte{1}, 2*artifact.ChunkSize), bytes.Repeat([]byte{2}, 2*artifact.ChunkSize)
	m, chunks := cut(data)
	foreign, foreignChunks := cut(other)
	mixed := m
	mixed.Hashes = append(bytes.Clone(m.Hashes[:32]), foreign.Hashes[32:]...) // its ID stays that of data
	for name, try := range map[string]func(in *Incoming) error{
		"another ID":   func(in *Incoming) error { _, err := in.Begin(foreign); return err },
		"another size": func(in *Incoming) error { short := m; short.Size--; _, err := in.Begin(short); return err },
		"other bytes": func(in *Incoming) error {
			_, err := in.Begin(m)
			return errors.Join(err, in.Chunk(0, foreignChunks[0]))
		},
		"another order": func(in *Incoming) error { _, err := in.Begin(m); return errors.Join(err, in.Chunk(1, chunks[1])) },
		"hashes that fit other bytes": func(in *Incoming) error {
			_, err := in.Begin(mixed)
			if err := errors.Join(err, in.Chunk(0, chunks[0]), in.Chunk(1, foreignChunks[1])); err != nil {
				t.Fatal(err)
			}
			return in.Finish(context.Background())
		},
	} {
		in, err := a.Receive(t.Context(), kept("c", data))
		if err != nil {
			t.Fatal(err)
		}
		if err := try(in); capabilities.CodeOf(err) != capabilities.CodeArtifactUnavailable {
			t.Errorf("%s: %v", name, err)
		}
		in.Close(true)
		if _, there := bytesOf(t, a, ArtifactQuery{}); there {
			t.Fatalf("%s: it is there", name)
		}
	}
	if entries, err := os.ReadDir(a.opts.Dir); err != nil || len(entries) != 0 {
		t.Errorf("%v stay, %v", entries, err)
	}
}

func TestArtifactQuotaAndExpiry(t *testing.T) {
	c := newClock()
	a := openArtifacts(t, func(o *ArtifactOptions) { o.Now = c.now; o.Quota = 3 * artifact.SealedChunk; o.TTL = time.Hour })
	chunk := func(b byte) []byte { return bytes.Repeat([]byte{b}, artifact.ChunkSize) }
	for i := range byte(4) {
		keep(t, a, capabilities.CallID(rune('a'+i)), chunk(i))
		c.add(time.Minute)
	}
	list, err := a.List(t.Context(), ArtifactQuery{})
	if err != nil || len(list) != 3 || list[0].Call != "d" || list[2].Call != "b" || list[0].Name != "secret-name.bin" {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := a.Receive(t.Context(), kept("big", make([]byte, 4*artifact.ChunkSize))); capabilities.CodeOf(err) != capabilities.CodeArtifactSpace {
		t.Errorf("larger than the quota: %v", err)
	}
	first, err := a.Receive(t.Context(), kept("x", make([]byte, 2*artifact.ChunkSize)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Receive(t.Context(), kept("x", make([]byte, 2*artifact.ChunkSize))); capabilities.CodeOf(err) != capabilities.CodeConflict {
		t.Errorf("twice at once: %v", err)
	}
	if _, err := a.Receive(t.Context(), kept("y", make([]byte, 2*artifact.ChunkSize))); capabilities.CodeOf(err) != capabilities.CodeArtifactSpace {
		t.Errorf("more on the way than there is room: %v", err)
	}
	first.Close(true)
	c.add(2 * time.Hour)
	if _, there := bytesOf(t, a, ArtifactQuery{}); there {
		t.Error("given out after it expired")
	}
	if err := a.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(a.opts.Dir); err != nil || len(entries) != 0 {
		t.Errorf("%v stay, %v", entries, err)
	}
}
