package runner

import (
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/mask"
)

// masks reports whether personal data is taken out of what the call returns (S1-17).
func (s *started) masks() bool { return slices.Contains(s.t.Grants, capabilities.KeyMasked) }

// masked takes personal data out of an answer and the bytes that go with it. Bytes that are no
// text cannot be masked, and so the call that returns some fails.
func (s *started) masked(o *output) {
	a := &o.answer
	counts := mask.Counts{}
	text := func(to *string) {
		clean, found := mask.Text(*to)
		counts.Add(found)
		*to = clean
	}
	text(&a.Message)
	text(&a.Hint)
	text(&a.Evidence)
	for _, to := range []*[]byte{&a.Output, &a.Details} {
		if len(*to) == 0 {
			continue
		}
		clean, found, err := mask.JSON(*to, s.tool.Personal())
		if err != nil { // it would be refused for what it is
			clean = nil
		}
		counts.Add(found)
		*to = clean
	}
	if a.Status == capabilities.StatusOK {
		if e := s.maskedBytes(o, counts); e != nil {
			refused := refusal(e)
			refused.Effect, refused.Isolation, refused.Observed, refused.Lost, refused.Ran = a.Effect, a.Isolation, a.Observed, a.Lost, a.Ran
			*a = refused
		}
	}
	a.Masks, a.Masked = true, 0
	for _, n := range counts {
		a.Masked += uint32(n)
	}
}

func (s *started) maskedBytes(o *output, counts mask.Counts) *capabilities.Error {
	for i, b := range o.given.Blobs {
		if !mask.Texts(b.MIME) {
			return unmaskable(b.MIME)
		}
		clean, found := mask.Text(string(b.Bytes))
		counts.Add(found)
		o.given.Blobs[i].Bytes = []byte(clean)
	}
	if bad := s.tool.ValidateResult(o.answer.Output); len(bad) > 0 {
		return capabilities.Errorf(capabilities.CodeNotSupported, "The result does not fit its schema without the personal data at %s.",
			bad[0].Path)
	}
	return nil
}

func unmaskable(mime string) *capabilities.Error {
	return capabilities.Errorf(capabilities.CodeNotSupported, "This call returns texts without personal data only, and %.64q is no text.",
		mime).
		WithHint("Ask the admin whether the tool needs data.access.pii_masked.")
}

// maskedSpool keeps artifacts of texts, without personal data.
type maskedSpool struct{ capabilities.ArtifactSpool }

func (m maskedSpool) Create(spec capabilities.ArtifactSpec) (capabilities.ArtifactWriter, error) {
	if !mask.Texts(spec.MIME) {
		return nil, unmaskable(spec.MIME)
	}
	spec.Name, _ = mask.Text(spec.Name)
	w, err := m.ArtifactSpool.Create(spec)
	if err != nil {
		return nil, err
	}
	return &maskedWriter{w, mask.NewWriter(w)}, nil
}

// maskedWriter is an artifact's writer behind a mask.
type maskedWriter struct {
	capabilities.ArtifactWriter
	mask *mask.Writer
}

func (w *maskedWriter) Write(p []byte) (int, error) { return w.mask.Write(p) }

func (w *maskedWriter) Commit() (capabilities.Artifact, error) {
	if err := w.mask.Close(); err != nil {
		return capabilities.Artifact{}, capabilities.Wrap(capabilities.CodeNotSupported, err,
			"The file cannot be given without personal data: it is no text, or has too long a line.")
	}
	return w.ArtifactWriter.Commit()
}
