package opencalls

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/gateway/store"
)

const (
	// ResultMemory is how long a result is kept, sealed, for a retry.
	ResultMemory = time.Hour
	keptKind     = "result"
	argsKind     = "replay arguments"
)

// keptHeader is the sealed form of a result:
//
//	uint32 BE length | header as JSON | the blobs' bytes, one after the other
type keptHeader struct {
	Result capabilities.Result `json:"result"`
	Sizes  []int               `json:"sizes,omitempty"`
}

// KeepIn keeps r for retries under the same request ID. A result too large to
// be kept is as good as expired.
func (b *Book) KeepIn(tx *store.Tx, call capabilities.CallID, r *capabilities.Result) error {
	data, err := Pack(r)
	if err != nil {
		return err
	}
	err = b.opts.Outcomes.PutIn(tx, call, keptKind, data, ResultMemory)
	if errors.Is(err, &capabilities.Error{Code: capabilities.CodeResultTooLarge}) {
		return nil
	}
	return err
}

// Kept returns what KeepIn kept, or CodeResultExpired.
func (b *Book) Kept(ctx context.Context, call capabilities.CallID) (*capabilities.Result, error) {
	return KeptBy(ctx, b.opts.Outcomes, call)
}

// KeptBy is Kept for who has the outcomes alone.
func KeptBy(ctx context.Context, outcomes *outcome.Store, call capabilities.CallID) (*capabilities.Result, error) {
	data, err := outcomes.Get(ctx, call, keptKind)
	if err != nil {
		return nil, err
	}
	return Unpack(data)
}

// KeepArgsIn keeps the arguments of a call, as its caller sent them, for as long as results are
// kept: by them it can be run again.
func (b *Book) KeepArgsIn(tx *store.Tx, call capabilities.CallID, args []byte) error {
	err := b.opts.Outcomes.PutIn(tx, call, argsKind, args, ResultMemory)
	if errors.Is(err, &capabilities.Error{Code: capabilities.CodeResultTooLarge}) {
		return nil
	}
	return err
}

// KeptArgs returns what KeepArgsIn kept, or CodeResultExpired.
func (b *Book) KeptArgs(ctx context.Context, call capabilities.CallID) ([]byte, error) {
	return b.opts.Outcomes.Get(ctx, call, argsKind)
}

// Pack returns r, blobs and all, as bytes.
func Pack(r *capabilities.Result) ([]byte, error) {
	h := keptHeader{Result: *r}
	total := 0
	for _, b := range r.Blobs {
		h.Sizes = append(h.Sizes, len(b.Bytes))
		total += len(b.Bytes)
	}
	header, err := json.Marshal(h)
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	data := make([]byte, 4, 4+len(header)+total)
	binary.BigEndian.PutUint32(data, uint32(len(header)))
	data = append(data, header...)
	for _, b := range r.Blobs {
		data = append(data, b.Bytes...)
	}
	return data, nil
}

var errKept = errors.New("a kept result cannot be read")

// Unpack reads what Pack wrote.
func Unpack(data []byte) (*capabilities.Result, error) {
	if len(data) < 4 || uint64(binary.BigEndian.Uint32(data)) > uint64(len(data)-4) {
		return nil, capabilities.Wrap(capabilities.CodeInternal, errKept, "")
	}
	n := int(binary.BigEndian.Uint32(data))
	var h keptHeader
	if err := json.Unmarshal(data[4:4+n], &h); err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	rest := data[4+n:]
	if len(h.Sizes) != len(h.Result.Blobs) {
		return nil, capabilities.Wrap(capabilities.CodeInternal, errKept, "")
	}
	for i, size := range h.Sizes {
		if size < 0 || size > len(rest) {
			return nil, capabilities.Wrap(capabilities.CodeInternal, errKept, "")
		}
		h.Result.Blobs[i].Bytes, rest = rest[:size:size], rest[size:]
	}
	h.Result.Duration = time.Duration(h.Result.DurationMS * float64(time.Millisecond))
	return &h.Result, nil
}
