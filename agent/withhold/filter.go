package withhold

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
)

// Filter takes values out of what a program says that was given them: whole, in the forms that
// are common. Parts of them stay, for what a program does with a value nobody else can tell. A nil
// Filter changes nothing. It is safe for concurrent use.
type Filter struct{ all []*forms }

// NewFilter makes one for some values.
func NewFilter(values ...capabilities.Secret) *Filter {
	f := &Filter{}
	for _, v := range values {
		f.all = append(f.all, &forms{whole: formsOf(v).whole})
	}
	return f
}

// Text returns s without the values.
func (f *Filter) Text(s string) string {
	if f != nil {
		for _, one := range f.all {
			s = string(one.replace([]byte(s), nil))
		}
	}
	return s
}

// Bytes returns data without the values.
func (f *Filter) Bytes(data []byte) []byte {
	if f != nil {
		for _, one := range f.all {
			data = one.replace(data, nil)
		}
	}
	return data
}

// Cut returns data that was cut somewhere, at either end, without the values: what stands there may
// be the most of one.
func (f *Filter) Cut(data []byte) []byte {
	data = f.Bytes(data)
	if f == nil {
		return data
	}
	begin, end := 0, 0 // the longest parts of values at the edges
	for _, one := range f.all {
		for _, form := range one.whole {
			for n := min(len(form)-1, len(data)); n >= leastPiece && n > end; n-- {
				if bytes.HasSuffix(data, form[:n]) {
					end = n
				}
			}
			for n := min(len(form)-1, len(data)); n >= leastPiece && n > begin; n-- {
				if bytes.HasPrefix(data, form[len(form)-n:]) {
					begin = n
				}
			}
		}
	}
	return mark(data, slices.DeleteFunc([]span{{0, begin}, {len(data) - end, len(data)}}, func(s span) bool { return s.begin == s.end }))
}

// JSON returns a JSON text without the values.
func (f *Filter) JSON(data json.RawMessage) json.RawMessage {
	if f != nil {
		for _, one := range f.all {
			data = one.replaceJSON(data, nil)
		}
	}
	return data
}

// Output returns a call's result without the values; the error says that it cannot be had so.
func (f *Filter) Output(out capabilities.Output) (capabilities.Output, error) {
	if f == nil || len(f.all) == 0 {
		return out, nil
	}
	out.Evidence = f.Text(out.Evidence)
	if out.Result != nil {
		data, err := json.Marshal(out.Result)
		if err != nil {
			return capabilities.Output{Effect: out.Effect}, capabilities.AsError(err)
		}
		out.Result = f.JSON(data)
	}
	blobs := make([]capabilities.Blob, len(out.Blobs))
	for i, b := range out.Blobs {
		b.Bytes = f.Bytes(b.Bytes)
		blobs[i] = b
	}
	out.Blobs = blobs
	return out, nil
}

// Error returns an error whose public words do not hold the values; its cause is gone.
func (f *Filter) Error(err error) error {
	var e *capabilities.Error
	if err == nil || f == nil || len(f.all) == 0 || !errors.As(err, &e) {
		return err
	}
	clean := &capabilities.Error{Code: e.Code, Message: f.Text(e.Message), Hint: f.Text(e.Hint), Action: e.Action, Passing: e.Passing}
	if e.Details != nil {
		if data, err := json.Marshal(e.Details); err == nil {
			clean.Details = f.JSON(data)
		}
	}
	return clean
}
