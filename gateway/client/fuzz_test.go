package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
)

// An event is whole and its data is JSON, whatever a stream holds.
func FuzzEvents(f *testing.F) {
	f.Add([]byte(": hello\n\nid: 7\nevent: call\ndata: {\"seq\":7}\n\nevent: node\ndata: {\n\n"))
	f.Add([]byte("event: call\r\ndata: 1\r\n\r\nevent: x\ndata: [1,\ndata: 2]\n\nid: z\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		count := 0
		err := readEvents(bytes.NewReader(text), func(e Event) error {
			count++
			if e.Name == "" || !json.Valid(e.Data) {
				t.Fatalf("%+v", e)
			}
			return nil
		})
		if !errors.Is(err, io.EOF) && !errors.Is(err, ErrEventTooLarge) {
			t.Fatal(err)
		}
		if ends := bytes.Count(text, []byte("\n")); count > ends {
			t.Fatalf("%d events in %d lines", count, ends)
		}
	})
}
