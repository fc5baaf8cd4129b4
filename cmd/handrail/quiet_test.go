package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// A full disk is said once a minute of each kind of event; everything else as ever.
func TestAFullDiskIsSaidOnce(t *testing.T) {
	var out bytes.Buffer
	h := newQuiet(slog.NewTextHandler(&out, nil))
	full := capabilities.Wrap(capabilities.CodeLedgerUnavailable, errors.New("no space left on device"), "")
	at := time.Now()
	say := func(h slog.Handler, message string, err error) {
		r := slog.NewRecord(at, slog.LevelError, message, 0)
		r.AddAttrs(slog.Int("n", 1), slog.Any("err", err))
		if err := h.Handle(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
	for range 1000 {
		say(h, "tools.dispatch.unrecorded", full)
		say(h.WithAttrs([]slog.Attr{slog.String("call", "c1")}), "tools.dispatch.unrecorded", full)
		say(h, "store.disk.full", full)
	}
	for range 3 {
		say(h, "tools.dispatch.unrecorded", errors.New("something else"))
	}
	lines := func() map[string]int {
		n := map[string]int{}
		for line := range strings.Lines(out.String()) {
			switch {
			case strings.Contains(line, "something else"):
				n["else"]++
			case strings.Contains(line, "unrecorded"):
				n["unrecorded"]++
			case strings.Contains(line, "store.disk.full"):
				n["full"]++
			}
		}
		return n
	}
	if n := lines(); n["else"] != 3 || n["unrecorded"] != 1 || n["full"] != 1 {
		t.Errorf("%v", n)
	}
	at = at.Add(quietFor)
	say(h, "tools.dispatch.unrecorded", full)
	if n := lines(); n["unrecorded"] != 2 || !strings.Contains(out.String(), "left_out=1999") {
		t.Errorf("%v\n%s", n, out.String())
	}
}
