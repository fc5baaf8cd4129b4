package fronttest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"path/filepath"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/artifact"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/gateway/store"
)

// shelf is real artifacts with a plain ledger entry for each use.
type shelf struct {
	*outcome.Artifacts
	f *Front
}

// Artifacts makes a real store of artifacts, and who may have which.
func (f *Front) Artifacts() *front.Artifacts {
	f.t.Helper()
	kept, err := outcome.OpenArtifacts(outcome.ArtifactOptions{
		Store: f.Store, Dir: filepath.Join(f.t.TempDir(), "artifacts"), Key: bytes.Repeat([]byte{1}, artifact.KeySize), Now: f.Clock.Now,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = kept.Close() })
	return &front.Artifacts{Store: shelf{kept, f}, Tools: f.Dispatcher}
}

// MustKeep keeps data as an artifact and returns its ID.
func (f *Front) MustKeep(a *front.Artifacts, k outcome.Kept, data []byte) capabilities.ArtifactID {
	f.t.Helper()
	h := artifact.NewHasher()
	var chunks [][]byte
	for rest := data; len(rest) > 0; {
		n := min(len(rest), artifact.ChunkSize)
		h.Add(rest[:n])
		chunks, rest = append(chunks, rest[:n]), rest[n:]
	}
	k.ID, k.Size = capabilities.ArtifactIDOf(sha256.Sum256(data)), int64(len(data))
	in, err := a.Store.(shelf).Receive(context.Background(), k)
	if err != nil {
		f.t.Fatal(err)
	}
	defer in.Close(true)
	_, err = in.Begin(h.Manifest())
	for i, c := range chunks {
		if err == nil {
			err = in.Chunk(i, c)
		}
	}
	if err == nil {
		err = in.Finish(context.Background())
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return k.ID
}

// Read records it.
func (s shelf) Read(ctx context.Context, by capabilities.PrincipalID, k outcome.Kept) error {
	return s.f.Ledger.Append(ctx, ledger.Draft{Kind: ledger.KindArtifactRead, Call: k.Call, Principal: by})
}

// Remove removes and records.
func (s shelf) Remove(ctx context.Context, by capabilities.PrincipalID, list []outcome.Kept) error {
	return s.f.Store.Write(ctx, func(tx *store.Tx) error {
		for _, k := range list {
			if _, err := s.RemoveIn(tx, k.Call, k.ID); err != nil {
				return err
			}
			if _, err := s.f.Ledger.AppendIn(tx, ledger.Draft{Kind: ledger.KindArtifactRemoved, Call: k.Call, Principal: by}); err != nil {
				return err
			}
		}
		return nil
	})
}
