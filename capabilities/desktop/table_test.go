package desktop

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/platform/fake"
)

// table is a fake desktop and a handler, whose answers are held against the
// catalog and whose observations against the manifest.
type table struct {
	t *testing.T
	d *fake.Desktop
	h *Handler
}

func newTable(t *testing.T, o Options) *table {
	t.Helper()
	d := fake.New()
	o.Opener = d
	if o.QuietTime == 0 {
		o.QuietTime = time.Millisecond
	}
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return &table{t, d, h}
}

// call makes a call in a lane, as the gateway would.
func (b *table) call(ctx context.Context, lane, tool, args string) (capabilities.Output, error) {
	b.t.Helper()
	tools, err := catalog.Embedded()
	if err != nil {
		b.t.Fatal(err)
	}
	id := capabilities.CapabilityID("tyrum.desktop." + tool)
	d, _ := tools.ByCapability(id)
	split, bad, err := d.SplitArgs([]byte(args))
	if err != nil || len(bad) > 0 {
		b.t.Errorf("%s %s: %v %v", tool, args, bad, err)
	}
	granted := d.Manifest.Keys()
	out, err := b.h.Handle(ctx, capabilities.Invocation{
		Capability: id, Lane: capabilities.LaneID(lane), Args: split.Canonical,
		Observe: func(key, _ string) {
			if !slices.Contains(granted, key) {
				b.t.Errorf("%s uses %s, which it does not declare", tool, key)
			}
		},
	})
	if err == nil {
		text, marshalErr := json.Marshal(out.Result)
		if bad := d.ValidateResult(text); marshalErr != nil || len(bad) > 0 {
			b.t.Errorf("%s gives %s: %v %v", tool, text, bad, marshalErr)
		}
		if len(out.Evidence) > 300 {
			b.t.Errorf("%s: evidence of %d bytes", tool, len(out.Evidence))
		}
	}
	return out, err
}

func (b *table) do(tool, args string) map[string]any {
	b.t.Helper()
	m, _ := b.full(tool, args)
	return m
}

func (b *table) full(tool, args string) (map[string]any, capabilities.Output) {
	b.t.Helper()
	out, err := b.call(b.t.Context(), "a", tool, args)
	if err != nil {
		b.t.Fatalf("%s %s: %v %v", tool, args, err, capabilities.AsError(err).Unwrap())
	}
	var m map[string]any
	text, _ := json.Marshal(out.Result)
	if err := json.Unmarshal(text, &m); err != nil {
		b.t.Fatal(err)
	}
	return m, out
}

func (b *table) refused(code capabilities.Code, tool, args string) *capabilities.Error {
	b.t.Helper()
	_, err := b.call(b.t.Context(), "a", tool, args)
	if capabilities.CodeOf(err) != code {
		b.t.Errorf("%s %s: %v, want %s", tool, args, err, code)
	}
	return capabilities.AsError(err)
}

// before tries something in a bounded time and again, in twice the time, until the error
// is nil: on a busy machine the time may be over before the call comes to what it waits for.
func (b *table) before(bound time.Duration, try func(ctx context.Context) error) {
	b.t.Helper()
	for {
		ctx, cancel := context.WithTimeout(b.t.Context(), bound)
		err := try(ctx)
		cancel()
		if err == nil {
			return
		}
		if bound > 15*time.Second {
			b.t.Fatal(err)
		}
		b.t.Logf("within %s: %v", bound, err)
		bound *= 2
	}
}

// otherThan returns nil for an error of that code.
func otherThan(err error, code capabilities.Code) error {
	if capabilities.CodeOf(err) == code {
		return nil
	}
	return fmt.Errorf("%v, want %s", err, code)
}

// ops returns what the script saw since it had this many events.
func (b *table) ops(since int) []string {
	var list []string
	for _, e := range b.d.Events()[since:] {
		switch e.Op {
		case "input.button":
			list = append(list, fmt.Sprintf("%s %v at %d,%d", e.Button, e.Down, e.At.X, e.At.Y))
		case "input.key":
			list = append(list, fmt.Sprintf("%s %v", e.Key, e.Down))
		case "input.scroll":
			list = append(list, fmt.Sprintf("scroll %d %d", e.Right, e.DownBy))
		case "input.type":
			list = append(list, "type "+e.Text)
		}
	}
	return list
}

func (b *table) same(got []string, want ...string) {
	b.t.Helper()
	if !slices.Equal(got, want) {
		b.t.Errorf("%q, want %q", got, want)
	}
}

func (b *table) nothingHeld() {
	b.t.Helper()
	if keys, buttons := b.d.Held(); len(keys)+len(buttons) > 0 {
		b.t.Errorf("still down: %v %v", keys, buttons)
	}
}

func hammer(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

func (b *table) eventually(ok func() bool) {
	b.t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); {
		if time.Now().After(end) {
			b.t.Fatal("not within 30 s")
		}
		time.Sleep(time.Millisecond)
	}
}
