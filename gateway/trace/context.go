package trace

import (
	"encoding/hex"
	"math/rand/v2"
)

// ID and SpanID name a trace and a span in it. The zero values name none.
type (
	ID     [16]byte
	SpanID [8]byte
)

// Context is a place in a trace, as W3C's traceparent says it. The zero value is none.
type Context struct {
	Trace   ID
	Span    SpanID
	Sampled bool // whoever began the trace wants it told
}

// Exists reports whether there is such a place.
func (c Context) Exists() bool { return c.Trace != ID{} }

// traceparent, version 00: https://www.w3.org/TR/trace-context/#traceparent-header
//
//	00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
//	└┬ └──────────────┬───────────────┘ └──────┬───────┘ └┬
//	version       trace ID                  span ID     flags: bit 0 is Sampled
const parentLength = 2 + 1 + 32 + 1 + 16 + 1 + 2

// Parse reads a traceparent. One that is not as the standard has it is as good as none. A later
// version may add to the end.
func Parse(text string) Context {
	if len(text) < parentLength || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return Context{}
	}
	var version, flags [1]byte
	var c Context
	for _, field := range [...]struct {
		to   []byte
		from string
	}{{version[:], text[:2]}, {c.Trace[:], text[3:35]}, {c.Span[:], text[36:52]}, {flags[:], text[53:55]}} {
		if !lowerHex(field.from) {
			return Context{}
		}
		_, _ = hex.Decode(field.to, []byte(field.from))
	}
	longer := len(text) > parentLength
	if version[0] == 0xff || version[0] == 0 && longer || longer && text[parentLength] != '-' || c.Trace == (ID{}) || c.Span == (SpanID{}) {
		return Context{}
	}
	c.Sampled = flags[0]&1 == 1
	return c
}

func lowerHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// String returns the traceparent; empty for none.
func (c Context) String() string {
	if !c.Exists() {
		return ""
	}
	flags := "00"
	if c.Sampled {
		flags = "01"
	}
	return "00-" + hex.EncodeToString(c.Trace[:]) + "-" + hex.EncodeToString(c.Span[:]) + "-" + flags
}

// Place is where a call's own span stands.
type Place struct {
	Context
	Above SpanID // of the caller's; zero: the call begins the trace
}

// Below returns a new place below c, in c's trace; below none it begins a trace, which is told.
func Below(c Context) Place {
	if !c.Exists() {
		return Place{Context: Context{Trace: newID(), Span: newSpanID(), Sampled: true}}
	}
	return Place{Context: Context{Trace: c.Trace, Span: newSpanID(), Sampled: c.Sampled}, Above: c.Span}
}

// IDs tell spans apart and are no secrets, so they need not be hard to guess.
func newID() (id ID) {
	for id == (ID{}) {
		put(id[:8], rand.Uint64())
		put(id[8:], rand.Uint64())
	}
	return id
}

func newSpanID() (id SpanID) {
	for id == (SpanID{}) {
		put(id[:], rand.Uint64())
	}
	return id
}

func put(to []byte, n uint64) {
	for i := range to {
		to[i] = byte(n >> (8 * i))
	}
}
