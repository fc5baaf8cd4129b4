package withhold

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

func as(p capabilities.PrincipalID) func() capabilities.PrincipalID {
	return func() capabilities.PrincipalID { return p }
}

func everything(capabilities.Place) bool { return true }

func text(c *Call, s string) string {
	a := wire.Answer{Output: []byte(s)}
	c.Answer(&a)
	return string(a.Output)
}

// A call gets nothing of a secret that lay there while it ran: not when it began
// before, and not when it answers after.
func TestEveryMomentCounts(t *testing.T) {
	var b Book
	before := b.Enter("main", everything, as("anna"))
	other := b.Enter("main", everything, as("bob"))
	delivery := b.Enter("main", everything, as("anna"))
	release := delivery.Hold(capabilities.NewSecret([]byte("hunter22")))
	during := b.Enter("main", everything, as("anna"))
	const said = `{"text":"it is hunter22."}`
	for name, c := range map[string]*Call{"before": before, "during": during, "delivery": delivery} {
		if got := text(c, said); got != `{"text":"it is [secret]."}` || c.Refuses() == nil {
			t.Errorf("%s: %s", name, got)
		}
	}
	if text(other, said) != said || other.Refuses() != nil {
		t.Error("another principal's results tell whether a guess is right")
	}
	if b.Held() != 1 {
		t.Error("not held")
	}
	release()
	release()
	looks := b.Enter("main", everything, as("anna"))
	if got := text(looks, said); got == said || looks.Refuses() != nil || b.Held() != 0 {
		t.Errorf("once it is cleared texts are kept free of it, and pictures are not refused: %s", got)
	}
	looks.Leave()
	b.CloseLane("another")
	b.CloseLane("main")
	after := b.Enter("main", everything, as("anna"))
	if text(after, said) != said || after.Refuses() != nil || b.Held() != 0 {
		t.Error("kept back although its lane ended before the call began")
	}
	for name, c := range map[string]*Call{"before": before, "during": during} {
		if text(c, said) == said || c.Refuses() == nil {
			t.Errorf("%s: told after its lane ended", name)
		}
	}
	for _, c := range []*Call{before, other, delivery, during, after} {
		c.Leave()
	}
	if len(b.holds) != 0 || len(b.calls) != 0 {
		t.Errorf("%d secrets and %d calls are remembered for nothing", len(b.holds), len(b.calls))
	}
}

// No text holds it, whatever the value and whatever stands around it, and JSON
// stays JSON.
func TestNoTextHoldsIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringN(4, 40, -1).Draw(t, "value")
		around := rapid.StringN(0, 20, -1).Draw(t, "around")
		var b Book
		c := b.Enter("main", everything, as("anna"))
		c.Hold(capabilities.NewSecret([]byte(value)))
		output, err := json.Marshal(map[string]any{
			"plain": around + value + around, "hex": hex.EncodeToString([]byte(value)),
			"b64": base64.StdEncoding.EncodeToString([]byte(value)), "percent": "q=" + url.QueryEscape(value), "list": []any{value, 7, true, nil},
			value: "as a key",
		})
		if err != nil {
			t.Fatal(err)
		}
		a := wire.Answer{Output: output, Details: output, Message: value, Hint: "x" + value, Evidence: value, Observed: []wire.Observation{{Key: "k", Detail: value}}}
		if !c.Answer(&a) {
			t.Fatal("nothing changed")
		}
		var back, details any
		if json.Unmarshal(a.Output, &back) != nil || json.Unmarshal(a.Details, &details) != nil {
			t.Fatalf("no JSON any more: %s", a.Output)
		}
		all := fmt.Sprint(back, details, a.Message, a.Hint, a.Evidence, a.Observed[0].Detail)
		for _, form := range []string{value, hex.EncodeToString([]byte(value)), base64.RawStdEncoding.EncodeToString([]byte(value))} {
			if strings.Contains(strings.ReplaceAll(all, Mark, "\x00"), form) && !strings.Contains(Mark, form) {
				t.Fatalf("%q is in %q", form, all)
			}
		}
	})
}

func TestBlobs(t *testing.T) {
	var b Book
	c := b.Enter("main", everything, as("anna"))
	picture := []capabilities.Blob{{MIME: "image/png", Bytes: []byte("x")}}
	if got, err := c.Blobs(picture); err != nil || len(got) != 1 {
		t.Error("a picture was refused for nothing")
	}
	release := c.Hold(capabilities.NewSecret([]byte("4711")))
	if _, err := c.Blobs(picture); err == nil || err.Code != capabilities.CodeSecretHeld {
		t.Error("a picture left")
	}
	if got, err := c.Blobs([]capabilities.Blob{{MIME: "text/html", Bytes: []byte("<b>4711</b>")}}); err != nil || string(got[0].Bytes) != "<b>[secret]</b>" {
		t.Errorf("%v %v", got, err)
	}
	if got := text(c, `{"pin":4711,"n":47110,"deep":[-4711]}`); got != `{"pin":"[secret]","n":47110,"deep":[-4711]}` {
		t.Error(got)
	}
	if c.Text("x4711") != "x[secret]" {
		t.Error("Text")
	}
	release()
	c.Leave()
}

func FuzzReplaceJSON(f *testing.F) {
	f.Add([]byte(`{"a":"secret","b":[1,"x\"secret\\"]}`), "secret")
	f.Add([]byte(`"unfinished \`), "x")
	f.Add([]byte(`{"n":12.5e3}`), "12.5e3")
	f.Fuzz(func(t *testing.T, data []byte, value string) {
		if value == "" {
			return
		}
		forms := formsOf(capabilities.NewSecret([]byte(value)))
		out := forms.replaceJSON(data, nil)
		if json.Valid(data) && !json.Valid(out) {
			t.Fatalf("%q became %q, which is no JSON", data, out)
		}
	})
}

// No piece of four characters and more is told, wherever the text was cut; shorter ones
// are, and so is what only looks like it.
func TestPiecesAreKeptBack(t *testing.T) {
	var b Book
	c := b.Enter("main", everything, as("anna"))
	c.Hold(capabilities.NewSecret([]byte("Zq7-Hunter-Kx42=====é€ß")))
	for said, want := range map[string]string{
		"Zq7-H_unter-Kx42": "[secret]_[secret]", "the Hunter's": "the [secret]'s", "Hun ter": "Hun ter", "=====": "=====", "x====y": "x====y",
		"hunter": "h[secret]", "Kx42=": "[secret]", "42=====é": "[secret]", "2026 Kx4": "2026 Kx4", "=é€ß": "[secret]", "=é€": "=é€",
	} {
		if got := c.Text(said); got != want {
			t.Errorf("%q became %q, not %q", said, got, want)
		}
	}
	coded := base64.StdEncoding.EncodeToString([]byte("Zq7-Hunter-Kx42=====é€ß"))
	if got := c.Text("a " + coded[:14] + " b"); got != "a [secret] b" {
		t.Errorf("a piece of an encoding: %q", got)
	}
	if got := text(c, `{"Hunter":"Hunter","n":42}`); got != `{"Hunter":"[secret]","n":42}` {
		t.Errorf("a piece that is a field's name: %s", got)
	}
	if got := string(c.Restore([]byte(`{"kind":"Hunter","text":"Hunter"}`), []byte(`{"kind":"[secret]","text":"[secret]"}`), []string{"/kind"})); got != `{"kind":"Hunter","text":"[secret]"}` {
		t.Errorf("a word of a closed list: %s", got)
	}
}

// Of all that is cut out of it, a piece of four characters and more, not all the same, is
// always found, and what has none is left as it is.
func TestEveryPieceIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching("[abé€]{4,24}").Draw(t, "value")
		data := rapid.StringMatching("[abcé€]{0,40}").Draw(t, "data")
		p := piecesOf([]byte(value), leastPiece)
		var covered [400]bool
		p.spans([]byte(data), func(begin, end int) {
			if !strings.Contains(value, data[begin:end]) {
				t.Fatalf("%q is no piece", data[begin:end])
			}
			for i := begin; i < end; i++ {
				covered[i] = true
			}
		})
		runes := []rune(data)
		for i := range runes {
			for j := i + leastPiece; j <= len(runes); j++ {
				piece := string(runes[i:j])
				if !strings.Contains(value, piece) || strings.Count(piece, string(runes[i])) == j-i {
					continue
				}
				for k := len(string(runes[:i])); k < len(string(runes[:j])); k++ {
					if !covered[k] {
						t.Fatalf("%q of %q is told in %q", piece, value, data)
					}
				}
			}
		}
	})
}

type spot struct{ here *bool }

func (s spot) Here() bool { return *s.here }

// After a paste the place is not looked at until it is left, or a person says so; others'
// secrets are not pasted.
func TestAPlaceIsNotLookedAt(t *testing.T) {
	var b Book
	one, two := true, true
	first, second := spot{&one}, spot{&two}
	only := func(p spot) func(capabilities.Place) bool {
		return func(o capabilities.Place) bool { return o == capabilities.Place(p) }
	}
	c := b.Enter("main", everything, as("anna"))
	paste := func(c *Call, s spot) *capabilities.Error {
		return c.Pasting(func() capabilities.Place { return s })
	}
	if err := paste(c, first); err != nil || len(b.pasted) != 0 {
		t.Error("a paste of nothing is noted")
	}
	release := c.Hold(capabilities.NewSecret([]byte("hunter22")))
	other := b.Enter("main", everything, as("bob"))
	if err := paste(other, second); err == nil || err.Code != capabilities.CodeSecretHeld {
		t.Error("somebody else pastes it")
	}
	for range 2 {
		if paste(c, first) != nil || paste(c, second) != nil {
			t.Error("it cannot be pasted")
		}
	}
	release()
	if c.Leave(); len(b.pasted) != 2 {
		t.Errorf("%d places", len(b.pasted))
	}
	looking := func(p spot) *Call { return b.Enter("main", only(p), as("anna")) }
	now := b.Enter("main", everything, as("anna"))
	if looking(first).Refuses() == nil || looking(second).Refuses() == nil || other.Refuses() != nil {
		t.Error("a place is looked at, or one of another's is refused")
	}
	if one = false; looking(first).Refuses() != nil {
		t.Error("a place that was left is refused")
	}
	if one = true; looking(first).Refuses() == nil {
		t.Error("a place that came back is not refused")
	}
	b.Done("another")
	if looking(second).Refuses() == nil {
		t.Error("the word on another lane counts")
	}
	b.Done("main")
	if now.Refuses() != nil || text(now, `"hunter22"`) != `"[secret]"` {
		t.Error("after a person's word pictures are refused, or texts are not kept free of it")
	}
}

// The longest value there is costs no more than a moment, whatever is read.
func TestALongValue(t *testing.T) {
	for _, value := range []string{strings.Repeat("ab", capabilities.MaxSecret/2), strings.Repeat("a", capabilities.MaxSecret-1) + "b"} {
		f := formsOf(capabilities.NewSecret([]byte(value)))
		f.replace([]byte(strings.Repeat(value[:1000]+"x", 1000)), nil)
		f.wipe()
	}
}

// elsewhere is what a call can look at whose browser has no window on the desktop.
func elsewhere(capabilities.Place) bool { return false }

// Where a value cannot be, no text says which guess is a piece of it.
func TestNothingIsTakenOutWhereItCannotBe(t *testing.T) {
	var b Book
	desk := b.Enter("main", everything, as("anna"))
	release := desk.Hold(capabilities.NewSecret([]byte("hunter22")))
	guess := b.Enter("oracle", elsewhere, as("anna"))
	for _, when := range []string{"in the clipboard", "cleared"} {
		a := wire.Answer{Output: []byte(`{"result":"hunt~unte~xxxx","hunter22":1}`), Message: "hunt", Hint: "nter", Evidence: "ter2", Observed: []wire.Observation{{Detail: "hunt"}}}
		was := fmt.Sprint(a)
		if guess.Answer(&a) || fmt.Sprint(a) != was || guess.Text("hunter22") != "hunter22" {
			t.Errorf("%s: it says which guess is right: %s", when, a.Output)
		}
		if got := desk.Text("hunt~xxxx"); got != "[secret]~xxxx" {
			t.Errorf("%s: where it can be: %s", when, got)
		}
		release()
	}
}

// The words of this program stay as they are: those of a code, and the names of fields.
func TestOwnWordsStay(t *testing.T) {
	var b Book
	b.Names([]string{"interactive_only"})
	c := b.Enter("main", everything, as("anna"))
	c.Hold(capabilities.NewSecret([]byte("hunter22-until")))
	for said, want := range map[string]string{
		"interactive_only or max_chars": "interactive_only or max_chars", "xinteractive_only": "xi[secret]active_only", "hunter22-until": "[secret]", "the hunter": "the [secret]",
	} {
		if got := c.Text(said); got != want {
			t.Errorf("%q became %q", said, got)
		}
	}
	own := capabilities.Error{Code: capabilities.CodeSecretHeld}
	a := wire.Answer{Code: own.Code, Message: own.PublicMessage(), Hint: own.PublicHint()}
	if c.Answer(&a); a.Message != own.PublicMessage() || a.Hint != own.PublicHint() || !strings.Contains(a.Hint, "until") {
		t.Errorf("%s (%s)", a.Message, a.Hint)
	}
	if a.Hint += " hunter"; c.Text("until") != "[secret]" || c.Answer(&a) || strings.Contains(a.Hint, "hunter") {
		t.Errorf("what a page says: %s", a.Hint)
	}
}

type numbered int

func (numbered) Here() bool { return true }

// No place is forgotten for another: beyond the bound the whole screen is one, for that
// principal alone, until the lane that pasted ends or a person says so.
func TestManyPastesHideNone(t *testing.T) {
	var b Book
	c := b.Enter("main", everything, as("anna"))
	release := c.Hold(capabilities.NewSecret([]byte("hunter22")))
	paste := func(c *Call, p capabilities.Place) {
		if err := c.Pasting(func() capabilities.Place { return p }); err != nil {
			t.Fatal(err)
		}
	}
	first := func(p capabilities.Place) bool { return p == capabilities.Place(numbered(0)) }
	last := func(p capabilities.Place) bool { return p == capabilities.Place(numbered(3*maxPasted)) }
	onScreen := func(p capabilities.Place) bool { return p == capabilities.Place(screen{}) }
	paste(c, numbered(0))
	other := b.Enter("flood", everything, as("anna"))
	for i := range 3 * maxPasted {
		paste(other, numbered(i+1))
	}
	release()
	if len(b.pasted) > maxPasted+1 {
		t.Errorf("%d places", len(b.pasted))
	}
	refused := func(shows func(capabilities.Place) bool, who capabilities.PrincipalID) bool {
		return b.Enter("look", shows, as(who)).Refuses() != nil
	}
	if !refused(first, "anna") {
		t.Error("the first place is forgotten")
	}
	if !refused(onScreen, "anna") || refused(last, "anna") || refused(everything, "bob") {
		t.Error("beyond the bound")
	}
	b.Done("flood")
	if !refused(first, "anna") || refused(onScreen, "anna") {
		t.Error("a person's word on the lane that flooded")
	}
}

// A secret that a call could look at while it ran counts, also where its lane has ended before its
// answer leaves.
func TestALaneThatEndsFirstCounts(t *testing.T) {
	var b Book
	window := true
	looks := func(capabilities.Place) bool { return window }
	before := b.Enter("main", looks, as("anna"))
	delivery := b.Enter("main", looks, as("anna"))
	release := delivery.Hold(capabilities.NewSecret([]byte("hunter22")))
	during := b.Enter("main", looks, as("anna"))
	window = false // the handler forgets the lane, and then the book is told
	const said = `{"text":"it is hunter22."}`
	after := b.Enter("main", looks, as("anna"))
	release()
	b.CloseLane("main")
	for name, c := range map[string]*Call{"before": before, "during": during} {
		if got := text(c, said); got == said {
			t.Errorf("%s: told after its lane ended", name)
		}
	}
	if got := text(after, said); got != said {
		t.Errorf("a call that never could look: %s", got)
	}
	for _, c := range []*Call{before, delivery, during, after} {
		c.Leave()
	}
	asked := b.Enter("main", func(capabilities.Place) bool { t.Error("asked without a secret"); return false }, as("anna"))
	_ = text(asked, said)
	asked.Leave()
}
