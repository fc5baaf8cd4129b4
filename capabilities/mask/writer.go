package mask

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode/utf8"
)

// MaxLine bounds a line that a Writer takes, in bytes.
const MaxLine = 8 << 20

// The reasons for which a Writer takes no more.
var (
	ErrLine = errors.New("mask: a line is too long to be masked")
	ErrText = errors.New("mask: it is no text in UTF-8")
)

// Texts reports whether what has a MIME type is text, which can be masked.
func Texts(mime string) bool {
	mime, _, _ = strings.Cut(strings.ToLower(mime), ";")
	mime = strings.TrimSpace(mime)
	return strings.HasPrefix(mime, "text/") || strings.HasSuffix(mime, "+json") || strings.HasSuffix(mime, "+xml") ||
		mime == "application/json" || mime == "application/xml" || mime == "application/x-ndjson" || mime == "application/yaml"
}

// Writer masks a text on its way to another writer. It is not safe for concurrent use.
type Writer struct {
	to     io.Writer
	line   []byte
	counts Counts
	failed error
}

// NewWriter makes one. Its Close writes the last line, and closes nothing.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to, counts: Counts{}} }

// Write takes a part of the text.
func (w *Writer) Write(p []byte) (int, error) {
	for rest := p; w.failed == nil && len(rest) > 0; {
		i := bytes.IndexByte(rest, '\n') + 1
		if i == 0 {
			i = len(rest)
		}
		if len(w.line)+i > MaxLine {
			w.failed = ErrLine
			break
		}
		w.line = append(w.line, rest[:i]...)
		if rest[i-1] == '\n' {
			w.flush()
		}
		rest = rest[i:]
	}
	if w.failed != nil {
		return 0, w.failed
	}
	return len(p), nil
}

func (w *Writer) flush() {
	if !utf8.Valid(w.line) {
		w.failed = ErrText
		return
	}
	masked, counts := Text(string(w.line))
	w.counts.Add(counts)
	w.line = w.line[:0]
	_, w.failed = io.WriteString(w.to, masked)
}

// Close masks and writes the last line.
func (w *Writer) Close() error {
	if w.failed == nil && len(w.line) > 0 {
		w.flush()
	}
	return w.failed
}

// Counts are how many of each kind were masked so far.
func (w *Writer) Counts() Counts { return w.counts }
