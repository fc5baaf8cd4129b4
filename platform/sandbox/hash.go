package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// hashes are those of programs' files, each read anew when it is another file. The zero value has
// none.
type hashes struct {
	mu    sync.Mutex // above what follows
	known map[string]hashed
}

type hashed struct {
	info os.FileInfo
	sum  string
}

// same reports whether a file is the one that was read, as it was then.
func (h hashed) same(now os.FileInfo) bool {
	return os.SameFile(h.info, now) && h.info.Size() == now.Size() && h.info.ModTime().Equal(now.ModTime())
}

// maxHashes bounds the files that are remembered, maxHashed the bytes of one that is read.
const (
	maxHashes = 256
	maxHashed = 1 << 30
)

// settled is how long ago a file must have been changed to be remembered: one that changes again at
// once may look the same.
const settled = 2 * time.Second

// Hash returns the hash of a program's file, looked up as Start does: "sha256:" and hexadecimal. ""
// if it cannot be read.
func (s *Sandbox) Hash(program string) string {
	path, err := exec.LookPath(program)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return ""
	}
	return s.hashes.of(path)
}

func (h *hashes) of(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxHashed {
		return ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if was, ok := h.known[path]; ok && was.same(info) {
		return was.sum
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return ""
	}
	text := "sha256:" + hex.EncodeToString(sum.Sum(nil))
	if h.known == nil || len(h.known) >= maxHashes {
		h.known = map[string]hashed{}
	}
	if time.Since(info.ModTime()) > settled {
		h.known[path] = hashed{info, text}
	}
	return text
}
