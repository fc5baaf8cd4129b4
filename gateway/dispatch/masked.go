package dispatch

import (
	"encoding/json"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/mask"
	"github.com/handrail-dev/handrail/gateway/opencalls"
)

// has reports whether the call was granted a key. Of a call of an earlier process its tool's
// declaration stands for the grants: both keys that are asked for say what becomes of a result.
func (c *openCall) has(key string) bool {
	if c.sealed != nil {
		return slices.Contains(c.sealed.Grants, key)
	}
	return c.desc != nil && c.desc.Manifest.Has(key)
}

// masked takes personal data out of a result where the call's key wants it, and returns how often
// that was done, by the node before and here (S1-17). A node masks its own; what a satellite or
// the gateway itself carried out is masked here. nil: nothing was wanted.
func (c *openCall) masked(r *capabilities.Result, e *opencalls.End) *int64 {
	if !c.has(capabilities.KeyMasked) {
		return nil
	}
	n := int64(e.Answer.Masked)
	count := func(found mask.Counts) {
		for _, k := range found {
			n += int64(k)
		}
	}
	for _, to := range []*string{&r.Message, &r.Hint, &r.Evidence} {
		clean, found := mask.Text(*to)
		count(found)
		*to = clean
	}
	if len(r.Output) > 0 && c.desc != nil {
		clean, found, err := mask.JSON(r.Output, c.desc.Personal())
		count(found)
		if err != nil || len(found) > 0 && len(c.desc.ValidateResult(clean)) > 0 {
			*r = c.failure(capabilities.Errorf(capabilities.CodeNotSupported, "The result does not fit its schema without the personal data in it."))
			return &n
		}
		r.Output = clean
	}
	if details, ok := r.Details.(json.RawMessage); ok {
		clean, found, err := mask.JSON(details, nil)
		count(found)
		if r.Details = json.RawMessage(clean); err != nil {
			r.Details = nil
		}
	}
	for i, b := range r.Blobs {
		if !mask.Texts(b.MIME) {
			*r = c.failure(
				capabilities.Errorf(capabilities.CodeNotSupported, "This call returns texts without personal data only, and %.64q is no text.", b.MIME))
			return &n
		}
		clean, found := mask.Text(string(b.Bytes))
		count(found)
		r.Blobs[i].Bytes = []byte(clean)
	}
	return &n
}
