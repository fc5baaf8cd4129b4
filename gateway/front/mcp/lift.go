package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/gateway/trace"
)

// The SDK encodes a result from the inside out, and each of three layers walks the
// bytes of the one below once more: 40 ns for each byte of an image, 12 ms for one of
// 300 KB, and half of what the whole encoding of a small result takes. So what is more
// than a few words is lifted out of the result, a mark put in its place, and set in
// again where the message is written, encoded once.
//
// A mark is 24 random bytes, made after the content around it, so nobody can have
// put one there.

// liftFrom is from what size on a part of a result is lifted, in bytes: a mark has 34,
// and making one costs as much as encoding some 50.
const liftFrom = 128

// lifted is one part: JSON as it stands, or bytes that go as base64 in a string.
type lifted struct {
	mark []byte // the mark as the JSON string that holds the part's place
	json []byte
	blob []byte
}

// posted is a POST under way, as its calls find it by postedHeader.
type posted struct {
	//lint:ignore containedctx the life of the request
	gone   context.Context // ends with the request; nil: the SDK sees to it
	answer *answer
	alone  bool // it belongs to no session
	came   time.Time
	trace  trace.Context // of its caller
}

// postedOf returns the POST that a request of the SDK came with; nil if it has none.
func (s *Server) postedOf(extra *sdk.RequestExtra) *posted {
	if extra == nil {
		return nil
	}
	if id := extra.Header[postedHeader]; len(id) == 1 {
		if v, ok := s.posts.Load(id[0]); ok {
			return v.(*posted)
		}
	}
	return nil
}

// lift takes large parts out of a result that goes out by a.
func (a *answer) lift(out *sdk.CallToolResult) {
	if meta, ok := out.Meta[metaCall].(callMeta); ok {
		if raw, err := json.Marshal(&meta); err == nil {
			out.Meta[metaCall] = a.liftJSON(raw)
		}
	}
	if raw, ok := out.StructuredContent.(json.RawMessage); ok && len(raw) >= liftFrom && oneLine(raw) {
		out.StructuredContent = a.liftJSON(raw)
	}
	for _, c := range out.Content {
		switch c := c.(type) {
		case *sdk.TextContent:
			if len(c.Text) < liftFrom {
				continue
			}
			if text, err := quote(c.Text); err == nil {
				c.Text = a.liftJSON(text)
			}
		case *sdk.ImageContent:
			a.liftBlob(&c.Data)
		case *sdk.AudioContent:
			a.liftBlob(&c.Data)
		case *sdk.EmbeddedResource:
			a.liftBlob(&c.Resource.Blob)
		}
	}
}

// oneLine reports whether raw JSON may stand in an event as it is.
func oneLine(raw []byte) bool { return !bytes.ContainsAny(raw, "\r\n") }

// quote returns s as a JSON string; a "<" in it stays one byte.
func quote(s string) ([]byte, error) {
	if utf8.ValidString(s) {
		return canonical.AppendString(make([]byte, 0, len(s)+len(s)/4+2), s), nil
	}
	var b bytes.Buffer
	b.Grow(len(s) + len(s)/8)
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(s)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// liftJSON returns the text to put in place of a value.
func (a *answer) liftJSON(value []byte) string {
	mark, _ := newMark()
	a.keep(lifted{mark: mark, json: value})
	return string(mark[1 : len(mark)-1])
}

// liftBlob puts a mark in place of bytes that go as base64.
func (a *answer) liftBlob(data *[]byte) {
	if len(*data) < liftFrom {
		return
	}
	mark, raw := newMark()
	a.keep(lifted{mark: mark, blob: *data})
	*data = raw
}

// newMark returns a mark as a JSON string, and the bytes whose base64 it is.
func newMark() (quoted, raw []byte) {
	raw = make([]byte, 24)
	rand.Read(raw) // never fails
	quoted = append(quoted, '"')
	quoted = base64.StdEncoding.AppendEncode(quoted, raw)
	return append(quoted, '"'), raw
}

func (a *answer) keep(l lifted) {
	a.mu.Lock()
	a.lifted = append(a.lifted, l)
	a.mu.Unlock()
}

// whole is a message with its lifted parts where they belong.
type whole struct {
	pieces []lifted // mark is unused; a piece has json or blob
	size   int
}

// whole finds the lifted parts that belong into p. Each is used once.
func (a *answer) whole(p []byte) (w whole) {
	a.mu.Lock()
	defer a.mu.Unlock()
	add := func(l lifted) {
		w.pieces = append(w.pieces, l)
		w.size += len(l.json)
		if l.blob != nil {
			w.size += 2 + base64.StdEncoding.EncodedLen(len(l.blob))
		}
	}
	for len(a.lifted) > 0 {
		next, at := -1, len(p)
		for i := range a.lifted {
			if n := bytes.Index(p[:at], a.lifted[i].mark); n >= 0 {
				next, at = i, n
			}
		}
		if next < 0 {
			break
		}
		l := a.lifted[next]
		a.lifted = slices.Delete(a.lifted, next, next+1)
		add(lifted{json: p[:at]})
		add(l)
		p = p[at+len(l.mark):]
	}
	add(lifted{json: p})
	return w
}

// chunk is how many bytes are encoded as base64 at a time: a multiple of three.
const chunk = 48 << 10

// writeTo writes it all.
func (w *whole) writeTo(to io.Writer) error {
	var buf []byte
	for _, l := range w.pieces {
		if l.blob == nil {
			if _, err := to.Write(l.json); err != nil {
				return err
			}
			continue
		}
		buf = append(buf[:0], '"')
		for blob := l.blob; ; {
			n := min(len(blob), chunk)
			buf = base64.StdEncoding.AppendEncode(buf, blob[:n])
			if blob = blob[n:]; len(blob) == 0 {
				buf = append(buf, '"')
			}
			if _, err := to.Write(buf); err != nil {
				return err
			}
			if buf = buf[:0]; len(blob) == 0 {
				break
			}
		}
	}
	return nil
}
