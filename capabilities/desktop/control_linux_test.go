package desktop

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/test/desk"
)

// control has a person take the desk over; back ends it, and returns how.
func (b *bench) control(lane capabilities.LaneID, args string) (word controlWord, back func() error) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	b.t.Cleanup(cancel)
	words, end := make(chan json.RawMessage, 8), make(chan error, 1)
	go func() {
		_, err := b.h.Handle(ctx, capabilities.Invocation{Capability: controlID, Lane: lane, Args: []byte(args), Progress: func(p capabilities.Progress) { words <- p.Data }})
		end <- err
	}()
	select {
	case data := <-words:
		word.controlFrame = &controlFrame{}
		if err := errors.Join(json.Unmarshal(data, word.controlFrame), json.Unmarshal(data, &struct{ Taken *bool }{&word.Taken})); err != nil || !word.Taken {
			b.t.Fatalf("%s: %v", data, err)
		}
	case err := <-end:
		b.t.Fatalf("not taken over: %v", err)
	}
	return word, func() error { cancel(); return <-end }
}

func (b *bench) as(lane capabilities.LaneID, tool, args string) (capabilities.Output, error) {
	return b.h.Handle(b.t.Context(), capabilities.Invocation{Capability: capabilities.CapabilityID("tyrum.desktop." + tool), Lane: lane, Args: []byte(args)})
}

// The person who takes over has mouse and keyboard alone: what another lane types stops, what it
// holds comes up, what it calls is refused if that lasts; and what was held by whoever took over
// comes up when they hand back.
func TestTakenOver(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a desktop; run without -short")
	}
	t.Parallel()
	d := desk.StartX(t, desk.Options{NoBus: true})
	f := d.Fixture(desk.GTK3, 5)
	b := realBench(t, d)
	must := func(_ capabilities.Output, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	is := func(err error, code capabilities.Code) {
		t.Helper()
		if capabilities.CodeOf(err) != code {
			t.Errorf("%v, want %s", err, code)
		}
	}
	up := func(button int) func(desk.Event) bool {
		return func(e desk.Event) bool { return e.Kind == "button" && e.Button == button && !e.Down }
	}
	at := func(widget, action, more string) string {
		box := f.Box(widget)
		text, err := json.Marshal(map[string]any{"action": action, "x": box.X + box.Width/2, "y": box.Y + box.Height/2})
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSuffix(string(text), "}") + more + "}"
	}

	must(b.as("robot", "mouse", at("entry", "click", "")))
	typing := make(chan error, 1)
	go func() {
		_, err := b.as("robot", "keyboard", `{"action":"type","text":"`+strings.Repeat("robot ", 5000)+`"}`)
		typing <- err
	}()
	f.Await("the typing", func(e desk.Event) bool { return e.Kind == "text" && strings.Contains(e.Text, "robot") })
	word, back := b.control("ann", `{}`)
	is(<-typing, capabilities.CodeTakenOver)
	if word.Width != 1280 || word.Height != 800 {
		t.Fatalf("the frame: %+v", word.controlFrame)
	}
	_, err := b.as("robot", "mouse", at("button", "click", ""))
	is(err, capabilities.CodeTakenOver)
	_, err = b.as("robot", "keyboard", `{"action":"type","text":"x"}`)
	is(err, capabilities.CodeTakenOver)
	_, err = b.h.Handle(t.Context(), capabilities.Invocation{Capability: controlID, Lane: "ben", Args: []byte(`{}`)})
	is(err, capabilities.CodeTakenOver)
	n := len(f.Events())
	must(b.as("ann", "mouse", at("button", "click", `,"frame_id":"`+word.FrameID+`"`)))
	f.AwaitAfter(n, "the click", func(e desk.Event) bool { return e.Kind == "clicked" })
	n = len(f.Events())
	must(b.as("ann", "mouse", at("text", "down", "")))
	// The gateway may let the next call go before this device knows that it is over.
	early := make(chan error, 1)
	go func() {
		_, err := b.as("robot", "mouse", at("entry", "click", ""))
		early <- err
	}()
	is(back(), capabilities.CodeCancelled)
	f.AwaitAfter(n, "the button to come up", up(1))
	if err := <-early; err != nil {
		t.Errorf("a call that came while the device was handed back: %v", err)
	}

	n = len(f.Events())
	must(b.as("robot", "mouse", at("text", "down", "")))
	_, back = b.control("ann", `{"pause":true}`)
	f.AwaitAfter(n, "the agent's button to come up", up(1))
	is(back(), capabilities.CodeCancelled)
	must(b.as("robot", "mouse", at("entry", "click", "")))
}
