package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/handrail-dev/handrail/capabilities/sse"
)

// maxEvent bounds one event, in bytes.
const maxEvent = 4 << 20

// Event is something that happened.
type Event struct {
	Name string // call, approval, grant, node, packet or mark
	// Seq is the ledger's sequence number, to go on after; 0 for what is not
	// in the ledger: the coming and going of nodes, and marks.
	Seq  uint64
	Data json.RawMessage // a Packet, or who came or went, or where calls act on what one watches
}

// ErrEventTooLarge says that an event is larger than this package reads.
var ErrEventTooLarge = errors.New("an event is larger than 4 MiB")

// Events calls fn with what happens after the ledger's sequence number after (0: from now on) until
// ctx ends, fn returns an error, or the gateway ends the stream, which is io.EOF: call it again
// with the last Seq. began, if not nil, is called once the stream is open: from then on nothing is
// missed.
func (c *Client) Events(ctx context.Context, after uint64, began func() error, fn func(Event) error) error {
	from := ""
	if after > 0 {
		from = strconv.FormatUint(after, 10)
	}
	body, err := c.Open(ctx, http.MethodGet, Query(Path("events"), "after", from), nil)
	if err != nil {
		return err
	}
	defer body.Close()
	if began != nil {
		if err := began(); err != nil {
			return err
		}
	}
	err = readEvents(body, fn)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// readEvents reads a gateway's events.
func readEvents(r io.Reader, fn func(Event) error) error {
	var own error
	err := sse.Read(r, maxEvent, func(e sse.Event) error {
		if e.Name == "" || !json.Valid(e.Data) {
			return nil
		}
		seq, _ := strconv.ParseUint(e.ID, 10, 64) // another's stream has other IDs
		own = fn(Event{e.Name, seq, json.RawMessage(bytes.Clone(e.Data))})
		return own
	})
	switch {
	case own != nil:
		return own
	case errors.Is(err, sse.ErrTooLarge):
		return ErrEventTooLarge
	}
	return io.EOF // also of a connection that broke: both go on after the last Seq
}
