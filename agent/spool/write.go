package spool

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/artifact"
)

// Call is the spool as one call has it. Safe for concurrent use.
type Call struct {
	spool *Spool
	call  capabilities.CallID
	most  int64 // bytes of all its artifacts together

	mu      sync.Mutex
	taken   int64
	kept    map[capabilities.ArtifactID]capabilities.Artifact
	writers map[*writer]bool
	ended   bool
}

// For returns the spool to one call, whose artifacts have at most that many bytes
// together. The caller ends it with Settle.
func (s *Spool) For(call capabilities.CallID, most int64) *Call {
	return &Call{spool: s, call: call, most: most, kept: map[capabilities.ArtifactID]capabilities.Artifact{}, writers: map[*writer]bool{}}
}

// Create implements capabilities.ArtifactSpool.
func (c *Call) Create(spec capabilities.ArtifactSpec) (capabilities.ArtifactWriter, error) {
	if err := checkSpec(spec); err != nil {
		return nil, err
	}
	if c.most <= 0 {
		return nil, capabilities.Errorf(capabilities.CodeNotSupported, "this tool returns no files")
	}
	limit := min(c.most, capabilities.MaxArtifact)
	if spec.Limit > 0 {
		limit = min(limit, spec.Limit)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil, capabilities.Errorf(capabilities.CodeInternal, "the call has ended")
	}
	if len(c.kept)+len(c.writers) >= capabilities.MaxArtifacts {
		return nil, capabilities.Errorf(capabilities.CodeResultTooLarge, "a call returns at most %d files", capabilities.MaxArtifacts)
	}
	var token [12]byte
	rand.Read(token[:]) // never fails
	name := hex.EncodeToString(token[:]) + partSuffix
	// Sealed under a name of its own until the content, and with it the ID, is known.
	box, err := artifact.NewBox(c.spool.key, "spool|"+name)
	if err != nil {
		return nil, err
	}
	if err := c.spool.reserve(name, 0); err != nil {
		return nil, err
	}
	f, err := c.spool.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		c.spool.release(name, true)
		return nil, capabilities.Wrap(capabilities.CodeArtifactSpace, err, "")
	}
	w := &writer{call: c, spec: spec, limit: limit, name: name, file: f, box: box, hasher: artifact.NewHasher(), buf: artifact.NewBuffer()}
	c.writers[w] = true
	return w, nil
}

func checkSpec(spec capabilities.ArtifactSpec) error {
	switch {
	case spec.Name == "" || len(spec.Name) > capabilities.MaxArtifactName || !utf8.ValidString(spec.Name) ||
		strings.ContainsAny(spec.Name, "/\\\x00"):
		return capabilities.Errorf(capabilities.CodeInternal, "an artifact's name is a plain file name of at most %d bytes",
			capabilities.MaxArtifactName)
	case spec.MIME == "" || len(spec.MIME) > 128 || !strings.Contains(spec.MIME, "/"):
		return capabilities.Errorf(capabilities.CodeInternal, "an artifact's media type is such as image/jpeg")
	case len(spec.Field) > 64:
		return capabilities.Errorf(capabilities.CodeInternal, "an artifact's field has at most 64 bytes")
	}
	return nil
}

// Settle ends the call's part: what keep names stays for the gateway, all else is
// dropped, writers that were left open too. The error says that keep names something
// that was not committed; then nothing stays.
func (c *Call) Settle(keep []capabilities.Artifact) error {
	c.mu.Lock()
	c.ended = true
	open := c.writers
	c.writers = map[*writer]bool{}
	c.mu.Unlock()
	for w := range open {
		w.drop()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	drop := c.kept
	c.kept = nil
	var err error
	for _, a := range keep {
		if have, ok := drop[a.ID]; !ok || have != a {
			err = capabilities.Errorf(capabilities.CodeInternal, "the tool names a file that it did not commit")
			break
		}
	}
	if err == nil {
		for _, a := range keep {
			delete(drop, a.ID)
		}
	}
	for id := range drop {
		if sum, bad := id.Sum(); bad == nil {
			c.spool.Drop(c.call, sum)
		}
	}
	return err
}

// reserve counts n more bytes of the call.
func (c *Call) reserve(n int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken+n > c.most {
		return false
	}
	c.taken += n
	return true
}

// writer implements capabilities.ArtifactWriter.
type writer struct {
	call   *Call
	spec   capabilities.ArtifactSpec
	limit  int64
	name   string // of the file until Commit
	box    *artifact.Box
	hasher *artifact.Hasher
	buf    *artifact.Buffer

	mu    sync.Mutex // Settle may drop it while the handler still writes
	file  *os.File   // nil once it ended
	at    int        // the chunk that buf collects
	size  int64
	limbo error // why it takes nothing more
}

var errEnded = capabilities.Errorf(capabilities.CodeInternal, "the file has ended")

func (w *writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.file == nil:
		return 0, errEnded
	case w.limbo != nil:
		return 0, w.limbo
	case w.size+int64(len(p)) > w.limit || !w.call.reserve(int64(len(p))):
		w.limbo = capabilities.Errorf(capabilities.CodeResultTooLarge, "the file would have more than %d bytes", w.limit)
		return 0, w.limbo
	}
	took := 0
	for len(p) > 0 {
		free := artifact.ChunkSize - len(w.buf.Plain)
		n := min(free, len(p))
		w.buf.Plain = append(w.buf.Plain, p[:n]...)
		p = p[n:]
		if len(w.buf.Plain) == artifact.ChunkSize {
			if w.limbo = w.flush(); w.limbo != nil {
				return took, w.limbo
			}
		}
		took += n
		w.size += int64(n)
	}
	return took, nil
}

// flush seals the chunk that was collected and writes it.
func (w *writer) flush() error {
	if err := w.call.spool.reserve(w.name, int64(len(w.buf.Plain)+artifact.Overhead)); err != nil {
		return err
	}
	if err := w.box.WriteChunk(w.file, w.at, w.buf.Plain, w.buf); err != nil {
		return capabilities.Wrap(capabilities.CodeArtifactSpace, err, "")
	}
	w.hasher.Add(w.buf.Plain)
	w.buf.Plain = w.buf.Plain[:0]
	w.at++
	return nil
}

// stored is the sealed head of an artifact.
type stored struct {
	Call   capabilities.CallID `json:"call"`
	ID     capabilities.ArtifactID
	Size   int64
	Hashes []byte
	Box    string // the name that the body is sealed under
}

func (w *writer) Commit() (capabilities.Artifact, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return capabilities.Artifact{}, errEnded
	}
	a, err := w.commitLocked()
	if err != nil {
		w.dropLocked()
		return capabilities.Artifact{}, err
	}
	return a, nil
}

func (w *writer) commitLocked() (capabilities.Artifact, error) {
	var none capabilities.Artifact
	if w.limbo != nil {
		return none, w.limbo // a part is not the whole
	}
	if len(w.buf.Plain) > 0 {
		if err := w.flush(); err != nil {
			return none, err
		}
	}
	s, m := w.call.spool, w.hasher.Manifest()
	a := capabilities.Artifact{ID: capabilities.ArtifactIDOf(m.ID), Name: w.spec.Name, MIME: w.spec.MIME, Size: m.Size, Field: w.spec.Field}
	w.call.mu.Lock()
	defer w.call.mu.Unlock()
	if w.call.ended {
		return none, errEnded
	}
	delete(w.call.writers, w)
	if have, twice := w.call.kept[a.ID]; twice {
		// The same bytes again: one artifact, as it was first named.
		w.dropLocked()
		return have, nil
	}
	head, err := json.Marshal(stored{Call: w.call.call, ID: a.ID, Size: m.Size, Hashes: m.Hashes, Box: w.name})
	if err != nil {
		return none, err
	}
	box, err := s.box(w.call.call, m.ID)
	if err != nil {
		return none, err
	}
	sealed := box.SealHead(head)
	if err := s.reserve(w.name, int64(len(sealed))); err != nil {
		return none, err
	}
	if err = w.file.Close(); err == nil { // first: Windows renames no open file
		err = s.commit(w.name, nameOf(w.call.call, m.ID), sealed)
	}
	if err != nil {
		return none, capabilities.Wrap(capabilities.CodeArtifactSpace, err, "")
	}
	w.file = nil
	s.release(w.name, false)
	w.call.kept[a.ID] = a
	return a, nil
}

// commit makes a writer's file an artifact: with the head it is there. Sweep must not
// see the body without.
func (s *Spool) commit(part, base string, head []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	headPart := base + headSuffix + partSuffix
	err := s.root.WriteFile(headPart, head, 0o600)
	if err == nil {
		err = s.root.Rename(part, base+bodySuffix)
	}
	if err == nil {
		err = s.root.Rename(headPart, base+headSuffix)
	}
	if err != nil {
		_ = s.root.Remove(headPart)
		_ = s.root.Remove(base + bodySuffix)
	}
	return err
}

func (w *writer) Abort() {
	w.call.mu.Lock()
	delete(w.call.writers, w)
	w.call.mu.Unlock()
	w.drop()
}

func (w *writer) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropLocked()
}

func (w *writer) dropLocked() {
	if w.file == nil {
		return
	}
	_ = w.file.Close()
	w.file = nil
	_ = w.call.spool.root.Remove(w.name)
	w.call.spool.release(w.name, true)
}
