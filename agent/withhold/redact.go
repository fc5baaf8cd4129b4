package withhold

import (
	"bytes"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// Text gives s without the values that are kept back from this call.
func (c *Call) Text(s string) string {
	for _, h := range c.seen() {
		s = string(h.forms.replace([]byte(s)))
	}
	return s
}

// Answer takes the values out of every text of a. It reports whether it changed
// what the tool gave.
func (c *Call) Answer(a *wire.Answer) (changed bool) {
	for _, h := range c.seen() {
		text := func(s *string) { *s = string(h.forms.replace([]byte(*s))) }
		text(&a.Message)
		text(&a.Hint)
		text(&a.Evidence)
		for i := range a.Observed {
			text(&a.Observed[i].Detail)
		}
		if len(a.Details) > 0 {
			a.Details = h.forms.replaceJSON(a.Details)
		}
		if len(a.Output) > 0 {
			clean := h.forms.replaceJSON(a.Output)
			changed = changed || !bytes.Equal(clean, a.Output)
			a.Output = clean
		}
	}
	return changed
}

// Blobs gives what of a call's bytes may leave: no picture, and texts without the
// values. The error says why nothing may.
func (c *Call) Blobs(blobs []capabilities.Blob) ([]capabilities.Blob, *capabilities.Error) {
	if len(blobs) == 0 {
		return blobs, nil
	}
	seen := c.seen()
	if len(seen) == 0 {
		return blobs, nil
	}
	out := make([]capabilities.Blob, len(blobs))
	for i, b := range blobs {
		// Nobody reads a picture here, so none leaves; nor does what is packed.
		if kind, _, _ := strings.Cut(b.MIME, "/"); kind == "image" || kind == "video" || strings.HasPrefix(b.MIME, "application/pdf") {
			return nil, &capabilities.Error{Code: capabilities.CodeSecretHeld}
		}
		for _, h := range seen {
			b.Bytes = h.forms.replace(b.Bytes)
		}
		out[i] = b
	}
	return out, nil
}
