package e2e

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/artifact"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/test/site"
)

// stored returns the bytes of an artifact as the gateway keeps them.
func stored(t *testing.T, s *site.Site, id capabilities.ArtifactID) []byte {
	t.Helper()
	list, err := s.Artifacts.List(t.Context(), outcome.ArtifactQuery{ID: id})
	must(t, err)
	if len(list) == 0 {
		t.Fatalf("%s is not there", id)
	}
	content, err := s.Artifacts.Open(list[0])
	must(t, err)
	defer content.Close()
	data, err := io.ReadAll(content)
	must(t, err)
	return data
}

// A captured file is there when its call ends, whole and by its hash; small ones fill the field
// they stand for, too.
func TestArtifacts(t *testing.T) {
	t.Parallel()
	s := site.Start(t, site.Options{})
	s.AddNode("one", site.NewHandler())
	for _, size := range []int64{0, 1, artifact.ChunkSize, 5*artifact.ChunkSize + 17} {
		for _, mime := range []string{"", "image/png"} {
			r := s.Call(t.Context(), site.ToolCapture, fmt.Sprintf(`{"text":"a","size":%d,"mime":%q}`, size, mime), "")
			if r.Status != capabilities.StatusOK || len(r.Artifacts) != 1 {
				t.Fatalf("%d: %+v", size, r)
			}
			want, err := io.ReadAll(site.Content("a", size))
			must(t, err)
			a := r.Artifacts[0]
			if a.ID != capabilities.ArtifactIDOf(sha256.Sum256(want)) || a.Size != size || a.Name != "capture.bin" || a.Code != "" {
				t.Errorf("%d: %+v", size, a)
			}
			if got := stored(t, s, a.ID); !bytes.Equal(got, want) {
				t.Errorf("%d: %d other bytes are kept", size, len(got))
			}
			if inline := mime != ""; inline != (len(r.Blobs) == 1) || inline && !bytes.Equal(r.Blobs[0].Bytes, want) {
				t.Errorf("%d %q: %d blobs", size, mime, len(r.Blobs))
			}
		}
	}
	// Asked again under its request ID, the result names the same.
	first := s.Call(t.Context(), site.ToolCapture, `{"text":"b","size":10}`, "r1")
	again := s.Call(t.Context(), site.ToolCapture, `{"text":"b","size":10}`, "r1")
	if len(first.Artifacts) != 1 || len(again.Artifacts) != 1 || again.Artifacts[0] != first.Artifacts[0] || !again.Deduplicated {
		t.Errorf("%+v, then %+v", first, again)
	}
	// The image tool makes none, and a tool that fails leaves none.
	if r := s.Call(t.Context(), site.ToolImage, `{"text":"c","size":10}`, ""); len(r.Artifacts) != 0 || r.Status != capabilities.StatusOK {
		t.Errorf("%+v", r)
	}
}
