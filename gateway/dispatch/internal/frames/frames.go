package frames

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Bounds of the pictures that are remembered for questions.
const (
	maxFrameBytes = 4 << 20
	maxFramesSize = 32 << 20
	frameMemory   = 10 * time.Minute
)

// Frames are those pictures. The zero value is empty. All methods are safe for concurrent use.
type Frames struct {
	mu    sync.Mutex
	kept  []frame // the oldest first
	bytes int
}

type frame struct {
	node  capabilities.NodeID
	id    string
	image []byte
	at    time.Time
}

// Keep remembers the picture of a result that has one under a frame_id.
func (f *Frames) Keep(node capabilities.NodeID, r *capabilities.Result, now time.Time) {
	at := slices.IndexFunc(r.Blobs, func(b capabilities.Blob) bool { return strings.HasPrefix(b.MIME, "image/") })
	if r.Status != capabilities.StatusOK || node == "" || at < 0 || len(r.Blobs[at].Bytes) > maxFrameBytes {
		return
	}
	var named struct {
		ID string `json:"frame_id"`
	}
	if json.Unmarshal(r.Output, &named) != nil || named.ID == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropLocked(now)
	f.kept = append(f.kept, frame{node, named.ID, r.Blobs[at].Bytes, now})
	f.bytes += len(r.Blobs[at].Bytes)
	for f.bytes > maxFramesSize {
		f.firstLocked()
	}
}

// Get returns the picture of that ID; nil if it is not remembered.
func (f *Frames) Get(node capabilities.NodeID, id string, now time.Time) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropLocked(now)
	for i := len(f.kept) - 1; i >= 0; i-- {
		if k := &f.kept[i]; k.node == node && k.id == id {
			return k.image
		}
	}
	return nil
}

// Drop forgets what is old.
func (f *Frames) Drop(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropLocked(now)
}

func (f *Frames) dropLocked(now time.Time) {
	for len(f.kept) > 0 && now.Sub(f.kept[0].at) > frameMemory {
		f.firstLocked()
	}
}

func (f *Frames) firstLocked() {
	f.bytes -= len(f.kept[0].image)
	f.kept[0] = frame{}
	f.kept = f.kept[1:]
}
