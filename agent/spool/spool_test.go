package spool

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/artifact"
)

func open(t *testing.T, tune func(*Options)) *Spool {
	t.Helper()
	o := At(t.TempDir())
	if tune != nil {
		tune(&o)
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

var spec = capabilities.ArtifactSpec{Name: "a.bin", MIME: "application/octet-stream"}

const most = 64 << 20

func put(t *testing.T, c *Call, data []byte) capabilities.Artifact {
	t.Helper()
	w, err := c.Create(spec)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	a, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func read(t *testing.T, s *Spool, call capabilities.CallID, id capabilities.ArtifactID) ([]byte, error) {
	t.Helper()
	sum, err := id.Sum()
	if err != nil {
		t.Fatal(err)
	}
	m, stored, err := s.Open(call, sum)
	if err != nil {
		return nil, err
	}
	defer stored.Close()
	var out []byte
	for i := range artifact.Chunks(m.Size) {
		chunk, err := stored.Chunk(i)
		if err != nil {
			return nil, err
		}
		if err := m.CheckChunk(i, chunk); err != nil {
			return nil, err
		}
		out = append(out, chunk...)
	}
	return out, nil
}

func gone(err error) bool { return capabilities.CodeOf(err) == capabilities.CodeArtifactUnavailable }

func files(t *testing.T, s *Spool) (names []string, bytes int64) {
	t.Helper()
	entries, err := os.ReadDir(s.opts.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		names, bytes = append(names, e.Name()), bytes+info.Size()
	}
	return names, bytes
}

func TestCommitReadDrop(t *testing.T) {
	s := open(t, nil)
	canary := []byte("canary-4711-canary")
	for _, size := range []int{0, 1, artifact.ChunkSize, 3*artifact.ChunkSize + 5} {
		data := append(bytes.Repeat([]byte{9}, size), canary...)
		call := capabilities.CallID("../../c" + string(rune('a'+size%7)))
		c := s.For(call, most)
		a := put(t, c, data)
		if err := c.Settle([]capabilities.Artifact{a}); err != nil {
			t.Fatal(err)
		}
		got, err := read(t, s, call, a.ID)
		if err != nil || !bytes.Equal(got, data) || a.Size != int64(len(data)) {
			t.Fatalf("%d bytes: %d, %v", size, len(got), err)
		}
		if _, err := read(t, s, "other", a.ID); !gone(err) {
			t.Errorf("another call: %v", err)
		}
		names, onDisk := files(t, s)
		if onDisk != s.Used() {
			t.Errorf("%d bytes on the disk, %d counted", onDisk, s.Used())
		}
		for _, n := range names {
			if b, err := os.ReadFile(filepath.Join(s.opts.Dir, n)); err != nil || bytes.Contains(b, canary) || strings.Contains(n, "..") {
				t.Errorf("%s is clear at rest, or named from outside (%v)", n, err)
			}
		}
		sum, _ := a.ID.Sum()
		s.Drop(call, sum)
		s.Drop(call, sum)
		if _, err := read(t, s, call, a.ID); !gone(err) {
			t.Errorf("dropped: %v", err)
		}
		if names, _ := files(t, s); len(names) != 0 || s.Used() != 0 {
			t.Errorf("%d bytes stay in %v", s.Used(), names)
		}
	}
}

func TestOnlyWhatIsNamedStays(t *testing.T) {
	s := open(t, nil)
	c := s.For("c", most)
	keep, drop := put(t, c, []byte("keep")), put(t, c, []byte("drop"))
	if again := put(t, c, []byte("keep")); again != keep {
		t.Errorf("the same bytes again are %+v", again)
	}
	left, err := c.Create(spec)
	if err != nil {
		t.Fatal(err)
	}
	aborted, err := c.Create(spec)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = aborted.Write(make([]byte, 2*artifact.ChunkSize))
	aborted.Abort()
	aborted.Abort()
	if err := c.Settle([]capabilities.Artifact{keep}); err != nil {
		t.Fatal(err)
	}
	if _, err := left.Write([]byte("late")); err == nil {
		t.Error("a writer outlives its call")
	}
	if _, err := left.Commit(); err == nil {
		t.Error("a late commit counts")
	}
	if _, err := c.Create(spec); err == nil {
		t.Error("a call creates after its end")
	}
	if _, err := read(t, s, "c", drop.ID); !gone(err) {
		t.Errorf("what nobody named: %v", err)
	}
	if names, onDisk := files(t, s); len(names) != 2 || onDisk != s.Used() {
		t.Errorf("%v, %d bytes, %d counted", names, onDisk, s.Used())
	}
	other := s.For("d", most)
	put(t, other, []byte("x"))
	if err := other.Settle([]capabilities.Artifact{keep}); err == nil {
		t.Error("a call may name another's file")
	}
}

func TestBounds(t *testing.T) {
	s := open(t, func(o *Options) { o.Quota = 3 * artifact.SealedChunk })
	code := func(c *Call, spec capabilities.ArtifactSpec, size int) capabilities.Code {
		w, err := c.Create(spec)
		if err != nil {
			return capabilities.CodeOf(err)
		}
		defer w.Abort()
		_, werr := w.Write(make([]byte, size))
		_, err = w.Commit()
		if werr != nil && err == nil {
			t.Error("a part was committed")
		}
		return capabilities.CodeOf(err)
	}
	with := func(change func(*capabilities.ArtifactSpec)) capabilities.ArtifactSpec {
		c := spec
		change(&c)
		return c
	}
	for _, c := range []struct {
		what string
		most int64
		spec capabilities.ArtifactSpec
		size int
		want capabilities.Code
	}{
		{"fits", most, spec, artifact.ChunkSize, ""},
		{"its own limit", most, with(func(s *capabilities.ArtifactSpec) { s.Limit = 10 }), 11, capabilities.CodeResultTooLarge},
		{"the tool's limit", 10, spec, 11, capabilities.CodeResultTooLarge},
		{"a tool that gives none", 0, spec, 1, capabilities.CodeNotSupported},
		{"the quota", most, spec, 3 * artifact.ChunkSize, capabilities.CodeArtifactSpace},
		{"no name", most, with(func(s *capabilities.ArtifactSpec) { s.Name = "" }), 1, capabilities.CodeInternal},
		{"a path", most, with(func(s *capabilities.ArtifactSpec) { s.Name = "../x" }), 1, capabilities.CodeInternal},
		{"no type", most, with(func(s *capabilities.ArtifactSpec) { s.MIME = "x" }), 1, capabilities.CodeInternal},
	} {
		call := s.For(capabilities.CallID(c.what), c.most)
		if got := code(call, c.spec, c.size); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
		if err := call.Settle(nil); err != nil {
			t.Fatal(err)
		}
	}
	if names, _ := files(t, s); len(names) != 0 || s.Used() != 0 {
		t.Errorf("%d bytes stay in %v", s.Used(), names)
	}
}

// A file that a crash left half done is nothing, a committed one is there, and it goes when nobody
// fetches it.
func TestAfterACrash(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	tune := func(o *Options) { *o = At(dir); o.Now = func() time.Time { return now } }
	s := open(t, tune)
	c := s.For("c", most)
	a := put(t, c, []byte("whole"))
	w, err := c.Create(spec)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write(make([]byte, artifact.ChunkSize))
	if err := os.WriteFile(filepath.Join(s.opts.Dir, "0000-1111.body"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	again := open(t, tune) // the process died
	if got, err := read(t, again, "c", a.ID); err != nil || string(got) != "whole" {
		t.Errorf("%q, %v", got, err)
	}
	if names, onDisk := files(t, again); len(names) != 2 || onDisk != again.Used() {
		t.Errorf("%v stay, %d bytes, %d counted", names, onDisk, again.Used())
	}
	now = now.Add(2 * time.Hour)
	if err := again.Sweep(); err != nil {
		t.Fatal(err)
	}
	if _, err := read(t, again, "c", a.ID); !gone(err) || again.Used() != 0 {
		t.Errorf("expired: %v, %d bytes", err, again.Used())
	}
}

func TestChangedOnTheDisk(t *testing.T) {
	s := open(t, nil)
	c := s.For("c", most)
	a := put(t, c, make([]byte, 2*artifact.ChunkSize))
	sum, _ := a.ID.Sum()
	base := filepath.Join(s.opts.Dir, nameOf("c", sum))
	for _, file := range []string{base + bodySuffix, base + headSuffix} {
		was, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		changed := bytes.Clone(was)
		changed[len(changed)/2] ^= 1
		if err := os.WriteFile(file, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := read(t, s, "c", a.ID); !gone(err) {
			t.Errorf("%s: %d bytes, %v", filepath.Ext(file), len(got), err)
		}
		if err := os.WriteFile(file, was, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := read(t, s, "c", a.ID); err != nil {
		t.Error(err)
	}
}

func TestKeyFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "spool.key"), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(At(dir)); err == nil {
		t.Error("a broken key is taken")
	}
	if _, err := Open(Options{}); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
