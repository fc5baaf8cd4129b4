package spool

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/artifact"
	"github.com/handrail-dev/handrail/pairing"
)

// Options of Open; required unless a default is named.
type Options struct {
	Dir string // the spool's own folder, made if it is not there
	// KeyFile holds the key that everything is sealed with; made if it is not there.
	// Lost, everything in the spool is lost, and nothing else.
	KeyFile string
	Quota   int64            // bytes on the disk in all; default 4 GiB
	TTL     time.Duration    // how long an artifact waits for the gateway; default 1 h
	Log     *slog.Logger     // default: discards
	Now     func() time.Time // default time.Now
}

// Spool keeps artifacts. All methods are safe for concurrent use.
type Spool struct {
	opts Options
	key  []byte
	root *os.Root

	mu   sync.Mutex
	used int64            // bytes on the disk, with what is being written
	busy map[string]int64 // files that writers hold, with what each has taken
}

// Suffixes of the files. An artifact is committed once its head is there.
const (
	bodySuffix = ".body" // sealed chunks
	headSuffix = ".head" // sealed manifest
	partSuffix = ".part" // of a writer, or half a head: dropped at the start
)

// Open opens the spool and clears away what a crash left half done.
func Open(o Options) (*Spool, error) {
	if o.Dir == "" || o.KeyFile == "" {
		return nil, errors.New("spool: Dir and KeyFile are required")
	}
	if o.Quota <= 0 {
		o.Quota = 4 << 30
	}
	if o.TTL <= 0 {
		o.TTL = time.Hour
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	key, err := loadKey(o.KeyFile)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(o.Dir)
	if err != nil {
		return nil, err
	}
	s := &Spool{opts: o, key: key, root: root, busy: map[string]int64{}}
	if err := s.Sweep(); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return s, nil
}

// Close lets go of the folder. Its contents stay.
func (s *Spool) Close() error { return s.root.Close() }

func loadKey(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	switch {
	case err == nil && len(data) == artifact.KeySize:
		return data, nil
	case err == nil:
		return nil, fmt.Errorf("%s does not hold %d bytes", path, artifact.KeySize)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	key := make([]byte, artifact.KeySize)
	rand.Read(key) // never fails
	return key, pairing.SaveFile(path, key)
}

// nameOf is the file name of a call's artifact: digits only, whatever the call is.
func nameOf(call capabilities.CallID, id [32]byte) string {
	sum := sha256.Sum256([]byte(call))
	return hex.EncodeToString(sum[:8]) + "-" + hex.EncodeToString(id[:16])
}

// Sweep drops what is older than the TTL and what nobody writes or has committed, and
// counts the rest.
func (s *Spool) Sweep() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir, err := s.root.Open(".")
	if err != nil {
		return err
	}
	entries, err := dir.ReadDir(-1)
	if err = errors.Join(err, dir.Close()); err != nil {
		return err
	}
	s.used = 0
	now := s.opts.Now()
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // gone meanwhile
		}
		name := e.Name()
		if taken, mine := s.busy[name]; mine {
			s.used += taken
			continue
		}
		base, body := strings.CutSuffix(name, bodySuffix)
		orphan := strings.HasSuffix(name, partSuffix)
		if body {
			_, err := s.root.Lstat(base + headSuffix)
			orphan = err != nil
		}
		if orphan || now.Sub(info.ModTime()) > s.opts.TTL {
			if err := s.root.Remove(name); err != nil {
				s.opts.Log.Warn("spool.sweep", "file", name, "err", err)
				s.used += info.Size()
			}
			continue
		}
		s.used += info.Size()
	}
	return nil
}

// reserve takes room for n more bytes of a writer's file.
func (s *Spool) reserve(file string, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used+n > s.opts.Quota {
		return capabilities.Errorf(capabilities.CodeArtifactSpace, "the node keeps at most %d MiB of files that wait for the gateway",
			s.opts.Quota>>20)
	}
	s.used += n
	s.busy[file] += n
	return nil
}

// release ends a writer's hold; dropped frees its room.
func (s *Spool) release(file string, dropped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if dropped {
		s.used -= s.busy[file]
	}
	delete(s.busy, file)
}

// Drop forgets a call's artifact: the gateway has it, or wants it no more.
// Idempotent.
func (s *Spool) Drop(call capabilities.CallID, id [32]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The head first: a body alone is nothing.
	for _, suffix := range []string{headSuffix, bodySuffix} {
		file := nameOf(call, id) + suffix
		info, err := s.root.Lstat(file)
		if err != nil {
			continue
		}
		if err := s.root.Remove(file); err != nil {
			s.opts.Log.Warn("spool.drop", "file", file, "err", err)
			return
		}
		s.used -= info.Size()
	}
}

// Used is how many bytes are on the disk.
func (s *Spool) Used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

func (s *Spool) box(call capabilities.CallID, id [32]byte) (*artifact.Box, error) {
	return artifact.NewBox(s.key, "spool|"+nameOf(call, id))
}

// keyFile is the key's file for a spool at dir.
func keyFile(dir string) string { return filepath.Clean(dir) + ".key" }

// At returns the options of the spool of a node's folder.
func At(nodeDir string) Options {
	dir := filepath.Join(nodeDir, "spool")
	return Options{Dir: dir, KeyFile: keyFile(dir)}
}
