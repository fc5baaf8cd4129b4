package frames

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

func shot(id string, size int) *capabilities.Result {
	return &capabilities.Result{
		Status: capabilities.StatusOK, Output: []byte(`{"frame_id":"` + id + `"}`),
		Blobs: []capabilities.Blob{{Field: "bytesBase64", MIME: "image/png", Bytes: bytes.Repeat([]byte(id[:1]), size)}},
	}
}

// A picture is there under its node and its ID, for a while, and within bounds.
func TestPicturesAreRememberedForAWhile(t *testing.T) {
	var f Frames
	now := time.Now()
	f.Keep("n1", shot("a", 10), now)
	f.Keep("n1", shot("a", 11), now) // the ID is used again: the last counts
	f.Keep("n2", shot("b", 10), now)
	failed := shot("c", 10)
	failed.Status = capabilities.StatusError
	f.Keep("n1", failed, now)
	f.Keep("n1", shot("d", maxFrameBytes+1), now)
	f.Keep("", shot("e", 10), now)
	f.Keep("n1", &capabilities.Result{Status: capabilities.StatusOK, Output: []byte(`{}`), Blobs: shot("f", 10).Blobs}, now)
	for name, c := range map[string]struct {
		node capabilities.NodeID
		id   string
		size int
	}{
		"there": {"n1", "a", 11}, "another node's": {"n1", "b", 0}, "of a failure": {"n1", "c", 0}, "too large": {"n1", "d", 0},
		"of no node": {"", "e", 0}, "without an ID": {"n1", "", 0},
	} {
		if got := f.Get(c.node, c.id, now); len(got) != c.size {
			t.Errorf("%s: %d bytes, want %d", name, len(got), c.size)
		}
	}
	if got := f.Get("n1", "a", now.Add(frameMemory+time.Second)); got != nil {
		t.Error("never forgotten")
	}

	for i := range 2 * maxFramesSize / maxFrameBytes {
		f.Keep("n1", shot(fmt.Sprint(i), maxFrameBytes), now)
	}
	if f.bytes > maxFramesSize || len(f.kept) > maxFramesSize/maxFrameBytes {
		t.Errorf("%d bytes in %d pictures", f.bytes, len(f.kept))
	}
	f.Drop(now.Add(frameMemory + time.Second))
	if f.bytes != 0 || len(f.kept) != 0 {
		t.Errorf("%d bytes in %d pictures after their time", f.bytes, len(f.kept))
	}
}
