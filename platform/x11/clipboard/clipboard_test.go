package clipboard

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jezek/xgb/xproto"
	"golang.design/x/clipboard"

	"github.com/handrail-dev/handrail/platform/x11/wire"
	"github.com/handrail-dev/handrail/platform/x11/x11test"
	"github.com/handrail-dev/handrail/test/desk"
)

func openClipboard(t testing.TB, d *desk.Desk) *Clipboard {
	t.Helper()
	c, err := New(x11test.Within(t), wire.Options{Display: d.Display})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestClipboardInACallThatEnded(t *testing.T) {
	d := x11test.Bare(t, "640x480")
	ctx, cancel := context.WithCancel(x11test.Within(t))
	cancel()
	if _, err := New(ctx, wire.Options{Display: d.Display}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// Small text, and text that comes in pieces, is the same for xclip and for us,
// both ways.
func TestClipboardRoundTrip(t *testing.T) {
	d := x11test.Bare(t, "640x480")
	c := openClipboard(t, d)
	if got, err := c.Read(x11test.Within(t)); got != "" || err != nil {
		t.Errorf("an empty clipboard reads %q: %v", got, err)
	}
	for _, text := range []string{"é漢😀", "plain", "", strings.Repeat("a", maxClipboardChars), strings.Repeat("漢", maxClipboardChars), strings.Repeat("😀x", maxClipboardChars/2)} {
		if err := c.Write(x11test.Within(t), text, false, 0); err != nil {
			t.Fatal(err)
		}
		if got, ok := d.Clipboard(); got != text || !ok && text != "" {
			t.Errorf("xclip reads %d bytes of %d", len(got), len(text))
		}
	}
	big := strings.Repeat("漢字 from xclip\n", 40_000)
	for _, text := range []string{"é漢😀 by xclip", big} {
		d.SetClipboard(text)
		if got, err := c.Read(x11test.Within(t)); got != text || err != nil {
			t.Errorf("read %d bytes of %d: %v", len(got), len(text), err)
		}
	}
	if cleared, err := c.Clear(x11test.Within(t)); cleared || err != nil {
		t.Errorf("what xclip put there was cleared: %v, %v", cleared, err)
	}
	if got, _ := d.Clipboard(); got != big {
		t.Error("what xclip put there is gone")
	}
	if err := c.Write(x11test.Within(t), strings.Repeat("a", maxClipboardChars+1), false, 0); err == nil {
		t.Error("too much was written")
	}
}

// The answer to a read that was given up is not taken for the next one's.
func TestClipboardAnswersLate(t *testing.T) {
	d := x11test.Bare(t, "640x480")
	c := openClipboard(t, d)
	owner := x11test.Dial(t, d)
	w, err := owner.NewWindow(x11test.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	requests := owner.Subscribe(t.Context(), func(e wire.Event) bool { return e.Code == xproto.SelectionRequest })
	if err := owner.Do(x11test.Within(t), func() error {
		return xproto.SetSelectionOwnerChecked(owner.X, w, c.atoms.clipboard, xproto.TimeCurrentTime).Check()
	}); err != nil {
		t.Fatal(err)
	}
	answer := func(e wire.Event, text string) {
		r := xproto.SelectionRequestEventNew(e.Data).(xproto.SelectionRequestEvent)
		said := xproto.SelectionNotifyEvent{Time: r.Time, Requestor: r.Requestor, Selection: r.Selection, Target: r.Target, Property: r.Property}
		if err := owner.Do(x11test.Within(t), func() error {
			xproto.ChangeProperty(owner.X, xproto.PropModeReplace, r.Requestor, r.Property, r.Target, 8, uint32(len(text)), []byte(text))
			return xproto.SendEventChecked(owner.X, false, r.Requestor, 0, string(said.Bytes())).Check()
		}); err != nil {
			t.Errorf("the answer %q: %v", text, err)
		}
	}
	type result struct {
		text string
		err  error
	}
	read := func(ctx context.Context) chan result {
		done := make(chan result, 1)
		go func() {
			text, err := c.Read(ctx)
			done <- result{text, err}
		}()
		return done
	}
	given, giveUp := context.WithCancel(x11test.Within(t))
	first := read(given)
	late := <-requests
	giveUp()
	if r := <-first; !errors.Is(r.err, context.Canceled) {
		t.Fatalf("the read that was given up: %q, %v", r.text, r.err)
	}
	second := read(x11test.Within(t))
	request := <-requests
	answer(late, "old")
	answer(request, "new")
	if r := <-second; r.text != "new" || r.err != nil {
		t.Errorf("the next one read %q: %v", r.text, r.err)
	}
}

// A time that is over clears its own text, and not one that was put there meanwhile.
func TestClipboardClearsItsOwnText(t *testing.T) {
	d := x11test.Bare(t, "640x480")
	c := openClipboard(t, d)
	if err := c.Write(x11test.Within(t), "first", true, time.Hour); err != nil {
		t.Fatal(err)
	}
	first := c.serve.held()
	if err := c.Write(x11test.Within(t), "second", true, time.Hour); err != nil {
		t.Fatal(err)
	}
	// The first one's timer had fired before it was stopped.
	if cleared, err := c.serve.disown(x11test.Within(t), first); cleared || err != nil {
		t.Errorf("cleared %v: %v", cleared, err)
	}
	if got, _ := d.Clipboard(); got != "second" {
		t.Errorf("the clipboard holds %q", got)
	}
	if cleared, err := c.Clear(x11test.Within(t)); !cleared || err != nil {
		t.Errorf("cleared %v: %v", cleared, err)
	}
}

// A concealed text says so, and is cleared when its time is over.
func TestClipboardConceals(t *testing.T) {
	d := x11test.Bare(t, "640x480")
	c := openClipboard(t, d)
	if err := c.Write(x11test.Within(t), "hunter2", true, 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if all := d.ClipboardTargets(); len(all) > 0 && !slices.Contains(all, "x-kde-passwordManagerHint") {
		t.Errorf("a concealed text is offered as %q", all)
	}
	desk.Await(t, "the text to be cleared", func() bool { _, ok := d.Clipboard(); return !ok })
	if err := c.Write(x11test.Within(t), "open", false, time.Hour); err != nil {
		t.Fatal(err)
	}
	if all := d.ClipboardTargets(); slices.Contains(all, "x-kde-passwordManagerHint") || !slices.Contains(all, "STRING") || !slices.Contains(all, "UTF8_STRING") {
		t.Errorf("an open text is offered as %q", all)
	}
	if cleared, err := c.Clear(x11test.Within(t)); !cleared || err != nil {
		t.Errorf("ours was not cleared: %v, %v", cleared, err)
	}
	if got, ok := d.Clipboard(); ok {
		t.Errorf("after clearing there is %q", got)
	}
	if cleared, err := c.Clear(x11test.Within(t)); cleared || err != nil {
		t.Errorf("cleared twice: %v, %v", cleared, err)
	}
	// A copy that the person makes meanwhile stays, however the two race.
	for range 10 {
		if err := c.Write(x11test.Within(t), "ours", true, 0); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() { defer close(done); _, _ = c.Clear(x11test.Within(t)) }()
		d.SetClipboard("the person's")
		<-done
		if got, _ := d.Clipboard(); got != "the person's" {
			t.Fatalf("what the person copied became %q", got)
		}
	}
}

// A reader that asks for a large text and takes no piece of it is forgotten.
func TestClipboardForgetsReaders(t *testing.T) {
	d := x11test.Bare(t, "640x480")
	c := openClipboard(t, d)
	if err := c.Write(x11test.Within(t), strings.Repeat("漢", maxClipboardChars), false, 0); err != nil {
		t.Fatal(err)
	}
	reader := x11test.Dial(t, d)
	w, err := reader.NewWindow(x11test.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	waiting := func() int {
		c.serve.mu.Lock()
		defer c.serve.mu.Unlock()
		return len(c.serve.sending)
	}
	answers := reader.Subscribe(x11test.Within(t), func(e wire.Event) bool { return e.Code == xproto.SelectionNotify })
	for i := range maxReaders * 2 {
		if err := reader.Do(x11test.Within(t), func() error {
			return xproto.ConvertSelectionChecked(reader.X, w, c.atoms.clipboard, c.atoms.utf8, xproto.Atom(i+1), 0).Check()
		}); err != nil {
			t.Fatal(err)
		}
	}
	// Each is answered, with a refusal beyond the bound: who is heard later than the
	// others are forgotten would have their place.
	for i := range maxReaders * 2 {
		select {
		case _, open := <-answers:
			if !open {
				t.Fatal("the connection ended")
			}
		case <-x11test.Within(t).Done():
			t.Fatalf("%d of %d readers were answered", i, maxReaders*2)
		}
	}
	if n := waiting(); n != maxReaders {
		t.Fatalf("%d readers are waited for", n)
	}
	c.serve.sweep(time.Now())
	if waiting() != maxReaders {
		t.Error("readers were forgotten before their time")
	}
	c.serve.sweep(time.Now().Add(readerStep + time.Second))
	if waiting() != 0 {
		t.Error("readers were not forgotten")
	}
	if got, err := c.Read(x11test.Within(t)); len(got) != 3*maxClipboardChars || err != nil {
		t.Errorf("a reader that reads got %d bytes: %v", len(got), err)
	}
	_ = reader.Close()
	desk.Await(t, "no reader to be left", func() bool { return waiting() == 0 })
}

// golang.design/x/clipboard as another program: it reads what we serve, and we read what
// it serves, a text in one piece of any length, and one that it lets go after its first
// reader. It has its display from the environment alone.
func TestClipboardWithAnotherLibrary(t *testing.T) {
	d := x11test.Bare(t, "640x480")
	t.Setenv("DISPLAY", d.Display)
	c := openClipboard(t, d)
	// Two faults of v0.9.0 keep it from more here. It takes a text that comes in pieces
	// (INCR) for the four bytes that announce it, without an error; that it does so still
	// is looked at below. And under Wayland it reads a pipe to its end without a context
	// or a bound, under the lock of its package.
	for _, text := range []string{"é漢😀", strings.Repeat("é", maxPiece/2)} {
		if err := c.Write(x11test.Within(t), text, true, 0); err != nil {
			t.Fatal(err)
		}
		if got, err := clipboard.Read(x11test.Within(t), clipboard.FmtText); string(got) != text || err != nil {
			t.Errorf("it reads %d bytes of %d: %v", len(got), len(text), err)
		}
	}
	if err := c.Write(x11test.Within(t), strings.Repeat("漢", maxClipboardChars), true, 0); err != nil {
		t.Fatal(err)
	}
	if got, err := clipboard.Read(x11test.Within(t), clipboard.FmtText); len(got) != 4 || err != nil {
		t.Errorf("it reads %d bytes of a text in pieces (%v): if it knows INCR now, say so here and in docs/dependencies.md", len(got), err)
	}
	for _, text := range []string{"é漢😀", strings.Repeat("漢", maxClipboardChars)} {
		gone, err := clipboard.Write(x11test.Within(t), clipboard.FmtText, []byte(text), clipboard.Loops(1))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.Read(x11test.Within(t)); got != text || err != nil {
			t.Errorf("read %d bytes of %d: %v", len(got), len(text), err)
		}
		select {
		case <-gone:
		case <-x11test.Within(t).Done():
			t.Fatal("it did not let go after one reader")
		}
		if got, err := c.Read(x11test.Within(t)); got != "" || err != nil {
			t.Errorf("what was served once reads %d bytes: %v", len(got), err)
		}
	}
	// Its text is not ours to clear, and it hears at once of ours.
	gone, err := clipboard.Write(x11test.Within(t), clipboard.FmtText, []byte("theirs"))
	if err != nil {
		t.Fatal(err)
	}
	if cleared, err := c.Clear(x11test.Within(t)); cleared || err != nil {
		t.Errorf("theirs was cleared: %v, %v", cleared, err)
	}
	if err := c.Write(x11test.Within(t), "ours", false, 0); err != nil {
		t.Fatal(err)
	}
	select {
	case <-gone:
	case <-x11test.Within(t).Done():
		t.Error("it was not told")
	}
}
