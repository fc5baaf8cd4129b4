package input

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/x11/wire"
	"github.com/handrail-dev/handrail/platform/x11/x11test"
	"github.com/handrail-dev/handrail/test/desk"
)

func openInput(t testing.TB, d *desk.Desk) *Input {
	t.Helper()
	in, err := New(x11test.Within(t), wire.Options{Display: d.Display}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })
	return in
}

// sixLanguages has letters that no single keyboard has, of several scripts, and
// an emoji that is more than one character.
const sixLanguages = "The quick brown fox; Zwölf Boxkämpfer jagen Viktor; Съешь же ещё этих мягких булок; " +
	"Ξεσκεπάζω την ψυχοφθόρα; いろはにほへと 色は匂へど; 視野無限廣 窗外有藍天; ¿Qué? «Ça» — naïve €5 ½ 😀👩‍🚀"

// han returns n characters that no keyboard has, hardly one twice.
func han(n int) string {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	var b strings.Builder
	for range n {
		b.WriteRune(rune(0x4e00 + r.IntN(0x5000)))
	}
	return b.String()
}

// typist is a program that text is typed into: read returns what it holds.
type typist struct {
	name  string
	many  int // characters that the keyboard lacks: several times what there are spare keys
	start func(t *testing.T, d *desk.Desk) (read func() string, clear func())
}

var typists = []typist{
	{"gtk3", 300, fixtureEntry(desk.GTK3)}, {"gtk4", 300, fixtureEntry(desk.GTK4)}, {"qt", 300, fixtureEntry(desk.Qt)},
	{"xterm", 300, func(t *testing.T, d *desk.Desk) (func() string, func()) {
		app, lines := d.Xterm()
		d.Activate(app.Window.ID)
		return func() string { // a line may come while we look
			all := lines()
			return strings.TrimSuffix(all[len(all)-1], "\n")
		}, func() {}
	}},
	// Chromium, and the window manager before it gets a click, read the keyboard anew
	// for each key that is lent, which keeps a busy machine busy for long.
	{"chromium", 60, func(t *testing.T, d *desk.Desk) (func() string, func()) {
		// The characters are not painted, and the title tells them by number: Chromium
		// and the window manager look for a font for each new one, which takes longer
		// than all the rest.
		// A page is titled before its field is there, its field is there before it has the
		// keyboard, and until it is painted for the first time Chromium drops every key.
		app := d.Chromium(`<title>opening</title><input id=i autofocus style="width:90%; -webkit-text-security: disc"><script>
			let soon
			i.oninput = () => {
				clearTimeout(soon)
				soon = setTimeout(() => document.title = "=" + [...i.value].map(c => c.codePointAt(0).toString(16)).join(" "), 20)
			}
			onclick = () => { i.value = ""; document.title = "ready"; i.focus() }
			onfocus = () => i.focus()
			const painted = () => performance.getEntriesByType("paint").length > 0
			const look = () => document.hasFocus() && document.activeElement === i && painted() ? document.title = "ready" : setTimeout(look, 20)
			look()
		</script>`)
		d.Activate(app.Window.ID)
		desk.Await(t, "the field to have the keyboard", func() bool { return strings.HasPrefix(app.Title(), "ready") })
		return func() string { return numbered(app.Title()) }, func() {
			d.Xdotool("mousemove", "400", "300", "click", "1")
			desk.Await(t, "an empty field", func() bool { return strings.HasPrefix(app.Title(), "ready") })
		}
	}},
}

// numbered returns the text whose characters a title tells by number.
func numbered(title string) string {
	_, list, _ := strings.Cut(title, "=")
	var b strings.Builder
	for _, word := range strings.Fields(list) {
		n, err := strconv.ParseUint(word, 16, 32)
		if err != nil {
			break // what the window manager adds
		}
		b.WriteRune(rune(n))
	}
	return b.String()
}

func fixtureEntry(kit desk.Toolkit) func(t *testing.T, d *desk.Desk) (func() string, func()) {
	return func(t *testing.T, d *desk.Desk) (func() string, func()) {
		f := d.Fixture(kit, 3)
		d.Activate(f.Window.ID)
		f.Do(map[string]any{"do": "focus", "widget": "entry"})
		return func() string { return f.Read("entry").Text }, func() { f.Do(map[string]any{"do": "text", "widget": "entry", "text": ""}) }
	}
}

// typed types text and compares what arrived.
func typed(t *testing.T, in *Input, name, text string, read func() string, clear func()) {
	t.Helper()
	begun := time.Now()
	press := text
	if name == "xterm" {
		press += "\n"
	}
	n, err := in.Type(x11test.Within(t), press)
	took := time.Since(begun)
	if err != nil || n != utf8.RuneCountInString(press) {
		t.Fatalf("%s: typed %d of %d characters: %v", name, n, utf8.RuneCountInString(press), err)
	}
	deadline := time.Now().Add(desk.Within)
	for time.Now().Before(deadline) && read() != text {
		time.Sleep(20 * time.Millisecond)
	}
	if got := read(); got != text {
		t.Fatalf("%s shows\n%q, typed was\n%q", name, got, text)
	}
	t.Logf("%s: %d characters at %.0f/s", name, n, float64(n)/took.Seconds())
	clear()
}

// load keeps n processors busy until the test ends. Programs of their own do it:
// in this one they would keep the test itself from looking.
func load(t *testing.T, d *desk.Desk, n int) {
	for range n {
		d.Start("sh", "-c", "while :; do :; done")
	}
}

// Every program gets every character, one that is busy, too.
func TestTypeArrives(t *testing.T) {
	for _, p := range typists {
		t.Run(p.name, func(t *testing.T) {
			d := desk.StartX(t, desk.Options{})
			read, clear := p.start(t, d)
			in := openInput(t, d)
			latin := strings.Repeat("The quick Brown fox jumps over the lazy dog, 0123456789 times!", 4)
			typed(t, in, p.name, latin, read, clear)
			typed(t, in, p.name, sixLanguages, read, clear)
			typed(t, in, p.name, han(p.many), read, clear)
			load(t, d, 2)
			typed(t, in, p.name, han(p.many/2), read, func() {})
		})
	}
}

// Text that cannot be typed is refused before the first key.
func TestTypeRefuses(t *testing.T) {
	d := x11test.Bare(t, "640x480")
	in := openInput(t, d)
	for _, text := range []string{"a\x07", "\x1b[A", "a\xff", "\u0085", "x\uFFFF"} {
		if n, err := in.Type(x11test.Within(t), text); n != 0 || !errors.Is(err, platform.ErrUntypable) {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
	if n, err := in.Type(x11test.Within(t), ""); n != 0 || err != nil {
		t.Errorf("nothing: %d, %v", n, err)
	}
	ctx, cancel := context.WithCancel(x11test.Within(t))
	cancel()
	if _, err := in.Type(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("ended: %v", err)
	}
}
