package sse

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// read returns the events of a text, and the error that ended it.
func read(text string, most int, whole bool) ([]string, error) {
	var all []string
	r := iotest.OneByteReader(strings.NewReader(text))
	if whole {
		r = strings.NewReader(text)
	}
	err := Read(r, most, func(e Event) error {
		all = append(all, fmt.Sprintf("%s|%s|%s", e.Name, e.ID, e.Data))
		return nil
	})
	return all, err
}

// TestEventsAreReadAsTheStandardSays: line ends, comments, several data lines, a mark at the start,
// unknown fields; what the stream did not end is none. The examples are the standard's.
func TestEventsAreReadAsTheStandardSays(t *testing.T) {
	for text, want := range map[string][]string{
		"data: YHOO\ndata: +2\ndata: 10\n\n":                                             {"||YHOO\n+2\n10"},
		": test stream\n\ndata: first\nid: 1\n\ndata:second event\nid\n\ndata:  third\n": {"|1|first", "||second event"},
		"data\n\ndata\ndata\n\ndata:":                                                    {"||", "||\n"},
		"data:test\n\ndata: test\n\n":                                                    {"||test", "||test"},
		"\ufeffevent: a\r\ndata: b\r\n\r\n":                                              {"a||b"},
		"event: a\rdata: b\r\rdata: c\r\r":                                               {"a||b", "||c"},
		"event: alone\n\nretry: 5\ndata: x\nnope: y\n\n":                                 {"||x"},
		"id: a\x00b\ndata: x\n\n":                                                        {"||x"},
		"data: half":                                                                     nil,
		"":                                                                               nil,
	} {
		for _, whole := range []bool{true, false} {
			if got, err := read(text, 1<<10, whole); err != nil || !slices.Equal(got, want) {
				t.Errorf("%q at once %t: %q, %v; want %q", text, whole, got, err, want)
			}
		}
	}
}

// TestTooLargeIsSaid: a line and an event have a bound, and the reader's error and fn's end it.
func TestTooLargeIsSaid(t *testing.T) {
	for _, text := range []string{"data: " + strings.Repeat("a", 100), strings.Repeat("data: aaaaaaaaa\n", 10) + "\n"} {
		if got, err := read(text, 64, true); !errors.Is(err, ErrTooLarge) || got != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	broken, stop := errors.New("broken"), errors.New("stop")
	if err := Read(iotest.ErrReader(broken), 64, nil); !errors.Is(err, broken) {
		t.Error(err)
	}
	if err := Read(strings.NewReader("data: a\n\n"), 64, func(Event) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
}

// FuzzRead: whatever comes, and however it is cut, is read alike, within the bound, and without
// line ends in names.
func FuzzRead(f *testing.F) {
	f.Add([]byte("event: a\r\ndata: b\ndata: c\r\n\r\n: d\n\nid: 3\ndata:{}\n\n"))
	f.Add([]byte("\ufeffdata\r\rdata: x\n\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		const most = 256
		one, failed := read(string(text), most, true)
		other, alike := read(string(text), most, false)
		if !slices.Equal(one, other) || !errors.Is(alike, failed) {
			t.Fatalf("at once %q, %v; by bytes %q, %v", one, failed, other, alike)
		}
		_ = Read(bytes.NewReader(text), most, func(e Event) error {
			if len(e.Data) > most || strings.ContainsAny(e.Name+e.ID, "\r\n") {
				t.Fatalf("%+v", e)
			}
			return nil
		})
	})
}
