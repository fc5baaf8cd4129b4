package canonical

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/handrail-dev/handrail/capabilities"
)

// Limits bounds what a document may cost. The zero value of a field means its
// default.
type Limits struct {
	MaxBytes  int // size of the input; default 1 MiB
	MaxDepth  int // nesting of arrays and objects; default 64
	MaxValues int // values in all, members included; default 32,768
	// Foreign admits what third parties' data may hold and orders may not: keys
	// of one object that differ only in letter case, and numbers past ±2⁵³ as
	// far as a double holds them exactly as written. For results; never for
	// arguments.
	Foreign bool
}

const (
	defaultMaxBytes  = 1 << 20
	defaultMaxDepth  = 64
	defaultMaxValues = 1 << 15
)

func (l Limits) withDefaults() Limits {
	if l.MaxBytes <= 0 {
		l.MaxBytes = defaultMaxBytes
	}
	if l.MaxDepth <= 0 {
		l.MaxDepth = defaultMaxDepth
	}
	if l.MaxValues <= 0 {
		l.MaxValues = defaultMaxValues
	}
	return l
}

// Parse reads one strict JSON document and returns its canonical bytes. An error is
// CodeInvalidRequest and names the JSON pointer of the trouble.
func Parse(data []byte, limits Limits) ([]byte, error) {
	v, err := Decode(data, limits)
	if err != nil {
		return nil, err
	}
	return v.Append(make([]byte, 0, len(data)+8)), nil
}

// Marshal returns the canonical bytes of a Go value, which is encoded as
// encoding/json does it. An integer that a double cannot hold exactly is an
// error, never rounded.
func Marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInvalidRequest, err,
			fmt.Sprintf("a %T cannot be written as JSON", v))
	}
	if data := bytes.TrimSuffix(buf.Bytes(), []byte("\n")); plain(data) {
		return data, nil
	}
	// Our own value: its size is already spent, so only depth stays bounded.
	return Parse(buf.Bytes(), Limits{MaxBytes: buf.Len() + 1, MaxValues: buf.Len() + 1, Foreign: true})
}
