package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Event is one event. Its bytes are the reader's own until the next.
type Event struct {
	Name string // empty: message
	ID   string // of this event; empty if it named none
	Data []byte
}

// ErrTooLarge says that a line or an event is larger than the caller reads.
var ErrTooLarge = errors.New("sse: an event is too large")

// Read calls fn with each event until the stream ends, which is no error, or until fn returns one.
// No line and no event's data is larger than most bytes.
func Read(r io.Reader, most int, fn func(Event) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, min(16<<10, most)), most)
	lines.Split(line())
	var e Event
	first, has := true, false
	for lines.Scan() {
		text := lines.Bytes()
		if first {
			text, first = bytes.TrimPrefix(text, []byte("\ufeff")), false
		}
		if len(text) == 0 {
			if has {
				if err := fn(e); err != nil {
					return err
				}
			}
			e, has = Event{Data: e.Data[:0]}, false
			continue
		}
		field, value, _ := bytes.Cut(text, []byte(":")) // a comment's field has no name
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			e.Name = string(value)
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				e.ID = string(value)
			}
		case "data":
			if len(e.Data)+len(value)+1 > most {
				return ErrTooLarge
			}
			if has {
				e.Data = append(e.Data, '\n')
			}
			e.Data, has = append(e.Data, value...), true
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return ErrTooLarge
	}
	return lines.Err()
}

// line returns what cuts lines, which end by CR, LF or both. A CR ends its line at once, since more
// may come only much later.
func line() bufio.SplitFunc {
	afterCR := false
	return func(data []byte, atEnd bool) (int, []byte, error) {
		skip := 0
		if afterCR && len(data) > 0 {
			if data[0] == '\n' {
				skip = 1
			}
			afterCR = false
		}
		rest := data[skip:]
		if i := bytes.IndexAny(rest, "\r\n"); i >= 0 {
			afterCR = rest[i] == '\r'
			return skip + i + 1, rest[:i], nil
		}
		if atEnd && len(rest) > 0 {
			return len(data), rest, nil
		}
		return skip, nil, nil
	}
}
